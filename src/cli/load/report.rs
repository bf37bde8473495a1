//! The result of a load run: counts first, then percentiles.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::caller::{End, Outcome};

/// Above this the generator itself is the bottleneck and says so first.
const GENERATOR_LATE_MS: f64 = 50.0;
/// Width of the plot, in characters.
const PLOT_WIDTH: usize = 40;

/// All that `floorkeeper load` found out.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    url: String,
    calls: u64,
    taken: u64,
    stayed: u64,
    not_taken: BTreeMap<String, u64>,
    broke: BTreeMap<String, u64>,
    answers: BTreeMap<String, u64>,
    unanswered: u64,
    refusals: BTreeMap<String, u64>,
    /// Placed later than scheduled by.
    started_late_ms: Spread,
    /// From the scheduled arrival to a ready session.
    set_up_ms: Spread,
    /// From the end of the question to the first sound of the answer.
    first_audio_ms: Spread,
    /// Frames behind their stream's own schedule by.
    frame_late_ms: Spread,
    /// Arrivals in each second of the run: (scheduled, actual).
    arrivals: Vec<(u64, u64)>,
}

/// Percentiles of one measure, in milliseconds.
#[derive(Debug, Default, Serialize)]
struct Spread {
    count: u64,
    p50: f64,
    p90: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

impl Report {
    /// Sums up a run.
    pub(super) fn new(url: String, due: &[Duration], outcomes: &[Outcome]) -> Report {
        let mut report = Report { url, calls: due.len() as u64, ..Report::default() };
        for outcome in outcomes {
            report.taken += u64::from(outcome.set_up.is_some());
            match &outcome.end {
                End::Stayed => report.stayed += 1,
                End::NotTaken(reason) => count(&mut report.not_taken, reason),
                End::Broke(reason) => count(&mut report.broke, reason),
            }
            outcome.answers.iter().for_each(|answer| count(&mut report.answers, answer));
            outcome.refusals.iter().for_each(|refusal| count(&mut report.refusals, refusal));
            report.unanswered += outcome.unanswered;
        }
        report.started_late_ms = spread(outcomes.iter().map(|outcome| outcome.started_late));
        report.set_up_ms = spread(outcomes.iter().filter_map(|outcome| outcome.set_up));
        let all = |of: fn(&Outcome) -> &Vec<Duration>| {
            spread(outcomes.iter().flat_map(|outcome| of(outcome).iter().copied()))
        };
        report.first_audio_ms = all(|outcome| &outcome.first_audio);
        report.frame_late_ms = all(|outcome| &outcome.lateness);
        report.arrivals = per_second(due, outcomes);
        report
    }

    /// No call that was taken broke, and somebody was taken.
    pub(super) fn is_good(&self) -> bool {
        self.broke.is_empty() && self.taken > 0
    }
}

fn count(of: &mut BTreeMap<String, u64>, what: &str) {
    *of.entry(what.to_owned()).or_default() += 1;
}

fn spread(values: impl Iterator<Item = Duration>) -> Spread {
    // Three digits up to an hour, which is longer than any run.
    let Ok(mut histogram) = Histogram::<u64>::new_with_max(3_600_000_000, 3) else {
        return Spread::default();
    };
    for value in values {
        histogram.saturating_record(value.as_micros() as u64);
    }
    let at = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1_000.0;
    Spread {
        count: histogram.len(),
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        max: if histogram.is_empty() { 0.0 } else { histogram.max() as f64 / 1_000.0 },
    }
}

fn per_second(due: &[Duration], outcomes: &[Outcome]) -> Vec<(u64, u64)> {
    let actual = || due.iter().zip(outcomes).map(|(due, outcome)| *due + outcome.started_late);
    let last = due.iter().copied().chain(actual()).max().unwrap_or_default();
    let mut seconds = vec![(0, 0); last.as_secs() as usize + 1];
    due.iter().for_each(|at| seconds[at.as_secs() as usize].0 += 1);
    actual().for_each(|at| seconds[at.as_secs() as usize].1 += 1);
    seconds
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.started_late_ms.p99 > GENERATOR_LATE_MS {
            writeln!(
                f,
                "THE GENERATOR COULD NOT OFFER THIS LOAD: p99 of its calls began {:.0} ms late",
                self.started_late_ms.p99
            )?;
        }
        writeln!(f, "{}", self.url)?;
        writeln!(
            f,
            "calls {}  taken {}  stayed to the end {}",
            self.calls, self.taken, self.stayed
        )?;
        list(f, "not taken", &self.not_taken)?;
        list(f, "broke", &self.broke)?;
        list(f, "answers", &self.answers)?;
        list(f, "refused", &self.refusals)?;
        if self.unanswered > 0 {
            writeln!(f, "questions without an answer: {}", self.unanswered)?;
        }
        writeln!(f, "{:>34}  count      p50      p90      p99    p99.9      max", "ms")?;
        line(f, "call placed after its due time", &self.started_late_ms)?;
        line(f, "due time to ready session", &self.set_up_ms)?;
        line(f, "end of question to first audio", &self.first_audio_ms)?;
        line(f, "frames behind their schedule", &self.frame_late_ms)?;
        plot(f, &self.arrivals)
    }
}

fn list(f: &mut fmt::Formatter<'_>, title: &str, counts: &BTreeMap<String, u64>) -> fmt::Result {
    for (what, count) in counts {
        writeln!(f, "{title:<10} {count:>6} x {what}")?;
    }
    Ok(())
}

fn line(f: &mut fmt::Formatter<'_>, title: &str, spread: &Spread) -> fmt::Result {
    let Spread { count, p50, p90, p99, p999, max } = spread;
    writeln!(f, "{title:>34} {count:>6} {p50:>8.1} {p90:>8.1} {p99:>8.1} {p999:>8.1} {max:>8.1}")
}

/// Scheduled arrivals as dots, actual ones as bars, one line a second.
fn plot(f: &mut fmt::Formatter<'_>, seconds: &[(u64, u64)]) -> fmt::Result {
    let most = seconds.iter().map(|&(due, actual)| due.max(actual)).max().unwrap_or(0).max(1);
    let scaled = |value: u64| (value as usize * PLOT_WIDTH).div_ceil(most as usize);
    writeln!(f, "arrivals a second (# actual, . scheduled and not placed)")?;
    for (second, &(due, actual)) in seconds.iter().enumerate() {
        let bar = "#".repeat(scaled(actual));
        let missing = ".".repeat(scaled(due).saturating_sub(scaled(actual)));
        writeln!(f, "{second:>4} s {actual:>5} of {due:<5} {bar}{missing}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(end: End, started_late_ms: u64) -> Outcome {
        Outcome {
            started_late: Duration::from_millis(started_late_ms),
            set_up: matches!(end, End::Stayed).then(|| Duration::from_millis(12)),
            end,
            first_audio: vec![Duration::from_millis(300)],
            lateness: Vec::new(),
            answers: vec!["completed".into()],
            unanswered: 0,
            refusals: Vec::new(),
        }
    }

    #[test]
    fn refused_calls_are_told_and_do_not_spoil_a_run_but_broken_ones_do() {
        let due = [Duration::ZERO, Duration::from_millis(990)];
        let busy = || End::NotTaken("HTTP 429".into());
        let run = [outcome(End::Stayed, 0), outcome(busy(), 20)];
        let report = Report::new("ws://x".into(), &due, &run);
        assert!(report.is_good());
        assert_eq!((report.taken, report.not_taken["HTTP 429"]), (1, 1));
        assert_eq!(report.arrivals, [(2, 1), (0, 1)], "the second call slipped into second 1");
        assert_eq!(report.first_audio_ms.count, 2);
        assert_eq!(report.first_audio_ms.p50.round(), 300.0);
        assert_eq!(report.set_up_ms.max.round(), 12.0);
        let broken = [outcome(End::Broke("reset".into()), 0), outcome(End::Stayed, 0)];
        assert!(!Report::new("ws://x".into(), &due, &broken).is_good());
    }
}
