//! Storms: seeded random calls keep every invariant, and the same seed tells the same story byte
//! for byte.

use std::sync::Arc;

use floorkeeper::config::Script;
use floorkeeper::sim::storm;

#[test]
fn a_hundred_storms_break_nothing() {
    let fallback = Arc::new(Script::read(None).expect("the built-in prompts"));
    for seed in 0..100 {
        let storm = storm::run(seed, fallback.clone()).expect("a seed's script is well written");
        let problems = storm.outcome.problems;
        assert!(
            problems.is_empty(),
            "floorkeeper storm --seeds {seed} --trace --script: {problems:#?}"
        );
    }
}

#[test]
fn the_same_seed_is_the_same_storm() {
    let fallback = Arc::new(Script::read(None).expect("the built-in prompts"));
    for seed in [3, 14, 159, 2_653] {
        assert_eq!(storm::write(seed), storm::write(seed));
        let tell = || storm::run(seed, fallback.clone()).map(|storm| storm.outcome.trace);
        assert_eq!(tell(), tell(), "seed {seed}");
    }
}
