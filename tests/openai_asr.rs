//! The transcription provider: what it sends, and what it makes of answers.

mod openai_server;

use std::sync::Arc;

use floorkeeper::evidence::Evidence;
use floorkeeper::fault::Fault;
use floorkeeper::provider::asr::{Asr, AsrInput, AsrOptions, AsrSignal, openai};
use floorkeeper::provider::{Cancel, Ended};
use openai_server::*;
use tokio::sync::mpsc;

fn build(server: &Server, more: &str) -> Arc<dyn Asr> {
    (openai::ENTRY.build)(&server.table(more), &surroundings()).unwrap()
}

fn start(asr: &Arc<dyn Asr>) -> (mpsc::Sender<AsrInput>, Running<AsrSignal>) {
    let (hear, input) = mpsc::channel(16);
    let (out, signals) = mpsc::channel(16);
    let cancel = Cancel::new();
    let options = AsrOptions { language: "en-US".into() };
    let run = tokio::spawn(asr.clone().run(options, input, out, cancel.clone()));
    (hear, Running { cancel, signals, run })
}

async fn outcome(server: &Server, inputs: Vec<AsrInput>) -> (Vec<AsrSignal>, Ended) {
    let (hear, running) = start(&build(server, "first_byte_ms = 100"));
    for input in inputs {
        hear.send(input).await.unwrap();
    }
    drop(hear);
    running.end().await
}

fn question() -> Vec<AsrInput> {
    vec![AsrInput::Audio(vec![5; 1_600]), AsrInput::Decode { seq: 3, is_final: true }]
}

fn json(body: &str) -> String {
    plain("200 OK", "Content-Type: application/json\r\n", body)
}

#[tokio::test]
async fn the_utterance_goes_out_as_a_form_with_a_wav_file() {
    let (seen, mut requests) = mpsc::channel(4);
    let server = Server::start(move |mut conn| {
        let seen = seen.clone();
        async move {
            while let Some(request) = conn.try_request().await {
                seen.send(request).await.unwrap();
                conn.write(json("{\"text\":\" Hello there. \"}")).await;
            }
        }
    })
    .await;
    let mut inputs = question();
    // Partials are off: this one is not asked for.
    inputs.insert(1, AsrInput::Decode { seq: 2, is_final: false });
    inputs.push(AsrInput::Audio(vec![6; 1_600]));
    inputs.push(AsrInput::Decode { seq: 4, is_final: true });
    let (signals, ended) = outcome(&server, inputs).await;
    let seen: Vec<_> = signals.iter().map(|s| (s.seq, s.transcript.text.as_str())).collect();
    assert_eq!(seen, [(3, "Hello there."), (4, "Hello there.")]);
    assert_eq!((ended, server.accepted()), (Ended::completed(), 1));
    for samples in [1_600, 3_200] {
        let request = requests.recv().await.unwrap();
        assert!(request.head.starts_with("POST /v1/audio/transcriptions HTTP/1.1\r\n"));
        let head = request.head.to_ascii_lowercase();
        let boundary = head.split("boundary=").nth(1).unwrap().lines().next().unwrap();
        let text = String::from_utf8_lossy(&request.body).into_owned();
        assert_eq!(text.matches(&format!("--{boundary}")).count(), 5);
        assert!(text.ends_with(&format!("\r\n--{boundary}--\r\n")));
        assert!(text.contains("name=\"language\"\r\n\r\nen\r\n"));
        let at = request.body.windows(4).position(|w| w == b"RIFF").unwrap();
        let wav = hound::WavReader::new(std::io::Cursor::new(&request.body[at..])).unwrap();
        assert_eq!((wav.spec().sample_rate, wav.len()), (16_000, samples));
    }
}

#[tokio::test]
async fn partials_are_asked_for_when_switched_on() {
    let server = Server::answering(json("{\"text\":\"hel\"}")).await;
    let asr = build(&server, "partials = true");
    assert!(asr.gives_partials());
    let (hear, mut running) = start(&asr);
    hear.send(AsrInput::Decode { seq: 9, is_final: false }).await.unwrap();
    let partial = running.next().await;
    assert_eq!((partial.seq, partial.is_final), (9, false));
    hear.send(AsrInput::Close).await.unwrap();
    assert_eq!(running.end().await.1, Ended::completed());
}

#[tokio::test]
async fn a_cancel_in_mid_request_is_a_half_close_and_one_before_it_started_nothing() {
    let (asked, mut seen) = mpsc::channel(1);
    let server = Server::start(move |mut conn| {
        let asked = asked.clone();
        async move {
            conn.request().await;
            asked.send(()).await.unwrap();
            conn.end_of_file().await;
        }
    })
    .await;
    let (hear, running) = start(&build(&server, ""));
    for input in question() {
        hear.send(input).await.unwrap();
    }
    seen.recv().await.unwrap();
    running.cancel.cancel();
    let closed = Ended::stopped(Evidence::StreamClosedByBackend);
    assert_eq!(running.end().await, (vec![], closed));
    let (_hear, running) = start(&build(&server, ""));
    running.cancel.cancel();
    assert_eq!(running.end().await.1, Ended::stopped(Evidence::NeverStarted));
}

#[tokio::test]
async fn wrong_answers_are_faults() {
    let long = format!("{{\"text\":\"{}\"}}", "a".repeat(70_000));
    for (answer, label) in [
        (json("{\"text\":"), "garbled"),
        (json("{\"words\":1}"), "garbled"),
        (json(""), "empty"),
        (json(&long), "garbled"),
        (plain("200 OK", "Content-Type: text/html\r\n", "<html>"), "garbled"),
        (plain("500 No", "", "sorry"), "rejected"),
    ] {
        let server = Server::answering(answer.clone()).await;
        let (signals, ended) = outcome(&server, question()).await;
        let head: String = answer.chars().take(60).collect();
        assert_eq!(ended.fault.map(|fault| fault.label()), Some(label), "{head}");
        assert_eq!(signals, []);
    }
}

#[tokio::test]
async fn no_answer_in_time_is_slow() {
    let server = Server::start(|mut conn| async move { conn.end_of_file().await }).await;
    let (_, ended) = outcome(&server, question()).await;
    assert_eq!(ended.fault, Some(Fault::Slow { deadline: "first_byte" }));
    assert_eq!(ended.proof, Ok(Evidence::StreamClosedByBackend));
}
