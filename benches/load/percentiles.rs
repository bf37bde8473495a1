//! Percentiles of what was measured, and a goal beside a figure.

use std::time::Duration;

/// Of some spans of time, in milliseconds.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Percentiles {
    pub count: usize,
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
}

impl Percentiles {
    /// By nearest rank: of fewer than a hundred the 99th is the slowest.
    pub fn of(values_us: &mut [u32]) -> Percentiles {
        values_us.sort_unstable();
        let at = |share: f64| {
            let rank = (values_us.len() as f64 * share).ceil() as usize;
            f64::from(values_us[rank.saturating_sub(1)]) / 1_000.0
        };
        match values_us.len() {
            0 => Percentiles::default(),
            count => Percentiles { count, p50: at(0.5), p99: at(0.99), max: at(1.0) },
        }
    }

    /// One line of a table.
    pub fn line(&self, title: &str, what: &str) {
        println!(
            "  {title:<7} {what:<36} p50 {:>7.2} ms  p99 {:>7.2} ms  max {:>7.2} ms  ({})",
            self.p50, self.p99, self.max, self.count
        );
    }
}

/// A span as the percentiles take it; more than an hour is an hour.
pub fn us(span: Duration) -> u32 {
    u32::try_from(span.as_micros()).unwrap_or(3_600_000_000)
}

/// Prints a figure beside its goal; true when it is met.
pub fn verdict(what: &str, measured: f64, goal: f64) -> bool {
    let met = measured <= goal;
    let word = if met { "met" } else { "MISSED" };
    println!("  {what:<40} {measured:>8.2}   goal {goal:>6.1}   {word}");
    met
}
