//! The voice webhook: a line is taken for the call before its stream is asked for, or the caller is
//! told the truth.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::realtime::offer_call;
use super::slot::NoSlot;
use super::twilio::{Seated, agent_of};
use super::{Site, twilio_auth};
use crate::admission::disposition::Disposition;
use crate::admission::{Cancelled, Closed, RefusalReason, Terminal};
use crate::call::{Cause, Standing};
use crate::config::{Agent, Refuse};
use crate::id::Stage;
use crate::runtime::service::Service;
use crate::transport::twilio::twiml;

/// What of the webhook's form the stream is told.
const TOLD: [&str; 3] = ["CallSid", "From", "To"];

/// Calls that have their line and wait for their stream.
#[derive(Default)]
pub struct Seats {
    waiting: Mutex<HashMap<String, (Seated, AbortHandle)>>,
}

impl Seats {
    /// Keeps a call's line for its stream, so long, or until all calls have to end. Gives the name
    /// that the stream has to show.
    fn keep(
        self: &Arc<Self>,
        seated: Seated,
        within: Duration,
        mut ending: watch::Receiver<bool>,
    ) -> String {
        let name = format!("{:032x}", rand::random::<u128>());
        let (seats, late) = (self.clone(), name.clone());
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let expiry = tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(within) => {}
                _ = ending.wait_for(|ending| *ending) => {}
            }
            // A stream that never came: nothing was started on its line.
            drop(seats.take(&late));
        });
        waiting.insert(name.clone(), (seated, expiry.abort_handle()));
        name
    }

    /// The call whose stream this is; once.
    pub(super) fn take(&self, name: &str) -> Option<Seated> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let (seated, expiry) = waiting.remove(name)?;
        expiry.abort();
        Some(seated)
    }
}

/// Answers a telephone call: with a stream, or with the truth.
pub async fn answer(State(site): State<Site>, parts: Parts, body: Bytes) -> Response {
    let form: Vec<(String, String)> = url::form_urlencoded::parse(&body).into_owned().collect();
    let caller = match twilio_auth::caller(&site, &parts, &form, "twilio").await {
        Ok(caller) => caller,
        Err(refused) => return *refused,
    };
    let query = parts.uri.query().unwrap_or_default().as_bytes();
    let mut params: Vec<(String, String)> =
        url::form_urlencoded::parse(query).into_owned().filter(|(name, _)| name != "key").collect();
    let asked = params.iter().find(|(name, _)| name == "agent").map(|(_, agent)| agent.clone());
    let config = &site.service.config;
    let dialled = form.iter().find(|(name, _)| name == "To");
    let dialled = dialled.and_then(|(_, number)| config.agent_at(number)).map(|it| &it.name);
    let agent = agent_of(&site, asked.as_ref().or(dialled)).clone();
    params.extend(form.into_iter().filter(|(name, _)| TOLD.contains(&name.as_str())));
    let call = site.service.next_call();
    match offer_call(&site.service, call, caller.tenant, &agent).await {
        Ok(slot) => {
            let seated = Seated { call, caller, agent: agent.name, slot };
            let within = site.service.config.twilio.stream_within;
            let seat = site.seats.keep(seated, within, site.service.ending());
            let path = format!("/v1/twilio/seat/{seat}");
            told(&twiml::connect(&twilio_auth::stream_address(&site, &parts, &path), &params))
        }
        Err(none) => told(&refusal(&site, &agent, &none)),
    }
}

/// What the caller of a refused call is told: the prompt of that refusal, and no more; or nothing.
fn refusal(site: &Site, agent: &Agent, none: &NoSlot) -> String {
    let service = &site.service;
    let (cause, row) = why(service, none);
    service.metrics.call_refused(row.http_code);
    if service.config.twilio.refuse == Refuse::Reject {
        return twiml::REJECT.to_owned();
    }
    let standing = Standing::default();
    let said = service.prompts.chooser().choose(&cause, &agent.language, &standing);
    twiml::say(&agent.language, &said.text)
}

/// What a caller for whom there is no slot is told of, and how it is counted.
pub(in crate::runtime) fn why(service: &Service, none: &NoSlot) -> (Cause, &'static Disposition) {
    match none {
        NoSlot::Refused(refusal) => (Cause::refused(*refusal), refusal.reason.disposition()),
        NoSlot::Ended(terminal @ Terminal::Cancelled(Cancelled::Drain)) => {
            let reason = RefusalReason::Closed(Closed::Draining);
            let refusal = service.gates.look(Stage::Call, |gate| gate.refusal(reason));
            let cause = refusal.map_or(Cause::expired(Stage::Call), Cause::refused);
            (cause, terminal.disposition())
        }
        NoSlot::Ended(terminal) => (Cause::expired(Stage::Call), terminal.disposition()),
    }
}

pub(super) fn told(inside: &str) -> Response {
    let mut response = twiml::document(inside).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/xml; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
