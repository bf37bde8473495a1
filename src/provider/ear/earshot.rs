//! earshot: a small detector in pure Rust, for machines without ONNX Runtime. It takes most music
//! and tones for speech, which Silero does not.

use std::sync::Arc;

use super::{Detector, Listening};
use crate::provider::{BuildError, Entry, Surroundings, table};

/// Its line in the table.
pub const ENTRY: Entry<dyn Detector> = Entry {
    name: "earshot",
    about: "small detector inside the program; hears music as speech",
    build,
};

/// Samples it wants at a time: 16 ms.
const WINDOW: usize = 256;
/// After this much skipped silence nothing of the past matters: 0.2 s.
const FORGET_AFTER: usize = 3_200;

fn build(keys: &toml::Table, _: &Surroundings) -> Result<Arc<dyn Detector>, BuildError> {
    table::only(keys, &[])?;
    Ok(Arc::new(Earshot))
}

/// Its weights are part of the program.
pub struct Earshot;

impl Detector for Earshot {
    fn listen(&self) -> Box<dyn Listening> {
        Box::new(EarshotEar { detector: earshot::Detector::default_boxed(), skipped: 0 })
    }
}

/// One call's ear.
struct EarshotEar {
    detector: Box<earshot::Detector>,
    skipped: usize,
}

impl Listening for EarshotEar {
    fn window(&self) -> usize {
        WINDOW
    }

    fn hear(&mut self, window: &[i16]) -> f32 {
        debug_assert_eq!(window.len(), WINDOW);
        self.skipped = 0;
        self.detector.predict_i16(window).clamp(0.0, 1.0)
    }

    fn skip(&mut self, samples: usize) {
        let before = self.skipped;
        self.skipped = self.skipped.saturating_add(samples);
        if before < FORGET_AFTER && self.skipped >= FORGET_AFTER {
            self.detector.reset();
        }
    }
}
