//! The recogniser and the voices on real sound: word error rate, hallucinations, cancelling, round trips.

mod speech_common;

use std::sync::Arc;

use floorkeeper::cli::wer::word_errors;
use floorkeeper::evidence::Evidence;
use floorkeeper::provider::asr::{ASRS, Asr, AsrInput, AsrOptions, AsrSignal};
use floorkeeper::provider::{Cancel, Ended, Surroundings, find};
use speech_common::{recordings, sound, surroundings};
use tokio::sync::mpsc;

fn recogniser(around: &Surroundings) -> Arc<dyn Asr> {
    let entry = find(ASRS, "asr.provider", "moonshine").expect("it is in the table");
    (entry.build)(&toml::Table::new(), around).expect("it can be had")
}

/// Feeds an utterance in frames of 20 ms with partial requests every `partial_ms` (0 = none) and one
/// final request; gives all that was answered and how it ended.
async fn listen(asr: &Arc<dyn Asr>, sound: &[i16], partial_ms: usize) -> (Vec<AsrSignal>, Ended) {
    let (tell, input) = mpsc::channel(8);
    let (out, mut heard) = mpsc::channel(8);
    let options = AsrOptions { language: "en-US".into() };
    let run = tokio::spawn(Arc::clone(asr).run(options, input, out, Cancel::new()));
    let frames: Vec<Vec<i16>> = sound.chunks(320).map(<[i16]>::to_vec).collect();
    let feed = tokio::spawn(async move {
        for (at, frame) in frames.into_iter().enumerate() {
            tell.send(AsrInput::Audio(frame)).await.expect("it listens");
            if partial_ms > 0 && (at + 1) % (partial_ms / 20) == 0 {
                let seq = at as u32;
                tell.send(AsrInput::Decode { seq, is_final: false }).await.expect("it listens");
                tokio::task::yield_now().await;
            }
        }
        tell.send(AsrInput::Decode { seq: u32::MAX, is_final: true }).await.expect("it listens");
        tell.send(AsrInput::Close).await.expect("it listens");
    });
    let mut signals = Vec::new();
    while let Some(signal) = heard.recv().await {
        signals.push(signal);
    }
    feed.await.expect("all was fed");
    (signals, run.await.expect("it ended"))
}

async fn transcript(asr: &Arc<dyn Asr>, sound: &[i16]) -> floorkeeper::dialogue::Transcript {
    let (mut signals, ended) = listen(asr, sound, 0).await;
    assert_eq!(ended, Ended::completed());
    assert_eq!(signals.len(), 1);
    signals.remove(0).transcript
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn word_error_rate_of_real_people_is_below_a_tenth() {
    let Some(around) = surroundings("word_error_rate") else { return };
    let asr = recogniser(&around);
    let recordings = recordings("word_error_rate");
    let (mut errors, mut words) = (0, 0);
    for recording in &recordings {
        let heard = transcript(&asr, &recording.sound).await;
        let (wrong, of) = word_errors(&recording.words, &heard.text);
        errors += wrong;
        words += of;
        if wrong > 0 {
            println!("{wrong}/{of} {}: {}", recording.name, heard.text);
        }
        assert!(heard.mean_log_prob.is_some_and(|p| p > -1.0), "{}", recording.name);
    }
    if words == 0 {
        return;
    }
    let rate = errors as f64 / words as f64;
    println!("{} utterances, {words} words, {errors} errors: WER {:.1} %", recordings.len(), rate * 100.0);
    assert!(recordings.len() < 25 || rate < 0.10, "WER {rate:.3}");
}
