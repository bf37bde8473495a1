//! The contract once more, as plainly as it can be said: a list in memory. Shares nothing with the
//! stores but the words of their answers.

use floorkeeper::id::CallbackId;
use floorkeeper::store::{Limits, Offer, Outcome, Record, State};

/// A record as far as it can be told apart from outside.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Item {
    pub id: CallbackId,
    pub state: State,
    pub dead: bool,
    pub epoch: u64,
    pub worker: String,
    pub lease: u64,
    pub attempts: u32,
    pub due: u64,
    pub changed: u64,
}

impl Item {
    pub fn of(record: &Record) -> Item {
        Item {
            id: record.id,
            state: record.state,
            dead: record.shelf == floorkeeper::store::Shelf::Dead,
            epoch: record.epoch,
            worker: record.worker.clone(),
            lease: record.lease_until_ms,
            attempts: record.attempts,
            due: record.due_ms,
            changed: record.changed_ms,
        }
    }

    fn open(&self) -> bool {
        use State::{Accepted, Claimed, Dialling, Due};
        [Accepted, Due, Claimed, Dialling].contains(&self.state)
    }
}

pub struct Model {
    pub limits: Limits,
    pub items: Vec<(Item, Offer)>,
    pub now: u64,
    /// Offers taken, so that the ledger can be held against them.
    pub accepted: u64,
    pub ended: u64,
}

type Verdict = Result<(), &'static str>;

impl Model {
    pub fn new(limits: Limits, now: u64) -> Model {
        Model { limits, items: Vec::new(), now, accepted: 0, ended: 0 }
    }

    fn at(&mut self, id: CallbackId) -> Option<&mut (Item, Offer)> {
        self.items.iter_mut().find(|(item, _)| item.id == id)
    }

    pub fn open(&self) -> usize {
        self.items.iter().filter(|(item, _)| item.open()).count()
    }

    /// What has to become of an offer: refused so, or on record before, or new.
    pub fn judge(&self, offer: &Offer) -> Result<Option<CallbackId>, &'static str> {
        if let Some(key) = &offer.key {
            let same = |other: &Offer| {
                let name = other.key.as_ref().map(|other| &other.name);
                other.tenant == offer.tenant && name == Some(&key.name)
            };
            if let Some((item, before)) = self.items.iter().find(|(_, other)| same(other)) {
                let digest = before.key.as_ref().map(|key| &key.digest);
                let repeated = digest == Some(&key.digest);
                return if repeated { Ok(Some(item.id)) } else { Err("key_reused") };
            }
        }
        if offer.born_ms > self.now || offer.attempts_max > self.limits.attempts {
            return Err("bad_request");
        }
        if self.now > offer.expires_ms {
            return Err("expired");
        }
        let open = || self.items.iter().filter(|(item, _)| item.open()).map(|(_, offer)| offer);
        let there = || open().filter(|other| other.destination == offer.destination);
        if there().any(|other| other.tenant == offer.tenant) {
            return Err("duplicate");
        }
        if open().filter(|other| other.tenant == offer.tenant).count() as u64 >= self.limits.tenant
        {
            return Err("tenant_full");
        }
        if there().count() as u64 >= self.limits.destination {
            return Err("destination_full");
        }
        if open().count() as u64 >= self.limits.records {
            return Err("full");
        }
        if open().map(Offer::bytes).sum::<u64>() + offer.bytes() > self.limits.bytes {
            return Err("bytes");
        }
        let Some(dead) = &offer.replays else { return Ok(None) };
        match self.items.iter().find(|(item, _)| item.id == dead.0) {
            None => Err("not_found"),
            Some((item, _)) if !item.dead => Err("not_dead"),
            Some(_) => Ok(None),
        }
    }

    /// The store says that it is on record now, under this name.
    pub fn add(&mut self, id: CallbackId, offer: &Offer) {
        if let Some(dead) = &offer.replays {
            let now = self.now;
            let (item, _) = self.at(dead.0).expect("what is replayed");
            item.dead = false;
            item.changed = now;
            self.trim();
        }
        let state = if offer.not_before_ms <= self.now { State::Due } else { State::Accepted };
        let item = Item {
            id,
            state,
            dead: false,
            epoch: 0,
            worker: String::new(),
            lease: 0,
            attempts: 0,
            due: offer.not_before_ms,
            changed: self.now,
        };
        self.items.push((item, offer.clone()));
        self.accepted += 1;
    }

    pub fn claim(&mut self, worker: &str, lease: u64, max: usize) -> Vec<CallbackId> {
        let now = self.now;
        let waits = |(item, offer): &&mut (Item, Offer)| {
            [State::Accepted, State::Due].contains(&item.state)
                && item.due <= now
                && now <= offer.expires_ms
        };
        let mut due: Vec<&mut (Item, Offer)> = self.items.iter_mut().filter(waits).collect();
        due.sort_by_key(|(item, _)| (item.due, item.id));
        due.truncate(max);
        for (item, _) in &mut due {
            item.epoch += 1;
            item.worker = worker.to_owned();
            item.lease = now + lease;
            item.state = State::Claimed;
            item.changed = now;
        }
        due.iter().map(|(item, _)| item.id).collect()
    }

    /// What is wrong with acting on this one, for a holder.
    fn holder(
        &mut self,
        id: CallbackId,
        epoch: u64,
        states: &[State],
    ) -> Result<usize, &'static str> {
        let Some(at) = self.items.iter().position(|(item, _)| item.id == id) else {
            return Err("not_found");
        };
        let item = &self.items[at].0;
        let put_by = item.state == State::UnknownDial && !item.dead;
        match () {
            () if epoch != item.epoch => Err("stale_epoch"),
            () if !states.contains(&item.state) || put_by => Err("wrong_state"),
            () => Ok(at),
        }
    }

    pub fn extend(&mut self, id: CallbackId, epoch: u64, lease: u64) -> Verdict {
        let at = self.holder(id, epoch, &[State::Claimed, State::Dialling])?;
        let item = &mut self.items[at].0;
        if self.now > item.lease {
            return Err("lease_lapsed");
        }
        item.lease = item.lease.max(self.now + lease);
        Ok(())
    }

    pub fn start(&mut self, id: CallbackId, epoch: u64) -> Verdict {
        let at = self.holder(id, epoch, &[State::Claimed])?;
        let (item, offer) = &mut self.items[at];
        if self.now > item.lease {
            return Err("lease_lapsed");
        }
        if self.now > offer.expires_ms {
            return Err("expired");
        }
        item.attempts += 1;
        item.state = State::Dialling;
        item.changed = self.now;
        Ok(())
    }

    pub fn settle(&mut self, id: CallbackId, epoch: u64, outcome: Outcome) -> Verdict {
        let answered =
            [Outcome::Connected, Outcome::NoAnswer, Outcome::Voicemail].contains(&outcome);
        let mut states = vec![State::Dialling, State::UnknownDial];
        if !answered {
            states.push(State::Claimed);
        }
        let at = self.holder(id, epoch, &states)?;
        let (now, most) = (self.now, self.limits.backoff_ms);
        let (item, offer) = &mut self.items[at];
        let was = item.state;
        let mut end = match outcome {
            Outcome::Connected => Some(State::Connected),
            Outcome::NoAnswer => Some(State::NoAnswer),
            Outcome::Voicemail => Some(State::Voicemail),
            Outcome::Failed => Some(State::Failed),
            Outcome::NotDialled => Some(State::Expired),
        };
        if outcome != Outcome::Connected && was != State::UnknownDial {
            match outcome {
                Outcome::NotDialled if was == State::Dialling => item.attempts -= 1,
                Outcome::Failed if was == State::Claimed => item.attempts += 1,
                _ => {}
            }
            let mut wait = offer.backoff_ms;
            for _ in 1..item.attempts {
                wait *= 2;
            }
            let next = (now + wait.min(most)).max(offer.not_before_ms);
            item.epoch += 1;
            item.worker.clear();
            item.lease = 0;
            if item.attempts < offer.attempts_max && next <= offer.expires_ms {
                item.due = next;
                item.state = if next <= now { State::Due } else { State::Accepted };
                item.changed = now;
                end = None;
            }
        }
        if let Some(end) = end {
            self.end(at, end);
        }
        Ok(())
    }

    pub fn cancel(&mut self, id: CallbackId) -> Verdict {
        let Some(at) = self.items.iter().position(|(item, _)| item.id == id) else {
            return Err("not_found");
        };
        let item = &mut self.items[at].0;
        if ![State::Accepted, State::Due, State::Claimed].contains(&item.state) {
            return Err("wrong_state");
        }
        item.epoch += 1;
        item.worker.clear();
        item.lease = 0;
        self.end(at, State::Cancelled);
        Ok(())
    }

    pub fn resolve(&mut self, id: CallbackId, outcome: Outcome) -> Verdict {
        let Some(at) = self.items.iter().position(|(item, _)| item.id == id) else {
            return Err("not_found");
        };
        if self.items[at].0.state != State::UnknownDial {
            return Err("wrong_state");
        }
        let replayed = !self.items[at].0.dead;
        let state = match outcome {
            Outcome::Connected => State::Connected,
            Outcome::NoAnswer => State::NoAnswer,
            Outcome::Voicemail => State::Voicemail,
            Outcome::Failed => State::Failed,
            Outcome::NotDialled => State::Expired,
        };
        let item = &mut self.items[at].0;
        item.state = state;
        item.changed = self.now;
        item.dead =
            !replayed && [State::NoAnswer, State::Voicemail, State::Failed].contains(&state);
        self.trim();
        Ok(())
    }

    pub fn sweep(&mut self) {
        for at in 0..self.items.len() {
            let now = self.now;
            let (item, offer) = &mut self.items[at];
            let end = match item.state {
                State::Accepted | State::Due | State::Claimed if now > offer.expires_ms => {
                    item.epoch += 1;
                    item.worker.clear();
                    item.lease = 0;
                    Some(State::Expired)
                }
                State::Accepted if item.due <= now => {
                    (item.state, item.changed) = (State::Due, now);
                    None
                }
                State::Claimed if now > item.lease => {
                    (item.state, item.changed) = (State::Due, now);
                    item.epoch += 1;
                    item.worker.clear();
                    item.lease = 0;
                    None
                }
                State::Dialling if now > item.lease => Some(State::UnknownDial),
                _ => None,
            };
            if let Some(end) = end {
                let (item, _) = &mut self.items[at];
                (item.state, item.changed) = (end, now);
                item.dead = end == State::UnknownDial;
                self.ended += 1;
            }
        }
        self.trim();
    }

    fn end(&mut self, at: usize, state: State) {
        let item = &mut self.items[at].0;
        self.ended += u64::from(item.state != State::UnknownDial);
        (item.state, item.changed) = (state, self.now);
        item.dead =
            [State::NoAnswer, State::Voicemail, State::Failed, State::UnknownDial].contains(&state);
        self.trim();
    }

    /// The oldest beyond a bound are forgotten.
    fn trim(&mut self) {
        for (dead, bound) in [(true, self.limits.dead), (false, self.limits.kept)] {
            let mut ended: Vec<(u64, CallbackId)> = self
                .items
                .iter()
                .filter(|(item, _)| !item.open() && item.dead == dead)
                .map(|(item, _)| (item.changed, item.id))
                .collect();
            ended.sort();
            let over = ended.len().saturating_sub(bound as usize);
            let gone: Vec<CallbackId> = ended[..over].iter().map(|(_, id)| *id).collect();
            self.items.retain(|(item, _)| !gone.contains(&item.id));
        }
    }
}
