//! The file of callbacks: who may open it, what is said when it cannot be, who may read it.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use floorkeeper::id::CallbackId;
use floorkeeper::store::{
    CallbackStore, Consent, HandoffAsk, HandoffStore, Health, Limits, Offer, OpenError, Query,
    Refused, Sealed, SqliteStore,
};
use futures_util::FutureExt;

/// A file in a folder of its own, gone with the test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let name = format!("floorkeeper-file-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder); // of a process that had our id
        std::fs::create_dir(&folder).expect("a folder");
        Place(folder.join("callbacks.sqlite3"))
    }

    fn open(&self) -> Result<SqliteStore, OpenError> {
        SqliteStore::open(&self.0, Limits::default())
    }

    fn refused(&self) -> OpenError {
        self.open().err().expect("it must not open")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0.parent().expect("its folder"));
    }
}

#[test]
fn one_process_has_it() {
    let place = Place::new("twice");
    let store = place.open().expect("a store");
    let said = place.refused().to_string();
    assert!(said.contains(&format!("in use by another process (pid {})", std::process::id())));
    assert!(said.contains("store.path"), "{said}");
    drop(store);
    place.open().expect("it is free again");
}

/// P23: what is in it is for nobody else's eyes, also where it was.
#[test]
fn nobody_else_may_read_it() {
    let place = Place::new("mode");
    for _ in 0..2 {
        let store = place.open().expect("a store");
        for file in std::fs::read_dir(place.0.parent().expect("its folder")).expect("a folder") {
            let file = file.expect("a file");
            let mode = file.metadata().expect("its mode").permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{:?}", file.file_name());
        }
        drop(store);
        std::fs::set_permissions(&place.0, PermissionsExt::from_mode(0o644)).expect("a mode");
    }
}

#[test]
fn a_later_schema_is_left_alone() {
    let place = Place::new("newer");
    drop(place.open().expect("a store"));
    let file = rusqlite::Connection::open(&place.0).expect("SQLite");
    file.execute_batch("PRAGMA user_version = 99").expect("a version");
    drop(file);
    let before = std::fs::read(&place.0).expect("the file");
    let refused = place.refused();
    assert!(matches!(refused, OpenError::Newer { found: 99, .. }), "{refused:?}");
    assert!(refused.to_string().contains("later version"), "{refused}");
    assert_eq!(std::fs::read(&place.0).expect("the file"), before);
}

#[test]
fn what_is_no_callback_store_is_left_alone() {
    let place = Place::new("other");
    let file = rusqlite::Connection::open(&place.0).expect("SQLite");
    file.execute_batch("CREATE TABLE theirs (a)").expect("a table");
    drop(file);
    assert!(place.refused().to_string().contains("another program's database"));
    std::fs::write(&place.0, "callbacks, by hand\n".repeat(100)).expect("a file");
    let before = std::fs::read(&place.0).expect("the file");
    let refused = place.refused();
    assert!(matches!(refused, OpenError::Damaged { .. }), "{refused:?}");
    assert!(refused.to_string().contains("restore it or move it away"), "{refused}");
    assert_eq!(std::fs::read(&place.0).expect("the file"), before);
}

#[test]
fn a_damaged_file_is_told_at_the_start() {
    let place = Place::new("damaged");
    drop(place.open().expect("a store"));
    let mut bytes = std::fs::read(&place.0).expect("the file");
    assert!(bytes.len() > 3 * 4_096);
    bytes[4_096..2 * 4_096].fill(0xa5);
    std::fs::write(&place.0, bytes).expect("a file");
    let refused = place.refused();
    assert!(matches!(refused, OpenError::Damaged { .. }), "{refused:?}");
}

#[test]
fn a_folder_that_is_not_there_is_told() {
    let refused = SqliteStore::open(&PathBuf::from("/nonexistent/callbacks"), Limits::default());
    let said = refused.err().expect("it must not open").to_string();
    assert!(said.contains("/nonexistent/callbacks cannot be opened"), "{said}");
}

/// A file of the first schema, as the first version left it, gets the newest and loses nothing.
#[tokio::test]
async fn an_older_schema_is_brought_forward() {
    let place = Place::new("older");
    let file = rusqlite::Connection::open(&place.0).expect("SQLite");
    file.execute_batch(include_str!("../src/store/sqlite/schema_1.sql")).expect("a schema");
    file.execute_batch(
        "PRAGMA application_id = 1181510514; PRAGMA user_version = 1; \
         INSERT INTO callbacks VALUES ('cb_00000000000000000000000000000001', 'acme', \
         '+12015550100', 'open', 'due', 4, '', 0, 1, 1800000000000, 1800000000000, \
         1800003600000, 1800000000000, '', NULL, 300, '{\"tenant\":\"acme\",\
         \"destination\":\"+12015550100\",\"why\":\"\",\"language\":\"en\",\"call\":\"\",\
         \"incarnation\":\"\",\"born_ms\":1800000000000,\"not_before_ms\":1800000000000,\
         \"expires_ms\":1800003600000,\"attempts_max\":3,\"backoff_ms\":1000,\
         \"consent\":{\"asked\":\"?\",\"said\":\"yes\",\"at_ms\":1800000000000,\"call\":\"\",\
         \"turn\":1},\"quiet\":null,\"authorisation\":\"p\",\"key\":null,\"replays\":null}')",
    )
    .expect("a record");
    drop(file);
    let store = place.open().expect("it is brought forward");
    let claimed = store.claim("w".to_owned(), 1_000, 9, 1_800_000_000_000).await;
    let claimed = claimed.expect("a claim");
    assert_eq!((claimed.len(), claimed[0].epoch, claimed[0].attempts), (1, 5, 1));
    let handoffs = store.handoff(HandoffAsk::List { open: true, tenant: None }, 0).await;
    assert_eq!(handoffs, Ok(Vec::new()));
}

/// A row that another program has spoilt costs itself only: it is set aside, counted, and the rest
/// lives; also when the file is opened with it.
#[tokio::test]
async fn a_row_that_cannot_be_read_is_set_aside() {
    const NOW: u64 = 1_800_000_000_000;
    let place = Place::new("unreadable");
    let store = place.open().expect("a store");
    let file = rusqlite::Connection::open(&place.0).expect("SQLite");
    let mut ids = Vec::new();
    for destination in ["+12015550100", "+12015550101", "+12015550102", "+12015550103"] {
        ids.push(store.accept(offer(destination, NOW), NOW).await.expect("it is accepted").id);
    }
    let spoil = |set: &str, id: CallbackId| {
        let sql = format!("UPDATE callbacks SET {set} WHERE id = '{id}'");
        assert_eq!(file.execute(&sql, []).expect("it is spoilt"), 1);
    };
    spoil("offer = '{'", ids[0]);
    let listed = store.list(Query { limit: 9, ..Query::default() }).await.expect("a list");
    assert_eq!(listed.len(), 3, "reads go on");
    let first = store.claim("w".to_owned(), 1_000, 9, NOW).await;
    assert!(matches!(first, Err(Refused::Unreadable(_))), "{first:?}");
    assert_eq!(*store.health().borrow(), Health::Open);
    let claimed = store.claim("w".to_owned(), 1_000, 9, NOW).await.expect("the others");
    assert_eq!(claimed.len(), 3);
    let counts = store.counts().await.expect("counts");
    assert_eq!((counts.open, counts.set_aside, store.ledger().open()), (3, 1, Some(3)));
    let again = store.accept(offer("+12015550100", NOW), NOW + 1).await.expect("its place is free");

    spoil("state = 'lost'", ids[1]);
    spoil("attempts = -1", ids[2]);
    drop(store);
    let store = place.open().expect("it opens");
    let counts = store.counts().await.expect("counts");
    assert_eq!((counts.open, counts.set_aside, store.ledger().opening), (2, 3, 2));
    let listed = store.list(Query { limit: 9, ..Query::default() }).await.expect("a list");
    let listed: Vec<CallbackId> = listed.iter().map(|record| record.id).collect();
    assert_eq!(listed, [ids[3], again.id]);
    let kept: String = file
        .query_row(
            "SELECT offer FROM callbacks_set_aside WHERE id = ?1",
            [ids[0].to_string()],
            |row| row.get(0),
        )
        .expect("it is kept for whoever mends it");
    assert_eq!(kept, "{");
}

fn offer(destination: &str, now_ms: u64) -> Offer {
    Offer {
        tenant: "acme".to_owned(),
        destination: destination.to_owned(),
        why: String::new(),
        language: "en".to_owned(),
        call: String::new(),
        incarnation: String::new(),
        born_ms: now_ms,
        not_before_ms: now_ms,
        expires_ms: now_ms + 60_000,
        attempts_max: 3,
        backoff_ms: 1_000,
        consent: Consent {
            asked: "Shall we?".to_owned(),
            said: "yes".to_owned(),
            at_ms: now_ms,
            call: String::new(),
            turn: 0,
        },
        quiet: None,
        authorisation: "policy-1".to_owned(),
        key: None,
        replays: None,
    }
}

/// C-008: what is written where nobody will find it is not kept.
#[tokio::test]
async fn a_file_that_was_taken_away_seals_the_store() {
    for end in ["", "-wal"] {
        let place = Place::new(&format!("gone{end}"));
        let store = place.open().expect("a store");
        std::fs::remove_file(format!("{}{end}", place.0.display())).expect("it was there");
        let refused = store.sweep(0).await.expect_err("nothing is done");
        assert!(refused.to_string().contains("was moved or deleted"), "{refused}");
        assert!(matches!(&*store.health().borrow(), Health::Sealed(Sealed::Io(_))));
    }
}

/// P12, invariant 11: a writer that cannot go on says so; reads do not wait for it; it goes on by
/// itself.
#[tokio::test]
async fn a_writer_that_waits_stops_no_reader() {
    let place = Place::new("locked");
    let store = place.open().expect("a store");
    let other = rusqlite::Connection::open(&place.0).expect("SQLite");
    other.execute_batch("BEGIN IMMEDIATE").expect("nobody else writes");
    let mut waits = store.sweep(0);
    assert_eq!(store.counts().await.expect("counts").open, 0);
    assert_eq!((&mut waits).now_or_never(), None, "the reader came first");
    assert_eq!(waits.await, Err(Refused::Sealed(Sealed::Locked)));
    let mut health = store.health();
    assert_eq!(*health.borrow(), Health::Sealed(Sealed::Locked));
    other.execute_batch("COMMIT").expect("it lets go");
    health.wait_for(|health| *health == Health::Open).await.expect("it opens by itself");
    store.sweep(0).await.expect("it goes on");
}
