//! Who may work on promises over HTTP, and how the store's refusals are told: one table.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::auth::Caller;
use super::{Site, answer};
use crate::id::TenantId;
use crate::runtime::promises::Promises;
use crate::store::{Place, Refused, Sealed};

/// The longest that a list may wait for a change; a proxy's patience is longer.
const WAIT_MAX: Duration = Duration::from_secs(25);

/// An answer that is already there because something is wrong; boxed as it is large.
pub(super) type Wrong = Box<Response>;

/// Somebody at the desk where promises are worked on: the operator, who sees everybody's, or a
/// tenant, who sees their own.
pub(super) struct Desk {
    /// What is promised.
    pub promises: Arc<Promises>,
    /// Whose promises; `None` is the operator.
    pub tenant: Option<String>,
    /// Who pays.
    pub payer: TenantId,
}

impl FromRequestParts<Site> for Desk {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Desk, Response> {
        let caller = Caller::from_request_parts(parts, site).await?;
        if caller.session.is_some() {
            // It was minted for a page to talk with, and these are callers' numbers.
            let message = "A client secret opens sessions; this needs one of the server's keys.";
            let code = "key_not_allowed";
            return Err(answer::error(StatusCode::FORBIDDEN, code, message, None));
        }
        let service = &site.service;
        let tenant = service.tenants.name(caller.tenant).map(str::to_owned);
        match service.promises() {
            Some(promises) => Ok(Desk { promises: promises.clone(), tenant, payer: caller.tenant }),
            None => {
                let message = "This server has no store, so it promises nothing.";
                let status = StatusCode::SERVICE_UNAVAILABLE;
                Err(answer::error(status, "no_store", message, None))
            }
        }
    }
}

impl Desk {
    /// It may be shown here: another's is as good as none.
    pub fn sees(&self, tenant: &str) -> bool {
        self.tenant.as_deref().is_none_or(|own| own == tenant)
    }

    /// This record, when it may be shown here.
    pub fn own<T>(&self, found: Result<T, Refused>, of: fn(&T) -> &str) -> Result<T, Wrong> {
        let seen = found
            .and_then(|one| if self.sees(of(&one)) { Ok(one) } else { Err(Refused::NotFound) });
        seen.map_err(no)
    }

    /// Only the operator may.
    pub fn operator_only(&self) -> Result<(), Wrong> {
        if self.tenant.is_none() {
            return Ok(());
        }
        let message = "Only a key without a tenant may do this: it is about everybody's.";
        Err(Box::new(answer::error(StatusCode::FORBIDDEN, "operator_only", message, None)))
    }

    /// Waits as the query asks: `since` a version, `wait_ms` at most.
    pub async fn wait(&self, query: &Asked) -> Result<(), Wrong> {
        let most = Duration::from_millis(query.number("wait_ms")?.unwrap_or(0)).min(WAIT_MAX);
        if let Some(since) = query.number("since")? {
            self.promises.wait_for_change(since, most).await;
        }
        Ok(())
    }

    /// A list, with what a page needs to follow it.
    pub fn list(&self, name: &str, version: u64, items: Vec<Value>) -> Map<String, Value> {
        let Value::Object(list) = json!({
            "incarnation": self.promises.incarnation(),
            "version": version,
            "store": self.promises.health(),
            "now_ms": crate::runtime::promises::unix_ms(),
            name: items,
        }) else {
            return Map::new();
        };
        list
    }
}

/// What is answered, or what is wrong instead.
pub(super) type Answered = Result<Response, Wrong>;

/// The answer, whichever it is.
pub(super) fn give(answered: Answered) -> Response {
    answered.unwrap_or_else(|wrong| *wrong)
}

/// What the store refuses, as an answer.
pub(super) fn no(why: Refused) -> Wrong {
    Box::new(refused(&why))
}

/// Does it to its end, also when whoever asked has left: hyper drops a handler whose client has
/// gone, and what is then committed must not be cut off from what follows from it.
pub(super) async fn whole<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    match tokio::spawn(work).await.map_err(tokio::task::JoinError::try_into_panic) {
        Ok(done) => done,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // The runtime ends, and with it this.
        Err(Err(_)) => std::future::pending().await,
    }
}

/// The query of a request, as it was written.
pub(super) struct Asked(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Asked {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Asked, Response> {
        let query = parts.uri.query().unwrap_or_default();
        Ok(Asked(url::form_urlencoded::parse(query.as_bytes()).into_owned().collect()))
    }
}

impl Asked {
    /// Nothing is asked that this list does not know, or that nobody can mean.
    pub fn only(&self, known: &[&str]) -> Result<(), Wrong> {
        if let Some((name, _)) = self.0.iter().find(|(_, value)| value.contains('\0')) {
            let message = format!("{name} has a NUL in it.");
            return Err(bad("invalid_parameter", &message, Some(name)));
        }
        match self.0.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some((name, _)) => {
                let message =
                    format!("There is no \"{name}\" here; there are {}.", known.join(", "));
                Err(bad("unknown_parameter", &message, Some(name)))
            }
        }
    }

    /// The value of this name.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The same as a number.
    pub fn number(&self, name: &str) -> Result<Option<u64>, Wrong> {
        let parse = |text: &str| {
            let message = format!("{name} must be a whole number.");
            text.parse().map_err(|_| bad("invalid_parameter", &message, Some(name)))
        };
        self.text(name).map(parse).transpose()
    }
}

/// The `{id}` of a path.
pub(super) struct Named<T>(pub T);

/// What can stand in a path.
pub(super) trait Name: Sized + Send {
    /// The one that is written so.
    fn read(text: &str) -> Option<Self>;
}

impl Name for crate::id::CallbackId {
    fn read(text: &str) -> Option<Self> {
        crate::id::CallbackId::parse(text)
    }
}

impl Name for crate::id::HandoffId {
    fn read(text: &str) -> Option<Self> {
        crate::id::HandoffId::parse(text)
    }
}

impl<T: Name> FromRequestParts<Site> for Named<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Named<T>, Response> {
        // Whoever may not ask is not told what a right name looks like.
        Caller::from_request_parts(parts, site).await?;
        let path = Path::<String>::from_request_parts(parts, site).await;
        let found = path.ok().and_then(|Path(text)| T::read(&text));
        found.map(Named).ok_or_else(|| refused(&Refused::NotFound))
    }
}

/// The body as what is wanted; what is wrong with it is said.
pub(super) fn body<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Wrong> {
    let text = if bytes.is_empty() { b"{}" } else { bytes };
    serde_json::from_slice(text).map_err(|problem| {
        let said = problem.to_string();
        let code = if problem.is_data() { "invalid_body" } else { "invalid_json" };
        // serde names the field between backticks.
        let param = said.split('`').nth(1).filter(|_| problem.is_data());
        bad(code, &format!("The body is not what is wanted here: {said}."), param)
    })
}

/// A request that is wrong in itself.
pub(super) fn bad(code: &str, message: &str, param: Option<&str>) -> Wrong {
    Box::new(answer::error(StatusCode::BAD_REQUEST, code, message, param))
}

/// JSON that nobody keeps.
pub(super) fn fresh(status: StatusCode, body: Value) -> Response {
    let mut response = (status, Json(body)).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The one table: what the store refuses, as a status; after how many seconds it is worth another
/// try, where that is known.
pub(super) fn status_of(refused: &Refused) -> (StatusCode, Option<u64>) {
    match refused {
        Refused::Bad { .. } => (StatusCode::BAD_REQUEST, None),
        Refused::Full(Place::Inbox) => (StatusCode::TOO_MANY_REQUESTS, Some(1)),
        Refused::Full(Place::Records) | Refused::Bytes => (StatusCode::TOO_MANY_REQUESTS, Some(60)),
        Refused::TenantFull | Refused::DestinationFull => (StatusCode::TOO_MANY_REQUESTS, Some(60)),
        Refused::KeyReused { .. } => (StatusCode::UNPROCESSABLE_ENTITY, None),
        Refused::Duplicate { .. }
        | Refused::HandoffOpen { .. }
        | Refused::Expired { .. }
        | Refused::StaleEpoch { .. }
        | Refused::LeaseLapsed { .. }
        | Refused::WrongState { .. }
        | Refused::HandoffIs { .. }
        | Refused::NotDead => (StatusCode::CONFLICT, None),
        Refused::NotFound => (StatusCode::NOT_FOUND, None),
        Refused::Sealed(Sealed::Stopped | Sealed::Io(_)) => (StatusCode::SERVICE_UNAVAILABLE, None),
        Refused::Sealed(_) => (StatusCode::SERVICE_UNAVAILABLE, Some(5)),
        Refused::Unreadable(_) => (StatusCode::INTERNAL_SERVER_ERROR, None),
    }
}

/// A refusal of the store, with what whoever asked needs to go on.
pub(super) fn refused(refused: &Refused) -> Response {
    let (status, retry_after_s) = status_of(refused);
    let param = match refused {
        Refused::Bad { field, .. } => Some(*field),
        _ => None,
    };
    let more = match refused {
        Refused::Duplicate { existing } | Refused::KeyReused { existing } => {
            json!({"existing": existing.to_string()})
        }
        Refused::HandoffOpen { existing } => json!({"existing": existing.to_string()}),
        Refused::StaleEpoch { current } => json!({"epoch": current}),
        Refused::WrongState { state } => json!({"state": state.label()}),
        Refused::HandoffIs { state } => json!({"state": state.label()}),
        Refused::Expired { at_ms } | Refused::LeaseLapsed { at_ms } => json!({"at_ms": at_ms}),
        Refused::Sealed(why) => json!({"sealed": why.label()}),
        _ => json!({}),
    };
    told(status, refused.label(), &sentence(refused), param, more, retry_after_s)
}

fn sentence(refused: &Refused) -> String {
    let said = refused.to_string();
    let mut letters = said.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}.", letters.as_str())
}

/// An error with more beside it.
pub(super) fn told(
    status: StatusCode,
    code: &str,
    message: &str,
    param: Option<&str>,
    more: Value,
    retry_after_s: Option<u64>,
) -> Response {
    let kind = if status.is_server_error() { "server_error" } else { "invalid_request_error" };
    let error = json!({"message": message, "type": kind, "param": param, "code": code});
    let mut body = json!({"error": error});
    if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
        body.extend(more);
    }
    let mut response = fresh(status, body);
    if let Some(seconds) = retry_after_s {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{CallbackId, HandoffId};
    use crate::store::{HandoffState, State};

    /// Every code that the store has is told, and with which status.
    #[test]
    fn every_refusal_has_its_status() {
        let all = [
            (Refused::Bad { field: "worker", problem: "is missing".into() }, 400),
            (Refused::Full(Place::Records), 429),
            (Refused::Full(Place::Inbox), 429),
            (Refused::Bytes, 429),
            (Refused::TenantFull, 429),
            (Refused::DestinationFull, 429),
            (Refused::Duplicate { existing: CallbackId(1) }, 409),
            (Refused::HandoffOpen { existing: HandoffId(1) }, 409),
            (Refused::KeyReused { existing: CallbackId(1) }, 422),
            (Refused::Expired { at_ms: 1 }, 409),
            (Refused::StaleEpoch { current: 2 }, 409),
            (Refused::LeaseLapsed { at_ms: 1 }, 409),
            (Refused::WrongState { state: State::Dialling }, 409),
            (Refused::HandoffIs { state: HandoffState::Busy }, 409),
            (Refused::NotFound, 404),
            (Refused::NotDead, 409),
            (Refused::Sealed(Sealed::DiskFull), 503),
            (Refused::Unreadable("x".into()), 500),
        ];
        let mut left: std::collections::BTreeSet<&str> = Refused::LABELS.into_iter().collect();
        for (refusal, status) in &all {
            let response = refused(refusal);
            assert_eq!(response.status().as_u16(), *status, "{refusal}");
            let waits = response.headers().contains_key(header::RETRY_AFTER);
            assert_eq!(waits, matches!(status, 429 | 503), "{refusal}");
            left.remove(refusal.label());
        }
        assert!(left.is_empty(), "no status is known for {left:?}");
    }
}
