//! Callbacks that the server has Twilio dial (issue 7.1 and 7.5).

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use floorkeeper::id::Stage;
use floorkeeper::runtime::promises::{self, unix_ms};
use serde_json::{Value, json};

use crate::api::{ACCOUNT, PUBLIC, Placed, Plan, TOKEN_ENV, Twilio, path_of};
use crate::double::Double;
use crate::http::{self, Answer};
use crate::rig::{Rig, eventually};

const NUMBER: &str = "+15550100200";
/// Eight words: 800 ms.
const GREETING_MS: usize = 800;

/// A server that has Twilio dial.
pub struct Dialling {
    pub rig: Rig,
    pub twilio: Twilio,
    folder: PathBuf,
}

impl Drop for Dialling {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder); // the next build's folder is cleaned with it
    }
}

impl Dialling {
    pub async fn with(settings: &[&str]) -> Dialling {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("outgoing-{}-{number}", std::process::id());
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let twilio = Twilio::start().await;
        let usual = [
            format!("store.path={:?}", folder.join("callbacks.db")),
            format!("public.url=\"{PUBLIC}\""),
            format!("twilio.account_sid=\"{ACCOUNT}\""),
            format!("twilio.auth_token_env=\"{TOKEN_ENV}\""),
            format!("twilio.api_url=\"http://{}\"", twilio.address),
            "callback.dialler=\"twilio\"".to_owned(),
            "callback.attempts_max=1".to_owned(),
            "outbound.from=\"+15550199\"".to_owned(),
            "outbound.allow=[\"+1555\"]".to_owned(),
            "outbound.greeting=\"Good morning, you asked us to ring you.\"".to_owned(),
        ];
        let settings = usual.into_iter().chain(settings.iter().map(|text| (*text).to_owned()));
        let settings: Vec<String> = settings.collect();
        let rig = Rig::start(&settings.iter().map(String::as_str).collect::<Vec<_>>()).await;
        promises::open(&rig.serving.service).await.unwrap_or_else(|e| panic!("{e}"));
        Dialling { rig, twilio, folder }
    }

    async fn ask(&self, destination: &str) -> Answer {
        let wanted = json!({
            "destination": destination,
            "why": "overloaded",
            "consent": {"asked": "Shall we ring you back?", "said": "Yes please."},
        });
        let to = self.rig.serving.address;
        http::ask(to, "POST", "/v1/callbacks", &[], &wanted.to_string()).await
    }

    async fn wanted(&self) -> String {
        self.wanted_at(NUMBER).await
    }

    async fn wanted_at(&self, number: &str) -> String {
        let answer = self.ask(number).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    async fn record(&self, id: &str) -> Value {
        self.rig.get(&format!("/v1/callbacks/{id}")).await.json()
    }

    /// Waits until this is so of the record.
    async fn until(&self, id: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let promises = self.rig.service().promises().unwrap().clone();
        loop {
            let version = promises.version();
            let record = self.record(id).await;
            if is_so(&record) {
                return record;
            }
            promises.wait_for_change(version, crate::rig::LIMIT).await;
            assert_ne!(promises.version(), version, "nothing changes: {record:#}");
        }
    }

    /// Waits until it has ended, and holds that it ended so.
    async fn comes_to(&self, id: &str, state: &str, detail: &str) -> Value {
        let ends = ["connected", "no_answer", "voicemail", "failed", "expired", "unknown_dial"];
        let record = self.until(id, |record| ends.iter().any(|end| record["state"] == *end)).await;
        assert_eq!((&record["state"], &record["detail"]), (&json!(state), &json!(detail)));
        record
    }

    pub async fn tells(&self, call: &Placed, status: &str, more: &[(&str, &str)]) {
        self.twilio.tells(self.rig.serving.address, call, status, more).await;
    }

    pub async fn answers(&self, call: &Placed, more: &[(&str, &str)]) -> String {
        self.twilio.answers(self.rig.serving.address, call, more).await
    }

    /// The telephone whose call becomes a stream.
    pub async fn telephone(&self, twiml: &str) -> Double {
        let stream = twiml.split_once("<Stream url=\"").expect("a stream").1;
        let path = path_of(stream.split_once('"').unwrap().0);
        Double::at(&format!("ws://{}{path}", self.rig.serving.address), json!({})).await
    }

    /// No unit of a call is held.
    pub async fn is_quiet(&self) {
        eventually("no call is left", || match self.rig.counts(Stage::Call).active {
            0 => Ok(()),
            left => Err(left.to_string()),
        })
        .await;
    }

    fn placed_times(&self) -> usize {
        self.twilio.asked(&format!("POST /2010-04-01/Accounts/{ACCOUNT}/Calls.json"))
    }
}

/// All at once: what takes its time is what people and machines say, and what Twilio does not.
#[tokio::test]
async fn who_answers_and_who_does_not_is_told_apart() {
    tokio::join!(
        who_answers_a_callback_is_spoken_with(),
        a_mailbox_is_never_reached(),
        a_call_of_which_nothing_is_heard_is_asked_about(),
    );
}

async fn who_answers_a_callback_is_spoken_with() {
    let it = Dialling::with(&[]).await;
    let id = it.wanted().await;
    let call = it.twilio.placed(0).await;
    for (key, value) in [("To", NUMBER), ("From", "+15550199"), ("Timeout", "30")] {
        assert_eq!(call.field(key), value);
    }
    it.tells(&call, "ringing", &[]).await;
    let twiml = it.answers(&call, &[]).await;
    assert!(twiml.contains(&format!("<Parameter name=\"Callback\" value=\"{id}\"/>")), "{twiml}");
    let mut phone = it.telephone(&twiml).await;
    phone.speak(400);
    phone.until("the greeting is heard", |phone| phone.played_ms() >= GREETING_MS).await;
    let record = it.comes_to(&id, "connected", "twilio").await;
    assert_eq!(record["attempts"], 1);
    phone.speak(900);
    phone.until("the answer is heard", |phone| phone.played_ms() > GREETING_MS + 300).await;
    let calls = it.rig.get("/v1/calls").await.json();
    assert_eq!(calls["calls"][0]["transport"], "twilio", "{calls:#}");
    phone.stop().await;
    it.is_quiet().await;
    assert_eq!(it.placed_times(), 1);
}

/// Issue 7.5: a mailbox is `voicemail`, never `connected`, hears nothing, and is hung up on.
async fn a_mailbox_is_never_reached() {
    let it = Dialling::with(&[]).await;
    let id = it.wanted().await;
    let call = it.twilio.placed(0).await;
    let mut phone = it.telephone(&it.answers(&call, &[]).await).await;
    phone.speak(4_000);
    let hung_up = it.twilio.until("it is hung up", |calls, _| calls[0].changes.first().cloned());
    let (record, closed, changed) = tokio::join!(
        it.comes_to(&id, "voicemail", "a machine answered"),
        phone.until_closed(),
        hung_up,
    );
    assert_eq!(record["shelf"], "dead", "it was promised and not done: {record:#}");
    assert_eq!((phone.played_ms(), closed), (0, 0), "nothing is said to a machine");
    assert_eq!(changed, [("Status".to_owned(), "completed".to_owned())]);
    it.is_quiet().await;
}

/// The same where Twilio listens: its word counts, and no stream is asked for.
#[tokio::test]
async fn a_mailbox_that_twilio_has_found_is_never_reached() {
    let it = Dialling::with(&["twilio.machine_detection=true"]).await;
    let id = it.wanted().await;
    let call = it.twilio.placed(0).await;
    assert_eq!(
        (call.field("MachineDetection"), call.field("MachineDetectionTimeout")),
        ("Enable", "6")
    );
    let twiml = it.answers(&call, &[("AnsweredBy", "machine_start")]).await;
    assert!(twiml.ends_with("<Response><Hangup/></Response>"), "{twiml}");
    it.comes_to(&id, "voicemail", "a machine answered").await;
    it.is_quiet().await;
}

/// Busy, refused, and nobody there: each has its own word, and every unit comes back.
#[tokio::test]
async fn who_cannot_be_reached_is_on_record_as_that() {
    let it = Dialling::with(&["callback.dials_max=8"]).await;
    let of = async |last: u8, status: &str, more: &[(&str, &str)], state: &str, detail: &str| {
        let number = format!("+1555010020{last}");
        let id = it.wanted_at(&number).await;
        let is_it = |call: &&Placed| call.field("To") == number;
        let find = |calls: &[Placed], _: &[String]| calls.iter().find(is_it).cloned();
        let call = it.twilio.until("it is dialled", find).await;
        it.tells(&call, "initiated", &[]).await;
        it.tells(&call, status, more).await;
        it.comes_to(&id, state, detail).await;
    };
    let (fax, sip) = ([("AnsweredBy", "fax")], [("SipResponseCode", "404")]);
    tokio::join!(
        of(1, "busy", &[], "no_answer", "busy"),
        of(2, "no-answer", &[], "no_answer", "it rang, and nobody came"),
        of(3, "canceled", &[], "no_answer", "taken back while it rang"),
        of(4, "completed", &[], "no_answer", "hung up before a word"),
        of(5, "completed", &fax, "voicemail", "a machine answered"),
        of(6, "failed", &sip, "failed", "refused with SIP 404"),
        of(7, "failed", &[], "failed", "Twilio could not place it"),
    );
    it.is_quiet().await;
}

/// What Twilio refuses stands in the record in its words.
#[tokio::test]
async fn what_twilio_refuses_has_failed() {
    let it = Dialling::with(&[]).await;
    it.twilio.plan(Plan::Fails(400, None, 21211, "Invalid 'To' Phone Number"));
    let id = it.wanted().await;
    it.comes_to(&id, "failed", "Twilio 21211: Invalid 'To' Phone Number").await;
    it.is_quiet().await;
}

/// An account that has to wait has dialled nothing: no attempt is spent, and it waits as told.
#[tokio::test]
async fn an_account_that_is_too_fast_waits() {
    let it = Dialling::with(&[]).await;
    it.twilio.plan(Plan::Fails(429, Some(600), 20429, "Too Many Requests"));
    let id = it.wanted().await;
    let record = it.until(&id, |record| record["detail"] != "").await;
    assert_eq!(record["detail"], "Twilio 20429: Too Many Requests");
    assert_eq!((&record["state"], &record["attempts"]), (&json!("accepted"), &json!(0)));
    let waits_ms = record["due_ms"].as_u64().unwrap() - record["changed_ms"].as_u64().unwrap();
    assert!((595_000..=600_000).contains(&waits_ms), "{record:#}");
    it.is_quiet().await;
}

/// Nobody there to be asked: nothing was dialled.
#[tokio::test]
async fn without_a_connection_nothing_is_dialled() {
    let it = Dialling::with(&["twilio.api_url=\"http://127.0.0.1:9\""]).await;
    let id = it.wanted().await;
    let record = it.until(&id, |record| record["detail"] != "").await;
    assert!(record["detail"].as_str().unwrap().starts_with("Twilio is not reached"), "{record:#}");
    assert_eq!((&record["state"], &record["attempts"]), (&json!("accepted"), &json!(0)));
    it.is_quiet().await;
}

/// The answer to the request is lost, and the call is there: it is found, followed, dialled once.
#[tokio::test]
async fn a_call_whose_placing_was_not_answered_is_followed() {
    for plan in [Plan::PlacedUnanswered, Plan::Fails(500, None, 20500, "Internal Server Error")] {
        let it = Dialling::with(&[]).await;
        let in_vain = matches!(plan, Plan::Fails(..));
        it.twilio.plan(plan);
        let id = it.wanted().await;
        let asked = format!("GET /2010-04-01/Accounts/{ACCOUNT}/Calls.json?To=%2B15550100200");
        let seen = |_: &[Placed], lines: &[String]| {
            lines.iter().any(|l| l.starts_with(&asked)).then_some(())
        };
        it.twilio.until("it is looked for", seen).await;
        if in_vain {
            assert_eq!(it.record(&id).await["state"], "dialling", "nobody knows");
            continue;
        }
        let call = it.twilio.placed(0).await;
        it.tells(&call, "busy", &[]).await;
        it.comes_to(&id, "no_answer", "busy").await;
        assert_eq!(it.placed_times(), 1);
        it.is_quiet().await;
    }
}

/// A webhook that never comes: Twilio is asked, and a call that is still there is taken back. One
/// that nobody knows of is `unknown_dial`, and is not dialled again.
async fn a_call_of_which_nothing_is_heard_is_asked_about() {
    tokio::join!(
        is_silent("busy", "no_answer", "busy", 0),
        is_silent("ringing", "no_answer", "it rang, and nobody came", 1),
        is_silent("in-progress", "failed", "answered, and no stream came", 1),
        nobody_knows(),
    );
}

async fn is_silent(status: &str, state: &str, detail: &str, changes: usize) {
    let it = Dialling::with(&["outbound.ring_ms=1000"]).await;
    let id = it.wanted().await;
    let call = it.twilio.placed(0).await;
    it.twilio.stands(&call.sid, status);
    it.comes_to(&id, state, detail).await;
    assert_eq!(it.twilio.placed(0).await.changes.len(), changes, "{status}");
    it.is_quiet().await;
}

async fn nobody_knows() {
    let it = Dialling::with(&["outbound.ring_ms=1000", "callback.attempts_max=3"]).await;
    it.twilio.plan(Plan::Unanswered);
    // Somebody else's call to the same number, which is none of ours to take back.
    it.twilio.has_placed(60, &[("To", NUMBER), ("From", "+15550199")]);
    let id = it.wanted().await;
    it.twilio.until("it is tried", |_, lines| (!lines.is_empty()).then_some(())).await;
    it.is_quiet().await;
    assert!(it.twilio.placed(0).await.changes.is_empty());
    assert_eq!(it.record(&id).await["state"], "dialling");
    let store = it.rig.service().promises().unwrap().store().clone();
    store.sweep(unix_ms() + 600_000).await.unwrap();
    assert_eq!(it.record(&id).await["state"], "unknown_dial");
    assert_eq!(it.placed_times(), 1);
}

/// Issue 7.5: only what Twilio has signed counts, and a stream needs a name that nobody guesses.
#[tokio::test]
async fn nobody_else_says_what_became_of_a_call() {
    let it = Dialling::with(&[]).await;
    let id = it.wanted().await;
    let call = it.twilio.placed(0).await;
    let body = format!("CallSid={}&CallStatus=failed", call.sid);
    let at = it.rig.serving.address;
    for (url, forged) in [
        (call.field("StatusCallback"), &[][..]),
        (call.field("StatusCallback"), &[("X-Twilio-Signature", "AAAA")]),
        (call.field("Url"), &[("X-Twilio-Signature", "AAAA")]),
    ] {
        let answer = http::ask(at, "POST", path_of(url), forged, &body).await;
        assert_eq!((answer.status, &*answer.code()), (403, "invalid_signature"), "{url}");
    }
    let stranger = format!("/v1/twilio/outgoing/{:032x}/stream", 7);
    let mut knock = http::knock_at(at, &stranger, &[]).await;
    assert_eq!(http::answer(&mut knock).await.code(), "unknown_seat");
    assert_eq!(it.record(&id).await["state"], "dialling");
    it.tells(&call, "busy", &[]).await;
    it.comes_to(&id, "no_answer", "busy").await;
    let late = it.answers(&call, &[]).await;
    assert!(late.contains("<Response><Hangup/></Response>"), "nobody waits for it: {late}");
}

/// Issue 7.5: nothing goes out that the configuration does not allow.
#[tokio::test]
async fn what_may_not_be_dialled_is_not_promised() {
    let it = Dialling::with(&["outbound.deny=[\"+15556\"]"]).await;
    for (destination, why) in [
        ("+33123456789", "number_not_allowed"),
        ("+15556660100", "number_denied"),
        ("+19005550100", "premium_number"),
        ("sip:911@127.0.0.1", "emergency_number"),
    ] {
        let answer = it.ask(destination).await;
        assert!(answer.status >= 400, "{destination}: {answer:?}");
        assert!(answer.text().contains(why), "{destination}: {answer:?}");
    }
    assert_eq!(it.placed_times(), 0);
}
