//! Who may dial in, and what Asterisk is told when there is no room: before the upgrade.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::double::{Channel, TEXT};
use crate::http::{self, Answer};
use crate::rig::{Rig, enabled};

async fn knock(rig: &Rig, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut stream = http::knock_at(rig.serving.address, path, headers).await;
    http::answer(&mut stream).await
}

/// the dialplan goes on with a failed Dial, and can say so itself.
#[tokio::test]
async fn a_full_gate_refuses_the_handshake() {
    let rig = Rig::start(&["limits.call.slots=1", "limits.call.queue=0"]).await;
    let mut caller = Channel::dial(&rig, TEXT).await;
    let refused = knock(&rig, "/v1/asterisk", &[]).await;
    assert_eq!((refused.status, refused.code().as_str()), (429, "admission_capacity"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    rig.put("/v1/drain", &enabled(true)).await;
    let refused = knock(&rig, "/v1/asterisk", &[]).await;
    assert_eq!((refused.status, refused.code().as_str()), (503, "draining"));
    caller.hang_up().await;
    rig.quiet().await;
}

/// The password that Asterisk shows is the key; a key in the address goes before it.
#[tokio::test]
async fn a_key_is_shown_as_a_password() {
    let file = std::env::temp_dir().join(format!("floorkeeper-asterisk-{}", std::process::id()));
    std::fs::write(&file, "key-of-ada ada\n").unwrap();
    let rig = Rig::start(&[&format!("auth.keys_file=\"{}\"", file.display())]).await;
    std::fs::remove_file(&file).unwrap();
    let basic = |pair: &str| format!("Basic {}", BASE64.encode(pair));
    for (query, shown, status) in [
        ("", basic("pbx:key-of-ada"), 101),
        ("", basic("pbx:key-of-bob"), 401),
        ("", basic("key-of-ada"), 401),
        ("", basic("pbx:key-of-ada\n"), 401),
        ("", "Basic %%%".to_owned(), 401),
        ("", "Basic".to_owned(), 401),
        ("", "Bearer key-of-ada".to_owned(), 101),
        ("?key=key-of-ada", basic("pbx:of-the-proxy"), 101),
        ("?key=key-of-bob", basic("pbx:key-of-ada"), 401),
    ] {
        let path = format!("/v1/asterisk{query}");
        let answer = knock(&rig, &path, &[("Authorization", &shown)]).await;
        assert_eq!(answer.status, status, "{query} {shown}");
    }
    assert_eq!(knock(&rig, "/v1/asterisk", &[]).await.status, 401);
    rig.quiet().await;
    let ledger = rig.ledger_with("call", "key-of-ada").await;
    assert_eq!(ledger["tenants"]["ada"]["offered"], 3, "{ledger:#}");
}

/// The subprotocol is chosen where it was offered, and only then.
#[tokio::test]
async fn the_subprotocol_is_media() {
    let rig = Rig::start(&[]).await;
    for (offered, chosen) in
        [("media", Some("media")), ("ari, media", Some("media")), ("ari", None)]
    {
        let headers = [("Sec-WebSocket-Protocol", offered)];
        let answer = knock(&rig, "/v1/asterisk", &headers).await;
        assert_eq!((answer.status, answer.header("sec-websocket-protocol")), (101, chosen));
    }
    rig.quiet().await;
}
