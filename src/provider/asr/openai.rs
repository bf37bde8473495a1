//! Any OpenAI-compatible transcriptions endpoint: the utterance so far as a WAV file, once an
//! answer.
//!
//! What its evidence proves is said in [`crate::provider::openai`]; a cancel between two requests
//! is `completed`, because the last one has run to its end and no other was sent.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use serde::Deserialize;
use tokio::sync::mpsc;

use super::{Asr, AsrInput, AsrOptions, AsrSignal};
use crate::audio::CALLER_RATE_HZ;
use crate::dialogue::Transcript;
use crate::evidence::Evidence;
use crate::fault::Fault;
use crate::provider::keys::{self, Keys};
use crate::provider::openai::{
    Client, ENDPOINT_KEYS, Endpoint, Request, Stop, Talk, Times, wav_of,
};
use crate::provider::tts::openai::no_reconcile;
use crate::provider::{BuildError, Cancel, Ended, Entry, Run, Surroundings};

/// Its line in the table.
pub const ENTRY: Entry<dyn Asr> =
    Entry { name: "openai", about: "any OpenAI-compatible transcriptions endpoint", build };

/// Longest utterance that is sent; what is spoken beyond is not heard.
const SAMPLES_MAX: usize = 120 * CALLER_RATE_HZ as usize;
/// Final questions that may wait while another is being answered.
const WAITING_MAX: usize = 16;
/// Longest transcript of an utterance.
const TEXT_MAX: usize = 64 * 1024;

fn build(table: &toml::Table, _: &Surroundings) -> Result<Arc<dyn Asr>, BuildError> {
    let keys = Keys::new(table, &[ENDPOINT_KEYS, &["partials", "language"]])?;
    let endpoint = Endpoint::from_keys(&keys, Times::with(5_000, 20_000), 1024 * 1024)?;
    no_reconcile(&endpoint)?;
    Ok(Arc::new(TranscriptionAsr {
        client: Client::new(endpoint)?,
        partials: keys.one("partials", keys::flag)?.unwrap_or(false),
        language: keys.one("language", keys::text)?,
    }))
}

struct TranscriptionAsr {
    client: Client,
    partials: bool,
    language: Option<String>,
}

impl Asr for TranscriptionAsr {
    fn run(
        self: Arc<Self>,
        options: AsrOptions,
        input: mpsc::Receiver<AsrInput>,
        out: mpsc::Sender<AsrSignal>,
        cancel: Cancel,
    ) -> Run {
        let language = self.language.clone().unwrap_or(options.language);
        Box::pin(async move {
            let listening = Listening {
                asr: self,
                language,
                sound: Vec::new(),
                waiting: VecDeque::new(),
                asked: false,
            };
            listening.run(input, &out, &cancel).await
        })
    }

    fn gives_partials(&self) -> bool {
        self.partials
    }
}

/// A question that is being answered.
type Asking = Pin<Box<dyn Future<Output = Result<AsrSignal, Ended>> + Send>>;

/// One utterance.
struct Listening {
    asr: Arc<TranscriptionAsr>,
    language: String,
    sound: Vec<i16>,
    waiting: VecDeque<(u32, Bytes)>,
    asked: bool,
}

impl Listening {
    async fn run(
        mut self,
        mut input: mpsc::Receiver<AsrInput>,
        out: &mpsc::Sender<AsrSignal>,
        cancel: &Cancel,
    ) -> Ended {
        let mut asking: Option<Asking> = None;
        let mut open = true;
        loop {
            if asking.is_none() {
                asking =
                    self.waiting.pop_front().map(|(seq, sound)| self.ask(seq, true, sound, cancel));
            }
            if asking.is_none() && !open {
                return Ended::completed();
            }
            tokio::select! {
                biased;
                answered = answer(&mut asking) => {
                    asking = None;
                    let signal = match answered {
                        Ok(signal) => signal,
                        Err(ended) => return ended,
                    };
                    let sent = tokio::select! {
                        biased;
                        () = cancel.cancelled() => false,
                        sent = out.send(signal) => sent.is_ok(),
                    };
                    if !sent {
                        return Ended::stopped(Evidence::Completed);
                    }
                }
                // A question that is being answered sees the cancel itself and brings its proof.
                () = cancel.cancelled(), if asking.is_none() => {
                    let proof =
                        if self.asked { Evidence::Completed } else { Evidence::NeverStarted };
                    return Ended::stopped(proof);
                }
                given = input.recv(), if open => match given {
                    Some(AsrInput::Audio(samples)) => {
                        let room = SAMPLES_MAX - self.sound.len();
                        self.sound.extend(samples.into_iter().take(room));
                    }
                    Some(AsrInput::Decode { seq, is_final: true }) => {
                        if self.waiting.len() == WAITING_MAX {
                            self.waiting.pop_front();
                        }
                        self.waiting.push_back((seq, self.file()));
                    }
                    Some(AsrInput::Decode { seq, is_final: false }) => {
                        if self.asr.partials && asking.is_none() {
                            let sound = self.file();
                            asking = Some(self.ask(seq, false, sound, cancel));
                        }
                    }
                    Some(AsrInput::Close) | None => open = false,
                },
            }
        }
    }

    fn file(&self) -> Bytes {
        Bytes::from(wav_of(&self.sound, CALLER_RATE_HZ))
    }

    fn ask(&mut self, seq: u32, is_final: bool, sound: Bytes, cancel: &Cancel) -> Asking {
        self.asked = true;
        let asr = self.asr.clone();
        let request = asr.request(&sound, &self.language);
        let cancel = cancel.clone();
        Box::pin(async move {
            let text = asr.transcribe(&request, &cancel).await?;
            let transcript = Transcript { text, mean_log_prob: None };
            Ok(AsrSignal { seq, is_final, transcript })
        })
    }
}

async fn answer(asking: &mut Option<Asking>) -> Result<AsrSignal, Ended> {
    match asking {
        Some(asking) => asking.await,
        None => std::future::pending().await,
    }
}

impl TranscriptionAsr {
    fn request(&self, sound: &[u8], language: &str) -> Request {
        // A caller on a lossless leg chooses every byte of the sound: the boundary must not be
        // guessed.
        let boundary = format!("floorkeeper-{:032x}", rand::random::<u128>());
        let endpoint = self.client.endpoint();
        let mut body = Vec::with_capacity(sound.len() + 1_024);
        let mut field = |name: &str, value: &str| {
            let part = format!(
                "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
            );
            body.extend_from_slice(part.as_bytes());
        };
        field("model", &endpoint.model);
        field("response_format", "json");
        // The endpoints take ISO 639-1, the first part of our tag.
        if let Some(language) = language.split('-').next().filter(|l| !l.is_empty()) {
            field("language", language);
        }
        for (name, value) in &endpoint.extra {
            match value {
                serde_json::Value::String(text) => field(name, text),
                other => field(name, &other.to_string()),
            }
        }
        let head = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; \
             filename=\"utterance.wav\"\r\nContent-Type: audio/wav\r\n\r\n"
        );
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(sound);
        body.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        Request {
            method: Method::POST,
            path: "/audio/transcriptions".into(),
            content_type: format!("multipart/form-data; boundary={boundary}"),
            accept: "application/json",
            body: Bytes::from(body),
            marker: None,
        }
    }

    async fn transcribe(&self, request: &Request, cancel: &Cancel) -> Result<String, Ended> {
        let mut talk = self.client.open(request, cancel).await?;
        let media = talk.media_type();
        if !["", "application/json"].contains(&media.as_str()) {
            return Err(talk.garbled(format!("{media} where JSON was asked for")).await);
        }
        let answer = match read_all(&mut talk).await {
            Ok(answer) => answer,
            Err(stop) => return Err(talk.stopped(stop).await),
        };
        let ended = talk.done(true).await;
        text_of(&answer).map_err(|fault| Ended { fault: Some(fault), ..ended })
    }
}

async fn read_all(talk: &mut Talk<'_>) -> Result<Vec<u8>, Stop> {
    let mut answer = Vec::new();
    while let Some(bytes) = talk.next().await? {
        talk.useful();
        answer.extend_from_slice(&bytes);
    }
    Ok(answer)
}

fn text_of(answer: &[u8]) -> Result<String, Fault> {
    #[derive(Deserialize)]
    struct Answer {
        text: String,
    }
    if answer.is_empty() {
        return Err(Fault::Empty);
    }
    let garbled = |detail: String| Fault::Garbled { detail };
    let answer: Answer = serde_json::from_slice(answer)
        .map_err(|error| garbled(format!("the transcription is not what it should be: {error}")))?;
    if answer.text.len() > TEXT_MAX {
        return Err(garbled(format!("a transcript longer than {TEXT_MAX} bytes")));
    }
    Ok(answer.text.trim().to_owned())
}
