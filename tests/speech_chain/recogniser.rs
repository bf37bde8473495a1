//! The recogniser on real sound: word error rate, inventions, cancelling, crowds.

use std::sync::Arc;

use crate::sounds::{recogniser, recordings, sound, surroundings};
use floorkeeper::cli::wer::word_errors;
use floorkeeper::evidence::Evidence;
use floorkeeper::provider::asr::{Asr, AsrInput, AsrOptions, AsrSignal};
use floorkeeper::provider::{Cancel, Ended};
use tokio::sync::mpsc;

/// Feeds an utterance in frames of 20 ms with partial requests every `partial_ms` (0 = none) and
/// one final request; gives all that was answered and how it ended.
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
    println!(
        "{} utterances, {words} words, {errors} errors: WER {:.1} %",
        recordings.len(),
        rate * 100.0
    );
    assert!(recordings.len() < 25 || rate < 0.10, "WER {rate:.3}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn music_noise_and_silence_say_nothing() {
    let Some(around) = surroundings("music_noise_and_silence") else { return };
    let asr = recogniser(&around);
    let mut sounds = vec![("silence".to_owned(), vec![0; 48_000]), ("nothing".to_owned(), vec![])];
    let pieces = [
        ("moh", "macroform-cold_day.wav"),
        ("moh", "macroform-the_simplicity.wav"),
        ("moh", "macroform-robot_dity.wav"),
        ("moh", "manolo_camp-morning_coffee.wav"),
        ("moh", "reno_project-system.wav"),
        ("asterisk", "beep.wav"),
        ("asterisk", "ascending-2tone.wav"),
        ("asterisk", "tt-monkeys.wav"),
    ];
    for (package, name) in pieces {
        let Some(sound) = sound(package, name) else { continue };
        for (at, length) in [(0, 1), (10, 3), (30, 8), (0, 20)] {
            let from = (at * 16_000).min(sound.len());
            let to = ((at + length) * 16_000).min(sound.len());
            sounds.push((format!("{name} from {at} s, {length} s"), sound[from..to].to_vec()));
        }
    }
    for (name, sound) in sounds {
        let heard = transcript(&asr, &sound).await;
        assert_eq!(heard.text, "", "{name}");
        assert_eq!(heard.mean_log_prob, None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partial_answers_grow_and_the_final_one_comes_last() {
    let Some(around) = surroundings("partial_answers_grow") else { return };
    let asr = recogniser(&around);
    let Some(sound) = sound("asterisk", "vm-nobodyavail.wav") else { return };
    let (signals, ended) = listen(&asr, &sound, 300).await;
    assert_eq!(ended, Ended::completed());
    let (last, partials) = signals.split_last().expect("an answer");
    assert!(last.is_final && last.seq == u32::MAX);
    assert_eq!(
        word_errors("nobody is available to take your call at the moment", &last.transcript.text).0,
        0
    );
    assert!(partials.iter().all(|signal| !signal.is_final));
    assert!(partials.is_sorted_by_key(|signal| signal.seq));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_utterances_at_once_each_get_their_final_answer() {
    let Some(around) = surroundings("many_utterances_at_once") else { return };
    let asr = recogniser(&around);
    let Some(sound) = sound("asterisk", "tt-monkeysintro.wav") else { return };
    let all: Vec<_> = (0..12)
        .map(|_| {
            let (asr, sound) = (Arc::clone(&asr), sound.clone());
            tokio::spawn(async move { listen(&asr, &sound, 100).await })
        })
        .collect();
    for one in all {
        let (signals, ended) = one.await.expect("it ended");
        assert_eq!(ended, Ended::completed());
        let last = signals.last().expect("an answer");
        assert!(last.is_final, "a busy pool skips partial requests only");
        assert_eq!(
            word_errors("they have been carried away by monkeys", &last.transcript.text).0,
            0
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minute_of_speech_is_written_down_in_full() {
    let Some(around) = surroundings("a_minute_of_speech") else { return };
    let asr = recogniser(&around);
    let names = ["demo-echotest.wav", "demo-abouttotry.wav", "demo-nogo.wav", "tt-allbusy.wav"];
    let mut minute = Vec::new();
    let mut words = String::new();
    let all = recordings("a_minute_of_speech");
    for _ in 0..2 {
        for recording in all.iter().filter(|r| names.contains(&r.name.as_str())) {
            minute.extend_from_slice(&recording.sound);
            minute.extend_from_slice(&[0; 8_000]);
            words = format!("{words} {}", recording.words);
        }
    }
    if minute.is_empty() {
        return;
    }
    let heard = transcript(&asr, &minute).await;
    let (errors, of) = word_errors(&words, &heard.text);
    println!("{} s: {errors} errors in {of} words", minute.len() / 16_000);
    assert!(errors * 10 < of, "{}", heard.text);
}

#[tokio::test]
async fn cancelled_before_any_decode_it_never_started() {
    let Some(around) = surroundings("cancelled_before_any_decode") else { return };
    let asr = recogniser(&around);
    let (tell, input) = mpsc::channel(8);
    let (out, _heard) = mpsc::channel(8);
    let cancel = Cancel::new();
    tell.send(AsrInput::Audio(vec![0; 320])).await.expect("room");
    let run = Arc::clone(&asr).run(AsrOptions::default(), input, out, cancel.clone());
    cancel.cancel();
    assert_eq!(run.await, Ended::stopped(Evidence::NeverStarted));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_in_a_decode_it_ends_after_it_and_says_nothing_more() {
    let Some(around) = surroundings("cancelled_in_a_decode") else { return };
    let asr = recogniser(&around);
    let Some(sound) = sound("asterisk", "demo-echotest.wav") else { return };
    let (tell, input) = mpsc::channel(8);
    let (out, mut heard) = mpsc::channel(1);
    let cancel = Cancel::new();
    tell.send(AsrInput::Audio(sound)).await.expect("room");
    tell.send(AsrInput::Decode { seq: 1, is_final: true }).await.expect("room");
    tell.send(AsrInput::Decode { seq: 2, is_final: true }).await.expect("room");
    let run = tokio::spawn(Arc::clone(&asr).run(AsrOptions::default(), input, out, cancel.clone()));
    // The first answer is here, so the second decode is under way or about to be.
    assert_eq!(heard.recv().await.map(|signal| signal.seq), Some(1));
    cancel.cancel();
    assert_eq!(run.await.expect("it ended"), Ended::stopped(Evidence::Completed));
    // Every copy of the model is back: the next utterance is served at once.
    let after = transcript(&asr, &[]).await;
    assert_eq!(after.text, "");
}

#[tokio::test]
async fn another_language_is_refused_before_it_starts() {
    let Some(around) = surroundings("another_language") else { return };
    let asr = recogniser(&around);
    let (_tell, input) = mpsc::channel(1);
    let (out, _heard) = mpsc::channel(1);
    let options = AsrOptions { language: "de-DE".into() };
    let ended = Arc::clone(&asr).run(options, input, out, Cancel::new()).await;
    assert_eq!(ended.proof, Ok(Evidence::NeverStarted));
    assert_eq!(ended.fault.map(|fault| fault.label()), Some("rejected"));
}

/// "Mm-hmm" with closed lips at this pitch: two hums, the second higher, and a breath between.
fn hum(pitch_hz: f32) -> Vec<i16> {
    let mut phase = 0.0_f32;
    let sample = |at: usize| {
        let t = at as f32 / 16_000.0;
        let (higher, part) = if t < 0.22 { (1.0, t / 0.19) } else { (1.2, (t - 0.26) / 0.28) };
        phase += std::f32::consts::TAU * pitch_hz * higher / 16_000.0;
        let overtone = |n: u16| {
            let n = f32::from(n);
            // Closed lips let little through above the first formant.
            (phase * n).sin() / (1.0 + (pitch_hz * n / 280.0).powi(2))
        };
        let loudness = (part.clamp(0.0, 1.0) * std::f32::consts::PI).sin().max(0.0).sqrt();
        ((1..12).map(overtone).sum::<f32>() * loudness * 6_000.0) as i16
    };
    let silence = || vec![0_i16; 4_800];
    let hum: Vec<i16> = (0..8_640).map(sample).collect();
    [silence(), hum, silence()].concat()
}

/// DESIGN 4: what only says "go on" takes no floor, so a hum must never become a word.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hum_is_written_as_a_hum_or_not_at_all() {
    let Some(around) = surroundings("a_hum_is_written_as_a_hum") else { return };
    let asr = recogniser(&around);
    for pitch_hz in [95.0, 110.0, 125.0, 150.0, 190.0, 220.0] {
        let (signals, ended) = listen(&asr, &hum(pitch_hz), 120).await;
        assert_eq!(ended, Ended::completed());
        let barge_in = floorkeeper::turn::bargein::BargeIn::default();
        for AsrSignal { transcript, .. } in signals {
            let words = &transcript.text;
            assert!(words.is_empty() || barge_in.is_backchannel(words), "{pitch_hz} Hz: {words:?}");
        }
    }
}
