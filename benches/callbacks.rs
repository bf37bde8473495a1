//! Accepted callbacks a second with full durability, beside one commit for each record; the ratios
//! are printed at the end.

use std::collections::VecDeque;
use std::path::PathBuf;

use floorkeeper::runtime::clock::Clock;
use floorkeeper::store::{CallbackStore, Consent, Key, Limits, Offer, SqliteStore};
use hdrhistogram::Histogram;

const NOW: u64 = 1_800_000_000_000;

fn offer(n: u64) -> Offer {
    Offer {
        tenant: format!("tenant-{}", n % 100),
        destination: format!("sip:caller-{n}@example.com"),
        why: "the opening hours of the shop in the high street".to_owned(),
        language: "en".to_owned(),
        call: format!("call-{n}"),
        incarnation: "bench".to_owned(),
        born_ms: NOW,
        not_before_ms: NOW,
        expires_ms: NOW + 3_600_000,
        attempts_max: 3,
        backoff_ms: 60_000,
        consent: Consent {
            asked: "We cannot take your question now. Shall we call you back?".to_owned(),
            said: "yes please".to_owned(),
            at_ms: NOW,
            call: format!("call-{n}"),
            turn: 1,
        },
        quiet: None,
        authorisation: "policy-1".to_owned(),
        key: Some(Key { name: format!("key-{n}"), digest: "d".to_owned() }),
        replays: None,
    }
}

/// What a run came to.
struct Run {
    name: String,
    per_second: f64,
    p50_us: u64,
    p99_us: u64,
}

fn ran(name: String, count: u64, total_us: u64, times: &Histogram<u64>) -> Run {
    let per_second = count as f64 / (total_us as f64 / 1e6);
    let (p50_us, p99_us) = (times.value_at_quantile(0.5), times.value_at_quantile(0.99));
    Run { name, per_second, p50_us, p99_us }
}

fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three digits")
}

/// The floor: the same row into the same kind of file, a commit for each, nothing around it.
fn floor(folder: &std::path::Path, count: u64) -> Run {
    let file = rusqlite::Connection::open(folder.join("floor.sqlite3")).expect("a file");
    file.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
         CREATE TABLE callbacks (id TEXT PRIMARY KEY, destination TEXT, due_ms INTEGER, \
         offer TEXT); CREATE INDEX due ON callbacks (due_ms); \
         CREATE UNIQUE INDEX destination ON callbacks (destination);",
    )
    .expect("a table");
    let (clock, mut times) = (Clock::start(), histogram());
    for n in 0..count {
        let before = clock.now();
        let offer = offer(n);
        let text = serde_json::to_string(&offer).expect("JSON");
        let mut insert =
            file.prepare_cached("INSERT INTO callbacks VALUES (?1, ?2, ?3, ?4)").expect("SQL");
        let id = format!("{n:032x}");
        insert.execute((id, &offer.destination, NOW as i64, text)).expect("a commit");
        times.record(clock.now().micros_since(before)).expect("within the range");
    }
    let name = "one commit a record, bare SQLite".to_owned();
    ran(name, count, clock.now().as_micros(), &times)
}

/// The store, with so many offers under way at once.
async fn store(folder: &std::path::Path, count: u64, under_way: usize) -> Run {
    let limits = Limits { records: 1 << 30, tenant: 1 << 30, bytes: 1 << 40, ..Limits::default() };
    let path = folder.join(format!("store-{under_way}.sqlite3"));
    let store = SqliteStore::open(&path, limits).expect("a store");
    let (clock, mut times) = (Clock::start(), histogram());
    let mut waiting = VecDeque::new();
    for n in 0..count {
        if waiting.len() == under_way {
            told(waiting.pop_front(), &clock, &mut times).await;
        }
        waiting.push_back((clock.now(), store.accept(offer(n), NOW)));
    }
    while !waiting.is_empty() {
        told(waiting.pop_front(), &clock, &mut times).await;
    }
    let name = format!("the store, {under_way} offers under way");
    ran(name, count, clock.now().as_micros(), &times)
}

type Waiting =
    (floorkeeper::time::Timestamp, floorkeeper::store::Answer<floorkeeper::store::Accepted>);

async fn told(waiting: Option<Waiting>, clock: &Clock, times: &mut Histogram<u64>) {
    let Some((asked, answer)) = waiting else { return };
    let accepted = answer.await.expect("it is accepted");
    assert!(accepted.receipt.is_some());
    times.record(clock.now().micros_since(asked)).expect("within the range");
}

#[tokio::main]
async fn main() {
    let quick = std::env::args().any(|word| word == "--quick" || word == "--test");
    let count = if quick { 300 } else { 10_000 };
    // Beside the build, as a folder for temporary files may be in memory, where a flush is nothing.
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("callbacks-bench");
    let _ = std::fs::remove_dir_all(&folder); // of a run that was stopped
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut runs = vec![floor(&folder, count)];
    for under_way in [1, 16, 256] {
        runs.push(store(&folder, count, under_way).await);
    }
    let bare = runs[0].per_second;
    println!("{count} callbacks each, every one flushed before its answer");
    println!("{:<36} {:>10} {:>9} {:>9} {:>8}", "", "a second", "p50 us", "p99 us", "ratio");
    for Run { name, per_second, p50_us, p99_us } in &runs {
        let ratio = per_second / bare;
        println!("{name:<36} {per_second:>10.0} {p50_us:>9} {p99_us:>9} {ratio:>8.2}");
    }
    let _ = std::fs::remove_dir_all(&folder);
}
