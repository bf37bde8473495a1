//! Those behind the rungs, in virtual time: the store that puts callbacks on record, and the human
//! who is asked to take a caller. Each does what its table of the script says, one value a run.

use std::collections::VecDeque;
use std::time::Duration;

use toml::Table;

use crate::call::Arranged;
use crate::evidence::{CallbackReceipt, Evidence, HandoffAck};
use crate::fallback::NotReached;
use crate::id::{CallbackId, HandoffId};
use crate::provider::keys::{self, Keys, PerRun};
use crate::provider::{BuildError, Ended};
use crate::time::{Timestamp, ms};

/// A commit without a time of its own.
const COMMIT: Duration = ms(30);
/// When a human says that they take the caller, and how long it takes to connect both.
const ACKNOWLEDGES: Duration = ms(2_000);
const CONNECTS: Duration = ms(1_500);
/// A human is told this much later that they are not needed any more.
const TOLD: Duration = ms(5);
/// Between two acknowledgements of the same.
const AGAIN: Duration = ms(200);

/// What the store does: `[callbacks]`.
#[derive(Clone, Debug)]
pub struct CallbackScript {
    commit: PerRun<Option<Duration>>,
    fail: PerRun<Option<StoreSays>>,
    lost: PerRun<Option<bool>>,
    late: PerRun<Option<Duration>>,
}

/// What the store says instead of a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoreSays {
    /// It has no room.
    Full,
    /// A callback to this number is on record.
    Duplicate,
    /// It sealed itself while the commit was under way.
    Sealed,
}

/// What a human does who is asked: `[human]`.
#[derive(Clone, Debug)]
pub struct HumanScript {
    acknowledges: PerRun<Option<Duration>>,
    connects: PerRun<Option<Duration>>,
    outcome: PerRun<Option<Outcome>>,
    twice: PerRun<Option<bool>>,
    lost: PerRun<Option<bool>>,
    told: PerRun<Option<Duration>>,
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Connected,
    NotReached(NotReached),
    /// Nothing more is heard of it.
    Never,
}

/// One thing that is being arranged.
pub(super) struct ArrangeRun {
    due: VecDeque<(Timestamp, Came)>,
    kind: Kind,
}

enum Kind {
    /// A commit that is under way is not stopped; one that stands still moves when it is given up.
    Store { late: Option<Duration> },
    /// Hears that the caller is gone, unless nothing reaches them.
    Human { told: Option<Duration> },
}

enum Came {
    Arranged(What),
    Ended(Evidence),
}

#[derive(Clone, Copy)]
enum What {
    Committed,
    Acknowledged,
    Connected,
    NotReached(NotReached),
    Refused(&'static str),
    Unknown,
}

/// What comes of it.
pub(super) enum Output {
    /// For the call.
    Arranged(Arranged),
    /// It is over.
    Ended(Ended),
}

impl CallbackScript {
    /// Reads the table.
    pub fn from_table(table: &Table) -> Result<CallbackScript, BuildError> {
        let keys = Keys::new(table, &[&["commit_ms", "fail", "lost", "late_ms"]])?;
        let says = [
            ("full", StoreSays::Full),
            ("duplicate", StoreSays::Duplicate),
            ("sealed", StoreSays::Sealed),
        ];
        Ok(CallbackScript {
            commit: keys.per_run("commit_ms", keys::millis)?,
            fail: keys.per_run("fail", |value| keys::word(value, &says))?,
            lost: keys.per_run("lost", keys::flag)?,
            late: keys.per_run("late_ms", keys::millis)?,
        })
    }

    /// Begins commit number `nth`, from 0.
    pub(super) fn start(&self, now: Timestamp, nth: u32) -> ArrangeRun {
        let at = now + self.commit.at(nth).unwrap_or(COMMIT);
        let late = *self.late.at(nth);
        let stands_still = self.lost.at(nth).unwrap_or(false) || late.is_some();
        let came = match self.fail.at(nth) {
            None => What::Committed,
            Some(StoreSays::Full) => What::Refused("full"),
            Some(StoreSays::Duplicate) => What::Refused("duplicate"),
            Some(StoreSays::Sealed) => What::Unknown,
        };
        let mut run = ArrangeRun { due: VecDeque::new(), kind: Kind::Store { late } };
        if !stands_still {
            run.then(at, came);
        }
        run
    }
}

impl HumanScript {
    /// Reads the table.
    pub fn from_table(table: &Table) -> Result<HumanScript, BuildError> {
        let known =
            ["acknowledges_ms", "connects_ms", "outcome", "acknowledges_twice", "lost", "told_ms"];
        let keys = Keys::new(table, &[&known])?;
        let reached = NotReached::ALL.map(|how| (how.label(), Outcome::NotReached(how)));
        let mut outcomes = vec![("connected", Outcome::Connected), ("never", Outcome::Never)];
        outcomes.extend(reached.into_iter().filter(|(name, _)| *name != "timeout"));
        Ok(HumanScript {
            acknowledges: keys.per_run("acknowledges_ms", keys::millis)?,
            connects: keys.per_run("connects_ms", keys::millis)?,
            outcome: keys.per_run("outcome", |value| keys::word(value, &outcomes))?,
            twice: keys.per_run("acknowledges_twice", keys::flag)?,
            lost: keys.per_run("lost", keys::flag)?,
            told: keys.per_run("told_ms", keys::millis)?,
        })
    }

    /// Asks a human for the n-th time, from 0.
    pub(super) fn start(&self, now: Timestamp, nth: u32) -> ArrangeRun {
        let lost = self.lost.at(nth).unwrap_or(false);
        let told = self.told.at(nth).unwrap_or(TOLD);
        let kind = Kind::Human { told: (!lost).then_some(told) };
        let mut run = ArrangeRun { due: VecDeque::new(), kind };
        if lost {
            return run;
        }
        let outcome = self.outcome.at(nth).unwrap_or(Outcome::Connected);
        // Who does not take the caller does not say that they do, unless the script says so.
        let acknowledges = self.acknowledges.at(nth);
        let by_itself = (outcome == Outcome::Connected).then_some(ACKNOWLEDGES);
        let mut at = now;
        if let Some(after) = acknowledges.or(by_itself) {
            at = at + after;
            run.due.push_back((at, Came::Arranged(What::Acknowledged)));
            if self.twice.at(nth).unwrap_or(false) {
                run.due.push_back((at + AGAIN, Came::Arranged(What::Acknowledged)));
            }
        }
        let end = at + self.connects.at(nth).unwrap_or(CONNECTS);
        match outcome {
            Outcome::Connected => run.then(end, What::Connected),
            Outcome::NotReached(how) => run.then(end, What::NotReached(how)),
            Outcome::Never => {}
        }
        run
    }
}

impl ArrangeRun {
    fn then(&mut self, at: Timestamp, what: What) {
        self.due.push_back((at, Came::Arranged(what)));
        self.due.push_back((at, Came::Ended(Evidence::Completed)));
        self.due.make_contiguous().sort_by_key(|(at, _)| *at);
    }

    /// When something is due.
    pub fn next_at(&self) -> Option<Timestamp> {
        self.due.front().map(|(at, _)| *at)
    }

    /// It is not waited for any more.
    pub fn cancel(&mut self, now: Timestamp) {
        match self.kind {
            Kind::Store { late: Some(late) } => self.then(now + late, What::Committed),
            Kind::Store { late: None } => {}
            Kind::Human { told: Some(told) } => {
                let stops = now + told;
                // What was on its way crosses.
                self.due.retain(|(at, _)| *at <= stops);
                let over = self.due.iter().any(|(_, came)| matches!(came, Came::Ended(_)));
                if !over {
                    self.due.push_back((stops, Came::Ended(Evidence::AbortAcknowledged)));
                }
            }
            Kind::Human { told: None } => {}
        }
    }

    /// The next of what is due. `nth` counts what was committed and acknowledged.
    pub fn poll(&mut self, now: Timestamp, nth: &mut u32) -> Option<Output> {
        if self.next_at().is_none_or(|at| at > now) {
            return None;
        }
        let (_, came) = self.due.pop_front()?;
        let mut next = || {
            *nth += 1;
            u128::from(*nth)
        };
        Some(match came {
            Came::Ended(evidence) => Output::Ended(Ended { proof: Ok(evidence), fault: None }),
            Came::Arranged(what) => Output::Arranged(match what {
                What::Committed => {
                    Arranged::Callback(CallbackReceipt::committed(CallbackId(next())))
                }
                What::Acknowledged => {
                    Arranged::Acknowledged(HandoffAck::received(HandoffId(next())))
                }
                What::Connected => Arranged::Connected,
                What::NotReached(how) => Arranged::NotReached(how),
                What::Refused(code) => Arranged::Refused(code),
                What::Unknown => Arranged::Unknown,
            }),
        })
    }
}
