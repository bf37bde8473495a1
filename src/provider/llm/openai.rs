//! Any OpenAI-compatible chat completions endpoint, streamed.
//!
//! What its evidence proves is said in [`crate::provider::openai`].

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::{Llm, ModelSignal};
use crate::dialogue::ModelRequest;
use crate::evidence::{CancelEvidence, Evidence};
use crate::provider::keys::{self, Keys};
use crate::provider::openai::{
    ChatStream, Client, ENDPOINT_KEYS, Endpoint, Request, Sse, Stop, Talk, Times, chat_body,
};
use crate::provider::{BuildError, Cancel, Ended, Entry, Run, Surroundings};

/// Its line in the table.
pub const ENTRY: Entry<dyn Llm> =
    Entry { name: "openai", about: "any OpenAI-compatible chat completions endpoint", build };

/// What may follow an answer's reason to end (usage, the end mark) has this long.
const TAIL: Duration = Duration::from_secs(1);

fn build(table: &toml::Table, _: &Surroundings) -> Result<Arc<dyn Llm>, BuildError> {
    let keys = Keys::new(table, &[ENDPOINT_KEYS, &["system_role", "token_limit_key"]])?;
    let endpoint = Endpoint::from_keys(&keys, Times::with(5_000, 60_000), 8 * 1024 * 1024)?;
    let roles = [("system", "system"), ("developer", "developer"), ("user", "user")];
    let limits = [("max_tokens", "max_tokens"), ("max_completion_tokens", "max_completion_tokens")];
    Ok(Arc::new(ChatLlm {
        client: Client::new(endpoint)?,
        system_role: keys.one("system_role", |v| keys::word(v, &roles))?.unwrap_or("system"),
        token_limit_key: keys
            .one("token_limit_key", |v| keys::word(v, &limits))?
            .unwrap_or("max_tokens"),
    }))
}

struct ChatLlm {
    client: Client,
    system_role: &'static str,
    token_limit_key: &'static str,
}

impl Llm for ChatLlm {
    fn run(
        self: Arc<Self>,
        request: ModelRequest,
        out: mpsc::Sender<ModelSignal>,
        cancel: Cancel,
    ) -> Run {
        Box::pin(async move { self.answer(&request, &out, &cancel).await })
    }
}

impl ChatLlm {
    fn request(&self, request: &ModelRequest) -> Request {
        let endpoint = self.client.endpoint();
        let mut body = chat_body(request, &endpoint.model, self.system_role, self.token_limit_key);
        body.extend(endpoint.extra.clone());
        let marker = (endpoint.cancel == CancelEvidence::Reconcile)
            // llama.cpp takes the highest seed for "any".
            .then(|| rand::random_range(0..u32::MAX));
        if let Some(seed) = marker {
            body.insert("seed".into(), seed.into());
        }
        let request = Request::json("/chat/completions", "text/event-stream", &body.into());
        Request { marker, ..request }
    }

    async fn answer(
        &self,
        asked: &ModelRequest,
        out: &mpsc::Sender<ModelSignal>,
        cancel: &Cancel,
    ) -> Ended {
        if cancel.is_cancelled() {
            return Ended::stopped(Evidence::NeverStarted);
        }
        let request = self.request(asked);
        let mut talk = match self.client.open(&request, cancel).await {
            Ok(talk) => talk,
            Err(ended) => return ended,
        };
        let media = talk.media_type();
        if !["", "text/event-stream"].contains(&media.as_str()) {
            return talk.garbled(format!("{media} where an event stream was asked for")).await;
        }
        let mut stream = ChatStream::to(asked);
        let read_to_end = match read(&mut talk, &mut stream, out, cancel).await {
            Ok(read_to_end) => read_to_end,
            Err(Stop::NoTail) => {
                // The words first: the proof may take its time.
                let told = tell(stream, out, cancel).await;
                let ended = talk.stopped(Stop::NoTail).await;
                return with_fault(ended, told);
            }
            Err(stop) => return talk.stopped(stop).await,
        };
        let told = tell(stream, out, cancel).await;
        with_fault(talk.done(read_to_end).await, told)
    }
}

/// Reads until the end mark (false) or the end of the body (true).
async fn read(
    talk: &mut Talk<'_>,
    stream: &mut ChatStream,
    out: &mpsc::Sender<ModelSignal>,
    cancel: &Cancel,
) -> Result<bool, Stop> {
    let mut sse = Sse::default();
    loop {
        let garbled = |detail| Stop::Fault(crate::fault::Fault::Garbled { detail });
        let bytes = talk.next().await?;
        let events = match &bytes {
            Some(bytes) => sse.take(bytes).map_err(garbled)?,
            None => sse.finish().map_err(garbled)?.into_iter().collect(),
        };
        for event in events {
            if let Some(words) = stream.event(&event).map_err(Stop::Fault)? {
                send(out, ModelSignal::Text(words), cancel).await?;
            }
        }
        if bytes.is_none() {
            return Ok(true);
        }
        if stream.is_useful() {
            talk.useful();
        }
        if stream.is_done() {
            return Ok(false);
        }
        if stream.has_finished() {
            talk.expect_tail(TAIL);
        }
    }
}

/// Says how the answer ended.
async fn tell(
    stream: ChatStream,
    out: &mpsc::Sender<ModelSignal>,
    cancel: &Cancel,
) -> Result<(), Stop> {
    for signal in stream.conclude().map_err(Stop::Fault)? {
        send(out, signal, cancel).await?;
    }
    Ok(())
}

async fn send(
    out: &mpsc::Sender<ModelSignal>,
    signal: ModelSignal,
    cancel: &Cancel,
) -> Result<(), Stop> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(Stop::Cancelled),
        // Nobody listens: the same as a cancel.
        sent = out.send(signal) => sent.map_err(|_| Stop::Cancelled),
    }
}

/// The answer's own fault, where it had one, beside what its end proves.
fn with_fault(ended: Ended, told: Result<(), Stop>) -> Ended {
    match told {
        Err(Stop::Fault(fault)) => Ended { fault: Some(fault), ..ended },
        Ok(()) | Err(Stop::Cancelled | Stop::NoTail) => ended,
    }
}
