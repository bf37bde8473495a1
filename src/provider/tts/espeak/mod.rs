//! espeak-ng's own voice: robotic, in most languages, first sound after some 20 ms.
//!
//! Cancel evidence: `drain`, and fast: a cancel kills the child process and waits for its end.
//! `completed` proves that no child of this run exists any more, `never_started` that none ever
//! did.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;

use self::child::{Running, lost, say, voice_of};
use super::spoken::clean;
use super::{Phrase, Tts, TtsOptions, TtsSignal};
use crate::audio::Pcm;
use crate::evidence::Evidence;
use crate::fault::Fault;
use crate::provider::{BuildError, Cancel, Ended, Entry, Run, Surroundings, table};

pub(super) mod child;
pub(super) use self::child::Espeak;

/// Its line in the table.
pub const ENTRY: Entry<dyn Tts> =
    Entry { name: "espeak", about: "espeak-ng's own voice, on this machine", build };

/// Words a minute at speed 1.
const WORDS_PER_MIN: f32 = 175.0;
/// Nothing may take longer between two pieces of sound.
const SOUND_MS: u64 = 5_000;
/// Longest phrase that is spoken, in bytes.
const TEXT_MAX: usize = 4_000;
/// Sound is passed on in pieces of at most this many bytes: 0.2 s.
const PIECE: usize = 8_820;
/// Longest header of a WAV file that is looked through.
const HEADER_MAX: usize = 512;

fn build(keys: &toml::Table, _: &Surroundings) -> Result<Arc<dyn Tts>, BuildError> {
    table::only(keys, &[])?;
    Ok(Arc::new(EspeakVoice { espeak: Espeak::find()? }))
}

/// The voice.
pub struct EspeakVoice {
    espeak: Espeak,
}

impl Tts for EspeakVoice {
    fn run(
        self: Arc<Self>,
        options: TtsOptions,
        input: mpsc::Receiver<Phrase>,
        out: mpsc::Sender<TtsSignal>,
        cancel: Cancel,
    ) -> Run {
        Box::pin(async move {
            let mut speaking =
                Speaking { voice: self, options, out, started: false, running: None };
            let spoken = tokio::select! {
                biased;
                () = cancel.cancelled() => Ok(()),
                spoken = speaking.all(input) => spoken,
            };
            speaking.end(spoken).await
        })
    }
}

/// One answer being spoken.
struct Speaking {
    voice: Arc<EspeakVoice>,
    options: TtsOptions,
    out: mpsc::Sender<TtsSignal>,
    started: bool,
    running: Option<Running>,
}

impl Speaking {
    async fn all(&mut self, mut input: mpsc::Receiver<Phrase>) -> Result<(), Fault> {
        while let Some(phrase) = input.recv().await {
            let text = clean(&phrase.text);
            if text.len() > TEXT_MAX {
                return Err(Fault::Garbled { detail: format!("a phrase of {} bytes", text.len()) });
            }
            // A line is spoken as it comes: a break within the phrase would only cost its flow.
            let text = text.replace('\n', " ");
            if text.contains(char::is_alphanumeric) {
                self.phrase(phrase.index, &text).await?;
            }
            let done = TtsSignal::PhraseDone { phrase: phrase.index, words: Vec::new() };
            if self.out.send(done).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn phrase(&mut self, index: u32, text: &str) -> Result<(), Fault> {
        let speed = if self.options.speed > 0.0 { self.options.speed.clamp(0.5, 2.0) } else { 1.0 };
        let rate = format!("{:.0}", WORDS_PER_MIN * speed);
        let voice = voice_of(&self.options.language);
        let running = self.voice.espeak.start(&voice, &["-s", &rate, "--stdout"]).await?;
        self.started = true;
        let child = &mut self.running.insert(running).child;
        let (mut stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let Some(mut stdout) = stdout else { return Err(Fault::Empty) };
        let give = async { say(&mut stdin, text).await.map_err(|error| lost(&error)) };
        let take = sound(&mut stdout, index, &self.out);
        let ((), wanted) = tokio::try_join!(give, take)?;
        if !wanted {
            return Ok(());
        }
        if let Some(mut running) = self.running.take() {
            let wait = tokio::time::timeout(Duration::from_millis(SOUND_MS), running.finish());
            wait.await.map_err(|_| Fault::Slow { deadline: "sound" })??;
        }
        Ok(())
    }

    /// Kills what still runs, waits for its end, and says what that proves.
    async fn end(mut self, spoken: Result<(), Fault>) -> Ended {
        if let Some(mut running) = self.running.take() {
            // An error here means that it has already ended.
            let _ = running.child.kill().await;
        }
        let proof = if self.started { Evidence::Completed } else { Evidence::NeverStarted };
        match spoken {
            Ok(()) => Ended::stopped(proof),
            Err(fault) => Ended::failed(fault, Ok(proof)),
        }
    }
}

/// Passes the sound on as it comes. `false`: nobody wants it any more.
async fn sound(
    pipe: &mut (impl AsyncReadExt + Unpin),
    index: u32,
    out: &mpsc::Sender<TtsSignal>,
) -> Result<bool, Fault> {
    let mut bytes = Vec::with_capacity(PIECE * 2);
    let mut rate_hz = None;
    loop {
        let read = tokio::time::timeout(Duration::from_millis(SOUND_MS), pipe.read_buf(&mut bytes));
        let read = read.await.map_err(|_| Fault::Slow { deadline: "sound" })?;
        let ended = read.map_err(|error| lost(&error))? == 0;
        if rate_hz.is_none()
            && let Some((rate, header)) = header(&bytes)
        {
            rate_hz = Some(rate);
            bytes.drain(..header);
        }
        let Some(rate_hz) = rate_hz else {
            if ended || bytes.len() > HEADER_MAX {
                return Err(Fault::Garbled { detail: "espeak-ng gave no WAV file".into() });
            }
            continue;
        };
        while bytes.len() >= PIECE || (ended && bytes.len() >= 2) {
            let piece = bytes.len().min(PIECE) & !1;
            let two = bytes[..piece].chunks_exact(2);
            let samples = two.map(|two| i16::from_le_bytes([two[0], two[1]])).collect();
            bytes.drain(..piece);
            let pcm = Pcm { rate_hz, samples };
            if out.send(TtsSignal::Audio { phrase: index, pcm }).await.is_err() {
                return Ok(false);
            }
        }
        if ended {
            return Ok(true);
        }
    }
}

/// Sample rate and length of a WAV file's header, once it is all there.
fn header(bytes: &[u8]) -> Option<(u32, usize)> {
    let rate: [u8; 4] = bytes.get(24..28)?.try_into().ok()?;
    let data = bytes.windows(4).position(|four| four == b"data")?;
    (bytes.len() >= data + 8).then_some((u32::from_le_bytes(rate), data + 8))
}
