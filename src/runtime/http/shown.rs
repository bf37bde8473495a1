//! A gate as the API shows it: declared, effective, live, and what watches it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Site, hold};
use crate::admission::RefusalReason;
use crate::admission::adaptive::Adaptive;
use crate::admission::gate::{Counts, Gate, Held, Place, Waiting};
use crate::admission::log::Log;
use crate::admission::shadow::ShadowReport;
use crate::admission::trial::Verdict;
use crate::admission::waits::Waits;
use crate::config::LIMIT_KEYS;
use crate::id::Stage;
use crate::runtime::gates::Seen;
use crate::runtime::ledgers;
use crate::runtime::service::Service;
use crate::runtime::{change, queue_memory, service};
use crate::time::Timestamp;

/// Kept offers that one answer shows.
const INVENTORY_MAX: usize = 500;

/// A gate with its limits, its counts and what watches it (B-023).
pub(super) fn gate(site: &Site, stage: Stage) -> Value {
    let service = &site.service;
    let now = service.clock.now();
    service.changes.settle_trials(&service.gates);
    let changed = service.changes.effective(stage);
    let limits = changed.as_ref().unwrap_or_else(|| service.config.gate_limits(stage));
    let (declared, source) = declared(service, stage);
    let held = hold::held(site, stage);
    let memory = queue_memory::bound_mib(limits);
    let see = |seen: Seen<'_>| {
        let counts = seen.gate.counts(now);
        json!({
            "gate": service.gate_name(stage),
            "mode": counts.mode.label(),
            "contract": contract(stage),
            "declared": declared,
            "effective": change::show(limits),
            "source": source,
            "live": live(&counts, held),
            "queue_memory_bound_mib": memory,
            "adaptive": adaptive(&counts, seen.law),
            // Endpoints of a pool that ramp up (B-058); a stage has one backend and no pool yet.
            "warming_endpoints": 0,
            "per_minute": per_minute(&seen),
            "waits_ms": waits(seen.gate.waits()),
            "waiting": waiting(service, seen.gate, now),
            "trial": seen.gate.verdict().map(trial),
            "shadows": seen.gate.shadow_reports().iter().map(shadow).collect::<Value>(),
            "decisions": decisions(seen.gate.log()),
        })
    };
    service.gates.see(stage, see).unwrap_or_default()
}

/// What was declared, by the file, the command line or at run time, and where every value comes
/// from (B-022).
fn declared(service: &Service, stage: Stage) -> (Map<String, Value>, Map<String, Value>) {
    let config = &service.config;
    let configured = change::show(config.gate_limits(stage));
    let at_run_time: BTreeMap<String, Value> = service.changes.declared(stage);
    let (mut declared, mut source) = (Map::new(), Map::new());
    for key in LIMIT_KEYS {
        let written = config.limit_source(stage, key, &config.origins);
        let from = match at_run_time.get(key) {
            Some(value) if value == "inherit" => {
                config.limit_source(stage, key, &config.inherited.origins).label()
            }
            Some(value) => {
                declared.insert(key.to_owned(), value.clone());
                "runtime"
            }
            None => {
                if let (true, Some(value)) = (written.is_declared(), configured.get(key)) {
                    declared.insert(key.to_owned(), value.clone());
                }
                written.label()
            }
        };
        source.insert(key.to_owned(), from.into());
    }
    (declared, source)
}

fn live(counts: &Counts, held: usize) -> Value {
    let closed = counts.closed.map(|why| RefusalReason::Closed(why).disposition().reason);
    json!({
        "active": counts.active,
        "active_units": counts.active_units,
        "provisional": counts.provisional,
        "held": held,
        "cleanup_pending": counts.cleanup_pending,
        "oldest_cleanup_ms": counts.oldest_cleanup_ms,
        "quarantined": counts.quarantined,
        "quarantined_units": counts.quarantined_units,
        "queued": counts.queued,
        "held_back": counts.held_back,
        "queued_bytes": counts.queued_bytes,
        "ceiling": counts.in_force,
        "oldest_age_ms": counts.oldest_queued_ms.unwrap_or(0),
        "mean_wait_ms": counts.mean_wait_ms,
        "closed": closed,
        "pressure": counts.pressure.label(),
        "tenants_active": counts.tenants_active,
        "high_water": {
            "active_units": counts.high.active_units,
            "quarantined_units": counts.high.quarantined_units,
            "queued": counts.high.queued,
            "queued_bytes": counts.high.queued_bytes,
        },
    })
}

fn adaptive(counts: &Counts, law: &Adaptive) -> Value {
    let judged = law.last();
    json!({
        "state": judged.map_or("off", |judged| judged.stance.label()),
        "reason": judged.map(|judged| judged.why.label()),
        "ceiling": counts.adaptive,
        "evidence_age_ms": judged.and_then(|judged| judged.evidence_age_ms),
    })
}

fn per_minute(seen: &Seen<'_>) -> Value {
    let rates = seen.sampled.rates();
    let span_ms = rates.span.as_millis() as u64;
    let a_minute = |count: u64| (count * 60_000).checked_div(span_ms);
    json!({
        "over_s": span_ms / 1_000,
        "accepted": a_minute(rates.accepted),
        "started": a_minute(rates.started),
        "completed": a_minute(rates.completed),
        "retried": a_minute(rates.retried),
    })
}

fn waits(waits: &Waits) -> Value {
    json!({
        "count": waits.count(),
        "mean": waits.mean_ms(),
        "p95": waits.percentile_ms(95),
        "max": waits.max_ms(),
    })
}

/// Who waits, by tenant and by class, with the age of the oldest of each (C-018, X-22).
fn waiting(service: &Service, gate: &Gate, now: Timestamp) -> Value {
    let shown =
        |waiting: Waiting| json!({"queued": waiting.queued, "oldest_ms": waiting.oldest_ms});
    let by_tenant: Map<String, Value> = gate
        .ledger()
        .tenants()
        .filter(|(_, account)| account.queued > 0)
        .filter_map(|(tenant, _)| {
            let name = service.tenants.name(tenant).unwrap_or(service::NO_TENANT).to_owned();
            Some((name, shown(gate.waiting_of_tenant(now, tenant)?)))
        })
        .collect();
    let by_class: Map<String, Value> = gate
        .ledger()
        .classes()
        .filter(|(_, account)| account.queued > 0)
        .filter_map(|(class, _)| {
            let name = service.config.classes.name(class);
            Some((name, shown(gate.waiting_of_class(now, class)?)))
        })
        .collect();
    json!({"tenants": by_tenant, "classes": by_class})
}

fn trial(verdict: Verdict) -> Value {
    match verdict {
        Verdict::Running => json!({"state": "running"}),
        Verdict::Kept => json!({"state": "kept"}),
        Verdict::Undone(breach) => json!({
            "state": "undone",
            "measure": breach.measure,
            "seen": breach.seen,
            "limit": breach.limit,
        }),
    }
}

fn shadow(report: &ShadowReport) -> Value {
    json!({
        "account": ledgers::account(&report.account),
        "waits_ms": waits(&report.waits),
        "queued": report.queued,
        "active_units": report.active_units,
    })
}

fn decisions(log: Option<&Log>) -> Value {
    json!({
        "written": log.map_or(0, Log::written),
        "kept": log.map_or(0, |log| log.lines().count()),
    })
}

/// Everything a gate keeps, oldest first: total age since birth apart from the age of where it
/// stands (C-017).
pub(super) fn inventory(site: &Site, stage: Stage) -> Value {
    let now = site.service.clock.now();
    let held = site.service.gates.look(stage, Gate::inventory).unwrap_or_default();
    let live = held.iter().filter(|held| !matches!(held.place, Place::Ended(_)));
    let all = live.clone().count();
    let shown: Vec<Value> = live.take(INVENTORY_MAX).map(|held| kept(held, now)).collect();
    json!({"count": all, "shown": shown})
}

fn kept(held: &Held, now: Timestamp) -> Value {
    let (place, unknown) = match held.place {
        Place::Queued => ("queued", None),
        Place::Active if held.cancelled.is_some() => ("cleanup_pending", None),
        Place::Active => ("active", None),
        Place::Quarantined(cause) => ("quarantined", Some(cause.label())),
        Place::Ended(_) => ("ended", None),
    };
    let cancelled =
        held.cancelled.map(|why| crate::admission::Terminal::Cancelled(why).disposition().reason);
    json!({
        "offer": held.offer.0,
        "owner": held.owner.0,
        "place": place,
        "unknown": unknown,
        "cancelled": cancelled,
        "cost": held.cost,
        "age_ms": now.since(held.born).as_millis() as u64,
        "here_ms": now.since(held.since).as_millis() as u64,
    })
}

/// The gate's resource contract.
fn contract(stage: Stage) -> Value {
    let (unit, reserved, released, most, refused) = match stage {
        Stage::Call => (
            "one conversation",
            "before the upgrade",
            "the call's task is over",
            1,
            "an HTTP answer that says why and when to try again",
        ),
        Stage::Recognition => (
            "one utterance",
            "at the start of speech",
            "the provider's end",
            2,
            "the prompt of its reason, spoken",
        ),
        Stage::Model => (
            "one model request",
            "before the request",
            "the provider's end",
            2,
            "the prompt of its reason, spoken",
        ),
        Stage::Synthesis => (
            "one answer's voice",
            "before the model's request, confirmed at the first phrase",
            "the provider's end",
            2,
            "the prompt of its reason, spoken",
        ),
        Stage::Tool(_) => (
            "one tool run",
            "before the run",
            "the tool's end",
            4,
            "a tool result that says that it was not done",
        ),
        Stage::Callback => (
            "one callback record",
            "before the commit",
            "its terminal state",
            1,
            "the next rung of the ladder",
        ),
        Stage::Handoff => (
            "one handoff",
            "before the offer",
            "its terminal state",
            1,
            "the next rung of the ladder",
        ),
    };
    json!({
        "unit": unit,
        "reservation_point": reserved,
        "release_evidence": released,
        "scope": "process",
        "reservation": "exclusive",
        "exclusive": true,
        "cost": 1,
        "most_per_call": most,
        "when_refused": refused,
    })
}
