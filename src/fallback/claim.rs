//! What a prompt asserts, and what is true.

use std::collections::BTreeSet;

use super::cause::{CallEnd, Cause};
use super::ladder::Rung;
use crate::admission::{Closed, RefusalReason};

macro_rules! claims {
    ($($(#[$doc:meta])* $name:ident = $label:literal,)*) => {
        /// A fact that a prompt asserts.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Claim { $($(#[$doc])* $name,)* }

        impl Claim {
            /// Every claim there is.
            pub const ALL: &'static [Claim] = &[$(Claim::$name,)*];

            /// Its name in the prompts' files.
            pub fn label(self) -> &'static str {
                match self { $(Claim::$name => $label,)* }
            }
        }
    };
}

claims! {
    /// A gate refused it and nothing of it was started.
    OriginalRefused = "original.refused",
    /// It truly waits in a gate's queue.
    OriginalQueued = "original.queued",
    /// Its deadline passed.
    OriginalExpired = "original.expired",
    /// It was started and failed.
    OriginalFailed = "original.failed",
    /// It was refused, expired or failed: the caller does not get it from this attempt.
    OriginalNotDone = "original.not_done",
    /// Nobody can say whether it took effect.
    OutcomeUnknown = "outcome.unknown",
    /// No answer was audible within the turn's budget.
    BudgetSpent = "budget.spent",
    /// There is no room.
    Overloaded = "overloaded",
    /// Intake is closed.
    Closed = "closed",
    /// Intake is closed because the server drains.
    ClosedDraining = "closed.draining",
    /// Intake is closed by an operator.
    ClosedMaintenance = "closed.maintenance",
    /// Intake is closed because what it serves is still loading.
    ClosedNotReady = "closed.not_ready",
    /// A callback is on record, durably.
    CallbackCommitted = "callback.committed",
    /// A human has said that they take the caller.
    HandoffAcknowledged = "handoff.acknowledged",
    /// Neither a callback nor a handoff exists.
    NothingArranged = "nothing.arranged",
    /// The caller can go on speaking after the prompt.
    CallContinues = "call.continues",
    /// The call ends behind the prompt.
    CallEnds = "call.ends",
    /// The call has lasted as long as it may.
    TimeOver = "time.over",
    /// Nobody has spoken for long.
    Idle = "idle",
    /// The server's drain window closes.
    DrainOver = "drain.over",
}

impl Claim {
    /// The claim of this name.
    pub fn named(label: &str) -> Option<Claim> {
        Claim::ALL.iter().copied().find(|claim| claim.label() == label)
    }
}

/// What is true at this instant. Facts come from what happened, or from a token that proves them:
/// there is no other way to make one, so that a promise without its proof does not compile.
/// (Nothing makes [`Claim::CallbackCommitted`] or [`Claim::HandoffAcknowledged`] before there are
/// receipts.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    held: BTreeSet<Claim>,
    retries: u32,
}

impl Facts {
    /// What the cause itself proves.
    pub fn of(cause: &Cause) -> Facts {
        let claims: &[Claim] = match cause {
            Cause::Refusal { reason, .. } => of_refusal(*reason),
            Cause::Fault { .. } => &[Claim::OriginalFailed, Claim::OriginalNotDone],
            Cause::TurnExpired { .. } => &[Claim::OriginalExpired, Claim::OriginalNotDone],
            Cause::StillQueued { .. } => &[Claim::OriginalQueued],
            Cause::BudgetSpent => &[Claim::BudgetSpent, Claim::OriginalNotDone],
            Cause::CallEnds(CallEnd::TimeOver) => &[Claim::TimeOver],
            Cause::CallEnds(CallEnd::Idle) => &[Claim::Idle],
            Cause::CallEnds(CallEnd::Drained) => &[Claim::DrainOver],
            Cause::CallEnds(CallEnd::Broken) => &[Claim::OriginalFailed],
        };
        let held = claims.iter().copied().chain([Claim::NothingArranged]).collect();
        Facts { held, retries: 0 }
    }

    /// A tool that changes something was started, and nobody can say whether it did.
    pub fn outcome_unknown(mut self) -> Facts {
        self.held.insert(Claim::OutcomeUnknown);
        self
    }

    /// The caller has been asked to try again this often in a row.
    pub fn retried(mut self, times: u32) -> Facts {
        self.retries = times;
        self
    }

    /// The claim is true.
    pub fn holds(&self, claim: Claim) -> bool {
        self.held.contains(&claim)
    }

    /// How often in a row the caller has been asked to try again.
    pub fn retries(&self) -> u32 {
        self.retries
    }

    /// All claims are true, once the rung is what the call does.
    pub fn hold_on(&self, rung: Rung, claims: &[Claim]) -> bool {
        claims.iter().all(|claim| match claim {
            Claim::CallEnds => rung.ends_call(),
            Claim::CallContinues => !rung.ends_call(),
            other => self.holds(*other),
        })
    }
}

fn of_refusal(reason: RefusalReason) -> &'static [Claim] {
    use Claim::{OriginalExpired, OriginalNotDone, OriginalRefused};
    match reason {
        RefusalReason::Overloaded(_) => &[OriginalRefused, OriginalNotDone, Claim::Overloaded],
        RefusalReason::Expired => &[OriginalRefused, OriginalNotDone, OriginalExpired],
        RefusalReason::Stale | RefusalReason::OutOfOrder | RefusalReason::Duplicate => {
            &[OriginalRefused, OriginalNotDone]
        }
        RefusalReason::Closed(Closed::Draining) => {
            &[OriginalRefused, OriginalNotDone, Claim::Closed, Claim::ClosedDraining]
        }
        RefusalReason::Closed(Closed::Maintenance) => {
            &[OriginalRefused, OriginalNotDone, Claim::Closed, Claim::ClosedMaintenance]
        }
        RefusalReason::Closed(Closed::NotReady) => {
            &[OriginalRefused, OriginalNotDone, Claim::Closed, Claim::ClosedNotReady]
        }
        RefusalReason::Closed(Closed::NoCapacity) => {
            &[OriginalRefused, OriginalNotDone, Claim::Closed]
        }
    }
}
