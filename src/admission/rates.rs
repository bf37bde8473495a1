//! How much a gate does: what it accepted, started, completed and was asked again over the last
//! minute (C-046).

use std::collections::VecDeque;
use std::time::Duration;

use super::Terminal;
use super::ledger::Account;
use crate::time::Timestamp;

/// Samples that are kept; one is taken a second.
const SAMPLES_MAX: usize = 61;

/// What was counted over a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Rates {
    /// How long that was; zero before the second sample.
    pub span: Duration,
    /// Offers that were not refused.
    pub accepted: u64,
    /// Offers that were given their units, at once or after a wait.
    pub started: u64,
    /// Work that ran to its end.
    pub completed: u64,
    /// Offers that try again what was offered before.
    pub retried: u64,
}

/// The totals of a gate, once a second.
#[derive(Clone, Debug, Default)]
pub struct Sampled {
    samples: VecDeque<(Timestamp, [u64; 4])>,
}

impl Sampled {
    /// Takes a sample; the oldest goes when there is a minute of them.
    pub fn take(&mut self, now: Timestamp, account: &Account) {
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        let totals = [
            account.offered - account.refused_total(),
            account.ever_admitted,
            account.ended_as(Terminal::Completed),
            account.retries,
        ];
        self.samples.push_back((now, totals));
    }

    /// What was counted between the oldest sample and the newest.
    pub fn rates(&self) -> Rates {
        let (Some((from, before)), Some((to, after))) = (self.samples.front(), self.samples.back())
        else {
            return Rates::default();
        };
        let [accepted, started, completed, retried] = [0, 1, 2, 3].map(|at| after[at] - before[at]);
        Rates { span: to.since(*from), accepted, started, completed, retried }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_last_minute() {
        let mut sampled = Sampled::default();
        let mut account = Account::default();
        assert_eq!(sampled.rates(), Rates::default());
        for second in 0..100 {
            account.offered += 3;
            account.refused[0] += 1;
            account.ever_admitted += 2;
            account.retries += 1;
            sampled.take(Timestamp::from_millis(second * 1_000), &account);
        }
        let minute = Duration::from_secs(60);
        let rates = Rates { span: minute, accepted: 120, started: 120, completed: 0, retried: 60 };
        assert_eq!(sampled.rates(), rates, "C-046");
    }
}
