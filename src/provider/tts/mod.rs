//! Synthesisers: phrases in, sound out.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::audio::Pcm;
use crate::dialogue::WordTime;
use crate::provider::{Cancel, Entry, Run};

pub mod espeak;
pub mod openai;
pub mod piper;
mod spoken;

/// Every synthesiser there is.
pub static TTSS: &[Entry<dyn Tts>] =
    &[piper::ENTRY, espeak::ENTRY, openai::ENTRY, crate::provider::scripted::TTS_ENTRY];

/// A synthesiser.
pub trait Tts: Send + Sync {
    /// Speaks the phrases of one answer in order. It ends after the last phrase once `input` is
    /// closed, or when cancelled.
    fn run(
        self: Arc<Self>,
        options: TtsOptions,
        input: mpsc::Receiver<Phrase>,
        out: mpsc::Sender<TtsSignal>,
        cancel: Cancel,
    ) -> Run;
}

/// How to speak.
#[derive(Clone, Debug, PartialEq)]
pub struct TtsOptions {
    /// The voice; `None` is the provider's own default.
    pub voice: Option<String>,
    /// Language (BCP 47).
    pub language: String,
    /// Speaking rate; 1 is normal.
    pub speed: f32,
}

/// Something to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phrase {
    /// Its place in the answer, from 0.
    pub index: u32,
    /// The words.
    pub text: String,
}

/// What a synthesiser says.
#[derive(Clone, Debug, PartialEq)]
pub enum TtsSignal {
    /// More sound of a phrase. Phrases come in order, each in one or more pieces, at any rate.
    Audio {
        /// The phrase's index.
        phrase: u32,
        /// The sound.
        pcm: Pcm,
    },
    /// All of this phrase has come.
    PhraseDone {
        /// The phrase's index.
        phrase: u32,
        /// When its words sound; empty when the synthesiser cannot tell.
        words: Vec<WordTime>,
    },
}
