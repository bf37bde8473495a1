//! Paced sending of one answer's sound, and what of it was heard.
//!
//! Nothing is sent more than `lead` ahead of what the far end can have played, so that pause, clear
//! and *heard* mean something on every transport (DESIGN section 4, *Pacing*). Heard is the paced
//! clock, never more than was sent, corrected by what the far end reports. Where the far end plays
//! what it gets only after a while, the clock starts that much later whenever it has run dry.

use std::time::Duration;

use crate::audio::{FRAME, Pcm, duration_to_samples, samples_to_duration};
use crate::dialogue::WordTime;
use crate::time::Timestamp;
use crate::turn::backlog::Backlog;
use crate::turn::script::{Phrases, Script};

/// Most sound of one answer that may wait to be sent.
pub const BACKLOG_MAX: Duration = Duration::from_secs(180);

/// Most that is sent ahead of a sound that may become speech: two frames.
const REINED_LEAD: Duration = Duration::from_millis(40);
/// How long a sound may take to become speech, once it was loud.
const REINED_FOR: Duration = Duration::from_millis(120);

/// One answer's sound on its way to one caller.
#[derive(Clone, Debug)]
pub struct Playout {
    rate_hz: u32,
    /// Samples of a frame.
    frame: usize,
    lead: Duration,
    /// The far end plays what it gets so much later.
    delay: Duration,
    waiting: Backlog,
    phrases: Phrases,
    sent: usize,
    /// How long that takes.
    sent_time: Duration,
    /// What the far end had played at `mark`.
    played: Duration,
    mark: Timestamp,
    sending: Sending,
    complete: bool,
    /// The far end has said that no more than this will be heard.
    capped: Option<Duration>,
}

/// Whether sound is sent, and what the far end does with what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sending {
    Goes,
    /// It goes, no more than [`REINED_LEAD`] ahead until then: the far end plays out what it has.
    Reined {
        until: Timestamp,
    },
    /// What was sent ahead still plays.
    Paused,
    /// The far end was cleared: nothing plays until what was not heard is sent again.
    Halted,
}

impl Playout {
    /// Nothing to play yet; the far end will hear its first sample at `now` at the earliest.
    pub fn new(now: Timestamp, rate_hz: u32, lead: Duration) -> Self {
        Playout {
            rate_hz,
            frame: duration_to_samples(FRAME, rate_hz),
            lead,
            delay: Duration::ZERO,
            waiting: Backlog::default(),
            phrases: Phrases::new(rate_hz),
            sent: 0,
            sent_time: Duration::ZERO,
            played: Duration::ZERO,
            mark: now,
            sending: Sending::Goes,
            complete: false,
            capped: None,
        }
    }

    /// The far end plays what it gets so much later; `lead` does not count that time.
    pub fn heard_after(self, delay: Duration) -> Self {
        Playout { delay, ..self }
    }

    /// The voice is known from earlier answers: it says so many characters a second.
    pub fn at_pace(mut self, chars_per_s: u64) -> Self {
        self.phrases.assume(chars_per_s);
        self
    }

    /// A phrase whose sound will come.
    pub fn announce(&mut self, index: u32, text: &str) {
        self.phrases.announce(index, text);
    }

    /// What was announced last ends without a space.
    pub fn ends_bare(&self) -> bool {
        self.phrases.ends_bare()
    }

    /// Sound of a phrase. False when the backlog is full: a synthesiser that never ends.
    pub fn push(&mut self, index: u32, samples: Vec<i16>) -> bool {
        if samples_to_duration(self.waiting.len(), self.rate_hz) > BACKLOG_MAX {
            return false;
        }
        self.phrases.sounds(index, samples.len());
        self.waiting.push(samples);
        true
    }

    /// All sound of a phrase has come.
    pub fn phrase_done(&mut self, index: u32, words: Vec<WordTime>) {
        self.phrases.phrase_done(index, words);
    }

    /// No sound follows.
    pub fn complete(&mut self) {
        self.complete = true;
    }

    /// Some sound has come.
    pub fn has_sound(&self) -> bool {
        self.phrases.has_sound()
    }

    /// Some sound has been sent.
    pub fn has_sent(&self) -> bool {
        self.sent > 0
    }

    /// The next frame, if one is due.
    pub fn poll(&mut self, now: Timestamp) -> Option<Pcm> {
        self.advance(now);
        if self.is_paused() || !self.has_waiting() || self.next_frame_at(now) > now {
            return None;
        }
        self.arrive(now);
        let samples = self.waiting.take(self.frame);
        self.sent += samples.len();
        self.sent_time = samples_to_duration(self.sent, self.rate_hz);
        Some(Pcm { rate_hz: self.rate_hz, samples })
    }

    /// When [`Playout::poll`] will next have a frame, if nothing else happens.
    pub fn next_due(&self, now: Timestamp) -> Option<Timestamp> {
        (!self.is_paused() && self.has_waiting()).then(|| self.next_frame_at(now))
    }

    /// The text of the next phrase whose sound has begun to be sent and that was not told before. A
    /// phrase that has no sound (a lone dash) is told with those around it.
    pub fn next_begun(&mut self) -> Option<String> {
        self.phrases.next_begun(self.sent)
    }

    /// A phrase in front of this one with words in it, of which not all sound has come.
    pub fn has_unspoken(&self, before: u32) -> bool {
        self.phrases.has_unspoken(before)
    }

    /// A frame waits to be sent.
    pub fn has_waiting(&self) -> bool {
        self.waiting.len() >= self.frame || (self.complete && !self.waiting.is_empty())
    }

    /// The sound pauses here: what is no whole frame is filled up with silence and does not wait
    /// for more.
    pub fn fill_frame(&mut self) {
        let missing = self.waiting.len().next_multiple_of(self.frame) - self.waiting.len();
        self.waiting.push(vec![0; missing]);
        self.phrases.rests(missing);
    }

    /// The far end still plays something else until then.
    pub fn begin_behind(&mut self, now: Timestamp, until: Timestamp) {
        self.advance(now);
        self.mark = self.mark.max(until);
    }

    fn next_frame_at(&self, now: Timestamp) -> Timestamp {
        match self.sending {
            Sending::Reined { until } if now < until => {
                let reined = self.frame_at(now, self.lead.min(REINED_LEAD));
                reined.min(self.frame_at(now, self.lead).max(until))
            }
            Sending::Goes | Sending::Reined { .. } | Sending::Paused | Sending::Halted => {
                self.frame_at(now, self.lead)
            }
        }
    }

    fn frame_at(&self, now: Timestamp, lead: Duration) -> Timestamp {
        let ahead = self.sent_time.saturating_sub(self.heard(now)) + FRAME;
        // The clock does not run yet at a far end that has run dry: it runs as the frame is sent.
        let until_heard = (ahead + self.mark.since(now)).saturating_sub(self.delay);
        now + until_heard.saturating_sub(lead)
    }

    /// What is sent now is not heard before the delay has passed; where less than that is still to
    /// be played, the far end runs dry in between.
    fn arrive(&mut self, now: Timestamp) {
        let dry = (now + self.delay).since(self.ends_at(now));
        if !dry.is_zero() {
            self.mark += dry;
        }
    }

    /// How much has been sent.
    pub fn sent_time(&self) -> Duration {
        self.sent_time
    }

    fn advance(&mut self, now: Timestamp) {
        self.played = self.heard(now);
        self.mark = self.mark.max(now);
    }

    /// The caller's end is loud, and may be about to interrupt: what was sent ahead plays, less of
    /// it follows, and a pause is heard that much sooner. Where it was nothing, nothing is heard of
    /// it.
    pub fn rein_in(&mut self, now: Timestamp) {
        if !self.is_paused() {
            self.sending = Sending::Reined { until: now + REINED_FOR };
        }
    }

    /// Stops sending; what was sent ahead still plays.
    pub fn pause(&mut self, now: Timestamp) {
        self.advance(now);
        self.sending = Sending::Paused;
    }

    /// Stops sending at a far end that is cleared at once: nothing more is heard until
    /// [`Playout::resume`], behind which the leg sends again what was not.
    pub fn halt(&mut self, now: Timestamp) {
        self.advance(now);
        (self.sending, self.mark) = (Sending::Halted, now);
    }

    /// Goes on where it stopped.
    pub fn resume(&mut self, now: Timestamp) {
        self.advance(now);
        if self.sending == Sending::Halted {
            self.mark += self.delay;
        }
        self.sending = Sending::Goes;
    }

    /// Sending is paused.
    pub fn is_paused(&self) -> bool {
        matches!(self.sending, Sending::Paused | Sending::Halted)
    }

    /// The far end says how much it has played: less than we thought, or as much as was sent.
    pub fn report(&mut self, now: Timestamp, played: Duration) {
        self.played = played.min(self.sent_time);
        self.mark = self.mark.max(now);
    }

    /// The far end says that this much was heard, and that no more will be.
    pub fn cap(&mut self, played: Duration) {
        self.capped = Some(self.capped.map_or(played, |before| before.min(played)));
    }

    /// How much was heard.
    pub fn heard(&self, now: Timestamp) -> Duration {
        let since = match self.sending {
            Sending::Goes | Sending::Reined { .. } | Sending::Paused => now.since(self.mark),
            Sending::Halted => Duration::ZERO,
        };
        (self.played + since).min(self.sent_time)
    }

    /// How much of it counts as heard: no more than the far end allows.
    pub fn credited(&self, now: Timestamp) -> Duration {
        self.heard(now).min(self.capped.unwrap_or(Duration::MAX))
    }

    /// Everything there will ever be has been sent.
    pub fn all_sent(&self) -> bool {
        self.complete && self.waiting.is_empty()
    }

    /// When the last sample sent will have been heard.
    pub fn ends_at(&self, now: Timestamp) -> Timestamp {
        now + self.sent_time.saturating_sub(self.heard(now)) + self.mark.since(now)
    }

    /// Words and when each has been said, over all phrases, for the history.
    pub fn script(&self) -> Script {
        self.phrases.script()
    }

    /// How many characters this voice says in a second, from the phrases that have come
    /// completely.
    pub fn pace(&self) -> u64 {
        self.phrases.pace()
    }

    /// A question sounds, or has just sounded: an answer to it may still come.
    pub fn asks(&self, now: Timestamp) -> bool {
        self.phrases.asks(self.heard(now))
    }
}

#[cfg(test)]
#[path = "playout_tests.rs"]
mod tests;
