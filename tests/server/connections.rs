//! How many connections there may be, and what happens when the process has no descriptor left.

use std::time::Duration;

use serde_json::json;
use tokio::net::TcpStream;

use crate::client::Client;
use crate::http;
use crate::rig::{Rig, eventually};
use crate::served::Served;

/// One connection too many is told so; calls count; every place comes back (notes/reliability.md 2
/// A, row 27).
#[tokio::test]
async fn connections_of_one_address_are_bounded() {
    let rig = Rig::start(&["connections.per_address=3"]).await;
    let address = rig.serving.address;
    for round in 0..3 {
        let mut client = Client::connect(&rig).await;
        let mut idle = Vec::new();
        for _ in 0..2 {
            // Answered once, so that it surely has its place.
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\n\r\n");
            tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.unwrap();
            assert_eq!(http::answer(&mut stream).await.status, 200, "round {round}");
            idle.push(stream);
        }
        let mut refused = TcpStream::connect(address).await.unwrap();
        let answer = http::answer(&mut refused).await;
        assert_eq!((answer.status, answer.code().as_str()), (503, "too_many_connections"));
        assert_eq!(answer.header("retry-after"), Some("1"));
        client.ask("Are you still there?").await;
        assert_eq!(client.answered().await["status"], "completed", "the others are served");
        client.hang_up().await;
        drop((idle, refused));
        rig.quiet().await;
    }
}

/// Without descriptors new connections wait; calls go on; afterwards all is as before (rows 28,
/// 29).
#[tokio::test]
async fn a_process_without_descriptors_survives() {
    let served = Served::with_descriptors(40, &[]).await;
    let address = served.address;
    let mut call = Client::at(&format!("ws://{address}/v1/realtime")).await;
    let mut crowd = Vec::new();
    for _ in 0..60 {
        crowd.push(TcpStream::connect(address).await.unwrap());
    }
    eventually("there is none left", || match served.descriptors() {
        40.. => Ok(()),
        other => Err(format!("{other} descriptors")),
    })
    .await;
    call.ask("Are you still there?").await;
    assert_eq!(call.answered().await["status"], "completed");
    drop(crowd);
    let mut ready = None;
    for _ in 0..100 {
        let asked = http::ask(address, "GET", "/readyz", &[], "");
        match tokio::time::timeout(Duration::from_secs(1), asked).await {
            Ok(answer) => ready = Some(answer.json()),
            Err(_) => continue,
        }
        break;
    }
    assert_eq!(ready, Some(json!({"ready": true, "why": "ready", "callbacks": "open"})));
    Client::at(&format!("ws://{address}/v1/realtime")).await.hang_up().await;
    call.hang_up().await;
}
