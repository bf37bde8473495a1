//! Counters and histograms of DESIGN section 6. What gates count is read from their ledgers at the
//! scrape, so that it cannot differ from them. Tenant and call ids are never labels.

use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::service::Service;
use crate::admission::disposition::{REASONS, TERMINALS};
use crate::call::Measure;
use crate::evidence::Unknown;
use crate::id::Stage;
use crate::leg::{AdmissionNote, HangUp, ToCaller};

type Labelled = Family<Vec<(&'static str, String)>, Counter>;

/// What is counted outside the gates.
pub struct Metrics {
    registry: Mutex<Registry>,
    late_output: Labelled,
    fallback: Labelled,
    calls_ended: Labelled,
    http_refused: Labelled,
    turn_refusals: Counter,
    /// Counted apart from the ledger because it is the number to drive to zero.
    turns_refused: AtomicU64,
    first_audio: Histogram,
    barge_in_stop: Histogram,
    dead_air: Counter,
}

impl Metrics {
    /// Nothing counted yet, by this process.
    pub fn new(incarnation: &str) -> Metrics {
        let mut registry = Registry::with_prefix("floorkeeper");
        let info = Info::new(vec![("incarnation", incarnation.to_owned())]);
        registry.register("incarnation", "This process", info);
        let late_output = Labelled::default();
        let help = "Output of an old generation that was suppressed";
        registry.register("late_output_suppressed", help, late_output.clone());
        let fallback = Labelled::default();
        registry.register("fallback", "Rungs of the fallback ladder tried", fallback.clone());
        let calls_ended = Labelled::default();
        registry.register("calls_ended", "Calls that are over", calls_ended.clone());
        let http_refused = Labelled::default();
        registry.register("calls_refused", "Calls refused before they began", http_refused.clone());
        let turn_refusals = Counter::default();
        let help = "Turns of accepted calls that a gate refused: to be driven to zero";
        registry.register("accepted_call_turn_refusals", help, turn_refusals.clone());
        let first_audio = Histogram::new(exponential_buckets(0.05, 1.5, 14));
        let help = "End of speech to first audible answer";
        registry.register("turn_first_audio_seconds", help, first_audio.clone());
        let barge_in_stop = Histogram::new(exponential_buckets(0.02, 1.5, 10));
        let help = "Begin of the caller's speech to the pause of our sending";
        registry.register("barge_in_stop_seconds", help, barge_in_stop.clone());
        let dead_air = Counter::default();
        let help = "Turns that became audible only after their budget";
        registry.register("dead_air", help, dead_air.clone());
        Metrics {
            registry: Mutex::new(registry),
            late_output,
            fallback,
            calls_ended,
            http_refused,
            turn_refusals,
            turns_refused: AtomicU64::new(0),
            first_audio,
            barge_in_stop,
            dead_air,
        }
    }

    /// A call told its caller something: some of it is counted.
    pub fn told(&self, what: &ToCaller) {
        match what {
            ToCaller::LateOutput { stage, .. } => {
                self.late_output.get_or_create(&vec![("stage", (*stage).to_owned())]).inc();
            }
            ToCaller::Fallback { rung, outcome, .. } => {
                let labels = vec![("rung", (*rung).to_owned()), ("outcome", (*outcome).to_owned())];
                self.fallback.get_or_create(&labels).inc();
            }
            ToCaller::Admission(AdmissionNote { disposition, turn: Some(_), .. })
                if matches!(*disposition, "overloaded" | "closed") =>
            {
                self.turns_refused.fetch_add(1, Ordering::Relaxed);
                self.turn_refusals.inc();
            }
            _ => {}
        }
    }

    /// A call measured a time.
    pub fn measured(&self, measure: Measure) {
        match measure {
            Measure::FirstAudio { after, too_late } => {
                self.first_audio.observe(after.as_secs_f64());
                if too_late {
                    self.dead_air.inc();
                }
            }
            Measure::BargeInStop(after) => self.barge_in_stop.observe(after.as_secs_f64()),
        }
    }

    /// A call is over.
    pub fn call_ended(&self, why: HangUp) {
        self.calls_ended.get_or_create(&vec![("why", why.label().to_owned())]).inc();
    }

    /// A call was refused before it began.
    pub fn call_refused(&self, code: &str) {
        self.http_refused.get_or_create(&vec![("code", code.to_owned())]).inc();
    }

    /// The whole page, with what the gates say.
    pub fn page(&self, service: &Service) -> String {
        let mut page = String::new();
        if let Ok(registry) = self.registry.lock() {
            // Writing to a string does not fail.
            let _ = encode(&mut page, &registry);
        }
        let end = page.rfind("# EOF").unwrap_or(page.len());
        page.truncate(end);
        let _ = writeln!(page, "# TYPE floorkeeper_calls gauge");
        let _ = writeln!(page, "floorkeeper_calls {}", service.registry.live_count());
        gates(&mut page, service);
        page.push_str("# EOF\n");
        page
    }
}

/// The gates' own counts, gauge by gauge.
fn gates(page: &mut String, service: &Service) {
    let stages: Vec<(Stage, String)> =
        service.gates.stages().map(|stage| (stage, service.gate_name(stage))).collect();
    let now = service.clock.now();
    let counts: Vec<_> = stages
        .iter()
        .filter_map(|(stage, name)| {
            service.gates.look(*stage, |gate| (name.as_str(), gate.counts(now)))
        })
        .collect();
    let mut gauge = |metric: &str, help: &str, value: &dyn Fn(usize) -> Option<f64>| {
        let _ = writeln!(page, "# HELP floorkeeper_{metric} {help}.");
        let _ = writeln!(page, "# TYPE floorkeeper_{metric} gauge");
        for (at, (gate, _)) in counts.iter().enumerate() {
            if let Some(value) = value(at) {
                let _ = writeln!(page, "floorkeeper_{metric}{{gate=\"{gate}\"}} {value}");
            }
        }
    };
    let of = |at: usize| &counts[at].1;
    gauge("admission_inflight", "Units that execute", &|at| Some(of(at).active_units.into()));
    gauge("admission_queued", "Offers that wait", &|at| Some(of(at).queued.into()));
    let configured = |at: usize| of(at).configured.map(f64::from);
    gauge("admission_limit", "Configured ceiling; absent when unlimited", &configured);
    let in_force = |at: usize| of(at).in_force.map(f64::from);
    gauge("admission_effective_limit", "Ceiling in force; absent when unlimited", &in_force);
    let age = |at: usize| Some(of(at).oldest_queued_ms.unwrap_or(0) as f64 / 1_000.0);
    gauge("admission_queue_age_seconds", "Age of the oldest that waits", &age);
    let pending = |at: usize| Some(f64::from(of(at).cleanup_pending));
    gauge("lease_cleanup_pending", "Leases cancelled and not yet back", &pending);
    let quarantined = |at: usize| Some(f64::from(of(at).quarantined_units));
    gauge("lease_quarantined", "Units of which nothing is known", &quarantined);
    decisions(page, service, &stages);
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
