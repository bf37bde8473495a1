//! The real binary: what refused and short calls leave behind, counted in its own descriptors and
//! threads.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{FuturesUnordered, iter};
use serde_json::json;

use crate::http;
use crate::served::Served;

/// One handshake, and an end as soon as it is answered.
async fn knock_and_leave(address: SocketAddr) -> u16 {
    http::knocked(address, &[]).await.status
}

/// So many handshakes, eight at a time; gives how many got this status.
async fn knock_often(address: SocketAddr, times: usize, status: u16) -> usize {
    let knocks = iter(0..times).map(|_| knock_and_leave(address)).buffer_unordered(8);
    knocks.filter(|got| std::future::ready(*got == status)).count().await
}

/// 500 refused and 500 short calls leave no descriptor, call, unit or waiter behind
/// (notes/reliability.md, finding 4).
#[tokio::test]
async fn refused_and_short_calls_leave_nothing_behind() {
    let served = Served::start(&["limits.call.slots=8", "limits.call.queue=0"]).await;
    let address = served.address;
    // The first calls make what is made once; one that comes too soon behind another is refused.
    knock_often(address, 16, 101).await;
    let settled = settle(&served, None).await;
    let refused_before = refused_calls(address).await;
    let holders: FuturesUnordered<_> = (0..8).map(|_| http::knock(address, &[])).collect();
    let mut holders: Vec<_> = holders.collect().await;
    for holder in &mut holders {
        assert_eq!(http::answer(holder).await.status, 101);
    }
    assert_eq!(knock_often(address, 500, 429).await, 500, "refused: every slot is held");
    drop(holders);
    settle(&served, Some(settled)).await;
    let patched = http::ask(address, "PATCH", "/v1/admission/call", &[], "{\"slots\": 600}").await;
    assert_eq!(patched.status, 200);
    assert_eq!(knock_often(address, 500, 101).await, 500, "short calls");
    settle(&served, Some(settled)).await;
    assert_eq!(refused_calls(address).await - refused_before, 500);
}

/// What the ledger, which balances, says of refused calls.
async fn refused_calls(address: SocketAddr) -> u64 {
    let ledger = http::ask(address, "GET", "/v1/ledger", &[], "").await.json();
    assert_eq!(ledger["balances"], true, "{ledger:#}");
    let call = &ledger["gates"][0];
    assert_eq!((&call["gate"], &call["quarantined"]), (&json!("call"), &json!(0)), "{call:#}");
    call["refused"].as_u64().unwrap()
}

/// Waits until no call is live and, where it is given, the descriptors are as many again; gives how
/// many.
async fn settle(served: &Served, wanted: Option<usize>) -> usize {
    let mut last = (0, String::new());
    for _ in 0..200 {
        let drain = http::ask(served.address, "GET", "/v1/drain", &[], "").await.json();
        tokio::time::sleep(Duration::from_millis(100)).await;
        last = (served.descriptors(), drain["in_flight"].to_string());
        if last.1 == "0" && wanted.is_none_or(|wanted| last.0 <= wanted) {
            return last.0;
        }
    }
    panic!("{} descriptors, {} calls; there were {wanted:?} descriptors", last.0, last.1);
}

/// A command of the binary that ends by itself: its exit code and what it says.
fn said(arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_floorkeeper"));
    let child: Child = command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Issue 2: a port in use is said, with what would be right.
#[test]
fn a_port_in_use_is_said() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let scripted = ["llm.provider=scripted", "asr.provider=scripted", "tts.provider=scripted"];
    let mut arguments = vec!["serve", "--listen", &address];
    arguments.extend(scripted.iter().flat_map(|set| ["--set", set]));
    let (code, told) = said(&arguments);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains(&address) && told.contains("in use"), "{told}");
    assert!(told.contains("--listen"), "what would be right: {told}");
}

/// Issue 2: an unknown key and an impossible value are bad input, named with what would be right.
#[test]
fn a_wrong_configuration_is_said() {
    let wrong = [
        ("limits.model.slotz=3", "limits.model.slots"),
        ("limits.model.slots=-3", "limits.model.slots"),
        ("turn.budget_ms=never", "turn.budget_ms"),
        ("realtime.dead_after_ms=1000", "realtime.ping_ms"),
        ("listen=\"0.0.0.0:0\"", "auth.keys_file"),
    ];
    for (set, named) in wrong {
        let (code, told) = said(&["serve", "--set", set]);
        assert_eq!(code, Some(2), "{set}: {told}");
        assert!(told.contains(named), "{set}: {told}");
    }
}
