//! Silero v6: quiet on music and tones, a thousandth of a core a call.

use std::sync::Arc;

use self::network::{INPUT, Network, State};
use super::{Detector, Listening};
use crate::provider::models::{self, EARS};
use crate::provider::{BuildError, Entry, Surroundings, table};

mod network;
mod weights;

/// Its line in the table.
pub const ENTRY: Entry<dyn Detector> =
    Entry { name: "silero", about: "Silero v6, computed in the process itself", build };

/// Samples it wants at a time: 32 ms.
const WINDOW: usize = 512;
/// Samples of the window before that it is shown again.
const CONTEXT: usize = INPUT - WINDOW;
/// After this much skipped silence nothing of the past matters: 0.2 s.
const FORGET_AFTER: usize = 3_200;
/// Windows of silence behind which its state stays as it is: eight seconds.
const SETTLED_AFTER: usize = 250;
/// The model's file in its pack.
const FILE: &str = "silero_vad.onnx";

fn build(keys: &toml::Table, around: &Surroundings) -> Result<Arc<dyn Detector>, BuildError> {
    table::only(keys, &[])?;
    Ok(Arc::new(Silero::open(around)?))
}

/// The weights, loaded once for all calls.
pub struct Silero {
    network: Arc<Network>,
    /// Where silence leaves it. From a state of zeros some words are heard 0.3 s late.
    silent: Arc<State>,
}

impl Silero {
    /// Loads the weights from the model store.
    pub fn open(around: &Surroundings) -> Result<Silero, BuildError> {
        let file = models::locate(&around.models_dir, &EARS, FILE)?;
        let missing = |detail| BuildError::Missing { what: file.display().to_string(), detail };
        let model = std::fs::read(&file).map_err(|error| missing(error.to_string()))?;
        let network = Network::read(&model).map_err(missing)?;
        let mut silent = State::default();
        for _ in 0..SETTLED_AFTER {
            network.run(&[0.0; INPUT], &mut silent);
        }
        Ok(Silero { network: Arc::new(network), silent: Arc::new(silent) })
    }
}

impl Detector for Silero {
    fn listen(&self) -> Box<dyn Listening> {
        Box::new(SileroEar {
            network: Arc::clone(&self.network),
            input: [0.0; INPUT],
            state: State::clone(&self.silent),
            silent: Arc::clone(&self.silent),
            skipped: 0,
        })
    }
}

/// One call's ear.
struct SileroEar {
    network: Arc<Network>,
    /// The end of the window before, then the window.
    input: [f32; INPUT],
    state: State,
    silent: Arc<State>,
    skipped: usize,
}

impl Listening for SileroEar {
    fn window(&self) -> usize {
        WINDOW
    }

    fn hear(&mut self, window: &[i16]) -> f32 {
        debug_assert_eq!(window.len(), WINDOW);
        self.skipped = 0;
        self.input.copy_within(WINDOW.., 0);
        for (to, from) in self.input[CONTEXT..].iter_mut().zip(window) {
            *to = f32::from(*from) / 32_768.0;
        }
        self.network.run(&self.input, &mut self.state)
    }

    fn skip(&mut self, samples: usize) {
        self.skipped = self.skipped.saturating_add(samples);
        self.input = [0.0; INPUT];
        if self.skipped >= FORGET_AFTER {
            self.state.clone_from(&self.silent);
        }
    }
}
