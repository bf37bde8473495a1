//! What is sent again until the other end has answered (RFC 3261, 17).

use std::time::Duration;

use bytes::Bytes;

use crate::time::Timestamp;

/// Waits double up to so many of the first.
const WAIT_MAX: u32 = 8;
/// All is over after so many of the first wait.
const GIVE_UP: u32 = 64;

/// How long nobody answers before it is certain that nobody will.
pub(super) fn give_up_after(t1: Duration) -> Duration {
    t1 * GIVE_UP
}

/// A message, and when it is due again.
#[derive(Clone, Debug)]
pub(super) struct Resend {
    pub bytes: Bytes,
    /// `None`: the way is reliable, it is sent once.
    next: Option<Timestamp>,
    wait: Duration,
    wait_max: Duration,
    until: Timestamp,
}

/// What the time has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Nothing,
    Again,
    GivenUp,
}

impl Resend {
    /// It was just sent for the first time.
    pub fn begun(now: Timestamp, bytes: Bytes, t1: Duration, again: bool) -> Resend {
        Resend {
            bytes,
            next: again.then(|| now + t1),
            wait: t1,
            wait_max: t1 * WAIT_MAX,
            until: now + give_up_after(t1),
        }
    }

    /// It has arrived; what it leads to is still waited for.
    pub fn only_wait(&mut self) {
        self.next = None;
    }

    pub fn due(&self) -> Timestamp {
        self.next.map_or(self.until, |next| next.min(self.until))
    }

    pub fn tick(&mut self, now: Timestamp) -> Turn {
        if self.until <= now {
            return Turn::GivenUp;
        }
        match self.next {
            Some(next) if next <= now => {
                self.wait = (self.wait * 2).min(self.wait_max);
                self.next = Some(now + self.wait);
                Turn::Again
            }
            Some(_) | None => Turn::Nothing,
        }
    }
}
