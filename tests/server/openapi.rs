//! `/openapi.json` is true: every documented answer is given, and what is given has the documented
//! shape.

use std::collections::BTreeSet;

use floorkeeper::id::Stage;
use serde_json::{Value, json};

use crate::client::Client;
use crate::http::{self, Answer};
use crate::keys::locked;
use crate::openapi_peers;
use crate::openapi_promises;
use crate::openapi_twilio;
use crate::rig::{Rig, drop_a_unit, enabled, eventually};

/// A checker for the part of JSON Schema that the description uses.
pub struct Checker {
    document: Value,
    /// Documented answers that were seen: method, path, status.
    seen: BTreeSet<(String, String, String)>,
}

impl Checker {
    pub async fn of(rig: &Rig) -> Checker {
        Checker { document: rig.get("/openapi.json").await.json(), seen: BTreeSet::new() }
    }

    /// The answer is one of those that are documented, in its documented shape.
    pub fn check(&mut self, method: &str, path: &str, answer: &Answer) {
        let status = answer.status.to_string();
        let what = format!("{method} {path} -> {status}");
        let operation = &self.document["paths"][path][method.to_lowercase()];
        assert!(operation.is_object(), "{what}: the path is not documented");
        let documented = &operation["responses"][&status];
        assert!(documented.is_object(), "{what} is not documented: {answer:?}");
        if let Some(content) = documented.get("content").and_then(Value::as_object) {
            let kind = answer.header("content-type").unwrap_or("").split(';').next().unwrap_or("");
            let shape =
                content.get(kind).unwrap_or_else(|| panic!("{what}: {kind} is not documented"));
            if kind == "application/json" {
                let mut wrong = Vec::new();
                self.compare(&shape["schema"], &answer.json(), "$", &mut wrong);
                assert!(wrong.is_empty(), "{what}: {wrong:#?}\n{:#}", answer.json());
            }
        }
        self.seen.insert((method.to_lowercase(), path.to_owned(), status));
    }

    fn compare(&self, schema: &Value, value: &Value, at: &str, wrong: &mut Vec<String>) {
        let Some(schema) = schema.as_object() else {
            if *schema != json!(true) {
                wrong.push(format!("{at}: the schema is {schema}"));
            }
            return;
        };
        for (word, meaning) in schema {
            match word.as_str() {
                "$ref" => {
                    let path = meaning.as_str().unwrap().trim_start_matches('#');
                    let target = self.document.pointer(path);
                    self.compare(target.unwrap_or(&Value::Null), value, at, wrong);
                }
                "type" => {
                    let one = std::slice::from_ref(meaning);
                    let kinds = meaning.as_array().map_or(one, Vec::as_slice);
                    if !kinds.iter().any(|kind| is_a(kind.as_str().unwrap(), value)) {
                        wrong.push(format!("{at}: {value} is no {meaning}"));
                    }
                }
                "const" if meaning != value => {
                    wrong.push(format!("{at}: {value} is not {meaning}"))
                }
                "enum" if !meaning.as_array().unwrap().contains(value) => {
                    wrong.push(format!("{at}: {value} is none of {meaning}"));
                }
                "oneOf" => {
                    let fits = |schema: &&Value| {
                        let mut wrong = Vec::new();
                        self.compare(schema, value, at, &mut wrong);
                        wrong.is_empty()
                    };
                    let count = meaning.as_array().unwrap().iter().filter(fits).count();
                    if count != 1 {
                        wrong.push(format!("{at}: {value} fits {count} of {meaning}"));
                    }
                }
                "required" => {
                    for key in meaning.as_array().unwrap() {
                        if value.get(key.as_str().unwrap()).is_none() {
                            wrong.push(format!("{at}: {key} is missing"));
                        }
                    }
                }
                "properties" => {
                    for (key, schema) in meaning.as_object().unwrap() {
                        if let Some(value) = value.get(key) {
                            self.compare(schema, value, &format!("{at}.{key}"), wrong);
                        }
                    }
                }
                "additionalProperties" => {
                    let known = schema.get("properties").and_then(Value::as_object);
                    for (key, value) in value.as_object().into_iter().flatten() {
                        if !known.is_some_and(|known| known.contains_key(key)) {
                            self.compare(meaning, value, &format!("{at}.{key}"), wrong);
                        }
                    }
                }
                "items" => {
                    for (index, value) in value.as_array().into_iter().flatten().enumerate() {
                        self.compare(meaning, value, &format!("{at}[{index}]"), wrong);
                    }
                }
                "description" | "const" | "enum" => {}
                other => wrong.push(format!("{at}: this checker does not know `{other}`")),
            }
        }
    }

    /// Every documented answer: method, path, status.
    fn documented(&self) -> BTreeSet<(String, String, String)> {
        let mut all = BTreeSet::new();
        for (path, operations) in self.document["paths"].as_object().unwrap() {
            for (method, operation) in operations.as_object().unwrap() {
                let Some(responses) = operation.get("responses") else { continue };
                for status in responses.as_object().unwrap().keys() {
                    all.insert((method.clone(), path.clone(), status.clone()));
                }
            }
        }
        all
    }
}

fn is_a(kind: &str, value: &Value) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("there is no type {other}"),
    }
}

/// A request of a documented operation: method, documented path, path asked for, body.
type Asked = (&'static str, &'static str, &'static str, &'static str);

/// What every operation is asked, the path filled in; `call-1` is one that there is.
const LOG: &str = "/v1/admission/{gate}/log";
const SHADOW: &str = "/v1/admission/{gate}/shadow";
const RECLAIM: &str = "/v1/admission/{gate}/reclaim";

const TWILIO: &str = "/v1/twilio";
const ASTERISK: &str = "/v1/asterisk";

const CALLS: &str = "/v1/realtime/calls";

const ASKED: [Asked; 49] = [
    ("GET", "/healthz", "/healthz", ""),
    ("GET", "/readyz", "/readyz", ""),
    ("GET", "/metrics", "/metrics", ""),
    ("GET", "/openapi.json", "/openapi.json", ""),
    ("GET", "/v1/calls", "/v1/calls", ""),
    ("GET", "/v1/calls/{id}", "/v1/calls/call-1", ""),
    ("GET", "/v1/calls/{id}", "/v1/calls/call-99", ""),
    ("GET", "/v1/drain", "/v1/drain", ""),
    ("PUT", "/v1/drain", "/v1/drain", "{\"enabled\": false}"),
    ("PUT", "/v1/drain", "/v1/drain", "{}"),
    ("GET", "/v1/ledger", "/v1/ledger", ""),
    ("GET", "/v1/admission", "/v1/admission", ""),
    (
        "PATCH",
        "/v1/admission/{gate}",
        "/v1/admission/model",
        "{\"queue\": 1, \"slots\": \"unlimited\"}",
    ),
    ("PATCH", "/v1/admission/{gate}", "/v1/admission/model", "{\"slots\": 2}"),
    ("PATCH", "/v1/admission/{gate}", "/v1/admission/model", "{\"slots\": null}"),
    ("PATCH", "/v1/admission/{gate}", "/v1/admission/nothing", "{}"),
    ("PUT", "/v1/admission/{gate}/hold", "/v1/admission/model/hold", "{\"units\": 1}"),
    ("PUT", "/v1/admission/{gate}/hold", "/v1/admission/model/hold", "{\"units\": 0}"),
    ("PUT", "/v1/admission/{gate}/hold", "/v1/admission/nothing/hold", ""),
    ("DELETE", "/v1/admission/{gate}/hold", "/v1/admission/model/hold", ""),
    ("DELETE", "/v1/admission/{gate}/hold", "/v1/admission/nothing/hold", ""),
    ("GET", "/v1/admission/{gate}", "/v1/admission/model", ""),
    ("GET", "/v1/admission/{gate}", "/v1/admission/nothing", ""),
    ("GET", LOG, "/v1/admission/model/log", ""),
    ("GET", LOG, "/v1/admission/model/log?since=yesterday", ""),
    ("GET", LOG, "/v1/admission/nothing/log", ""),
    ("PUT", SHADOW, "/v1/admission/model/shadow", "{\"slots\": 1}"),
    ("PUT", SHADOW, "/v1/admission/model/shadow", "{\"slots\": 2}"),
    ("PUT", SHADOW, "/v1/admission/model/shadow", "{\"slots\": 3}"),
    ("PUT", SHADOW, "/v1/admission/model/shadow", "{\"slots\": 4}"),
    ("PUT", SHADOW, "/v1/admission/model/shadow", "{\"slots\": 5}"),
    ("PUT", SHADOW, "/v1/admission/model/shadow", "{\"slots\": null}"),
    ("PUT", SHADOW, "/v1/admission/nothing/shadow", "{\"slots\": 5}"),
    ("DELETE", SHADOW, "/v1/admission/model/shadow", ""),
    ("DELETE", SHADOW, "/v1/admission/nothing/shadow", ""),
    ("POST", RECLAIM, "/v1/admission/model/reclaim", "{}"),
    ("POST", RECLAIM, "/v1/admission/model/reclaim", "{\"offer\": 0}"),
    ("POST", "/v1/realtime/client_secrets", "/v1/realtime/client_secrets", ""),
    ("POST", "/v1/realtime/client_secrets", "/v1/realtime/client_secrets", "{\"session\": 1}"),
    ("GET", "/v1/realtime", "/v1/realtime", ""),
    ("POST", CALLS, CALLS, ""),
    ("POST", "/v1/realtime/calls/{id}", "/v1/realtime/calls/call-99", ""),
    ("POST", "/v1/realtime/calls/{id}/hangup", "/v1/realtime/calls/call-99/hangup", ""),
    ("GET", TWILIO, TWILIO, ""),
    ("GET", ASTERISK, ASTERISK, ""),
    ("POST", "/v1/twilio/voice", "/v1/twilio/voice", ""),
    ("GET", "/prompts/{locale}/{file}", "/prompts/en/retry_busy.wav", ""),
    ("GET", "/prompts/{locale}/{file}", "/prompts/en/nothing.wav", ""),
    ("GET", "/v1/calls", "/v1/calls", ""),
];

/// Every documented answer, but the two that need ten thousand keys or a call of Twilio's own, is
/// given and has its shape.
#[tokio::test]
async fn every_documented_answer_is_given_in_its_shape() {
    let limits = ["limits.call.slots=1", "limits.call.queue=1", "limits.call.max_wait_ms=300"];
    let rig = Rig::start(&limits).await;
    let address = rig.serving.address;
    let mut checker = Checker::of(&rig).await;
    let mut client = Client::connect(&rig).await;
    client.ask("Tell me a story.").await;
    client.until("response.output_audio.delta").await;
    for (method, path, asked, body) in ASKED {
        let answer = http::ask(address, method, asked, &[], body).await;
        checker.check(method, path, &answer);
    }
    reclaimed_answers(&rig, &mut checker).await;
    let realtime = "/v1/realtime";
    let mut parked = http::knock(address, &[]).await;
    eventually("it is parked", || match rig.counts(Stage::Call).queued {
        1 => Ok(()),
        other => Err(format!("{other} are")),
    })
    .await;
    checker.check("GET", realtime, &http::knocked(address, &[]).await);
    checker.check("GET", realtime, &http::answer(&mut parked).await);
    drop(parked);
    checker.check("GET", realtime, &http::knocked(address, &[("Origin", "null")]).await);
    rig.put("/v1/drain", &enabled(true)).await;
    checker.check("GET", realtime, &http::knocked(address, &[]).await);
    checker.check("GET", "/readyz", &rig.get("/readyz").await);
    rig.put("/v1/drain", &enabled(false)).await;
    client.hang_up().await;
    rig.quiet().await;
    checker.check("GET", realtime, &http::knocked(address, &[]).await);
    checker.check("GET", "/v1/calls/{id}", &rig.get("/v1/calls/call-1").await);
    twilio_answers(&mut checker).await;
    openapi_twilio::answers(&mut checker).await;
    asterisk_answers(&mut checker).await;
    openapi_peers::answers(&mut checker).await;
    locked_answers(&mut checker).await;
    openapi_promises::answers(&mut checker).await;
    let unseen: Vec<_> = checker.documented().difference(&checker.seen).cloned().collect();
    let rare = [
        ("get", "/v1/twilio/outgoing/{call}/stream", "101"),
        ("post", "/v1/realtime/client_secrets", "429"),
    ];
    let rare = rare.map(|(method, path, status)| (method.into(), path.into(), status.into()));
    assert_eq!(unseen, rare, "documented, and never given here");
}

/// A unit whose owner is gone without a word, given back by an operator and then once more.
async fn reclaimed_answers(rig: &Rig, checker: &mut Checker) {
    let offer = drop_a_unit(rig.service());
    let body = json!({"offer": offer}).to_string();
    for _ in 0..2 {
        let path = "/v1/admission/model/reclaim";
        let answer = http::ask(rig.serving.address, "POST", path, &[], &body).await;
        checker.check("POST", RECLAIM, &answer);
    }
}

/// A telephone call's webhook, its stream, and streams that nobody announced.
async fn twilio_answers(checker: &mut Checker) {
    let limits = ["limits.call.slots=1", "limits.call.queue=1", "limits.call.max_wait_ms=300"];
    let rig = Rig::start(&limits).await;
    let address = rig.serving.address;
    let voice = "/v1/twilio/voice";
    let stranger = [("Origin", "null")];
    checker.check("POST", voice, &http::ask(address, "POST", voice, &stranger, "").await);
    let answer = http::ask(address, "POST", voice, &[], "").await;
    checker.check("POST", voice, &answer);
    let answer = answer.text();
    let seat = answer.split_once("/v1/twilio/seat/").unwrap().1.split_once('"').unwrap().0;
    let seat = format!("/v1/twilio/seat/{seat}");
    let mut parked = http::knock_at(address, TWILIO, &[]).await;
    eventually("it is parked", || match rig.counts(Stage::Call).queued {
        1 => Ok(()),
        other => Err(format!("{other} are")),
    })
    .await;
    for headers in [&[][..], &stranger[..]] {
        let mut stream = http::knock_at(address, TWILIO, headers).await;
        checker.check("GET", TWILIO, &http::answer(&mut stream).await);
    }
    checker.check("GET", TWILIO, &http::answer(&mut parked).await);
    drop(parked);
    let path = "/v1/twilio/seat/{seat}";
    checker.check("GET", path, &http::ask(address, "GET", &seat, &[], "").await);
    for _ in 0..2 {
        let mut stream = http::knock_at(address, &seat, &[]).await;
        checker.check("GET", path, &http::answer(&mut stream).await);
    }
    rig.put("/v1/drain", &enabled(true)).await;
    for on in [false, true] {
        let mut stream = http::knock_at(address, TWILIO, &[]).await;
        checker.check("GET", TWILIO, &http::answer(&mut stream).await);
        drop(stream);
        rig.quiet().await;
        rig.put("/v1/drain", &enabled(on)).await;
    }
    // A variable that every process has stands for the token.
    let signed = Rig::start(&["twilio.auth_token_env=\"PATH\""]).await;
    let forged = [("X-Twilio-Signature", "AAAA")];
    let mut stream = http::knock_at(signed.serving.address, &seat, &forged).await;
    let refused = http::answer(&mut stream).await;
    assert_eq!((refused.status, refused.code().as_str()), (403, "invalid_signature"));
    checker.check("GET", path, &refused);
}

/// An Asterisk that dials us, with room, with none, and when nobody may.
async fn asterisk_answers(checker: &mut Checker) {
    let limits = ["limits.call.slots=1", "limits.call.queue=1", "limits.call.max_wait_ms=300"];
    let rig = Rig::start(&limits).await;
    let knock = |headers| http::knock_at(rig.serving.address, ASTERISK, headers);
    let mut held = knock(&[]).await;
    checker.check("GET", ASTERISK, &http::answer(&mut held).await);
    let mut parked = knock(&[]).await;
    eventually("it is parked", || match rig.counts(Stage::Call).queued {
        1 => Ok(()),
        other => Err(format!("{other} are")),
    })
    .await;
    for headers in [&[][..], &[("Origin", "null")][..]] {
        checker.check("GET", ASTERISK, &http::answer(&mut knock(headers).await).await);
    }
    checker.check("GET", ASTERISK, &http::answer(&mut parked).await);
    rig.put("/v1/drain", &enabled(true)).await;
    checker.check("GET", ASTERISK, &http::answer(&mut knock(&[]).await).await);
}

/// Without the key of a locked server.
async fn locked_answers(checker: &mut Checker) {
    let rig = locked("documented", &[]).await;
    for (method, path, asked, body) in ASKED {
        let answer = http::ask(rig.serving.address, method, asked, &[], body).await;
        let open = matches!(path, "/healthz" | "/readyz" | "/metrics" | "/openapi.json")
            || path.starts_with("/prompts");
        assert_eq!(
            answer.status == 401,
            !open,
            "{method} {asked} without a key: {}",
            answer.status
        );
        checker.check(method, path, &answer);
    }
}
