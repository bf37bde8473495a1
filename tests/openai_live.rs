//! The chat completions provider against a real llama.cpp server, when `FLOORKEEPER_LLAMA_URL`
//! names one (its root, started with `--slots`): what a cancel proves there.

mod openai_server;

use std::time::Duration;

use floorkeeper::dialogue::{Message, ModelRequest, Role};
use floorkeeper::evidence::Evidence;
use floorkeeper::provider::Cancel;
use floorkeeper::provider::llm::{ModelSignal, openai};
use openai_server::{PATIENCE, Running, surroundings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

fn start(root: &str, mode: &str, question: &str, max_tokens: u32) -> Running<ModelSignal> {
    let table = format!(
        "base_url = \"{root}/v1\"\nmodel = \"any\"\nfirst_byte_ms = 30000\ncancel_evidence = \"{mode}\"\n\
         extra = {{ temperature = 0.7 }}"
    );
    let llm = (openai::ENTRY.build)(&table.parse().unwrap(), &surroundings()).unwrap();
    let said = Message::Said { role: Role::User, text: question.into() };
    let request = ModelRequest {
        instructions: "You tell stories.".into(),
        history: vec![said],
        max_tokens: Some(max_tokens),
        ..ModelRequest::default()
    };
    let (out, signals) = mpsc::channel(256);
    let cancel = Cancel::new();
    let run = tokio::spawn(llm.run(request, out, cancel.clone()));
    Running { cancel, signals, run }
}

/// How many slots of the server are at work.
async fn busy_slots(root: &str) -> usize {
    let address = root.trim_start_matches("http://");
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET /slots HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    answer.matches("\"is_processing\":true").count()
}

#[tokio::test]
#[ignore = "needs a llama.cpp server: FLOORKEEPER_LLAMA_URL=http://127.0.0.1:18080"]
async fn a_real_server_stops_when_it_is_cancelled_in_mid_answer() {
    let root = std::env::var("FLOORKEEPER_LLAMA_URL").expect("FLOORKEEPER_LLAMA_URL");
    let (signals, ended) = start(&root, "half_close", "Say hello.", 24).end().await;
    let text: String = signals
        .iter()
        .filter_map(|signal| match signal {
            ModelSignal::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    println!("answer: {text:?}; {:?}; {ended:?}", signals.last());
    assert!(!text.is_empty());
    assert_eq!((ended.proof, ended.fault), (Ok(Evidence::Completed), None));
    for (mode, expected) in [
        ("half_close", Evidence::StreamClosedByBackend),
        ("reconcile", Evidence::AbortAcknowledged),
    ] {
        let (mut evidence_ms, mut idle_ms) = (Vec::new(), Vec::new());
        for round in 0..20 {
            let mut running = start(&root, mode, "Tell a very long story about a king.", 1_500);
            for _ in 0..3 + round % 5 {
                running.next().await;
            }
            assert_eq!(busy_slots(&root).await, 1, "it is at work before the cancel");
            let since = tokio::time::Instant::now();
            running.cancel.cancel();
            let (_, ended) = running.end().await;
            evidence_ms.push(since.elapsed().as_millis());
            assert_eq!(ended.proof, Ok(expected));
            if expected == Evidence::AbortAcknowledged {
                assert_eq!(busy_slots(&root).await, 0, "the backend's own word is exact");
            }
            let idle = async {
                while busy_slots(&root).await > 0 {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            };
            tokio::time::timeout(PATIENCE, idle).await.expect("the slot becomes idle");
            idle_ms.push(since.elapsed().as_millis());
        }
        println!("{mode}: evidence after {evidence_ms:?} ms, slots idle after {idle_ms:?} ms");
    }
}

/// The server has two slots (`-np 2`): the third request waits inside it. llama.cpp looks after the
/// connection of a waiting request only when no slot has said anything for a second, so evidence
/// may come as late as the end of the others; it does come, and never before.
#[tokio::test]
#[ignore = "needs a llama.cpp server: FLOORKEEPER_LLAMA_URL=http://127.0.0.1:18080"]
async fn a_real_server_lets_go_of_a_request_in_its_queue() {
    let root = std::env::var("FLOORKEEPER_LLAMA_URL").expect("FLOORKEEPER_LLAMA_URL");
    let mut running = Vec::new();
    for _ in 0..2 {
        let mut one = start(&root, "half_close", "Tell a very long story about a king.", 1_500);
        one.next().await;
        running.push(one);
    }
    assert_eq!(busy_slots(&root).await, 2);
    let queued = start(&root, "reconcile", "Tell a very long story about a queen.", 1_500);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let since = tokio::time::Instant::now();
    queued.cancel.cancel();
    for one in running {
        one.cancel.cancel();
        assert!(one.end().await.1.proof.is_ok());
    }
    let (_, ended) = queued.end().await;
    println!("queued: {ended:?} after {} ms", since.elapsed().as_millis());
    assert_eq!(ended.proof, Ok(Evidence::AbortAcknowledged));
    assert_eq!(busy_slots(&root).await, 0);
}
