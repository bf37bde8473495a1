//! What our own server's providers are told, and tell, beside their scripts: the recogniser hears
//! the words that the script's caller says, and the model's requests are kept.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::audio::{CALLER_RATE_HZ, samples_to_duration};
use crate::dialogue::ModelRequest;
use crate::provider::asr::{Asr, AsrInput, AsrOptions, AsrSignal};
use crate::provider::llm::{Llm, ModelSignal};
use crate::provider::{Cancel, Run};
use crate::sim::client::line_of;

/// An utterance that began when the one before it ended is told apart from it by so much.
const SLACK: Duration = Duration::from_millis(60);
/// Pieces of sound that may wait for a recogniser.
const FEED_MAX: usize = 256;
/// Answers that may wait behind it.
const SIGNALS_MAX: usize = 32;

/// What the caller has said or is saying: from, to, words.
#[derive(Debug, Default)]
pub(super) struct Said(Mutex<Vec<(Instant, Instant, String)>>);

impl Said {
    /// The caller begins to say this.
    pub(super) fn says(&self, words: &str, span: Duration) {
        let now = Instant::now();
        self.list().push((now, now + span, words.to_owned()));
    }

    /// The words of an utterance that began then.
    fn since(&self, from: Instant) -> String {
        let said = self.list();
        let within = said.iter().filter(|(_, until, _)| *until > from + SLACK);
        let words: Vec<&str> = within.map(|(_, _, words)| words.as_str()).collect();
        words.join(" ").trim().to_owned()
    }

    fn list(&self) -> std::sync::MutexGuard<'_, Vec<(Instant, Instant, String)>> {
        // Nothing in here panics half-way through a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The text that a scripted recogniser is given: as many words as it says so far, so many of the
/// caller's own words are meant.
pub(super) fn placeholder() -> String {
    ["word"; 400].join(" ")
}

/// A scripted recogniser that hears the script's caller.
pub(super) struct Hears {
    pub(super) inner: Arc<dyn Asr>,
    pub(super) said: Arc<Said>,
}

impl Asr for Hears {
    fn run(
        self: Arc<Self>,
        options: AsrOptions,
        mut input: mpsc::Receiver<AsrInput>,
        out: mpsc::Sender<AsrSignal>,
        cancel: Cancel,
    ) -> Run {
        let (feed, fed) = mpsc::channel(FEED_MAX);
        let (signals_out, mut signals) = mpsc::channel(SIGNALS_MAX);
        let mut run = self.inner.clone().run(options, fed, signals_out, cancel.clone());
        Box::pin(async move {
            let mut feed = Some(feed);
            let mut began = Instant::now();
            let mut is_first = true;
            // What had been said when the recogniser was asked.
            let mut words = BTreeMap::new();
            loop {
                tokio::select! {
                    biased;
                    Some(signal) = signals.recv() => {
                        let said = words.get(&signal.seq).cloned();
                        let said = said.unwrap_or_else(|| self.said.since(began));
                        let signal = put_right(signal, &said);
                        tokio::select! {
                            biased;
                            _ = out.send(signal) => {}
                            () = cancel.cancelled() => {}
                        }
                    }
                    given = input.recv(), if feed.is_some() => {
                        if let (Some(AsrInput::Audio(samples)), true) = (&given, is_first) {
                            is_first = false;
                            began -= samples_to_duration(samples.len(), CALLER_RATE_HZ);
                        }
                        if let Some(AsrInput::Decode { seq, .. }) = &given {
                            words.insert(*seq, self.said.since(began));
                        }
                        match (given, &feed) {
                            (Some(given), Some(to)) => drop(to.send(given).await),
                            _ => feed = None,
                        }
                    }
                    ended = &mut run => return ended,
                }
            }
        })
    }

    fn gives_partials(&self) -> bool {
        self.inner.gives_partials()
    }
}

/// As many of the words really said as the script lets the recogniser know.
fn put_right(mut signal: AsrSignal, said: &str) -> AsrSignal {
    let count = signal.transcript.text.split_whitespace().count();
    let words: Vec<&str> = said.split_whitespace().take(count).collect();
    signal.transcript.text = words.join(" ");
    signal
}

/// Every request to a model, line by line.
#[derive(Debug, Default)]
pub(super) struct Asked(Mutex<Vec<Vec<String>>>);

impl Asked {
    /// The requests so far.
    pub(super) fn all(&self) -> Vec<Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A model whose requests are kept.
pub(super) struct Recorded {
    pub(super) inner: Arc<dyn Llm>,
    pub(super) asked: Arc<Asked>,
}

impl Llm for Recorded {
    fn run(
        self: Arc<Self>,
        request: ModelRequest,
        out: mpsc::Sender<ModelSignal>,
        cancel: Cancel,
    ) -> Run {
        let lines = request.history.iter().map(line_of).collect();
        self.asked.0.lock().unwrap_or_else(PoisonError::into_inner).push(lines);
        self.inner.clone().run(request, out, cancel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::{Ended, Surroundings};

    #[tokio::test(start_paused = true)]
    async fn a_recogniser_hears_what_the_caller_says_and_no_word_of_the_utterance_before() {
        let table = toml::Table::from_iter([("text".to_owned(), placeholder().into())]);
        let around = Surroundings { models_dir: "models".into(), language: "en".into() };
        let inner = (crate::provider::scripted::ASR_ENTRY.build)(&table, &around).unwrap();
        let said = Arc::new(Said::default());
        said.says("the first", Duration::from_millis(500));
        tokio::time::advance(Duration::from_millis(700)).await;
        said.says("tell me a story", Duration::from_secs(2));
        let (sound, input) = mpsc::channel(4);
        let (out, mut signals) = mpsc::channel(4);
        let asr = Arc::new(Hears { inner, said });
        let run = tokio::spawn(asr.run(AsrOptions::default(), input, out, Cancel::new()));
        let hear = |seq, is_final| AsrInput::Decode { seq, is_final };
        // With what lay in front of the speech, as a server keeps it.
        sound.send(AsrInput::Audio(vec![0; 3_200])).await.unwrap();
        sound.send(AsrInput::Audio(vec![0; 16_000])).await.unwrap();
        sound.send(hear(0, false)).await.unwrap();
        assert_eq!(signals.recv().await.unwrap().transcript.text, "tell me a");
        sound.send(hear(1, true)).await.unwrap();
        assert_eq!(signals.recv().await.unwrap().transcript.text, "tell me a story");
        drop(sound);
        assert_eq!(run.await.unwrap(), Ended::completed());
    }
}
