//! Whether what a prompt claims is true in this world (invariant 6), judged by what happened and
//! not by what the call believes.

use std::collections::{BTreeSet, VecDeque};

use super::promised::Promised;
use crate::admission::{Closed, RefusalReason, Terminal};
use crate::call::{Arranged, Event};
use crate::config::Script;
use crate::fallback::{Claim, PromptId, Prompts};
use crate::id::RunId;
use crate::leg::HangUp;

/// Turns that may be committed between the beginning of an utterance and its own commit.
const TURNS_BETWEEN: usize = 6;

/// What has happened to the caller's last wishes.
pub(super) struct Truths {
    /// Between the last turns, newest in front: what is told of a turn may have happened when its
    /// utterance began, and as many turns ago as utterances can wait for their words.
    windows: VecDeque<Happened>,
    /// Models that have written something.
    wrote: BTreeSet<RunId>,
    drained: bool,
    /// What stands behind the rungs.
    pub promised: Promised,
    /// What the last prompt said of the call's end.
    said_last: Option<(String, bool)>,
}

#[derive(Default)]
struct Happened {
    refused: Vec<RefusalReason>,
    expired: bool,
    /// Something that was started broke, came to nothing or was given up.
    failed: bool,
    /// A backend said that it is overloaded.
    pushed_back: bool,
    unknown: bool,
}

/// What is true right now and can be seen from outside.
pub(super) struct Seen {
    /// Something of the call waits at a gate.
    pub waits: bool,
    /// The caller has heard nothing for as long as the budget less a prompt's start.
    pub budget_spent: bool,
    /// The call has lasted as long as it may.
    pub time_over: bool,
    /// Nobody has been heard for as long as a call may be silent.
    pub idle: bool,
    /// A callback, or a human, can be had: its gate has a unit to spare.
    pub callback_room: bool,
    pub handoff_room: bool,
}

impl Truths {
    pub fn new() -> Truths {
        let windows = VecDeque::from([Happened::default()]);
        Truths {
            windows,
            wrote: BTreeSet::new(),
            drained: false,
            promised: Promised::default(),
            said_last: None,
        }
    }

    fn latest(&mut self) -> &mut Happened {
        // There is always one: it begins with one, and one comes before another goes.
        &mut self.windows[0]
    }

    /// Something happened.
    pub fn event(&mut self, event: &Event) {
        self.promised.event(event);
        match event {
            Event::Arranged { what: Arranged::Refused(_) | Arranged::NotReached(_), .. } => {
                self.latest().failed = true;
            }
            Event::Arranged { what: Arranged::Unknown, .. } => self.latest().unknown = true,
            Event::WaitEnded { terminal: Terminal::Expired, .. } => self.latest().expired = true,
            Event::Wrote { run, .. } | Event::Wanted { run, .. } => drop(self.wrote.insert(*run)),
            Event::Finished { run, .. } => {
                let wrote = self.wrote.contains(run);
                self.latest().failed |= !wrote;
            }
            Event::Ended { proof, fault, .. } => {
                // Whether all it had to say was said, only the call knows.
                self.latest().failed = true;
                self.latest().unknown |= proof.is_err();
                self.latest().pushed_back |= fault.as_ref().is_some_and(|f| f.is_overload());
            }
            Event::Drain => self.drained = true,
            _ => {}
        }
    }

    /// Gates said no.
    pub fn refused(&mut self, reasons: impl IntoIterator<Item = RefusalReason>) {
        self.latest().refused.extend(reasons);
    }

    /// Something that waited was given up.
    pub fn withdrawn(&mut self) {
        self.latest().expired = true;
    }

    /// A run is asked to stop.
    pub fn given_up(&mut self) {
        self.latest().failed = true;
    }

    /// Another turn is committed. Says when the caller was told that the call is over.
    pub fn committed(&mut self) -> Option<String> {
        self.windows.push_front(Happened::default());
        self.windows.truncate(TURNS_BETWEEN);
        let (prompt, ends) = self.said_last.take()?;
        ends.then(|| format!("a turn behind \"{prompt}\", which claims that the call ends"))
    }

    /// The call hangs up. Says when the caller was told otherwise.
    pub fn hung_up(&mut self, why: HangUp) -> Option<String> {
        let (prompt, ends) = self.said_last.take()?;
        (why == HangUp::Goodbye && !ends)
            .then(|| format!("{} behind \"{prompt}\", which claims to go on", why.label()))
    }

    /// A prompt is said. Says which of its claims is false.
    pub fn said(&mut self, script: &Script, prompt: &str, seen: &Seen) -> Option<String> {
        let book = script.prompts.get(Prompts::DEFAULT_LOCALE, &PromptId::new(prompt));
        let Some(claims) = book.map(|prompt| &prompt.claims) else {
            return Some(format!("\"{prompt}\" is no prompt"));
        };
        self.said_last = Some((prompt.to_owned(), claims.contains(&Claim::CallEnds)));
        let lie = claims.iter().find(|claim| !self.holds(**claim, seen))?;
        Some(format!("\"{prompt}\" claims {}, which is not so", lie.label()))
    }

    fn holds(&self, claim: Claim, seen: &Seen) -> bool {
        if let Some(holds) = self.promised.holds(claim) {
            return holds;
        }
        let any = |is: &dyn Fn(&Happened) -> bool| self.windows.iter().any(is);
        let refused =
            |is: &dyn Fn(&RefusalReason) -> bool| any(&|happened| happened.refused.iter().any(is));
        let closed = |why: Closed| refused(&|reason| *reason == RefusalReason::Closed(why));
        let expired = any(&|h| h.expired) || refused(&|r| *r == RefusalReason::Expired);
        let was_refused = refused(&|_| true);
        let failed = any(&|h| h.failed);
        match claim {
            Claim::OriginalRefused => was_refused,
            Claim::OriginalQueued => seen.waits,
            Claim::OriginalExpired => expired,
            Claim::OriginalFailed => failed,
            Claim::OriginalNotDone => was_refused || expired || failed || seen.budget_spent,
            Claim::OutcomeUnknown => any(&|h| h.unknown),
            Claim::BudgetSpent => seen.budget_spent,
            Claim::Overloaded => {
                refused(&|reason| matches!(reason, RefusalReason::Overloaded(_)))
                    || any(&|h| h.pushed_back)
            }
            Claim::Closed => refused(&|reason| matches!(reason, RefusalReason::Closed(_))),
            Claim::ClosedDraining => closed(Closed::Draining),
            Claim::ClosedMaintenance => closed(Closed::Maintenance),
            Claim::ClosedNotReady => closed(Closed::NotReady),
            Claim::CallbackOffered => seen.callback_room,
            Claim::HandoffOffered => seen.handoff_room,
            // That it is missing is the call's own knowledge.
            Claim::CallbackNeedsNumber => true,
            // Judged above, by what stands behind the rungs.
            Claim::CallbackCommitted
            | Claim::CallbackExists
            | Claim::HandoffAsked
            | Claim::HandoffAcknowledged
            | Claim::HandoffBusy
            | Claim::HandoffNoAnswer
            | Claim::HandoffDeclined
            | Claim::HandoffVoicemail
            | Claim::HandoffTimeout
            | Claim::NothingArranged => false,
            // Nobody is rung here: whoever says it to a caller lies.
            Claim::CallerWaits | Claim::DeskDecides | Claim::CallerLeft => false,
            // Both are held against what follows.
            Claim::CallContinues | Claim::CallEnds => true,
            Claim::TimeOver => seen.time_over,
            Claim::Idle => seen.idle,
            Claim::DrainOver => self.drained,
        }
    }
}
