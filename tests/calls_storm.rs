//! Storms: seeded random calls keep every invariant, and the same seed tells the same story byte
//! for byte.

use std::process::Command;
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

/// What a storm may hold that none of a hundred does not.
#[test]
fn storms_change_limits_hang_up_and_drain() {
    let scripts: Vec<String> = (0..100).map(storm::write).collect();
    for deed in ["\"\nslots = ", "hangs_up = true", "drains = true", "noise = ", "hold = "] {
        let held = scripts.iter().filter(|script| script.contains(deed)).count();
        assert!(held > 5, "{held} of a hundred storms have {deed}");
    }
}

#[test]
fn what_is_told_is_in_order_however_many_run_at_once() {
    let tell = |jobs: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_floorkeeper"))
            .args(["storm", "--seeds", "20..32", "--trace", "--script", "--jobs", jobs])
            .output()
            .expect("the command starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        output.stdout
    };
    let one = tell("1");
    assert!(one == tell("3"), "three at once tell something else");
    let told = String::from_utf8_lossy(&one);
    let seeds = told.lines().filter(|line| line.starts_with("about = \"storm "));
    let wanted = (20..32).map(|seed| format!("about = \"storm {seed}\""));
    assert_eq!(seeds.collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
    assert!(told.ends_with("12 storms, 0 failed\n"));
}
