//! The caller's frames on their way: lost, late, or not sent at all.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::super::script;
use crate::time::Timestamp;

/// The way to the server. It keeps the order: a late frame holds up those behind it.
#[derive(Clone, Debug)]
pub struct Network {
    rules: script::Network,
    random: StdRng,
    last: Timestamp,
}

impl Network {
    /// A way on which what is drawn comes from this seed.
    pub fn new(rules: script::Network, seed: u64) -> Network {
        let random = StdRng::seed_from_u64(seed ^ 0x6e65_7477_6f72_6b00);
        Network { rules, random, last: Timestamp::ZERO }
    }

    /// When a frame that is sent now comes; never, perhaps.
    pub fn carry(&mut self, now: Timestamp) -> Option<Timestamp> {
        // Both are drawn for every frame: a gap changes nothing behind it.
        let lost = self.random.random_range(0.0..100.0) < self.rules.loss_pct;
        let jitter_us = self.rules.jitter.as_micros() as u64;
        let late = Duration::from_micros(self.random.random_range(0..=jitter_us));
        let gap = |(from, span): &(Duration, Duration)| {
            let at = now.since(Timestamp::ZERO);
            at > *from && at <= *from + *span
        };
        if lost || self.rules.gaps.iter().any(gap) {
            return None;
        }
        self.last = self.last.max(now + late);
        Some(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::ms;

    #[test]
    fn frames_are_lost_late_and_in_order_and_the_same_for_a_seed() {
        let rules =
            script::Network { loss_pct: 20.0, jitter: ms(100), gaps: vec![(ms(2_000), ms(400))] };
        let carried = |seed| {
            let mut network = Network::new(rules.clone(), seed);
            let sent = (1..=500).map(|n| Timestamp::from_millis(n * 20));
            sent.map(|at| (at, network.carry(at))).collect::<Vec<_>>()
        };
        let came = carried(1);
        assert_eq!(came, carried(1));
        assert_ne!(came, carried(2));
        let lost = came.iter().filter(|(_, came)| came.is_none()).count();
        assert!((90..150).contains(&lost), "{lost} of 500");
        let times: Vec<_> = came.iter().filter_map(|(_, came)| *came).collect();
        assert!(times.is_sorted());
        let late = |(at, came): &(Timestamp, Option<Timestamp>)| {
            came.is_none_or(|came| came >= *at && came <= *at + ms(100))
        };
        assert!(came.iter().all(late));
        let gone = came.iter().filter(|(at, _)| (2_020..=2_400).contains(&at.as_millis()));
        assert!(gone.clone().all(|(_, came)| came.is_none()) && gone.count() == 20);
    }
}
