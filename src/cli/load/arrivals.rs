//! When calls arrive, decided before the first one does: an open loop does not wait for answers.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// The pattern of arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Arrivals {
    /// All at once.
    Burst,
    /// Independent callers: exponential gaps.
    Poisson,
    /// Equal gaps.
    Steady,
}

/// The time of every arrival, ascending from zero.
pub(super) fn schedule(pattern: Arrivals, calls: usize, rate: f64, seed: u64) -> Vec<Duration> {
    let mut dice = StdRng::seed_from_u64(seed);
    let mut at = 0.0;
    (0..calls)
        .map(|number| match pattern {
            Arrivals::Burst => Duration::ZERO,
            Arrivals::Steady => Duration::from_secs_f64(number as f64 / rate),
            Arrivals::Poisson => {
                let now = at;
                // 1 - u is in (0, 1]: its logarithm is finite.
                at += -(1.0 - dice.random::<f64>()).ln() / rate;
                Duration::from_secs_f64(now)
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_fixes_the_arrivals_and_their_mean_rate_is_as_asked() {
        let once = schedule(Arrivals::Poisson, 2_000, 50.0, 7);
        assert_eq!(once, schedule(Arrivals::Poisson, 2_000, 50.0, 7));
        assert_ne!(once, schedule(Arrivals::Poisson, 2_000, 50.0, 8));
        let seconds = once.last().unwrap().as_secs_f64();
        assert!((36.0..44.0).contains(&seconds), "{seconds} s for 2000 calls at 50 a second");
        assert!(once.is_sorted());
    }

    #[test]
    fn steady_and_burst_are_what_they_say() {
        let steady = schedule(Arrivals::Steady, 3, 2.0, 0);
        assert_eq!(steady, [0, 500, 1_000].map(Duration::from_millis));
        assert_eq!(schedule(Arrivals::Burst, 2, 2.0, 0), [Duration::ZERO; 2]);
    }
}
