//! Ears: samples to probabilities. Speech detectors run inside a call's own task; end-of-turn
//! models are asked once a pause.

use std::sync::Arc;

use crate::provider::Entry;

pub mod earshot;
pub mod gain;
pub mod silero;
pub mod smart_turn;
pub mod windows;

/// Every speech detector there is.
pub static DETECTORS: &[Entry<dyn Detector>] = &[silero::ENTRY, earshot::ENTRY];
/// What `vad.detector` says for no detection: clients take turns by themselves.
pub const OFF: &str = "off";
/// Every end-of-turn model there is.
pub static END_OF_TURN: &[Entry<dyn EndOfTurn>] = &[smart_turn::ENTRY];

/// Makes speech detectors, one a call, from weights loaded once.
pub trait Detector: Send + Sync {
    /// A detector that has heard nothing yet.
    fn listen(&self) -> Box<dyn Listening>;
}

/// One call's speech detector: keeps its own state, allocates nothing a frame.
pub trait Listening: Send {
    /// Samples of 16 kHz sound it wants at a time.
    fn window(&self) -> usize;
    /// The probability, 0 to 1, that this window holds speech.
    fn hear(&mut self, window: &[i16]) -> f32;
    /// This much plainly silent sound was skipped: forget what only mattered a moment ago.
    fn skip(&mut self, samples: usize);
}

/// An end-of-turn model.
pub trait EndOfTurn: Send + Sync {
    /// The probability, 0 to 1, that the caller has finished, from the last 8 s of 16 kHz sound.
    /// Blocks (about 30 ms): run it on a blocking thread.
    fn finished(&self, sound: &[i16]) -> f32;
}

/// A shared detector factory.
pub type SharedDetector = Arc<dyn Detector>;
