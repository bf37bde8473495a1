//! The only reader of a clock: the process's monotonic clock and the wall.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::time::Timestamp;
use crate::transport;

/// The process's clock; its zero is the moment it was made.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that starts now.
    #[allow(clippy::disallowed_methods)] // the one place
    pub fn start() -> Clock {
        Clock { start: Instant::now() }
    }

    /// Now.
    #[allow(clippy::disallowed_methods)] // the one place
    pub fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.start.elapsed().as_micros() as u64)
    }

    /// The tokio instant at which this clock shows `at`.
    pub fn instant(&self, at: Timestamp) -> tokio::time::Instant {
        let offset = Duration::from_micros(at.as_micros());
        let far = Duration::from_secs(86_400 * 365);
        tokio::time::Instant::from_std(self.start + offset.min(far))
    }

    /// Seconds since 1970, for what is told to people and clients.
    #[allow(clippy::disallowed_methods)] // the one place
    pub fn wall_s() -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }

    /// Milliseconds since 1970, for what outlives the process.
    #[allow(clippy::disallowed_methods)] // the one place
    pub fn wall_ms() -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
    }
}

impl transport::Clock for Clock {
    fn now(&self) -> Timestamp {
        Clock::now(self)
    }

    fn instant(&self, at: Timestamp) -> tokio::time::Instant {
        Clock::instant(self, at)
    }

    fn at(&self, instant: Instant) -> Timestamp {
        Timestamp::from_micros(instant.saturating_duration_since(self.start).as_micros() as u64)
    }
}
