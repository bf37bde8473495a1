//! The hot path allocates nothing: counted by the allocator, after two rounds that fill the tables.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use floorkeeper::admission::limits::{Fairness, Limits, Tombstones};
use floorkeeper::admission::*;
use floorkeeper::evidence::Evidence;
use floorkeeper::id::*;
use floorkeeper::time::{Timestamp, ms};

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the layout is the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the place came from `alloc` above.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const OWNERS: u64 = 500;

fn offer(id: u64, now: Timestamp) -> Offer {
    Offer {
        tenant: TenantId((id % 20) as u32),
        bytes: 10,
        ..Offer::plain(OfferId(id), OwnerId(id * 7 % OWNERS), now, now + ms(9))
    }
}

/// A round of offers, grants, releases, refusals and expiries, from id `from` on.
fn round(gate: &mut Gate, from: u64, leases: &mut Vec<Lease>, wakes: &mut Vec<Wake>) {
    for id in from..from + 20_000 {
        let now = Timestamp::from_millis(id / 10);
        match gate.offer(now, offer(id, now), wakes) {
            Answer::Admitted(lease) => leases.push(lease),
            Answer::Queued(_) | Answer::Refused(_) => {}
        }
        if id % 3 == 0 && !leases.is_empty() {
            let lease = leases.swap_remove(id as usize % leases.len());
            let release = Release::Completed(Evidence::Completed);
            let _ = gate.settle(now, lease, release, wakes);
        }
        gate.expire(now, wakes);
        for wake in wakes.drain(..) {
            if let Wake::Granted { lease, .. } = wake {
                leases.push(lease);
            }
        }
    }
}

#[test]
fn a_cycle_a_refusal_and_an_expiry_allocate_nothing() {
    for fairness in [Fairness::Fifo, Fairness::HardCap { tenant_share_pct: 20 }, Fairness::Fair] {
        let tombstones = Tombstones { count: 1_000, age_ms: 60_000 };
        let limits = Limits { fairness, tombstones, queue_bytes: 500, ..Limits::of(16, 64) };
        let mut gate = Gate::new(Stage::Model, limits);
        let (mut leases, mut wakes) = (Vec::with_capacity(64), Vec::with_capacity(64));
        for owner in 0..OWNERS {
            let (owner, why) = (OwnerId(owner), Cancelled::Client);
            gate.rotate(Timestamp::ZERO, owner, Generation(0), why, &mut wakes).unwrap();
        }
        round(&mut gate, 0, &mut leases, &mut wakes);
        round(&mut gate, 20_000, &mut leases, &mut wakes);
        let before = COUNT.with(Cell::get);
        round(&mut gate, 40_000, &mut leases, &mut wakes);
        assert_eq!(COUNT.with(Cell::get) - before, 0, "{}", fairness.label());
        let account = gate.ledger().total();
        let refused = account.refused_total();
        let expired = account.ended_as(Terminal::Expired);
        assert!(account.ever_admitted > 5_000 && refused > 1_000 && expired > 1_000, "{account:?}");
    }
}
