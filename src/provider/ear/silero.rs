//! Silero v6 through ONNX Runtime: quiet on music and tones, 0.2 % of a core a call.

use std::sync::Arc;

use ort::session::Session;
use ort::value::TensorRef;

use super::{Detector, Listening};
use crate::provider::models::{self, EARS};
use crate::provider::onnx::Sessions;
use crate::provider::{BuildError, Entry, Surroundings, table};

/// Its line in the table.
pub const ENTRY: Entry<dyn Detector> =
    Entry { name: "silero", about: "Silero v6 through ONNX Runtime", build };

/// Samples it wants at a time: 32 ms.
const WINDOW: usize = 512;
/// Samples of the window before that it is shown again.
const CONTEXT: usize = 64;
/// What the recurrent part remembers: [2, 1, 128].
const STATE: usize = 256;
/// After this much skipped silence nothing of the past matters: 0.2 s.
const FORGET_AFTER: usize = 3_200;

fn build(keys: &toml::Table, around: &Surroundings) -> Result<Arc<dyn Detector>, BuildError> {
    table::only(keys, &[])?;
    Ok(Arc::new(Silero::open(around)?))
}

/// The weights, loaded once for all calls.
pub struct Silero {
    sessions: Arc<Sessions>,
}

impl Silero {
    /// Loads the weights from the model store.
    pub fn open(around: &Surroundings) -> Result<Silero, BuildError> {
        let model = models::locate(&around.models_dir, &EARS, "silero_vad.onnx")?;
        // One a core: a window takes 60 us, so callers hardly ever meet.
        let count = std::thread::available_parallelism().map_or(1, usize::from).min(8);
        let sessions = Sessions::open(&around.models_dir, &model, count)?;
        Ok(Silero { sessions: Arc::new(sessions) })
    }
}

impl Detector for Silero {
    fn listen(&self) -> Box<dyn Listening> {
        Box::new(SileroEar {
            sessions: Arc::clone(&self.sessions),
            input: [0.0; CONTEXT + WINDOW],
            state: [0.0; STATE],
            skipped: 0,
        })
    }
}

/// One call's ear.
struct SileroEar {
    sessions: Arc<Sessions>,
    /// The end of the window before, then the window.
    input: [f32; CONTEXT + WINDOW],
    state: [f32; STATE],
    skipped: usize,
}

impl SileroEar {
    fn infer(session: &mut Session, input: &[f32], state: &mut [f32]) -> ort::Result<f32> {
        const RATE_HZ: [i64; 1] = [16_000];
        let outputs = session.run(ort::inputs! {
            "input" => TensorRef::from_array_view(([1, input.len()], input))?,
            "state" => TensorRef::from_array_view(([2_usize, 1, 128], &*state))?,
            "sr" => TensorRef::from_array_view(([0_usize; 0], &RATE_HZ[..]))?,
        })?;
        let (_, next) = outputs["stateN"].try_extract_tensor::<f32>()?;
        if next.len() == state.len() {
            state.copy_from_slice(next);
        }
        let (_, probability) = outputs["output"].try_extract_tensor::<f32>()?;
        Ok(probability.first().copied().unwrap_or(0.0))
    }
}

impl Listening for SileroEar {
    fn window(&self) -> usize {
        WINDOW
    }

    fn pass(&mut self, window: &[i16]) {
        debug_assert_eq!(window.len(), WINDOW);
        self.skipped = 0;
        self.input.copy_within(WINDOW.., 0);
        for (to, from) in self.input[CONTEXT..].iter_mut().zip(window) {
            *to = f32::from(*from) / 32_768.0;
        }
    }

    fn hear(&mut self, window: &[i16]) -> f32 {
        self.pass(window);
        let (input, state) = (&self.input, &mut self.state);
        match self.sessions.with(|session| Self::infer(session, input, state)) {
            Ok(probability) => probability,
            Err(error) => {
                tracing::warn!(%error, "silero: a window was not judged");
                0.0
            }
        }
    }

    fn skip(&mut self, samples: usize) {
        self.skipped = self.skipped.saturating_add(samples);
        self.input = [0.0; CONTEXT + WINDOW];
        if self.skipped >= FORGET_AFTER {
            self.state = [0.0; STATE];
        }
    }
}
