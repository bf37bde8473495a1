//! Dials through Twilio: a call placed by its API, whose answer becomes a stream of media to us.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::api::Done;
use super::{Addresses, Following, Said, Twilio};
use crate::config::Config;
use crate::runtime::dialler::{Attempt, Dialled, Line};
use crate::runtime::promises::unix_ms;
use crate::runtime::service::Service;
use crate::store::{Outcome, Record};
use crate::transport::Leg;
use crate::transport::twilio::rest::{Call, Status};
use crate::transport::twilio::twiml;

/// Twilio rings up to five seconds longer than it is told to, and is heard of a moment later.
pub(super) const LATE: Duration = Duration::from_secs(7);
/// Twilio's clock may be so far behind ours.
const CLOCKS_DIFFER_S: u64 = 20;
/// What Twilio is told to take at most, to tell machines from people.
const DETECTION_S: std::ops::RangeInclusive<u64> = 3..=59;

/// Dials through Twilio.
pub(in crate::runtime) struct TwilioLine(Weak<Service>);

impl TwilioLine {
    pub fn new(service: &Arc<Service>) -> TwilioLine {
        TwilioLine(Arc::downgrade(service))
    }
}

impl Line for TwilioLine {
    fn name(&self) -> &'static str {
        "twilio"
    }

    fn stops_at_pause(&self) -> bool {
        true
    }

    fn dial(&self, record: &Record) -> Dialled {
        let (service, id) = (self.0.upgrade(), record.id.to_string());
        let destination = record.offer.destination.clone();
        let tenant = record.offer.tenant.clone();
        Box::pin(async move {
            let Some(service) = service else { return Attempt::no_line("the server ends") };
            let Some(twilio) = service.twilio() else {
                return Attempt::no_line("no account of Twilio's is known");
            };
            let destination = to(&destination);
            let following = twilio
                .follow(&tenant, |at| twiml::connect(&at.stream, &[("Callback", id.as_str())]));
            let mut dialling = Dialling {
                twilio,
                config: &service.config,
                following,
                sid: None,
                answered: false,
                since_s: (unix_ms() / 1_000).saturating_sub(CLOCKS_DIFFER_S),
            };
            dialling.ring(&destination).await
        })
    }
}

/// The destination in Twilio's words.
pub(super) fn to(destination: &str) -> String {
    match destination.strip_prefix("sips:") {
        Some(address) => format!("sip:{address};transport=tls"),
        None => destination.to_owned(),
    }
}

/// One attempt.
struct Dialling<'a> {
    twilio: &'a Arc<Twilio>,
    config: &'a Config,
    following: Following,
    /// Twilio's name of the call, once it is known.
    sid: Option<String>,
    answered: bool,
    /// No call of this attempt is older, by Twilio's clock.
    since_s: u64,
}

impl Dialling<'_> {
    async fn ring(&mut self, destination: &str) -> Attempt {
        let placed = self.place(destination).await;
        let until = Instant::now() + self.config.outbound.ring_max + LATE;
        match placed {
            Done::Yes(call) => self.knows(&call.sid),
            Done::NotNow(why, after) => return Attempt::not_now(why, after),
            Done::Refused(why) => return Attempt::alone(Outcome::Failed, why),
            Done::Unknown(why) => {
                tracing::warn!("a call may have been placed: {why}");
                self.find(destination).await;
            }
        }
        self.wait(destination, until).await
    }

    async fn place(&self, destination: &str) -> Done {
        let at = &self.following.addresses;
        place(self.twilio, self.config, destination, self.config.outbound.ring_max, at).await
    }

    /// The call whose placing was not answered, where there is one that can be no other.
    async fn find(&mut self, destination: &str) {
        let (api, from) = (&self.twilio.api, &self.config.outbound.from);
        let calls = api.placed_since(self.since_s, destination, from).await;
        let mut calls = calls.unwrap_or_default();
        calls.retain(|call| !self.twilio.has_placed(&call.sid));
        if let [call] = &calls[..] {
            self.knows(&call.sid.clone());
        }
    }

    fn knows(&mut self, sid: &str) {
        self.twilio.placed(sid);
        self.sid = Some(sid.to_owned());
    }

    /// What comes of it, by what Twilio tells.
    async fn wait(&mut self, destination: &str, mut until: Instant) -> Attempt {
        loop {
            match timeout_at(until, self.following.said.recv()).await {
                Ok(Some(Said::Streams(sid, leg))) => {
                    let sid = self.sid.clone().unwrap_or(sid);
                    return self.meet(sid, leg).await;
                }
                Ok(Some(Said::Stands(call, sip))) => {
                    self.knows(&call.sid);
                    if let Some(attempt) = came_to(&call, sip) {
                        return attempt;
                    }
                    if call.status == Status::InProgress && !self.answered {
                        self.answered = true;
                        until = Instant::now() + detection(self.config).unwrap_or_default() + LATE;
                    }
                }
                // It has no room to come into.
                Ok(Some(Said::Joined(_))) => {}
                Ok(None) | Err(_) => return self.overdue(destination).await,
            }
        }
    }

    async fn meet(&self, sid: String, leg: Box<dyn Leg>) -> Attempt {
        // Where Twilio has listened, nobody else need.
        let outbound = &self.config.outbound;
        let limit = outbound.machine.filter(|_| !self.config.twilio.machine_detection);
        let attempt = Attempt::with(leg, limit, "twilio").await;
        if attempt.leg.is_none() {
            self.twilio.api.hang_up(&sid).await;
        }
        attempt
    }

    /// Nothing was heard in time: Twilio is asked, and the call taken back.
    async fn overdue(&mut self, destination: &str) -> Attempt {
        if self.sid.is_none() {
            self.find(destination).await;
        }
        let Some(sid) = self.sid.clone() else {
            return Attempt::unknown("Twilio did not say whether it placed the call");
        };
        let api = &self.twilio.api;
        let Some(call) = api.look(&sid).await else {
            return Attempt::unknown("Twilio does not say what became of the call");
        };
        if let Some(attempt) = came_to(&call, None) {
            return attempt;
        }
        if !api.hang_up(&sid).await {
            return Attempt::unknown("Twilio did not take the call back");
        }
        match call.status {
            Status::InProgress => Attempt::alone(Outcome::Failed, "answered, and no stream came"),
            _ => Attempt::alone(Outcome::NoAnswer, "it rang, and nobody came"),
        }
    }
}

/// Has Twilio ring somebody, and tell of it.
pub(super) async fn place(
    twilio: &Twilio,
    config: &Config,
    to: &str,
    ring_max: Duration,
    at: &Addresses,
) -> Done {
    let ring_s = ring_max.as_secs().max(1).to_string();
    let mut form = vec![
        ("To", to),
        ("From", config.outbound.from.as_str()),
        ("Url", at.answered.as_str()),
        ("Method", "POST"),
        ("Timeout", ring_s.as_str()),
        ("StatusCallback", at.status.as_str()),
        ("StatusCallbackMethod", "POST"),
    ];
    form.extend(["initiated", "answered", "completed"].map(|e| ("StatusCallbackEvent", e)));
    let detection_s = detection(config).map(|limit| limit.as_secs().to_string());
    if let Some(limit_s) = &detection_s {
        form.extend([("MachineDetection", "Enable"), ("MachineDetectionTimeout", limit_s)]);
    }
    twilio.api.place(&form).await
}

/// Twilio tells machines from people, within this time.
fn detection(config: &Config) -> Option<Duration> {
    let limit = config.outbound.machine.filter(|_| config.twilio.machine_detection)?;
    let limit_s = limit.as_millis().div_ceil(1_000) as u64;
    Some(Duration::from_secs(limit_s.clamp(*DETECTION_S.start(), *DETECTION_S.end())))
}

/// What a call is that was never spoken; none while it may still be.
fn came_to(call: &Call, sip: Option<u16>) -> Option<Attempt> {
    if call.machine {
        return Some(Attempt::alone(Outcome::Voicemail, "a machine answered"));
    }
    let (outcome, detail) = match call.status {
        Status::Queued | Status::Ringing | Status::InProgress => return None,
        Status::Busy => (Outcome::NoAnswer, "busy"),
        Status::NoAnswer => (Outcome::NoAnswer, "it rang, and nobody came"),
        Status::Canceled => (Outcome::NoAnswer, "taken back while it rang"),
        Status::Completed => (Outcome::NoAnswer, "hung up before a word"),
        Status::Failed => (Outcome::Failed, "Twilio could not place it"),
    };
    let sip = sip.filter(|_| call.status == Status::Failed);
    let detail = sip.map_or_else(|| detail.to_owned(), |sip| format!("refused with SIP {sip}"));
    Some(Attempt::alone(outcome, detail))
}
