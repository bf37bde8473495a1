//! Recognisers: sound of one utterance in, transcripts out.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::dialogue::Transcript;
use crate::provider::{Cancel, Entry, Run};

pub mod moonshine;
pub mod openai;

/// Every recogniser there is.
pub static ASRS: &[Entry<dyn Asr>] =
    &[moonshine::ENTRY, openai::ENTRY, crate::provider::scripted::ASR_ENTRY];

/// A recogniser.
pub trait Asr: Send + Sync {
    /// Listens to one utterance. It ends when told to ([`AsrInput::Close`]), cancelled, or `input`
    /// is gone.
    fn run(
        self: Arc<Self>,
        options: AsrOptions,
        input: mpsc::Receiver<AsrInput>,
        out: mpsc::Sender<AsrSignal>,
        cancel: Cancel,
    ) -> Run;

    /// It can be asked for words while the caller still speaks.
    fn gives_partials(&self) -> bool;
}

/// What a recogniser is told about an utterance before it begins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AsrOptions {
    /// Language (BCP 47).
    pub language: String,
}

/// What a recogniser is given.
#[derive(Clone, Debug, PartialEq)]
pub enum AsrInput {
    /// More sound: 16 kHz mono.
    Audio(Vec<i16>),
    /// Say what was said so far. `seq` comes back with the answer. Partial requests may be skipped
    /// when the recogniser is busy; final ones may not.
    Decode {
        /// Names this request.
        seq: u32,
        /// The caller has stopped speaking (for now): this answer may become the turn's text.
        is_final: bool,
    },
    /// Nothing follows; end the run.
    Close,
}

/// What a recogniser says.
#[derive(Clone, Debug, PartialEq)]
pub struct AsrSignal {
    /// Which request it answers.
    pub seq: u32,
    /// It answered a final request.
    pub is_final: bool,
    /// The words.
    pub transcript: Transcript,
}
