//! Time as an argument: one clock domain, microseconds since that clock's start.
//!
//! Nothing below `runtime/` may ask the operating system what time it is; it is told. A
//! [`Timestamp`] compares only within the process that made it and never crosses a host boundary
//!

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// An instant on the process's own monotonic clock, in microseconds since the clock started.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The instant the clock started.
    pub const ZERO: Timestamp = Timestamp(0);
    /// Later than anything that can happen.
    pub const FAR_FUTURE: Timestamp = Timestamp(u64::MAX);

    /// The instant `micros` microseconds after the clock started.
    pub const fn from_micros(micros: u64) -> Self {
        Timestamp(micros)
    }

    /// The instant `millis` milliseconds after the clock started.
    pub const fn from_millis(millis: u64) -> Self {
        Timestamp(millis.saturating_mul(1_000))
    }

    /// Microseconds since the clock started.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Whole milliseconds since the clock started.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000
    }

    /// How long ago `earlier` was; zero if it is not in the past.
    pub const fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_micros(self.micros_since(earlier))
    }

    /// The same in microseconds.
    pub const fn micros_since(self, earlier: Timestamp) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// So many milliseconds later.
    pub const fn plus_ms(self, millis: u64) -> Timestamp {
        Timestamp(self.0.saturating_add(millis.saturating_mul(1_000)))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;
    fn add(self, span: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(span.as_micros() as u64))
    }
}

impl AddAssign<Duration> for Timestamp {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Timestamp;
    fn sub(self, span: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(span.as_micros() as u64))
    }
}

/// Prints as a trace prints it: right-aligned whole milliseconds.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>6}ms", self.as_millis())
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}ms", self.0 / 1_000, self.0 % 1_000)
    }
}

/// A span of whole milliseconds.
pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
