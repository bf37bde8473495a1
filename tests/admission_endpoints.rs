//! Endpoint pools: ceilings, the ramp of one that returns (B-057, B-058), the breaker.

use floorkeeper::admission::endpoints::{Breaker, Care, Endpoints, Outcome, Role};
use floorkeeper::admission::limits::Slots;
use floorkeeper::time::Timestamp;

fn at(now_ms: u64) -> Timestamp {
    Timestamp::from_millis(now_ms)
}

/// B-018, B-019, B-020.
#[test]
fn the_least_loaded_takes_the_next_up_to_its_own_ceiling() {
    let mut pool = Endpoints::new(Care::default());
    let small = pool.add(at(0), Role::Normal, Slots::Units(1), true);
    let large = pool.add(at(0), Role::Normal, Slots::Units(3), true);
    let taken: Vec<_> = (0..4).map(|_| pool.take(at(0), Role::Normal).unwrap()).collect();
    assert_eq!(taken.iter().filter(|id| **id == small).count(), 1);
    assert_eq!(taken.iter().filter(|id| **id == large).count(), 3);
    assert_eq!(pool.take(at(0), Role::Normal), None);
    assert_eq!(pool.take(at(0), Role::Decode), None);
    pool.give_back(at(1), large, Outcome::Answered);
    assert_eq!(pool.take(at(1), Role::Normal), Some(large));
}

/// B-057, B-058.
#[test]
fn one_that_returns_ramps_in_a_straight_line_from_a_quarter() {
    let care = Care { warmup_ms: 20_000, ..Care::default() };
    let mut pool = Endpoints::new(care);
    let ceilings = [(16, 4, 10, 16), (3, 1, 2, 3), (1, 1, 1, 1)];
    for (full, first, half, all) in ceilings {
        let id = pool.add(at(0), Role::Normal, Slots::Units(full), false);
        assert_eq!(pool.ceiling(at(0), id), Some(first));
        assert_eq!(pool.ceiling(at(10_000), id), Some(half));
        assert_eq!(pool.ceiling(at(20_000), id), Some(all));
    }
    let free = pool.add(at(0), Role::Normal, Slots::Unlimited, false);
    assert_eq!(pool.ceiling(at(0), free), None, "unlimited stays unlimited");
    assert_eq!((pool.warming(at(0)), pool.warming(at(20_000))), (4, 0));
    pool.set_up(at(30_000), free, false);
    assert_eq!(pool.serving(at(30_000)), 3);
    pool.set_up(at(40_000), free, true);
    assert_eq!(pool.warming(at(40_000)), 1, "the ramp restarts on every return");
}

/// B-057.
#[test]
fn failures_in_a_row_open_the_breaker_and_one_trial_closes_it() {
    let care = Care { failures: 2, open_ms: 1_000, warmup_ms: 4_000 };
    let mut pool = Endpoints::new(care);
    let id = pool.add(at(0), Role::Normal, Slots::Units(4), true);
    for _ in 0..2 {
        pool.take(at(0), Role::Normal).unwrap();
        pool.give_back(at(0), id, Outcome::Failed);
    }
    assert_eq!(pool.breaker(id), Some(Breaker::Open { until: at(1_000) }));
    assert_eq!(pool.take(at(999), Role::Normal), None);
    assert_eq!(pool.take(at(1_000), Role::Normal), Some(id));
    assert_eq!(pool.take(at(1_000), Role::Normal), None, "one tries, the others wait");
    pool.give_back(at(1_100), id, Outcome::Ignored);
    assert_eq!(pool.take(at(1_100), Role::Normal), Some(id), "a trial that told nothing");
    pool.give_back(at(1_200), id, Outcome::Answered);
    assert_eq!(pool.breaker(id), Some(Breaker::Closed));
    assert_eq!(pool.ceiling(at(1_200), id), Some(1));
}

#[test]
fn a_retry_after_is_kept() {
    let mut pool = Endpoints::new(Care::default());
    let id = pool.add(at(0), Role::Normal, Slots::Units(4), true);
    pool.take(at(0), Role::Normal).unwrap();
    pool.give_back(at(0), id, Outcome::PushedBack { retry_after_ms: Some(7_000) });
    assert_eq!(pool.take(at(6_999), Role::Normal), None);
    assert_eq!(pool.take(at(7_000), Role::Normal), Some(id));
}
