//! Every fixture of `fixtures/calls`: its expectations hold, and its story is the golden one, line
//! by line.

use std::path::{Path, PathBuf};

use floorkeeper::cli::fixture;

fn all() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/calls");
    fixture::find(&[folder]).expect("fixtures/calls has fixtures")
}

#[test]
fn every_fixture_passes() {
    let mut failed = Vec::new();
    for path in all() {
        match fixture::run_file(&path, false) {
            Ok(ran) if ran.outcome.problems.is_empty() => {}
            Ok(ran) => failed.push(format!("{}: {:#?}", path.display(), ran.outcome.problems)),
            Err(problem) => failed.push(problem),
        }
    }
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn the_same_fixture_tells_the_same_story_twice() {
    for path in all() {
        let trace = || fixture::run_file(&path, false).map(|ran| ran.outcome.trace);
        assert_eq!(trace(), trace(), "{}", path.display());
    }
}

#[test]
fn every_fixture_has_a_golden_trace_and_every_trace_a_fixture() {
    for path in all() {
        assert!(path.with_extension("trace").exists(), "{} has no golden trace", path.display());
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/calls");
    for entry in std::fs::read_dir(folder).expect("the folder can be read").flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "trace") {
            assert!(path.with_extension("toml").exists(), "{} has no fixture", path.display());
        }
    }
}
