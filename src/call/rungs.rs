//! Rungs that have to be established: a callback put on record, a human who takes the caller.
//!
//! ```text
//! offered ── yes, a number ──▶ its gate ─ admitted ─▶ arranging ─ its proof ─▶ said
//!    │ no, or anything else       │ refused             │ refused, failed, too late
//!    ▼                            ▼                     ▼
//! next rung, or a turn      told why, next rung   told why, next rung
//! ```
//!
//! Nothing is promised before its proof is there: the receipt and the acknowledgement are values
//! that only a completed commit and a received answer can make (C-008, A-128).

use std::time::Duration;

use super::fallback::{Cause, Fact, Said, Standing};
use super::offers::Offered;
use super::state::{Afterwards, Consolation, Floor, Leaving, Turn};
use super::{Action, Call, GOODBYE_MAX};
use crate::admission::{Admit, Answer as Verdict, Cancelled, Lease, OfferId, Ticket, mutant};
use crate::evidence::{CallbackReceipt, HandoffAck};
use crate::fallback::{NotReached, Rung};
use crate::fault::Fault;
use crate::id::{RunId, Stage};
use crate::leg::{HangUp, ToCaller};
use crate::time::{Timestamp, ms};
use crate::turn::words::{Reply, reply};

/// How long a human may take to say that they take the caller, where nobody rings them.
pub const HANDOFF_MAX: Duration = ms(45_000);
/// What a commit is given at least, however late the caller's yes was understood.
const COMMIT_MIN: Duration = ms(250);
/// How long the acknowledged human may take to be connected.
pub const CONNECT_MAX: Duration = ms(30_000);

/// What the caller wants to have arranged, with what shows that they want it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The rung.
    pub rung: Rung,
    /// Where to ring; empty for a handoff.
    pub destination: String,
    /// What the caller was asked.
    pub asked: String,
    /// What they answered.
    pub said: String,
    /// The stable label of what could not be given.
    pub about: &'static str,
    /// The language spoken.
    pub language: String,
}

/// What came of arranging something.
#[derive(Debug, PartialEq, Eq)]
pub enum Arranged {
    /// A callback is on record.
    Callback(CallbackReceipt),
    /// A human takes the caller.
    Acknowledged(HandoffAck),
    /// The human and the caller are connected: the agent's part is over.
    Connected,
    /// A human was asked and does not take the caller.
    NotReached(NotReached),
    /// It was refused by what stands behind the gate: the stable code says why.
    Refused(&'static str),
    /// Nobody can say whether it was done.
    Unknown,
}

impl Arranged {
    /// The stable label of records and metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Arranged::Callback(_) => "callback",
            Arranged::Acknowledged(_) => "acknowledged",
            Arranged::Connected => "connected",
            Arranged::NotReached(how) => how.label(),
            Arranged::Refused(code) => code,
            Arranged::Unknown => "unknown",
        }
    }
}

/// An alternative that is being arranged; the caller has agreed to it.
#[derive(Debug)]
pub(super) struct Arranging {
    pub rung: Rung,
    turn: Turn,
    wish: Wish,
    /// Why it was offered.
    cause: Cause,
    pub unit: Unit,
    /// It is given up then.
    pub by: Timestamp,
}

/// The unit of what is being arranged.
#[derive(Debug)]
pub(super) enum Unit {
    Waiting(Ticket),
    Running(RunId),
    /// Somebody has said that they take the caller.
    Acknowledged(RunId),
}

impl Unit {
    fn is_run(&self, run: RunId) -> bool {
        matches!(self, Unit::Running(own) | Unit::Acknowledged(own) if *own == run)
    }

    fn awaits(&self, offer: OfferId) -> bool {
        matches!(self, Unit::Waiting(ticket) if ticket.offer == offer)
    }
}

pub(super) fn stage_of(rung: Rung) -> Stage {
    match rung {
        Rung::Handoff => Stage::Handoff,
        Rung::Callback | Rung::Wait | Rung::Retry | Rung::Goodbye => Stage::Callback,
    }
}

impl Call {
    /// The caller agreed: asks the rung's gate, and what stands behind it.
    pub(super) fn arrange(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        turn: Turn,
        offered: Offered,
        destination: String,
        said: &str,
    ) {
        let Offered { rung, cause, asked, .. } = offered;
        let (said, about) = (said.to_owned(), cause.code());
        let language = self.profile.language.clone();
        let wish = Wish { rung, destination, asked, said, about, language };
        let by = match (rung, turn.audible_by) {
            (Rung::Handoff, _) => now + self.profile.handoff_max,
            (_, Some(audible_by)) => audible_by.max(now + COMMIT_MIN),
            (_, None) => now + self.quiet_max(),
        };
        if mutant::is("promise_before_commit") && rung == Rung::Callback {
            return self.promise_unproven(now, admit, turn, &cause);
        }
        let unit = match self.offer(now, admit, stage_of(rung), now, None) {
            Verdict::Admitted(lease) => Unit::Running(self.start_arranging(lease, &wish)),
            Verdict::Queued(ticket) => Unit::Waiting(ticket),
            Verdict::Refused(refusal) => {
                let cause = Cause::refused(refusal);
                return self.rung_failed(now, admit, turn, &cause, rung, "refused");
            }
        };
        // A human takes their time: the caller is told what is being done meanwhile.
        let said = match (rung, &unit) {
            (Rung::Handoff, Unit::Waiting(_)) => {
                let (waits, language) =
                    (Cause::StillQueued(Stage::Handoff), &self.profile.language);
                Some(self.profile.fallback.choose(&waits, language, &Standing::default()))
            }
            (Rung::Handoff, _) => self.say_of(&cause, rung, Fact::Asked),
            _ => None,
        };
        let arranging = Box::new(Arranging { rung, turn, wish, cause: cause.clone(), unit, by });
        match said {
            Some(said) => {
                let then = Afterwards::Arrange(arranging);
                self.speak(now, &cause, said, None, Some(turn), then);
            }
            None => self.floor = Floor::Arranging(arranging),
        }
    }

    /// A broken variant: says that it is on record before anybody has put it there.
    fn promise_unproven(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        turn: Turn,
        cause: &Cause,
    ) {
        let standing = Standing::default();
        let said = self.profile.fallback.choose(cause, &self.profile.language, &standing);
        let prompt = "callback_committed".to_owned();
        self.stop_listening(now, admit, Cancelled::HangUp);
        let leaving = Leaving { why: HangUp::Goodbye, by: now + GOODBYE_MAX };
        let said = Said { prompt, ends_call: true, ..said };
        self.speak(now, cause, said, None, Some(turn), Afterwards::HangUp(leaving));
    }

    fn start_arranging(&mut self, lease: Lease, wish: &Wish) -> RunId {
        let run = self.owe(lease.stage, Some(lease), None);
        self.act(Action::Arrange { run, wish: Box::new(wish.clone()) });
        run
    }

    /// What is being arranged, whether a prompt is still heard or not.
    fn arranging(&mut self) -> Option<&mut Arranging> {
        match &mut self.floor {
            Floor::Arranging(arranging) => Some(arranging),
            Floor::FallingBack(prompt) => match &mut prompt.then {
                Afterwards::Arrange(arranging) => Some(arranging),
                Afterwards::Listen | Afterwards::Wait(_) | Afterwards::HangUp(_) => None,
            },
            Floor::Ringing
            | Floor::Listening { .. }
            | Floor::Thinking(_)
            | Floor::Speaking(_)
            | Floor::PlayingOut(_)
            | Floor::Ended { .. } => None,
        }
    }

    pub(super) fn is_arranging(&mut self) -> bool {
        self.arranging().is_some()
    }

    /// The caller does not want to wait for a human any more. True when that was what they said.
    pub(super) fn unwanted(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        born: Timestamp,
        said: &str,
    ) -> bool {
        let waits = self.arranging().is_some_and(|arranging| arranging.rung == Rung::Handoff);
        if !waits || reply(said, &self.profile.language) != Reply::No {
            return false;
        }
        let Some(Arranging { rung, unit, cause, .. }) = self.take_arranging(now) else {
            return false;
        };
        match unit {
            Unit::Waiting(ticket) => admit.withdraw(now, ticket, Cancelled::Client),
            Unit::Running(run) | Unit::Acknowledged(run) => {
                self.cancel_run(now, admit, run, Cancelled::Client);
            }
        }
        let turn = self.reply_turn(now, admit, born);
        self.rung_failed(now, admit, turn, &cause, rung, "caller_declined");
        true
    }

    pub(super) fn grant_rung(&mut self, lease: Lease) -> Option<Lease> {
        let offer = lease.offer;
        let waiting = self.arranging().filter(|arranging| arranging.unit.awaits(offer));
        let Some(wish) = waiting.map(|arranging| arranging.wish.clone()) else {
            return Some(lease);
        };
        self.note(lease.stage, "admitted", "", None);
        let run = self.start_arranging(lease, &wish);
        if let Some(arranging) = self.arranging() {
            arranging.unit = Unit::Running(run);
        }
        None
    }

    pub(super) fn rung_wait_ended(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        offer: OfferId,
    ) {
        if self.arranging().is_some_and(|arranging| arranging.unit.awaits(offer))
            && let Some(Arranging { rung, turn, .. }) = self.take_arranging(now)
        {
            let cause = Cause::expired(stage_of(rung));
            self.rung_failed(now, admit, turn, &cause, rung, "expired");
        }
    }

    /// Ends the state; what a prompt has said so far was heard.
    fn take_arranging(&mut self, now: Timestamp) -> Option<Arranging> {
        self.settle_heard(now);
        let floor = std::mem::replace(&mut self.floor, Floor::Listening { resumes: None });
        let prompt = match floor {
            Floor::Arranging(arranging) => return Some(*arranging),
            Floor::FallingBack(prompt) => *prompt,
            other => {
                self.floor = other;
                return None;
            }
        };
        match prompt.then {
            Afterwards::Arrange(arranging) => {
                if prompt.opened {
                    // All that was sent will be heard: nobody clears it.
                    let (script, sent) = (prompt.playout.script(), prompt.playout.sent_time());
                    self.history.set_heard(&prompt.item, script, sent, sent);
                    self.history.finish_spoken(&prompt.item, prompt.playout.all_sent());
                    self.tell_heard(&prompt.item);
                }
                Some(*arranging)
            }
            then => {
                self.floor = Floor::FallingBack(Box::new(Consolation { then, ..prompt }));
                None
            }
        }
    }

    /// What was to be arranged is, or is not.
    pub(super) fn on_arranged(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        run: RunId,
        what: Arranged,
    ) {
        if let Arranged::Callback(receipt) = &what
            && let Some(lease) = self.owed.get_mut(&run).and_then(|owed| owed.lease.take())
            && !mutant::is("arranged_unit_dropped")
        {
            // The promise outlives the call: its unit comes back when it is kept.
            admit.keep(now, lease, receipt.id());
        }
        if !self.arranging().is_some_and(|arranging| arranging.unit.is_run(run)) {
            // The caller was told that nothing is known, or has left. What is on record stays: it
            // is what they wanted, and the next prompt knows of it.
            if let Arranged::Callback(receipt) = what {
                self.offered.take_if(|offered| offered.rung == Rung::Callback);
                self.on_record = Some(receipt);
                if self.has_ended().is_none() {
                    self.tell_rung(Rung::Callback, "late");
                }
            }
            return self.late(run, "rung");
        }
        let twice = matches!((&what, self.arranging()), (Arranged::Acknowledged(_), Some(a))
            if matches!(a.unit, Unit::Acknowledged(_)));
        if twice {
            // The first one was enough.
            return;
        }
        let Some(arranging) = self.take_arranging(now) else { return };
        let (rung, turn, offered_for) = (arranging.rung, arranging.turn, arranging.cause.clone());
        match what {
            Arranged::Callback(receipt) => {
                let leaving = Leaving { why: HangUp::Goodbye, by: now + GOODBYE_MAX };
                let then = Afterwards::HangUp(leaving);
                let said = self.say_of(&offered_for, rung, Fact::Committed(&receipt));
                self.established(now, admit, turn, &offered_for, said, then);
            }
            Arranged::Acknowledged(ack) => {
                let (by, unit) = (now + CONNECT_MAX, Unit::Acknowledged(run));
                let then = Afterwards::Arrange(Box::new(Arranging { by, unit, ..arranging }));
                let said = self.say_of(&offered_for, rung, Fact::Acknowledged(&ack));
                self.established(now, admit, turn, &offered_for, said, then);
            }
            Arranged::Connected => self.end(now, admit, HangUp::HandedOver),
            Arranged::NotReached(how) => {
                let cause = Cause::NotReached(how);
                self.rung_failed(now, admit, turn, &cause, rung, how.label());
            }
            Arranged::Refused("duplicate") => {
                self.not_arranged(now, admit, turn, rung, Fact::Exists, "duplicate");
            }
            Arranged::Refused(code) => {
                let fault = Fault::Rejected { status: 409, retry_after_ms: None };
                let cause = Cause::fault(stage_of(rung), &fault);
                self.rung_failed(now, admit, turn, &cause, rung, code);
            }
            Arranged::Unknown => {
                self.not_arranged(now, admit, turn, rung, Fact::Unknown, "unknown");
            }
        }
    }

    /// It is established: what promises it is said, with its proof at hand.
    fn established(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        turn: Turn,
        cause: &Cause,
        said: Option<Said>,
        then: Afterwards,
    ) {
        if matches!(then, Afterwards::HangUp(_)) {
            self.stop_listening(now, admit, Cancelled::HangUp);
        }
        match said {
            Some(said) => {
                self.tell_rung(said.rung, "established");
                self.speak(now, cause, said, None, Some(turn), then);
            }
            // A ladder that was built has words for what it establishes: held by its tests.
            None => self.end(now, admit, HangUp::Goodbye),
        }
    }

    /// This rung was not established: the caller is told, and the next one is tried.
    pub(super) fn rung_failed(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        turn: Turn,
        cause: &Cause,
        rung: Rung,
        outcome: &'static str,
    ) {
        self.tell_rung(rung, outcome);
        if !self.tried.contains(&rung) {
            self.tried.push(rung);
        }
        // What became of the rung is told in any case: that is no further try of the caller's.
        let tries = if cause.is_of_rung() { std::mem::take(&mut self.retries) } else { 0 };
        self.console(now, admit, cause, None, Some(turn), Afterwards::Listen);
        self.retries = self.retries.max(tries);
    }

    /// It was not arranged now, for a reason that has words of its own.
    fn not_arranged(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        turn: Turn,
        rung: Rung,
        fact: Fact<'_>,
        outcome: &'static str,
    ) {
        let cause = Cause::fault(stage_of(rung), &Fault::Slow { deadline: "arranging" });
        match self.say_of(&cause, Rung::Retry, fact) {
            Some(said) => {
                self.tell_rung(rung, outcome);
                self.tried.push(rung);
                self.speak(now, &cause, said, None, Some(turn), Afterwards::Listen);
            }
            None => self.rung_failed(now, admit, turn, &cause, rung, outcome),
        }
    }

    /// Nobody has said in time whether it is arranged.
    pub(super) fn on_arranging_due(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let Some(Arranging { rung, turn, unit, .. }) = self.take_arranging(now) else { return };
        match (unit, rung) {
            (Unit::Waiting(ticket), _) => {
                admit.withdraw(now, ticket, Cancelled::Superseded);
                let cause = Cause::expired(stage_of(rung));
                self.rung_failed(now, admit, turn, &cause, rung, "expired");
            }
            (Unit::Running(run) | Unit::Acknowledged(run), Rung::Handoff) => {
                self.cancel_run(now, admit, run, Cancelled::Superseded);
                let cause = Cause::NotReached(NotReached::Timeout);
                self.rung_failed(now, admit, turn, &cause, rung, "timeout");
            }
            (Unit::Running(run) | Unit::Acknowledged(run), _) => {
                self.cancel_run(now, admit, run, Cancelled::Superseded);
                self.not_arranged(now, admit, turn, rung, Fact::Unknown, "unknown");
            }
        }
    }

    /// Its run is over; without an answer before that nothing is known.
    pub(super) fn rung_over(&mut self, now: Timestamp, admit: &mut dyn Admit, run: RunId) -> bool {
        if !self.arranging().is_some_and(|arranging| arranging.unit.is_run(run)) {
            return false;
        }
        self.on_arranged(now, admit, run, Arranged::Unknown);
        true
    }

    /// The call ends: what waited for a unit waits no more. What runs is cancelled with the rest.
    pub(super) fn drop_arranging(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        self.offered = None;
        let Some(Arranging { rung, unit, .. }) = self.take_arranging(now) else { return };
        match (unit, rung) {
            (Unit::Waiting(ticket), _) => admit.withdraw(now, ticket, Cancelled::HangUp),
            // A human who is being asked would be asked for nobody.
            (Unit::Running(run) | Unit::Acknowledged(run), Rung::Handoff) => {
                self.cancel_run(now, admit, run, Cancelled::HangUp);
            }
            // A commit that is under way is what the caller wanted: it stays.
            (Unit::Running(_) | Unit::Acknowledged(_), _) => {}
        }
    }

    pub(super) fn say_of(&self, cause: &Cause, rung: Rung, fact: Fact<'_>) -> Option<Said> {
        self.profile.fallback.say(cause, rung, fact, &self.profile.language)
    }

    /// A rung of the ladder was tried: here is what came of it.
    pub(super) fn tell_rung(&mut self, rung: Rung, outcome: &'static str) {
        let (rung, prompt) = (rung.label(), String::new());
        self.tell(ToCaller::Fallback { rung, outcome, prompt });
    }
}
