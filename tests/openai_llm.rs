//! The chat completions provider against backends that behave, stall, break, babble and lie (A-148,
//!

mod openai_server;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use floorkeeper::dialogue::{Finish, Message, ModelRequest, Role, ToolCall, Usage};
use floorkeeper::evidence::Evidence;
use floorkeeper::fault::Fault;
use floorkeeper::provider::llm::{Llm, ModelSignal, openai};
use floorkeeper::provider::{Cancel, Ended};
use openai_server::*;
use tokio::sync::{Notify, mpsc};

fn build(server: &Server, more: &str) -> Arc<dyn Llm> {
    (openai::ENTRY.build)(&server.table(more), &surroundings()).unwrap()
}

fn start(llm: &Arc<dyn Llm>) -> Running<ModelSignal> {
    let hello = Message::Said { role: Role::User, text: "hello".into() };
    let request = ModelRequest { history: vec![hello], ..ModelRequest::default() };
    let (out, signals) = mpsc::channel(64);
    let cancel = Cancel::new();
    let run = tokio::spawn(llm.clone().run(request, out, cancel.clone()));
    Running { cancel, signals, run }
}

async fn outcome(server: &Server, more: &str) -> (Vec<ModelSignal>, Ended) {
    start(&build(server, more)).end().await
}

fn text(words: &str) -> ModelSignal {
    ModelSignal::Text(words.into())
}

fn stopped_by_backend() -> Ended {
    Ended::stopped(Evidence::StreamClosedByBackend)
}

#[tokio::test]
async fn an_answer_is_streamed_and_the_connection_used_again() {
    let (seen, mut requests) = mpsc::channel(4);
    let server = Server::start(move |mut conn| {
        let seen = seen.clone();
        async move {
            while let Some(request) = conn.try_request().await {
                seen.send(request).await.unwrap();
                conn.write(whole_answer("Hi there.")).await;
            }
        }
    })
    .await;
    let llm = build(&server, "extra = { temperature = 0.5 }");
    for _ in 0..3 {
        let (signals, ended) = start(&llm).end().await;
        let usage = Usage { input_tokens: 5, output_tokens: 2 };
        let finished = ModelSignal::Finished { finish: Finish::Stop, usage };
        assert_eq!(signals, [text("Hi there."), finished]);
        assert_eq!(ended, Ended::completed());
    }
    assert_eq!(server.accepted(), 1);
    let request = requests.recv().await.unwrap();
    assert!(request.head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{}", request.head);
    let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(body["stream"], true);
    assert_eq!(body["temperature"], 0.5);
    assert_eq!(body["messages"][0]["content"], "hello");
}

/// A-113…A-120: the backend's own close is the evidence; what it still sends is thrown away.
#[tokio::test]
async fn a_cancel_is_a_half_close_and_late_words_are_not_passed_on() {
    let (told, mut still_read) = mpsc::channel(1);
    let server = Server::start(move |mut conn| {
        let told = told.clone();
        async move {
            conn.request().await;
            conn.write(SSE_HEAD).await;
            conn.chunk(&words("One")).await;
            conn.end_of_file().await;
            let late = words("late").repeat(50_000);
            told.send(conn.chunk(&late).await).await.unwrap();
        }
    })
    .await;
    let mut running = start(&build(&server, ""));
    assert_eq!(running.next().await, text("One"));
    running.cancel.cancel();
    let (signals, ended) = running.end().await;
    assert_eq!(signals, []);
    assert_eq!(ended, stopped_by_backend());
    assert_eq!(still_read.recv().await, Some(true), "the client reads on");
}

#[tokio::test]
async fn no_evidence_comes_before_the_backend_has_closed() {
    let (half_closed, let_go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (seen, go) = (half_closed.clone(), let_go.clone());
    let server = Server::start(move |mut conn| {
        let (seen, go) = (seen.clone(), go.clone());
        async move {
            conn.request().await;
            conn.write(SSE_HEAD).await;
            conn.chunk(&words("One")).await;
            conn.end_of_file().await;
            seen.notify_one();
            go.notified().await;
        }
    })
    .await;
    let mut running = start(&build(&server, "first_byte_ms = 50\ntotal_ms = 200"));
    running.next().await;
    running.cancel.cancel();
    half_closed.notified().await;
    assert!(!running.run.is_finished());
    let_go.notify_one();
    assert_eq!(running.end().await.1, stopped_by_backend());
}

#[tokio::test]
async fn a_cancel_before_the_head_and_one_answered_by_a_reset_have_evidence_too() {
    for resets in [false, true] {
        let asked = Arc::new(Notify::new());
        let seen = asked.clone();
        let server = Server::start(move |mut conn| {
            let seen = seen.clone();
            async move {
                conn.request().await;
                seen.notify_one();
                conn.end_of_file().await;
                if resets {
                    conn.reset();
                }
            }
        })
        .await;
        let running = start(&build(&server, ""));
        asked.notified().await;
        running.cancel.cancel();
        assert_eq!(running.end().await, (vec![], stopped_by_backend()), "reset: {resets}");
    }
}

#[tokio::test]
async fn drain_lets_it_run_out_and_documented_abort_just_leaves() {
    for (mode, evidence) in
        [("drain", Evidence::Completed), ("documented_abort", Evidence::DocumentedAbort)]
    {
        let cancelled = Arc::new(Notify::new());
        let go = cancelled.clone();
        let server = Server::start(move |mut conn| {
            let go = go.clone();
            async move {
                conn.request().await;
                conn.write(SSE_HEAD).await;
                conn.chunk(&words("One")).await;
                go.notified().await;
                conn.chunk(FINISH).await;
                conn.write("0\r\n\r\n").await;
                conn.end_of_file().await;
            }
        })
        .await;
        let mut running = start(&build(&server, &format!("cancel_evidence = \"{mode}\"")));
        running.next().await;
        running.cancel.cancel();
        cancelled.notify_one();
        assert_eq!(running.end().await, (vec![], Ended::stopped(evidence)), "{mode}");
    }
}

#[tokio::test]
async fn reconcile_asks_the_slots_until_ours_is_idle() {
    let ours = Arc::new(AtomicU64::new(0));
    let server = Server::start(move |mut conn| {
        let ours = ours.clone();
        async move {
            let request = conn.request().await;
            if request.head.starts_with("GET /slots ") {
                // Busy with our seed on the first two questions, then only with another's.
                let seed = ours.load(Ordering::SeqCst) + u64::from(conn.nth >= 3);
                let slots = format!("[{{\"is_processing\":true,\"params\":{{\"seed\":{seed}}}}}]");
                conn.write(plain("200 OK", "Content-Type: application/json\r\n", &slots)).await;
                return;
            }
            let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
            ours.store(body["seed"].as_u64().unwrap(), Ordering::SeqCst);
            conn.write(SSE_HEAD).await;
            conn.chunk(&words("One")).await;
            conn.end_of_file().await;
        }
    })
    .await;
    let mut running = start(&build(&server, "cancel_evidence = \"reconcile\""));
    running.next().await;
    running.cancel.cancel();
    let (_, ended) = running.end().await;
    assert_eq!(ended, Ended::stopped(Evidence::AbortAcknowledged));
    assert_eq!(server.accepted(), 4);
}

#[tokio::test]
async fn nobody_there_means_nothing_started() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let table = format!("base_url = \"http://{address}/v1\"\nmodel = \"m\"").parse().unwrap();
    let llm = (openai::ENTRY.build)(&table, &surroundings()).unwrap();
    let (_, ended) = start(&llm).end().await;
    assert_eq!(ended.proof, Ok(Evidence::NeverStarted));
    assert_eq!(ended.fault.unwrap().label(), "lost");
}

/// F 105: it accepts TCP and never answers TLS.
#[tokio::test]
async fn a_handshake_that_never_comes_is_slow_and_started_nothing() {
    let server = Server::start(|mut conn| async move { conn.end_of_file().await }).await;
    let text =
        format!("base_url = \"https://{}/v1\"\nmodel = \"m\"\nconnect_ms = 60", server.address);
    let llm = (openai::ENTRY.build)(&text.parse().unwrap(), &surroundings()).unwrap();
    let (_, ended) = start(&llm).end().await;
    let slow = Fault::Slow { deadline: "connect" };
    assert_eq!(ended, Ended::failed(slow, Ok(Evidence::NeverStarted)));
}

/// F 109, F 110: refusals are told with their status, the wait clamped; no redirect is followed.
#[tokio::test]
async fn refusals_of_the_backend_are_told_as_they_are() {
    for (status, headers, wait) in [
        (429, "Retry-After: 2\r\n", Some(2_000)),
        (503, "Retry-After: 999999\r\n", Some(60_000)),
        (500, "", None),
        (429, "Retry-After: -1\r\n", None),
        (302, "Location: http://127.0.0.1:1/\r\n", None),
    ] {
        let answer = plain(&format!("{status} No"), headers, "{\"error\":\"key sk-secret\"}");
        let server = Server::answering(answer).await;
        let (signals, ended) = outcome(&server, "").await;
        let rejected = Fault::Rejected { status, retry_after_ms: wait };
        assert_eq!(ended, Ended::failed(rejected, Ok(Evidence::Completed)), "{status} {headers}");
        assert_eq!((signals, server.accepted()), (vec![], 1));
    }
}

async fn stalling(before: String, drip: Option<&'static str>) -> Server {
    Server::start(move |mut conn| {
        let before = before.clone();
        async move {
            conn.request().await;
            conn.write(before).await;
            match drip {
                None => conn.end_of_file().await,
                Some(piece) => {
                    while conn.chunk(piece).await {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                }
            }
        }
    })
    .await
}

/// F 105: a stall before the head, behind it, keep-alives only, empty deltas only.
#[tokio::test]
async fn what_brings_no_useful_token_in_time_is_slow() {
    let role = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
    for (before, drip) in [
        (String::new(), None),
        (SSE_HEAD.to_owned(), None),
        (SSE_HEAD.to_owned(), Some(": keep-alive\n\n")),
        (SSE_HEAD.to_owned(), Some(role)),
        ("HTTP/1.1 200 OK\r\nContent-".to_owned(), None),
    ] {
        let server = stalling(before.clone(), drip).await;
        let (signals, ended) = outcome(&server, "first_byte_ms = 100").await;
        let slow = Fault::Slow { deadline: "first_byte" };
        assert_eq!(ended.fault, Some(slow), "{before:?} {drip:?}");
        assert_eq!(signals, []);
    }
}

/// F 107: an endless answer, fast or dripping, ends at the bound of time or bytes.
#[tokio::test]
async fn endless_answers_are_cut() {
    let drip = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";
    let server = stalling(SSE_HEAD.to_owned(), Some(drip)).await;
    let running = start(&build(&server, "total_ms = 150"));
    let (signals, ended) = running.end().await;
    assert_eq!(ended.fault, Some(Fault::Slow { deadline: "total" }));
    assert!(!signals.is_empty());
    let (_, ended) = outcome(&server, "max_bytes = 1024").await;
    assert_eq!(ended.fault.unwrap().label(), "garbled");
}

/// F 106: broken in the body; the connection is not used again.
#[tokio::test]
async fn a_stream_that_breaks_is_lost_and_its_end_proven() {
    for resets in [false, true] {
        let server = Server::start(move |mut conn| async move {
            conn.request().await;
            conn.write(SSE_HEAD).await;
            conn.chunk(&words("One")).await;
            conn.write("40\r\ndata: {").await;
            // The words are out before the reset throws away what is on its way.
            tokio::time::sleep(Duration::from_millis(30)).await;
            if resets {
                conn.reset();
            }
        })
        .await;
        let llm = build(&server, "");
        for connection in 1..=2 {
            let (signals, ended) = start(&llm).end().await;
            assert_eq!(signals, [text("One")]);
            assert_eq!(ended.proof, Ok(Evidence::StreamClosedByBackend));
            assert_eq!(ended.fault.unwrap().label(), "lost");
            assert_eq!(server.accepted(), connection);
        }
    }
}

/// F 111: what is not the protocol is garbled, whatever its status says.
#[tokio::test]
async fn garbage_is_called_garbage() {
    let sse = |body: &str| format!("{SSE_HEAD}{}0\r\n\r\n", chunked(body));
    let long_line = "y".repeat(70_000);
    for (what, answer) in [
        ("no HTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n".to_owned()),
        ("an HTML page", plain("200 OK", "Content-Type: text/html\r\n", "<html>busy</html>")),
        ("HTML as events", sse("<html>\n<body>busy</body>\n")),
        ("truncated JSON", sse("data: {\"choices\":[{\"del\n\n")),
        ("other JSON", sse("data: {\"ok\":true}\n\n")),
        ("no blank lines", sse("data: {\"choices\":[]}\ndata: {\"choices\":[]}\n")),
        ("no end", sse(&words("One"))),
        ("a huge line", sse(&format!("data: {long_line}"))),
        ("a huge head", format!("HTTP/1.1 200 OK\r\nX: {long_line}\r\n\r\n")),
        ("a bad chunk size", format!("{SSE_HEAD}zz\r\n")),
        (
            "a content encoding",
            plain("200 OK", "Content-Type: text/event-stream\r\nContent-Encoding: gzip\r\n", "x"),
        ),
    ] {
        let server = Server::answering(answer).await;
        let (_, ended) = outcome(&server, "first_byte_ms = 3000").await;
        let fault = ended.fault.unwrap_or_else(|| panic!("{what} is no answer"));
        assert_eq!(fault.label(), "garbled", "{what}: {fault}");
        assert!(ended.proof.is_ok(), "{what}: {:?}", ended.proof);
    }
}

#[tokio::test]
async fn bytes_that_are_no_text_are_garbage() {
    let mut answer = format!("{SSE_HEAD}8\r\ndata: ").into_bytes();
    answer.extend_from_slice(b"\xff\n\r\n0\r\n\r\n");
    let server = Server::answering(answer).await;
    assert_eq!(outcome(&server, "").await.1.fault.unwrap().label(), "garbled");
}

#[tokio::test]
async fn an_empty_answer_and_an_error_in_the_stream_are_faults() {
    let sse = |body: &str| format!("{SSE_HEAD}{}0\r\n\r\n", chunked(body));
    let server = Server::answering(sse(FINISH)).await;
    let (_, ended) = outcome(&server, "").await;
    assert_eq!(ended, Ended::failed(Fault::Empty, Ok(Evidence::Completed)));
    let error = "data: {\"error\":{\"code\":503,\"message\":\"loading\"}}\n\n";
    let server = Server::answering(sse(error)).await;
    assert!(outcome(&server, "").await.1.fault.unwrap().is_overload());
}

#[tokio::test]
async fn an_end_mark_is_enough_even_if_the_stream_goes_on() {
    let before = format!("{SSE_HEAD}{}{}", chunked(&words("Hi.")), chunked(FINISH));
    let server = stalling(before, Some(": still here\n\n")).await;
    let (signals, ended) = outcome(&server, "").await;
    assert_eq!(signals.len(), 2);
    assert_eq!(ended, Ended::completed());
}

#[tokio::test]
async fn an_answer_that_finished_without_its_end_mark_is_whole() {
    let finish = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    let before = format!("{SSE_HEAD}{}{}", chunked(&words("Hi.")), chunked(finish));
    let server = stalling(before, None).await;
    let (signals, ended) = outcome(&server, "first_byte_ms = 400").await;
    assert_eq!(signals.len(), 2);
    assert_eq!(ended, stopped_by_backend());
}

#[tokio::test]
async fn a_connection_closed_while_idle_is_replaced_once() {
    let server = Server::start(|mut conn| async move {
        conn.request().await;
        if conn.nth == 0 {
            conn.write(whole_answer("One")).await;
            // The second request on this connection gets no byte.
            conn.request().await;
        } else {
            conn.write(whole_answer("Two")).await;
        }
    })
    .await;
    let llm = build(&server, "");
    assert_eq!(start(&llm).end().await.0[0], text("One"));
    let (signals, ended) = start(&llm).end().await;
    assert_eq!(signals[0], text("Two"));
    assert_eq!((ended, server.accepted()), (Ended::completed(), 2));
}

#[tokio::test]
async fn a_fresh_connection_that_breaks_is_not_tried_again() {
    let server = Server::start(|mut conn| async move {
        conn.request().await;
    })
    .await;
    let (_, ended) = outcome(&server, "").await;
    assert_eq!(ended.proof, Ok(Evidence::StreamClosedByBackend));
    assert_eq!(ended.fault.unwrap().label(), "lost");
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn tool_calls_come_whole() {
    let body = "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c1\",\"function\":{\"name\":\"x\",\"arguments\":\"{\\\"a\\\"\"}}]}}]}\n\ndata: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\":1}\"}}]}}]}\n\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";
    let server = Server::answering(format!("{SSE_HEAD}{}0\r\n\r\n", chunked(body))).await;
    let (signals, ended) = outcome(&server, "").await;
    let call = ToolCall { call_id: "c1".into(), name: "x".into(), arguments: "{\"a\":1}".into() };
    let finished = ModelSignal::Finished { finish: Finish::ToolCalls, usage: Usage::default() };
    assert_eq!(signals, [ModelSignal::ToolCall(call), finished]);
    assert_eq!(ended, Ended::completed());
}

#[tokio::test]
async fn a_run_whose_reader_has_gone_stops_the_backend() {
    let server = stalling(format!("{SSE_HEAD}{}", chunked(&words("One"))), None).await;
    let running = start(&build(&server, ""));
    drop(running.signals);
    let ended = tokio::time::timeout(PATIENCE, running.run).await.unwrap().unwrap();
    assert_eq!(ended, stopped_by_backend());
}
