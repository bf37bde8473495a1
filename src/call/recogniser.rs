//! The recogniser's unit: one offer an utterance, not touched by rotation.

use std::time::Duration;

use super::state::{Ear, Recognition};
use super::{Action, Call};
use crate::admission::{Admit, Answer as Verdict, Cancelled, Lease, OfferId};
use crate::fault::Fault;
use crate::id::{RunId, Stage};
use crate::time::Timestamp;

impl Call {
    pub(super) fn open_recogniser(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        born: Timestamp,
        from: Duration,
    ) -> Recognition {
        // A commit by the client is born when it comes, speech when it began: never out of order.
        self.last_birth = self.last_birth.max(born);
        match self.offer(now, admit, Stage::Recognition, self.last_birth, None) {
            Verdict::Admitted(lease) => Recognition::Open(self.start_recogniser(lease, from)),
            Verdict::Queued(ticket) => Recognition::Waiting(ticket),
            Verdict::Refused(refusal) => Recognition::Refused(refusal),
        }
    }

    fn start_recogniser(&mut self, lease: Lease, from: Duration) -> RunId {
        let run = self.owe(Stage::Recognition, Some(lease), None);
        self.act(Action::Recognise { run, from });
        run
    }

    /// A unit for the recogniser came: it hears the utterance from its start.
    pub(super) fn grant_recognition(&mut self, now: Timestamp, lease: Lease) -> Option<Lease> {
        let offer = lease.offer;
        let waiting = self.utterance(|utterance| utterance.recognition.awaits(offer));
        let Some(from) = waiting.map(|utterance| utterance.from) else { return Some(lease) };
        self.note(Stage::Recognition, "admitted", "", None);
        let run = self.start_recogniser(lease, from);
        if let Some(utterance) = self.utterance(|utterance| utterance.recognition.awaits(offer)) {
            utterance.recognition = Recognition::Open(run);
            let pause = utterance.pause.as_ref().map(|pause| pause.seq);
            if let Some(seq) = pause {
                self.act(Action::Decode { run, seq, is_final: true });
            }
        }
        self.words_restart(now);
        None
    }

    pub(super) fn recognition_wait_ended(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        offer: OfferId,
    ) {
        let waiting = self.utterance(|utterance| utterance.recognition.awaits(offer));
        let Some(utterance) = waiting else { return };
        utterance.recognition = Recognition::Expired;
        self.look_again(now, admit);
    }

    /// The recogniser's run is over; before its words came that is a fault.
    pub(super) fn recogniser_over(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        run: RunId,
        fault: Option<Fault>,
    ) {
        let Some(utterance) = self.utterance(|utterance| utterance.recognition.is_run(run)) else {
            return;
        };
        utterance.recognition = Recognition::Failed(fault.unwrap_or(Fault::Empty));
        self.look_again(now, admit);
    }

    pub(super) fn close_recogniser(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        recognition: Recognition,
        why: Cancelled,
    ) {
        match recognition {
            Recognition::Open(run) => self.act(Action::Close { run }),
            Recognition::Waiting(ticket) => admit.withdraw(now, ticket, why),
            Recognition::Refused(_) | Recognition::Expired | Recognition::Failed(_) => {}
        }
    }

    /// The call comes to its end: nothing the caller says counts any more.
    pub(super) fn stop_listening(&mut self, now: Timestamp, admit: &mut dyn Admit, why: Cancelled) {
        let settling = std::mem::take(&mut self.settling).into_iter().map(|s| s.utterance);
        let mut open: Vec<Recognition> = settling.map(|utterance| utterance.recognition).collect();
        match std::mem::replace(&mut self.ear, Ear::Quiet) {
            Ear::Quiet => {}
            Ear::Suspect(utterance) | Ear::Hearing(utterance) => open.push(utterance.recognition),
        }
        for recognition in open {
            match recognition {
                Recognition::Open(run) => self.cancel_run(now, admit, run, why),
                waiting => self.close_recogniser(now, admit, waiting, why),
            }
        }
        self.speech.reset();
    }
}

impl Recognition {
    /// It waits with this offer.
    pub fn awaits(&self, offer: OfferId) -> bool {
        matches!(self, Recognition::Waiting(ticket) if ticket.offer == offer)
    }

    /// It waits for a unit.
    pub fn waits(&self) -> bool {
        matches!(self, Recognition::Waiting(_))
    }

    /// It listens in this run.
    pub fn is_run(&self, run: RunId) -> bool {
        self.open_run() == Some(run)
    }

    /// The run in which it listens.
    pub fn open_run(&self) -> Option<RunId> {
        match self {
            Recognition::Open(run) => Some(*run),
            Recognition::Waiting(_)
            | Recognition::Refused(_)
            | Recognition::Expired
            | Recognition::Failed(_) => None,
        }
    }
}
