//! What the far end has been sent and not yet confirmed: marks, and the sound that a pause throws
//! away there and a resume sends again.

use std::collections::VecDeque;
use std::time::Duration;

use super::Encoding;
use crate::audio::samples_to_duration;
use crate::id::ItemId;
use crate::time::ms;

/// Between two marks of one phrase.
const MARK_EVERY: Duration = ms(200);
/// Marks that may be out; a far end that returns none is believed to play as we assume.
const MARKS_MAX: usize = 64;
/// Sound that is kept to be sent again: the longest lead and some way there and back.
const KEPT_MAX: Duration = ms(3_000);

/// The far end's buffer, as far as we know it.
#[derive(Debug)]
pub(super) struct FarEnd {
    encoding: Encoding,
    /// The item that was sent last.
    item: Option<ItemId>,
    /// Bytes of it that were sent.
    sent: usize,
    /// Where in it the last mark stands.
    marked: usize,
    /// Those sent since the last clear, which returns all before it: those say nothing any more.
    marks: VecDeque<Mark>,
    /// No two marks of a stream have one name.
    names: u32,
    /// The newest of the item's encoded sound, up to `sent`.
    kept: VecDeque<u8>,
}

/// A mark that is out.
#[derive(Debug)]
struct Mark {
    name: String,
    item: ItemId,
    at: Duration,
}

impl FarEnd {
    pub fn new(encoding: Encoding) -> FarEnd {
        FarEnd {
            encoding,
            item: None,
            sent: 0,
            marked: 0,
            marks: VecDeque::new(),
            names: 0,
            kept: VecDeque::new(),
        }
    }

    /// Sound of an item was sent. Gives the name of the mark that has to follow, if one has to:
    /// behind the first frame, which tells how long the way is, and then regularly.
    pub fn sent(&mut self, item: &ItemId, sound: &[u8]) -> Option<String> {
        let is_first = self.item.as_ref() != Some(item);
        if is_first {
            (self.item, self.sent, self.marked) = (Some(item.clone()), 0, 0);
            self.kept.clear();
        }
        self.sent += sound.len();
        self.kept.extend(sound);
        let too_many = self.kept.len().saturating_sub(self.bytes(KEPT_MAX));
        self.kept.drain(..too_many);
        let due = is_first || self.sent - self.marked >= self.bytes(MARK_EVERY);
        if due { self.mark() } else { None }
    }

    /// The name of a mark behind all that was sent, unless one stands there.
    pub fn mark(&mut self) -> Option<String> {
        let item = self.item.clone().filter(|_| self.sent > self.marked)?;
        self.marked = self.sent;
        self.names += 1;
        let name = format!("{}.{}", item.as_str(), self.names);
        if self.marks.len() == MARKS_MAX {
            self.marks.pop_front();
        }
        self.marks.push_back(Mark { name: name.clone(), item, at: self.time(self.sent) });
        Some(name)
    }

    /// A mark came back: how much of which item was played. Marks are played in order; one that is
    /// not out (forged, returned by a clear, or twice) says nothing.
    pub fn played(&mut self, name: &str) -> Option<(ItemId, Duration)> {
        let place = self.marks.iter().position(|mark| mark.name == name)?;
        let Mark { item, at, .. } = self.marks.drain(..=place).next_back()?;
        Some((item, at))
    }

    /// Something that was marked has not been confirmed.
    pub fn is_playing(&self) -> bool {
        !self.marks.is_empty()
    }

    /// The far end is cleared: the marks that come back now are no evidence of hearing.
    pub fn clear(&mut self) {
        self.marks.clear();
        self.marked = self.sent;
    }

    /// The sound of this item behind `heard`, to be sent once more.
    pub fn unheard(&mut self, item: &ItemId, heard: Duration) -> Vec<u8> {
        if self.item.as_ref() != Some(item) {
            return Vec::new();
        }
        let missing = self.sent.saturating_sub(self.bytes(heard)).min(self.kept.len());
        self.marked = self.sent - missing;
        self.kept.range(self.kept.len() - missing..).copied().collect()
    }

    fn bytes(&self, time: Duration) -> usize {
        let samples = time.as_micros() as usize * self.encoding.rate_hz() as usize / 1_000_000;
        samples * self.encoding.sample_bytes()
    }

    fn time(&self, bytes: usize) -> Duration {
        samples_to_duration(bytes / self.encoding.sample_bytes(), self.encoding.rate_hz())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::g711::Law;

    fn far_end() -> (FarEnd, ItemId) {
        (FarEnd::new(Encoding::G711(Law::Mu)), ItemId::new("item_1"))
    }

    #[test]
    fn marks_tell_what_was_played_and_old_ones_nothing() {
        let (mut far_end, item) = far_end();
        let first = far_end.sent(&item, &[1; 160]).expect("behind the first frame");
        assert_eq!(far_end.sent(&item, &[2; 160]), None);
        let second = far_end.mark().expect("a phrase ends");
        assert_eq!(far_end.mark(), None, "nothing was sent since");
        assert_eq!(far_end.played("item_1.9"), None, "forged");
        assert_eq!(far_end.played(&first), Some((item.clone(), ms(20))));
        assert_eq!(far_end.played(&first), None, "twice");
        far_end.clear();
        assert_eq!(far_end.played(&second), None, "returned by the clear");
        assert!(!far_end.is_playing());
        let third = far_end.sent(&item, &[3; 1_600]).unwrap();
        assert_eq!(far_end.played(&third), Some((item, ms(240))));
    }

    #[test]
    fn what_was_not_heard_is_sent_again_to_the_sample() {
        let (mut far_end, item) = far_end();
        for frame in 0..10 {
            far_end.sent(&item, &[frame; 160]);
        }
        far_end.clear();
        let again = far_end.unheard(&item, ms(130));
        assert_eq!(again.len(), 70 * 8);
        assert_eq!((again[0], again[79], again[80], again[559]), (6, 6, 7, 9));
        let mark = far_end.mark().expect("what is sent again is marked again");
        assert_eq!(far_end.played(&mark), Some((item, ms(200))));
        assert_eq!(far_end.unheard(&ItemId::new("item_2"), ms(0)), Vec::<u8>::new());
    }

    #[test]
    fn a_far_end_that_returns_no_marks_costs_bounded_room() {
        let (mut far_end, item) = far_end();
        for _ in 0..5_000 {
            far_end.sent(&item, &[0; 160]);
        }
        assert_eq!((far_end.marks.len(), far_end.kept.len()), (MARKS_MAX, 24_000));
    }
}
