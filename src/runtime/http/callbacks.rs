//! Callbacks over HTTP: listed, asked for, claimed, dialled, settled (DESIGN section 5).

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::desk::{Answered, Asked, Desk, Named, Wrong, bad, body, fresh, give, no, told, whole};
use super::slot::{self, Slot};
use super::{Site, answer};
use crate::admission;
use crate::id::{CallbackId, Stage, hex};
use crate::runtime::destination::canonical;
use crate::runtime::operated::NotDialled;
use crate::runtime::promise_json as shown;
use crate::runtime::promises::unix_ms;
use crate::store::{
    self, Change, Consent, IdText, Key, Offer, Outcome, Query, QuietHours, Record, Refused,
    Settlement, Shelf,
};

/// Owners of callbacks asked for over HTTP, until they are on record.
const OFFER_OWNERS: u64 = 1 << 59;
/// The longest `Idempotency-Key`.
const KEY_MAX: usize = 200;

fn words<T: Copy>(
    text: Option<&str>,
    param: &str,
    named: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, Wrong> {
    let parse = |word: &str| {
        let message = format!("There is no {param} \"{word}\".");
        named(word).ok_or_else(|| bad("invalid_parameter", &message, Some(param)))
    };
    text.into_iter().flat_map(|text| text.split(',')).map(parse).collect()
}

/// What there is, the oldest first.
pub(super) async fn list(desk: Desk, asked: Asked) -> Response {
    give(listed(&desk, &asked).await)
}

async fn listed(desk: &Desk, asked: &Asked) -> Answered {
    asked.only(&["state", "shelf", "tenant", "after", "limit", "since", "wait_ms"])?;
    let tenant = asked.text("tenant").map(str::to_owned);
    if tenant.as_deref().is_some_and(|tenant| !desk.sees(tenant)) {
        desk.operator_only()?;
    }
    let after = asked.text("after").map(|text| {
        let message = "after must be the id of a callback, the last of the page before.";
        CallbackId::parse(text).ok_or_else(|| bad("invalid_parameter", message, Some("after")))
    });
    let query = Query {
        states: words(asked.text("state"), "state", store::State::named)?,
        shelf: words(asked.text("shelf"), "shelf", Shelf::named)?.first().copied(),
        tenant: desk.tenant.clone().or(tenant),
        after: after.transpose()?,
        limit: asked.number("limit")?.unwrap_or(100).clamp(1, store::BATCH_MAX as u64) as usize,
    };
    desk.wait(asked).await?;
    // Asked for before the list: what changes while it is read is told by the next one.
    let version = desk.promises.version();
    let records = desk.promises.callbacks(query).await.map_err(no)?;
    let items = records.iter().map(shown::callback).collect();
    let mut list = desk.list("callbacks", version, items);
    let counts = match desk.tenant {
        // How many others there are is nobody else's concern.
        Some(_) => Value::Null,
        None => shown::counts(&desk.promises.seen().await.map_err(no)?, unix_ms()),
    };
    list.insert("counts".to_owned(), counts);
    Ok(fresh(StatusCode::OK, Value::Object(list)))
}

/// One of them.
pub(super) async fn show(desk: Desk, Named(id): Named<CallbackId>) -> Response {
    give(own(&desk, id).await.map(|record| fresh(StatusCode::OK, shown::callback(&record))))
}

/// This one, when whoever asks may see it.
async fn own(desk: &Desk, id: CallbackId) -> Result<Record, Wrong> {
    desk.own(desk.promises.callback(id).await, |record| &record.offer.tenant)
}

// === asked for ===

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    destination: String,
    consent: Agreed,
    tenant: Option<String>,
    #[serde(default)]
    why: String,
    #[serde(default)]
    language: String,
    #[serde(default)]
    call: String,
    not_before_ms: Option<u64>,
    expires_ms: Option<u64>,
    attempts_max: Option<u32>,
    backoff_ms: Option<u64>,
    quiet: Option<QuietHours>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Agreed {
    asked: String,
    said: String,
    at_ms: Option<u64>,
    #[serde(default)]
    call: String,
    #[serde(default)]
    turn: u32,
}

/// Asks for one. 201 once it is on record; 200 when this key has asked for it before.
pub(super) async fn create(
    State(site): State<Site>,
    desk: Desk,
    headers: HeaderMap,
    bytes: Bytes,
) -> Response {
    give(created(&site, &desk, &headers, &bytes).await)
}

async fn created(site: &Site, desk: &Desk, headers: &HeaderMap, bytes: &[u8]) -> Answered {
    let key = key_of(headers, bytes)?;
    let wanted: Wanted = body(bytes)?;
    let offer = offer_of(desk, wanted, key)?;
    put_on_record(site, desk, offer).await
}

/// The client's key, with a digest of what it is for. The same JSON is the same request, however it
/// is spaced.
fn key_of(headers: &HeaderMap, bytes: &[u8]) -> Result<Option<Key>, Wrong> {
    let Some(name) = headers.get("idempotency-key") else { return Ok(None) };
    let name = name.to_str().ok().map(str::trim).filter(|name| !name.is_empty());
    let message = format!("Idempotency-Key must be a text of at most {KEY_MAX} bytes.");
    let name = name
        .filter(|name| name.len() <= KEY_MAX)
        .ok_or_else(|| bad("invalid_idempotency_key", &message, Some("Idempotency-Key")))?;
    let said: Value = body(bytes)?;
    let digest = hex(&Sha256::digest(said.to_string().as_bytes()));
    // Apart from those that calls make for themselves.
    Ok(Some(Key { name: format!("http/{name}"), digest }))
}

fn offer_of(desk: &Desk, wanted: Wanted, key: Option<Key>) -> Result<Offer, Wrong> {
    let Some(destination) = canonical(&wanted.destination) else {
        let message =
            "destination must be a number in E.164, such as +15555550100, or a SIP address.";
        return Err(bad("bad_request", message, Some("destination")));
    };
    let tenant = wanted.tenant.or_else(|| desk.tenant.clone()).unwrap_or_default();
    if !desk.sees(&tenant) {
        desk.operator_only()?;
    }
    let now_ms = unix_ms();
    let times = desk.promises.times();
    let Agreed { asked, said, at_ms, call, turn } = wanted.consent;
    Ok(Offer {
        authorisation: format!("api:{}", desk.tenant.as_deref().unwrap_or_default()),
        tenant,
        destination,
        why: wanted.why,
        language: wanted.language,
        call: wanted.call,
        incarnation: desk.promises.incarnation().to_owned(),
        born_ms: now_ms,
        not_before_ms: wanted.not_before_ms.unwrap_or(now_ms),
        expires_ms: wanted.expires_ms.unwrap_or(now_ms + times.expires_ms),
        attempts_max: wanted.attempts_max.unwrap_or(times.attempts_max),
        backoff_ms: wanted.backoff_ms.unwrap_or(times.backoff_ms),
        consent: Consent { asked, said, at_ms: at_ms.unwrap_or(now_ms), call, turn },
        quiet: wanted.quiet,
        key,
        replays: None,
    })
}

/// Passes the gate like a call's callback does: the unit is held until the record has ended.
async fn put_on_record(site: &Site, desk: &Desk, offer: Offer) -> Answered {
    // On record already: there is nothing to make room for.
    if let Some(accepted) = desk.promises.store().repeated(&offer).await.map_err(no)? {
        let record = desk.promises.callback(accepted.id).await.map_err(no)?;
        return Ok(fresh(StatusCode::OK, shown::callback(&record)));
    }
    if let Some(why) = desk.promises.never(&offer) {
        let message = format!("It could never be dialled: {why}.");
        return Err(Box::new(told(StatusCode::CONFLICT, why, &message, None, json!({}), None)));
    }
    let mut slot = room_for(site, desk, &offer).await?;
    let now_ms = unix_ms();
    let (promises, wanted) = (desk.promises.clone(), offer.clone());
    // Behind the gate only: whoever waits there and leaves is withdrawn.
    let accepted = whole(async move {
        let accepted = promises.accept(wanted, now_ms).await?;
        if accepted.receipt.is_some()
            && let Some(lease) = slot.use_it()
        {
            promises.keep_unit(accepted.id, lease);
        }
        Ok(accepted)
    });
    let accepted = accepted.await.map_err(no)?;
    // A new record is what was asked for; an old one may have gone on since.
    let record = match accepted.repeated {
        true => desk.promises.callback(accepted.id).await.map_err(no)?,
        false => Record::new(accepted.id, offer, now_ms),
    };
    let status = if accepted.repeated { StatusCode::OK } else { StatusCode::CREATED };
    Ok(fresh(status, shown::callback(&record)))
}

async fn room_for(site: &Site, desk: &Desk, offer: &Offer) -> Result<Slot, Wrong> {
    let service = &site.service;
    let owner = admission::OwnerId(OFFER_OWNERS | service.next_call().0);
    let payer = match &desk.tenant {
        Some(_) => desk.payer,
        None => service.tenants.find(Some(&offer.tenant)),
    };
    let began = service.clock.now();
    let taken = slot::take_at(&service.gates, Stage::Callback, owner, |unit| admission::Offer {
        tenant: payer,
        ..unit
    });
    taken.await.map_err(|none| {
        let queued_ms = service.clock.now().since(began).as_millis() as u64;
        Box::new(answer::no_slot(service, Stage::Callback, &none, queued_ms))
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Again {
    expires_ms: Option<u64>,
    not_before_ms: Option<u64>,
}

/// A dead letter becomes a new offer, which passes every bound (C-044).
pub(super) async fn replay(
    State(site): State<Site>,
    desk: Desk,
    Named(id): Named<CallbackId>,
    bytes: Bytes,
) -> Response {
    let replayed = async {
        let again: Again = body(&bytes)?;
        let before = own(&desk, id).await?;
        if before.shelf != Shelf::Dead {
            return Err(no(Refused::NotDead));
        }
        let (now_ms, times) = (unix_ms(), desk.promises.times());
        let offer = Offer {
            incarnation: desk.promises.incarnation().to_owned(),
            born_ms: now_ms,
            not_before_ms: again.not_before_ms.unwrap_or(now_ms),
            expires_ms: again.expires_ms.unwrap_or(now_ms + times.expires_ms),
            key: None,
            replays: Some(IdText(id)),
            ..before.offer
        };
        put_on_record(&site, &desk, offer).await
    };
    give(replayed.await)
}

// === worked on ===

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    worker: String,
    lease_ms: u64,
    #[serde(default = "one")]
    max: usize,
}

fn one() -> usize {
    1
}

/// Gives a worker due ones, each with an epoch that all it does with it names.
pub(super) async fn claim(desk: Desk, bytes: Bytes) -> Response {
    let claimed = async {
        desk.operator_only()?;
        let Claim { worker, lease_ms, max } = body(&bytes)?;
        if !(1..=store::BATCH_MAX).contains(&max) {
            let message = format!("max must be within 1 to {}.", store::BATCH_MAX);
            return Err(bad("bad_request", &message, Some("max")));
        }
        let promises = desk.promises.clone();
        let claimed = whole(async move { promises.claim(worker, lease_ms, max).await });
        let records = claimed.await.map_err(no)?;
        let items: Vec<Value> = records.iter().map(shown::callback).collect();
        Ok(fresh(StatusCode::OK, json!({"callbacks": items})))
    };
    give(claimed.await)
}

async fn changed(desk: &Desk, id: CallbackId, change: Change) -> Answered {
    own(desk, id).await?;
    let promises = desk.promises.clone();
    let record = whole(async move { promises.change(id, change).await }).await.map_err(no)?;
    Ok(fresh(StatusCode::OK, shown::callback(&record)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Extend {
    epoch: u64,
    lease_ms: u64,
}

/// The holder of the epoch needs longer.
pub(super) async fn extend(desk: Desk, Named(id): Named<CallbackId>, bytes: Bytes) -> Response {
    let wanted = body::<Extend>(&bytes);
    give(match wanted {
        Ok(Extend { epoch, lease_ms }) => changed(&desk, id, Change::Extend(epoch, lease_ms)).await,
        Err(wrong) => Err(wrong),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Start {
    epoch: u64,
}

/// The holder of the epoch is about to dial. Nothing is to be dialled before the 200.
pub(super) async fn start_dialling(
    desk: Desk,
    Named(id): Named<CallbackId>,
    bytes: Bytes,
) -> Response {
    let started = async {
        let Start { epoch } = body(&bytes)?;
        own(&desk, id).await?;
        let promises = desk.promises.clone();
        match whole(async move { promises.start_dialling(id, epoch).await }).await {
            Ok(record) => Ok(fresh(StatusCode::OK, shown::callback(&record))),
            Err(NotDialled::Refused(why)) => Err(no(why)),
            Err(NotDialled::Forbidden { why, record }) => {
                let message =
                    format!("It must not be dialled now: {why}; it was settled not_dialled.");
                let more = json!({"reason": why, "callback": shown::callback(&record)});
                let code = "not_dialled";
                Err(Box::new(told(StatusCode::CONFLICT, code, &message, None, more, None)))
            }
        }
    };
    give(started.await)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settle {
    epoch: u64,
    outcome: String,
    retry_at_ms: Option<u64>,
    #[serde(default)]
    detail: String,
}

fn outcome(word: &str) -> Result<Outcome, Wrong> {
    let all: Vec<&str> = Outcome::ALL.iter().map(|outcome| outcome.label()).collect();
    let message = format!("outcome must be one of {}.", all.join(", "));
    Outcome::named(word).ok_or_else(|| bad("bad_request", &message, Some("outcome")))
}

/// The holder of the epoch knows what the attempt came to.
pub(super) async fn settle(desk: Desk, Named(id): Named<CallbackId>, bytes: Bytes) -> Response {
    let settled = async {
        let Settle { epoch, outcome: word, retry_at_ms, detail } = body(&bytes)?;
        let settlement = Settlement { outcome: outcome(&word)?, retry_at_ms, detail };
        changed(&desk, id, Change::Settle(epoch, settlement)).await
    };
    give(settled.await)
}

/// It is not wanted any more.
pub(super) async fn cancel(desk: Desk, Named(id): Named<CallbackId>) -> Response {
    give(changed(&desk, id, Change::Cancel).await)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resolve {
    outcome: String,
}

/// Somebody knows what became of an unknown dial.
pub(super) async fn resolve(desk: Desk, Named(id): Named<CallbackId>, bytes: Bytes) -> Response {
    let resolved = async {
        let Resolve { outcome: word } = body(&bytes)?;
        changed(&desk, id, Change::Resolve(outcome(&word)?)).await
    };
    give(resolved.await)
}
