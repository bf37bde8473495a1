//! The call gate listens to its stages: when turns of calls that were accepted would be refused,
//! new calls wait or are refused first. The number to drive to zero is refused turns in accepted
//! calls.

use super::gate::{Counts, Pressure};
use super::ledger::Account;
use super::{Overload, RefusalReason};
use crate::time::{Timestamp, ms};

/// Most stages that are listened to.
pub const STAGES_MAX: usize = 64;

/// What the listener goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hearing {
    /// A turn that has waited longer than this presses as much as a refused one.
    pub age_ms: u64,
    /// The level goes down only after this long at less, one step at a time.
    pub calm_ms: u64,
    /// A stage without a free unit presses too, before any turn is refused there. Right where
    /// there are many units; where there are few, every answer would hold up new calls.
    pub full: bool,
}

impl Default for Hearing {
    fn default() -> Self {
        Hearing { age_ms: 1_000, calm_ms: 3_000, full: false }
    }
}

/// One stage behind the call gate, at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageLoad {
    /// Units that nobody holds; `None` is unlimited.
    pub free_units: Option<u32>,
    /// How long the oldest turn has waited there, in milliseconds.
    pub oldest_queued_ms: Option<u64>,
    /// Turns ever refused there for want of room.
    pub refused: u64,
}

impl StageLoad {
    /// The load that a gate shows.
    pub fn of(counts: &Counts, account: &Account) -> Self {
        let room = [Overload::NoQueue, Overload::QueueFull, Overload::Bytes];
        let refused = room.map(|overload| account.refused_for(RefusalReason::Overloaded(overload)));
        StageLoad {
            free_units: counts.in_force.map(|units| units.saturating_sub(counts.active_units)),
            oldest_queued_ms: counts.oldest_queued_ms,
            refused: refused.iter().sum(),
        }
    }

    fn level(&self, hearing: Hearing, refused_before: u64) -> Pressure {
        let full = hearing.full && self.free_units == Some(0);
        let late = self.oldest_queued_ms.is_some_and(|age| age > hearing.age_ms);
        match (full, self.refused > refused_before || late) {
            (_, true) => Pressure::Refuse,
            (true, false) => Pressure::Queue,
            (false, false) => Pressure::Open,
        }
    }
}

/// Keeps the level of one call gate.
#[derive(Clone, Debug)]
pub struct Listener {
    hearing: Hearing,
    level: Pressure,
    /// Since when less than the level has been heard.
    calm_since: Option<Timestamp>,
    refused: Vec<u64>,
}

impl Listener {
    /// A listener that has heard nothing.
    pub fn new(hearing: Hearing) -> Self {
        Listener { hearing, level: Pressure::Open, calm_since: None, refused: Vec::new() }
    }

    /// The level for [`super::Gate::set_pressure`]: up one step at once, down one step after a calm
    /// time.
    ///
    /// `stages` are always the same ones in the same order; those beyond [`STAGES_MAX`] are not
    /// heard.
    pub fn hear(&mut self, now: Timestamp, stages: &[StageLoad]) -> Pressure {
        let stages = &stages[..stages.len().min(STAGES_MAX)];
        // A stage heard for the first time brings its past with it, which presses nobody.
        let known = self.refused.len();
        self.refused.extend(stages.iter().skip(known).map(|stage| stage.refused));
        let levels = stages.iter().zip(&self.refused);
        let heard = levels.map(|(stage, before)| stage.level(self.hearing, *before)).max();
        for (before, stage) in self.refused.iter_mut().zip(stages) {
            *before = stage.refused;
        }
        self.settle_on(now, heard.unwrap_or_default())
    }

    fn settle_on(&mut self, now: Timestamp, heard: Pressure) -> Pressure {
        if heard >= self.level {
            self.level = match (self.level, heard) {
                (Pressure::Open, Pressure::Queue | Pressure::Refuse) => Pressure::Queue,
                (_, heard) => heard,
            };
            self.calm_since = None;
            return self.level;
        }
        let since = *self.calm_since.get_or_insert(now);
        if now >= since + ms(self.hearing.calm_ms) {
            self.level = match self.level {
                Pressure::Refuse => Pressure::Queue,
                Pressure::Queue | Pressure::Open => Pressure::Open,
            };
            self.calm_since = (heard < self.level).then_some(now);
        }
        self.level
    }
}
