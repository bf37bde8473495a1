//! The figures of one run and the comparison of two; nothing here that was not measured.

use std::time::Duration;

use crate::callers::Measured;
use crate::percentiles::Percentiles;
use crate::table::verdict;

/// Other processes that take more than this disturb the figures.
const QUIET_CORES: f64 = 0.15;

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
    /// Resident memory above that before the first call, per call.
    pub kib_per_call: f64,
    /// How late the agent's frames were against their own schedule.
    pub late_ms: Percentiles,
    /// How late for an ear without a jitter buffer that began at the first frame.
    pub ear_late_ms: Percentiles,
    /// How late the generator's own frames left.
    pub send_late_ms: Percentiles,
    pub generator_cores: f64,
    /// What other processes took of the machine meanwhile.
    pub others_cores: f64,
    pub frames_sent: u64,
    pub frames_due: u64,
    pub agent_audible: f64,
    pub answers: u64,
    pub speech_started: u64,
    pub broken: u64,
    pub complaints: std::collections::BTreeMap<String, u64>,
}

/// What the issue asks of the real server, beside the floor.
pub struct Goal {
    pub cpu_ratio: f64,
    pub kib_per_call: f64,
    pub late_p99_ms: f64,
    /// Least share of the time in which the agent must have been audible.
    pub audible: f64,
}

impl Figures {
    pub fn new(server: &str, mut measured: Measured) -> Figures {
        let seconds = measured.window.as_secs_f64();
        let calls = measured.calls as f64;
        let cpu = (measured.server_end.cpu - measured.server_start.cpu).as_secs_f64();
        let own = (measured.own_end.cpu - measured.own_start.cpu).as_secs_f64();
        let grown = measured.server_end.resident_bytes as f64
            - measured.server_before.resident_bytes as f64;
        let stats = &mut measured.stats;
        Figures {
            server: server.to_owned(),
            calls: measured.calls,
            seconds,
            cpu_ms_per_call_s: cpu * 1_000.0 / calls / seconds,
            cores: cpu / seconds,
            kib_per_call: grown / 1_024.0 / calls,
            late_ms: Percentiles::of(&mut stats.late_us),
            ear_late_ms: Percentiles::of(&mut stats.ear_late_us),
            send_late_ms: Percentiles::of(&mut stats.send_late_us),
            generator_cores: own / seconds,
            others_cores: (measured.machine.as_secs_f64() - cpu - own).max(0.0) / seconds,
            frames_sent: stats.frames_sent,
            frames_due: (calls * seconds * 50.0) as u64,
            agent_audible: share(stats.audio, measured.window, calls),
            answers: stats.answers,
            speech_started: stats.speech_started,
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
        println!("  memory  {:>7.1} KiB per call", self.kib_per_call);
        self.late_ms.line("late", "against their own schedule");
        self.ear_late_ms.line("", "for an ear without a jitter buffer");
        self.send_late_ms.line("callers", "behind their own schedule");
        println!(
            "  load    {} of {} frames sent, agent audible {:.0} %, {} answers, {} speech starts, \
             {} broken",
            self.frames_sent,
            self.frames_due,
            self.agent_audible * 100.0,
            self.answers,
            self.speech_started,
            self.broken
        );
        for (what, count) in self.complaints.iter().take(5) {
            println!("  told    {count} x {what}");
        }
    }

    /// Why these are no figures of the load that was asked for; `None` when they are.
    fn unfit(&self, goal: &Goal) -> Option<String> {
        let asked = goal.audible * 100.0;
        if self.agent_audible < goal.audible {
            let audible = self.agent_audible * 100.0;
            return Some(format!(
                "the agent was audible {audible:.0} %, at least {asked:.0} % is due"
            ));
        }
        if self.frames_sent * 100 < self.frames_due * 99 {
            return Some("the callers could not send all their frames".to_owned());
        }
        let troubles = self.broken + self.complaints.values().sum::<u64>();
        (troubles * 100 > self.calls as u64)
            .then(|| format!("{troubles} answers or calls of {} went wrong", self.calls))
    }

    /// Prints the comparison; true when every goal is met under the load that was asked for.
    pub fn compare(&self, floor: &Figures, goal: &Goal) -> bool {
        let ratio = self.cpu_ms_per_call_s / floor.cpu_ms_per_call_s;
        let memory = self.kib_per_call - floor.kib_per_call;
        println!("{} beside {}:", self.server, floor.server);
        let unfit = self.unfit(goal);
        if let Some(why) = &unfit {
            println!("  VOID: {why}; what follows was measured, and judges nothing");
        }
        let met = [
            verdict("CPU per call, times the floor's", ratio, goal.cpu_ratio),
            verdict("memory per call above the floor's, KiB", memory, goal.kib_per_call),
            verdict("frames late at p99, ms", self.late_ms.p99, goal.late_p99_ms),
        ]
        .into_iter()
        .all(|met| met);
        met && unfit.is_none()
    }
}

fn share(audio: Duration, window: Duration, calls: f64) -> f64 {
    audio.as_secs_f64() / window.as_secs_f64() / calls
}
