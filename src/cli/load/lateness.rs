//! How late a paced stream's frames are, judged by the stream itself.

use std::time::Duration;

/// One answer's sound as it arrived.
///
/// A server may send ahead at first and then keeps pace. Its schedule is therefore the line of real
/// time through its earliest arrivals, and nothing is due before the first one: the frame at
/// `position` is due at max(first, base + position).
#[derive(Debug, Default)]
pub(super) struct Stream {
    arrivals: Vec<(Duration, Duration)>,
    position: Duration,
}

impl Stream {
    /// Sound of this length arrived now.
    pub(super) fn arrived(&mut self, now: Duration, length: Duration) {
        self.arrivals.push((now, self.position));
        self.position += length;
    }

    /// How late each arrival was.
    pub(super) fn lateness(&self) -> Vec<Duration> {
        let Some(&(first, _)) = self.arrivals.first() else { return Vec::new() };
        let behind = |&(at, position): &(Duration, Duration)| {
            at.as_micros() as i64 - position.as_micros() as i64
        };
        let base = self.arrivals.iter().map(behind).min().unwrap_or(0);
        let late = |arrival: &(Duration, Duration)| {
            let due = (base + arrival.1.as_micros() as i64).max(first.as_micros() as i64);
            Duration::from_micros((arrival.0.as_micros() as i64 - due).max(0) as u64)
        };
        self.arrivals.iter().map(late).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(arrivals_ms: &[u64]) -> Vec<u64> {
        let mut stream = Stream::default();
        for &at in arrivals_ms {
            stream.arrived(Duration::from_millis(at), Duration::from_millis(20));
        }
        stream.lateness().iter().map(|late| late.as_millis() as u64).collect()
    }

    #[test]
    fn sending_ahead_is_not_late_and_a_stall_is() {
        assert_eq!(late(&[100, 100, 100, 120, 140, 160]), [0; 6]);
        assert_eq!(late(&[100, 100, 100, 120, 175, 175, 180]), [0, 0, 0, 0, 35, 15, 0]);
        assert_eq!(late(&[]), [0; 0]);
    }
}
