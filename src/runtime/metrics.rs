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
use serde_json::{Map, Value};

use super::gate_metrics;
use super::operated::Seen;
use super::promise_metrics;
use super::service::Service;
use crate::call::Measure;
use crate::leg::{AdmissionNote, HangUp, ToCaller};
use crate::transport::asterisk::audiosocket;
use crate::transport::sip;
use crate::transport::webrtc::PortStats;

/// What passes no gate (B-010): a closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bypass {
    /// A health or readiness probe.
    Health,
    /// A scrape.
    Metrics,
    /// A request to the control surface.
    Control,
    /// A page, a prompt's file, the API's own description.
    Page,
    /// A prompt played to a caller: it needs nothing scarce.
    Prompt,
    /// The end-of-turn model: our own CPU, bounded apart; late is only late.
    EndOfTurn,
}

impl Bypass {
    /// All of them.
    pub const ALL: [Bypass; 6] = [
        Bypass::Health,
        Bypass::Metrics,
        Bypass::Control,
        Bypass::Page,
        Bypass::Prompt,
        Bypass::EndOfTurn,
    ];

    /// The word of metrics and API.
    pub fn label(self) -> &'static str {
        match self {
            Bypass::Health => "health",
            Bypass::Metrics => "metrics",
            Bypass::Control => "control",
            Bypass::Page => "page",
            Bypass::Prompt => "prompt",
            Bypass::EndOfTurn => "end_of_turn",
        }
    }
}

type Labelled = Family<Vec<(&'static str, String)>, Counter>;

/// What is counted outside the gates.
pub struct Metrics {
    registry: Mutex<Registry>,
    late_output: Labelled,
    guesses: Labelled,
    fallback: Labelled,
    calls_ended: Labelled,
    resumptions: Labelled,
    http_refused: Labelled,
    turn_refusals: Counter,
    /// Counted apart from the ledger because it is the number to drive to zero.
    turns_refused: AtomicU64,
    first_audio: Histogram,
    barge_in_stop: Histogram,
    dead_air: Counter,
    bypassed: [AtomicU64; Bypass::ALL.len()],
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
        let guesses = Labelled::default();
        let help = "Models asked before the turn was certain, by what became of it";
        registry.register("speculative_runs", help, guesses.clone());
        for outcome in ["adopted", "dropped"] {
            let _ = guesses.get_or_create(&vec![("outcome", outcome.to_owned())]);
        }
        let fallback = Labelled::default();
        registry.register("fallback", "Rungs of the fallback ladder tried", fallback.clone());
        let calls_ended = Labelled::default();
        registry.register("calls_ended", "Calls that are over", calls_ended.clone());
        let resumptions = Labelled::default();
        let help = "Lost connections of calls that were kept, and what became of them";
        registry.register("resumptions", help, resumptions.clone());
        for outcome in ["lost", "resumed", "expired", "refused"] {
            let _ = resumptions.get_or_create(&vec![("outcome", outcome.to_owned())]);
        }
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
            guesses,
            fallback,
            calls_ended,
            resumptions,
            http_refused,
            turn_refusals,
            turns_refused: AtomicU64::new(0),
            first_audio,
            barge_in_stop,
            dead_air,
            bypassed: Default::default(),
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
            Measure::Guess { adopted } => {
                let outcome = if adopted { "adopted" } else { "dropped" };
                self.guesses.get_or_create(&vec![("outcome", outcome.to_owned())]).inc();
            }
        }
    }

    /// A call is over.
    pub fn call_ended(&self, why: HangUp) {
        self.calls_ended.get_or_create(&vec![("why", why.label().to_owned())]).inc();
    }

    /// A connection was `lost`, and its call kept; its client `resumed` it, or it `expired`; or a
    /// client that wanted one was `refused`.
    pub fn resumption(&self, outcome: &'static str) {
        self.resumptions.get_or_create(&vec![("outcome", outcome.to_owned())]).inc();
    }

    /// A call was refused before it began.
    pub fn call_refused(&self, code: &str) {
        self.http_refused.get_or_create(&vec![("code", code.to_owned())]).inc();
    }

    /// Something passed no gate.
    pub fn bypassed(&self, what: Bypass) {
        self.bypassed[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How often each kind did, as the API shows it.
    pub fn bypasses(&self) -> Map<String, Value> {
        let count = |what: Bypass| self.bypassed[what as usize].load(Ordering::Relaxed);
        Bypass::ALL.iter().map(|what| (what.label().to_owned(), count(*what).into())).collect()
    }

    /// The whole page, with what the gates say, and the promises as they were seen.
    pub fn page(&self, service: &Service, seen: Option<&Seen>, port: Option<PortStats>) -> String {
        let mut page = String::new();
        if let Ok(registry) = self.registry.lock() {
            // Writing to a string does not fail.
            let _ = encode(&mut page, &registry);
        }
        let end = page.rfind("# EOF").unwrap_or(page.len());
        page.truncate(end);
        let _ = writeln!(page, "# TYPE floorkeeper_calls gauge");
        let _ = writeln!(page, "floorkeeper_calls {}", service.registry.live_count());
        let runtime = tokio::runtime::Handle::try_current();
        let tasks = runtime.map_or(0, |runtime| runtime.metrics().num_alive_tasks());
        let _ = writeln!(page, "# TYPE floorkeeper_tasks gauge\nfloorkeeper_tasks {tasks}");
        bypasses(&mut page, self);
        gate_metrics::write(&mut page, service);
        promise_metrics::write(&mut page, service, seen);
        if let Some(stats) = port {
            datagrams(&mut page, stats);
        }
        if let Some(shared) = service.sip() {
            phones(&mut page, shared);
        }
        if service.config.asterisk.audiosocket_listen.is_some() {
            audiosocket(&mut page, &service.audiosocket);
        }
        page.push_str("# EOF\n");
        page
    }
}

/// What came to the UDP port of WebRTC calls and went no further.
fn datagrams(page: &mut String, stats: PortStats) {
    let PortStats { seats, nobodys, overrun, unread } = stats;
    let name = "floorkeeper_webrtc_datagrams_dropped";
    let _ = writeln!(page, "# TYPE floorkeeper_webrtc_peers gauge");
    let _ = writeln!(page, "floorkeeper_webrtc_peers {seats}");
    let _ = writeln!(
        page,
        "# HELP {name} Datagrams of no call, of calls that fell behind, and that found no room."
    );
    let _ = writeln!(page, "# TYPE {name} counter");
    let _ = writeln!(page, "{name}_total{{why=\"nobodys\"}} {nobodys}");
    let _ = writeln!(page, "{name}_total{{why=\"overrun\"}} {overrun}");
    let _ = writeln!(page, "{name}_total{{why=\"unread\"}} {unread}");
}

/// What came to the SIP port, or as sound of its calls, and went no further.
fn phones(page: &mut String, shared: &sip::Shared) {
    let name = "floorkeeper_sip_dropped";
    let _ = writeln!(page, "# TYPE floorkeeper_sip_dialogs gauge");
    let (living, over) = shared.dialogs();
    let _ = writeln!(page, "floorkeeper_sip_dialogs{{state=\"living\"}} {living}");
    let _ = writeln!(page, "floorkeeper_sip_dialogs{{state=\"over\"}} {over}");
    let _ = writeln!(page, "# HELP {name} Messages and packets that did nothing, by why.");
    let _ = writeln!(page, "# TYPE {name} counter");
    for what in sip::Count::ALL {
        let count = shared.counts().of(what);
        let _ = writeln!(page, "{name}_total{{why=\"{}\"}} {count}", what.label());
    }
}

/// What came by AudioSocket and went no further.
fn audiosocket(page: &mut String, counts: &audiosocket::Counts) {
    let name = "floorkeeper_audiosocket_dropped";
    let _ = writeln!(page, "# HELP {name} Connections and frames that did nothing, by why.");
    let _ = writeln!(page, "# TYPE {name} counter");
    for what in audiosocket::Count::ALL {
        let _ = writeln!(page, "{name}_total{{why=\"{}\"}} {}", what.label(), counts.of(what));
    }
}

fn bypasses(page: &mut String, metrics: &Metrics) {
    let _ = writeln!(
        page,
        "# HELP floorkeeper_admission_bypass Requests and work no gate decides about."
    );
    let _ = writeln!(page, "# TYPE floorkeeper_admission_bypass counter");
    for (what, count) in metrics.bypasses() {
        let _ = writeln!(page, "floorkeeper_admission_bypass_total{{what=\"{what}\"}} {count}");
    }
}
