//! Random histories against the model: invariants 2, 3, 4, 10 and 11 after every operation.

mod admission_model;

use admission_model::history::{limits, op, run};
use admission_model::small_world::{configurations, explore};
use floorkeeper::admission::disposition::{REASONS, TERMINALS};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};

fn config(cases: u32) -> Config {
    Config { cases, failure_persistence: None, ..Config::default() }
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn gate_and_model_agree(
        limits in limits(),
        ops in proptest::collection::vec((0..15u64, op()), 1..120),
    ) {
        run(limits, ops);
    }
}

/// An empty history agrees with everything: these are the outcomes that the histories above do
/// reach.
/// A-152, C-045, C-050.
#[test]
fn every_outcome_a_gate_of_these_limits_has_is_reached() {
    let mut runner = TestRunner::deterministic();
    let (mut refused, mut ended) = ([0; REASONS.len()], [0; TERMINALS.len()]);
    for _ in 0..150 {
        let limits = limits().new_tree(&mut runner).unwrap().current();
        let ops = proptest::collection::vec((0..15u64, op()), 100..120);
        let account = run(limits, ops.new_tree(&mut runner).unwrap().current());
        for (sum, count) in refused.iter_mut().zip(account.refused) {
            *sum += count;
        }
        for (sum, count) in ended.iter_mut().zip(account.terminal) {
            *sum += count;
        }
    }
    let named = |rows: &mut dyn Iterator<Item = (String, u64)>| -> Vec<String> {
        rows.filter(|(_, count)| *count == 0).map(|(name, _)| name).collect()
    };
    let mut reasons = REASONS.iter().zip(refused).map(|(r, n)| (r.disposition().to_string(), n));
    let never = ["overloaded{upstream_pressure}", "closed{maintenance}", "closed{not_ready}"];
    assert_eq!(named(&mut reasons), never);
    let mut kinds = TERMINALS.iter().zip(ended).map(|(t, n)| (t.disposition().to_string(), n));
    let never = ["cancelled{superseded}", "replaced", "shed{past_deadline}", "shed{superseded}"];
    assert_eq!(named(&mut kinds), never);
}

/// The exhaustive model, with what it must have seen so that an empty one does not pass.
/// `FLOORKEEPER_DEPTH` makes its histories longer.
#[test]
fn nothing_is_lost_and_nothing_is_over_admitted_in_any_small_history() {
    let depth = std::env::var("FLOORKEEPER_DEPTH").ok().and_then(|depth| depth.parse().ok());
    for limits in configurations() {
        let (states, sometimes) = explore(&limits, depth.unwrap_or(4));
        println!("{}: {states} states, {sometimes:?}", limits.fairness.label());
        let expected = [
            "cancelled",
            "ceiling shrunk",
            "closed",
            "expired",
            "full",
            "granted",
            "limbo",
            "queued",
            "reclaimed",
            "refused",
            "stale",
        ];
        let never: Vec<_> = expected.iter().filter(|what| !sometimes.contains_key(*what)).collect();
        assert!(never.is_empty(), "never seen: {never:?}");
        assert!(states > 1_000, "{states} states are no small world");
    }
}
