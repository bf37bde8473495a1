//! One phrase as sound, made ahead by a synthesiser.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::audio::Pcm;
use crate::provider::Cancel;
use crate::provider::tts::{Phrase, Tts, TtsOptions, TtsSignal};

/// No phrase takes longer to make.
const RENDER_MAX: Duration = Duration::from_secs(60);
/// Pieces of sound that may wait to be put together.
const PIECES_MAX: usize = 32;

/// Makes the sound of a text, whole; the error says why there is none.
pub(super) async fn spoken(
    tts: &Arc<dyn Tts>,
    options: TtsOptions,
    text: &str,
) -> Result<Pcm, String> {
    let (phrases, input) = mpsc::channel(1);
    let (out, mut signals) = mpsc::channel(PIECES_MAX);
    let cancel = Cancel::new();
    let run = Arc::clone(tts).run(options, input, out, cancel.clone());
    let phrase = Phrase { index: 0, text: text.to_owned() };
    let feed = async move {
        // A run that ends early says itself why.
        let _ = phrases.send(phrase).await;
    };
    let collect = async {
        let mut sound = Pcm::default();
        while let Some(signal) = signals.recv().await {
            if let TtsSignal::Audio { pcm, .. } = signal {
                sound.rate_hz = pcm.rate_hz;
                sound.samples.extend(pcm.samples);
            }
        }
        sound
    };
    let all = async { tokio::join!(run, feed, collect) };
    let Ok((ended, (), sound)) = tokio::time::timeout(RENDER_MAX, all).await else {
        cancel.cancel();
        return Err(format!("nothing complete came within {} s", RENDER_MAX.as_secs()));
    };
    match ended.fault {
        Some(fault) => Err(fault.to_string()),
        None if sound.samples.is_empty() => Err("no sound came".to_owned()),
        None => Ok(sound),
    }
}
