//! Every history there is in a small world: two owners of two tenants, two slots, a queue of two.
//!
//! States are told apart by all that the model and the caller hold; each is run on the gate and on
//! the model from the beginning, and the invariants are looked at after every step of every path.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{Op, trace};
use floorkeeper::admission::limits::{Fairness, Limits, Tombstones};

/// The operations of the small world. Ages and lives are chosen so that things do expire.
fn moves() -> Vec<(u64, Op)> {
    let mut moves = Vec::new();
    for owner in 0..2 {
        let tenant = owner as u32;
        let (generation, age, life, bytes) = (0, 0, 20, 10);
        moves.push((0, Op::Offer { owner, generation, age, life, tenant, cost: 1, bytes }));
        moves.push((0, Op::Rotate { owner, by: 1 }));
    }
    let (owner, tenant) = (0, 0);
    let stale = Op::Offer { owner, generation: -1, age: 0, life: 20, tenant, cost: 1, bytes: 10 };
    let older = Op::Offer { owner, generation: 0, age: 15, life: 90, tenant, cost: 1, bytes: 10 };
    let dear =
        Op::Offer { owner: 1, generation: 0, age: 0, life: 20, tenant: 1, cost: 2, bytes: 10 };
    moves.extend([(0, stale), (0, older), (0, dear)]);
    for nth in 0..2 {
        moves.push((0, Op::Settle { nth, how: 2 }));
        moves.push((0, Op::Settle { nth, how: 0 }));
        moves.push((0, Op::Withdraw { nth }));
        moves.push((0, Op::Evidence { nth }));
    }
    moves.push((0, Op::Forget { owner: 0 }));
    moves.push((21, Op::Expire));
    moves.push((0, Op::Close { end_queue: true }));
    moves.push((0, Op::Close { end_queue: false }));
    moves.push((0, Op::Open));
    moves.push((0, Op::Slots { slots: 1 }));
    moves.push((0, Op::Slots { slots: 2 }));
    moves
}

/// Explores to this depth; says how many states there were and what was seen on the way.
pub fn explore(limits: &Limits, depth: usize) -> (usize, BTreeMap<&'static str, usize>) {
    let moves = moves();
    let mut seen = BTreeSet::new();
    let mut sometimes: BTreeMap<&'static str, usize> = BTreeMap::new();
    let mut edge: Vec<Vec<(u64, Op)>> = vec![Vec::new()];
    for _ in 0..depth {
        let mut next = Vec::new();
        for path in edge {
            for step in &moves {
                let mut longer = path.clone();
                longer.push(step.clone());
                let reached = trace(limits.clone(), &longer);
                for what in reached.sometimes {
                    *sometimes.entry(what).or_default() += 1;
                }
                if seen.insert(reached.fingerprint) {
                    next.push(longer);
                }
            }
        }
        edge = next;
    }
    (seen.len(), sometimes)
}

/// The two configurations of the small world.
pub fn configurations() -> [Limits; 2] {
    let tombstones = Tombstones { count: usize::MAX, age_ms: 1 << 40 };
    let base = Limits { max_wait_ms: 20, tombstones, ..Limits::of(2, 2) };
    let fairness = Fairness::HardCap { tenant_share_pct: 50 };
    [base.clone(), Limits { fairness, ..base }]
}
