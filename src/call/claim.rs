//! A unit of synthesis is claimed before a model begins: no answer is made that cannot be spoken
//!
//!
//! Each round of an answer makes a claim of its own, because no unit is held while tools run
//! . It lives from the model's start to the first phrase, which confirms it; a round without
//! a phrase gives it back. Where an offer may wait for a unit, the round begins without a claim and
//! its first phrase waits.

use super::Call;
use super::fallback::Cause;
use super::runs::labels;
use super::state::{Model, Owed, Voice};
use crate::admission::{Admit, Claimed, Lease, OfferId, Refusal, Release, mutant};
use crate::dialogue::Finish;
use crate::evidence::Evidence;
use crate::id::Stage;
use crate::leg::Modality;
use crate::time::Timestamp;

/// The finer reason of what a gate decided about a claim.
const CLAIM: &str = "claim";

impl Call {
    /// Claims a unit for what the model is about to write. The error says why nobody could speak
    /// it.
    pub(super) fn claim_voice(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
    ) -> Result<(), Refusal> {
        let Some(answer) = self.floor.answer() else { return Ok(()) };
        // Words of an earlier round that still sound, or wait to, have a unit or a place already.
        let wanted = answer.modality == Modality::Audio && matches!(answer.voice, Voice::Unasked);
        if !wanted || mutant::is("model_before_claim") {
            return Ok(());
        }
        let turn = answer.turn;
        let offer = self.offer_of(now, admit, Stage::Synthesis, turn.born, Some(turn));
        match admit.claim(now, Stage::Synthesis, offer) {
            Claimed::Held(lease) => {
                if let Some(answer) = self.floor.answer() {
                    answer.voice = Voice::Claimed(lease);
                }
                self.note(Stage::Synthesis, "admitted", CLAIM, Some(turn.id));
                Ok(())
            }
            Claimed::MayWait => Ok(()),
            Claimed::Refused(refusal) => {
                let (name, reason) = labels(refusal.reason);
                self.note(Stage::Synthesis, name, reason, Some(turn.id));
                Err(refusal)
            }
        }
    }

    /// The model's unit goes back unused, and the answer is given up.
    pub(super) fn not_started(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        lease: Lease,
        cause: Cause,
    ) {
        let turn = self.floor.answer().map(|answer| {
            answer.model = Model::Done(Finish::Stop);
            answer.turn.id
        });
        let _ = admit.settle(now, lease, Release::Completed(Evidence::NeverStarted));
        self.note(Stage::Model, "completed", Evidence::NeverStarted.label(), turn);
        self.give_up(now, admit, cause);
    }

    /// An earlier round has sounded to its end while the model writes the next one: that one is
    /// without a unit now.
    pub(super) fn claim_next_round(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let answer = self.floor.answer();
        if answer.is_some_and(|answer| matches!(answer.model, Model::Writing(_)))
            && let Err(refusal) = self.claim_voice(now, admit)
        {
            self.give_up(now, admit, Cause::refused(refusal));
        }
    }

    /// The first phrase is there: the claimed unit, unless the claim has lapsed.
    pub(super) fn confirm_claim(&mut self, now: Timestamp, admit: &mut dyn Admit) -> Option<Lease> {
        let answer = self.floor.answer()?;
        let turn = answer.turn.id;
        let lease = answer.voice.take_claim()?;
        if !admit.confirm(now, &lease) {
            return None;
        }
        self.note(Stage::Synthesis, "admitted", "", Some(turn));
        Some(lease)
    }

    /// Nothing will be spoken on the claim: it goes back.
    pub(super) fn drop_claim(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let Some(answer) = self.floor.answer() else { return };
        let turn = answer.turn.id;
        let Some(lease) = answer.voice.take_claim() else { return };
        // Made firm first: one that lapses at this moment has nothing to give back.
        if admit.confirm(now, &lease) && !mutant::is("claim_kept") {
            let _ = admit.settle(now, lease, Release::Completed(Evidence::NeverStarted));
            self.note(Stage::Synthesis, "completed", Evidence::NeverStarted.label(), Some(turn));
        }
    }

    /// True when the wait that ended was a claim's: the first phrase will make an offer.
    pub(super) fn claim_lapsed(&mut self, offer: OfferId) -> bool {
        let Some(answer) = self.floor.answer() else { return false };
        let lapsed = matches!(&answer.voice, Voice::Claimed(lease) if lease.offer == offer);
        if lapsed {
            answer.voice = Voice::Unasked;
            let turn = answer.turn.id;
            self.note(Stage::Synthesis, "expired", CLAIM, Some(turn));
        }
        lapsed
    }

    /// No unit is free, and this call's own cancelled runs still hold some: it is not refused for
    /// what it has itself asked to stop (B101).
    pub(super) fn is_behind_itself(&mut self, admit: &dyn Admit) -> bool {
        let speaks = self.floor.answer().is_some_and(|answer| {
            answer.modality == Modality::Audio && matches!(answer.voice, Voice::Unasked)
        });
        let stages = [(Stage::Model, true), (Stage::Synthesis, speaks)];
        stages.into_iter().any(|(stage, wanted)| {
            let own = |owed: &Owed| {
                owed.stage == stage && owed.cancelled.is_some() && owed.lease.is_some()
            };
            let refuses = admit.spare(stage) == 0 && !admit.has_queue(stage);
            wanted && refuses && self.owed.values().any(own)
        })
    }

    /// A run has ended: an answer that waited for that asks now.
    pub(super) fn ask_behind(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        if self.floor.answer().is_some_and(|answer| matches!(answer.model, Model::Behind)) {
            self.ask_model(now, admit);
        }
    }
}

impl Voice {
    fn take_claim(&mut self) -> Option<Lease> {
        match std::mem::replace(self, Voice::Unasked) {
            Voice::Claimed(lease) => Some(lease),
            other => {
                *self = other;
                None
            }
        }
    }
}
