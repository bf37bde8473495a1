//! A flush that fails (P12): no acknowledgement is false, and the store seals itself.
//!
//! `strace` makes the n-th flush of a thread fail, and writes down what the process did in which
//! order: that is what is judged, as killing a process loses no page that the kernel has.

use std::process::Command;

use floorkeeper::store::SqliteStore;

use crate::child::{self, limits};
use crate::{Folder, acknowledged, everything};

/// What one process did, as far as it matters.
#[derive(Debug, PartialEq, Eq)]
enum Did {
    Flushed,
    FlushFailed,
    /// SQLite does not look at these, so the store flushes the folder once more itself.
    FolderFailed,
    Opened,
    Promised,
}

fn read(log: &str) -> Vec<Did> {
    let did = |line: &str| {
        let flush = line.contains("sync(") || line.contains("sync resumed");
        let wrote = |word: &str| line.contains("write(1") && line.contains(word);
        match () {
            () if flush && line.contains("EIO") && line.contains(".sqlite3") => {
                Some(Did::FlushFailed)
            }
            () if flush && line.contains("EIO") => Some(Did::FolderFailed),
            () if flush && line.ends_with("= 0") => Some(Did::Flushed),
            () if wrote("\"OPEN") => Some(Did::Opened),
            () if wrote("\"ACK ") => Some(Did::Promised),
            () => None,
        }
    };
    log.lines().filter_map(did).collect()
}

struct Trial {
    did: Vec<Did>,
    lines: Vec<String>,
    folder: Folder,
}

/// A child that accepts twelve, one behind the other's answer, while flushes fail as `when` says.
fn trial(when: &str, made: bool) -> Trial {
    let folder = Folder::new();
    if made {
        SqliteStore::open(&folder.file(), limits()).expect("a store");
    }
    let log = folder.0.join("strace");
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-qq", "-y", "-s", "16", "-e", "trace=fsync,fdatasync,write"])
        .args(["-e", &format!("inject=fsync,fdatasync:error=EIO:when={when}")])
        .arg("-o")
        .arg(&log)
        .arg(child::test_binary());
    let mut child = child::wrapped(strace, &folder.file(), 0, 12, 0)
        .spawn()
        .unwrap_or_else(|error| panic!("strace: {error}: `.ci/setup --tests` installs it"));
    let lines = child::lines(&mut child);
    child.wait().expect("it ended");
    let did = read(&std::fs::read_to_string(&log).expect("what strace saw"));
    Trial { did, lines, folder }
}

/// Every promise has a flush of its own before it, and none comes behind a failed one.
#[tokio::test]
async fn a_failed_flush_is_never_acknowledged() {
    let (mut sealed, mut unopened, mut untouched) = (0, 0, 0);
    // Making the file, and then working with one that was there.
    for made in [false, true] {
        for when in (1..=14).flat_map(|n| [format!("{n}"), format!("{n}+")]) {
            let Trial { did, lines, folder } = trial(&when, made);
            let promises = acknowledged(&lines);
            let failed = did.iter().position(|did| *did == Did::FlushFailed);
            let said = format!("when={when} made={made}: {did:?} {lines:?}");
            let mut flushes = 0;
            for did in &did {
                match did {
                    Did::Flushed => flushes += 1,
                    Did::FlushFailed | Did::FolderFailed | Did::Opened => flushes = 0,
                    Did::Promised => {
                        assert!(flushes > 0, "a promise without a flush: {said}");
                        flushes = 0;
                    }
                }
            }
            if let Some(failed) = failed {
                assert!(!did[failed..].contains(&Did::Promised), "promised all the same: {said}");
                assert!(!did[failed..].contains(&Did::Opened), "opened all the same: {said}");
            }
            match failed {
                _ if lines.iter().any(|line| line.starts_with("NOT OPEN")) => unopened += 1,
                None => {
                    assert_eq!(promises.len(), 12, "{said}");
                    untouched += 1;
                }
                Some(_) => {
                    let refused = lines.iter().filter(|line| line.ends_with(" sealed")).count();
                    assert_eq!(promises.len() + refused, 12, "{said}");
                    sealed += usize::from(refused > 0);
                }
            }
            let store = SqliteStore::open(&folder.file(), limits()).expect("a restart reads it");
            let records = everything(&store).await;
            for (n, id) in promises {
                assert!(records.iter().any(|record| record.id.to_string() == id), "{n} is lost");
            }
        }
    }
    println!("flushes that failed: {sealed} sealed, {unopened} not opened, {untouched} not hit");
    assert!(sealed >= 20 && unopened >= 20, "{sealed} sealed, {unopened} not opened");
}
