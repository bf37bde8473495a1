//! The real server is killed again and again while callbacks are asked of it: none that it
//! acknowledged is lost, and none is there twice (issue 5; C-008).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::callbacks::wanted;
use crate::http;
use crate::served::Served;

/// Kills of the usual run; `FLOORKEEPER_KILLS=100` is the long one.
const KILLS: u32 = 6;
/// Between two offers: 200 a second.
const EVERY: Duration = Duration::from_millis(5);
/// The longest that a server lives.
const LIFE_MS: u64 = 300;
/// Offers at once just before it dies, so that some are between their commit and their answer.
const LAST: u32 = 24;

/// Offers one callback; its name, once the server has acknowledged it.
async fn offered(to: SocketAddr, destination: String) -> Option<(String, String)> {
    let body = wanted(&destination).to_string();
    let mut stream = TcpStream::connect(to).await.ok()?;
    let head = format!("POST /v1/callbacks HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n");
    let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let made: Value = serde_json::from_str(body).ok()?;
    let is_made = head.starts_with("HTTP/1.1 201");
    is_made.then(|| (made["id"].as_str().unwrap_or_default().to_owned(), destination))
}

/// All that is on record: destinations by name.
async fn on_record(server: &Served) -> BTreeMap<String, String> {
    let (mut all, mut after) = (BTreeMap::new(), String::new());
    loop {
        let path = format!("/v1/callbacks?limit=500{after}");
        let page = http::ask(server.address, "GET", &path, &[], "").await.json();
        let listed = page["callbacks"].as_array().unwrap_or_else(|| panic!("{page:#}")).clone();
        for callback in &listed {
            let text = |key: &str| callback[key].as_str().unwrap_or_default().to_owned();
            all.insert(text("id"), text("destination"));
        }
        match listed.last() {
            Some(last) if listed.len() == 500 => {
                after = format!("&after={}", last["id"].as_str().unwrap_or_default());
            }
            _ => return all,
        }
    }
}

#[tokio::test]
async fn no_acknowledged_callback_is_lost_when_the_server_is_killed() {
    let kills = std::env::var("FLOORKEEPER_KILLS").ok().and_then(|kills| kills.parse().ok());
    let kills: u32 = kills.unwrap_or(KILLS);
    let name = format!("killed-{}.db", std::process::id());
    let store = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let path = format!("store.path={store:?}");
    let settings = [path.as_str(), "limits.callback.slots=100000"];
    let (mut promised, mut number) = (BTreeMap::new(), 0_u32);
    for round in 0..kills {
        let mut server = Served::start(&settings).await;
        let mut asked = Vec::new();
        // Each server dies at another moment of its work.
        let life = Duration::from_millis(20 + u64::from(round) * 97 % LIFE_MS);
        let mut ticks = tokio::time::interval(EVERY);
        let death = tokio::time::sleep(life);
        tokio::pin!(death);
        let mut offer = |asked: &mut Vec<_>| {
            number += 1;
            let destination = format!("+1555{number:07}");
            asked.push(tokio::spawn(offered(server.address, destination)));
        };
        loop {
            tokio::select! {
                () = &mut death => break,
                _ = ticks.tick() => offer(&mut asked),
            }
        }
        (0..LAST).for_each(|_| offer(&mut asked));
        tokio::time::sleep(Duration::from_micros(u64::from(round) * 700 % 9_000)).await;
        server.kill().await;
        for answer in asked {
            promised.extend(answer.await.expect("no offer panics"));
        }
    }
    assert!(promised.len() > kills as usize, "{} promises in {kills} lives", promised.len());
    let server = Served::start(&settings).await;
    let kept = on_record(&server).await;
    for (id, destination) in &promised {
        assert_eq!(kept.get(id), Some(destination), "{id} was acknowledged and is lost");
    }
    let mut destinations: Vec<&String> = kept.values().collect();
    destinations.sort();
    let before = destinations.len();
    destinations.dedup();
    assert_eq!(destinations.len(), before, "nobody is on record twice");
    println!("{kills} kills, {number} offers, {} acknowledged, {before} on record", promised.len());
    drop(server);
    for file in ["db", "db-wal", "db-shm", "db.lock"] {
        let _ = std::fs::remove_file(store.with_extension(file)); // as many as there are
    }
}
