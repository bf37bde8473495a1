//! The providers over TLS: certificates are checked, and a cancel is a half-close there too (F
//! 123).

mod openai_server;

use std::sync::Arc;

use floorkeeper::dialogue::ModelRequest;
use floorkeeper::evidence::Evidence;
use floorkeeper::provider::llm::{ModelSignal, openai};
use floorkeeper::provider::{Cancel, Ended};
use openai_server::{
    FINISH, PATIENCE, Running, SSE_HEAD, chunked, surroundings, whole_answer, words,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

fn tls_file(name: &str) -> String {
    format!("{}/tests/openai_server/tls/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn acceptor() -> TlsAcceptor {
    let certificate = CertificateDer::from_pem_file(tls_file("certificate.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(tls_file("key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// The first connection of a server that speaks TLS; `None` when the handshake failed.
async fn connection(listener: TcpListener) -> Option<TlsStream<TcpStream>> {
    let (stream, _) = listener.accept().await.unwrap();
    acceptor().accept(stream).await.ok()
}

async fn request(stream: &mut TlsStream<TcpStream>) {
    let mut seen = Vec::new();
    while !seen.ends_with(b"}") {
        let mut piece = [0_u8; 4_096];
        let count = stream.read(&mut piece).await.unwrap();
        assert!(count > 0, "the request ends early");
        seen.extend_from_slice(&piece[..count]);
    }
}

async fn start(ca: bool) -> (TcpListener, Running<ModelSignal>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut table = toml::Table::new();
    table.insert("base_url".into(), format!("https://{address}/v1").into());
    table.insert("model".into(), "m".into());
    if ca {
        table.insert("ca_file".into(), tls_file("certificate.pem").into());
    }
    let llm = (openai::ENTRY.build)(&table, &surroundings()).unwrap();
    let (out, signals) = mpsc::channel(64);
    let cancel = Cancel::new();
    let run = tokio::spawn(llm.run(ModelRequest::default(), out, cancel.clone()));
    (listener, Running { cancel, signals, run })
}

#[tokio::test]
async fn an_answer_comes_over_tls() {
    let (listener, running) = start(true).await;
    let server = tokio::spawn(async move {
        let mut stream = connection(listener).await.unwrap();
        request(&mut stream).await;
        stream.write_all(whole_answer("Hi.").as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        stream
    });
    let (signals, ended) = running.end().await;
    assert_eq!(signals[0], ModelSignal::Text("Hi.".into()));
    assert_eq!(ended, Ended::completed());
    drop(server.await.unwrap());
}

#[tokio::test]
async fn a_cancel_says_close_notify_and_reads_on() {
    let (listener, mut running) = start(true).await;
    let server = tokio::spawn(async move {
        let mut stream = connection(listener).await.unwrap();
        request(&mut stream).await;
        let begun = format!("{SSE_HEAD}{}", chunked(&words("One")));
        stream.write_all(begun.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        // A clean end of file: close_notify came, not just the end of TCP.
        let end = stream.read(&mut [0_u8; 64]).await;
        let late = stream.write_all(chunked(FINISH).as_bytes()).await;
        let _ = stream.shutdown().await;
        (end.ok(), late.is_ok())
    });
    assert_eq!(running.next().await, ModelSignal::Text("One".into()));
    running.cancel.cancel();
    let (signals, ended) = running.end().await;
    assert_eq!(signals, []);
    assert_eq!(ended, Ended::stopped(Evidence::StreamClosedByBackend));
    let seen = tokio::time::timeout(PATIENCE, server).await.unwrap().unwrap();
    assert_eq!(seen, (Some(0), true));
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_refused() {
    let (listener, running) = start(false).await;
    let server = tokio::spawn(async move { connection(listener).await.is_none() });
    let (_, ended) = running.end().await;
    assert_eq!(ended.proof, Ok(Evidence::NeverStarted));
    assert!(ended.fault.unwrap().to_string().contains("certificate"));
    assert!(server.await.unwrap());
}
