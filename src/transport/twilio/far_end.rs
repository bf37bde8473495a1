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

/// The far end's buffer, as far as we know it. Sound is given in pieces of any length and sent in
/// whole frames: some far ends play a shorter one as a whole one.
#[derive(Debug)]
pub(super) struct FarEnd {
    encoding: Encoding,
    /// The item that sounds.
    item: Option<ItemId>,
    /// Nothing follows of it.
    ended: bool,
    /// Bytes of it that were given.
    given: usize,
    /// Bytes of it that were sent.
    sent: usize,
    /// Where in it the last mark stands.
    marked: usize,
    /// Those sent since the last clear, which returns all before it: those say nothing any more.
    marks: VecDeque<Mark>,
    /// No two marks of a stream have one name.
    names: u32,
    /// The newest of the item's encoded sound, up to `given`.
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
            ended: false,
            given: 0,
            sent: 0,
            marked: 0,
            marks: VecDeque::new(),
            names: 0,
            kept: VecDeque::new(),
        }
    }

    /// Sound of an item is to be sent, behind all of the item before it.
    pub fn give(&mut self, item: &ItemId, sound: &[u8]) {
        if self.item.as_ref() != Some(item) {
            self.item = Some(item.clone());
            (self.ended, self.given, self.sent, self.marked) = (false, 0, 0, 0);
            self.kept.clear();
        }
        self.given += sound.len();
        self.kept.extend(sound);
        let most = self.bytes(KEPT_MAX).max(self.given - self.sent);
        let too_many = self.kept.len().saturating_sub(most);
        self.kept.drain(..too_many);
    }

    /// The next whole frame, or what is left of an item that has ended.
    pub fn send(&mut self) -> Option<Vec<u8>> {
        let waiting = self.given - self.sent;
        let frame = self.encoding.frame_bytes().min(if self.ended { waiting } else { usize::MAX });
        if frame == 0 || frame > waiting {
            return None;
        }
        let from = self.kept.len() - waiting;
        self.sent += frame;
        Some(self.kept.range(from..from + frame).copied().collect())
    }

    /// A mark is due: behind the first frame, which tells how long the way is, and then regularly.
    pub fn mark_is_due(&self) -> bool {
        self.marked == 0 || self.sent - self.marked >= self.bytes(MARK_EVERY)
    }

    /// Nothing follows of the item that sounds.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Sound of another item than this sounds.
    pub fn is_of_another(&self, item: &ItemId) -> bool {
        self.item.as_ref().is_some_and(|sounding| sounding != item)
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

    /// The far end is cleared: the marks that come back now are no evidence of hearing, and what
    /// was given is not to be sent.
    pub fn clear(&mut self) {
        self.marks.clear();
        self.sent = self.given;
        self.marked = self.sent;
    }

    /// The sound of this item behind `heard` is to be sent once more.
    pub fn rewind(&mut self, item: &ItemId, heard: Duration) {
        if self.item.as_ref() == Some(item) {
            let oldest = self.given - self.kept.len();
            self.sent = self.bytes(heard).clamp(oldest, self.given);
            self.marked = self.sent;
        }
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

    /// Gives the far end sound and sends what can be; the bytes sent, and the last mark's name.
    fn say(far_end: &mut FarEnd, item: &ItemId, sound: &[u8]) -> (Vec<u8>, Option<String>) {
        far_end.give(item, sound);
        send(far_end)
    }

    fn send(far_end: &mut FarEnd) -> (Vec<u8>, Option<String>) {
        let (mut sent, mut marked) = (Vec::new(), None);
        while let Some(frame) = far_end.send() {
            sent.extend(frame);
            if far_end.mark_is_due() {
                marked = far_end.mark();
            }
        }
        (sent, marked)
    }

    #[test]
    fn marks_tell_what_was_played_and_old_ones_nothing() {
        let (mut far_end, item) = far_end();
        let first = say(&mut far_end, &item, &[1; 160]).1.expect("behind the first frame");
        assert_eq!(say(&mut far_end, &item, &[2; 160]).1, None);
        let second = far_end.mark().expect("a phrase ends");
        assert_eq!(far_end.mark(), None, "nothing was sent since");
        assert_eq!(far_end.played("item_1.9"), None, "forged");
        assert_eq!(far_end.played(&first), Some((item.clone(), ms(20))));
        assert_eq!(far_end.played(&first), None, "twice");
        far_end.clear();
        assert_eq!(far_end.played(&second), None, "returned by the clear");
        assert!(!far_end.is_playing());
        let third = say(&mut far_end, &item, &[3; 1_600]).1.unwrap();
        assert_eq!(far_end.played(&third), Some((item, ms(240))));
    }

    #[test]
    fn what_was_not_heard_is_sent_again_to_the_sample() {
        let (mut far_end, item) = far_end();
        for frame in 0..10 {
            say(&mut far_end, &item, &[frame; 160]);
        }
        far_end.end();
        far_end.clear();
        assert_eq!(far_end.send(), None, "what was cleared stays away");
        far_end.rewind(&item, ms(130));
        let again = send(&mut far_end).0;
        assert_eq!(again.len(), 70 * 8);
        assert_eq!((again[0], again[79], again[80], again[559]), (6, 6, 7, 9));
        let mark = far_end.mark().expect("what is sent again is marked again");
        assert_eq!(far_end.played(&mark), Some((item, ms(200))));
        far_end.rewind(&ItemId::new("item_2"), ms(0));
        assert_eq!(send(&mut far_end).0, Vec::<u8>::new());
    }

    /// Behind a resume in mid-frame the pieces do not fit frames any more: they are put together,
    /// and only an item's end is shorter.
    #[test]
    fn pieces_are_put_together_to_frames() {
        let (mut far_end, item) = far_end();
        say(&mut far_end, &item, &[1; 800]);
        far_end.clear();
        far_end.rewind(&item, ms(70));
        assert_eq!(far_end.send().unwrap(), [1; 160]);
        assert_eq!(far_end.send(), None, "10 ms wait for more");
        let mark = far_end.mark().unwrap();
        assert_eq!(far_end.played(&mark), Some((item.clone(), ms(90))), "what waits is not marked");
        far_end.give(&item, &[2; 160]);
        assert_eq!(far_end.send().unwrap(), [[1; 80], [2; 80]].concat());
        assert_eq!(far_end.send(), None);
        far_end.end();
        assert_eq!(far_end.send().unwrap(), [2; 80]);
        assert_eq!(far_end.send(), None);
    }

    #[test]
    fn a_far_end_that_returns_no_marks_costs_bounded_room() {
        let (mut far_end, item) = far_end();
        for _ in 0..5_000 {
            say(&mut far_end, &item, &[0; 160]);
        }
        assert_eq!((far_end.marks.len(), far_end.kept.len()), (MARKS_MAX, 24_000));
    }
}
