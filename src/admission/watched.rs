//! A gate that is watched: with a decision log, shadows and a change on trial, each if asked for.
//!
//! It has the gate's own words and answers; what watches it sees every one of them and changes
//! nothing, except that a trial that failed is undone.

use std::ops::Deref;

use super::adaptive::Adaptive;
use super::gate::{Forgotten, Gate, NotNewer, Pressure, Rotated, Withdrawn};
use super::limits::{CloseMode, Limits};
use super::log::{Act, Log, Said, Told};
use super::shadow::{Real, Shadow, ShadowReport};
use super::trial::{Criterion, Trial, Verdict};
use super::{
    Answer, Cancelled, Claimed, Closed, Lease, Offer, OfferId, OwnerId, Release, Settled, Terminal,
    Ticket, Wake,
};
use crate::evidence::Evidence;
use crate::id::{Generation, Stage};
use crate::time::Timestamp;

/// Shadows of one gate at once.
pub const SHADOWS_MAX: usize = 4;

/// A gate and what watches it.
#[derive(Debug)]
pub struct Watched {
    gate: Gate,
    log: Option<Log>,
    shadows: Vec<Shadow>,
    trial: Option<Trial>,
    verdict: Option<Verdict>,
}

/// Everything that only looks.
impl Deref for Watched {
    type Target = Gate;
    fn deref(&self) -> &Gate {
        &self.gate
    }
}

impl Watched {
    /// A new gate that nothing watches.
    pub fn new(stage: Stage, limits: Limits) -> Self {
        let gate = Gate::new(stage, limits);
        Watched { gate, log: None, shadows: Vec::new(), trial: None, verdict: None }
    }

    /// Keeps the last `lines` decisions from now on; 0 keeps none.
    pub fn keep_log(&mut self, lines: usize) {
        self.log = (lines > 0).then(|| Log::new(lines));
    }

    /// The decisions that are kept.
    pub fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// Begins a shadow with these limits; false when there are [`SHADOWS_MAX`] already.
    pub fn add_shadow(&mut self, limits: Limits) -> bool {
        let room = self.shadows.len() < SHADOWS_MAX;
        if room {
            self.shadows.push(Shadow::new(self.gate.stage(), limits));
        }
        room
    }

    /// Ends all shadows.
    pub fn drop_shadows(&mut self) {
        self.shadows.clear();
    }

    /// What each shadow has seen, in the order in which they were added.
    pub fn shadow_reports(&self) -> Vec<ShadowReport> {
        self.shadows.iter().map(Shadow::report).collect()
    }

    /// How the last change on trial stands.
    pub fn verdict(&self) -> Option<Verdict> {
        self.verdict
    }

    /// See [`Gate::offer`].
    pub fn offer(&mut self, now: Timestamp, offer: Offer, wakes: &mut Vec<Wake>) -> Answer {
        let (from, copy) = (wakes.len(), offer.clone());
        let answer = self.gate.offer(now, offer, wakes);
        let (said, real) = match &answer {
            Answer::Admitted(_) => (Said::Admitted, Real::Admitted),
            Answer::Queued(_) => (Said::Queued, Real::Queued),
            Answer::Refused(refusal) => (Said::Refused(refusal.reason), Real::Refused),
        };
        self.asked(now, copy, said, Some(real), Act::Offer, &wakes[from..]);
        answer
    }

    /// See [`Gate::claim`].
    pub fn claim(&mut self, now: Timestamp, offer: Offer, wakes: &mut Vec<Wake>) -> Claimed {
        let (from, copy) = (wakes.len(), offer.clone());
        let claimed = self.gate.claim(now, offer, wakes);
        let (said, real) = match &claimed {
            Claimed::Held(_) => (Said::Admitted, Some(Real::Admitted)),
            // The shadows are asked by the offer that is still to come.
            Claimed::MayWait => (Said::Nothing, None),
            Claimed::Refused(refusal) => (Said::Refused(refusal.reason), Some(Real::Refused)),
        };
        self.asked(now, copy, said, real, Act::Claim, &wakes[from..]);
        claimed
    }

    /// See [`Gate::inherit`].
    pub fn inherit(&mut self, now: Timestamp, offer: Offer) -> Lease {
        let copy = offer.clone();
        let lease = self.gate.inherit(now, offer);
        self.asked(now, copy, Said::Admitted, Some(Real::Admitted), Act::Inherit, &[]);
        lease
    }

    /// See [`Gate::hand_on`].
    pub fn hand_on(&mut self, now: Timestamp, lease: &Lease) -> bool {
        let held = self.gate.hand_on(now, lease);
        self.write(now, || Act::HandOn(lease.offer), Said::done(held), &[]);
        held
    }

    /// See [`Gate::confirm`].
    pub fn confirm(&mut self, now: Timestamp, lease: &Lease, wakes: &mut Vec<Wake>) -> bool {
        let from = wakes.len();
        let firm = self.gate.confirm(now, lease, wakes);
        self.write(now, || Act::Confirm(lease.offer), Said::done(firm), &wakes[from..]);
        firm
    }

    /// See [`Gate::withdraw`].
    pub fn withdraw(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        why: Cancelled,
        wakes: &mut Vec<Wake>,
    ) -> Withdrawn {
        let (from, offer) = (wakes.len(), ticket.offer);
        let withdrawn = self.gate.withdraw(now, ticket, why, wakes);
        for shadow in &mut self.shadows {
            shadow.advance(now);
            match withdrawn {
                Withdrawn::Left => shadow.given_up(now, offer, why),
                Withdrawn::Granted => shadow.cancelled(now, offer, why),
                Withdrawn::Ended => {}
            }
        }
        let left = Said::done(withdrawn == Withdrawn::Left);
        self.write(now, || Act::Withdraw(offer, why), left, &wakes[from..]);
        withdrawn
    }

    /// See [`Gate::extend`].
    pub fn extend(&mut self, now: Timestamp, ticket: &Ticket) -> Option<Timestamp> {
        let deadline = self.gate.extend(now, ticket);
        self.write(now, || Act::Extend(ticket.offer), Said::done(deadline.is_some()), &[]);
        deadline
    }

    /// See [`Gate::cancel`].
    pub fn cancel(&mut self, now: Timestamp, lease: &Lease, why: Cancelled) {
        self.gate.cancel(now, lease, why);
        for shadow in &mut self.shadows {
            shadow.cancelled(now, lease.offer, why);
        }
        self.write(now, || Act::Cancel(lease.offer, why), Said::Nothing, &[]);
    }

    /// See [`Gate::settle`].
    pub fn settle(
        &mut self,
        now: Timestamp,
        lease: Lease,
        release: Release,
        wakes: &mut Vec<Wake>,
    ) -> Settled {
        let (from, offer) = (wakes.len(), lease.offer);
        let settled = self.gate.settle(now, lease, release, wakes);
        for shadow in &mut self.shadows {
            shadow.settled(now, offer, release);
        }
        let said = Said::Settled(settled);
        self.write(now, || Act::Settle(offer, release), said, &wakes[from..]);
        settled
    }

    /// See [`Gate::evidence`].
    pub fn evidence(
        &mut self,
        now: Timestamp,
        offer: OfferId,
        evidence: Evidence,
        wakes: &mut Vec<Wake>,
    ) -> Option<Settled> {
        let from = wakes.len();
        let settled = self.gate.evidence(now, offer, evidence, wakes);
        for shadow in &mut self.shadows {
            shadow.proven(now, offer, evidence);
        }
        let said = settled.map_or(Said::Nothing, Said::Settled);
        self.write(now, || Act::Evidence(offer, evidence), said, &wakes[from..]);
        settled
    }

    /// See [`Gate::rotate`].
    pub fn rotate(
        &mut self,
        now: Timestamp,
        owner: OwnerId,
        generation: Generation,
        why: Cancelled,
        wakes: &mut Vec<Wake>,
    ) -> Result<Rotated, NotNewer> {
        let from = wakes.len();
        let rotated = self.gate.rotate(now, owner, generation, why, wakes);
        let said = rotated.map_or(Said::Nothing, |r| Said::Done(r.withdrawn + r.cancelled));
        if rotated.is_ok() {
            for shadow in &mut self.shadows {
                shadow.rotate(now, owner, generation, why);
            }
        }
        self.write(now, || Act::Rotate(owner, generation, why), said, &wakes[from..]);
        rotated
    }

    /// See [`Gate::forget`].
    pub fn forget(&mut self, now: Timestamp, owner: OwnerId, wakes: &mut Vec<Wake>) -> Forgotten {
        let from = wakes.len();
        let forgotten = self.gate.forget(now, owner, wakes);
        for shadow in &mut self.shadows {
            shadow.forget(now, owner);
        }
        let said = Said::Done(forgotten.withdrawn + forgotten.unknown);
        self.write(now, || Act::Forget(owner), said, &wakes[from..]);
        forgotten
    }

    /// See [`Gate::expire`]; a change on trial is judged here as well.
    pub fn expire(&mut self, now: Timestamp, wakes: &mut Vec<Wake>) {
        let from = wakes.len();
        self.gate.expire(now, wakes);
        for shadow in &mut self.shadows {
            shadow.advance(now);
        }
        // A pass that found nothing to do is no decision.
        if wakes.len() > from {
            self.write(now, || Act::Expire, Said::Nothing, &wakes[from..]);
        }
        self.judge_trial(now, wakes);
    }

    /// See [`Gate::close`].
    pub fn close(&mut self, now: Timestamp, why: Closed, mode: CloseMode, wakes: &mut Vec<Wake>) {
        let from = wakes.len();
        self.gate.close(now, why, mode, wakes);
        self.write(now, || Act::Close(why, mode), Said::Nothing, &wakes[from..]);
    }

    /// See [`Gate::open`].
    pub fn open(&mut self) {
        self.gate.open();
        self.write(self.gate.now(), || Act::Open, Said::Nothing, &[]);
    }

    /// See [`Gate::set_limits`]; a change on trial ends with the change it was about.
    pub fn set_limits(&mut self, now: Timestamp, limits: Limits, wakes: &mut Vec<Wake>) {
        self.trial = None;
        self.change(now, limits, wakes);
    }

    /// Changes the limits and watches what that does; undone by itself when it breaks the
    /// criterion.
    pub fn try_limits(
        &mut self,
        now: Timestamp,
        limits: Limits,
        criterion: Criterion,
        wakes: &mut Vec<Wake>,
    ) {
        let before = match self.trial.take() {
            // The last limits that proved themselves, not those that are on trial.
            Some(unproven) => unproven.before().clone(),
            None => self.gate.limits().clone(),
        };
        let account = self.gate.ledger().total();
        self.trial = Some(Trial::new(now, criterion, before, account));
        self.verdict = Some(Verdict::Running);
        self.change(now, limits, wakes);
    }

    /// See [`Gate::adapt`].
    pub fn adapt(&mut self, now: Timestamp, law: &mut Adaptive, wakes: &mut Vec<Wake>) {
        let (from, before) = (wakes.len(), self.gate.adaptive());
        self.gate.adapt(now, law, wakes);
        let after = self.gate.adaptive();
        if after != before || wakes.len() > from {
            self.write(now, || Act::Adaptive(after), Said::Nothing, &wakes[from..]);
        }
    }

    /// See [`Gate::set_pressure`].
    pub fn set_pressure(&mut self, now: Timestamp, pressure: Pressure, wakes: &mut Vec<Wake>) {
        let from = wakes.len();
        self.gate.set_pressure(now, pressure, wakes);
        self.write(now, || Act::Pressure(pressure), Said::Nothing, &wakes[from..]);
    }

    fn change(&mut self, now: Timestamp, limits: Limits, wakes: &mut Vec<Wake>) {
        let (from, copy) = (wakes.len(), limits.clone());
        self.gate.set_limits(now, limits, wakes);
        self.write(now, || Act::Limits(copy), Said::Nothing, &wakes[from..]);
    }

    fn judge_trial(&mut self, now: Timestamp, wakes: &mut Vec<Wake>) {
        let Some(trial) = &mut self.trial else { return };
        let counts = self.gate.counts(now);
        let verdict = trial.judge(now, &counts, self.gate.ledger().total());
        self.verdict = Some(verdict);
        match verdict {
            Verdict::Running => {}
            Verdict::Kept => self.trial = None,
            Verdict::Undone(_) => {
                let before = trial.before().clone();
                self.set_limits(now, before, wakes);
            }
        }
    }

    fn asked(
        &mut self,
        now: Timestamp,
        offer: Offer,
        said: Said,
        real: Option<Real>,
        act: fn(Offer) -> Act,
        wakes: &[Wake],
    ) {
        if let Some(real) = real {
            for shadow in &mut self.shadows {
                shadow.offered(now, &offer, real);
            }
        }
        self.write(now, || act(offer), said, wakes);
    }

    /// Writes a line and lets the shadows know what was decided for others.
    fn write(&mut self, now: Timestamp, act: impl FnOnce() -> Act, said: Said, wakes: &[Wake]) {
        for shadow in &mut self.shadows {
            for wake in wakes {
                hear(shadow, now, wake);
            }
        }
        if let Some(log) = &mut self.log {
            log.write(now, act(), said, wakes.iter().map(Told::from).collect());
        }
    }
}

fn hear(shadow: &mut Shadow, now: Timestamp, wake: &Wake) {
    match wake {
        Wake::Granted { lease, .. } => shadow.started(now, lease.offer),
        Wake::Ended { offer, terminal: Terminal::Cancelled(why), .. } => {
            shadow.given_up(now, *offer, *why);
        }
        Wake::Ended { offer, .. } => shadow.wait_ended(now, *offer),
    }
}
