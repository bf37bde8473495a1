//! Each broken variant of the call is caught by a fixture: `cargo test --features mutants --test
//! calls_mutants`.
#![cfg(feature = "mutants")]

use std::path::Path;
use std::process::{Command, Stdio};

use floorkeeper::call::MUTANTS;
use floorkeeper::cli::fixture;

/// The fixtures' expectations and invariants, without the golden traces: a mutant has to break a
/// promise, not a line.
#[test]
fn promises() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/calls");
    let mut broken = Vec::new();
    for path in fixture::find(&[folder]).expect("fixtures/calls has fixtures") {
        let ran = fixture::run_file(&path, false).expect("a fixture can be read");
        let line = |problem: &&String| !problem.starts_with("trace line");
        if let Some(problem) = ran.outcome.problems.iter().find(line) {
            broken.push(format!("{}: {problem}", path.display()));
        }
    }
    println!("{}", broken.join("\n"));
    assert!(broken.is_empty());
}

/// Runs the fixtures in a process of their own, as the variant of this name; gives what it broke.
fn breaks(name: &str) -> Option<String> {
    let itself = std::env::current_exe().expect("a test knows its own file");
    let output = Command::new(itself)
        .args(["--exact", "promises", "--nocapture"])
        .env("FLOORKEEPER_MUTANT", name)
        .stderr(Stdio::null())
        .output()
        .expect("a test can start itself");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let first = told.lines().find(|line| line.contains(".toml: ")).map(str::to_owned);
    (!output.status.success()).then(|| first.unwrap_or(told))
}

#[test]
fn the_call_as_it_is_keeps_its_promises() {
    assert_eq!(breaks(""), None);
}

#[test]
fn every_mutant_is_caught() {
    for name in MUTANTS {
        let broke = breaks(name);
        println!("{name}: {}", broke.as_deref().unwrap_or("SURVIVED"));
        assert!(broke.is_some(), "{name} broke nothing that a fixture sees");
    }
}
