//! A change on trial: new limits that are undone by themselves when what they do is worse.

use super::gate::Counts;
use super::ledger::Account;
use super::limits::Limits;
use super::{RefusalReason, Terminal};
use crate::time::{Timestamp, ms};

/// Ages that are kept for the percentile; one is taken a second.
const SAMPLES_MAX: usize = 3_600;
/// Fewer ages than this say nothing.
const SAMPLES_MIN: usize = 5;

/// What a change must not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Criterion {
    /// Age of the oldest waiting, 95 of 100 samples, in milliseconds.
    pub queue_age_p95_ms: Option<u64>,
    /// Refused of offered, in per cent.
    pub refused_pct: Option<u64>,
    /// Cancelled work that still holds its units.
    pub cleanup_pending: Option<u64>,
    /// Failed of ended, in per cent.
    pub failed_pct: Option<u64>,
    /// How long the change is watched; after that it stays.
    pub window_ms: u64,
    /// Rates are judged from this many on.
    pub at_least: u64,
}

/// How a trial stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is watched.
    Running,
    /// Its window is over and it stays.
    Kept,
    /// It was undone.
    Undone(Breach),
}

/// What a change did that it must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Breach {
    /// Which measure, by the name of its field.
    pub measure: &'static str,
    /// What was seen.
    pub seen: u64,
    /// What was allowed.
    pub limit: u64,
}

/// A change that is watched.
#[derive(Clone, Debug)]
pub struct Trial {
    criterion: Criterion,
    before: Limits,
    began: Timestamp,
    sampled: Option<Timestamp>,
    offered: u64,
    refused: u64,
    ended: u64,
    failed: u64,
    ages_ms: Vec<u64>,
}

impl Trial {
    /// Begins at the moment of the change; `before` is what it goes back to.
    pub fn new(now: Timestamp, criterion: Criterion, before: Limits, account: &Account) -> Self {
        Trial {
            criterion,
            before,
            began: now,
            sampled: None,
            offered: account.offered,
            refused: capacity_refusals(account),
            ended: account.terminal_total(),
            failed: account.ended_as(Terminal::Failed),
            ages_ms: Vec::new(),
        }
    }

    /// What it goes back to.
    pub fn before(&self) -> &Limits {
        &self.before
    }

    /// Judges by what the gate shows now; an age is taken at most once a second.
    pub fn judge(&mut self, now: Timestamp, counts: &Counts, account: &Account) -> Verdict {
        if self.sampled.is_none_or(|at| now >= at + ms(1_000)) && self.ages_ms.len() < SAMPLES_MAX {
            self.sampled = Some(now);
            self.ages_ms.push(counts.oldest_queued_ms.unwrap_or(0));
        }
        let rate = |part: u64, of: u64| match of >= self.criterion.at_least.max(1) {
            true => part * 100 / of,
            false => 0,
        };
        let offered = account.offered - self.offered;
        let refused = capacity_refusals(account) - self.refused;
        let ended = account.terminal_total() - self.ended;
        let failed = account.ended_as(Terminal::Failed) - self.failed;
        let measures = [
            ("queue_age_p95_ms", self.age_p95_ms(), self.criterion.queue_age_p95_ms),
            ("refused_pct", rate(refused, offered), self.criterion.refused_pct),
            ("cleanup_pending", counts.cleanup_pending.into(), self.criterion.cleanup_pending),
            ("failed_pct", rate(failed, ended), self.criterion.failed_pct),
        ];
        for (measure, seen, limit) in measures {
            if let Some(limit) = limit.filter(|limit| seen > *limit) {
                return Verdict::Undone(Breach { measure, seen, limit });
            }
        }
        match now > self.began + ms(self.criterion.window_ms) {
            true => Verdict::Kept,
            false => Verdict::Running,
        }
    }

    fn age_p95_ms(&self) -> u64 {
        if self.ages_ms.len() < SAMPLES_MIN {
            return 0;
        }
        let mut ages = self.ages_ms.clone();
        ages.sort_unstable();
        ages[(ages.len() * 95).div_ceil(100) - 1]
    }
}

/// Refusals for want of room or time; ownership refusals are no doing of limits.
fn capacity_refusals(account: &Account) -> u64 {
    let owner = [RefusalReason::Stale, RefusalReason::OutOfOrder, RefusalReason::Duplicate];
    account.refused_total() - owner.into_iter().map(|why| account.refused_for(why)).sum::<u64>()
}
