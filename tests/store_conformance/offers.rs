//! Offers as the tests make them, and the stores they are put to.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use floorkeeper::store::{Consent, Key, Limits, Offer, PostgresStore, SqliteStore, Store, UnixMs};

/// When the tests begin: a round time in 2027.
pub const NOW: UnixMs = 1_800_000_000_000;

/// An offer that nothing is wrong with; `destination` is one of the numbers reserved for fiction.
pub fn offer(destination: u32) -> Offer {
    Offer {
        tenant: "acme".to_owned(),
        destination: number(destination),
        why: "the opening hours".to_owned(),
        language: "en".to_owned(),
        call: "call-7".to_owned(),
        incarnation: "test".to_owned(),
        born_ms: NOW,
        not_before_ms: NOW,
        expires_ms: NOW + 3_600_000,
        attempts_max: 3,
        backoff_ms: 1_000,
        consent: Consent {
            asked: "Shall we call you back?".to_owned(),
            said: "yes".to_owned(),
            at_ms: NOW,
            call: "call-7".to_owned(),
            turn: 2,
        },
        quiet: None,
        authorisation: "policy-1".to_owned(),
        key: None,
        replays: None,
    }
}

/// One of the numbers that are reserved for fiction (555-0100 to 555-0199 in any area).
pub fn number(n: u32) -> String {
    format!("+1{:03}55501{:02}", 201 + n / 100, n % 100)
}

pub fn key(name: &str, digest: &str) -> Option<Key> {
    Some(Key { name: name.to_owned(), digest: digest.to_owned() })
}

/// Where a case's store lives.
pub enum Place {
    Sqlite(PathBuf),
    Postgres(String),
}

impl Place {
    /// A folder of its own.
    pub fn file() -> Place {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("floorkeeper-store-{}-{next}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder); // of a process that had our id
        std::fs::create_dir(&folder).expect("a folder");
        Place::Sqlite(folder.join("callbacks.sqlite3"))
    }

    /// The store there, as it is.
    pub async fn open(&self, limits: Limits) -> Arc<dyn Store> {
        match self {
            Place::Sqlite(path) => Arc::new(SqliteStore::open(path, limits).expect("a store")),
            Place::Postgres(url) => {
                Arc::new(PostgresStore::open(url, limits).await.expect("a store"))
            }
        }
    }

    /// The store there, empty.
    pub async fn fresh(&self, limits: Limits) -> Arc<dyn Store> {
        match self {
            Place::Sqlite(path) => {
                for end in ["", "-wal", "-shm"] {
                    let _ = std::fs::remove_file(format!("{}{end}", path.display()));
                }
            }
            Place::Postgres(url) => {
                crate::cluster::run(url, "DROP SCHEMA IF EXISTS floorkeeper CASCADE").await;
            }
        }
        self.open(limits).await
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Place::Sqlite(path) = self {
            let _ = std::fs::remove_dir_all(path.parent().expect("its folder"));
        }
    }
}
