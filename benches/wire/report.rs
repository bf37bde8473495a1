//! The figures of one run and the comparison of two; nothing here that was not measured.

use crate::callers::Measured;
use crate::figures::Run;
use crate::table::verdict;

/// The figures of one server under one load.
#[derive(Debug, serde::Serialize)]
pub struct Figures {
    #[serde(flatten)]
    pub run: Run,
    /// Resident memory above that before the first call, per call.
    pub kib_per_call: f64,
    pub frames_sent: u64,
    pub frames_due: u64,
    pub agent_audible: f64,
    pub speech_started: u64,
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
    pub fn new(server: &str, measured: Measured) -> Figures {
        let calls = measured.calls as f64;
        let grown = measured.end.resident_bytes as f64 - measured.before.resident_bytes as f64;
        let (spent, stats) = (measured.spent, measured.stats);
        let call_seconds = spent.window.as_secs_f64() * calls;
        Figures {
            run: Run::new(server, measured.calls, &spent, stats.counts),
            kib_per_call: grown / 1_024.0 / calls,
            frames_sent: stats.frames_sent,
            frames_due: (call_seconds * 50.0) as u64,
            agent_audible: stats.audio.as_secs_f64() / call_seconds,
            speech_started: stats.speech_started,
        }
    }

    pub fn print(&self) {
        self.run.print_cpu();
        println!("  memory  {:>7.1} KiB per call", self.kib_per_call);
        self.run.print_late();
        println!(
            "  load    {} of {} frames sent, agent audible {:.0} %, {} answers, {} speech starts, \
             {} broken",
            self.frames_sent,
            self.frames_due,
            self.agent_audible * 100.0,
            self.run.answers,
            self.speech_started,
            self.run.broken
        );
        self.run.print_told();
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
        self.run.troubles()
    }

    /// Prints the comparison; true when every goal is met under the load that was asked for.
    pub fn compare(&self, floor: &Figures, goal: &Goal) -> bool {
        let ratio = self.run.cpu_ms_per_call_s / floor.run.cpu_ms_per_call_s;
        let memory = self.kib_per_call - floor.kib_per_call;
        println!("{} beside {}:", self.run.server, floor.run.server);
        let unfit = self.unfit(goal);
        if let Some(why) = &unfit {
            println!("  VOID: {why}; what follows was measured, and judges nothing");
        }
        let met = [
            verdict("CPU per call, times the floor's", ratio, goal.cpu_ratio),
            verdict("memory per call above the floor's, KiB", memory, goal.kib_per_call),
            verdict("frames late at p99, ms", self.run.late_ms.p99, goal.late_p99_ms),
        ]
        .into_iter()
        .all(|met| met);
        met && unfit.is_none()
    }
}
