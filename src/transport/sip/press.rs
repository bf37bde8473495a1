//! Keys that the peer is to hear, as telephone events (RFC 4733): each in place of some frames of
//! sound, so that they keep its time.

use std::collections::VecDeque;

use super::keys::KEYS;

/// A key lasts so many frames …
const FRAMES: u16 = 5;
/// … and so many lie between two of them.
const PAUSE: u16 = 3;
/// Keys that may wait for those before them.
const WAITING_MAX: usize = 32;
/// How loud they are, in dB below the loudest.
const LEVEL: u8 = 10;
/// This is the last of a key, which is said so often that one arrives.
const END: u8 = 0x80;
const ENDS: u16 = 3;

/// Keys that are being pressed.
#[derive(Debug, Default)]
pub(super) struct Presses {
    /// By what number the peer knows events, and which one.
    waiting: VecDeque<(u8, u8)>,
    now: Now,
}

#[derive(Debug, Default)]
enum Now {
    /// The next one may begin.
    #[default]
    Free,
    /// Since then, and for so many frames.
    Pressed { kind: u8, event: u8, began: u32, frames: u16 },
    /// For so many frames more.
    Pause(u16),
}

/// What goes out in place of one frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub kind: u8,
    /// It is the key's first.
    pub marker: bool,
    /// When the key began.
    pub began: u32,
    pub payload: [u8; 4],
    /// So often.
    pub times: u16,
}

impl Presses {
    /// This key is to be heard. More than can wait are too many for any telephone.
    pub fn press(&mut self, kind: u8, key: char) {
        let event = KEYS.iter().position(|known| char::from(*known) == key);
        if let Some(event) = event
            && self.waiting.len() < WAITING_MAX
        {
            self.waiting.push_back((kind, event as u8));
        }
    }

    /// What goes out in place of the frame that begins then and has so many ticks; none: the frame.
    pub fn in_place_of(&mut self, timestamp: u32, ticks: u16) -> Option<Event> {
        let (kind, event, began, frames) = match self.now {
            Now::Pause(left) => {
                self.now = if left > 1 { Now::Pause(left - 1) } else { Now::Free };
                return None;
            }
            Now::Pressed { kind, event, began, frames } => (kind, event, began, frames + 1),
            Now::Free => {
                let (kind, event) = self.waiting.pop_front()?;
                (kind, event, timestamp, 1)
            }
        };
        let ends = frames == FRAMES;
        self.now = match ends {
            true => Now::Pause(PAUSE),
            false => Now::Pressed { kind, event, began, frames },
        };
        let [high, low] = (frames * ticks).to_be_bytes();
        Some(Event {
            kind,
            marker: frames == 1,
            began,
            payload: [event, LEVEL | if ends { END } else { 0 }, high, low],
            times: if ends { ENDS } else { 1 },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4733, 2.5: one time for all of a key, its length growing, its end said three times.
    #[test]
    fn a_key_takes_the_place_of_some_frames() {
        let mut presses = Presses::default();
        presses.press(101, '#');
        presses.press(101, '1');
        presses.press(101, '?');
        let (mut heard, mut at) = (Vec::new(), 5_000);
        while at < 5_000 + 20 * 160 {
            heard.push(presses.in_place_of(at, 160));
            at += 160;
        }
        let keys: Vec<&Event> = heard.iter().flatten().collect();
        assert_eq!(keys.len(), 10, "two keys");
        assert!(heard[5..8].iter().all(Option::is_none), "a pause between them");
        let first =
            Event { kind: 101, marker: true, began: 5_000, payload: [11, 10, 0, 160], times: 1 };
        assert_eq!(*keys[0], first);
        let last = Event { marker: false, payload: [11, 0x8a, 3, 32], times: 3, ..first };
        assert_eq!(*keys[4], last);
        assert_eq!((keys[5].began, keys[5].payload[0]), (5_000 + 8 * 160, 1));
    }
}
