//! Requests that are no handshakes of ours: the protocol's clear answer, and no call.

use futures_util::future::join_all;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::client::Client;
use crate::http::{self, HANDSHAKE};
use crate::rig::Rig;

/// Issue 2: not WebSocket; notes/reliability.md 2 A, row 6.
#[tokio::test]
async fn what_is_no_handshake_is_told_to_upgrade() {
    let rig = Rig::start(&[]).await;
    let address = rig.serving.address;
    let without = |name: &str| -> Vec<(&str, &str)> {
        HANDSHAKE.into_iter().filter(|(known, _)| *known != name).collect()
    };
    let mut version_8 = without("Sec-WebSocket-Version");
    version_8.push(("Sec-WebSocket-Version", "8"));
    let wrong = [
        vec![],
        without("Upgrade"),
        without("Connection"),
        without("Sec-WebSocket-Key"),
        version_8,
    ];
    for headers in wrong {
        let answer = http::ask(address, "GET", "/v1/realtime", &headers, "").await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (426, "upgrade_required"),
            "{headers:?}"
        );
    }
    let answer = http::ask(address, "POST", "/v1/realtime", &[], "").await;
    assert_eq!((answer.status, answer.code().as_str()), (405, "method_not_allowed"));
    let answer = rig.get("/v1/nothing").await;
    assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"));
    rig.quiet().await;
    assert_eq!(rig.ledger("call").await["offered"], 0, "no call was offered");
}

/// Bytes that are no HTTP/1.1 at all are closed.
#[tokio::test]
async fn what_is_no_http_is_closed() {
    let rig = Rig::start(&[]).await;
    let garbage: [&[u8]; 4] = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"GET /v1/realtime HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
    ];
    for bytes in garbage {
        let mut stream = TcpStream::connect(rig.serving.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let rest = http::closed(&mut stream).await;
        let told = rest.is_empty() || rest.starts_with(b"HTTP/1.1 4");
        assert!(told, "{:?}", String::from_utf8_lossy(&rest));
    }
    rig.quiet().await;
}

/// A head over 16 KiB and a body over 64 KiB are refused before anybody reads them.
#[tokio::test]
async fn what_is_too_large_is_refused() {
    let rig = Rig::start(&[]).await;
    let address = rig.serving.address;
    let long = "x".repeat(20 * 1024);
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: {long}\r\n\r\n");
    let _ = stream.write_all(request.as_bytes()).await;
    let rest = http::closed(&mut stream).await;
    assert!(rest.starts_with(b"HTTP/1.1 431"), "{:?}", String::from_utf8_lossy(&rest));
    let large = format!("{{\"slots\": {}1}}", " ".repeat(65 * 1024));
    let answer = rig.patch("model", &large).await;
    assert_eq!((answer.status, answer.code().as_str()), (413, "body_too_large"));
    rig.quiet().await;
}

/// Every wait for a client that says nothing has an end: five seconds for a head, as long for a
/// body.
#[tokio::test]
async fn clients_that_say_nothing_are_left() {
    let rig = Rig::start(&[]).await;
    let address = rig.serving.address;
    let head = "GET /v1/realtime HTTP/1.1\r\nHost: x\r\n";
    let half = "PATCH /v1/admission/model HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\n\r\n{\"slo";
    let quiet = ["", "G", head, half].map(|bytes| async move {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(bytes.as_bytes()).await.unwrap();
        (bytes, http::closed(&mut stream).await)
    });
    let mut client = Client::connect(&rig).await;
    client.ask("Are you there?").await;
    let (ends, response) = tokio::join!(join_all(quiet), client.answered());
    for (bytes, rest) in ends {
        let rest = String::from_utf8_lossy(&rest);
        let told = rest.is_empty() || rest.starts_with("HTTP/1.1 408");
        assert!(told, "{bytes:?} got {rest:?}");
    }
    assert_eq!(response["status"], "completed", "nobody else is disturbed");
    client.hang_up().await;
    rig.quiet().await;
}

/// Only pages of ours and of `auth.origins` may connect (notes/reliability.md 2 A, row 7).
#[tokio::test]
async fn pages_of_others_may_not_connect() {
    let rig = Rig::start(&["auth.origins=[\"https://good.example\"]"]).await;
    let address = rig.serving.address;
    let own = format!("http://{address}");
    for origin in [own.as_str(), "https://good.example"] {
        let answer = http::knocked(address, &[("Origin", origin)]).await;
        assert_eq!(answer.status, 101, "{origin}");
    }
    let longer = format!("{own}0");
    let bad = [
        "null",
        "",
        "https://evil.example",
        "http://good.example",
        "https://good.example.evil.tld",
        "https://evilgood.example",
        "https://good.example:444",
        "https://good.example/",
        "file://",
        &longer,
    ];
    for origin in bad {
        let answer = http::knocked(address, &[("Origin", origin)]).await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (403, "origin_not_allowed"),
            "{origin}"
        );
    }
    // A name that somebody else points at this machine is not our page (DNS rebinding).
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut request = "GET /v1/realtime HTTP/1.1\r\nHost: evil.example\r\n".to_owned();
    for (name, value) in HANDSHAKE.iter().chain(&[("Origin", "http://evil.example")]) {
        request += &format!("{name}: {value}\r\n");
    }
    stream.write_all(format!("{request}\r\n").as_bytes()).await.unwrap();
    assert_eq!(http::answer(&mut stream).await.status, 403);
    drop(stream);
    rig.quiet().await;
}
