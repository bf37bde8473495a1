//! Each broken variant of the gate is caught: `cargo test --features mutants --test
//! admission_mutants`.
#![cfg(feature = "mutants")]

mod admission_model;

use std::process::{Command, Stdio};

use admission_model::history::{limits, op, run};
use admission_model::small_world::{configurations, explore};
use floorkeeper::admission::mutant;
use proptest::prelude::*;
use proptest::test_runner::Config;

proptest! {
    #![proptest_config(Config {
        cases: 400,
        failure_persistence: None,
        ..Config::default()
    })]

    #[test]
    fn history(limits in limits(), ops in proptest::collection::vec((0..15u64, op()), 1..120)) {
        run(limits, ops);
    }
}

#[test]
fn small_world() {
    for limits in configurations() {
        let (states, sometimes) = explore(&limits, 3);
        assert!(states > 100 && !sometimes.is_empty());
    }
}

/// Runs one of the tests above in a process of their own, as the variant of this name.
fn survives(test: &str, name: &str) -> bool {
    let itself = std::env::current_exe().expect("a test knows its own file");
    let status = Command::new(itself)
        .args(["--exact", test])
        .env("FLOORKEEPER_MUTANT", name)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("a test can start itself");
    status.success()
}

#[test]
fn the_gate_as_it_is_survives() {
    assert!(survives("history", "") && survives("small_world", ""));
}

#[test]
fn every_mutant_is_caught() {
    for name in mutant::ADMISSION {
        let by = ["history", "small_world"].into_iter().filter(|test| !survives(test, name));
        let by: Vec<_> = by.collect();
        println!("{name}: caught by {by:?}");
        assert!(by.contains(&"history"), "{name} broke nothing that a history sees");
    }
}
