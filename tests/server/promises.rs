//! Callers who cannot have what they asked for are offered a callback, and it exists before it is
//! promised (A-125, A-127, C-008).

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use floorkeeper::call::{Arranged, Wish};
use floorkeeper::fallback::Rung;
use floorkeeper::id::Stage;
use floorkeeper::runtime::promises::{self, Promisee};
use floorkeeper::store::{Query, Record, State};
use futures_util::FutureExt;
use serde_json::json;

use crate::client::Client;
use crate::rig::Rig;

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("promises-{}-{number}", std::process::id());
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0); // the next build's folder is cleaned with it
    }
}

/// A server with a store of its own, whose file is gone with it.
struct Promising {
    rig: Rig,
    folder: Folder,
}

impl Promising {
    async fn start(settings: &[&str]) -> Promising {
        let folder = Folder::new();
        let path = format!("store.path={:?}", folder.0.join("callbacks.db"));
        let settings: Vec<&str> = settings.iter().copied().chain([path.as_str()]).collect();
        let rig = Rig::start(&settings).await;
        promises::open(&rig.serving.service).await.unwrap_or_else(|e| panic!("{e}"));
        Promising { rig, folder }
    }

    /// A caller whose number the transport knows.
    async fn caller(&self, number: &str) -> Client {
        let from = number.replace('+', "%2B");
        let mut client = Client::at(&format!("{}?from={from}", self.rig.url())).await;
        let session = json!({"type": "realtime", "floorkeeper": {"events": true}});
        client.send(json!({"type": "session.update", "session": session})).await;
        client.until("session.updated").await;
        client
    }

    async fn records(&self) -> Vec<Record> {
        let promises = self.rig.service().promises().expect("it is open");
        let query = Query { limit: 500, ..Query::default() };
        promises.store().list(query).await.unwrap()
    }
}

fn rungs(client: &Client) -> Vec<(String, String)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let told = client.of("floorkeeper.fallback");
    told.map(|event| (text(&event["rung"]), text(&event["outcome"]))).collect()
}

async fn until_rung(client: &mut Client, outcome: &str) {
    while !rungs(client).iter().any(|(_, told)| told == outcome) {
        client.next().await;
    }
}

fn texts(question: &str, answer: &str, callers: usize) -> String {
    let said: Vec<String> = std::iter::repeat_n(question, callers)
        .chain(std::iter::repeat_n(answer, callers))
        .map(|text| format!("\"{text}\""))
        .collect();
    format!("asr.text=[{}]", said.join(", "))
}

#[tokio::test]
async fn a_refused_caller_says_yes_and_is_on_record_before_it_is_said() {
    let said = texts("What is for dinner?", "Yes please", 1);
    let server = Promising::start(&["limits.model.slots=0", &said]).await;
    let mut client = server.caller("+15550100").await;
    client.speak(600).await;
    until_rung(&mut client, "offered").await;
    client.answered().await;
    assert_eq!(server.records().await.len(), 0, "nobody has agreed to anything");
    client.speak(600).await;
    until_rung(&mut client, "established").await;
    let records = server.records().await;
    assert_eq!(records.len(), 1, "the promise follows the record");
    let offer = &records[0].offer;
    assert_eq!(
        (offer.destination.as_str(), offer.consent.said.as_str()),
        ("+15550100", "Yes please")
    );
    assert!(offer.consent.asked.contains("return call"), "{}", offer.consent.asked);
    assert_eq!(client.close_code().await, 1000, "it says goodbye and ends");
    let held = server.rig.counts(Stage::Callback);
    assert_eq!(held.active, 1, "the unit is held until the promise is kept");
    let promises = server.rig.service().promises().unwrap();
    let cancel = floorkeeper::store::Change::Cancel;
    promises.change(records[0].id, cancel).await.unwrap();
    assert_eq!(server.rig.counts(Stage::Callback).active, 0, "nothing is promised any more");
    let ledger = server.rig.ledger("callback").await;
    assert_eq!((&ledger["offered"], &ledger["quarantined"]), (&json!(1), &json!(0)), "{ledger:#}");
}

/// However a number is written, it is one destination: to HTTP as to a call.
#[tokio::test]
async fn a_number_is_the_same_from_a_call_and_over_http() {
    let said = texts("What is for dinner?", "Yes please", 1);
    let server = Promising::start(&["limits.model.slots=0", &said]).await;
    let mut client = server.caller("tel:+1-555-555-0100").await;
    client.speak(600).await;
    until_rung(&mut client, "offered").await;
    client.answered().await;
    client.speak(600).await;
    until_rung(&mut client, "established").await;
    let records = server.records().await;
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].offer.destination, "+15555550100");
    let wanted = crate::callbacks::wanted("+1 (555) 555-0100").to_string();
    let address = server.rig.serving.address;
    let twice = crate::http::ask(address, "POST", "/v1/callbacks", &[], &wanted).await;
    assert_eq!((twice.status, twice.code().as_str()), (409, "duplicate"), "{twice:?}");
    assert_eq!(twice.json()["existing"], json!(records[0].id.to_string()));
}

/// A callback that is found on record and ends before it is looked at is no promise any more.
#[tokio::test]
async fn a_record_that_ends_meanwhile_stands_for_no_new_promise() {
    let server = Promising::start(&[]).await;
    let promises = server.rig.service().promises().unwrap().clone();
    let wish = Wish {
        rung: Rung::Callback,
        destination: "+15555550100".to_owned(),
        asked: "Shall we ring you back?".to_owned(),
        said: "Yes.".to_owned(),
        about: "overloaded",
        language: "en".to_owned(),
    };
    let offer = |call: &str| {
        let (call, tenant, agent) = (call.to_owned(), String::new(), "default".to_owned());
        promises.offer(&wish, &Promisee { call, turn: 1, tenant, agent })
    };
    let Arranged::Callback(first) = promises.promise(offer("1")).await else { panic!("none") };
    let Arranged::Callback(same) = promises.promise(offer("2")).await else { panic!("none") };
    assert_eq!(same.id(), first.id(), "it is on record");
    // One transaction for both: the writer waits meanwhile.
    let other = rusqlite::Connection::open(server.folder.0.join("callbacks.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut promised = Box::pin(promises.promise(offer("3")));
    assert!((&mut promised).now_or_never().is_none());
    let cancelled = promises.store().cancel(first.id(), promises::unix_ms());
    other.execute_batch("ROLLBACK").unwrap();
    cancelled.await.unwrap();
    let Arranged::Callback(second) = promised.await else { panic!("none") };
    assert_ne!(second.id(), first.id());
    let records = server.records().await;
    let states: Vec<_> = records.iter().map(|record| (record.id, record.state)).collect();
    assert_eq!(states, [(first.id(), State::Cancelled), (second.id(), State::Due)]);
}

/// Issue 5: the model has no unit and the voice stands still: fifty callers hear the truth within
/// the turn's budget and, where they want it, are called back; one more is told that there is no
/// room for that either.
#[tokio::test]
async fn fifty_callers_are_called_back_and_one_is_told_that_there_is_no_room() {
    const CALLERS: usize = 51;
    let said = texts("What is for dinner?", "Yes please", CALLERS);
    let settings = [
        "limits.model.slots=0",
        "tts.stall_after_ms=0",
        "limits.callback.slots=50",
        "limits.recognition.slots=200",
        "limits.recognition.queue=200",
        "limits.call.slots=100",
        &said,
    ];
    let server = Promising::start(&settings).await;
    let mut callers = Vec::new();
    for caller in 0..CALLERS {
        callers.push(server.caller(&format!("+155501{caller:02}")).await);
    }
    let offered = callers.into_iter().map(|mut client| async move {
        client.speak(600).await;
        until_rung(&mut client, "offered").await;
        client.answered().await;
        client
    });
    let callers = futures_util::future::join_all(offered).await;
    let answered = callers.into_iter().map(|mut client| async move {
        client.speak(600).await;
        loop {
            let told = rungs(&client);
            let ends = ["established", "refused"];
            if let Some((_, outcome)) = told.iter().find(|(_, o)| ends.contains(&o.as_str())) {
                return (outcome.clone(), client);
            }
            client.next().await;
        }
    });
    let answered = futures_util::future::join_all(answered).await;
    let count = |wanted: &str| answered.iter().filter(|(outcome, _)| outcome == wanted).count();
    assert_eq!((count("established"), count("refused")), (50, 1));
    assert_eq!(server.records().await.len(), 50);
    for (outcome, mut client) in answered {
        if outcome == "established" {
            assert_eq!(client.close_code().await, 1000);
        } else {
            while rungs(&client).last().is_none_or(|(rung, _)| rung != "retry") {
                client.next().await;
            }
            let prompts = client.of("floorkeeper.fallback").map(|event| event["prompt"].clone());
            let told: Vec<_> = prompts.filter(|prompt| *prompt != json!("")).collect();
            assert_eq!(told.last(), Some(&json!("callback_refused")), "{told:?}");
            client.hang_up().await;
        }
    }
}
