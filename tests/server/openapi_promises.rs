//! The documented answers about callbacks and handoffs, given one after the other.

use floorkeeper::runtime::promises::unix_ms;
use serde_json::{Value, json};

use crate::callbacks::{Desk, wanted};
use crate::handoffs;
use crate::openapi::Checker;
use crate::rig::LIMIT;

/// Every operation with a body that it would take, and an id that nobody has.
fn operations() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        ("GET", "/v1/callbacks", Value::Null),
        ("POST", "/v1/callbacks", wanted("+15555550100")),
        ("POST", "/v1/callbacks/claim", json!({"worker": "w", "lease_ms": 60_000})),
        ("GET", "/v1/callbacks/{id}", Value::Null),
        ("POST", "/v1/callbacks/{id}/cancel", Value::Null),
        ("POST", "/v1/callbacks/{id}/extend", json!({"epoch": 1, "lease_ms": 60_000})),
        ("POST", "/v1/callbacks/{id}/replay", json!({})),
        ("POST", "/v1/callbacks/{id}/resolve", json!({"outcome": "connected"})),
        ("POST", "/v1/callbacks/{id}/settle", json!({"epoch": 1, "outcome": "no_answer"})),
        ("POST", "/v1/callbacks/{id}/start_dialling", json!({"epoch": 1})),
        ("GET", "/v1/handoffs", Value::Null),
        ("GET", "/v1/handoffs/{id}", Value::Null),
        ("POST", "/v1/handoffs/{id}/acknowledge", json!({"by": "Ada"})),
        ("POST", "/v1/handoffs/{id}/connected", Value::Null),
        ("POST", "/v1/handoffs/{id}/end", json!({"outcome": "busy"})),
    ]
}

/// Gives every answer that is documented.
pub async fn answers(checker: &mut Checker) {
    refused_to_everybody(checker).await;
    let desk = Desk::open(&["limits.callback.slots=2"]).await;
    strangers(&desk, checker).await;
    callbacks(&desk, checker).await;
    handoffs(&desk, checker).await;
}

async fn ask(desk: &Desk, checker: &mut Checker, path: &str, id: &str, body: &Value) -> Value {
    let method = if body.is_null() && !path.ends_with("cancel") && !path.ends_with("connected") {
        "GET"
    } else {
        "POST"
    };
    let answer = desk.ask(method, &path.replace("{id}", id), body).await;
    checker.check(method, path, &answer);
    answer.json()
}

/// Without a key, with a client secret, without a store.
async fn refused_to_everybody(checker: &mut Checker) {
    let nobody = "cb_00000000000000000000000000000001";
    let mut locked = Desk::open(&["with keys"]).await;
    for key in ["", "secret"] {
        if key == "secret" {
            locked.key = "key-of-ada".to_owned();
            let minted = locked.ask("POST", "/v1/realtime/client_secrets", &json!({})).await;
            locked.key = minted.json()["value"].as_str().unwrap().to_owned();
        }
        for (method, path, body) in operations() {
            let answer = locked.ask(method, &path.replace("{id}", nobody), &body).await;
            assert!(matches!(answer.status, 401 | 403), "{method} {path}: {answer:?}");
            checker.check(method, path, &answer);
        }
    }
    let bare = Desk::without_store(&[]).await;
    for (method, path, body) in operations() {
        let answer = bare.ask(method, &path.replace("{id}", nobody), &body).await;
        assert_eq!((answer.status, answer.code().as_str()), (503, "no_store"), "{method} {path}");
        checker.check(method, path, &answer);
    }
}

/// Ids that nobody has, and bodies that mean nothing.
async fn strangers(desk: &Desk, checker: &mut Checker) {
    for (method, path, body) in operations() {
        let kind = if path.contains("handoffs") { "ho" } else { "cb" };
        let nobody = format!("{kind}_00000000000000000000000000000001");
        if path.contains("{id}") {
            let answer = desk.ask(method, &path.replace("{id}", &nobody), &body).await;
            assert_eq!(answer.status, 404, "{method} {path}: {answer:?}");
            checker.check(method, path, &answer);
        }
        if method == "POST" && !body.is_null() {
            let wrong = json!({"nothing": "known"});
            let answer = desk.ask(method, &path.replace("{id}", &nobody), &wrong).await;
            assert_eq!(answer.status, 400, "{method} {path}: {answer:?}");
            checker.check(method, path, &answer);
        }
    }
    for path in ["/v1/callbacks", "/v1/handoffs"] {
        let answer = desk.ask("GET", &format!("{path}?nothing=known"), &Value::Null).await;
        checker.check("GET", path, &answer);
    }
}

async fn callbacks(desk: &Desk, checker: &mut Checker) {
    let path = "/v1/callbacks";
    let key = [("Idempotency-Key", "one")];
    for body in [wanted("+15555550100"), wanted("+15555550100"), wanted("+15555550101")] {
        let answer = desk.ask_with("POST", path, &key, &body).await;
        checker.check("POST", path, &answer);
    }
    let mut once = wanted("+15555550102");
    once["attempts_max"] = json!(1);
    ask(desk, checker, path, "", &wanted("+15555550100")).await;
    let second = ask(desk, checker, path, "", &once).await;
    ask(desk, checker, path, "", &wanted("+15555550103")).await; // no unit is left
    ask(desk, checker, path, "", &Value::Null).await;
    let both = json!({"worker": "w", "lease_ms": 60_000, "max": 2});
    let claimed = ask(desk, checker, "/v1/callbacks/claim", "", &both).await;
    let first = claimed["callbacks"][0]["id"].as_str().unwrap().to_owned();
    let second = second["id"].as_str().unwrap();
    ask(desk, checker, "/v1/callbacks/{id}", &first, &Value::Null).await;
    let (right, old) = (json!({"epoch": 1}), json!({"epoch": 0}));
    let (longer, wrong) =
        (json!({"epoch": 1, "lease_ms": 9_000}), json!({"epoch": 0, "lease_ms": 9}));
    for body in [&longer, &wrong] {
        ask(desk, checker, "/v1/callbacks/{id}/extend", &first, body).await;
    }
    for body in [&old, &right] {
        ask(desk, checker, "/v1/callbacks/{id}/start_dialling", &first, body).await;
    }
    ask(desk, checker, "/v1/callbacks/{id}/cancel", &first, &Value::Null).await; // it rings
    ask(desk, checker, "/v1/callbacks/{id}/resolve", &first, &json!({"outcome": "failed"})).await;
    ask(desk, checker, "/v1/callbacks/{id}/replay", &first, &json!({})).await; // not dead
    let early = json!({"epoch": 1, "outcome": "connected"});
    ask(desk, checker, "/v1/callbacks/{id}/settle", second, &early).await; // it does not ring yet
    let failed = json!({"epoch": 1, "outcome": "failed"});
    ask(desk, checker, "/v1/callbacks/{id}/settle", second, &failed).await;
    let third = desk.create("+15555550104").await;
    ask(desk, checker, "/v1/callbacks/{id}/replay", second, &json!({})).await; // no unit is left
    let third = third["id"].as_str().unwrap();
    ask(desk, checker, "/v1/callbacks/{id}/cancel", third, &Value::Null).await;
    ask(desk, checker, "/v1/callbacks/{id}/replay", second, &json!({})).await;
    unknown_dial(desk, checker, &first).await;
}

/// The worker vanished while it rang; then somebody knows.
async fn unknown_dial(desk: &Desk, checker: &mut Checker, id: &str) {
    let promises = desk.rig.service().promises().unwrap().clone();
    let store = promises.store();
    // As time does it, an hour later.
    store.sweep(unix_ms() + 3_600_000).await.unwrap();
    let outcome = json!({"outcome": "no_answer"});
    let resolved = ask(desk, checker, "/v1/callbacks/{id}/resolve", id, &outcome).await;
    assert_eq!(resolved["state"], "no_answer", "{resolved:#}");
}

async fn handoffs(desk: &Desk, checker: &mut Checker) {
    let promises = desk.rig.service().promises().unwrap().clone();
    let mut ids = Vec::new();
    let mut callers = Vec::new();
    for call in ["call-1", "call-2"] {
        let version = promises.version();
        callers.push(handoffs::caller(&promises, call, ""));
        promises.wait_for_change(version, LIMIT).await;
        let list = ask(desk, checker, "/v1/handoffs", "", &Value::Null).await;
        let found = list["handoffs"].as_array().unwrap().iter().find(|one| one["call"] == call);
        ids.push(found.expect("it is on record")["id"].as_str().unwrap().to_owned());
    }
    let (taken, busy) = (&ids[0], &ids[1]);
    ask(desk, checker, "/v1/handoffs/{id}", taken, &Value::Null).await;
    ask(desk, checker, "/v1/handoffs/{id}/connected", taken, &Value::Null).await; // too early
    for _ in 0..2 {
        let by = json!({"by": "Ada"});
        ask(desk, checker, "/v1/handoffs/{id}/acknowledge", taken, &by).await;
    }
    ask(desk, checker, "/v1/handoffs/{id}/connected", taken, &Value::Null).await;
    for _ in 0..2 {
        let outcome = json!({"outcome": "busy"});
        ask(desk, checker, "/v1/handoffs/{id}/end", busy, &outcome).await;
    }
}
