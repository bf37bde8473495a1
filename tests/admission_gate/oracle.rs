//! `fair` against its oracle: the max-min allocation of slot-seconds, by water-filling.

use std::collections::BTreeSet;

use floorkeeper::admission::limits::{Fairness, Limits};
use floorkeeper::admission::*;
use floorkeeper::id::TenantId;

use crate::desk::{Desk, Said, Told, offer};

/// One tenant's load: it offers every `every_ms`, each runs for `hold_ms`.
#[derive(Clone, Copy, Debug)]
struct Load {
    every_ms: u64,
    hold_ms: u64,
}

impl Load {
    /// Slot-milliseconds it asks for until the end.
    fn demand(self, until_ms: u64) -> u64 {
        until_ms / self.every_ms * self.hold_ms
    }
}

/// What max-min gives: nobody gets more than they ask for, what is left is shared evenly.
fn max_min(demands: &[u64], capacity: u64) -> Vec<u64> {
    let mut given = vec![0; demands.len()];
    let mut open: BTreeSet<(u64, usize)> =
        demands.iter().copied().enumerate().map(|(tenant, demand)| (demand, tenant)).collect();
    let mut left = capacity;
    while let Some((demand, tenant)) = open.pop_first() {
        let even = left / (open.len() as u64 + 1);
        given[tenant] = demand.min(even);
        left -= given[tenant];
    }
    given
}

/// Runs the loads on a gate; the slot-milliseconds that each tenant had.
fn had(fairness: Fairness, slots: u32, loads: &[Load], until_ms: u64) -> Vec<u64> {
    let limits = Limits { fairness, max_wait_ms: 3_000_000, ..Limits::of(slots, 400) };
    let mut desk = Desk::new(limits);
    let mut had = vec![0; loads.len()];
    let mut ends: BTreeSet<(u64, u64)> = BTreeSet::new();
    let tenant_of = |id: u64| id as usize % loads.len();
    let mut next = 0;
    for now in 0..until_ms {
        let mut begun = Vec::new();
        while let Some(&(at, id)) = ends.first() {
            if at > now {
                break;
            }
            ends.pop_first();
            desk.complete(now, id);
            for told in desk.told() {
                let Told::Granted(id) = told else { panic!("nothing expires here: {told:?}") };
                begun.push(id);
            }
        }
        for (tenant, load) in loads.iter().enumerate() {
            if now % load.every_ms != 0 {
                continue;
            }
            next += 1;
            let id = next * loads.len() as u64 + tenant as u64;
            let tenant = TenantId(tenant as u32);
            let asked = Offer { tenant, ..offer(id, now, 3_000_000) };
            if desk.offer(now, asked) == Said::Admitted {
                begun.push(id);
            }
        }
        for id in begun {
            let hold = loads[tenant_of(id)].hold_ms;
            had[tenant_of(id)] += hold.min(until_ms - now);
            ends.insert((now + hold, id));
        }
    }
    had
}

/// X-06, C-035.
#[test]
fn every_tenant_has_its_max_min_share_of_slot_seconds() {
    let load = |every_ms, hold_ms| Load { every_ms, hold_ms };
    let populations = [
        // An elephant and mice that ask for little.
        (4, vec![load(20, 400), load(2_000, 300), load(1_500, 500), load(4_000, 800)]),
        // All ask for more than there is, with holds that differ by ten.
        (4, vec![load(50, 200), load(100, 2_000), load(80, 700)]),
        // One elephant alone: no unit idles.
        (3, vec![load(10, 300)]),
        // Two elephants and one in between.
        (6, vec![load(40, 500), load(40, 900), load(500, 600), load(3_000, 900)]),
    ];
    let until_ms = 120_000;
    for (slots, loads) in populations {
        let demands: Vec<u64> = loads.iter().map(|load| load.demand(until_ms)).collect();
        let shares = max_min(&demands, u64::from(slots) * until_ms);
        let had = had(Fairness::Fair, slots, &loads, until_ms);
        let total: u64 = had.iter().sum();
        let possible: u64 = shares.iter().sum();
        assert!(total * 100 >= possible * 97, "work-conserving: {total} of {possible}");
        for (tenant, (had, share)) in had.iter().zip(&shares).enumerate() {
            assert!(
                had * 100 >= share * 88,
                "tenant {tenant} of {loads:?}: had {had}, max-min gives {share}"
            );
        }
    }
}

/// The oracle tells: without fairness a mouse gets a fraction of its share.
/// B-059.
#[test]
fn fifo_gives_an_elephant_what_is_the_mices() {
    let load = |every_ms, hold_ms| Load { every_ms, hold_ms };
    let loads = [load(20, 400), load(2_000, 300), load(1_500, 500), load(4_000, 800)];
    let until_ms = 120_000;
    let demands: Vec<u64> = loads.iter().map(|load| load.demand(until_ms)).collect();
    let shares = max_min(&demands, 4 * until_ms);
    let had = had(Fairness::Fifo, 4, &loads, until_ms);
    assert!((1..4).all(|mouse| had[mouse] * 2 < shares[mouse]), "{had:?} {shares:?}");
}

#[test]
fn the_oracle_fills_the_small_first_and_shares_what_is_left() {
    let demands = [1_000, 100, 50];
    assert_eq!(max_min(&demands, 600), [450, 100, 50]);
    assert_eq!(max_min(&demands, 240), [95, 95, 50]);
    assert_eq!(max_min(&demands, 9_000), [1_000, 100, 50]);
}
