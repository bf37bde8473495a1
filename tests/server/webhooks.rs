//! Whoever wants to know is told of every change, signed; who does not answer holds nobody up.

use std::net::SocketAddr;

use floorkeeper::runtime::webhook::sign;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::callbacks::Desk;
use crate::rig::{LIMIT, eventually};

/// What was told: the head in lower case, and the body.
struct Told {
    head: String,
    body: Vec<u8>,
}

impl Told {
    fn header(&self, name: &str) -> String {
        let line = self.head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        line.unwrap_or_else(|| panic!("no {name} in {}", self.head)).to_owned()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// The next request, answered with this status.
async fn told(listener: &TcpListener, status: &str) -> Told {
    let (mut stream, _) = timeout(LIMIT, listener.accept()).await.expect("told in time").unwrap();
    let told = read(&mut stream).await;
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes()).await.unwrap();
    told
}

async fn read(stream: &mut TcpStream) -> Told {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(timeout(LIMIT, stream.read_u8()).await.expect("a head in time").unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let (names, values): (Vec<String>, Vec<&str>) = head
        .lines()
        .map(|line| line.split_once(": ").unwrap_or((line, "")))
        .map(|(name, value)| (name.to_lowercase(), value))
        .unzip();
    let lines: Vec<String> =
        names.iter().zip(values).map(|(name, value)| format!("{name}: {value}")).collect();
    let mut told = Told { head: lines.join("\n"), body: Vec::new() };
    told.body.resize(told.header("content-length").parse().unwrap(), 0);
    timeout(LIMIT, stream.read_exact(&mut told.body)).await.expect("a body in time").unwrap();
    told
}

async fn listening() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn counted(metrics: &str, outcome: &str) -> u64 {
    let name =
        format!("floorkeeper_webhook_events_total{{hook=\"callback\",outcome=\"{outcome}\"}} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
    line.unwrap_or_else(|| panic!("{outcome} is not in {metrics}")).parse().unwrap()
}

/// In order, at least once: what fails is told again, with the same name.
#[tokio::test]
async fn changes_are_told_in_order_and_signed() {
    let (listener, address) = listening().await;
    let url = format!("callback.webhook_url=\"http://{address}/hook?desk=1\"");
    // A variable that every process has: its value is the secret.
    let desk = Desk::open(&[&url, "callback.webhook_secret_env=PATH"]).await;
    let made = desk.create("+15555550100").await;
    let failed = told(&listener, "500 Oops").await;
    let first = told(&listener, "204 No Content").await;
    assert_eq!(first.head.lines().next(), failed.head.lines().next());
    assert!(first.head.starts_with("post /hook?desk=1 http/1.1"), "{}", first.head);
    let event = first.json();
    assert_eq!((&event["type"], &event["callback"]), (&json!("callback.due"), &made));
    for header in ["idempotency-key", "x-floorkeeper-event"] {
        assert_eq!(first.header(header), failed.header(header), "the same event once more");
    }
    assert_eq!(first.header("idempotency-key"), event["id"].as_str().unwrap());
    let signature = first.header("x-floorkeeper-signature");
    let at_s = signature.strip_prefix("t=").and_then(|rest| rest.split(',').next()).unwrap();
    let secret = std::env::var("PATH").unwrap();
    let right = sign(secret.trim().as_bytes(), at_s.parse().unwrap(), &first.body);
    assert_eq!(signature, right);

    desk.claim().await;
    let path = format!("/v1/callbacks/{}/cancel", made["id"].as_str().unwrap());
    desk.ask("POST", &path, &Value::Null).await;
    for kind in ["callback.claimed", "callback.cancelled"] {
        let event = told(&listener, "200 OK").await.json();
        assert_eq!((&event["type"], &event["callback"]["id"]), (&json!(kind), &made["id"]));
    }
    let promises = desk.rig.service().promises().unwrap().clone();
    eventually("all are counted", || {
        let counts = promises.hook_counts();
        let delivered = counts[0].1.delivered;
        if delivered == 3 { Ok(()) } else { Err(format!("{counts:?}")) }
    })
    .await;
    let metrics = desk.rig.get("/metrics").await.text();
    let outcomes = ["delivered", "failed", "dropped"].map(|word| counted(&metrics, word));
    assert_eq!(outcomes, [3, 0, 0]);
}

/// Somebody who does not want it is not asked again, and who is not there holds up nobody.
#[tokio::test]
async fn what_is_refused_is_given_up_and_counted() {
    let (listener, address) = listening().await;
    let url = format!("callback.webhook_url=\"http://{address}/\"");
    let desk = Desk::open(&[&url]).await;
    desk.create("+15555550100").await;
    let unsigned = told(&listener, "410 Gone").await;
    assert!(!unsigned.head.contains("signature"), "{}", unsigned.head);
    desk.create("+15555550101").await;
    let next = told(&listener, "200 OK").await.json();
    assert_eq!(next["callback"]["destination"], "+15555550101", "the first is not told again");
    let promises = desk.rig.service().promises().unwrap().clone();
    eventually("it is counted", || {
        let counts = promises.hook_counts()[0].1;
        let done = (counts.delivered, counts.failed) == (1, 1);
        if done { Ok(()) } else { Err(format!("{counts:?}")) }
    })
    .await;
    drop(listener);
    for number in 0..20 {
        desk.create(&format!("+155555502{number:02}")).await;
    }
}

/// What is missing is named as it is written in the file.
#[tokio::test]
async fn a_secret_that_is_not_set_is_named_with_its_table() {
    for table in ["callback", "handoff"] {
        let url = format!("{table}.webhook_url=http://127.0.0.1:9/");
        let secret = format!("{table}.webhook_secret_env=FLOORKEEPER_NO_SUCH_VARIABLE");
        let desk = Desk::without_store(&[&url, &secret]).await;
        let refused = floorkeeper::runtime::promises::open(&desk.rig.serving.service).await;
        let said = refused.expect_err("there is no secret").to_string();
        assert!(said.starts_with(&format!("{table}.webhook_secret_env: ")), "{said}");
    }
}
