//! What was really arranged for the caller, by what happened and not by what the call believes
//! (invariant 6; ).

use std::collections::BTreeSet;

use crate::call::{Action, Arranged, Event};
use crate::fallback::{Claim, NotReached, Rung};
use crate::id::{CallbackId, RunId};
use crate::leg::HangUp;

/// What stands behind the rungs right now.
#[derive(Default)]
pub(super) struct Promised {
    /// Humans who are being asked.
    asked: BTreeSet<RunId>,
    /// Of those, who said that they take the caller.
    taking: BTreeSet<RunId>,
    connected: bool,
    /// Callbacks that are being put on record.
    committing: BTreeSet<RunId>,
    /// Callbacks on record.
    committed: BTreeSet<CallbackId>,
    /// One was on record before.
    exists: bool,
    /// How humans have not taken the caller so far.
    not_reached: BTreeSet<NotReached>,
    /// Of a rung nobody could say whether it was established.
    unknown: bool,
}

impl Promised {
    /// Something happened.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Arranged { run, what } => self.arranged(*run, what),
            Event::Ended { run, .. } => self.over(*run),
            _ => {}
        }
    }

    fn arranged(&mut self, run: RunId, what: &Arranged) {
        self.committing.remove(&run);
        match what {
            Arranged::Callback(receipt) => drop(self.committed.insert(receipt.id())),
            Arranged::Acknowledged(_) if self.asked.contains(&run) => {
                self.taking.insert(run);
            }
            Arranged::Acknowledged(_) => {}
            Arranged::Connected => {
                self.connected |= self.taking.contains(&run);
                self.over(run);
            }
            Arranged::NotReached(how) => {
                self.not_reached.insert(*how);
                self.over(run);
            }
            Arranged::Refused("duplicate") => self.exists = true,
            Arranged::Refused(_) => {}
            Arranged::Unknown => self.unknown = true,
        }
    }

    /// Something is done.
    pub fn action(&mut self, action: &Action) {
        match action {
            Action::Arrange { run, wish } if wish.rung == Rung::Handoff => {
                self.asked.insert(*run);
            }
            Action::Arrange { run, wish } if wish.rung == Rung::Callback => {
                self.committing.insert(*run);
            }
            Action::Cancel { run, .. } if self.asked.contains(run) => {
                self.not_reached.insert(NotReached::Timeout);
                self.over(*run);
            }
            Action::Cancel { run, .. } => self.unknown |= self.committing.remove(run),
            _ => {}
        }
    }

    fn over(&mut self, run: RunId) {
        // It ended without a word of what became of it.
        self.unknown |= self.committing.remove(&run);
        self.asked.remove(&run);
        self.taking.remove(&run);
    }

    /// Somebody is being asked.
    pub fn is_asking(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Nobody is promised anything.
    fn nothing(&self) -> bool {
        self.committed.is_empty() && self.taking.is_empty() && !self.connected
    }

    /// Whether this claim is true; `None` of a claim about something else.
    pub fn holds(&self, claim: Claim) -> Option<bool> {
        let reached = |how: NotReached| self.not_reached.contains(&how);
        Some(match claim {
            Claim::CallbackCommitted => !self.committed.is_empty(),
            Claim::CallbackExists => self.exists || !self.committed.is_empty(),
            Claim::HandoffAsked => !self.asked.is_empty(),
            Claim::HandoffAcknowledged => !self.taking.is_empty(),
            Claim::HandoffBusy => reached(NotReached::Busy),
            Claim::HandoffNoAnswer => reached(NotReached::NoAnswer),
            Claim::HandoffDeclined => reached(NotReached::Declined),
            Claim::HandoffVoicemail => reached(NotReached::Voicemail),
            Claim::HandoffTimeout => reached(NotReached::Timeout),
            Claim::NothingArranged => self.nothing(),
            Claim::OutcomeUnknown if self.unknown => true,
            _ => return None,
        })
    }

    /// A rung is told to be established. Says when it is not.
    pub fn told(&self, rung: &str, outcome: &str) -> Option<String> {
        let is = match rung {
            "callback" => !self.committed.is_empty(),
            "handoff" => !self.taking.is_empty(),
            _ => true,
        };
        (outcome == "established" && !is).then(|| format!("{rung} is told established and is not"))
    }

    /// The call hangs up. Says what is left of it.
    pub fn hung_up(&self, why: HangUp) -> Option<String> {
        if why == HangUp::HandedOver && !self.connected {
            return Some("handed over, and nobody has the caller".to_owned());
        }
        let asked = self.asked.len();
        (asked > 0).then(|| format!("{asked} humans are asked for a caller who is gone"))
    }
}
