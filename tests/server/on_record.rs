//! What is on record agrees with the gate before it and with the account behind it.

use std::time::Duration;

use floorkeeper::id::{CallbackId, Stage};
use floorkeeper::runtime::promises::unix_ms;
use serde_json::json;

use crate::callbacks::{Desk, wanted};

/// A limit that is raised while the server runs holds on record as at the gate.
#[tokio::test]
async fn more_room_at_the_gate_is_more_room_on_record() {
    let desk = Desk::open(&["limits.callback.slots=1"]).await;
    desk.create("+15555550100").await;
    let more = json!({"slots": 2});
    let changed = desk.ask("PATCH", "/v1/admission/callback", &more).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    desk.create("+15555550101").await;
    let third = desk.ask("POST", "/v1/callbacks", &wanted("+15555550102")).await;
    assert_eq!((third.status, third.code().as_str()), (429, "admission_capacity"), "{third:?}");
}

/// What is on record has to be what was accepted and has not ended.
#[tokio::test]
async fn a_record_that_vanished_is_missed_in_the_ledger() {
    let desk = Desk::open(&[]).await;
    desk.create("+15555550100").await;
    let ledger = desk.get("/v1/ledger").await;
    let account = &ledger["callbacks"];
    let seen = (&account["open"], &account["open_counted"], &account["balances"]);
    assert_eq!(seen, (&json!(1), &json!(1), &json!(true)));
    let file = rusqlite::Connection::open(desk.folder.join("callbacks.db")).unwrap();
    assert_eq!(file.execute("DELETE FROM callbacks", []).unwrap(), 1);
    let ledger = desk.get("/v1/ledger").await;
    let account = &ledger["callbacks"];
    let seen = (&account["open"], &account["open_counted"], &account["balances"]);
    assert_eq!(seen, (&json!(1), &json!(0), &json!(false)));
    assert_eq!(ledger["balances"], false);
}

/// Another node, or time, ends what is on record: the units of those come back, and no others.
#[tokio::test]
async fn whoever_ends_it_the_unit_comes_back() {
    let desk = Desk::open(&[]).await;
    let promises = desk.rig.service().promises().unwrap().clone();
    let mut ids = Vec::new();
    for number in 0..3 {
        let made = desk.create(&format!("+1555555010{number}")).await;
        ids.push(CallbackId::parse(made["id"].as_str().unwrap()).unwrap());
    }
    let mut changes = promises.changes();
    promises.store().cancel(ids[1], unix_ms()).await.unwrap();
    // Whoever waits looks when told, and only then: the last telling has to come after the unit.
    let told = async {
        while desk.rig.counts(Stage::Callback).active != 2 {
            changes.changed().await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(30), told).await.expect("its unit comes back");
    assert_eq!(desk.rig.service().gates.promised(), [ids[0], ids[2]]);
}
