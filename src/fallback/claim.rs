//! What a prompt asserts, and what is true.

use std::collections::BTreeSet;

use super::cause::{CallEnd, Cause, NotReached};
use super::ladder::Rung;
use crate::admission::{Closed, RefusalReason};
use crate::evidence::{CallbackReceipt, HandoffAck};

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
    /// A callback can be arranged now, if the caller wants it.
    CallbackOffered = "callback.offered",
    /// The caller wants a callback, and nobody knows where to.
    CallbackNeedsNumber = "callback.needs_number",
    /// A callback to this number was on record before.
    CallbackExists = "callback.exists",
    /// A human can be asked now, if the caller wants it.
    HandoffOffered = "handoff.offered",
    /// A human is being asked.
    HandoffAsked = "handoff.asked",
    /// A human has said that they take the caller.
    HandoffAcknowledged = "handoff.acknowledged",
    /// Everybody who could take the caller is occupied.
    HandoffBusy = "handoff.busy",
    /// Nobody answered.
    HandoffNoAnswer = "handoff.no_answer",
    /// Who was asked said no.
    HandoffDeclined = "handoff.declined",
    /// A machine answered.
    HandoffVoicemail = "handoff.voicemail",
    /// Nobody acknowledged in time.
    HandoffTimeout = "handoff.timeout",
    /// Whoever hears it was rung for a caller who waits.
    CallerWaits = "caller.waits",
    /// Whoever hears it says by a key whether they take the caller.
    DeskDecides = "desk.decides",
    /// The caller for whom somebody was rung does not wait any more: has left, or wants no one.
    CallerLeft = "caller.left",
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
            Cause::NotReached(how) => of_handoff(*how),
            Cause::CallEnds(CallEnd::TimeOver) => &[Claim::TimeOver],
            Cause::CallEnds(CallEnd::Idle) => &[Claim::Idle],
            Cause::CallEnds(CallEnd::Drained) => &[Claim::DrainOver],
            Cause::CallEnds(CallEnd::Broken) => &[Claim::OriginalFailed],
        };
        let held = claims.iter().copied().chain([Claim::NothingArranged]).collect();
        Facts { held, retries: 0 }
    }

    /// This alternative exists now: its gate has room, and what stands behind it answers.
    pub fn offering(mut self, rung: Rung) -> Facts {
        match rung {
            Rung::Callback => drop(self.held.insert(Claim::CallbackOffered)),
            Rung::Handoff => drop(self.held.insert(Claim::HandoffOffered)),
            Rung::Wait | Rung::Retry | Rung::Goodbye => {}
        }
        self
    }

    /// The caller wants to be called back, and has to say where.
    pub fn needs_number(mut self) -> Facts {
        self.held.insert(Claim::CallbackNeedsNumber);
        self
    }

    /// A callback to this number was on record before.
    pub fn exists(mut self) -> Facts {
        self.held.insert(Claim::CallbackExists);
        self.held.remove(&Claim::NothingArranged);
        self
    }

    /// A human is being asked.
    pub fn asked(mut self) -> Facts {
        self.held.insert(Claim::HandoffAsked);
        self
    }

    /// A callback is on record: here is its receipt.
    pub fn committed(mut self, _receipt: &CallbackReceipt) -> Facts {
        self.held.insert(Claim::CallbackCommitted);
        self.held.remove(&Claim::NothingArranged);
        self
    }

    /// A human takes the caller: here is their acknowledgement.
    pub fn acknowledged(mut self, _ack: &HandoffAck) -> Facts {
        self.held.insert(Claim::HandoffAcknowledged);
        self.held.remove(&Claim::NothingArranged);
        self
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

    /// What is true for whoever was rung to take a caller, who waits, or does not any more.
    pub fn at_desk(caller_waits: bool) -> Facts {
        let held = match caller_waits {
            true => BTreeSet::from([Claim::CallerWaits, Claim::DeskDecides]),
            false => BTreeSet::from([Claim::CallerLeft]),
        };
        Facts { held, retries: 0 }
    }

    /// The claim is true.
    pub fn holds(&self, claim: Claim) -> bool {
        self.held.contains(&claim)
    }

    /// How often in a row the caller has been asked to try again.
    pub fn retries(&self) -> u32 {
        self.retries
    }

    /// The call ends behind this rung's prompt: behind an offer it does not.
    pub fn ends_call(&self, rung: Rung) -> bool {
        match rung {
            Rung::Goodbye => true,
            Rung::Callback => self.holds(Claim::CallbackCommitted),
            Rung::Wait | Rung::Retry | Rung::Handoff => false,
        }
    }

    /// All claims are true, once the rung is what the call does.
    pub fn hold_on(&self, rung: Rung, claims: &[Claim]) -> bool {
        claims.iter().all(|claim| match claim {
            Claim::CallEnds => self.ends_call(rung),
            Claim::CallContinues => !self.ends_call(rung),
            other => self.holds(*other),
        })
    }
}

fn of_handoff(how: NotReached) -> &'static [Claim] {
    use Claim::OriginalNotDone;
    match how {
        NotReached::Busy => &[OriginalNotDone, Claim::HandoffBusy],
        NotReached::NoAnswer => &[OriginalNotDone, Claim::HandoffNoAnswer],
        NotReached::Declined => &[OriginalNotDone, Claim::HandoffDeclined],
        NotReached::Voicemail => &[OriginalNotDone, Claim::HandoffVoicemail],
        NotReached::Timeout => &[OriginalNotDone, Claim::HandoffTimeout],
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
