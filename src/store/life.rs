//! The life of a callback: every change of its state, in one place. Pure; the stores persist what
//! it says.
//!
//! ```text
//! accepted ─▶ due ─▶ claimed ─▶ dialling ─▶ connected
//!     ▲        ▲        │ │         │ ├────▶ no_answer, voicemail, failed   none left: dead
//!     │        └────────┘ │         │ └────▶ unknown_dial          the lease lapsed: a dead letter
//!     └───────────────────┴─────────┘        attempts are left, or nothing was dialled
//!  accepted, due, claimed ─▶ cancelled, expired
//! ```

use super::limits::Limits;
use super::mutant;
use super::record::{Record, Shelf, State, UnixMs, words};
use super::refused::Refused;

words! {
    /// What an attempt came to.
    Outcome {
        /// The caller was reached.
        Connected = "connected",
        /// Busy, or nobody answered.
        NoAnswer = "no_answer",
        /// The call could not be placed.
        Failed = "failed",
        /// A machine answered: nobody was reached.
        Voicemail = "voicemail",
        /// Nothing was dialled: not allowed now, or no line. The attempt does not count.
        NotDialled = "not_dialled",
    }
}

/// An attempt's outcome with what goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// What it came to.
    pub outcome: Outcome,
    /// When to try again, where more attempts are left; the offer's backoff otherwise.
    pub retry_at_ms: Option<UnixMs>,
    /// In words.
    pub detail: String,
}

/// One change of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The holder of this epoch needs so much longer, from now.
    Extend(u64, u64),
    /// The holder of this epoch is about to dial. Nothing may be dialled before this is durable.
    StartDialling(u64),
    /// The holder of this epoch knows what the attempt came to.
    Settle(u64, Settlement),
    /// It is not wanted any more.
    Cancel,
    /// An operator knows what became of an unknown dial.
    Resolve(Outcome),
}

/// The longest detail that is kept.
const DETAIL_MAX: usize = 256;

impl Record {
    /// The change is made, or refused with the record as it was.
    pub fn apply(
        &mut self,
        change: &Change,
        limits: &Limits,
        now_ms: UnixMs,
    ) -> Result<(), Refused> {
        match change {
            Change::Extend(epoch, lease_ms) => self.extend(*epoch, *lease_ms, limits, now_ms),
            Change::StartDialling(epoch) => self.start_dialling(*epoch, now_ms),
            Change::Settle(epoch, settlement) => self.settle(*epoch, settlement, limits, now_ms),
            Change::Cancel => self.cancel(now_ms),
            Change::Resolve(outcome) => self.resolve(*outcome, now_ms),
        }
    }

    /// A worker takes it; the epoch before is worth nothing from here.
    pub fn claim(&mut self, worker: &str, lease_ms: u64, now_ms: UnixMs) {
        self.epoch += 1;
        self.worker = worker.to_owned();
        self.lease_until_ms = now_ms.saturating_add(lease_ms);
        self.goes_to(State::Claimed, now_ms);
    }

    /// What time alone does to it; false when that is nothing.
    pub fn age(&mut self, now_ms: UnixMs) -> bool {
        let lapsed = now_ms > self.lease_until_ms;
        let expired = now_ms > self.offer.expires_ms;
        match self.state {
            State::Accepted | State::Due | State::Claimed if expired => {
                self.let_go();
                self.goes_to(State::Expired, now_ms);
            }
            State::Accepted if self.due_ms <= now_ms => self.goes_to(State::Due, now_ms),
            State::Claimed if lapsed => {
                self.let_go();
                self.goes_to(State::Due, now_ms);
            }
            // Its epoch stays: the worker may come back with what it saw.
            State::Dialling if lapsed && mutant::is("unknown_redialled") => {
                self.let_go();
                self.goes_to(State::Due, now_ms);
            }
            State::Dialling if lapsed => self.goes_to(State::UnknownDial, now_ms),
            State::Accepted
            | State::Due
            | State::Claimed
            | State::Dialling
            | State::Connected
            | State::NoAnswer
            | State::Voicemail
            | State::Failed
            | State::Expired
            | State::Cancelled
            | State::UnknownDial => return false,
        }
        true
    }

    /// It was replayed: a new offer stands for it, so it is history (C-044).
    pub fn replayed(&mut self, now_ms: UnixMs) -> Result<(), Refused> {
        if self.shelf != Shelf::Dead {
            return Err(Refused::NotDead);
        }
        self.shelf = Shelf::Kept;
        self.changed_ms = now_ms;
        Ok(())
    }

    fn extend(
        &mut self,
        epoch: u64,
        lease_ms: u64,
        limits: &Limits,
        now_ms: UnixMs,
    ) -> Result<(), Refused> {
        limits.check_lease(lease_ms)?;
        self.held(epoch, &[State::Claimed, State::Dialling])?;
        self.alive(now_ms)?;
        self.lease_until_ms = now_ms.saturating_add(lease_ms).max(self.lease_until_ms);
        Ok(())
    }

    fn start_dialling(&mut self, epoch: u64, now_ms: UnixMs) -> Result<(), Refused> {
        self.held(epoch, &[State::Claimed])?;
        self.alive(now_ms)?;
        if now_ms > self.offer.expires_ms {
            return Err(Refused::Expired { at_ms: self.offer.expires_ms });
        }
        self.attempts += 1;
        self.goes_to(State::Dialling, now_ms);
        Ok(())
    }

    /// A late outcome is evidence, so the lease does not matter: only whether another has it.
    fn settle(
        &mut self,
        epoch: u64,
        settlement: &Settlement,
        limits: &Limits,
        now_ms: UnixMs,
    ) -> Result<(), Refused> {
        let dialled = [State::Dialling, State::UnknownDial];
        match settlement.outcome {
            Outcome::Connected | Outcome::NoAnswer | Outcome::Voicemail => {
                self.held(epoch, &dialled)?;
            }
            Outcome::Failed | Outcome::NotDialled => {
                self.held(epoch, &[State::Claimed, State::Dialling, State::UnknownDial])?;
            }
        }
        if settlement.detail.contains('\0') {
            return Err(Refused::bad("detail", "has a NUL in it"));
        }
        self.detail = cut(&settlement.detail);
        match (settlement.outcome, self.state) {
            (Outcome::Connected, _) => self.goes_to(State::Connected, now_ms),
            // Once nobody knew, it is for a human: it is not rung again by itself.
            (outcome, State::UnknownDial) => self.goes_to(ended(outcome), now_ms),
            (Outcome::NotDialled, state) => {
                self.attempts -= u32::from(state == State::Dialling);
                self.tries_again(settlement, Outcome::NotDialled, limits, now_ms);
            }
            (outcome @ (Outcome::NoAnswer | Outcome::Voicemail | Outcome::Failed), state) => {
                // What could not even be tried is an attempt too: else it would be tried for ever.
                self.attempts += u32::from(state == State::Claimed);
                self.tries_again(settlement, outcome, limits, now_ms);
            }
        }
        Ok(())
    }

    /// Waits for its next attempt, or ends when there is none within its time (C-041).
    fn tries_again(
        &mut self,
        settlement: &Settlement,
        outcome: Outcome,
        limits: &Limits,
        now_ms: UnixMs,
    ) {
        let doublings = self.attempts.saturating_sub(1).min(32);
        let backoff_ms = self.offer.backoff_ms.saturating_mul(1 << doublings);
        let next_ms = now_ms.saturating_add(backoff_ms.min(limits.backoff_ms));
        let next_ms = settlement.retry_at_ms.unwrap_or(next_ms).max(self.offer.not_before_ms);
        let in_time = next_ms <= self.offer.expires_ms;
        self.let_go();
        if self.attempts < self.offer.attempts_max && in_time {
            self.due_ms = next_ms;
            let waits = if next_ms <= now_ms { State::Due } else { State::Accepted };
            self.goes_to(waits, now_ms);
        } else {
            self.goes_to(ended(outcome), now_ms);
        }
    }

    fn cancel(&mut self, now_ms: UnixMs) -> Result<(), Refused> {
        match self.state {
            State::Accepted | State::Due | State::Claimed => {
                self.let_go();
                self.goes_to(State::Cancelled, now_ms);
                Ok(())
            }
            State::Dialling
            | State::Connected
            | State::NoAnswer
            | State::Voicemail
            | State::Failed
            | State::Expired
            | State::Cancelled
            | State::UnknownDial => Err(Refused::WrongState { state: self.state }),
        }
    }

    fn resolve(&mut self, outcome: Outcome, now_ms: UnixMs) -> Result<(), Refused> {
        if self.state != State::UnknownDial {
            return Err(Refused::WrongState { state: self.state });
        }
        let replayed = self.shelf == Shelf::Kept;
        self.goes_to(ended(outcome), now_ms);
        if replayed {
            self.shelf = Shelf::Kept;
        }
        Ok(())
    }

    /// The claim of this epoch is in force, and the record where the holder may act.
    fn held(&self, epoch: u64, states: &[State]) -> Result<(), Refused> {
        if epoch != self.epoch && !mutant::is("epoch_ignored") {
            return Err(Refused::StaleEpoch { current: self.epoch });
        }
        // A replayed dead letter is another's by now.
        if !states.contains(&self.state) || self.shelf == Shelf::Kept {
            return Err(Refused::WrongState { state: self.state });
        }
        Ok(())
    }

    fn alive(&self, now_ms: UnixMs) -> Result<(), Refused> {
        if now_ms > self.lease_until_ms && !mutant::is("lease_ignored") {
            return Err(Refused::LeaseLapsed { at_ms: self.lease_until_ms });
        }
        Ok(())
    }

    /// Nobody holds it any more, and who did cannot act.
    fn let_go(&mut self) {
        self.epoch += 1;
        self.worker.clear();
        self.lease_until_ms = 0;
    }

    fn goes_to(&mut self, state: State, now_ms: UnixMs) {
        self.state = state;
        self.shelf = state.shelf();
        self.changed_ms = now_ms;
    }
}

/// Where a record ends whose last attempt came to this.
fn ended(outcome: Outcome) -> State {
    match outcome {
        Outcome::Connected => State::Connected,
        Outcome::NoAnswer => State::NoAnswer,
        Outcome::Voicemail => State::Voicemail,
        Outcome::Failed => State::Failed,
        Outcome::NotDialled => State::Expired,
    }
}

fn cut(text: &str) -> String {
    let mut end = text.len().min(DETAIL_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}
