//! Issue 6: TLS for HTTP and WebSocket, with a certificate that is taken up when it changes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use floorkeeper::audio::Pcm;
use floorkeeper::cli::wav;
use floorkeeper::config::Tls;
use floorkeeper::runtime::http::bind;
use futures_util::StreamExt;
use rustls::pki_types::CertificateDer;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::certificates::{Files, connect, replace};
use crate::http::{self, Answer};
use crate::rig::{LIMIT, REPLY, Rig};

async fn serving(files: &Files) -> Rig {
    let [cert, key] = files.settings();
    Rig::start(&[&cert, &key]).await
}

async fn get(to: SocketAddr, trusted: &CertificateDer<'static>, path: &str) -> Answer {
    let mut stream = connect(to, trusted).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    http::answer(&mut stream).await
}

#[tokio::test]
async fn pages_and_calls_go_over_tls() {
    let (files, certificate) = Files::new("calls");
    let rig = serving(&files).await;
    let to = rig.serving.address;
    assert_eq!(get(to, &certificate, "/readyz").await.status, 200);
    let stream = connect(to, &certificate).await.unwrap();
    let url = format!("wss://{to}/v1/realtime");
    let (mut socket, answer) = tokio_tungstenite::client_async(url, stream).await.unwrap();
    assert_eq!(answer.status().as_u16(), 101);
    let first = timeout(LIMIT, socket.next()).await.expect("in time").unwrap().unwrap();
    let event: serde_json::Value = serde_json::from_str(first.to_text().unwrap()).unwrap();
    assert_eq!(event["type"], "session.created");
}

/// The commands call over TLS as well, and trust nobody for nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_call_command_speaks_tls() {
    let (files, _) = Files::new("command");
    let rig = serving(&files).await;
    let said = files.0.join("said.wav");
    let pcm = Pcm { rate_hz: 24_000, samples: vec![9_000; 24_000] };
    wav::write(&said, &pcm).unwrap();
    let url = format!("wss://localhost:{}/v1/realtime", rig.serving.address.port());
    let call = |roots: Option<PathBuf>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_floorkeeper"));
        command.args(["call", &url, "--seconds", "3", "--json", "--play"]).arg(&said);
        command.env_remove("SSL_CERT_FILE").envs(roots.map(|roots| ("SSL_CERT_FILE", roots)));
        tokio::task::spawn_blocking(move || command.output().unwrap())
    };
    let told = call(Some(files.cert())).await.unwrap();
    assert!(told.status.success(), "{told:?}");
    let result: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
    assert!(result.to_string().contains(REPLY), "{result:#}");
    let told = call(None).await.unwrap();
    let result = String::from_utf8_lossy(&told.stdout);
    assert!(!told.status.success() && result.contains("certificate"), "{result}");
    let told = call(Some(files.0.join("none.pem"))).await.unwrap();
    let result = String::from_utf8_lossy(&told.stdout);
    assert!(!told.status.success() && result.contains("SSL_CERT_FILE"), "{result}");
}

/// Certificates are renewed under a running server; one that cannot be used changes nothing.
#[tokio::test]
async fn a_renewed_certificate_is_taken_up_and_a_wrong_one_is_not() {
    let (files, before) = Files::new("renewed");
    let rig = serving(&files).await;
    let to = rig.serving.address;
    let live = connect(to, &before).await.unwrap();
    let after = files.renew();
    let renewed = async {
        while connect(to, &after).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LIMIT, renewed).await.expect("the new certificate is shown in time");
    assert!(connect(to, &before).await.is_err(), "the one before is shown no more");
    // What was connected stays so.
    let mut live = live;
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {to}\r\n\r\n");
    live.write_all(request.as_bytes()).await.unwrap();
    assert_eq!(http::answer(&mut live).await.status, 200);

    // The key of another certificate; then rubbish; then it is renewed again.
    let (other, _) = Files::new("other");
    replace(&files.key(), &std::fs::read_to_string(other.key()).unwrap());
    replace(&files.cert(), "no certificate");
    let last = files.renew();
    let renewed = async {
        while connect(to, &last).await.is_err() {
            // Between the two it may have been renewed.
            let shown = connect(to, &after).await.is_ok() || connect(to, &last).await.is_ok();
            assert!(shown, "nobody can connect any more");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LIMIT, renewed).await.expect("the last certificate is shown in time");
}

#[tokio::test]
async fn who_speaks_no_tls_is_told_so_and_holds_nothing() {
    let (files, certificate) = Files::new("plain");
    let rig = serving(&files).await;
    let to = rig.serving.address;
    let answer = http::ask(to, "GET", "/healthz", &[], "").await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "tls_required"));
    // A handshake that is none, and one that breaks off.
    for bytes in [&[22, 3, 1, 0, 5, 9, 9, 9, 9, 9][..], &[22, 3, 1]] {
        let mut stream = TcpStream::connect(to).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        http::closed(&mut stream).await;
    }
    assert_eq!(get(to, &certificate, "/readyz").await.status, 200);
}

#[tokio::test]
async fn what_is_no_certificate_stops_the_start() {
    let (files, _) = Files::new("wrong");
    let (other, _) = Files::new("wrong-other");
    let tls = |cert_file: PathBuf, key_file: PathBuf| Tls { cert_file, key_file };
    let opened = async |tls: Tls| {
        let listening = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        listening.secured(Some(&tls)).err().expect("it is wrong")
    };
    let missing = files.0.join("none.pem");
    let wrong = opened(tls(missing.clone(), files.key())).await;
    assert!(wrong.starts_with("tls.cert_file") && wrong.contains("none.pem"), "{wrong}");
    let wrong = opened(tls(files.cert(), missing)).await;
    assert!(wrong.starts_with("tls.key_file"), "{wrong}");
    let wrong = opened(tls(files.key(), files.key())).await;
    assert!(wrong.contains("no certificate in PEM"), "{wrong}");
    let wrong = opened(tls(files.cert(), other.key())).await;
    assert!(wrong.contains("is not the key of"), "{wrong}");
    assert!(bind("127.0.0.1:0".parse().unwrap()).await.unwrap().secured(None).is_ok());
}
