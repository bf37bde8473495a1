//! What a callback store promises when the process, the disk or its room goes (P9, P12, P13).
//!
//! The process that is killed is this test once more ([`child`]).

mod child;
mod kills;
mod no_flush;
mod no_room;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use floorkeeper::store::{CallbackStore, Query, Record, SqliteStore};

/// A folder of its own, gone with the test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("floorkeeper-crash-{}-{next}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder); // of a process that had our id
        std::fs::create_dir(&folder).expect("a folder");
        Folder(folder)
    }

    pub fn file(&self) -> PathBuf {
        self.0.join("callbacks.sqlite3")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Everything on record.
pub async fn everything(store: &SqliteStore) -> Vec<Record> {
    let mut query = Query { limit: 500, ..Query::default() };
    let mut all = Vec::new();
    loop {
        let page = store.list(query.clone()).await.expect("a page");
        let Some(last) = page.last() else { return all };
        query.after = Some(last.id);
        all.extend(page);
    }
}

/// `ACK n id` is `(n, id)`.
pub fn acknowledged(lines: &[String]) -> Vec<(u64, String)> {
    let one = |line: &String| {
        let mut words = line.strip_prefix("ACK ")?.split(' ');
        Some((words.next()?.parse().ok()?, words.next()?.to_owned()))
    };
    lines.iter().filter_map(one).collect()
}

#[cfg(feature = "mutants")]
#[test]
fn every_mutant_is_caught() {
    for name in floorkeeper::store::mutant::DISK {
        let itself = std::env::current_exe().expect("a test knows its own file");
        let mut tests = std::process::Command::new(itself);
        let tests = tests.arg("no_flush").env("FLOORKEEPER_MUTANT", name).output();
        assert!(!tests.expect("a test can start itself").status.success(), "{name} SURVIVED");
        println!("{name}: caught");
    }
}
