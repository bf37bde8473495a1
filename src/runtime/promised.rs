//! Units of the callback gate that outlive their calls: held by promises until those have ended.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use super::gates::Gates;
use crate::admission::limits::CloseMode;
use crate::admission::{Closed, Lease, Offer, OfferId, OwnerId, Release};
use crate::evidence::Evidence;
use crate::id::{CallbackId, Stage};

/// Owner of the promises that were there before the process.
const PROMISES: OwnerId = OwnerId(u64::MAX - 1);

impl Gates {
    /// A callback is on record: its unit is given back when its promise has ended, and is held when
    /// whoever asked for it has gone.
    pub fn keep_promise(&self, callback: CallbackId, lease: Lease) {
        let now = self.now();
        self.change(lease.stage, |cell, _| cell.gate.hand_on(now, &lease));
        let before = self.promises().insert(callback, lease);
        // The same promise, made twice, holds one unit.
        before.map(|lease| self.settle(lease, Release::Completed(Evidence::Completed)));
    }

    /// A record that was there before this process holds its unit again.
    pub fn inherit_promise(&self, callback: CallbackId) {
        let id = OfferId(self.shared.next_offer.fetch_add(1, Ordering::Relaxed));
        let now = self.now();
        let offer = Offer::plain(id, PROMISES, now, now);
        let lease = self.change(Stage::Callback, |cell, _| cell.gate.inherit(now, offer));
        if let Some(lease) = lease {
            self.promises().insert(callback, lease);
        }
    }

    /// The promises that hold units.
    pub fn promised(&self) -> Vec<CallbackId> {
        self.promises().keys().copied().collect()
    }

    /// The promise has ended, one way or the other: its unit comes back.
    pub fn fulfil_promise(&self, callback: CallbackId) {
        let lease = self.promises().remove(&callback);
        lease.map(|lease| self.settle(lease, Release::Completed(Evidence::Completed)));
    }

    /// What stands behind a gate can promise something, or cannot.
    pub fn follow_health(&self, stage: Stage, open: bool) {
        let closed = self.look(stage, |gate| gate.closed()).flatten();
        match (open, closed) {
            (true, Some(Closed::NotReady)) => self.open(stage),
            (false, None) => self.close(stage, Closed::NotReady, CloseMode::EndQueue),
            _ => {}
        }
    }

    fn promises(&self) -> MutexGuard<'_, BTreeMap<CallbackId, Lease>> {
        self.shared.promised.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
