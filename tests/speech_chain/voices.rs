//! The voices: what they say is understood, comes in order, stops when told to, and words have
//! times.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::sounds::{recogniser, resample, surroundings};
use floorkeeper::audio::Pcm;
use floorkeeper::cli::wer::word_errors;
use floorkeeper::dialogue::WordTime;
use floorkeeper::evidence::Evidence;
use floorkeeper::provider::asr::{AsrInput, AsrOptions};
use floorkeeper::provider::tts::{Phrase, TTSS, Tts, TtsOptions, TtsSignal};
use floorkeeper::provider::{Cancel, Ended, Surroundings, find};
use tokio::sync::mpsc;

const SENTENCES: [&str; 5] = [
    "Sure, I can help with that.",
    "All lines are busy right now. Please call again in ten minutes.",
    "Your appointment is on Tuesday at three thirty in the afternoon.",
    "I am sorry, I did not understand your question.",
    "Would you like me to transfer you to one of my colleagues?",
];

/// A voice, loaded once for all tests.
fn voice(name: &str, around: &Surroundings) -> Arc<dyn Tts> {
    static LOADED: [OnceLock<Arc<dyn Tts>>; 2] = [const { OnceLock::new() }; 2];
    let load = || {
        let entry = find(TTSS, "tts.provider", name).expect("it is in the table");
        (entry.build)(&toml::Table::new(), around).expect("it can be had")
    };
    Arc::clone(LOADED[usize::from(name == "espeak")].get_or_init(load))
}

fn options(speed: f32) -> TtsOptions {
    TtsOptions { voice: None, language: "en".into(), speed }
}

/// All that was said of some phrases, by phrase.
#[derive(Default)]
struct Said {
    sound: Vec<Pcm>,
    words: Vec<Vec<WordTime>>,
    pieces: usize,
}

async fn say(tts: &Arc<dyn Tts>, phrases: &[&str], speed: f32) -> (Said, Ended) {
    let (tell, input) = mpsc::channel(phrases.len().max(1));
    let (out, mut heard) = mpsc::channel(4);
    for (index, text) in phrases.iter().enumerate() {
        let phrase = Phrase { index: index as u32, text: (*text).to_owned() };
        tell.send(phrase).await.expect("room");
    }
    drop(tell);
    let run = tokio::spawn(Arc::clone(tts).run(options(speed), input, out, Cancel::new()));
    let mut said = Said::default();
    let mut open = Pcm::default();
    while let Some(signal) = heard.recv().await {
        let now = said.sound.len() as u32;
        match signal {
            TtsSignal::Audio { phrase, pcm } => {
                assert_eq!(phrase, now, "phrases come in order");
                assert!(!pcm.samples.is_empty());
                said.pieces += 1;
                open.rate_hz = pcm.rate_hz;
                open.samples.extend(pcm.samples);
            }
            TtsSignal::PhraseDone { phrase, words } => {
                assert_eq!(phrase, now);
                said.sound.push(std::mem::take(&mut open));
                said.words.push(words);
            }
        }
    }
    assert!(open.samples.is_empty(), "every phrase is done");
    (said, run.await.expect("it ended"))
}

async fn understood(around: &Surroundings, pcm: &Pcm) -> String {
    let asr = recogniser(around);
    let (tell, input) = mpsc::channel(4);
    let (out, mut heard) = mpsc::channel(4);
    let run = tokio::spawn(asr.run(AsrOptions::default(), input, out, Cancel::new()));
    let sound = resample(&pcm.samples, pcm.rate_hz);
    tell.send(AsrInput::Audio(sound)).await.expect("it listens");
    tell.send(AsrInput::Decode { seq: 0, is_final: true }).await.expect("it listens");
    tell.send(AsrInput::Close).await.expect("it listens");
    let text = heard.recv().await.expect("an answer").transcript.text;
    run.await.expect("it ended");
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_piper_says_is_understood() {
    let Some(around) = surroundings("what_piper_says_is_understood") else { return };
    let tts = voice("piper", &around);
    let (said, ended) = say(&tts, &SENTENCES, 1.0).await;
    assert_eq!(ended, Ended::completed());
    let (mut errors, mut words) = (0, 0);
    for (sentence, pcm) in SENTENCES.iter().zip(&said.sound) {
        assert_eq!(pcm.rate_hz, 22_050);
        let text = understood(&around, pcm).await;
        let (wrong, of) = word_errors(sentence, &text);
        println!("{wrong}/{of} {:?}: {text}", pcm.duration());
        errors += wrong;
        words += of;
    }
    assert!(errors * 10 <= words, "{errors} of {words} words were misunderstood");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_words_of_piper_have_their_times() {
    let Some(around) = surroundings("the_words_of_piper") else { return };
    let tts = voice("piper", &around);
    let (said, _) = say(&tts, &SENTENCES, 1.0).await;
    for ((sentence, pcm), words) in SENTENCES.iter().zip(&said.sound).zip(&said.words) {
        assert_eq!(words.len(), sentence.split_whitespace().count(), "{sentence}");
        assert!(words.is_sorted_by_key(|word| word.end));
        assert!(words.iter().all(|word| word.end <= pcm.duration()));
        let last = words.last().expect("a word");
        assert!(sentence[last.text_end..].chars().all(|c| c.is_ascii_punctuation()));
        assert!(last.end > pcm.duration() / 2);
    }
    // The times are true: what lies before the end of "now" is the first sentence, and only that.
    let (text, words) = (SENTENCES[1], &said.words[1]);
    let now = words.iter().find(|word| text[..word.text_end].ends_with("now")).expect("the word");
    let samples = (now.end.as_secs_f64() * 22_050.0) as usize + 2_205;
    let cut = Pcm { rate_hz: 22_050, samples: said.sound[1].samples[..samples].to_vec() };
    let heard = understood(&around, &cut).await;
    // One word of grace: the voice never says a sentence twice in the same way.
    assert!(word_errors("all lines are busy right now", &heard).0 <= 1, "{heard}");
    assert_eq!(
        word_errors("now", heard.split(' ').next_back().unwrap_or_default()).0,
        0,
        "{heard}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn speed_is_obeyed_by_both_voices() {
    let Some(around) = surroundings("speed_is_obeyed") else { return };
    for name in ["piper", "espeak"] {
        let tts = voice(name, &around);
        let (slow, _) = say(&tts, &[SENTENCES[2]], 0.7).await;
        let (fast, _) = say(&tts, &[SENTENCES[2]], 1.5).await;
        let ratio = slow.sound[0].duration().as_secs_f64() / fast.sound[0].duration().as_secs_f64();
        assert!(ratio > 1.5, "{name}: {ratio:.2}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn espeak_speaks_and_is_understood_mostly() {
    let Some(around) = surroundings("espeak_speaks") else { return };
    let tts = voice("espeak", &around);
    let (said, ended) = say(&tts, &SENTENCES, 1.0).await;
    assert_eq!(ended, Ended::completed());
    assert!(said.pieces > SENTENCES.len(), "sound comes in pieces");
    let (mut errors, mut words) = (0, 0);
    for (sentence, pcm) in SENTENCES.iter().zip(&said.sound) {
        let (wrong, of) = word_errors(sentence, &understood(&around, pcm).await);
        errors += wrong;
        words += of;
    }
    assert!(errors * 4 < words, "{errors} of {words} words were misunderstood");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn markup_and_escapes_are_not_spoken_and_nothing_is_fine() {
    let Some(around) = surroundings("markup_and_escapes") else { return };
    for name in ["piper", "espeak"] {
        let tts = voice(name, &around);
        let odd =
            "<speak>**Hello**, \u{1f600}<break time=\"9s\"/> `world`.</speak>; $(touch x) -w /x";
        let (said, ended) = say(&tts, &[odd, "", "...", "\u{1f600}", "Goodbye."], 1.0).await;
        assert_eq!(ended, Ended::completed(), "{name}");
        assert_eq!(said.sound.len(), 5);
        assert!(said.sound[0].duration() < Duration::from_secs(6), "{name} obeyed the markup");
        assert!(said.sound[1..4].iter().all(|pcm| pcm.samples.is_empty()));
        assert!(!said.sound[4].samples.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_ends_it_with_proof_and_frees_the_voice() {
    let Some(around) = surroundings("a_cancel_ends_it") else { return };
    for name in ["piper", "espeak"] {
        let tts = voice(name, &around);
        for _ in 0..4 {
            let (tell, input) = mpsc::channel(4);
            let (out, mut heard) = mpsc::channel(1);
            let cancel = Cancel::new();
            let run = Arc::clone(&tts).run(options(1.0), input, out, cancel.clone());
            let run = tokio::spawn(run);
            let text = SENTENCES.join(" ");
            tell.send(Phrase { index: 0, text }).await.expect("room");
            heard.recv().await.expect("sound");
            cancel.cancel();
            let ended = run.await.expect("it ended");
            assert_eq!(ended, Ended::stopped(Evidence::Completed), "{name}");
        }
        let (said, ended) = say(&tts, &["Still here."], 1.0).await;
        assert_eq!(ended, Ended::completed());
        assert!(!said.sound[0].samples.is_empty());
    }
}

#[tokio::test]
async fn cancelled_before_the_first_phrase_it_never_started() {
    let Some(around) = surroundings("cancelled_before_the_first_phrase") else { return };
    for name in ["piper", "espeak"] {
        let tts = voice(name, &around);
        let (_tell, input) = mpsc::channel(1);
        let (out, _heard) = mpsc::channel(1);
        let cancel = Cancel::new();
        cancel.cancel();
        let ended = tts.run(options(1.0), input, out, cancel).await;
        assert_eq!(ended, Ended::stopped(Evidence::NeverStarted), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_who_left_stops_it() {
    let Some(around) = surroundings("a_listener_who_left") else { return };
    for name in ["piper", "espeak"] {
        let tts = voice(name, &around);
        let (tell, input) = mpsc::channel(4);
        let (out, heard) = mpsc::channel(1);
        drop(heard);
        tell.send(Phrase { index: 0, text: SENTENCES.join(" ") }).await.expect("room");
        let ended = tts.run(options(1.0), input, out, Cancel::new()).await;
        assert_eq!(ended, Ended::stopped(Evidence::Completed), "{name}");
    }
}

#[tokio::test]
async fn a_language_that_a_voice_does_not_speak_is_refused() {
    let Some(around) = surroundings("a_language_that_a_voice") else { return };
    for (name, language) in [("piper", "de"), ("espeak", "xx")] {
        let tts = voice(name, &around);
        let (tell, input) = mpsc::channel(1);
        let (out, _heard) = mpsc::channel(1);
        tell.send(Phrase { index: 0, text: "Hallo".into() }).await.expect("room");
        let options = TtsOptions { voice: None, language: language.into(), speed: 1.0 };
        let ended = tts.run(options, input, out, Cancel::new()).await;
        assert!(ended.fault.is_some() && ended.proof.is_ok(), "{name}: {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_number_is_spoken_to_its_end() {
    let Some(around) = surroundings("a_long_number") else { return };
    let tts = voice("piper", &around);
    let number = "7 ".repeat(110);
    let (said, ended) = say(&tts, &[&number], 1.5).await;
    assert_eq!(ended, Ended::completed());
    assert_eq!(said.words[0].len(), 110);
    assert!(said.words[0].is_sorted_by_key(|word| word.end));
    assert!(said.sound[0].duration() > Duration::from_secs(20));
}
