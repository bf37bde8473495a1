//! Smart Turn v3.2 through ONNX Runtime: has the caller finished, judged by how it sounded?
//!
//! About 30 ms on one thread. Good at "uh" and "of, um" before a pause, fooled by synthetic voices:
//! it adjusts how long silence is waited for and is never a veto without limit.

use std::sync::Arc;

use ort::session::Session;
use ort::value::TensorRef;

use self::log_mel::{FRAMES, LogMel, MELS, SAMPLES};
use super::EndOfTurn;
use crate::provider::models::{self, EARS};
use crate::provider::onnx::Sessions;
use crate::provider::{BuildError, Entry, Surroundings, table};

mod log_mel;

/// Its line in the table.
pub const ENTRY: Entry<dyn EndOfTurn> =
    Entry { name: "smart_turn", about: "Smart Turn v3.2 through ONNX Runtime", build };

fn build(keys: &toml::Table, around: &Surroundings) -> Result<Arc<dyn EndOfTurn>, BuildError> {
    table::only(keys, &[])?;
    Ok(Arc::new(SmartTurn::open(around)?))
}

/// The model, shared by all calls.
pub struct SmartTurn {
    sessions: Sessions,
    log_mel: LogMel,
}

impl SmartTurn {
    /// Loads the model from the store.
    pub fn open(around: &Surroundings) -> Result<SmartTurn, BuildError> {
        let model = models::locate(&around.models_dir, &EARS, "smart_turn.onnx")?;
        let count = std::thread::available_parallelism().map_or(1, usize::from).min(2);
        let sessions = Sessions::open(&around.models_dir, &model, count)?;
        Ok(SmartTurn { sessions, log_mel: LogMel::new() })
    }

    fn infer(session: &mut Session, features: &[f32]) -> ort::Result<f32> {
        let outputs = session.run(ort::inputs! {
            "input_features" => TensorRef::from_array_view(([1, MELS, FRAMES], features))?,
        })?;
        let (_, probability) = outputs[0].try_extract_tensor::<f32>()?;
        Ok(probability.first().copied().unwrap_or(UNDECIDED).clamp(0.0, 1.0))
    }
}

/// What it says when it could not judge.
const UNDECIDED: f32 = 0.5;

impl EndOfTurn for SmartTurn {
    fn finished(&self, sound: &[i16]) -> f32 {
        let features = self.log_mel.of(&sound[sound.len().saturating_sub(SAMPLES)..]);
        match self.sessions.with(|session| Self::infer(session, &features)) {
            Ok(probability) => probability,
            Err(error) => {
                tracing::warn!(%error, "smart_turn: a pause was not judged");
                UNDECIDED
            }
        }
    }
}
