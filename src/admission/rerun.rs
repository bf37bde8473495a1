//! A decision log run again on a new gate: the same answers, line for line, or the first that
//! differs.

use std::collections::BTreeMap;

use super::gate::Gate;
use super::limits::Limits;
use super::log::{Act, Line, Said, Told};
use super::{Answer, Claimed, Lease, OfferId, Ticket, Wake};
use crate::id::Stage;
use crate::time::Timestamp;

/// The first line that comes out differently.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {seq}: {act:?}: logged {logged:?} {logged_told:?}, now {said:?} {told:?}")]
pub struct Differs {
    /// Which line.
    pub seq: u64,
    /// What was asked.
    pub act: Act,
    /// What the log says was said.
    pub logged: Said,
    /// What the log says was decided for others.
    pub logged_told: Vec<Told>,
    /// What was said this time.
    pub said: Said,
    /// What was decided for others this time.
    pub told: Vec<Told>,
}

/// Runs a whole log, from its line 0, on a gate that begins with these limits; says how many lines
/// there were.
pub fn rerun<'a>(
    stage: Stage,
    limits: Limits,
    lines: impl IntoIterator<Item = &'a Line>,
) -> Result<u64, Box<Differs>> {
    let mut again = Again::new(stage, limits);
    let mut count = 0;
    for line in lines {
        let (said, told) = again.step(line.now, &line.act);
        if said != line.said || told != line.told {
            return Err(Box::new(Differs {
                seq: line.seq,
                act: line.act.clone(),
                logged: line.said,
                logged_told: line.told.clone(),
                said,
                told,
            }));
        }
        count += 1;
    }
    Ok(count)
}

/// A gate and whatever its callers hold, driven by the acts of a log.
pub struct Again {
    gate: Gate,
    leases: BTreeMap<OfferId, Lease>,
    tickets: BTreeMap<OfferId, Ticket>,
    wakes: Vec<Wake>,
}

impl Again {
    /// A new gate with these limits.
    pub fn new(stage: Stage, limits: Limits) -> Self {
        Again {
            gate: Gate::new(stage, limits),
            leases: BTreeMap::new(),
            tickets: BTreeMap::new(),
            wakes: Vec::new(),
        }
    }

    /// Does it again: what is said this time, and what is decided for others.
    pub fn step(&mut self, now: Timestamp, act: &Act) -> (Said, Vec<Told>) {
        let said = self.act(now, act);
        (said, self.told())
    }

    fn act(&mut self, now: Timestamp, act: &Act) -> Said {
        let (gate, wakes) = (&mut self.gate, &mut self.wakes);
        match act {
            Act::Offer(offer) => {
                let answer = gate.offer(now, offer.clone(), wakes);
                return self.answered(answer);
            }
            Act::Claim(offer) => {
                return match gate.claim(now, offer.clone(), wakes) {
                    Claimed::Held(lease) => self.answered(Answer::Admitted(lease)),
                    Claimed::MayWait => Said::Nothing,
                    Claimed::Refused(refusal) => Said::Refused(refusal.reason),
                };
            }
            Act::Inherit(offer) => {
                let lease = gate.inherit(now, offer.clone());
                return self.answered(Answer::Admitted(lease));
            }
            Act::HandOn(offer) => {
                let held = self.leases.get(offer);
                return Said::done(held.is_some_and(|lease| gate.hand_on(now, lease)));
            }
            Act::Confirm(offer) => {
                let held = self.leases.get(offer);
                return Said::done(held.is_some_and(|lease| gate.confirm(now, lease, wakes)));
            }
            Act::Withdraw(offer, why) => {
                let Some(ticket) = self.tickets.remove(offer) else { return Said::Nothing };
                let withdrawn = gate.withdraw(now, ticket, *why, wakes);
                return Said::done(withdrawn == super::gate::Withdrawn::Left);
            }
            Act::Extend(offer) => {
                let waits = self.tickets.get(offer);
                return Said::done(waits.and_then(|ticket| gate.extend(now, ticket)).is_some());
            }
            Act::Cancel(offer, why) => {
                if let Some(lease) = self.leases.get(offer) {
                    gate.cancel(now, lease, *why);
                }
            }
            Act::Settle(offer, release) => {
                let Some(lease) = self.leases.remove(offer) else { return Said::Nothing };
                return Said::Settled(gate.settle(now, lease, *release, wakes));
            }
            Act::Evidence(offer, evidence) => {
                let settled = gate.evidence(now, *offer, *evidence, wakes);
                return settled.map_or(Said::Nothing, Said::Settled);
            }
            Act::Rotate(owner, generation, why) => {
                let rotated = gate.rotate(now, *owner, *generation, *why, wakes);
                return rotated.map_or(Said::Nothing, |r| Said::Done(r.withdrawn + r.cancelled));
            }
            Act::Forget(owner) => {
                let forgotten = gate.forget(now, *owner, wakes);
                return Said::Done(forgotten.withdrawn + forgotten.unknown);
            }
            Act::Expire => gate.expire(now, wakes),
            Act::Close(why, mode) => gate.close(now, *why, *mode, wakes),
            Act::Open => gate.open(),
            Act::Limits(limits) => gate.set_limits(now, limits.clone(), wakes),
            Act::Adaptive(ceiling) => gate.set_adaptive(now, *ceiling, wakes),
            Act::Pressure(pressure) => gate.set_pressure(now, *pressure, wakes),
        }
        Said::Nothing
    }

    fn answered(&mut self, answer: Answer) -> Said {
        match answer {
            Answer::Admitted(lease) => {
                self.leases.insert(lease.offer, lease);
                Said::Admitted
            }
            Answer::Queued(ticket) => {
                self.tickets.insert(ticket.offer, ticket);
                Said::Queued
            }
            Answer::Refused(refusal) => Said::Refused(refusal.reason),
        }
    }

    fn told(&mut self) -> Vec<Told> {
        let mut told = Vec::new();
        for wake in std::mem::take(&mut self.wakes) {
            told.push(Told::from(&wake));
            if let Wake::Granted { lease, .. } = wake {
                self.leases.insert(lease.offer, lease);
            }
        }
        told
    }
}
