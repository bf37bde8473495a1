//! The speech provider against backends that speak, break off and send something else (A-148,
//!

mod openai_server;

use std::sync::Arc;

use floorkeeper::evidence::Evidence;
use floorkeeper::fault::Fault;
use floorkeeper::provider::tts::{Phrase, Tts, TtsOptions, TtsSignal, openai};
use floorkeeper::provider::{Cancel, Ended};
use openai_server::*;
use tokio::sync::mpsc;

/// The head of a streamed sound.
const SOUND_HEAD: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: audio/pcm\r\nTransfer-Encoding: chunked\r\n\r\n";

fn build(server: &Server, more: &str) -> Arc<dyn Tts> {
    (openai::ENTRY.build)(&server.table(more), &surroundings()).unwrap()
}

/// Starts a run with these phrases already said and the input closed.
async fn start(tts: &Arc<dyn Tts>, phrases: &[&str]) -> Running<TtsSignal> {
    let (say, input) = mpsc::channel(8);
    for (index, text) in phrases.iter().enumerate() {
        say.send(Phrase { index: index as u32, text: (*text).into() }).await.unwrap();
    }
    let (out, signals) = mpsc::channel(64);
    let cancel = Cancel::new();
    let options = TtsOptions { voice: None, language: "en".into(), speed: 1.1 };
    let run = tokio::spawn(tts.clone().run(options, input, out, cancel.clone()));
    Running { cancel, signals, run }
}

async fn fault(answer: Vec<u8>, more: &str) -> Ended {
    let server = Server::answering(answer).await;
    start(&build(&server, more), &["One."]).await.end().await.1
}

fn samples(signals: &[TtsSignal], of: u32) -> Vec<i16> {
    let pieces = signals.iter().filter_map(|signal| match signal {
        TtsSignal::Audio { phrase, pcm } if *phrase == of => {
            assert_eq!(pcm.rate_hz, 24_000);
            Some(pcm.samples.clone())
        }
        _ => None,
    });
    pieces.flatten().collect()
}

#[tokio::test]
async fn phrases_are_asked_for_in_order_and_their_bytes_put_together() {
    let (seen, mut requests) = mpsc::channel(4);
    let server = Server::start(move |mut conn| {
        let seen = seen.clone();
        async move {
            while let Some(request) = conn.try_request().await {
                seen.send(request).await.unwrap();
                conn.write(SOUND_HEAD).await;
                // Three samples, cut in the middle of one.
                conn.write(b"3\r\n\x01\x00\x02\r\n").await;
                conn.write(b"3\r\n\x00\x03\x00\r\n0\r\n\r\n").await;
            }
        }
    })
    .await;
    let tts = build(&server, "voice = \"nova\"");
    let (signals, ended) = start(&tts, &["One.", "Two."]).await.end().await;
    assert_eq!(ended, Ended::completed());
    assert_eq!((samples(&signals, 0), samples(&signals, 1)), (vec![1, 2, 3], vec![1, 2, 3]));
    let done = TtsSignal::PhraseDone { phrase: 1, words: vec![] };
    assert_eq!(signals.last(), Some(&done));
    assert_eq!(server.accepted(), 1);
    let request = requests.recv().await.unwrap();
    assert!(request.head.starts_with("POST /v1/audio/speech HTTP/1.1\r\n"), "{}", request.head);
    let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
    let expected = serde_json::json!({
        "model": "m", "input": "One.", "voice": "nova", "response_format": "pcm", "speed": 1.1,
    });
    assert_eq!(body, expected);
}

#[tokio::test]
async fn a_cancel_in_mid_phrase_is_a_half_close() {
    let (told, mut still_read) = mpsc::channel(1);
    let server = Server::start(move |mut conn| {
        let told = told.clone();
        async move {
            conn.request().await;
            conn.write(SOUND_HEAD).await;
            conn.write(b"2\r\n\x01\x00\r\n").await;
            conn.end_of_file().await;
            told.send(conn.write(vec![0_u8; 500_000]).await).await.unwrap();
        }
    })
    .await;
    let mut running = start(&build(&server, ""), &["One.", "Two."]).await;
    assert!(matches!(running.next().await, TtsSignal::Audio { phrase: 0, .. }));
    running.cancel.cancel();
    let ended = Ended::stopped(Evidence::StreamClosedByBackend);
    assert_eq!(running.end().await, (vec![], ended));
    assert_eq!((still_read.recv().await, server.accepted()), (Some(true), 1));
}

#[tokio::test]
async fn cancelled_before_the_first_phrase_nothing_was_sent() {
    let server = Server::answering("").await;
    let (_say, input) = mpsc::channel(1);
    let (out, _signals) = mpsc::channel(1);
    let cancel = Cancel::new();
    let options = TtsOptions { voice: None, language: "en".into(), speed: 1.0 };
    let run = build(&server, "").run(options, input, out, cancel.clone());
    cancel.cancel();
    assert_eq!(run.await, Ended::stopped(Evidence::NeverStarted));
    assert_eq!(server.accepted(), 0);
}

#[tokio::test]
async fn what_is_no_sound_is_a_fault() {
    let sound = "Content-Type: audio/pcm\r\n";
    let empty = fault(plain("200 OK", sound, "").into_bytes(), "").await;
    assert_eq!(empty, Ended::failed(Fault::Empty, Ok(Evidence::Completed)));
    for (media, body, more) in [
        ("text/html", "<html>", ""),
        ("application/json", "{}", ""),
        ("audio/mpeg", "ID3", ""),
        ("audio/wav", "RIFF0000JUNKJUNKJUNK", ""),
        ("audio/wav", "no wav at all", "format = \"wav\""),
    ] {
        let answer = plain("200 OK", &format!("Content-Type: {media}\r\n"), body);
        let ended = fault(answer.into_bytes(), more).await;
        assert_eq!(ended.fault.unwrap().label(), "garbled", "{media} {body}");
    }
    let busy = fault(plain("429 No", "Retry-After: 1\r\n", "").into_bytes(), "").await;
    assert!(busy.fault.unwrap().is_overload());
}

#[tokio::test]
async fn silence_of_the_backend_is_slow_and_endless_sound_is_cut() {
    let server = Server::start(|mut conn| async move {
        conn.request().await;
        conn.write("HTTP/1.1 200 OK\r\nContent-Type: audio/pcm\r\n\r\n").await;
        if conn.nth == 0 {
            return conn.end_of_file().await;
        }
        while conn.write([1_u8; 4_096]).await {}
    })
    .await;
    let tts = build(&server, "first_byte_ms = 80\nmax_bytes = 20000");
    let (_, ended) = start(&tts, &["One."]).await.end().await;
    assert_eq!(ended.fault, Some(Fault::Slow { deadline: "first_byte" }));
    let (signals, ended) = start(&tts, &["One."]).await.end().await;
    assert_eq!(ended.fault.unwrap().label(), "garbled");
    assert!(samples(&signals, 0).len() <= 10_000);
}

#[tokio::test]
async fn reconcile_is_refused_here() {
    let server = Server::answering("").await;
    let table = server.table("cancel_evidence = \"reconcile\"");
    let error = (openai::ENTRY.build)(&table, &surroundings()).err().unwrap().to_string();
    assert!(error.starts_with("cancel_evidence: "), "{error}");
}
