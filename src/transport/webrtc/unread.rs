//! How much has come that led to no message yet.
//!
//! The library keeps the parts of a message until its last one, and takes each next part however
//! much there is of it already. What is inside a datagram only it can see: so what comes is
//! weighed against what comes of it, and what is lost on the way or only confirms is allowed for.

use std::time::Instant;

/// So much may be on its way to a message: the longest one, and what of it came several times.
const BYTES_MAX: u64 = 1024 * 1024;
/// Confirmations, and what is around small messages.
const ALLOWED_BYTES_PER_S: u64 = 8 * 1024;
/// What is around every message (RFC 9260, 3.3.1), rounded up as that is.
const AROUND_BYTES: u64 = 20;
/// How a datagram of DTLS begins (RFC 7983).
const DTLS: std::ops::RangeInclusive<u8> = 20..=63;

/// The bytes that are unaccounted for.
#[derive(Debug)]
pub(super) struct Unread {
    bytes: u64,
    since: Instant,
}

impl Unread {
    pub fn new(now: Instant) -> Unread {
        Unread { bytes: 0, since: now }
    }

    /// A datagram came.
    pub fn add(&mut self, now: Instant, datagram: &[u8]) {
        if !datagram.first().is_some_and(|first| DTLS.contains(first)) {
            return;
        }
        let passed_ms = now.saturating_duration_since(self.since).as_millis() as u64;
        let allowed = passed_ms * ALLOWED_BYTES_PER_S / 1_000;
        // Less than a byte's time is not forgotten.
        if allowed > 0 {
            self.since = now;
            self.bytes = self.bytes.saturating_sub(allowed);
        }
        self.bytes += datagram.len() as u64;
    }

    /// A message of so many bytes came of it.
    pub fn take(&mut self, message_bytes: usize) {
        self.bytes = self.bytes.saturating_sub(message_bytes as u64 + AROUND_BYTES);
    }

    /// More than comes of anybody who sends messages that are taken.
    pub fn is_too_much(&self) -> bool {
        self.bytes > BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const RECORD: [u8; 1_200] = [23; 1_200];

    /// Whether it is too much with so many bytes around each message, and so many messages a
    /// second for ten minutes.
    fn too_much(around: usize, message: usize, a_second: u32) -> bool {
        let mut now = tokio::time::Instant::now().into_std();
        let mut unread = Unread::new(now);
        (0..600 * a_second).any(|_| {
            now += Duration::from_secs(1) / a_second;
            unread.add(now, &RECORD[..around + message]);
            unread.take(message);
            unread.is_too_much()
        })
    }

    #[test]
    fn messages_account_for_what_came() {
        assert!(!too_much(65, 50, 100), "a hundred small ones a second");
        assert!(!too_much(100, 0, 50), "confirmations of fifty events");
        assert!(!too_much(100, 1_100, 90), "a hundred kilobytes a second");
    }

    #[test]
    fn what_comes_to_nothing_is_too_much() {
        let now = tokio::time::Instant::now().into_std();
        let mut unread = Unread::new(now);
        let mut records = 0;
        while !unread.is_too_much() {
            // Small messages in between, and sound, hide nothing.
            unread.add(now, &RECORD);
            unread.add(now, &RECORD[..20]);
            unread.take(1);
            unread.add(now, &[0x80; 1_200]);
            records += 1;
        }
        assert!((870..=880).contains(&records), "{records}");
    }
}
