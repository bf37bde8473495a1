//! Whoever wants to know is told of callbacks and handoffs: JSON by POST, signed, in order, at
//! least once. Nobody waits for it: what does not fit the queue, or is not taken after some tries,
//! is dropped and counted; the API has it all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http::{StatusCode, header};
use http_body_util::Full;
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::sync::mpsc;
use url::Url;

use super::elsewhere::Elsewhere;
use super::promise_json;
use super::promises::unix_ms;
use crate::config::{Config, Webhook};
use crate::id::hex;
use crate::store::{Handoff, OpenError, Record};

/// Events that wait to be told.
const QUEUE_MAX: usize = 1_024;
/// How often one is told at most.
const TRIES_MAX: u32 = 5;
/// How long one try may take, from the connection to the answer's head.
const TRY_MAX: Duration = Duration::from_secs(5);
/// Before the second try; doubled before each further one.
const BACKOFF: Duration = Duration::from_millis(250);

/// Something that has changed.
#[derive(Clone, Copy, Debug)]
pub enum News<'a> {
    /// A callback, as it is now.
    Callback(&'a Record),
    /// A handoff, as it is now.
    Handoff(&'a Handoff),
}

/// Who is told.
#[derive(Debug)]
pub(super) struct Hooks {
    callback: Option<Hook>,
    handoff: Option<Hook>,
}

#[derive(Debug)]
struct Hook {
    queue: mpsc::Sender<Event>,
    counters: Arc<Counters>,
    incarnation: String,
}

#[derive(Debug, Default)]
struct Counters {
    named: AtomicU64,
    delivered: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
}

/// What became of the events of one hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct HookCounts {
    /// Taken by whoever wants to know.
    pub delivered: u64,
    /// Given up after the last try, or refused for good.
    pub failed: u64,
    /// There was no room in the queue.
    pub dropped: u64,
}

struct Event {
    id: String,
    kind: String,
    body: Bytes,
}

impl Hooks {
    /// Begins to tell whoever the configuration names.
    pub fn start(config: &Config, incarnation: &str) -> Result<Hooks, OpenError> {
        let start = |table, hook: &Webhook| Hook::start(table, hook, incarnation);
        Ok(Hooks {
            callback: start("callback", &config.webhooks.callback)?,
            handoff: start("handoff", &config.webhooks.handoff)?,
        })
    }

    /// Somebody is told of callbacks.
    pub fn wants_callbacks(&self) -> bool {
        self.callback.is_some()
    }

    /// Queues it; never waits.
    pub fn tell(&self, news: News<'_>) {
        match (news, &self.callback, &self.handoff) {
            (News::Callback(record), Some(hook), _) => {
                hook.queue("callback", record.state.label(), promise_json::callback(record));
            }
            (News::Handoff(handoff), _, Some(hook)) => {
                hook.queue("handoff", handoff.state.label(), promise_json::handoff(handoff));
            }
            (News::Callback(_), None, _) | (News::Handoff(_), _, None) => {}
        }
    }

    /// What became of everything that was to be told.
    pub fn counts(&self) -> Vec<(&'static str, HookCounts)> {
        [("callback", &self.callback), ("handoff", &self.handoff)]
            .into_iter()
            .filter_map(|(name, hook)| Some((name, hook.as_ref()?.counters.read())))
            .collect()
    }
}

impl Hook {
    fn start(table: &str, wanted: &Webhook, incarnation: &str) -> Result<Option<Hook>, OpenError> {
        let Some(url) = &wanted.url else { return Ok(None) };
        let secret = wanted.secret_env.as_deref().map(|name| secret(table, name)).transpose()?;
        let target = Target::new(table, url, secret)?;
        let (queue, events) = mpsc::channel(QUEUE_MAX);
        let counters = Arc::new(Counters::default());
        tokio::spawn(tell_all(target, events, counters.clone()));
        Ok(Some(Hook { queue, counters, incarnation: incarnation.to_owned() }))
    }

    fn queue(&self, what: &str, state: &str, shown: Value) {
        let number = self.counters.named.fetch_add(1, Ordering::Relaxed);
        let id = format!("evt_{}_{what}_{number}", self.incarnation);
        let kind = format!("{what}.{state}");
        let body = json!({
            "id": id,
            "type": kind,
            "at_ms": unix_ms(),
            "incarnation": self.incarnation,
            what: shown,
        });
        let event = Event { id, kind, body: Bytes::from(body.to_string()) };
        if self.queue.try_send(event).is_err() {
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Counters {
    fn read(&self) -> HookCounts {
        HookCounts {
            delivered: self.delivered.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
        }
    }
}

fn secret(table: &str, variable: &str) -> Result<Vec<u8>, OpenError> {
    let found = std::env::var(variable).ok().filter(|secret| !secret.trim().is_empty());
    found.map(|secret| secret.trim().as_bytes().to_vec()).ok_or_else(|| OpenError::Config {
        key: format!("{table}.webhook_secret_env"),
        problem: format!("the environment variable {variable} is not set"),
        right: "set it to the secret that signs what is sent".to_owned(),
    })
}

async fn tell_all(target: Target, mut events: mpsc::Receiver<Event>, counters: Arc<Counters>) {
    while let Some(event) = events.recv().await {
        let mut wait = BACKOFF;
        let mut tries = 1;
        let taken = loop {
            match target.tell(&event).await {
                Told::Taken => break true,
                Told::Refused => break false,
                Told::Failed if tries == TRIES_MAX => break false,
                Told::Failed => tokio::time::sleep(wait).await,
            }
            wait *= 2;
            tries += 1;
        };
        let count = if taken { &counters.delivered } else { &counters.failed };
        count.fetch_add(1, Ordering::Relaxed);
        if !taken {
            // Neither where nor what: both may be personal.
            tracing::warn!(event = event.id, kind = event.kind, tries, "a webhook was given up");
        }
    }
}

/// Where events go.
struct Target {
    to: Elsewhere,
    path: String,
    secret: Option<Vec<u8>>,
}

/// What came of one try.
enum Told {
    Taken,
    /// For good.
    Refused,
    Failed,
}

impl Target {
    fn new(table: &str, url: &Url, secret: Option<Vec<u8>>) -> Result<Target, OpenError> {
        let to = Elsewhere::at(url).ok_or_else(|| OpenError::Config {
            key: format!("{table}.webhook_url"),
            problem: "its host can have no certificate".to_owned(),
            right: "write a host's name".to_owned(),
        })?;
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        Ok(Target { to, path: format!("{}{query}", url.path()), secret })
    }

    /// Tells it once.
    async fn tell(&self, event: &Event) -> Told {
        let Some(request) = self.request(event) else { return Told::Refused };
        let answered = tokio::time::timeout(TRY_MAX, self.to.tell(request)).await;
        match answered.ok().and_then(Result::ok) {
            Some(status) if status.is_success() => Told::Taken,
            Some(StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS) => Told::Failed,
            Some(status) if status.is_server_error() => Told::Failed,
            Some(_) => Told::Refused,
            None => Told::Failed,
        }
    }

    fn request(&self, event: &Event) -> Option<http::Request<Full<Bytes>>> {
        let mut request = self
            .to
            .request(http::Method::POST, &self.path)
            .header(header::CONTENT_TYPE, "application/json")
            .header("idempotency-key", &event.id)
            .header("x-floorkeeper-event", &event.kind);
        if let Some(secret) = &self.secret {
            let signed = sign(secret, unix_ms() / 1_000, &event.body);
            request = request.header("x-floorkeeper-signature", signed);
        }
        request.body(Full::new(event.body.clone())).ok()
    }
}

/// `t=SECONDS,v1=HEX`: HMAC-SHA256 over `SECONDS.BODY`, so that an old event cannot be sent anew.
pub fn sign(secret: &[u8], at_s: u64, body: &[u8]) -> String {
    // HMAC takes keys of every length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else { return String::new() };
    mac.update(format!("{at_s}.").as_bytes());
    mac.update(body);
    format!("t={at_s},v1={}", hex(&mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `openssl dgst -sha256 -hmac key` says of `5.{}`.
    #[test]
    fn a_signature_is_over_the_time_and_the_body() {
        let signed = sign(b"key", 5, b"{}");
        assert_eq!(
            signed,
            "t=5,v1=9be615aec64f0d044b5ad6854ab1d893ec88617fb728d2149dcd3a3428e8c45d"
        );
        assert_ne!(sign(b"key", 6, b"{}"), signed);
        assert_ne!(sign(b"other", 5, b"{}"), signed);
    }
}
