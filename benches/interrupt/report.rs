//! What all calls came to; nothing here that was not measured.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::caller::Call;
use super::percentiles::{Percentiles, us};
use super::sounds::Kind;
use super::{CONFIRM_MS, DUCK_MS};

/// Later than this at p99 and our own clock is no measure of anybody else's.
const OWN_LATE_MS: f64 = 10.0;
/// Cores that others may use before the figures are theirs as much as ours.
const QUIET_CORES: f64 = 0.25;
/// What is asked for beyond the configured times, in milliseconds.
const STOP_MEDIAN_MS: f64 = 40.0;
const STOP_P99_MS: f64 = 120.0;
const CLEAR_MEDIAN_MS: f64 = 80.0;

/// All calls.
#[derive(Default)]
pub struct Report {
    calls: Vec<Call>,
    /// Cores that everybody else has used meanwhile.
    pub others_cores: f64,
}

impl Report {
    pub fn add(&mut self, call: Call) {
        self.calls.push(call);
    }

    fn of(&self, kinds: &[Kind]) -> Vec<&Call> {
        self.calls.iter().filter(|call| kinds.contains(&call.kind)).collect()
    }

    /// The table, the goals, and what went wrong.
    pub fn print(&self) {
        println!(
            "\n{:<12} {:>4}  {:>21}  {:>21}  {:>6} {:>6}  {:>9}",
            "", "n", "pause: median, p99", "clear: median, p99", "frames", "frames", "answer"
        );
        println!(
            "{:<12} {:>4}  {:>21}  {:>21}  {:>6} {:>6}  {:>9}",
            "", "", "ms (x duck)", "ms (x confirm)", "paused", "behind", "whole"
        );
        for kind in [Kind::Words, Kind::Recording].into_iter().chain(Kind::OTHERS) {
            self.row(kind);
        }
        self.goals();
        self.print_clock();
        for problem in self.problems() {
            println!("WRONG: {problem}");
        }
    }

    fn row(&self, kind: Kind) {
        let calls = self.of(&[kind]);
        if calls.is_empty() {
            return;
        }
        let show = |times: Percentiles, of: u32| match times.count {
            0 => "-".to_owned(),
            _ => format!(
                "{:.0} ({:.1}), {:.0} ({:.1})",
                times.p50,
                times.p50 / f64::from(of),
                times.p99,
                times.p99 / f64::from(of)
            ),
        };
        let paused = times(calls.iter().filter_map(|call| call.paused));
        let cleared = times(calls.iter().filter_map(|call| call.cleared));
        let whole = calls.iter().filter(|call| call.came_whole()).count();
        println!(
            "{:<12} {:>4}  {:>21}  {:>21}  {:>6} {:>6}  {:>9}",
            kind.name(),
            calls.len(),
            show(paused, DUCK_MS),
            show(cleared, CONFIRM_MS),
            calls.iter().map(|call| call.frames_paused).sum::<usize>(),
            calls.iter().map(|call| call.frames_after).sum::<usize>(),
            format!("{whole} of {}", calls.len()),
        );
    }

    /// Times asked for, beside those measured.
    fn goals(&self) {
        let words = self.of(&[Kind::Words, Kind::Recording]);
        let paused = times(words.iter().filter_map(|call| call.paused));
        let (duck, confirm) = (f64::from(DUCK_MS), f64::from(CONFIRM_MS));
        println!("\nof {} interruptions:", words.len());
        verdict("pause, median", paused, paused.p50, duck + STOP_MEDIAN_MS);
        verdict("pause, p99", paused, paused.p99, duck + STOP_P99_MS);
        let since = |call: &&Call| Some(call.paused?.saturating_sub(call.stays_loud));
        let paused = times(words.iter().filter_map(since));
        let what = "pause, p99, from what stays loud for 60 ms";
        verdict(what, paused, paused.p99, duck + STOP_P99_MS);
        let soon = |call: &&&Call| {
            call.first_word.is_some_and(|end| end.as_millis() as f64 <= confirm + CLEAR_MEDIAN_MS)
        };
        let cleared = times(words.iter().filter(soon).filter_map(|call| call.cleared));
        let what = "clear, median, first word over by then";
        verdict(what, cleared, cleared.p50, confirm + CLEAR_MEDIAN_MS);
    }

    fn print_clock(&self) {
        let own = times(self.calls.iter().flat_map(|call| call.sent_late.iter().copied()));
        println!(
            "our own frames were late by {:.1} ms at the median, {:.1} ms at p99; others used {:.2} \
             cores",
            own.p50, own.p99, self.others_cores
        );
        if own.p99 > OWN_LATE_MS {
            println!("VOID: our own clock was late; the times judge nothing");
        } else if self.others_cores > QUIET_CORES {
            println!("NOISY: the machine was not ours alone; the times are upper bounds");
        }
    }

    /// What must not be, whatever the machine does.
    fn problems(&self) -> Vec<String> {
        self.calls
            .iter()
            .filter_map(|call| wrong(call).map(|w| format!("{w}: {}", call.line())))
            .collect()
    }

    /// Nothing went wrong that is not a matter of time.
    pub fn is_sound(&self) -> bool {
        self.problems().is_empty()
    }

    /// Every figure.
    pub fn json(&self) -> serde_json::Value {
        let mut kinds = BTreeMap::new();
        for kind in [Kind::Words, Kind::Recording].into_iter().chain(Kind::OTHERS) {
            let calls = self.of(&[kind]);
            let paused = times(calls.iter().filter_map(|call| call.paused));
            let cleared = times(calls.iter().filter_map(|call| call.cleared));
            kinds.insert(
                kind,
                json!({
                    "calls": calls.len(),
                    "paused": paused.count, "pause_median_ms": paused.p50,
                    "pause_p99_ms": paused.p99, "cleared": cleared.count,
                    "clear_median_ms": cleared.p50, "clear_p99_ms": cleared.p99,
                    "frames_after_clear": calls.iter().map(|c| c.frames_after).sum::<usize>(),
                    "whole": calls.iter().filter(|call| call.came_whole()).count(),
                }),
            );
        }
        json!({"kinds": kinds, "others_cores": self.others_cores, "problems": self.problems()})
    }
}

fn wrong(call: &Call) -> Option<&'static str> {
    let interrupts = call.kind.interrupts();
    if !call.complaints.is_empty() {
        return Some("the call went wrong");
    }
    if call.frames_after > 0 {
        return Some("frames of the old answer behind its clear");
    }
    if call.frames_paused > 0 {
        return Some("frames while it was paused");
    }
    if interrupts && call.cleared.is_none() {
        return Some("the answer went on");
    }
    if interrupts && !call.next_whole {
        return Some("the next answer is not whole");
    }
    if !interrupts && !call.whole {
        return Some("the answer was lost");
    }
    (!interrupts && (call.committed > 0 || call.answers > 0)).then_some("it was answered")
}

fn verdict(what: &str, times: Percentiles, measured: f64, goal: f64) {
    let word = match (times.count, measured <= goal) {
        (0, _) => "none",
        (_, true) => "met",
        (_, false) => "MISSED",
    };
    println!("  {what:<42} {measured:>7.0} ms   goal {goal:>4.0}   {word}   ({})", times.count);
}

fn times(spans: impl Iterator<Item = Duration>) -> Percentiles {
    Percentiles::of(&mut spans.map(us).collect::<Vec<u32>>())
}
