//! Handoffs over HTTP: a human takes a caller who waits, or does not.

use std::sync::Arc;

use floorkeeper::admission::Cancelled;
use floorkeeper::call::{Arranged, Wish};
use floorkeeper::fallback::Rung;
use floorkeeper::id::Stage;
use floorkeeper::provider::Ended;
use floorkeeper::runtime::promises::{Promisee, Promises};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::callbacks::Desk;
use crate::client::Client;
use crate::http::Answer;
use crate::rig::LIMIT;

/// What only an acknowledgement makes sayable.
const CONNECTING: &str = "handoff_acknowledged";

/// A call for which a human is asked, as far as its promise is concerned.
pub struct Caller {
    pub given_up: oneshot::Sender<Cancelled>,
    pub run: JoinHandle<Ended>,
    _news: mpsc::Receiver<Arranged>,
}

/// Begins to ask a human for this call.
pub fn caller(promises: &Arc<Promises>, call: &str, tenant: &str) -> Caller {
    let wish = Wish {
        rung: Rung::Handoff,
        destination: String::new(),
        asked: "Shall I connect you?".to_owned(),
        said: "Yes.".to_owned(),
        about: "overloaded",
        language: "en".to_owned(),
    };
    let promisee = Promisee {
        call: call.to_owned(),
        turn: 1,
        tenant: tenant.to_owned(),
        agent: "default".to_owned(),
    };
    let (out, news) = mpsc::channel(4);
    let (given_up, why) = oneshot::channel();
    let promises = promises.clone();
    let run =
        tokio::spawn(async move { promises.hand_over(&wish, &promisee, None, out, why).await });
    Caller { given_up, run, _news: news }
}

/// A caller for whom there is no model, and who wants to speak to a human.
async fn waiting_caller(settings: &[&str]) -> (Desk, Client, String) {
    let usual = [
        "limits.model.slots=0",
        "callback.offer=never",
        "handoff.offer=always",
        "asr.text=[\"What is for dinner?\", \"Hello?\", \"Hello?\", \"Yes please\"]",
    ];
    let settings: Vec<&str> = usual.iter().chain(settings).copied().collect();
    let desk = Desk::open(&settings).await;
    let mut client = Client::connect(&desk.rig).await;
    // They are asked to try again before a human is offered.
    for _ in 0..3 {
        client.speak(600).await;
        client.answered().await;
    }
    until_rung(&mut client, "offered").await;
    let promises = desk.rig.service().promises().unwrap().clone();
    let version = promises.version();
    client.speak(600).await;
    promises.wait_for_change(version, LIMIT).await;
    let list = desk.get("/v1/handoffs?open=true").await;
    let found = list["handoffs"].as_array().unwrap();
    assert_eq!(found.len(), 1, "{list:#}");
    assert_eq!((&found[0]["state"], &found[0]["by"]), (&json!("offered"), &json!("")));
    let id = found[0]["id"].as_str().unwrap().to_owned();
    (desk, client, id)
}

fn outcomes(client: &Client) -> Vec<String> {
    let told = client.of("floorkeeper.fallback").filter(|event| event["rung"] == "handoff");
    told.map(|event| event["outcome"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn until_rung(client: &mut Client, outcome: &str) {
    while !outcomes(client).iter().any(|told| told == outcome) {
        client.next().await;
    }
}

/// What the one call said, prompt by prompt, as its trace has it.
async fn prompts(desk: &Desk) -> Vec<String> {
    let call = desk.get("/v1/calls").await["calls"][0]["id"].as_str().unwrap().to_owned();
    let trace = desk.get(&format!("/v1/calls/{call}")).await["trace"].clone();
    let lines = trace.as_array().unwrap().iter().filter_map(Value::as_str);
    lines
        .filter(|line| line.contains("-> prompt "))
        .filter_map(|line| line.rsplit(' ').next().map(str::to_owned))
        .collect()
}

async fn post(desk: &Desk, id: &str, what: &str, body: Value) -> Answer {
    desk.ask("POST", &format!("/v1/handoffs/{id}/{what}"), &body).await
}

async fn state(desk: &Desk, id: &str) -> Value {
    desk.get(&format!("/v1/handoffs/{id}")).await["state"].clone()
}

#[tokio::test]
async fn an_acknowledged_handoff_is_said_and_counts_once() {
    let (desk, mut client, id) = waiting_caller(&[]).await;
    let before = prompts(&desk).await;
    assert!(!before.contains(&CONNECTING.to_owned()), "nobody has acknowledged: {before:?}");
    let early = post(&desk, &id, "connected", Value::Null).await;
    assert_eq!((early.status, early.code().as_str()), (409, "wrong_state"));
    let nobody = post(&desk, &id, "acknowledge", json!({"by": " "})).await;
    assert_eq!((nobody.status, nobody.code().as_str()), (400, "bad_request"));
    let taken = post(&desk, &id, "acknowledge", json!({"by": "Ada"})).await;
    assert_eq!(taken.status, 200, "{taken:?}");
    assert_eq!(taken.json()["state"], "acknowledged");
    until_rung(&mut client, "established").await;
    let said = prompts(&desk).await;
    assert_eq!(said.last().map(String::as_str), Some(CONNECTING), "{said:?}");
    let second = post(&desk, &id, "acknowledge", json!({"by": "Bob"})).await;
    assert_eq!((second.status, second.code().as_str()), (409, "wrong_state"));
    assert_eq!(second.json()["state"], "acknowledged");
    let shown = desk.get(&format!("/v1/handoffs/{id}")).await;
    assert_eq!(shown["by"], "Ada", "who was first");
    // More sound than is read at once: what stays unread takes nothing from the goodbye.
    client.speak(20_000).await;
    let connected = post(&desk, &id, "connected", Value::Null).await;
    assert_eq!(connected.json()["state"], "connected");
    assert_eq!(client.close_code().await, 1000, "the agent's part is over");
    let counted = desk.rig.get("/metrics").await.text();
    assert!(
        counted.contains("floorkeeper_fallback_total{rung=\"handoff\",outcome=\"established\"} 1"),
        "{counted}"
    );
}

/// Whoever takes the caller may close their connection at once: the call hears of it all the same.
#[tokio::test]
async fn a_human_who_does_not_wait_for_answers_is_heard() {
    let (desk, mut client, id) = waiting_caller(&[]).await;
    let path = |what: &str| format!("/v1/handoffs/{id}/{what}");
    desk.ask_and_leave(&path("acknowledge"), &json!({"by": "Ada"})).await;
    until_rung(&mut client, "established").await;
    desk.ask_and_leave(&path("connected"), &json!({})).await;
    assert_eq!(client.close_code().await, 1000, "the agent's part is over");
    assert_eq!(state(&desk, &id).await, "connected");
}

#[tokio::test]
async fn a_caller_who_leaves_ends_the_handoff() {
    let (desk, client, id) = waiting_caller(&[]).await;
    let promises = desk.rig.service().promises().unwrap().clone();
    client.hang_up().await;
    loop {
        let version = promises.version();
        let now = state(&desk, &id).await;
        if now == "caller_left" {
            break;
        }
        assert_eq!(now, "offered");
        promises.wait_for_change(version, LIMIT).await;
    }
    let late = post(&desk, &id, "acknowledge", json!({"by": "Ada"})).await;
    assert_eq!((late.status, late.code().as_str()), (409, "wrong_state"));
    assert_eq!(late.json()["state"], "caller_left");
    assert_eq!(desk.get("/v1/handoffs?open=true").await["handoffs"], json!([]));
    let all = desk.get("/v1/handoffs").await;
    assert_eq!(all["handoffs"][0]["id"], json!(id), "it is on record");
}

/// The call's clock judges how long it waits; the record tells the same as the caller hears.
#[tokio::test]
async fn a_handoff_that_is_given_up_is_on_record_for_what_it_was() {
    let desk = Desk::open(&[]).await;
    let promises = desk.rig.service().promises().unwrap().clone();
    let cases = [
        (Cancelled::Superseded, "timeout"),
        (Cancelled::Client, "caller_left"),
        (Cancelled::HangUp, "caller_left"),
        (Cancelled::Drain, "caller_left"),
    ];
    for acknowledged in [false, true] {
        for (why, end) in cases {
            let version = promises.version();
            let caller = caller(&promises, &format!("{why:?}-{acknowledged}"), "");
            promises.wait_for_change(version, LIMIT).await;
            let list = desk.get("/v1/handoffs?open=true").await;
            let id = list["handoffs"][0]["id"].as_str().unwrap().to_owned();
            if acknowledged {
                post(&desk, &id, "acknowledge", json!({"by": "Ada"})).await;
            }
            caller.given_up.send(why).unwrap();
            assert!(caller.run.await.unwrap().proof.is_ok());
            assert_eq!(state(&desk, &id).await, end, "{why:?}");
            let late = post(&desk, &id, "acknowledge", json!({"by": "Bob"})).await;
            assert_eq!((late.status, &late.json()["state"]), (409, &json!(end)));
        }
    }
}

#[tokio::test]
async fn a_human_who_says_no_is_told_to_the_caller() {
    let (desk, mut client, id) = waiting_caller(&[]).await;
    let wrong = post(&desk, &id, "end", json!({"outcome": "timeout"})).await;
    assert_eq!((wrong.status, wrong.code().as_str()), (400, "bad_request"));
    let declined = post(&desk, &id, "end", json!({"outcome": "declined"})).await;
    assert_eq!(declined.json()["state"], "declined", "{declined:?}");
    until_rung(&mut client, "declined").await;
    assert!(!outcomes(&client).contains(&"established".to_owned()));
    let again = post(&desk, &id, "end", json!({"outcome": "busy"})).await;
    assert_eq!((again.status, again.code().as_str()), (409, "wrong_state"));
    client.hang_up().await;
    assert_eq!(desk.rig.counts(Stage::Handoff).active, 0);
}

#[tokio::test]
async fn there_is_no_such_handoff() {
    let desk = Desk::open(&[]).await;
    for id in ["ho_1", "ho_00000000000000000000000000000001"] {
        let answer = post(&desk, id, "acknowledge", json!({"by": "Ada"})).await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"), "{answer:?}");
    }
    let wrong = desk.ask("GET", "/v1/handoffs?open=maybe", &Value::Null).await;
    assert_eq!((wrong.status, wrong.code().as_str()), (400, "invalid_parameter"));
}
