//! Each broken variant of the call is caught by a fixture and by the storm: `cargo test --features
//! mutants --test calls_mutants`.
#![cfg(feature = "mutants")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use floorkeeper::call::MUTANTS;
use floorkeeper::cli::fixture;
use floorkeeper::config::Script;
use floorkeeper::sim::storm;

/// Seeds within which the storm has to catch every variant; CI runs many more.
const SEEDS: u64 = 800;
/// Seeds that the call as it is passes here.
const CLEAN_SEEDS: u64 = 60;

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
            broken.push(format!("BROKE {}: {problem}", path.display()));
        }
    }
    println!("{}", broken.join("\n"));
    assert!(broken.is_empty());
}

/// The invariants alone, in random calls, until the first is broken.
#[test]
fn storms() {
    let mutant = std::env::var("FLOORKEEPER_MUTANT").unwrap_or_default();
    let seeds = if mutant.is_empty() { CLEAN_SEEDS } else { SEEDS };
    let fallback = Arc::new(Script::read(None).expect("the built-in prompts"));
    for seed in 0..seeds {
        let storm = storm::run(seed, fallback.clone()).expect("a seed's script is well written");
        let problems = storm.outcome.problems;
        if let Some(problem) = problems.first() {
            println!("BROKE seed {seed}: {problem}");
            panic!("seed {seed}: {problems:#?}");
        }
    }
}

/// Runs one of the tests above in a process of its own, as the variant of this name; gives what it
/// broke.
fn breaks(name: &str, test: &str) -> Option<String> {
    let itself = std::env::current_exe().expect("a test knows its own file");
    let output = Command::new(itself)
        .args(["--exact", test, "--nocapture"])
        .env("FLOORKEEPER_MUTANT", name)
        .stderr(Stdio::null())
        .output()
        .expect("a test can start itself");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let first = told.lines().find(|line| line.contains("BROKE ")).map(str::to_owned);
    (!output.status.success()).then(|| first.unwrap_or(told))
}

#[test]
fn the_call_as_it_is_keeps_its_promises() {
    assert_eq!(breaks("", "promises"), None);
    assert_eq!(breaks("", "storms"), None);
}

fn all_are_caught_by(test: &str) {
    let mut survived = Vec::new();
    for name in MUTANTS {
        let broke = breaks(name, test);
        println!("{name}: {}", broke.as_deref().unwrap_or("SURVIVED"));
        survived.extend(broke.is_none().then_some(name));
    }
    assert!(survived.is_empty(), "{survived:?} broke nothing that {test} see");
}

#[test]
fn every_mutant_is_caught_by_a_fixture() {
    all_are_caught_by("promises");
}

#[test]
fn every_mutant_is_caught_by_the_storm() {
    all_are_caught_by("storms");
}

/// A seed that fails is told with the shortest script that fails like it, and a command that
/// repeats that.
#[test]
fn a_failing_seed_is_shortened() {
    let run = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_floorkeeper"))
            .args(args)
            .env("FLOORKEEPER_MUTANT", "second_reply_for_split_final")
            .output()
            .expect("the command starts");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let keep = std::env::temp_dir().join(format!("floorkeeper-storm-{}", std::process::id()));
    std::fs::create_dir_all(&keep).expect("a folder in the temporary one");
    let folder = keep.display().to_string();
    let (code, told) = run(&["storm", "--seeds", "0..100", "--keep", &folder, "--json"]);
    assert_eq!(code, Some(1), "{told}");
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    let failure = &told["failures"][0];
    let seed = failure["seed"].as_u64().expect("a seed");
    let shortest = failure["shortest"]["script"].as_str().expect("a script");
    assert!(shortest.len() < storm::write(seed).len() / 3, "{shortest}");
    let file = keep.join(format!("storm-{seed}.toml"));
    let again = failure["shortest"]["again"].as_str().expect("a command");
    assert!(again.contains(&file.display().to_string()), "{again}");
    let (code, told) = run(&["fixture", "run", &file.display().to_string()]);
    let problem = failure["shortest"]["problems"][0].as_str().expect("a problem");
    assert!(code == Some(1) && told.contains(problem), "{told}");
    std::fs::remove_dir_all(&keep).expect("the folder can be removed");
}
