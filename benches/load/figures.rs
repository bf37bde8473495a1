//! What every server is measured for under a load of calls; nothing here that was not measured.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::percentiles::Percentiles;
use crate::process::Spent;
use crate::stretch::Stretch;

/// Other processes that take more than this disturb the figures.
const QUIET_CORES: f64 = 0.15;

/// What was counted of all calls together.
#[derive(Default)]
pub struct Counts {
    /// How late the generator itself was.
    pub send_late_us: Vec<u32>,
    /// How late the server's sound was against its stream's own schedule.
    pub late_us: Vec<u32>,
    /// How late it was for an ear that began to listen at the first piece.
    pub ear_late_us: Vec<u32>,
    pub answers: u64,
    pub broken: u64,
    pub complaints: BTreeMap<String, u64>,
}

impl Counts {
    pub fn complain(&mut self, what: &str) {
        let short: String = what.chars().take(300).collect();
        *self.complaints.entry(short).or_default() += 1;
    }

    /// A stretch has ended; what came before `from` does not count.
    pub fn judge(&mut self, stretch: Stretch, from: Duration) {
        for late in stretch.judged(from) {
            self.late_us.push(late.us);
            self.ear_late_us.push(late.ear_us);
        }
    }
}

/// The figures of one server under one load.
#[derive(Debug, serde::Serialize)]
pub struct Run {
    pub server: String,
    pub calls: usize,
    pub seconds: f64,
    /// CPU time of the server per call and second, in milliseconds.
    pub cpu_ms_per_call_s: f64,
    /// The same as a share of one core for all calls.
    pub cores: f64,
    /// How late the server's sound was against its own schedule.
    pub late_ms: Percentiles,
    /// How late for an ear without a jitter buffer that began at the first piece.
    pub ear_late_ms: Percentiles,
    /// How late the generator's own sound left.
    pub send_late_ms: Percentiles,
    pub generator_cores: f64,
    /// What other processes took of the machine meanwhile.
    pub others_cores: f64,
    pub answers: u64,
    pub broken: u64,
    pub complaints: BTreeMap<String, u64>,
}

impl Run {
    pub fn new(server: &str, calls: usize, spent: &Spent, mut counts: Counts) -> Run {
        let (seconds, cpu) = (spent.window.as_secs_f64(), spent.server.as_secs_f64());
        Run {
            server: server.to_owned(),
            calls,
            seconds,
            cpu_ms_per_call_s: cpu * 1_000.0 / calls as f64 / seconds,
            cores: cpu / seconds,
            late_ms: Percentiles::of(&mut counts.late_us),
            ear_late_ms: Percentiles::of(&mut counts.ear_late_us),
            send_late_ms: Percentiles::of(&mut counts.send_late_us),
            generator_cores: spent.own.as_secs_f64() / seconds,
            others_cores: spent.others_cores(),
            answers: counts.answers,
            broken: counts.broken,
            complaints: counts.complaints,
        }
    }

    /// Nothing broke and sound came back.
    pub fn is_sound(&self) -> bool {
        self.broken == 0 && self.late_ms.count > 0
    }

    /// Prints what it was, and what it took.
    pub fn print_cpu(&self) {
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
    }

    pub fn print_late(&self) {
        self.late_ms.line("late", "against their own schedule");
        self.ear_late_ms.line("", "for an ear without a jitter buffer");
        self.send_late_ms.line("callers", "behind their own schedule");
    }

    /// Prints the first few complaints.
    pub fn print_told(&self) {
        for (what, count) in self.complaints.iter().take(5) {
            println!("  told    {count} x {what}");
        }
    }

    /// Tells when more than one in a hundred calls went wrong.
    pub fn troubles(&self) -> Option<String> {
        let troubles = self.broken + self.complaints.values().sum::<u64>();
        (troubles * 100 > self.calls as u64)
            .then(|| format!("{troubles} answers or calls of {} went wrong", self.calls))
    }
}
