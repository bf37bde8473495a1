//! The call gate before the upgrade: who gets in, who waits, and what the others are told
//! (B-068…B-075, X-18).

use floorkeeper::id::Stage;
use futures_util::future::join_all;
use serde_json::json;

use crate::client::Client;
use crate::http::{self, Answer};
use crate::rig::{Rig, eventually};

/// Everything that a refusal has to say, whatever it is.
fn assert_refusal(
    answer: &Answer,
    status: u16,
    code: &str,
    retry_after: Option<&str>,
    reason: &str,
) {
    assert_eq!((answer.status, answer.code().as_str()), (status, code), "{answer:?}");
    assert_eq!(answer.header("retry-after"), retry_after, "B-068: {answer:?}");
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("x-floorkeeper-admission-reason"), Some(reason));
    for name in ["inflight", "queued", "limit"] {
        let value = answer.header(&format!("x-floorkeeper-admission-{name}"));
        assert!(value.is_some_and(|v| v.parse::<u64>().is_ok()), "B-069: {name} is {value:?}");
    }
    let body = answer.json();
    assert_eq!(body["gate"], "call", "{body:#}");
    assert!(body["jitter_hint_ms"].as_u64().is_some_and(|ms| ms < 1_000), "{body:#}");
    let told = retry_after.map(|seconds| seconds.parse::<u64>().unwrap());
    assert_eq!(body["retry_after"].as_u64(), told, "header and body agree: {body:#}");
}

/// A burst above slots and queue: two are let in, two wait, two are turned away; then each waiter
/// that there is room for gets in, in its order.
/// B-006, B-033, B-034.
#[tokio::test]
async fn a_burst_is_let_in_parked_or_turned_away() {
    let rig = Rig::start(&["limits.call.slots=2", "limits.call.queue=2"]).await;
    let address = rig.serving.address;
    let (first, second) = (Client::connect(&rig).await, Client::connect(&rig).await);
    let mut waiting = Vec::new();
    for parked in 1..=2 {
        waiting.push(http::knock(address, &[]).await);
        eventually("it is parked", || match rig.counts(Stage::Call).queued {
            queued if queued == parked => Ok(()),
            queued => Err(format!("{queued} are")),
        })
        .await;
    }
    for answer in join_all((0..2).map(|_| http::knocked(address, &[]))).await {
        assert_refusal(&answer, 429, "admission_capacity", Some("1"), "queue_full");
        let counted = ["inflight", "queued", "limit"].map(|name| {
            answer.header(&format!("x-floorkeeper-admission-{name}")).unwrap().to_owned()
        });
        assert_eq!(counted, ["2", "2", "2"], "live counts and the ceiling that refused");
    }
    first.hang_up().await;
    assert_eq!(http::answer(&mut waiting[0]).await.status, 101, "the first in the queue");
    second.hang_up().await;
    assert_eq!(http::answer(&mut waiting[1]).await.status, 101);
    drop(waiting);
    rig.quiet().await;
    let ledger = rig.ledger("call").await;
    assert_eq!((&ledger["offered"], &ledger["refused"]), (&json!(6), &json!(2)), "{ledger:#}");
    assert_eq!(ledger["refused_by_reason"], json!({"overloaded{queue_full}": 2}));
}

/// B-070, B-072, X-17: without a queue a held slot is 429, no slots at all is 503.
#[tokio::test]
async fn a_held_slot_and_no_slot_are_told_apart() {
    let rig = Rig::start(&["limits.call.slots=1", "limits.call.queue=0"]).await;
    let client = Client::connect(&rig).await;
    let answer = http::knocked(rig.serving.address, &[]).await;
    assert_refusal(&answer, 429, "admission_capacity", Some("1"), "no_queue");
    assert_eq!(rig.patch("call", "{\"slots\": 0}").await.status, 200);
    let answer = http::knocked(rig.serving.address, &[]).await;
    assert_refusal(&answer, 503, "admission_no_capacity", Some("5"), "no_capacity");
    client.hang_up().await;
    rig.quiet().await;
}

/// B-074: whoever waited the whole window is told so, with how long it was.
#[tokio::test]
async fn a_wait_that_runs_out_is_a_timeout() {
    let limits = ["limits.call.slots=1", "limits.call.queue=2", "limits.call.max_wait_ms=300"];
    let rig = Rig::start(&limits).await;
    let mut client = Client::connect(&rig).await;
    let answer = http::knocked(rig.serving.address, &[]).await;
    assert_refusal(&answer, 504, "admission_queue_timeout", Some("1"), "expired");
    let queued_ms = answer.json()["queued_ms"].as_u64().unwrap();
    assert!(queued_ms >= 300, "it may not be told sooner than that: {queued_ms} ms");
    client.ask("Are you still there?").await;
    assert_eq!(client.answered().await["status"], "completed", "the accepted call goes on");
    client.hang_up().await;
    rig.quiet().await;
}

/// A client that leaves while it is parked frees its place at once.
/// B-009, A-116.
#[tokio::test]
async fn a_parked_client_that_leaves_frees_its_place() {
    let limits = ["limits.call.slots=1", "limits.call.queue=1", "limits.call.max_wait_ms=60000"];
    let rig = Rig::start(&limits).await;
    let client = Client::connect(&rig).await;
    for round in 1..=5 {
        let parked = http::knock(rig.serving.address, &[]).await;
        eventually("it is parked", || match rig.counts(Stage::Call).queued {
            1 => Ok(()),
            other => Err(format!("{other} are, in round {round}")),
        })
        .await;
        drop(parked);
        eventually("its place is free", || match rig.counts(Stage::Call).queued {
            0 => Ok(()),
            other => Err(format!("{other} are, in round {round}")),
        })
        .await;
    }
    client.hang_up().await;
    rig.quiet().await;
    let ledger = rig.ledger("call").await;
    assert_eq!(ledger["terminal_by_kind"]["cancelled{hang_up}"], 5, "{ledger:#}");
    assert_eq!(ledger["anomalies"]["dropped"], 0, "{ledger:#}");
}

/// Clients that come and go while slots change hands leave every unit where it was.
/// A-148, B-036.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_waiters_and_grants_cross() {
    let limits = ["limits.call.slots=2", "limits.call.queue=8", "limits.call.max_wait_ms=60000"];
    let rig = Rig::start(&limits).await;
    let address = rig.serving.address;
    let comers = (0..60_u32).map(|number| async move {
        let mut stream = http::knock(address, &[]).await;
        // A third leaves at once, parked or not; the others call and hang up as soon as they are
        // in.
        if number % 3 != 0 {
            http::answer(&mut stream).await;
        }
    });
    join_all(comers).await;
    rig.quiet().await;
    let ledger = rig.ledger("call").await;
    assert_eq!(ledger["anomalies"]["dropped"], 0, "{ledger:#}");
    let (first, second) = (Client::connect(&rig).await, Client::connect(&rig).await);
    first.hang_up().await;
    second.hang_up().await;
}

/// B-071: a tenant at its share is told so while others still get in.
#[tokio::test]
async fn a_tenant_at_its_share_is_told_so() {
    let file = std::env::temp_dir().join(format!("floorkeeper-shares-{}", std::process::id()));
    std::fs::write(&file, "key-of-ada ada\nkey-of-bob bob\n").unwrap();
    let keys = format!("auth.keys_file=\"{}\"", file.display());
    let limits = [
        &keys,
        "limits.call.slots=2",
        "limits.call.queue=0",
        "limits.call.fairness=hard_cap",
        "limits.call.tenant_share_pct=50",
    ];
    let rig = Rig::start(&limits).await;
    std::fs::remove_file(&file).unwrap();
    let (ada, bob) = ("Bearer key-of-ada", "Bearer key-of-bob");
    let mut first = http::knock(rig.serving.address, &[("Authorization", ada)]).await;
    assert_eq!(http::answer(&mut first).await.status, 101);
    let refused = http::knocked(rig.serving.address, &[("Authorization", ada)]).await;
    assert_refusal(&refused, 429, "admission_tenant_share", Some("1"), "tenant_share");
    let mut other = http::knock(rig.serving.address, &[("Authorization", bob)]).await;
    assert_eq!(http::answer(&mut other).await.status, 101, "bob does not pay for ada");
    drop((first, other));
    rig.quiet().await;
}
