//! The figures of one run and the comparison of two; nothing here that was not measured.

use crate::figures::Run;
use crate::held::Measured;
use crate::percentiles::Percentiles;
use crate::short::Outcome;
use crate::table::verdict;

/// The agent is to be audible so much of the time, and is so within this.
const AUDIBLE: std::ops::Range<f64> = 0.36..0.44;
/// The real server's CPU per call, times the floor's.
const CPU_RATIO: f64 = 2.0;
/// How late packets may be against their stream's own schedule, at p99.
const LATE_P99_MS: f64 = 5.0;
/// A refusal comes within this.
pub const REFUSED_WITHIN_MS: f64 = 100.0;

/// The figures of one server under held calls.
#[derive(Debug, serde::Serialize)]
pub struct Figures {
    #[serde(flatten)]
    pub run: Run,
    /// Resident memory above that before the first call, per call.
    pub kib_per_call: f64,
    pub sent_per_s: f64,
    pub received_per_s: f64,
}

impl Figures {
    pub fn new(server: &str, measured: Measured) -> Figures {
        let (seconds, calls) = (measured.spent.window.as_secs_f64(), measured.calls as f64);
        let grown = measured.end.resident_bytes as f64 - measured.before.resident_bytes as f64;
        let stats = measured.stats;
        let rate = |count: u64| count as f64 / calls / seconds;
        Figures {
            kib_per_call: grown / 1_024.0 / calls,
            sent_per_s: rate(stats.sent),
            received_per_s: rate(stats.received),
            run: Run::new(server, measured.calls, &measured.spent, stats.counts),
        }
    }

    pub fn print(&self) {
        self.run.print_cpu();
        println!("  memory  {:>7.1} KiB per call", self.kib_per_call);
        self.run.print_late();
        println!(
            "  load    per call and second: {:.1} packets sent, {:.1} heard; {} broken",
            self.sent_per_s, self.received_per_s, self.run.broken
        );
        self.run.print_told();
    }

    /// Why these are no figures of the load that was asked for; `None` when they are.
    fn unfit(&self, floor: &Figures) -> Option<String> {
        for of in [self, floor] {
            if of.sent_per_s < 49.5 {
                let server = &of.run.server;
                return Some(format!("{server}: the callers could not send all their packets"));
            }
        }
        let audible = self.received_per_s / 50.0;
        if !AUDIBLE.contains(&audible) {
            let audible = audible * 100.0;
            return Some(format!("the agent was audible {audible:.0} %, 36 to 44 % is due"));
        }
        self.run.troubles()
    }

    /// Prints the comparison; true when every goal is met under the load that was asked for.
    pub fn compare(&self, floor: &Figures) -> bool {
        let ratio = self.run.cpu_ms_per_call_s / floor.run.cpu_ms_per_call_s;
        println!("{} beside {}:", self.run.server, floor.run.server);
        let unfit = self.unfit(floor);
        if let Some(why) = &unfit {
            println!("  VOID: {why}; what follows was measured, and judges nothing");
        }
        let cpu = verdict("CPU per call, times the floor's", ratio, CPU_RATIO);
        let late = verdict("packets late at p99, ms", self.run.late_ms.p99, LATE_P99_MS);
        println!("  {:<40} {:>8.2}", "the floor's own", floor.run.late_ms.p99);
        cpu && late && unfit.is_none()
    }
}

/// Prints what came of calls that were to be answered with this; true when all were.
pub fn answered(what: &str, outcome: &mut Outcome, status: u16) -> bool {
    let good = outcome.is_all(status);
    println!("{what}: {} calls, {}", outcome.asked, outcome.told());
    let setup = Percentiles::of(&mut outcome.setup_us);
    setup.line("", &format!("from INVITE to {status}"));
    if !outcome.goodbye_us.is_empty() {
        Percentiles::of(&mut outcome.goodbye_us).line("", "from BYE to 200");
    }
    let missed = outcome.asked - outcome.statuses.get(&status).map_or(0, |(count, _)| *count);
    let all = verdict(&format!("not answered with {status}"), missed as f64, 0.0);
    let soon = status == 200 || verdict("the slowest refusal, ms", setup.max, REFUSED_WITHIN_MS);
    good && all && soon
}
