//! The figures of one run and the comparison of two; nothing here that was not measured.

use std::collections::BTreeMap;

use crate::callers::Measured;
use crate::percentiles::Percentiles;
use crate::table::verdict;

/// Other processes that take more than this disturb the figures.
const QUIET_CORES: f64 = 0.15;
/// So much more or less encoded than at the floor, in percent, and the two cannot be compared.
const SAME_LOAD_PERCENT: f64 = 5.0;

/// The figures of one server under one load.
#[derive(Debug, serde::Serialize)]
pub struct Figures {
    pub server: String,
    pub calls: usize,
    pub seconds: f64,
    /// CPU time of the server per call and second, in milliseconds.
    pub cpu_ms_per_call_s: f64,
    /// The same as a share of one core for all calls.
    pub cores: f64,
    /// CPU time of one call's set-up.
    pub setup_cpu_ms: f64,
    /// Resident memory above that before the first call, per call: set up, and after the talk.
    pub setup_kib: f64,
    pub kib_per_call: f64,
    /// From the offer's connection to the events' open channel.
    pub setup_ms: Percentiles,
    /// How late the server's packets were against their own schedule.
    pub late_ms: Percentiles,
    /// How late for an ear without a jitter buffer that began at the first packet.
    pub ear_late_ms: Percentiles,
    /// How late the generator's own packets left.
    pub send_late_ms: Percentiles,
    pub generator_cores: f64,
    /// What other processes took of the machine meanwhile.
    pub others_cores: f64,
    /// Packets a second and call: from the caller, and encoded by the server.
    pub sent_per_s: f64,
    pub received_per_s: f64,
    pub received_kbit_s: f64,
    pub answers: u64,
    pub broken: u64,
    pub complaints: BTreeMap<String, u64>,
}

impl Figures {
    pub fn new(server: &str, mut measured: Measured) -> Figures {
        let (seconds, calls) = (measured.window.as_secs_f64(), measured.calls as f64);
        let cpu = (measured.end.cpu - measured.start.cpu).as_secs_f64();
        let setup_cpu = (measured.set_up.cpu - measured.before.cpu).as_secs_f64();
        let own = measured.own.as_secs_f64();
        let before = measured.before.resident_bytes as f64;
        let kib = |resident: u64| (resident as f64 - before) / 1_024.0 / calls;
        let stats = &mut measured.stats;
        let rate = |count: u64| count as f64 / calls / seconds;
        Figures {
            server: server.to_owned(),
            calls: measured.calls,
            seconds,
            cpu_ms_per_call_s: cpu * 1_000.0 / calls / seconds,
            cores: cpu / seconds,
            setup_cpu_ms: setup_cpu * 1_000.0 / calls,
            setup_kib: kib(measured.set_up.resident_bytes),
            kib_per_call: kib(measured.end.resident_bytes),
            setup_ms: Percentiles::of(&mut measured.setup_us),
            late_ms: Percentiles::of(&mut stats.late_us),
            ear_late_ms: Percentiles::of(&mut stats.ear_late_us),
            send_late_ms: Percentiles::of(&mut stats.send_late_us),
            generator_cores: own / seconds,
            others_cores: (measured.machine.as_secs_f64() - cpu - own).max(0.0) / seconds,
            sent_per_s: rate(stats.sent),
            received_per_s: rate(stats.received),
            received_kbit_s: rate(stats.received_bytes) * 8.0 / 1_000.0,
            answers: stats.answers,
            broken: stats.broken,
            complaints: std::mem::take(&mut stats.complaints),
        }
    }

    /// Nothing broke and sound came back.
    pub fn is_sound(&self) -> bool {
        self.broken == 0 && self.late_ms.count > 0
    }

    pub fn print(&self) {
        println!("{}: {} calls, {:.1} s", self.server, self.calls, self.seconds);
        println!(
            "  CPU     {:>7.3} ms per call and second ({:.2} cores in all; callers {:.2} cores)",
            self.cpu_ms_per_call_s, self.cores, self.generator_cores
        );
        if self.others_cores > QUIET_CORES {
            println!(
                "  NOT QUIET: other processes took {:.2} cores; lateness is theirs as well",
                self.others_cores
            );
        }
        println!(
            "  memory  {:>7.1} KiB per call, {:.1} KiB of it when it was set up",
            self.kib_per_call, self.setup_kib
        );
        println!("  set-up  {:>7.2} ms of CPU per call", self.setup_cpu_ms);
        self.setup_ms.line("", "from the offer to the open channel");
        self.late_ms.line("late", "against their own schedule");
        self.ear_late_ms.line("", "for an ear without a jitter buffer");
        self.send_late_ms.line("callers", "behind their own schedule");
        println!(
            "  load    per call and second: {:.1} packets decoded, {:.1} encoded and sent ({:.1} \
             kbit/s); {} answers, {} broken",
            self.sent_per_s, self.received_per_s, self.received_kbit_s, self.answers, self.broken
        );
        for (what, count) in self.complaints.iter().take(5) {
            println!("  told    {count} x {what}");
        }
    }

    /// Why these are no figures of the load that was asked for; `None` when they are.
    fn unfit(&self, floor: &Figures, is_same_load: bool) -> Option<String> {
        for of in [self, floor] {
            if of.sent_per_s < 49.5 {
                return Some(format!(
                    "{}: the callers could not send all their packets",
                    of.server
                ));
            }
        }
        let apart = (self.received_per_s / floor.received_per_s - 1.0) * 100.0;
        if is_same_load && apart.abs() > SAME_LOAD_PERCENT {
            return Some(format!("{apart:.1} % more packets were encoded than at the floor"));
        }
        let troubles = self.broken + self.complaints.values().sum::<u64>();
        (troubles * 100 > self.calls as u64)
            .then(|| format!("{troubles} answers or calls of {} went wrong", self.calls))
    }

    /// Prints the comparison and gives the ratio of CPU per call, if the load is the one that was
    /// asked for: a void one judges nothing.
    pub fn compare(&self, floor: &Figures, goal: Option<f64>) -> Option<f64> {
        let ratio = self.cpu_ms_per_call_s / floor.cpu_ms_per_call_s;
        println!("{} beside {}:", self.server, floor.server);
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
