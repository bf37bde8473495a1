//! A disk that fills (P13): promises stop, reads go on, and promises come back with the room.
//!
//! The disk is a file system of 16 MiB in memory, in a mount namespace of its own: this test runs
//! once more inside one, as root or as a user who may make such namespaces.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use floorkeeper::store::{CallbackStore, Health, Refused, Sealed, SqliteStore, State};

use crate::child::{NOW, limits, offer, test_binary};
use crate::{Folder, everything};

const DISK: &str = "FLOORKEEPER_TEST_DISK";
/// Nothing here takes so long unless it is broken.
const LIMIT: Duration = Duration::from_secs(30);

#[test]
fn a_full_disk_stops_promises_and_room_brings_them_back() {
    let folder = Folder::new();
    // SAFETY: asks for a number.
    let root = unsafe { libc::geteuid() == 0 };
    let mut command = Command::new("unshare");
    command.args(if root { &["--mount"][..] } else { &["--mount", "--map-root-user"][..] });
    let mount = "mount -t tmpfs -o size=16m none \"$1\" && exec \"$0\" --exact \
                 no_room::inside --nocapture";
    let status = command
        .args(["sh", "-c", mount])
        .arg(test_binary())
        .arg(&folder.0)
        .env(DISK, &folder.0)
        .status()
        .expect("unshare, of util-linux");
    assert!(status.success(), "{status} (root, or user namespaces, are needed to mount a tmpfs)");
}

/// Does nothing unless it was started by the test above.
#[tokio::test]
async fn inside() {
    let Some(disk) = std::env::var_os(DISK) else { return };
    let disk = Path::new(&disk);
    let store = SqliteStore::open(&disk.join("callbacks.sqlite3"), limits()).expect("a store");
    let mut first = offer(0);
    first.not_before_ms = NOW - 1;
    let first = store.accept(first, NOW).await.expect("it is accepted").id;
    // Somebody else's file takes most of it.
    std::fs::write(disk.join("filler"), vec![0; 12 << 20]).expect("there was room");
    let mut promised = 1;
    let refused = loop {
        let mut offer = offer(promised);
        offer.why = "w".repeat(3_000);
        match store.accept(offer, NOW).await {
            Ok(_) => promised += 1,
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused, Refused::Sealed(Sealed::DiskFull));
    assert_eq!(refused.to_string(), "sealed: disk full");
    let mut health = store.health();
    assert_eq!(*health.borrow(), Health::Sealed(Sealed::DiskFull));
    // Sealed: refused at once, and reads go on.
    assert_eq!(store.accept(offer(900_000), NOW).await, Err(refused));
    assert_eq!(everything(&store).await.len() as u64, promised);
    assert_eq!(store.ledger().refused["sealed"], 2);
    std::fs::remove_file(disk.join("filler")).expect("it is gone");
    let open = health.wait_for(|health| *health == Health::Open);
    tokio::time::timeout(LIMIT, open).await.expect("it opens by itself").expect("it lives");
    store.accept(offer(900_000), NOW).await.expect("it is accepted again");
    let mut claimed = store.claim("w".to_owned(), 1_000, 1, NOW).await.expect("a claim");
    assert_eq!(claimed.pop().expect("one is due").id, first);
    drop(store);
    let store = SqliteStore::open(&disk.join("callbacks.sqlite3"), limits()).expect("it is whole");
    let records = everything(&store).await;
    assert_eq!(records.len() as u64, promised + 1);
    let held = records.iter().find(|record| record.id == first).expect("the first");
    assert_eq!(held.state, State::Claimed);
    println!("{promised} promised before the disk was full");
}
