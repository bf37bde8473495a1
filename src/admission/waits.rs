//! How long offers waited, in powers of two: no more room for a million waits than for one.

use std::time::Duration;

/// Waits, in powers of two of a millisecond.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Waits {
    buckets: [u64; 32],
    sum_ms: u64,
    max_ms: u64,
}

impl Waits {
    /// Adds one.
    pub fn add(&mut self, wait: Duration) {
        self.add_micros(wait.as_micros() as u64);
    }

    /// The same in microseconds.
    pub fn add_micros(&mut self, wait_us: u64) {
        let wait_ms = wait_us / 1_000;
        let bucket = (64 - wait_ms.leading_zeros()).min(31);
        self.buckets[bucket as usize] += 1;
        self.sum_ms += wait_ms;
        self.max_ms = self.max_ms.max(wait_ms);
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Their mean.
    pub fn mean_ms(&self) -> u64 {
        self.sum_ms.checked_div(self.count()).unwrap_or(0)
    }

    /// The longest.
    pub fn max_ms(&self) -> u64 {
        self.max_ms
    }

    /// No more than this many of a hundred were longer than the answer, which is exact to a factor
    /// of two.
    pub fn percentile_ms(&self, pct: u64) -> u64 {
        let rank = (self.count() * pct).div_ceil(100);
        let mut below = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            below += count;
            if below >= rank {
                return (1_u64 << bucket).saturating_sub(1).min(self.max_ms);
            }
        }
        self.max_ms
    }

    /// All of them together.
    pub fn sum_ms(&self) -> u64 {
        self.sum_ms
    }

    /// How many were no longer than each bound, in milliseconds: the bounds are 0, 1, 3, 7, …
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut below = 0;
        self.buckets.iter().enumerate().map(move |(bucket, count)| {
            below += count;
            ((1_u64 << bucket) - 1, below)
        })
    }
}
