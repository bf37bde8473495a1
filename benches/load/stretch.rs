//! How late the pieces of one stretch of sound were.

use std::time::Duration;

/// Sound after a gap like this belongs to a new stretch.
const GAP: Duration = Duration::from_millis(500);

/// Sound without a gap: when each piece came, and where in the sound it stands.
#[derive(Debug, Default)]
pub struct Stretch {
    pieces: Vec<(Duration, Duration)>,
}

/// How late one piece was.
#[derive(Clone, Copy, Debug)]
pub struct Late {
    /// Against the stretch's own schedule.
    pub us: u32,
    /// For an ear without a jitter buffer that began at the first piece.
    pub ear_us: u32,
}

impl Stretch {
    /// A piece that comes `now` belongs to it.
    pub fn goes_on(&self, now: Duration) -> bool {
        self.pieces.last().is_some_and(|&(at, _)| now <= at + GAP)
    }

    /// A piece came.
    pub fn push(&mut self, at: Duration, position: Duration) {
        self.pieces.push((at, position));
    }

    /// Judges the pieces that came at `from` or later. The schedule is real time through the
    /// earliest arrivals, and nothing is due before the first: what is sent ahead is not late, what
    /// is sent later is.
    pub fn judged(self, from: Duration) -> Vec<Late> {
        let us = |span: Duration| span.as_micros() as i64;
        let starts = self.pieces.iter().map(|&(at, position)| us(at) - us(position));
        let Some(base) = starts.min() else { return Vec::new() };
        let (first, first_position) = self.pieces[0];
        let judge = |&(at, position): &(Duration, Duration)| {
            let late = |due: i64| (us(at) - due).max(0) as u32;
            Late {
                us: late((base + us(position)).max(us(first))),
                ear_us: late(us(first) + us(position) - us(first_position)),
            }
        };
        self.pieces.iter().filter(|&&(at, _)| at >= from).map(judge).collect()
    }
}
