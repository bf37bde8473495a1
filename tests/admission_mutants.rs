//! Each broken variant of the gate is caught: `cargo test --features mutants --test
//! admission_mutants`.
#![cfg(feature = "mutants")]

mod admission_model;

use std::process::{Command, Stdio};

use admission_model::history::{limits, op, run};
use floorkeeper::admission::mutant;
use proptest::prelude::*;
use proptest::test_runner::Config;

proptest! {
    #![proptest_config(Config { cases: 400, failure_persistence: None, ..Config::default() })]

    #[test]
    fn history(limits in limits(), ops in proptest::collection::vec((0..15u64, op()), 1..120)) {
        run(limits, ops);
    }
}

/// Runs the histories in a process of their own, as the variant of this name.
fn survives(name: &str) -> bool {
    let itself = std::env::current_exe().expect("a test knows its own file");
    let status = Command::new(itself)
        .args(["--exact", "history"])
        .env("FLOORKEEPER_MUTANT", name)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("a test can start itself");
    status.success()
}

#[test]
fn the_gate_as_it_is_survives() {
    assert!(survives(""));
}

#[test]
fn every_mutant_is_caught() {
    for name in mutant::ADMISSION {
        let survived = survives(name);
        println!("{name}: {}", if survived { "SURVIVED" } else { "caught" });
        assert!(!survived, "{name} broke nothing that a history sees");
    }
}
