//! Keys as telephone events (RFC 4733): many packets, one key.

use super::rtp::Packet;

/// By their number.
pub(super) const KEYS: &[u8; 16] = b"0123456789*#ABCD";
/// Timestamps so far behind the newest are of an earlier key.
const OLDER: u32 = 1 << 31;

/// The keys of one stream. All packets of one press have the timestamp at which it began, and the
/// last of them comes three times.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// Of whom, and when it began.
    newest: Option<(u32, u32)>,
}

impl Keys {
    /// The key that was pressed, once.
    pub fn hear(&mut self, packet: &Packet<'_>) -> Option<char> {
        let [event, _, _, _] = packet.payload.first_chunk::<4>()?;
        let key = KEYS.get(usize::from(*event))?;
        if let Some((ssrc, began)) = self.newest
            && ssrc == packet.ssrc
        {
            let ahead = packet.timestamp.wrapping_sub(began);
            if ahead == 0 || ahead >= OLDER {
                return None;
            }
        }
        self.newest = Some((packet.ssrc, packet.timestamp));
        Some(char::from(*key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(ssrc: u32, timestamp: u32, payload: &[u8]) -> Packet<'_> {
        Packet { payload_type: 101, sequence: 0, timestamp, ssrc, payload }
    }

    /// B-sides of RFC 4733, 2.5: repeated, reordered, of another stream, of no key.
    #[test]
    fn a_key_is_told_once_however_often_it_comes() {
        let mut keys = Keys::default();
        let five = [5, 10, 0, 160];
        assert_eq!(keys.hear(&packet(1, 1_000, &five)), Some('5'));
        for _ in 0..6 {
            assert_eq!(keys.hear(&packet(1, 1_000, &[5, 0x8a, 3, 32])), None);
        }
        assert_eq!(keys.hear(&packet(1, 2_600, &[11, 10, 0, 160])), Some('#'));
        assert_eq!(keys.hear(&packet(1, 1_000, &five)), None, "came late");
        assert_eq!(keys.hear(&packet(2, 1_000, &five)), Some('5'), "another stream");
        assert_eq!(keys.hear(&packet(2, 5_000, &[16, 0, 0, 0])), None, "a hook flash");
        assert_eq!(keys.hear(&packet(2, 6_000, &[5, 0, 0])), None, "cut off");
        assert_eq!(keys.hear(&packet(2, 7_000, &[0, 0, 0, 0, 9])), Some('0'), "and more behind");
    }
}
