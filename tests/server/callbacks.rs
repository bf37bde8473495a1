//! Callbacks over HTTP: asked for, claimed, dialled, settled, and what is refused (issue 5).

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use floorkeeper::id::Stage;
use floorkeeper::runtime::promises::{self, unix_ms};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::http::{self, Answer};
use crate::rig::{Rig, eventually};

/// A request that nothing has come of by then was left before it was read.
const HEARD_MAX: Duration = Duration::from_millis(500);

/// A server with a store of its own, whose folder goes with it.
pub struct Desk {
    pub rig: Rig,
    pub folder: PathBuf,
    /// Sent with every request; empty for none.
    pub key: String,
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder); // the next build's folder is cleaned with it
    }
}

impl Desk {
    pub async fn open(settings: &[&str]) -> Desk {
        let desk = Desk::without_store(settings).await;
        promises::open(&desk.rig.serving.service).await.unwrap_or_else(|e| panic!("{e}"));
        desk
    }

    pub async fn without_store(settings: &[&str]) -> Desk {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("desk-{}-{number}", std::process::id());
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let path = format!("store.path={:?}", folder.join("callbacks.db"));
        let keys = folder.join("keys.txt");
        let keyed = format!("auth.keys_file={keys:?}");
        let mut settings: Vec<&str> = settings.iter().copied().chain([path.as_str()]).collect();
        if settings.contains(&"with keys") {
            std::fs::write(&keys, "key-of-ada ada\nkey-of-bob bob\nkey-of-all\n").unwrap();
            settings.retain(|setting| *setting != "with keys");
            settings.push(&keyed);
        }
        Desk { rig: Rig::start(&settings).await, folder, key: String::new() }
    }

    pub async fn ask(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.ask_with(method, path, &[], body).await
    }

    pub async fn ask_with(
        &self,
        method: &str,
        path: &str,
        more: &[(&str, &str)],
        body: &Value,
    ) -> Answer {
        let bearer = format!("Bearer {}", self.key);
        let mut headers = more.to_vec();
        if !self.key.is_empty() {
            headers.push(("Authorization", &bearer));
        }
        let body = if body.is_null() { String::new() } else { body.to_string() };
        http::ask(self.rig.serving.address, method, path, &headers, &body).await
    }

    /// Asks, and leaves without waiting for the answer, until something comes of it: who leaves
    /// before they were read has asked nothing.
    pub async fn ask_and_leave(&self, path: &str, body: &Value) {
        let (to, body) = (self.rig.serving.address, body.to_string());
        let head = format!("POST {path} HTTP/1.1\r\nHost: {to}\r\n");
        let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        let promises = self.rig.service().promises().unwrap().clone();
        let version = promises.version();
        while promises.version() == version {
            let mut stream = TcpStream::connect(to).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            drop(stream);
            promises.wait_for_change(version, HEARD_MAX).await;
        }
    }

    pub async fn get(&self, path: &str) -> Value {
        let answer = self.ask("GET", path, &Value::Null).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    async fn post(&self, id: &Value, what: &str, body: Value) -> Answer {
        let path = format!("/v1/callbacks/{}/{what}", id.as_str().unwrap());
        self.ask("POST", &path, &body).await
    }

    /// Asks for one that is taken.
    pub async fn create(&self, destination: &str) -> Value {
        let answer = self.ask("POST", "/v1/callbacks", &wanted(destination)).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()
    }

    /// Claims exactly one.
    pub async fn claim(&self) -> Value {
        let body = json!({"worker": "tests", "lease_ms": 60_000});
        let answer = self.ask("POST", "/v1/callbacks/claim", &body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let claimed = answer.json()["callbacks"].as_array().unwrap().clone();
        assert_eq!(claimed.len(), 1, "{claimed:#?}");
        claimed[0].clone()
    }

    async fn states(&self) -> Vec<String> {
        let list = self.get("/v1/callbacks").await;
        let states = list["callbacks"].as_array().unwrap().iter().map(|one| &one["state"]);
        states.map(|state| state.as_str().unwrap().to_owned()).collect()
    }
}

pub fn wanted(destination: &str) -> Value {
    json!({
        "destination": destination,
        "why": "overloaded",
        "language": "en",
        "consent": {"asked": "Shall we ring you back?", "said": "Yes please."},
    })
}

fn refused(answer: &Answer, status: u16, code: &str) -> Value {
    assert_eq!((answer.status, answer.code().as_str()), (status, code), "{answer:?}");
    answer.json()
}

/// Issue 5: created, listed, claimed, extended, dialled, settled; the epoch fences.
#[tokio::test]
async fn a_callback_goes_through_its_life_over_http() {
    let desk = Desk::open(&[]).await;
    let made = desk.create("+1 (555) 555-0100").await;
    assert_eq!((&made["destination"], &made["state"]), (&json!("+15555550100"), &json!("due")));
    assert_eq!(desk.rig.counts(Stage::Callback).active, 1, "its unit is held");
    let id = &made["id"];
    assert_eq!(desk.get(&format!("/v1/callbacks/{}", id.as_str().unwrap())).await, made);
    let list = desk.get("/v1/callbacks?state=due&limit=5").await;
    assert_eq!((&list["callbacks"][0], &list["counts"]["open"]), (&made, &json!(1)));
    assert_eq!(desk.get("/v1/callbacks?state=claimed").await["callbacks"], json!([]));

    let claimed = desk.claim().await;
    let epoch = claimed["epoch"].as_u64().unwrap();
    assert_eq!((&claimed["state"], &claimed["worker"]), (&json!("claimed"), &json!("tests")));
    let longer = json!({"epoch": epoch, "lease_ms": 120_000});
    let extended = desk.post(id, "extend", longer).await.json();
    assert!(extended["lease_until_ms"].as_u64() > claimed["lease_until_ms"].as_u64());
    let old = json!({"epoch": epoch - 1});
    let stale = refused(&desk.post(id, "start_dialling", old).await, 409, "stale_epoch");
    assert_eq!(stale["epoch"], epoch, "it says which one holds");
    let early = json!({"epoch": epoch, "outcome": "connected"});
    let early = refused(&desk.post(id, "settle", early).await, 409, "wrong_state");
    assert_eq!(early["state"], "claimed");
    let dialling = desk.post(id, "start_dialling", json!({"epoch": epoch})).await.json();
    assert_eq!((&dialling["state"], &dialling["attempts"]), (&json!("dialling"), &json!(1)));
    refused(&desk.ask("POST", &path(id, "cancel"), &Value::Null).await, 409, "wrong_state");
    let settled = json!({"epoch": epoch, "outcome": "no_answer", "detail": "rang for 30 s"});
    let settled = desk.post(id, "settle", settled).await.json();
    assert_eq!((&settled["state"], &settled["attempts"]), (&json!("accepted"), &json!(1)));
    let twice = json!({"epoch": epoch, "outcome": "no_answer"});
    refused(&desk.post(id, "settle", twice).await, 409, "stale_epoch");
    let cancelled = desk.ask("POST", &path(id, "cancel"), &Value::Null).await.json();
    assert_eq!(cancelled["state"], "cancelled");
    assert_eq!(desk.rig.counts(Stage::Callback).active, 0, "the promise has ended");
    let ledger = desk.get("/v1/ledger").await;
    assert_eq!(ledger["balances"], true, "{ledger:#}");
    let own = &ledger["callbacks"];
    assert_eq!((&own["accepted"], &own["open"]), (&json!(1), &json!(0)), "{own:#}");
    assert_eq!(own["ended_by_state"], json!({"cancelled": 1}));
}

pub fn path(id: &Value, what: &str) -> String {
    format!("/v1/callbacks/{}/{what}", id.as_str().unwrap())
}

/// C-040: the same key for the same request is the same answer; for another it is refused.
#[tokio::test]
async fn a_key_makes_a_request_once() {
    let desk = Desk::open(&[]).await;
    let key = [("Idempotency-Key", "order-7")];
    let ask = async |body: &Value| desk.ask_with("POST", "/v1/callbacks", &key, body).await;
    let first = ask(&wanted("+15555550100")).await;
    let again = ask(&wanted("+15555550100")).await;
    assert_eq!((first.status, again.status), (201, 200));
    assert_eq!(first.json(), again.json());
    let reused = refused(&ask(&wanted("+15555550101")).await, 422, "key_reused");
    assert_eq!(reused["existing"], first.json()["id"]);
    // Without the key the destination tells that it is promised already.
    let other = desk.ask("POST", "/v1/callbacks", &wanted("+15555550100")).await;
    assert_eq!(refused(&other, 409, "duplicate")["existing"], first.json()["id"]);
    assert_eq!(desk.states().await, ["due"]);
    assert_eq!(desk.rig.counts(Stage::Callback).active, 1, "one promise, one unit");
    let bad = [("Idempotency-Key", " ")];
    let bad = desk.ask_with("POST", "/v1/callbacks", &bad, &wanted("+15555550102")).await;
    refused(&bad, 400, "invalid_idempotency_key");
}

/// C-040: whoever asks again hears that it is on record, whether or not there is room for another.
#[tokio::test]
async fn a_key_is_answered_although_the_gate_is_full() {
    let desk = Desk::open(&["limits.callback.slots=1"]).await;
    let key = [("Idempotency-Key", "order-7")];
    let ask = async |body: &Value| desk.ask_with("POST", "/v1/callbacks", &key, body).await;
    let first = ask(&wanted("+15555550100")).await;
    assert_eq!(first.status, 201, "{first:?}");
    let other = desk.ask("POST", "/v1/callbacks", &wanted("+15555550101")).await;
    assert_eq!(other.status, 429, "{other:?}");
    let again = ask(&wanted("+15555550100")).await;
    assert_eq!((again.status, again.json()), (200, first.json()));
    refused(&ask(&wanted("+15555550101")).await, 422, "key_reused");
}

/// A client that leaves in the middle of a request: what is on record has its consequences.
#[tokio::test]
async fn whoever_leaves_early_cuts_nothing_off() {
    let desk = Desk::open(&[]).await;
    let held = async |many: u64| {
        let look = || match desk.rig.counts(Stage::Callback).active {
            active if active == many => Ok(()),
            active => Err(format!("{active} are held")),
        };
        eventually("the units of what is on record are held", look).await;
    };
    for number in 0..20 {
        desk.ask_and_leave("/v1/callbacks", &wanted(&format!("+155555501{number:02}"))).await;
        let list = desk.get("/v1/callbacks?state=due").await;
        let made = list["callbacks"][0].clone();
        held(1).await;
        desk.ask_and_leave(&path(&made["id"], "cancel"), &Value::Null).await;
        held(0).await;
    }
}

/// Issue 5, *bad input*: a JSON error with a stable code and the right status; nothing is kept.
#[tokio::test]
async fn what_is_wrong_is_said_and_not_kept() {
    let desk = Desk::open(&[]).await;
    let with = |field: &str, value: Value| {
        let mut body = wanted("+15555550100");
        body[field] = value;
        body
    };
    let without_consent = json!({"destination": "+15555550100"});
    let silent = json!({"asked": "Shall we?", "said": ""});
    let day_ms = 24 * 3_600_000;
    for (body, status, code, param) in [
        (with("destination", json!("5550100")), 400, "bad_request", "destination"),
        (with("destination", json!("sip:nobody")), 400, "bad_request", "destination"),
        (with("destination", json!(5)), 400, "invalid_body", ""),
        (without_consent, 400, "invalid_body", "consent"),
        (with("consent", silent), 400, "bad_request", "consent.said"),
        (with("expires_ms", json!(unix_ms() + 30 * day_ms)), 400, "bad_request", "expires_ms"),
        (with("attempts_max", json!(0)), 409, "attempts_spent", ""),
        (with("attempts_max", json!(99)), 400, "bad_request", "attempts_max"),
        (with("why", json!("x".repeat(5_000))), 400, "bad_request", "why"),
        (with("tenant", json!("a\0b")), 400, "bad_request", "tenant"),
        (with("destinations", json!("+15555550100")), 400, "invalid_body", "destinations"),
        (with("expires_ms", json!(5)), 409, "expired", ""),
        (with("not_before_ms", json!(unix_ms() + 2 * day_ms)), 409, "no_time_left", ""),
    ] {
        let answer = desk.ask("POST", "/v1/callbacks", &body).await;
        let told = refused(&answer, status, code);
        if !param.is_empty() {
            assert_eq!(told["error"]["param"], param, "{told:#}");
        }
    }
    let large = desk.ask("POST", "/v1/callbacks", &with("why", json!("x".repeat(70_000)))).await;
    refused(&large, 413, "body_too_large");
    let address = desk.rig.serving.address;
    let cut = http::ask(address, "POST", "/v1/callbacks", &[], "{\"destination\"").await;
    refused(&cut, 400, "invalid_json");
    let claim = |lease_ms: u64, max: u64| json!({"worker": "w", "lease_ms": lease_ms, "max": max});
    for body in [claim(0, 1), claim(u64::MAX, 1), claim(1_000, 0), claim(1_000, 501)] {
        refused(&desk.ask("POST", "/v1/callbacks/claim", &body).await, 400, "bad_request");
    }
    for wrong in ["state=done", "after=7", "limit=many", "status=due", "tenant=%00"] {
        let answer = desk.ask("GET", &format!("/v1/callbacks?{wrong}"), &Value::Null).await;
        assert_eq!(answer.status, 400, "{wrong}: {answer:?}");
    }
    for name in ["cb_5", "cb_00000000000000000000000000000000", "ho_5"] {
        let answer = desk.ask("GET", &format!("/v1/callbacks/{name}"), &Value::Null).await;
        refused(&answer, 404, "not_found");
    }
    assert_eq!(desk.states().await, [""; 0]);
    assert_eq!(desk.rig.counts(Stage::Callback).active, 0, "refusals hold nothing");
    assert_eq!(desk.get("/v1/ledger").await["balances"], true);
}

/// A tenant sees, changes and asks for its own only; what is about everybody's is the operator's.
#[tokio::test]
async fn tenants_are_kept_apart() {
    let mut desk = Desk::open(&["with keys"]).await;
    desk.key = "key-of-bob".to_owned();
    let bobs = desk.create("+15555550100").await;
    assert_eq!((&bobs["tenant"], &bobs["authorisation"]), (&json!("bob"), &json!("api:bob")));
    desk.key = "key-of-ada".to_owned();
    let adas = desk.create("+15555550101").await;
    let list = desk.get("/v1/callbacks").await;
    assert_eq!((&list["callbacks"], &list["counts"]), (&json!([adas]), &Value::Null));
    for what in ["cancel", "replay"] {
        let answer = desk.ask("POST", &path(&bobs["id"], what), &json!({})).await;
        refused(&answer, 404, "not_found");
    }
    let epoch = json!({"epoch": 0});
    refused(&desk.post(&bobs["id"], "start_dialling", epoch).await, 404, "not_found");
    let claim = json!({"worker": "ada", "lease_ms": 1_000});
    let claim = desk.ask("POST", "/v1/callbacks/claim", &claim).await;
    refused(&claim, 403, "operator_only");
    let mut for_bob = wanted("+15555550102");
    for_bob["tenant"] = json!("bob");
    refused(&desk.ask("POST", "/v1/callbacks", &for_bob).await, 403, "operator_only");
    let peek = desk.ask("GET", "/v1/callbacks?tenant=bob", &Value::Null).await;
    refused(&peek, 403, "operator_only");
    desk.key = "key-of-all".to_owned();
    let all = desk.get("/v1/callbacks").await;
    assert_eq!(all["callbacks"], json!([bobs, adas]), "in the order of their acceptance");
    assert_eq!(desk.get("/v1/callbacks?tenant=bob").await["callbacks"], json!([bobs]));
    desk.key = "key-of-nobody".to_owned();
    let unknown = desk.ask("GET", "/v1/callbacks", &Value::Null).await;
    refused(&unknown, 401, "invalid_api_key");
    // A client secret opens sessions; callers' numbers are not for a page to see.
    desk.key = "key-of-ada".to_owned();
    let minted = desk.ask("POST", "/v1/realtime/client_secrets", &json!({})).await.json();
    desk.key = minted["value"].as_str().unwrap().to_owned();
    let page = desk.ask("GET", "/v1/callbacks", &Value::Null).await;
    refused(&page, 403, "key_not_allowed");
}

/// an offer over HTTP passes the gate that calls' offers pass.
#[tokio::test]
async fn a_full_gate_refuses_and_comes_back() {
    let desk = Desk::open(&["limits.callback.slots=1"]).await;
    let first = desk.create("+15555550100").await;
    let full = desk.ask("POST", "/v1/callbacks", &wanted("+15555550101")).await;
    assert_eq!(full.status, 429, "{full:?}");
    let seconds: u64 = full.header("retry-after").expect("a Retry-After").parse().unwrap();
    assert!((1..=30).contains(&seconds), "{seconds}");
    assert_eq!(full.json()["gate"], "callback");
    assert_eq!(desk.states().await, ["due"]);
    desk.ask("POST", &path(&first["id"], "cancel"), &Value::Null).await;
    desk.create("+15555550101").await;
}

/// quiet hours are looked at once more when it is dialled; the attempt does not count.
#[tokio::test]
async fn it_is_not_dialled_in_quiet_hours() {
    let desk = Desk::open(&[]).await;
    let minute = unix_ms() / 60_000 % 1_440;
    let mut body = wanted("+15555550100");
    body["quiet"] = json!({
        "from_minute": (minute + 1_440 - 60) % 1_440,
        "to_minute": (minute + 60) % 1_440,
        "utc_offset_minutes": 0,
    });
    let made = desk.ask("POST", "/v1/callbacks", &body).await.json();
    let epoch = desk.claim().await["epoch"].clone();
    let answer = desk.post(&made["id"], "start_dialling", json!({"epoch": epoch})).await;
    let told = refused(&answer, 409, "not_dialled");
    assert_eq!(told["reason"], "quiet_hours");
    let kept = &told["callback"];
    assert_eq!((&kept["state"], &kept["attempts"]), (&json!("accepted"), &json!(0)), "{kept:#}");
    assert!(kept["due_ms"].as_u64().unwrap() > unix_ms(), "it waits for the morning");
}

/// C-044: a dead letter is replayed once, as a new offer.
#[tokio::test]
async fn a_dead_letter_is_replayed_once() {
    let desk = Desk::open(&[]).await;
    let mut body = wanted("+15555550100");
    body["attempts_max"] = json!(1);
    let made = desk.ask("POST", "/v1/callbacks", &body).await.json();
    refused(&desk.post(&made["id"], "replay", json!({})).await, 409, "not_dead");
    let epoch = desk.claim().await["epoch"].clone();
    let failed = json!({"epoch": epoch, "outcome": "failed", "detail": "no such number"});
    let failed = desk.post(&made["id"], "settle", failed).await.json();
    assert_eq!((&failed["state"], &failed["shelf"]), (&json!("failed"), &json!("dead")));
    let unknown = desk.post(&made["id"], "resolve", json!({"outcome": "connected"})).await;
    refused(&unknown, 409, "wrong_state");
    let again = desk.post(&made["id"], "replay", json!({})).await;
    assert_eq!(again.status, 201, "{again:?}");
    assert_eq!(again.json()["replays"], made["id"]);
    assert_ne!(again.json()["id"], made["id"]);
    refused(&desk.post(&made["id"], "replay", json!({})).await, 409, "not_dead");
    let kept = desk.get("/v1/callbacks?shelf=kept").await;
    assert_eq!(kept["callbacks"][0]["id"], made["id"], "it is history now");
    assert_eq!(desk.get("/v1/ledger").await["callbacks"]["replayed"], 1);
}

/// A store that cannot write says so, and nothing is promised; calls go on (issue 5).
#[tokio::test]
async fn a_sealed_store_is_told_everywhere() {
    let desk = Desk::open(&[]).await;
    let ready = desk.get("/readyz").await;
    assert_eq!((&ready["ready"], &ready["callbacks"]), (&json!(true), &json!("open")));
    let made = desk.create("+15555550100").await;
    let other = rusqlite::Connection::open(desk.folder.join("callbacks.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refusal = desk.ask("POST", &path(&made["id"], "cancel"), &Value::Null).await;
    assert_eq!(refused(&refusal, 503, "sealed")["sealed"], "locked");
    assert!(refusal.header("retry-after").is_some(), "it ends by itself");
    let ready = desk.get("/readyz").await;
    assert_eq!(ready["ready"], true, "calls are served all the same");
    assert_eq!(ready["callbacks"], "sealed: locked by another program");
    let metrics = desk.rig.get("/metrics").await.text();
    assert!(metrics.contains("floorkeeper_store_sealed 1"), "{metrics}");
    let offer = desk.ask("POST", "/v1/callbacks", &wanted("+15555550101")).await;
    assert_eq!(offer.status, 503, "{offer:?}");
    assert_eq!(desk.states().await, ["due"], "reads go on");
    other.execute_batch("ROLLBACK").unwrap();
    drop(other);
    let promises = desk.rig.service().promises().unwrap().clone();
    eventually("it opens again", || promises.sealed().map_or(Ok(()), Err)).await;
    let metrics = desk.rig.get("/metrics").await.text();
    assert!(metrics.contains("floorkeeper_store_sealed 0"), "{metrics}");
    assert!(metrics.contains("floorkeeper_callbacks{state=\"due\"} 1"), "{metrics}");
    assert!(metrics.contains("floorkeeper_handoffs_open{state=\"offered\"} 0"), "{metrics}");
}

#[tokio::test]
async fn without_a_store_nothing_is_promised() {
    let desk = Desk::without_store(&[]).await;
    assert_eq!(desk.get("/readyz").await["callbacks"], "none");
    let answer = desk.ask("POST", "/v1/callbacks", &wanted("+15555550100")).await;
    refused(&answer, 503, "no_store");
    refused(&desk.ask("GET", "/v1/handoffs", &Value::Null).await, 503, "no_store");
    assert_eq!(desk.get("/v1/ledger").await["callbacks"], Value::Null);
}

/// A list waits for what changes, and for no longer than was asked.
#[tokio::test]
async fn a_list_waits_for_a_change() {
    let desk = Desk::open(&[]).await;
    let version = desk.get("/v1/callbacks").await["version"].as_u64().unwrap();
    let waits = format!("/v1/callbacks?since={version}&wait_ms=20000");
    let (list, _) = tokio::join!(desk.get(&waits), desk.create("+15555550100"));
    assert!(list["version"].as_u64().unwrap() > version, "{list:#}");
    assert_eq!(list["callbacks"].as_array().unwrap().len(), 1);
}

/// Dialled from within: due ones are claimed, pass the call gate in their class, and are settled.
#[tokio::test]
async fn the_stub_dials_what_is_due() {
    let settings = ["callback.dialler=stub", "class.callback.rank=200"];
    let desk = Desk::open(&settings).await;
    let made = desk.create("+15555550100").await;
    let promises = desk.rig.service().promises().unwrap().clone();
    let path = format!("/v1/callbacks/{}", made["id"].as_str().unwrap());
    let ended = loop {
        let version = promises.version();
        let now = desk.get(&path).await;
        if now["state"] == "connected" {
            break now;
        }
        promises.wait_for_change(version, crate::rig::LIMIT).await;
    };
    assert_eq!((&ended["attempts"], &ended["detail"]), (&json!(1), &json!("stub")));
    let ledger = desk.rig.ledger("call").await;
    assert_eq!(ledger["classes"]["callback"]["offered"], 1, "{ledger:#}");
    assert_eq!(desk.rig.counts(Stage::Call).active, 0, "its slot came back");
}

/// Where calls have no room, a callback waits: no attempt is spent.
#[tokio::test]
async fn without_room_for_a_call_nothing_is_dialled() {
    let settings = ["callback.dialler=stub", "limits.call.slots=0", "limits.call.queue=0"];
    let desk = Desk::open(&settings).await;
    let made = desk.create("+15555550100").await;
    let promises = desk.rig.service().promises().unwrap().clone();
    let path = format!("/v1/callbacks/{}", made["id"].as_str().unwrap());
    let waiting = loop {
        let version = promises.version();
        let now = desk.get(&path).await;
        if now["detail"] == "no_room" {
            break now;
        }
        promises.wait_for_change(version, crate::rig::LIMIT).await;
    };
    assert_eq!((&waiting["state"], &waiting["attempts"]), (&json!("accepted"), &json!(0)));
}
