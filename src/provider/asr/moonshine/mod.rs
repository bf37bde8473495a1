//! Moonshine tiny-en on this machine: English, 20 to 90 ms an utterance on one thread.
//!
//! Cancel evidence: `drain`. A decode cannot be interrupted, so a cancel lets the one in progress
//! run out (at most some 100 ms, nothing is reported of it) and starts no other. `completed` then
//! proves that no worker of ours is busy with this utterance any more, because it is told only
//! after the worker was given back; `never_started` that none ever was.

use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc};

use self::graphs::Graphs;
use self::hum::HumEar;
use self::tokenizer::Vocabulary;
use self::utterance::Utterance;
use super::{Asr, AsrInput, AsrOptions, AsrSignal};
use crate::evidence::Evidence;
use crate::fault::Fault;
use crate::provider::ear::SharedDetector;
use crate::provider::ear::earshot::Earshot;
use crate::provider::ear::silero::Silero;
use crate::provider::models::{self, MOONSHINE};
use crate::provider::{BuildError, Cancel, Ended, Entry, Run, Surroundings, table};

mod graphs;
mod guard;
mod hum;
mod tokenizer;
mod utterance;

/// Its line in the table.
pub const ENTRY: Entry<dyn Asr> =
    Entry { name: "moonshine", about: "Moonshine tiny-en on this machine (English)", build };

/// Decodes that may run at the same time, unless configured.
const SESSIONS: usize = 2;

fn build(keys: &toml::Table, around: &Surroundings) -> Result<Arc<dyn Asr>, BuildError> {
    table::only(keys, &["sessions"])?;
    let sessions = table::count(keys, "sessions", 1..=16, SESSIONS)?;
    if !is_english(&around.language) {
        return Err(BuildError::Config {
            key: "provider".into(),
            problem: format!("moonshine knows no \"{}\"", around.language),
            right: "an agent with language = \"en\", or another recogniser".into(),
        });
    }
    Ok(Arc::new(Moonshine::open(around, sessions)?))
}

fn is_english(language: &str) -> bool {
    let primary = language.split(['-', '_']).next().unwrap_or_default();
    primary.is_empty() || primary.eq_ignore_ascii_case("en")
}

/// The model in a few copies, each for one decode at a time.
pub struct Moonshine {
    vocabulary: Vocabulary,
    /// Copies that nobody uses now. A permit of `free` entitles to one.
    idle: std::sync::Mutex<Vec<Graphs>>,
    /// First come, first served; a partial request that would have to wait is skipped instead.
    free: Arc<Semaphore>,
    /// Hears whether there is speech at all.
    detector: SharedDetector,
    /// Hears whether a sound is a hum.
    hums: HumEar,
}

impl Moonshine {
    /// Loads the model from the store, this many times.
    pub fn open(around: &Surroundings, sessions: usize) -> Result<Moonshine, BuildError> {
        let path = models::locate(&around.models_dir, &MOONSHINE, "tokenizer.bin")?;
        let missing =
            |detail: String| BuildError::Missing { what: path.display().to_string(), detail };
        let file = std::fs::read(&path).map_err(|error| missing(error.to_string()))?;
        let vocabulary = Vocabulary::read(&file).ok_or_else(|| missing("it is cut off".into()))?;
        let graphs = (0..sessions)
            .map(|_| Graphs::open(&around.models_dir))
            .collect::<Result<Vec<_>, _>>()?;
        let detector: SharedDetector = match Silero::open(around) {
            Ok(silero) => Arc::new(silero),
            Err(error) => {
                tracing::warn!(%error, "moonshine: speech is told from noise by earshot");
                Arc::new(Earshot)
            }
        };
        Ok(Moonshine {
            vocabulary,
            free: Arc::new(Semaphore::new(graphs.len())),
            idle: std::sync::Mutex::new(graphs),
            detector,
            hums: HumEar::new(),
        })
    }
}

impl Asr for Moonshine {
    fn run(
        self: Arc<Self>,
        options: AsrOptions,
        input: mpsc::Receiver<AsrInput>,
        out: mpsc::Sender<AsrSignal>,
        cancel: Cancel,
    ) -> Run {
        Box::pin(async move {
            if !is_english(&options.language) {
                // 422: understood, and cannot be done.
                let fault = Fault::Rejected { status: 422, retry_after_ms: None };
                return Ended::failed(fault, Ok(Evidence::NeverStarted));
            }
            Utterance::new(self, out).listen(input, cancel).await
        })
    }

    fn gives_partials(&self) -> bool {
        true
    }
}
