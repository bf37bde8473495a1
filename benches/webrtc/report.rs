//! The figures of one run and the comparison of two; nothing here that was not measured.

use crate::callers::Measured;
use crate::figures::Run;
use crate::percentiles::Percentiles;
use crate::table::verdict;

/// So much more or less encoded than at the floor, in percent, and the two cannot be compared.
const SAME_LOAD_PERCENT: f64 = 5.0;

/// The figures of one server under one load.
#[derive(Debug, serde::Serialize)]
pub struct Figures {
    #[serde(flatten)]
    pub run: Run,
    /// CPU time of one call's set-up.
    pub setup_cpu_ms: f64,
    /// Resident memory above that before the first call, per call: set up, and after the talk.
    pub setup_kib: f64,
    pub kib_per_call: f64,
    /// From the offer's connection to the events' open channel.
    pub setup_ms: Percentiles,
    /// Packets a second and call: from the caller, and encoded by the server.
    pub sent_per_s: f64,
    pub received_per_s: f64,
    pub received_kbit_s: f64,
}

impl Figures {
    pub fn new(server: &str, mut measured: Measured) -> Figures {
        let (seconds, calls) = (measured.spent.window.as_secs_f64(), measured.calls as f64);
        let setup_cpu = (measured.set_up.cpu - measured.before.cpu).as_secs_f64();
        let before = measured.before.resident_bytes as f64;
        let kib = |resident: u64| (resident as f64 - before) / 1_024.0 / calls;
        let stats = measured.stats;
        let rate = |count: u64| count as f64 / calls / seconds;
        Figures {
            run: Run::new(server, measured.calls, &measured.spent, stats.counts),
            setup_cpu_ms: setup_cpu * 1_000.0 / calls,
            setup_kib: kib(measured.set_up.resident_bytes),
            kib_per_call: kib(measured.end.resident_bytes),
            setup_ms: Percentiles::of(&mut measured.setup_us),
            sent_per_s: rate(stats.sent),
            received_per_s: rate(stats.received),
            received_kbit_s: rate(stats.received_bytes) * 8.0 / 1_000.0,
        }
    }

    pub fn print(&self) {
        self.run.print_cpu();
        println!(
            "  memory  {:>7.1} KiB per call, {:.1} KiB of it when it was set up",
            self.kib_per_call, self.setup_kib
        );
        println!("  set-up  {:>7.2} ms of CPU per call", self.setup_cpu_ms);
        self.setup_ms.line("", "from the offer to the open channel");
        self.run.print_late();
        println!(
            "  load    per call and second: {:.1} packets decoded, {:.1} encoded and sent ({:.1} \
             kbit/s); {} answers, {} broken",
            self.sent_per_s,
            self.received_per_s,
            self.received_kbit_s,
            self.run.answers,
            self.run.broken
        );
        self.run.print_told();
    }

    /// Why these are no figures of the load that was asked for; `None` when they are.
    fn unfit(&self, floor: &Figures, is_same_load: bool) -> Option<String> {
        for of in [self, floor] {
            if of.sent_per_s < 49.5 {
                return Some(format!(
                    "{}: the callers could not send all their packets",
                    of.run.server
                ));
            }
        }
        let apart = (self.received_per_s / floor.received_per_s - 1.0) * 100.0;
        if is_same_load && apart.abs() > SAME_LOAD_PERCENT {
            return Some(format!("{apart:.1} % more packets were encoded than at the floor"));
        }
        self.run.troubles()
    }

    /// Prints the comparison and gives the ratio of CPU per call, if the load is the one that was
    /// asked for: a void one judges nothing.
    pub fn compare(&self, floor: &Figures, goal: Option<f64>) -> Option<f64> {
        let ratio = self.run.cpu_ms_per_call_s / floor.run.cpu_ms_per_call_s;
        println!("{} beside {}:", self.run.server, floor.run.server);
        let unfit = self.unfit(floor, goal.is_some());
        if let Some(why) = &unfit {
            println!("  VOID: {why}; what follows was measured, and judges nothing");
        }
        let plain = |what: &str, ratio: f64| println!("  {what:<40} {ratio:>8.2}");
        match goal {
            Some(goal) => {
                verdict("CPU per call, times the floor's", ratio, goal);
            }
            None => plain("CPU per call, times the floor's", ratio),
        }
        plain("set-up CPU, times the floor's", self.setup_cpu_ms / floor.setup_cpu_ms);
        plain("set-up p99, times the floor's", self.setup_ms.p99 / floor.setup_ms.p99);
        plain("memory per call, times the floor's", self.kib_per_call / floor.kib_per_call);
        unfit.is_none().then_some(ratio)
    }
}
