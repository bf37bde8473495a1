//! Keys: without the right one there is a 401 and nothing else; ephemeral ones open sessions until
//! they expire.

use std::time::Duration;

use serde_json::{Value, json};

use crate::http::{self, Answer};
use crate::rig::Rig;

/// A server with one key, `key-of-ada`.
pub async fn locked(name: &str, settings: &[&str]) -> Rig {
    let file = std::env::temp_dir().join(format!("floorkeeper-{name}-{}", std::process::id()));
    std::fs::write(&file, "key-of-ada ada\n").unwrap();
    let keys = format!("auth.keys_file=\"{}\"", file.display());
    let settings: Vec<&str> = settings.iter().copied().chain([keys.as_str()]).collect();
    let rig = Rig::start(&settings).await;
    std::fs::remove_file(&file).unwrap();
    rig
}

fn with_key(key: &str) -> String {
    format!("realtime, openai-insecure-api-key.{key}")
}

/// Issue 2: no or wrong key when keys are set. What was shown is never repeated.
#[tokio::test]
async fn without_the_right_key_there_is_a_401() {
    let rig = locked("locked", &[]).await;
    let address = rig.serving.address;
    let wrong: [&[(&str, &str)]; 7] = [
        &[],
        &[("Authorization", "Bearer key-of-bob")],
        &[("Authorization", "Bearer key-of-ada2")],
        &[("Authorization", "Bearer ")],
        &[("Authorization", "Basic key-of-ada")],
        &[("Authorization", "Bearer ek_0123456789")],
        &[("Sec-WebSocket-Protocol", "realtime, openai-insecure-api-key.key-of-bob")],
    ];
    for headers in wrong {
        for answer in [
            http::knocked(address, headers).await,
            http::ask(address, "GET", "/v1/ledger", headers, "").await,
            http::ask(address, "PATCH", "/v1/admission/model", headers, "{\"slots\": 1}").await,
        ] {
            assert_eq!(
                (answer.status, answer.code().as_str()),
                (401, "invalid_api_key"),
                "{headers:?}"
            );
            assert!(!String::from_utf8_lossy(&answer.body).contains("key-of-"), "{answer:?}");
        }
    }
    let right = [("Authorization", "bearer key-of-ada")];
    assert_eq!(http::knocked(address, &right).await.status, 101);
    let right = [("Sec-WebSocket-Protocol", "openai-insecure-api-key.key-of-ada")];
    assert_eq!(http::knocked(address, &right).await.status, 101);
    rig.quiet().await;
    // Health needs no key, and says nothing of anybody.
    assert_eq!(rig.get("/healthz").await.status, 200);
}

async fn mint(rig: &Rig, body: &Value) -> Answer {
    let key = [("Authorization", "Bearer key-of-ada")];
    let path = "/v1/realtime/client_secrets";
    http::ask(rig.serving.address, "POST", path, &key, &body.to_string()).await
}

/// A minted key opens sessions that begin as it was minted, for the tenant who minted it.
#[tokio::test]
async fn a_minted_key_opens_sessions_as_a_subprotocol() {
    let rig = locked("minting", &[]).await;
    let session = json!({"type": "realtime", "instructions": "Speak like a pirate."});
    let minted = mint(&rig, &json!({"session": session})).await;
    assert_eq!(minted.status, 200, "{minted:?}");
    let minted = minted.json();
    assert_eq!(minted["session"]["instructions"], "Speak like a pirate.");
    let key = minted["value"].as_str().unwrap();
    assert!(key.starts_with("ek_"), "{key}");
    let mut request =
        tokio_tungstenite::tungstenite::client::IntoClientRequest::into_client_request(rig.url())
            .unwrap();
    let protocols = with_key(key).parse().unwrap();
    request.headers_mut().insert("Sec-WebSocket-Protocol", protocols);
    let (socket, answer) = tokio_tungstenite::connect_async(request).await.unwrap();
    assert_eq!(answer.headers()["Sec-WebSocket-Protocol"], "realtime", "and not the key");
    let mut client = crate::client::Client { socket, events: Vec::new() };
    let created = client.until("session.created").await;
    assert_eq!(created["session"]["instructions"], "Speak like a pirate.");
    client.hang_up().await;
    rig.quiet().await;
    let ledger = rig.ledger_with("call", "key-of-ada").await;
    assert_eq!(ledger["tenants"]["ada"]["offered"], 1, "{ledger:#}");
}

/// An expired key opens nothing any more.
#[tokio::test]
async fn a_minted_key_expires() {
    let rig = locked("expiring", &[]).await;
    let life = json!({"expires_after": {"anchor": "created_at", "seconds": 10}});
    let minted = mint(&rig, &life).await.json();
    let protocols = with_key(minted["value"].as_str().unwrap());
    let headers = [("Sec-WebSocket-Protocol", protocols.as_str())];
    assert_eq!(http::knocked(rig.serving.address, &headers).await.status, 101);
    for _ in 0..40 {
        let answer = http::knocked(rig.serving.address, &headers).await;
        if answer.status == 401 {
            assert_eq!(answer.code(), "invalid_api_key");
            return rig.quiet().await;
        }
        assert_eq!(answer.status, 101);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    panic!("the key opens sessions twenty seconds after it was minted for ten");
}

/// What is wrong with a request for a key is said.
#[tokio::test]
async fn a_wrong_request_mints_nothing() {
    let rig = locked("not-minting", &[]).await;
    let wrong = [
        (json!([]), "invalid_type"),
        (json!({"session": 5}), "invalid_type"),
        (json!({"expires_after": {"seconds": 1}}), "invalid_value"),
        (json!({"expires_after": {"seconds": 100_000}}), "invalid_value"),
        (json!({"session": {"type": "realtime", "instructions": 5}}), "invalid_type"),
    ];
    for (body, code) in wrong {
        let answer = mint(&rig, &body).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, code), "{body}: {answer:?}");
    }
}
