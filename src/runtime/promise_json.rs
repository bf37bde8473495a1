//! Callbacks and handoffs as the API and webhooks write them.

use serde_json::{Map, Value, json};

use super::operated::{Account, Seen};
use crate::store::{Handoff, Record};

/// A callback.
pub fn callback(record: &Record) -> Value {
    let offer = &record.offer;
    let consent = &offer.consent;
    json!({
        "id": record.id.to_string(),
        "state": record.state.label(),
        "shelf": record.shelf.label(),
        "tenant": offer.tenant,
        "destination": offer.destination,
        "why": offer.why,
        "language": offer.language,
        "call": offer.call,
        "incarnation": offer.incarnation,
        "born_ms": offer.born_ms,
        "not_before_ms": offer.not_before_ms,
        "expires_ms": offer.expires_ms,
        "due_ms": record.due_ms,
        "changed_ms": record.changed_ms,
        "attempts": record.attempts,
        "attempts_max": offer.attempts_max,
        "backoff_ms": offer.backoff_ms,
        "consent": {
            "asked": consent.asked,
            "said": consent.said,
            "at_ms": consent.at_ms,
            "call": consent.call,
            "turn": consent.turn,
        },
        "quiet": offer.quiet.map(|quiet| json!({
            "from_minute": quiet.from_minute,
            "to_minute": quiet.to_minute,
            "utc_offset_minutes": quiet.utc_offset_minutes,
        })),
        "authorisation": offer.authorisation,
        "replays": offer.replays.map(|replayed| replayed.0.to_string()),
        "epoch": record.epoch,
        "worker": record.worker,
        "lease_until_ms": record.lease_until_ms,
        "detail": record.detail,
    })
}

/// A handoff.
pub fn handoff(handoff: &Handoff) -> Value {
    let offer = &handoff.offer;
    json!({
        "id": handoff.id.to_string(),
        "state": handoff.state.label(),
        "open": handoff.state.is_open(),
        "tenant": offer.tenant,
        "target": offer.target,
        "call": offer.call,
        "incarnation": offer.incarnation,
        "why": offer.why,
        "language": offer.language,
        "born_ms": offer.born_ms,
        "acknowledge_by_ms": offer.acknowledge_by_ms,
        "connect_by_ms": offer.connect_by_ms,
        "changed_ms": handoff.changed_ms,
        "by": handoff.by,
    })
}

/// How many there are.
pub fn counts(seen: &Seen, now_ms: u64) -> Value {
    let callbacks = &seen.callbacks;
    let states: Map<String, Value> = (callbacks.states.iter())
        .map(|(state, count)| (state.label().to_owned(), (*count).into()))
        .collect();
    json!({
        "states": states,
        "open": callbacks.open,
        "dead": callbacks.dead,
        "bytes": callbacks.bytes,
        "set_aside": callbacks.set_aside,
        "oldest_age_ms": callbacks.oldest_born_ms.map(|born_ms| now_ms.saturating_sub(born_ms)),
        "handoffs_open": seen.handoffs.values().sum::<u64>(),
    })
}

/// The store's conservation account, held against what the store counts.
pub fn account(account: &Account) -> Value {
    let Account { ledger, counted, balances } = account;
    let refused: u64 = ledger.refused.values().sum();
    let ended: Map<String, Value> = (ledger.ended.iter())
        .map(|(state, count)| (state.label().to_owned(), (*count).into()))
        .collect();
    json!({
        "opening": ledger.opening,
        "offered": ledger.offered,
        "accepted": ledger.accepted,
        "repeated": ledger.repeated,
        "refused": refused,
        "refused_by_reason": ledger.refused,
        "open": ledger.open(),
        "open_counted": counted,
        "ended": ended.values().filter_map(Value::as_u64).sum::<u64>(),
        "ended_by_state": ended,
        "replayed": ledger.replayed,
        "resolved": ledger.resolved,
        "dead_dropped": ledger.dead_dropped,
        "kept_dropped": ledger.kept_dropped,
        "set_aside": ledger.set_aside,
        "balances": balances,
    })
}
