//! Percentiles of what was measured.

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
}

/// A span as the percentiles take it.
pub fn us(span: Duration) -> u32 {
    u32::try_from(span.as_micros()).unwrap_or(u32::MAX)
}
