//! Limits changed at run time: what was asked for, judged by what it would leave behind
//! (B-021…B-031).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value, json};

use super::service::{Service, Tenants};
use crate::admission::disposition::{REASONS, TERMINALS};
use crate::admission::gate::Gate;
use crate::admission::ledger::Account;
use crate::admission::limits::{Fairness, Limits, Mode, Overflow, Slots};
use crate::evidence::{Evidence, Unknown};
use crate::id::Stage;

/// The keys that can be changed.
pub const KEYS: [&str; 9] = [
    "mode",
    "slots",
    "queue",
    "queue_bytes",
    "max_wait_ms",
    "overflow",
    "fairness",
    "tenant_share_pct",
    "adaptive",
];

/// What is wrong with a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Which key.
    pub key: String,
    /// What is wrong with it.
    pub problem: String,
    /// What would be right.
    pub right: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}.", self.key, self.problem, self.right)
    }
}

fn wrong(key: &str, problem: impl Into<String>, right: impl Into<String>) -> Wrong {
    Wrong { key: key.to_owned(), problem: problem.into(), right: right.into() }
}

/// A change as it was asked for: `"inherit"` takes an earlier change back.
#[derive(Clone, Debug, PartialEq)]
pub struct Change(Map<String, Value>);

impl Change {
    /// Reads the body of a PATCH.
    pub fn parse(body: &Value) -> Result<Change, Wrong> {
        let Value::Object(keys) = body else {
            return Err(wrong("body", "it is no JSON object", "for example {\"slots\": 8}"));
        };
        for (key, value) in keys {
            if !KEYS.contains(&key.as_str()) {
                let near = KEYS.iter().max_by(|a, b| {
                    let close = |known: &&str| strsim::jaro_winkler(known, key);
                    close(a).total_cmp(&close(b))
                });
                let near = near.copied().unwrap_or("slots");
                let right = format!("did you mean \"{near}\"? known keys: {}", KEYS.join(", "));
                return Err(wrong(key, "there is no such key", right));
            }
            if value.is_null() {
                let right =
                    "leave the key out to keep it, or use \"inherit\" to take a change back";
                return Err(wrong(key, "null says nothing", right));
            }
        }
        Ok(Change(keys.clone()))
    }
}

/// Everything that was changed since the start.
#[derive(Debug, Default)]
pub struct Changes {
    declared: Mutex<BTreeMap<Stage, Map<String, Value>>>,
}

impl Changes {
    /// What was declared for a gate at run time.
    pub fn declared(&self, stage: Stage) -> Map<String, Value> {
        let declared = self.declared.lock().unwrap_or_else(PoisonError::into_inner);
        declared.get(&stage).cloned().unwrap_or_default()
    }

    /// Applies a change to the live gate, or changes nothing.
    pub fn apply(&self, service: &Service, stage: Stage, change: Change) -> Result<(), Wrong> {
        let mut all = self.declared.lock().unwrap_or_else(PoisonError::into_inner);
        let mut declared = all.get(&stage).cloned().unwrap_or_default();
        for (key, value) in change.0 {
            match value == "inherit" {
                true => drop(declared.remove(&key)),
                false => drop(declared.insert(key, value)),
            }
        }
        let mut limits = service.configured_limits(stage);
        for (key, value) in &declared {
            set(&mut limits, key, value)?;
        }
        if limits.queue > 0 && limits.max_wait_ms == 0 {
            let right = "a queue needs a wait above 0, or queue must be 0";
            return Err(wrong("max_wait_ms", "it is 0 while the queue has places", right));
        }
        limits.check().map_err(|e| {
            wrong(e.field, format!("it is {}", e.got), format!("it must be {} to {}", e.min, e.max))
        })?;
        service.gates.set_limits(stage, limits);
        all.insert(stage, declared);
        Ok(())
    }
}

fn set(limits: &mut Limits, key: &str, value: &Value) -> Result<(), Wrong> {
    match key {
        "mode" => {
            limits.mode = word(
                key,
                value,
                &[("off", Mode::Off), ("observe", Mode::Observe), ("enforce", Mode::Enforce)],
            )?;
        }
        "slots" if value == "unlimited" => limits.slots = Slots::Unlimited,
        "slots" => limits.slots = Slots::Units(whole(key, value, " or \"unlimited\"")?),
        "queue" => limits.queue = whole(key, value, "")?,
        "queue_bytes" => limits.queue_bytes = whole(key, value, " of bytes")?,
        "max_wait_ms" => limits.max_wait_ms = whole(key, value, " of milliseconds")?,
        "overflow" => {
            limits.overflow = word(
                key,
                value,
                &[
                    ("reject", Overflow::Reject),
                    ("replace", Overflow::Replace),
                    ("shed", Overflow::Shed),
                ],
            )?;
        }
        "fairness" => {
            let share = share_of(limits);
            limits.fairness = word(
                key,
                value,
                &[
                    ("fifo", Fairness::Fifo),
                    ("hard_cap", Fairness::HardCap { tenant_share_pct: share }),
                    ("fair", Fairness::Fair),
                ],
            )?;
        }
        "tenant_share_pct" => {
            let tenant_share_pct: u8 = whole(key, value, " from 1 to 100")?;
            limits.fairness = Fairness::HardCap { tenant_share_pct };
        }
        "adaptive" => match value.as_bool() {
            Some(adaptive) => limits.adaptive = adaptive,
            None => return Err(wrong(key, format!("{value} is no yes or no"), "true or false")),
        },
        _ => return Err(wrong(key, "there is no such key", KEYS.join(", "))),
    }
    Ok(())
}

fn share_of(limits: &Limits) -> u8 {
    match limits.fairness {
        Fairness::HardCap { tenant_share_pct } => tenant_share_pct,
        Fairness::Fifo | Fairness::Fair => 100,
    }
}

fn whole<N: TryFrom<u64>>(key: &str, value: &Value, more: &str) -> Result<N, Wrong> {
    let number = value.as_u64().and_then(|number| N::try_from(number).ok());
    number.ok_or_else(|| {
        wrong(key, format!("{value} is not possible"), format!("a whole number from 0{more}"))
    })
}

fn word<T: Clone>(key: &str, value: &Value, words: &[(&str, T)]) -> Result<T, Wrong> {
    let found = words.iter().find(|(word, _)| value == *word);
    found.map(|(_, meaning)| meaning.clone()).ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        wrong(key, format!("{value} is not known"), format!("one of {}", known.join(", ")))
    })
}

/// Limits as the API shows them.
pub fn show(limits: &Limits) -> Value {
    json!({
        "mode": limits.mode.label(),
        "slots": match limits.slots {
            Slots::Units(units) => Value::from(units),
            Slots::Unlimited => Value::from("unlimited"),
        },
        "queue": limits.queue,
        "queue_bytes": limits.queue_bytes,
        "max_wait_ms": limits.max_wait_ms,
        "overflow": limits.overflow.label(),
        "fairness": limits.fairness.label(),
        "tenant_share_pct": share_of(limits),
        "adaptive": limits.adaptive,
    })
}

/// A gate's conservation account as the API shows it.
pub fn ledger(name: &str, gate: &Gate, tenants: &Tenants) -> Value {
    let ledger = gate.ledger();
    let mut shown = account(ledger.total());
    let evidence: Map<String, Value> = Evidence::ALL
        .iter()
        .map(|kind| (kind.label().to_owned(), ledger.released_on(*kind).into()))
        .collect();
    let unknown: Map<String, Value> = Unknown::ALL
        .iter()
        .map(|cause| (cause.label().to_owned(), ledger.unknown_for(*cause).into()))
        .collect();
    let found = ledger.anomalies();
    let by_tenant: Map<String, Value> = ledger
        .tenants()
        .map(|(id, own)| (tenants.name(id).unwrap_or("none").to_owned(), account(own)))
        .collect();
    let by_class: Map<String, Value> =
        ledger.classes().map(|(id, own)| (id.to_string(), account(own))).collect();
    let more = json!({
        "gate": name,
        "balances": ledger.balances(),
        "released_on": evidence,
        "unknown": unknown,
        "already_released": ledger.already_released(),
        "anomalies": {
            "underflow": found.underflow,
            "unknown_permit": found.unknown_permit,
            "invalid_offer": found.invalid_offer,
            "dropped": found.dropped,
            "tenant_table_full": found.tenant_table_full,
        },
        "tenants": by_tenant,
        "classes": by_class,
    });
    if let (Value::Object(shown), Value::Object(more)) = (&mut shown, more) {
        shown.extend(more);
    }
    shown
}

fn account(account: &Account) -> Value {
    let refused: Map<String, Value> = REASONS
        .iter()
        .map(|reason| (reason.disposition().to_string(), account.refused_for(*reason).into()))
        .filter(|(_, count): &(String, Value)| count != 0)
        .collect();
    let terminal: Map<String, Value> = TERMINALS
        .iter()
        .map(|end| (end.disposition().to_string(), account.ended_as(*end).into()))
        .filter(|(_, count): &(String, Value)| count != 0)
        .collect();
    json!({
        "opening": account.opening,
        "offered": account.offered,
        "refused": account.refused_total(),
        "refused_by_reason": refused,
        "queued": account.queued,
        "active": account.active,
        "quarantined": account.quarantined,
        "terminal": account.terminal_total(),
        "terminal_by_kind": terminal,
    })
}
