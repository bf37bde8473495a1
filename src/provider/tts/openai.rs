//! Any OpenAI-compatible speech endpoint: one request a phrase, its sound streamed.
//!
//! What its evidence proves is said in [`crate::provider::openai`]; a cancel between two phrases is
//! `completed`, because the last request has run to its end and no other was sent.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::mpsc;

use super::{Phrase, Tts, TtsOptions, TtsSignal};
use crate::evidence::{CancelEvidence, Evidence};
use crate::fault::Fault;
use crate::provider::keys::{self, Keys, Wrong};
use crate::provider::openai::{
    Client, ENDPOINT_KEYS, Endpoint, Request, SpeechDecoder, SpeechFormat, Stop, Talk, Times,
};
use crate::provider::{BuildError, Cancel, Ended, Entry, Run, Surroundings};

/// Its line in the table.
pub const ENTRY: Entry<dyn Tts> =
    Entry { name: "openai", about: "any OpenAI-compatible speech endpoint", build };

/// What an answer with sound in it may be called.
const MEDIA: [&str; 11] = [
    "",
    "audio/pcm",
    "audio/l16",
    "audio/x-pcm",
    "audio/raw",
    "audio/wav",
    "audio/wave",
    "audio/x-wav",
    "audio/vnd.wave",
    "application/octet-stream",
    "binary/octet-stream",
];

fn build(table: &toml::Table, _: &Surroundings) -> Result<Arc<dyn Tts>, BuildError> {
    let keys = Keys::new(table, &[ENDPOINT_KEYS, &["voice", "format", "rate_hz"]])?;
    let endpoint = Endpoint::from_keys(&keys, Times::with(5_000, 60_000), 32 * 1024 * 1024)?;
    no_reconcile(&endpoint)?;
    let rate_hz = keys.one("rate_hz", rate_hz)?.unwrap_or(24_000);
    let formats = [("pcm", SpeechFormat::Pcm { rate_hz }), ("wav", SpeechFormat::Wav)];
    let format = keys.one("format", |value| keys::word(value, &formats))?;
    Ok(Arc::new(SpeechTts {
        client: Client::new(endpoint)?,
        voice: keys.one("voice", keys::text)?.unwrap_or_else(|| "alloy".into()),
        format: format.unwrap_or(SpeechFormat::Pcm { rate_hz }),
    }))
}

/// `/slots` belongs to model servers.
pub(in crate::provider) fn no_reconcile(endpoint: &Endpoint) -> Result<(), BuildError> {
    if endpoint.cancel != CancelEvidence::Reconcile {
        return Ok(());
    }
    let problem = "\"reconcile\" asks a language model's server".to_owned();
    let right = "\"half_close\", \"drain\" or \"documented_abort\"".to_owned();
    Err(keys::error("cancel_evidence", (problem, right)))
}

fn rate_hz(value: &toml::Value) -> Result<u32, Wrong> {
    let given = value.as_integer().and_then(|hz| u32::try_from(hz).ok());
    given
        .filter(|hz| (8_000..=48_000).contains(hz))
        .ok_or_else(|| (format!("{value} is of no use here"), "8000 to 48000".into()))
}

struct SpeechTts {
    client: Client,
    voice: String,
    format: SpeechFormat,
}

impl Tts for SpeechTts {
    fn run(
        self: Arc<Self>,
        options: TtsOptions,
        input: mpsc::Receiver<Phrase>,
        out: mpsc::Sender<TtsSignal>,
        cancel: Cancel,
    ) -> Run {
        Box::pin(async move { self.speak(&options, input, &out, &cancel).await })
    }
}

impl SpeechTts {
    async fn speak(
        &self,
        options: &TtsOptions,
        mut input: mpsc::Receiver<Phrase>,
        out: &mpsc::Sender<TtsSignal>,
        cancel: &Cancel,
    ) -> Ended {
        let mut asked = false;
        loop {
            let next = tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    let proof = if asked { Evidence::Completed } else { Evidence::NeverStarted };
                    return Ended::stopped(proof);
                }
                next = input.recv() => next,
            };
            let Some(phrase) = next else { return Ended::completed() };
            asked = true;
            if let Err(ended) = self.say(&phrase, options, out, cancel).await {
                return ended;
            }
        }
    }

    fn request(&self, phrase: &Phrase, options: &TtsOptions) -> Request {
        let endpoint = self.client.endpoint();
        let format = match self.format {
            SpeechFormat::Pcm { .. } => "pcm",
            SpeechFormat::Wav => "wav",
        };
        let mut body = json!({
            "model": endpoint.model,
            "input": phrase.text,
            "voice": options.voice.as_ref().unwrap_or(&self.voice),
            "response_format": format,
        });
        if options.speed != 1.0 {
            // As people write it: 1.1, not 1.10000002.
            body["speed"] = json!((f64::from(options.speed) * 1_000.0).round() / 1_000.0);
        }
        if let Some(map) = body.as_object_mut() {
            map.extend(endpoint.extra.clone());
        }
        Request::json("/audio/speech", "audio/*", &body)
    }

    /// Says one phrase; `Err` is the end of the run.
    async fn say(
        &self,
        phrase: &Phrase,
        options: &TtsOptions,
        out: &mpsc::Sender<TtsSignal>,
        cancel: &Cancel,
    ) -> Result<(), Ended> {
        let request = self.request(phrase, options);
        let mut talk = self.client.open(&request, cancel).await?;
        let media = talk.media_type();
        if !MEDIA.contains(&media.as_str()) {
            return Err(talk.garbled(format!("{media} where sound was asked for")).await);
        }
        match self.sound(&mut talk, phrase.index, out, cancel).await {
            Ok(true) => {}
            Ok(false) => {
                let ended = talk.done(true).await;
                return Err(Ended { fault: Some(Fault::Empty), ..ended });
            }
            Err(stop) => return Err(talk.stopped(stop).await),
        }
        let whole = talk.done(true).await;
        let done = TtsSignal::PhraseDone { phrase: phrase.index, words: Vec::new() };
        send(out, done, cancel).await.map_err(|_| whole)
    }

    /// Passes the sound on until the answer ends; false when there was none.
    async fn sound(
        &self,
        talk: &mut Talk<'_>,
        phrase: u32,
        out: &mpsc::Sender<TtsSignal>,
        cancel: &Cancel,
    ) -> Result<bool, Stop> {
        let mut decoder = SpeechDecoder::new(self.format);
        let mut sounded = false;
        while let Some(bytes) = talk.next().await? {
            let taken = decoder.take(&bytes);
            let pcm = taken.map_err(|detail| Stop::Fault(Fault::Garbled { detail }))?;
            if let Some(pcm) = pcm {
                sounded = true;
                talk.useful();
                send(out, TtsSignal::Audio { phrase, pcm }, cancel).await?;
            }
        }
        Ok(sounded)
    }
}

async fn send(
    out: &mpsc::Sender<TtsSignal>,
    signal: TtsSignal,
    cancel: &Cancel,
) -> Result<(), Stop> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(Stop::Cancelled),
        // Nobody listens: the same as a cancel.
        sent = out.send(signal) => sent.map_err(|_| Stop::Cancelled),
    }
}
