//! Limits changed at run time: what was asked for, judged by what it would leave behind
//! (B-021…B-031), kept or undone by a criterion of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::gates::Gates;
use super::queue_memory;
use super::service::Service;
use crate::admission::trial::{Criterion, Verdict};
use crate::config::{Fairness, GateLimits, LIMIT_KEYS, LIMIT_MS_MAX, Mode, Overflow, Slots};
use crate::id::Stage;

/// Puts the change on trial.
const ROLLBACK: &str = "rollback";
/// The keys of a rollback criterion.
const CRITERIA: [&str; 6] =
    ["window_ms", "at_least", "queue_age_p95_ms", "refused_pct", "cleanup_pending", "failed_pct"];

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

/// A change as it was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    keys: Map<String, Value>,
    trial: Option<Criterion>,
}

impl Change {
    /// Reads the body of a PATCH.
    pub fn parse(body: &Value) -> Result<Change, Wrong> {
        let Value::Object(keys) = body else {
            return Err(wrong("body", "it is no JSON object", "for example {\"slots\": 8}"));
        };
        let mut keys = keys.clone();
        let trial = keys.remove(ROLLBACK).map(|rollback| criterion(&rollback)).transpose()?;
        for (key, value) in &keys {
            known(key, &LIMIT_KEYS)?;
            if value.is_null() {
                let right = "leave the key out to keep it, or use \"inherit\" to declare nothing";
                return Err(wrong(key, "null says nothing", right));
            }
        }
        if trial.is_some() && keys.is_empty() {
            return Err(wrong(ROLLBACK, "there is no change to undo", "name a limit beside it"));
        }
        Ok(Change { keys, trial })
    }
}

fn known(key: &str, keys: &[&str]) -> Result<(), Wrong> {
    if keys.contains(&key) {
        return Ok(());
    }
    let near = keys.iter().max_by(|a, b| {
        let close = |known: &&str| strsim::jaro_winkler(known, key);
        close(a).total_cmp(&close(b))
    });
    let near = near.copied().unwrap_or_default();
    let right = format!("did you mean \"{near}\"? known keys: {}", keys.join(", "));
    Err(wrong(key, "there is no such key", right))
}

fn criterion(rollback: &Value) -> Result<Criterion, Wrong> {
    let right = "for example {\"window_ms\": 60000, \"refused_pct\": 5}";
    let Value::Object(keys) = rollback else {
        return Err(wrong(ROLLBACK, "it is no JSON object", right));
    };
    for key in keys.keys() {
        known(key, &CRITERIA).map_err(|e| Wrong { key: format!("{ROLLBACK}.{key}"), ..e })?;
    }
    let number = |key: &str, least, most| {
        let Some(value) = keys.get(key) else { return Ok(None) };
        let number = value.as_u64().filter(|number| (least..=most).contains(number));
        let right = format!("a whole number from {least} to {most}");
        let bad = || wrong(&format!("{ROLLBACK}.{key}"), format!("{value} is not possible"), right);
        number.map(Some).ok_or_else(bad)
    };
    let criterion = Criterion {
        queue_age_p95_ms: number("queue_age_p95_ms", 0, LIMIT_MS_MAX)?,
        refused_pct: number("refused_pct", 0, 100)?,
        cleanup_pending: number("cleanup_pending", 0, u64::from(u32::MAX))?,
        failed_pct: number("failed_pct", 0, 100)?,
        window_ms: number("window_ms", 1, LIMIT_MS_MAX)?.unwrap_or(60_000),
        at_least: number("at_least", 1, u64::from(u32::MAX))?.unwrap_or(20),
    };
    let Criterion { queue_age_p95_ms, refused_pct, cleanup_pending, failed_pct, .. } = criterion;
    if queue_age_p95_ms.or(refused_pct).or(cleanup_pending).or(failed_pct).is_none() {
        return Err(wrong(ROLLBACK, "it names no measure", right));
    }
    Ok(criterion)
}

/// Everything that was changed since the start.
#[derive(Debug, Default)]
pub struct Changes {
    changed: Mutex<BTreeMap<Stage, Changed>>,
}

/// What was changed about one gate.
#[derive(Clone, Debug)]
struct Changed {
    /// As asked for, key by key; `"inherit"` declares nothing.
    declared: BTreeMap<String, Value>,
    /// What that makes of the limits.
    effective: GateLimits,
    /// What the change on trial goes back to: the last that proved itself.
    proven: Option<Proven>,
}

#[derive(Clone, Debug)]
struct Proven {
    declared: BTreeMap<String, Value>,
    effective: GateLimits,
}

impl Changes {
    /// What was declared for a gate at run time.
    pub fn declared(&self, stage: Stage) -> BTreeMap<String, Value> {
        self.lock().get(&stage).map(|changed| changed.declared.clone()).unwrap_or_default()
    }

    /// A gate's limits as changed; `None` when they are as configured.
    pub fn effective(&self, stage: Stage) -> Option<GateLimits> {
        self.lock().get(&stage).map(|changed| changed.effective.clone())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Stage, Changed>> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies a change to the live gate, or changes nothing.
    pub fn apply(&self, service: &Service, stage: Stage, change: Change) -> Result<(), Wrong> {
        let mut all = self.lock();
        // A change builds on what is in force, never on what was undone a moment ago.
        if let Some(changed) = all.get_mut(&stage) {
            changed.settle_trial(&service.gates, stage);
        }
        let before = all.get(&stage).cloned().unwrap_or_else(|| Changed {
            declared: BTreeMap::new(),
            effective: service.config.gate_limits(stage).clone(),
            proven: None,
        });
        let mut declared = before.declared.clone();
        declared.extend(change.keys);
        let effective = resolve(service, stage, &declared)?;
        let Changed { declared: earlier, effective: before, proven } = before;
        let proven = change.trial.map(|_| {
            // A trial that is still running has proven nothing.
            proven.unwrap_or(Proven { declared: earlier, effective: before })
        });
        queue_memory::warn(&service.gate_name(stage), &effective);
        service.gates.set_limits(stage, effective.meant(), effective.law(), change.trial);
        all.insert(stage, Changed { declared, effective, proven });
        Ok(())
    }

    /// Takes over how changes on trial came out: what a gate has undone is declared no longer.
    pub fn settle_trials(&self, gates: &Gates) {
        for (stage, changed) in self.lock().iter_mut() {
            changed.settle_trial(gates, *stage);
        }
    }
}

impl Changed {
    fn settle_trial(&mut self, gates: &Gates, stage: Stage) {
        if self.proven.is_none() {
            return;
        }
        match gates.see(stage, |seen| seen.gate.verdict()).flatten() {
            Some(Verdict::Running) => {}
            Some(Verdict::Undone(breach)) => {
                let Some(proven) = self.proven.take() else { return };
                tracing::warn!(
                    "{stage}: the change on trial is undone: {} was {}, {} is allowed",
                    breach.measure,
                    breach.seen,
                    breach.limit
                );
                gates.set_law(stage, proven.effective.law());
                self.declared = proven.declared;
                self.effective = proven.effective;
            }
            Some(Verdict::Kept) | None => self.proven = None,
        }
    }
}

/// What the configuration and everything declared since make of a gate's limits.
fn resolve(
    service: &Service,
    stage: Stage,
    declared: &BTreeMap<String, Value>,
) -> Result<GateLimits, Wrong> {
    let mut limits = service.config.gate_limits(stage).clone();
    let inherited = service.config.inherited_limits(stage);
    for (key, value) in declared {
        match value == "inherit" {
            true => inherit(&mut limits, inherited, key),
            false => set(&mut limits, key, value)?,
        }
    }
    let share = declared.get("tenant_share_pct").is_some_and(|share| share != "inherit");
    if share && !declared.contains_key("fairness") {
        // A share is what makes the cap (B-060).
        limits.fairness = Fairness::HardCap;
    }
    check(&limits)?;
    Ok(limits)
}

/// A key that declares nothing any more (B-027).
fn inherit(limits: &mut GateLimits, inherited: &GateLimits, key: &str) {
    match key {
        "mode" => limits.mode = inherited.mode,
        "slots" => limits.slots = inherited.slots,
        "queue" => limits.queue = inherited.queue,
        "queue_bytes" => limits.queue_bytes = inherited.queue_bytes,
        "max_wait_ms" => limits.max_wait = inherited.max_wait,
        "overflow" => limits.overflow = inherited.overflow,
        "fairness" => limits.fairness = inherited.fairness,
        "tenant_share_pct" => limits.tenant_share_pct = inherited.tenant_share_pct,
        "adaptive" => limits.adaptive = inherited.adaptive,
        "ttft_target_ms" => limits.ttft_target = inherited.ttft_target,
        "telemetry_stale_ms" => limits.telemetry_stale = inherited.telemetry_stale,
        "warmup_ms" => limits.warmup = inherited.warmup,
        "evidence_ms" => limits.evidence = inherited.evidence,
        "aging_ms" => limits.aging = inherited.aging,
        other => debug_assert!(false, "{other} was let in and is no key"),
    }
}

fn set(limits: &mut GateLimits, key: &str, value: &Value) -> Result<(), Wrong> {
    match key {
        "mode" => {
            let words =
                [("off", Mode::Off), ("observe", Mode::Observe), ("enforce", Mode::Enforce)];
            limits.mode = word(key, value, &words)?;
        }
        "slots" if value == "unlimited" => limits.slots = Slots::Unlimited,
        "slots" => limits.slots = Slots::Limited(whole(key, value, " or \"unlimited\"")?),
        "queue" => limits.queue = whole(key, value, "")?,
        "queue_bytes" => limits.queue_bytes = whole(key, value, " of bytes")?,
        "max_wait_ms" => limits.max_wait = milliseconds(key, value, 0)?,
        "overflow" => {
            let words = [
                ("reject", Overflow::Reject),
                ("replace", Overflow::Replace),
                ("shed", Overflow::Shed),
            ];
            limits.overflow = word(key, value, &words)?;
        }
        "fairness" => {
            let words = [
                ("fifo", Fairness::Fifo),
                ("hard_cap", Fairness::HardCap),
                ("fair", Fairness::Fair),
            ];
            limits.fairness = word(key, value, &words)?;
        }
        "tenant_share_pct" => {
            let share = whole(key, value, " from 1 to 100")?;
            if !(1..=100).contains(&share) {
                return Err(wrong(key, format!("it is {share}"), "it must be 1 to 100"));
            }
            limits.tenant_share_pct = share;
        }
        "adaptive" => match value.as_bool() {
            Some(adaptive) => limits.adaptive = adaptive,
            None => return Err(wrong(key, format!("{value} is no yes or no"), "true or false")),
        },
        "ttft_target_ms" => limits.ttft_target = milliseconds(key, value, 0)?,
        "telemetry_stale_ms" => limits.telemetry_stale = milliseconds(key, value, 1)?,
        "warmup_ms" => limits.warmup = milliseconds(key, value, 0)?,
        "evidence_ms" => limits.evidence = milliseconds(key, value, 1)?,
        "aging_ms" => limits.aging = milliseconds(key, value, 0)?,
        other => return known(other, &LIMIT_KEYS),
    }
    Ok(())
}

fn check(limits: &GateLimits) -> Result<(), Wrong> {
    if limits.queue > 0 && limits.max_wait.is_zero() {
        let right = "a queue needs a wait above 0, or queue must be 0";
        return Err(wrong("max_wait_ms", "it is 0 while the queue has places", right));
    }
    limits.meant().check().map_err(|e| {
        wrong(e.field, format!("it is {}", e.got), format!("it must be {} to {}", e.min, e.max))
    })
}

fn milliseconds(key: &str, value: &Value, least: u64) -> Result<Duration, Wrong> {
    let ms: u64 = whole(key, value, " of milliseconds")?;
    match (least..=LIMIT_MS_MAX).contains(&ms) {
        true => Ok(Duration::from_millis(ms)),
        false => {
            Err(wrong(key, format!("it is {ms}"), format!("it must be {least} to {LIMIT_MS_MAX}")))
        }
    }
}

fn whole<N: TryFrom<u64>>(key: &str, value: &Value, more: &str) -> Result<N, Wrong> {
    let number = value.as_u64().and_then(|number| N::try_from(number).ok());
    number.ok_or_else(|| {
        wrong(key, format!("{value} is not possible"), format!("a whole number from 0{more}"))
    })
}

fn word<T: Copy>(key: &str, value: &Value, words: &[(&str, T)]) -> Result<T, Wrong> {
    let found = words.iter().find(|(word, _)| value == *word);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        wrong(key, format!("{value} is not known"), format!("one of {}", known.join(", ")))
    })
}

/// Limits as the API shows them, by the keys that change them.
pub fn show(limits: &GateLimits) -> Map<String, Value> {
    let meant = limits.meant();
    let shown = json!({
        "mode": meant.mode.label(),
        "slots": match limits.slots {
            Slots::Limited(units) => Value::from(units),
            Slots::Unlimited => Value::from("unlimited"),
        },
        "queue": limits.queue,
        "queue_bytes": limits.queue_bytes,
        "max_wait_ms": meant.max_wait_ms,
        "overflow": meant.overflow.label(),
        "fairness": meant.fairness.label(),
        "tenant_share_pct": limits.tenant_share_pct,
        "adaptive": limits.adaptive,
        "ttft_target_ms": limits.ttft_target.as_millis() as u64,
        "telemetry_stale_ms": limits.telemetry_stale.as_millis() as u64,
        "warmup_ms": limits.warmup.as_millis() as u64,
        "evidence_ms": limits.evidence.as_millis() as u64,
        "aging_ms": limits.aging.as_millis() as u64,
    });
    match shown {
        Value::Object(shown) => shown,
        _ => Map::new(),
    }
}

/// What a shadow goes by: the gate's own limits with these keys changed.
pub fn varied(service: &Service, stage: Stage, keys: &Value) -> Result<GateLimits, Wrong> {
    let change = Change::parse(keys)?;
    if change.trial.is_some() {
        return Err(wrong(ROLLBACK, "a shadow changes nothing", "leave it out"));
    }
    let mut declared = service.changes.declared(stage);
    declared.extend(change.keys);
    resolve(service, stage, &declared)
}
