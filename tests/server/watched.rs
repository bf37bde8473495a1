//! What watches the gates of a running server: evidence, pressure, shadows, trials, decisions, and
//! an operator.

use std::io::BufReader;

use floorkeeper::admission::gate::Pressure;
use floorkeeper::cli::replay::replay;
use floorkeeper::id::Stage;
use floorkeeper::provider::llm::Llm;
use floorkeeper::runtime::change::Change;
use serde_json::{Value, json};

use crate::client::Client;
use crate::http::{self, Answer};
use crate::providers::{Breaks, Counted};
use crate::rig::{Rig, eventually};

async fn gate(rig: &Rig, name: &str) -> Value {
    rig.get(&format!("/v1/admission/{name}")).await.json()
}

async fn send(rig: &Rig, method: &str, path: &str, body: Value) -> Answer {
    http::ask(rig.serving.address, method, path, &[], &body.to_string()).await
}

/// A turn that no unit is free for.
async fn refused_turn(client: &mut Client) {
    client.ask("Are you there?").await;
    assert_eq!(client.answered().await["status"], "failed");
}

/// DESIGN section 3, A-024: while turns of accepted calls are refused, new calls wait; when that is
/// over they get in.
#[tokio::test]
async fn new_calls_give_way_to_the_turns_of_accepted_ones() {
    let rig = Rig::start(&["limits.model.slots=2", "limits.call.max_wait_ms=60000"]).await;
    let mut client = Client::connect(&rig).await;
    let hold = "/v1/admission/model/hold";
    rig.put(hold, &json!({"units": "all", "max_s": 60})).await;
    assert_eq!(rig.counts(Stage::Call).pressure, Pressure::Open, "full is not refused");
    refused_turn(&mut client).await;
    eventually("the call gate hears of it", || match rig.counts(Stage::Call).pressure {
        Pressure::Queue => Ok(()),
        other => Err(format!("it is {other:?}")),
    })
    .await;
    assert_eq!(gate(&rig, "call").await["live"]["pressure"], "queue");
    let mut parked = http::knock(rig.serving.address, &[]).await;
    eventually("a new call is parked", || match rig.counts(Stage::Call).queued {
        1 => Ok(()),
        other => Err(format!("{other} are")),
    })
    .await;
    let counts = rig.counts(Stage::Call);
    assert_eq!(counts.held_back, 1, "C-047: it waits for the stages, not for a place");
    send(&rig, "DELETE", hold, json!(null)).await;
    assert_eq!(http::answer(&mut parked).await.status, 101, "calm lets it in");
    drop(parked);
    client.hang_up().await;
    rig.quiet().await;
}

/// The same with nowhere to wait; and a server that does not listen.
#[tokio::test]
async fn without_a_queue_a_new_call_is_told_of_the_pressure() {
    let rig = Rig::start(&["limits.model.slots=1", "limits.call.queue=0"]).await;
    let mut client = Client::connect(&rig).await;
    rig.put("/v1/admission/model/hold", &json!({})).await;
    refused_turn(&mut client).await;
    eventually("the call gate hears of it", || match rig.counts(Stage::Call).pressure {
        Pressure::Open => Err("it has not".to_owned()),
        Pressure::Queue | Pressure::Refuse => Ok(()),
    })
    .await;
    let answer = http::knocked(rig.serving.address, &[]).await;
    assert_eq!((answer.status, answer.code().as_str()), (429, "admission_capacity"));
    assert_eq!(answer.header("x-floorkeeper-admission-reason"), Some("upstream_pressure"));
    client.hang_up().await;
}

/// B-045, B-051, B-056: a backend that refuses cuts the ceiling; switching adaptation off gives all
/// of it back at once.
#[tokio::test]
async fn a_backend_that_refuses_cuts_an_adaptive_ceiling() {
    let settings = ["limits.model.slots=10", "limits.model.adaptive=true", "llm.fail=\"429\""];
    let rig = Rig::start(&settings).await;
    let mut client = Client::connect(&rig).await;
    client.ask("Are you there?").await;
    assert_ne!(client.answered().await["status"], "completed");
    eventually("the ceiling is cut", || match rig.counts(Stage::Model).in_force {
        Some(8) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    let shown = gate(&rig, "model").await;
    assert_eq!(shown["adaptive"]["state"], "tightened", "{shown:#}");
    assert_eq!(shown["adaptive"]["ceiling"], 8);
    assert_eq!(shown["live"]["ceiling"], 8);
    let metrics = rig.get("/metrics").await.text();
    let state = "floorkeeper_admission_adapt_state{gate=\"model\",state=\"tightened\"} 1";
    assert!(metrics.contains(state), "B-090: {metrics}");
    let shown = rig.patch("model", "{\"adaptive\": false}").await.json();
    assert_eq!(shown["live"]["ceiling"], 10, "{shown:#}");
    assert_eq!(shown["adaptive"]["state"], "off");
    client.hang_up().await;
    rig.quiet().await;
}

/// a change that makes things worse is undone by itself, and is declared no longer.
#[tokio::test]
async fn a_change_on_trial_is_undone_when_it_makes_things_worse() {
    let rig = Rig::start(&["limits.model.slots=4"]).await;
    let change = json!({"slots": 0, "rollback": {"refused_pct": 10, "at_least": 2}});
    let shown = rig.patch("model", &change.to_string()).await.json();
    assert_eq!(shown["trial"], json!({"state": "running"}), "{shown:#}");
    assert_eq!(
        (&shown["effective"]["slots"], &shown["source"]["slots"]),
        (&json!(0), &json!("runtime"))
    );
    let mut client = Client::connect(&rig).await;
    for _ in 0..2 {
        refused_turn(&mut client).await;
    }
    eventually("it is undone", || match rig.counts(Stage::Model).in_force {
        Some(4) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    let undone = json!({"state": "undone", "measure": "refused_pct", "seen": 100, "limit": 10});
    let shown = gate(&rig, "model").await;
    assert_eq!(shown["trial"], undone, "{shown:#}");
    assert_eq!(shown["declared"], json!({"slots": 4}), "{shown:#}");
    assert_eq!(
        (&shown["effective"]["slots"], &shown["source"]["slots"]),
        (&json!(4), &json!("set"))
    );
    let shown = rig.patch("model", "{\"queue\": 1}").await.json();
    assert_eq!(shown["declared"], json!({"slots": 4, "queue": 1}), "what was undone stays undone");
    assert_eq!(rig.counts(Stage::Model).in_force, Some(4));
    client.ask("And now?").await;
    assert_eq!(client.answered().await["status"], "completed");
    client.hang_up().await;
    rig.quiet().await;
}

/// A change that comes right behind an undoing, before anybody has looked, builds on what is in
/// force.
#[tokio::test]
async fn a_change_behind_an_undone_one_brings_nothing_back() {
    let rig = Rig::start(&["limits.model.slots=4"]).await;
    let service = rig.service();
    let change = |body: Value| Change::parse(&body).unwrap();
    let trial =
        json!({"slots": 0, "rollback": {"cleanup_pending": 0, "refused_pct": 0, "at_least": 1}});
    service.changes.apply(service, Stage::Model, change(trial)).unwrap();
    let mut client = Client::connect(&rig).await;
    refused_turn(&mut client).await;
    service.gates.expire(Stage::Model);
    assert_eq!(rig.counts(Stage::Model).in_force, Some(4), "undone at the gate");
    service.changes.apply(service, Stage::Model, change(json!({"queue": 1}))).unwrap();
    assert_eq!(rig.counts(Stage::Model).in_force, Some(4));
    assert!(!service.changes.declared(Stage::Model).contains_key("slots"));
    client.hang_up().await;
    rig.quiet().await;
}

/// What is wrong with a rollback criterion is said, and nothing changes.
#[tokio::test]
async fn a_wrong_criterion_changes_nothing() {
    let rig = Rig::start(&["limits.model.slots=4"]).await;
    let wrong = [
        (json!({"slots": 2, "rollback": 5}), "rollback"),
        (json!({"slots": 2, "rollback": {}}), "rollback"),
        (json!({"slots": 2, "rollback": {"window_ms": 1000}}), "rollback"),
        (json!({"slots": 2, "rollback": {"refused": 5}}), "rollback.refused"),
        (json!({"slots": 2, "rollback": {"refused_pct": 101}}), "rollback.refused_pct"),
        (json!({"slots": 2, "rollback": {"refused_pct": -1}}), "rollback.refused_pct"),
        (json!({"slots": 2, "rollback": {"refused_pct": 1.5}}), "rollback.refused_pct"),
        (json!({"slots": 2, "rollback": {"refused_pct": 5, "window_ms": 0}}), "rollback.window_ms"),
        (json!({"rollback": {"refused_pct": 5}}), "rollback"),
    ];
    for (body, param) in wrong {
        let answer = rig.patch("model", &body.to_string()).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_limit"), "{body}");
        assert_eq!(answer.json()["error"]["param"], param, "{body}: {answer:?}");
    }
    assert_eq!(rig.counts(Stage::Model).in_force, Some(4));
}

/// A shadow is fed the same offers: it says what fewer slots would have refused and what a queue
/// would have made people wait, and changes nothing.
#[tokio::test]
async fn a_shadow_says_what_other_limits_would_have_done() {
    let rig = Rig::start(&["limits.model.slots=4", "llm.first_token_ms=300"]).await;
    let path = "/v1/admission/model/shadow";
    let wrong = send(&rig, "PUT", path, json!({"slotz": 1})).await;
    assert_eq!((wrong.status, wrong.code().as_str()), (400, "invalid_limit"));
    let shown = send(&rig, "PUT", path, json!({"slots": 1})).await.json();
    assert_eq!((&shown["limits"]["slots"], &shown["limits"]["queue"]), (&json!(1), &json!(0)));
    send(&rig, "PUT", path, json!({"slots": 1, "queue": 4})).await;
    let (mut first, mut second) = (Client::connect(&rig).await, Client::connect(&rig).await);
    first.ask("One?").await;
    first.until("response.created").await;
    second.ask("Two?").await;
    assert_eq!(first.answered().await["status"], "completed");
    assert_eq!(second.answered().await["status"], "completed", "nobody was refused in truth");
    let shadows = gate(&rig, "model").await["shadows"].clone();
    assert_eq!(shadows[0]["account"]["refused_by_reason"], json!({"overloaded{no_queue}": 1}));
    assert_eq!(shadows[1]["account"]["refused"], 0, "{shadows:#}");
    eventually("the second waited in the queue", || {
        let report = rig
            .serving
            .service
            .gates
            .see(Stage::Model, |seen| seen.gate.shadow_reports()[1].waits.clone());
        let waits = report.unwrap();
        (waits.count() == 2 && waits.max_ms() > 0).then_some(()).ok_or(format!("{waits:?}"))
    })
    .await;
    let gone = send(&rig, "DELETE", path, json!(null)).await.json();
    assert_eq!(gone["shadows"], json!([]));
    first.hang_up().await;
    second.hang_up().await;
    rig.quiet().await;
}

/// The decision log of a running server replays without a difference, from the API and from the
/// file; a line that was changed is found.
#[tokio::test]
async fn the_decisions_of_a_server_replay_byte_for_byte() {
    let folder = std::env::temp_dir().join(format!("floorkeeper-decisions-{}", std::process::id()));
    let dir = format!("admission.log_dir=\"{}\"", folder.display());
    let settings = ["limits.model.slots=1", "limits.model.queue=2", dir.as_str()];
    let rig = Rig::start(&settings).await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(Client::connect(&rig).await);
    }
    for client in &mut clients {
        client.ask("Are you there?").await;
    }
    rig.patch("model", "{\"slots\": 3, \"queue\": 0}").await;
    for mut client in clients {
        client.answered().await;
        client.hang_up().await;
    }
    rig.quiet().await;
    let served = rig.get("/v1/admission/model/log").await.text();
    let report = replay(BufReader::new(served.as_bytes())).unwrap();
    assert!(report.operations > 12 && report.mismatches.is_empty(), "{report:?}");
    let lines = served.lines().count() as u64;
    let later = rig.get(&format!("/v1/admission/model/log?since={}", lines - 3)).await.text();
    assert_eq!(later.lines().count(), 2, "{later}");
    let (service, serving) = (rig.serving.service.clone(), rig.serving);
    serving.stop().await;
    for stage in ["call", "model", "synthesis"] {
        let file = folder.join(format!("{}-{stage}.jsonl", service.incarnation));
        let text = std::fs::read_to_string(&file).unwrap();
        let report = replay(BufReader::new(text.as_bytes())).unwrap();
        assert!(report.operations > 8 && report.mismatches.is_empty(), "{stage}: {report:?}");
        let wrong = text.replacen("\"said\":\"admitted\"", "\"said\":\"queued\"", 1);
        let report = replay(BufReader::new(wrong.as_bytes())).unwrap();
        assert_eq!(report.mismatches.len(), 1, "{stage}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// what a broken provider left in quarantine is listed, shrinks the ceiling, and an
/// operator gives it back, once.
#[tokio::test]
async fn an_operator_gives_back_what_nobody_knows_about() {
    let rig = Rig::with(&["limits.model.slots=2"], |b| {
        b.llm = Counted::<dyn Llm>::breaking(b.llm.clone(), Breaks::WhileItRuns);
    })
    .await;
    let mut client = Client::connect(&rig).await;
    client.ask("Are you there?").await;
    assert_ne!(client.answered().await["status"], "completed");
    let shown = gate(&rig, "model").await;
    assert_eq!(shown["live"]["ceiling"], 1, "{shown:#}");
    let kept = &shown["inventory"]["shown"][0];
    assert_eq!((&kept["place"], &kept["unknown"]), (&json!("quarantined"), &json!("dropped")));
    let path = "/v1/admission/model/reclaim";
    let wrong = [
        (json!({}), 400, "invalid_body"),
        (json!({"offer": "first"}), 400, "invalid_body"),
        (json!({"offer": kept["offer"], "evidence": "hope"}), 400, "invalid_evidence"),
        (json!({"offer": 999_999}), 404, "unknown_offer"),
    ];
    for (body, status, code) in wrong {
        let answer = send(&rig, "POST", path, body.clone()).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{body}");
    }
    let right = json!({"offer": kept["offer"], "evidence": "worker_replaced"});
    let answer = send(&rig, "POST", path, right.clone()).await;
    assert_eq!((answer.status, &answer.json()["ended"]), (200, &json!("failed")), "{answer:?}");
    let again = send(&rig, "POST", path, right).await;
    assert_eq!((again.status, again.code().as_str()), (409, "already_released"));
    assert_eq!(gate(&rig, "model").await["live"]["ceiling"], 2);
    assert_eq!(rig.ledger("model").await["released_on"]["worker_replaced"], 1);
    client.hang_up().await;
    rig.quiet().await;
}

/// B-010: what passes no gate is counted by what it is.
#[tokio::test]
async fn what_passes_no_gate_is_counted() {
    let rig = Rig::start(&["limits.model.slots=0"]).await;
    for path in ["/healthz", "/readyz", "/metrics", "/v1/ledger", "/"] {
        rig.get(path).await;
    }
    // The callback gate decides about what is asked for, and about nothing else there.
    send(&rig, "POST", "/v1/callbacks", json!({})).await;
    send(&rig, "POST", "/v1/callbacks/cb_1/replay", json!({})).await;
    send(&rig, "POST", "/v1/callbacks/claim", json!({})).await;
    rig.get("/v1/callbacks").await;
    // So does the call gate about streams and their webhook.
    rig.get("/v1/vonage").await;
    send(&rig, "POST", "/v1/twilio/voice", json!({})).await;
    let mut client = Client::connect(&rig).await;
    refused_turn(&mut client).await;
    let shown = rig.get("/v1/admission").await.json();
    let counted = json!({
        "health": 2, "metrics": 1, "control": 4, "page": 1, "prompt": 1, "end_of_turn": 0,
    });
    assert_eq!(shown["bypasses"], counted);
    client.hang_up().await;
    rig.quiet().await;
}

/// B-078…B-080: admitted calls carry the three headers when that is switched on, and not in an off
/// gate.
#[tokio::test]
async fn admitted_calls_tell_the_gates_counts_when_asked_to() {
    let name = |name| format!("x-floorkeeper-admission-{name}");
    let rig = Rig::start(&["admission.expose_headers=true", "limits.call.slots=3"]).await;
    let told = http::knocked(rig.serving.address, &[]).await;
    let counts = ["inflight", "queued", "limit"].map(|n| told.header(&name(n)).map(str::to_owned));
    assert_eq!(counts, ["1", "0", "3"].map(|count| Some(count.to_owned())), "this one counted");
    rig.patch("call", "{\"mode\": \"off\"}").await;
    let told = http::knocked(rig.serving.address, &[]).await;
    assert_eq!((told.status, told.header(&name("limit"))), (101, None));
    let silent = Rig::start(&[]).await;
    assert_eq!(http::knocked(silent.serving.address, &[]).await.header(&name("limit")), None);
}

/// a drain may let those in who wait already; nobody new.
#[tokio::test]
async fn a_drain_can_finish_the_queue() {
    let limits = ["limits.call.slots=1", "limits.call.queue=2", "limits.call.max_wait_ms=60000"];
    let rig = Rig::start(&limits).await;
    let client = Client::connect(&rig).await;
    let mut parked = http::knock(rig.serving.address, &[]).await;
    eventually("it is parked", || match rig.counts(Stage::Call).queued {
        1 => Ok(()),
        other => Err(format!("{other} are")),
    })
    .await;
    let wrong = rig.put("/v1/drain", &json!({"enabled": true, "queue": "drop"})).await;
    assert_eq!((wrong.status, wrong.code().as_str()), (400, "invalid_body"));
    assert_eq!(rig.get("/v1/drain").await.json()["refusing_new"], false);
    rig.put("/v1/drain", &json!({"enabled": true, "queue": "finish_queue"})).await;
    assert_eq!(http::knocked(rig.serving.address, &[]).await.code(), "draining");
    client.hang_up().await;
    assert_eq!(http::answer(&mut parked).await.status, 101, "who waited is let in");
    drop(parked);
    rig.quiet().await;
}
