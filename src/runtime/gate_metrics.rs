//! What gates count, read from their ledgers at the scrape, so that it cannot differ from them
//! (B-090, B-091).

use std::fmt::Write as _;

use super::service::Service;
use crate::admission::adaptive::{Judged, Stance};
use crate::admission::disposition::{REASONS, TERMINALS};
use crate::admission::gate::Counts;
use crate::admission::waits::Waits;
use crate::evidence::Unknown;
use crate::id::Stage;

/// A gate at the scrape.
struct Scraped {
    gate: String,
    counts: Counts,
    judged: Option<Judged>,
    waits: Waits,
}

/// Writes the gates' part of the page.
pub(super) fn write(page: &mut String, service: &Service) {
    let stages: Vec<(Stage, String)> =
        service.gates.stages().map(|stage| (stage, service.gate_name(stage))).collect();
    let now = service.clock.now();
    let scrape = |(stage, gate): &(Stage, String)| {
        service.gates.see(*stage, |seen| Scraped {
            gate: gate.clone(),
            counts: seen.gate.counts(now),
            judged: seen.law.last(),
            waits: seen.gate.waits().clone(),
        })
    };
    let scraped: Vec<Scraped> = stages.iter().filter_map(scrape).collect();
    gauges(page, &scraped);
    states(page, &scraped);
    wait_times(page, &scraped);
    decisions(page, service, &stages);
}

/// The counts of this instant, gauge by gauge.
fn gauges(page: &mut String, scraped: &[Scraped]) {
    let mut gauge = |metric: &str, help: &str, value: &dyn Fn(&Counts) -> Option<f64>| {
        head(page, metric, help, "gauge");
        for Scraped { gate, counts, .. } in scraped {
            if let Some(value) = value(counts) {
                let _ = writeln!(page, "floorkeeper_{metric}{{gate=\"{gate}\"}} {value}");
            }
        }
    };
    gauge("admission_inflight", "Units that execute", &|c| Some(c.active_units.into()));
    gauge("admission_queued", "Offers that wait", &|c| Some(c.queued.into()));
    let help = "Of them, those held back by a share, a reservation or pressure, not by capacity";
    gauge("admission_held_back", help, &|c| Some(c.held_back.into()));
    let help = "Configured ceiling; absent when unlimited";
    gauge("admission_limit", help, &|c| c.configured.map(f64::from));
    let help = "Ceiling in force; absent when unlimited";
    gauge("admission_effective_limit", help, &|c| c.in_force.map(f64::from));
    let age = |c: &Counts| Some(c.oldest_queued_ms.unwrap_or(0) as f64 / 1_000.0);
    gauge("admission_queue_age_seconds", "Age of the oldest that waits", &age);
    let help = "Tenants that hold or wait for something, where they are told apart";
    gauge("admission_tenants_active", help, &|c| Some(c.tenants_active.into()));
    gauge("admission_warming_endpoints", "Endpoints that ramp up", &|_| Some(0.0));
    let help = "Leases cancelled and not yet back";
    gauge("lease_cleanup_pending", help, &|c| Some(c.cleanup_pending.into()));
    let help = "Units of which nothing is known";
    gauge("lease_quarantined", help, &|c| Some(c.quarantined_units.into()));
}

/// States as labels: the one that holds is 1.
fn states(page: &mut String, scraped: &[Scraped]) {
    let mut state =
        |metric: &str, help: &str, label: &str, value: &dyn Fn(&Scraped) -> &'static str| {
            head(page, metric, help, "gauge");
            for one in scraped {
                let (gate, value) = (&one.gate, value(one));
                let _ =
                    writeln!(page, "floorkeeper_{metric}{{gate=\"{gate}\",{label}=\"{value}\"}} 1");
            }
        };
    state("admission_mode", "What the gate does", "mode", &|one| one.counts.mode.label());
    let stance = |one: &Scraped| one.judged.map_or(Stance::Off, |j| j.stance).label();
    state("admission_adapt_state", "How the adaptive ceiling stands", "state", &stance);
    let why = |one: &Scraped| one.judged.map_or("none", |judged| judged.why.label());
    state("admission_adapt_reason", "Why it stands so", "reason", &why);
    let help = "How hard the stages behind this gate are pressed";
    state("admission_pressure", help, "level", &|one| one.counts.pressure.label());
}

/// How long those waited that were let through.
fn wait_times(page: &mut String, scraped: &[Scraped]) {
    let metric = "admission_wait_seconds";
    head(page, metric, "How long offers waited that were then let through", "histogram");
    let seconds = |ms: u64| ms as f64 / 1_000.0;
    for Scraped { gate, waits, .. } in scraped {
        let mut bucket = |le: &str, count: u64| {
            let labels = format!("gate=\"{gate}\",le=\"{le}\"");
            let _ = writeln!(page, "floorkeeper_{metric}_bucket{{{labels}}} {count}");
        };
        // Up to an hour, the longest wait there can be.
        for (ms, count) in waits.cumulative().skip(1).take(23) {
            bucket(&seconds(ms).to_string(), count);
        }
        bucket("+Inf", waits.count());
        let _ = writeln!(page, "floorkeeper_{metric}_count{{gate=\"{gate}\"}} {}", waits.count());
        let sum = seconds(waits.sum_ms());
        let _ = writeln!(page, "floorkeeper_{metric}_sum{{gate=\"{gate}\"}} {sum}");
    }
}

fn head(page: &mut String, metric: &str, help: &str, kind: &str) {
    let _ = writeln!(page, "# HELP floorkeeper_{metric} {help}.");
    let _ = writeln!(page, "# TYPE floorkeeper_{metric} {kind}");
}

fn decisions(page: &mut String, service: &Service, stages: &[(Stage, String)]) {
    let _ = writeln!(page, "# HELP floorkeeper_admission_decisions Offers decided and ended.");
    let _ = writeln!(page, "# TYPE floorkeeper_admission_decisions counter");
    let mut unknown = String::new();
    let mut anomalies = String::new();
    for (stage, gate) in stages {
        let lines = service.gates.look(*stage, |held| {
            let ledger = held.ledger();
            let total = ledger.total();
            for reason in REASONS {
                let row = reason.disposition();
                let label = if row.reason.is_empty() { row.label } else { row.reason };
                let count = total.refused_for(reason);
                let _ = decision(page, gate, label, count);
            }
            for terminal in TERMINALS {
                let row = terminal.disposition();
                let label = if row.reason.is_empty() { row.label } else { row.reason };
                let _ = decision(page, gate, &format!("ended_{label}"), total.ended_as(terminal));
            }
            let _ = decision(page, gate, "offered", total.offered);
            let _ = decision(page, gate, "admitted", total.ever_admitted);
            let _ = decision(page, gate, "queued", total.ever_queued);
            let would_shed = total.would_refuse.iter().sum();
            let _ = decision(page, gate, "observe_would_shed", would_shed);
            let _ = decision(page, gate, "observe_would_queue", total.would_queue);
            for cause in Unknown::ALL {
                let count = ledger.unknown_for(cause);
                let _ = writeln!(
                    unknown,
                    "floorkeeper_lease_unknown_total{{gate=\"{gate}\",cause=\"{}\"}} {count}",
                    cause.label()
                );
            }
            let found = ledger.anomalies();
            let _ = writeln!(
                anomalies,
                "floorkeeper_anomalies_total{{gate=\"{gate}\",kind=\"underflow\"}} {}\n\
                 floorkeeper_anomalies_total{{gate=\"{gate}\",kind=\"unknown_permit\"}} {}\n\
                 floorkeeper_anomalies_total{{gate=\"{gate}\",kind=\"dropped\"}} {}",
                found.underflow, found.unknown_permit, found.dropped
            );
        });
        debug_assert!(lines.is_some(), "stages are those of the gates");
    }
    let _ = writeln!(page, "# HELP floorkeeper_lease_unknown Leases of which nothing is known.");
    let _ = writeln!(page, "# TYPE floorkeeper_lease_unknown counter");
    page.push_str(&unknown);
    let _ = writeln!(page, "# HELP floorkeeper_anomalies Broken bookkeeping; 0 or a bug.");
    let _ = writeln!(page, "# TYPE floorkeeper_anomalies counter");
    page.push_str(&anomalies);
}

fn decision(page: &mut String, gate: &str, reason: &str, count: u64) -> std::fmt::Result {
    let name = "floorkeeper_admission_decisions_total";
    writeln!(page, "{name}{{gate=\"{gate}\",reason=\"{reason}\"}} {count}")
}
