//! A Piper voice on this machine: 22 kHz, first sound after some 90 ms, 5 % of a core while it
//! speaks.
//!
//! Cancel evidence: `drain`. The clause being computed runs out (at most some 400 ms, nothing of it
//! is passed on) and no other is begun; an espeak-ng child that was making phonemes is killed.
//! `completed` proves that no worker of ours is busy with this answer any more, because it is told
//! only after the worker was given back; `never_started` that no sound was ever computed for it.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc};

use self::answer::Answer;
use self::voice::{Card, Voice};
use super::espeak::Espeak;
use super::{Phrase, Tts, TtsOptions, TtsSignal};
use crate::evidence::Evidence;
use crate::fault::Fault;
use crate::provider::models::{self, PIPER_JOE};
use crate::provider::{BuildError, Cancel, Ended, Entry, Run, Surroundings, table};

mod answer;
mod voice;
mod words;

/// Its line in the table.
pub const ENTRY: Entry<dyn Tts> =
    Entry { name: "piper", about: "a Piper voice on this machine (needs espeak-ng)", build };

/// Clauses that may be computed at the same time, unless configured.
const SESSIONS: usize = 2;

fn build(keys: &toml::Table, around: &Surroundings) -> Result<Arc<dyn Tts>, BuildError> {
    table::only(keys, &["sessions", "model"])?;
    let sessions = table::count(keys, "sessions", 1..=16, SESSIONS)?;
    let model = table::text(keys, "model")?.map(PathBuf::from);
    let piper = Piper::open(around, model, sessions)?;
    if !piper.speaks(&around.language) {
        return Err(BuildError::Config {
            key: "model".into(),
            problem: format!(
                "the voice speaks \"{}\", not \"{}\"",
                piper.card.language(),
                around.language
            ),
            right: "a voice of the agent's language, or another synthesiser".into(),
        });
    }
    Ok(Arc::new(piper))
}

/// The voice in a few copies, each for one clause at a time.
pub struct Piper {
    espeak: Espeak,
    card: Card,
    /// Copies that nobody uses now. A permit of `free` entitles to one.
    idle: std::sync::Mutex<Vec<Voice>>,
    free: Arc<Semaphore>,
}

impl Piper {
    /// Loads a voice, this many times: the one of the model store, or the user's own `.onnx` file
    /// with its `.onnx.json` beside it.
    pub fn open(
        around: &Surroundings,
        model: Option<PathBuf>,
        sessions: usize,
    ) -> Result<Piper, BuildError> {
        let espeak = Espeak::find()?;
        let (graph, card) = match model {
            Some(graph) => {
                let mut card = graph.clone().into_os_string();
                card.push(".json");
                (graph, PathBuf::from(card))
            }
            None => (
                models::locate(&around.models_dir, &PIPER_JOE, "voice.onnx")?,
                models::locate(&around.models_dir, &PIPER_JOE, "voice.json")?,
            ),
        };
        let card = Card::read(&card)?;
        let voices = (0..sessions)
            .map(|_| Voice::open(&around.models_dir, &graph))
            .collect::<Result<Vec<_>, _>>()?;
        let free = Arc::new(Semaphore::new(voices.len()));
        Ok(Piper { espeak, card, idle: std::sync::Mutex::new(voices), free })
    }

    fn speaks(&self, language: &str) -> bool {
        let primary = language.split(['-', '_']).next().unwrap_or_default();
        primary.is_empty() || primary.eq_ignore_ascii_case(self.card.language())
    }
}

impl Tts for Piper {
    fn run(
        self: Arc<Self>,
        options: TtsOptions,
        input: mpsc::Receiver<Phrase>,
        out: mpsc::Sender<TtsSignal>,
        cancel: Cancel,
    ) -> Run {
        Box::pin(async move {
            if !self.speaks(&options.language) {
                // 422: understood, and cannot be done.
                let fault = Fault::Rejected { status: 422, retry_after_ms: None };
                return Ended::failed(fault, Ok(Evidence::NeverStarted));
            }
            Answer::new(self, options.speed, out, cancel).speak(input).await
        })
    }
}
