//! Work under way: offers, leases owed, starts, cancels, ends. Every unit goes through here and
//! back.

use super::state::{Floor, Model, Owed, Stray, Turn, Voice};
use super::{Action, Call, STRAYS_MAX};
use crate::admission::{
    Admit, Answer as Verdict, Cancelled, Lease, Offer, OfferId, RefusalReason, Release, Settled,
    Terminal, mutant,
};
use crate::evidence::{Evidence, Unknown};
use crate::fault::Fault;
use crate::id::{RunId, Stage, TurnId};
use crate::leg::{AdmissionNote, HangUp, ToCaller};
use crate::time::Timestamp;

impl Call {
    /// Offers work of this call to a stage's gate.
    pub(super) fn offer(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        stage: Stage,
        born: Timestamp,
        turn: Option<Turn>,
    ) -> Verdict {
        let offer = self.offer_of(now, admit, stage, born, turn);
        let verdict = admit.ask(now, stage, offer);
        let (name, reason) = match &verdict {
            Verdict::Admitted(_) => ("admitted", ""),
            Verdict::Queued(_) => ("queued", ""),
            Verdict::Refused(refusal) => labels(refusal.reason),
        };
        self.note(stage, name, reason, turn.map(|turn| turn.id));
        verdict
    }

    /// Work of this call as a gate is asked for it.
    pub(super) fn offer_of(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        stage: Stage,
        born: Timestamp,
        turn: Option<Turn>,
    ) -> Offer {
        let born = if mutant::is("deadline_reset_by_retry") { now } else { born };
        // Answers beside the conversation keep an order of births of their own and never rotate.
        let beside = stage.rotates() && turn.is_none();
        let owner = if beside { self.side_owner() } else { self.owner() };
        let rotates = stage.rotates() && !beside;
        let generation = if rotates { self.generation } else { crate::id::Generation(0) };
        Offer {
            id: admit.name_offer(),
            owner,
            generation,
            born,
            deadline: self.deadline(now, admit, stage, born, turn),
            tenant: self.identity.tenant,
            class: self.identity.class,
            cost: 1,
            bytes: self.kept_bytes(stage),
            retry_of: None,
            supersedes: None,
        }
    }

    /// How long an offer may wait: what the gate allows, and for a turn that must become audible no
    /// longer than the budget less the fallback's own start (DESIGN section 3, *Ages*). Once
    /// something was audible the caller waits for the rest from now on; a gate's own limit counts
    /// from the birth all the same.
    fn deadline(
        &self,
        now: Timestamp,
        admit: &dyn Admit,
        stage: Stage,
        born: Timestamp,
        turn: Option<Turn>,
    ) -> Timestamp {
        let most = admit.max_wait(stage);
        match turn.map(|turn| (turn.audible_by, turn.heard)) {
            Some((Some(_), false)) => born + most.min(self.quiet_max()),
            Some((Some(_), true)) => now + most,
            Some((None, _)) | None => born + most,
        }
    }

    /// What this work keeps while it waits, where that may be as large as whoever wrote it likes
    /// . Sound is bounded where it is kept.
    fn kept_bytes(&self, stage: Stage) -> u64 {
        match stage {
            Stage::Model => self.history.bytes() as u64,
            _ => 0,
        }
    }

    /// Tells a client that asked for it what a gate decided.
    pub(super) fn note(
        &mut self,
        stage: Stage,
        disposition: &'static str,
        reason: &'static str,
        turn: Option<TurnId>,
    ) {
        let gate = self.profile.gate_name(stage);
        let generation = self.generation;
        self.tell(ToCaller::Admission(AdmissionNote {
            gate,
            disposition,
            reason,
            turn,
            generation,
        }));
    }

    /// Begins a run under a lease (or under none, for what needs no unit).
    pub(super) fn owe(
        &mut self,
        stage: Stage,
        lease: Option<Lease>,
        turn: Option<TurnId>,
    ) -> RunId {
        let run = self.next_run();
        let generation = self.generation;
        let owed = Owed { lease, stage, generation, turn, effect: None, cancelled: None };
        self.owed.insert(run, owed);
        run
    }

    /// Asks a run to stop. Its unit stays owed until its end is proven.
    pub(super) fn cancel_run(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        run: RunId,
        why: Cancelled,
    ) {
        let Some(owed) = self.owed.get_mut(&run) else { return };
        if owed.cancelled.is_some() {
            return;
        }
        owed.cancelled = Some(why);
        if let Some(lease) = &owed.lease {
            admit.cancel(now, lease, why);
        }
        if mutant::is("release_on_cancel")
            && let Some(lease) = owed.lease.take()
        {
            let _ = admit.settle(now, lease, Release::Completed(Evidence::Completed));
        }
        self.act(Action::Cancel { run, why });
    }

    pub(super) fn on_ended(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        run: RunId,
        proof: Result<Evidence, Unknown>,
        fault: Option<Fault>,
    ) {
        let Some(owed) = self.owed.remove(&run) else { return };
        let effect = owed.effect;
        if proof.is_err() && owed.stage.rotates() {
            self.strays.insert(run, Stray { generation: owed.generation, call_id: None });
            if self.strays.len() > STRAYS_MAX {
                self.strays.pop_first();
            }
        }
        self.settle(now, admit, owed, proof, fault.is_some());
        if self.has_ended().is_some() {
            return;
        }
        match effect {
            Some(effect) => self.tool_run_over(now, admit, run, effect, proof, fault.as_ref()),
            None => self.on_run_over(now, admit, run, fault),
        }
        self.ask_behind(now, admit);
    }

    fn settle(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        owed: Owed,
        proof: Result<Evidence, Unknown>,
        failed: bool,
    ) {
        let Some(lease) = owed.lease else { return };
        let release = match proof {
            Ok(evidence) if failed && owed.cancelled.is_none() => Release::Failed(evidence),
            Ok(evidence) => Release::Completed(evidence),
            Err(unknown) => Release::Unknown(unknown),
        };
        let settled = admit.settle(now, lease, release);
        // A lease is no `Clone` and was taken out of what is owed: nobody else can have settled it.
        debug_assert_ne!(settled, Settled::AlreadyReleased, "a lease was settled twice");
        let (name, reason) = match (release, owed.cancelled) {
            (Release::Unknown(unknown), _) => ("quarantined", unknown.label()),
            (Release::Completed(evidence) | Release::Failed(evidence), Some(_)) => {
                ("cancelled", evidence.label())
            }
            (Release::Completed(evidence), None) => ("completed", evidence.label()),
            (Release::Failed(evidence), None) => ("failed", evidence.label()),
        };
        self.note(owed.stage, name, reason, owed.turn);
    }

    /// A grant that nobody awaits any more goes straight back.
    pub(super) fn on_granted(&mut self, now: Timestamp, admit: &mut dyn Admit, lease: Lease) {
        let stage = lease.stage;
        let lease = match self.has_ended() {
            Some(_) => Some(lease),
            None => self.start_granted(now, admit, lease),
        };
        if let Some(lease) = lease {
            let _ = admit.settle(now, lease, Release::Completed(Evidence::NeverStarted));
            self.note(stage, "cancelled", Evidence::NeverStarted.label(), None);
        }
    }

    /// Starts what waited for this unit; gives the lease back when nothing did.
    fn start_granted(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        lease: Lease,
    ) -> Option<Lease> {
        match lease.stage {
            Stage::Recognition => self.grant_recognition(now, lease),
            Stage::Model => self.grant_model(now, admit, lease),
            Stage::Synthesis => self.grant_voice(now, lease),
            Stage::Tool(_) => self.grant_tool(now, admit, lease),
            Stage::Callback | Stage::Handoff => self.grant_rung(lease),
            Stage::Call => Some(lease),
        }
    }

    pub(super) fn on_wait_ended(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        offer: OfferId,
        stage: Stage,
        terminal: Terminal,
    ) {
        if self.claim_lapsed(offer) {
            return;
        }
        let (name, reason) = terminal_labels(terminal);
        self.note(stage, name, reason, None);
        if self.has_ended().is_some() {
            return;
        }
        match stage {
            Stage::Recognition => self.recognition_wait_ended(now, admit, offer),
            Stage::Model => self.model_wait_ended(now, admit, offer),
            Stage::Synthesis => self.voice_wait_ended(now, admit, offer),
            Stage::Tool(_) => self.tool_wait_ended(now, admit, offer),
            Stage::Callback | Stage::Handoff => self.rung_wait_ended(now, admit, offer),
            Stage::Call => {}
        }
    }

    /// Ends the call: one way, idempotent. What is owed is cancelled and awaited.
    pub(super) fn end(&mut self, now: Timestamp, admit: &mut dyn Admit, why: HangUp) {
        if self.has_ended().is_some() {
            return;
        }
        self.settle_heard(now);
        if let Some((item, _)) = self.sounding(now) {
            self.tell_heard(&item);
        }
        self.stop_listening(now, admit, Cancelled::HangUp);
        self.drop_arranging(now, admit);
        self.orphan_tools();
        self.fence(now, admit, Cancelled::HangUp);
        self.drop_sides(now, admit);
        // Who was connected to the caller has them now.
        let handed = |owed: &Owed| why == HangUp::HandedOver && owed.stage == Stage::Handoff;
        let rest = self.owed.iter().filter(|(_, owed)| !handed(owed));
        let rest: Vec<RunId> = rest.map(|(run, _)| *run).collect();
        for run in rest {
            self.cancel_run(now, admit, run, Cancelled::HangUp);
        }
        self.floor = Floor::Ended { why };
        self.tell(ToCaller::HangUp { why });
    }

    /// The generation rotates: everything running for the old one loses its authority at once and
    /// is asked to stop; what waited is gone. A tool that must finish goes on, unheard.
    pub(super) fn fence(&mut self, now: Timestamp, admit: &mut dyn Admit, why: Cancelled) {
        self.drop_claim(now, admit);
        self.drop_guess(now, admit, why);
        let from = self.generation;
        self.generation = from.next();
        self.act(Action::Fence { from, to: self.generation, why: cancelled_label(why) });
        admit.rotate(now, self.owner(), self.generation, why);
        let runs: Vec<RunId> = self
            .owed
            .iter()
            .filter(|(_, owed)| owed.generation == from && self.stops_at_fence(owed))
            .map(|(run, _)| *run)
            .collect();
        for run in runs {
            if !self.is_side_run(run) {
                self.cancel_run(now, admit, run, why);
            }
        }
    }

    /// A run that lost the floor is asked to stop; a tool that must finish is let finish, unheard.
    fn stops_at_fence(&self, owed: &Owed) -> bool {
        let must_finish = owed.effect == Some(crate::dialogue::Effect::MustFinish);
        owed.cancelled.is_none() && owed.stage.rotates() && !must_finish
    }

    /// The unit a run holds, by the name of the offer it was granted for.
    pub fn lease_of(&self, run: RunId) -> Option<(Stage, OfferId)> {
        let lease = self.owed.get(&run)?.lease.as_ref()?;
        Some((lease.stage, lease.offer))
    }

    /// Counts output that came for a generation which has lost the floor.
    pub(super) fn late(&mut self, run: RunId, stage: &'static str) {
        let owed = self.owed.get(&run).map(|owed| owed.generation);
        let Some(generation) = owed.or_else(|| self.strays.get(&run).map(|s| s.generation)) else {
            return;
        };
        self.late_outputs += 1;
        self.tell(ToCaller::LateOutput { stage, generation });
    }
}

impl Model {
    /// It waits with this offer.
    pub fn awaits(&self, offer: OfferId) -> bool {
        matches!(self, Model::Waiting(ticket) if ticket.offer == offer)
    }

    /// It writes in this run.
    pub fn is_run(&self, run: RunId) -> bool {
        matches!(self, Model::Writing(own) if *own == run)
    }
}

impl Voice {
    /// It waits with this offer.
    pub fn awaits(&self, offer: OfferId) -> bool {
        matches!(self, Voice::Waiting(ticket, _) if ticket.offer == offer)
    }

    /// It is this run.
    pub fn is_run(&self, run: RunId) -> bool {
        matches!(self, Voice::Open(own) | Voice::Closing(own, _) if *own == run)
    }
}

/// Disposition and finer reason of a refusal, as events and metrics write them.
pub(super) fn labels(reason: RefusalReason) -> (&'static str, &'static str) {
    let row = reason.disposition();
    (row.label, row.reason)
}

fn terminal_labels(terminal: Terminal) -> (&'static str, &'static str) {
    let row = terminal.disposition();
    (row.label, row.reason)
}

/// A cancellation's label.
fn cancelled_label(why: Cancelled) -> &'static str {
    Terminal::Cancelled(why).disposition().reason
}
