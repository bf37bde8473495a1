//! The jitter buffer: packets come late, twice, in disorder or never; sound goes on every 20 ms.
//!
//! It holds back what comes by as much as packets have lately been late, no more. What is missing
//! is waited for that long, and then everything behind it is played later; when for a while more
//! is held back than is needed, a packet is skipped. A pause of the sender (its numbers go on, its
//! timestamps jump) is silence, not loss.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use crate::audio::FRAME;
use crate::codec::opus::CLOCK_HZ;
use crate::time::{Timestamp, ms};

/// Ticks of one frame.
const FRAME_TICKS: u64 = CLOCK_HZ as u64 / 50;
/// The delay to begin with, and the least.
const DELAY_MIN: Duration = ms(40);
/// The most that is held back for a late packet.
const DELAY_MAX: Duration = ms(300);
/// Packets whose lateness is remembered: some three seconds.
const REMEMBERED: usize = 150;
/// Packets that may wait: two seconds.
const WAITING_MAX: usize = 100;
/// Frames made up in a row; behind them a voice would only hum.
const CONCEALED_MAX: u32 = 5;
/// Starved for so long, the sender has paused: what comes next is a fresh start.
const PAUSE: Duration = ms(100);
/// Timestamps further apart belong to different streams.
const JUMP_TICKS: u64 = CLOCK_HZ as u64 * 10;
/// More than the delay and this waits: something is left out.
const SURPLUS: Duration = ms(40);
/// So many frames in a row have to see the surplus.
const SURPLUS_FRAMES: u32 = 25;

/// More than the delay and this waits, as behind a stall of the sender's: a caller who is heard so
/// much later cannot interrupt, so that more is left out.
const HURRY: Duration = ms(300);
/// So many frames in a row have to see that.
const HURRY_FRAMES: u32 = 2;

/// One packet as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub sequence: u16,
    pub timestamp: u32,
    /// How long it sounds, in ticks.
    pub ticks: u32,
    pub payload: Bytes,
}

/// What is to be heard next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Play {
    /// This packet.
    Packet(Bytes),
    /// This packet is decoded and not heard, to catch up: what follows is played in its place.
    Skip(Bytes),
    /// The frame before this packet, which knows something of it and is played next.
    Recover(Bytes),
    /// A frame that nobody knows.
    Conceal,
    /// A frame of nothing.
    Silence,
}

/// Puts one stream of packets in order and in time.
#[derive(Debug, Default)]
pub(super) struct JitterBuffer {
    /// The next one first.
    waiting: VecDeque<Waiting>,
    transits: Transits,
    stream: Option<Stream>,
    /// Nothing of the next stream is heard before: till then there was another.
    not_before: Timestamp,
    tally: Tally,
}

/// A packet that came, and when it is to be heard in the stream's time.
#[derive(Debug)]
struct Waiting {
    at: u64,
    sequence: u16,
    ticks: u32,
    payload: Bytes,
}

/// Transit times of the newest packets, in microseconds and only comparable to each other. Kept
/// small: hundreds of calls do not fit into a processor's cache, and each packet looks at this.
#[derive(Debug, Default)]
struct Transits {
    /// What the others are relative to.
    first_us: i64,
    /// In the order of arrival.
    newest_us: VecDeque<i32>,
    /// The same, the fastest first.
    sorted_us: Vec<i32>,
}

/// What a buffer has done to its stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Frames that never came in time.
    pub lost: u64,
    /// Packets that came too late.
    pub late: u64,
    /// Frames put in while something was waited for.
    pub put_in: u64,
    /// Packets skipped to catch up.
    pub skipped: u64,
}

/// A stream that has begun.
#[derive(Debug)]
struct Stream {
    /// The newest timestamp, unrolled.
    newest: u64,
    /// The timestamp to be heard next.
    next: u64,
    /// The number of the packet heard last.
    last: Option<u16>,
    /// When something is to be heard next.
    due: Timestamp,
    /// Nothing is taken out before: the delay is being built up.
    hold: Timestamp,
    starved: Duration,
    made_up: u32,
    surplus: u32,
}

impl JitterBuffer {
    /// What comes from now on is of another sender, and is heard from `due` on.
    pub fn begin_anew(&mut self, due: Timestamp) {
        self.waiting.clear();
        self.transits.clear();
        self.stream = None;
        self.not_before = due;
    }

    /// Takes a packet that came now.
    pub fn push(&mut self, now: Timestamp, packet: Packet) {
        let at = self.unrolled(now, packet.timestamp);
        self.note_transit(now, at);
        let delay = self.delay();
        let Some(stream) = &mut self.stream else { return };
        stream.newest = stream.newest.max(at);
        if at < stream.next {
            self.tally.late += 1;
            return;
        }
        if stream.starved >= PAUSE && self.waiting.is_empty() {
            stream.hold = now + delay;
        }
        let Packet { sequence, ticks, payload, .. } = packet;
        self.wait(Waiting { at, sequence, ticks, payload });
        if self.waiting.len() > WAITING_MAX {
            self.waiting.pop_front();
        }
    }

    /// Puts a packet where it belongs, which is nearly always the end; of two the later one stays.
    fn wait(&mut self, packet: Waiting) {
        match self.waiting.iter().rposition(|other| other.at <= packet.at) {
            Some(same) if self.waiting[same].at == packet.at => self.waiting[same] = packet,
            Some(before) => self.waiting.insert(before + 1, packet),
            None => self.waiting.push_front(packet),
        }
    }

    /// What is due by now; asked again until there is nothing more.
    pub fn poll(&mut self, now: Timestamp) -> Option<Play> {
        let (delay, least_us) = (self.delay(), self.transits.least_us());
        let stream = self.stream.as_mut()?;
        if stream.due > now {
            return None;
        }
        let held = stream.held(least_us.unwrap_or(0));
        if stream.hold > stream.due {
            stream.due += FRAME;
            return Some(Play::Silence);
        }
        let patience = if held > delay + HURRY { HURRY_FRAMES } else { SURPLUS_FRAMES };
        if stream.surplus >= patience
            && self.waiting.front().is_some_and(|first| first.at <= stream.next)
            && let Some(Waiting { at, sequence, ticks, payload }) = self.waiting.pop_front()
        {
            (stream.next, stream.last) = (at + u64::from(ticks), Some(sequence));
            stream.surplus = 0;
            self.tally.skipped += 1;
            return Some(Play::Skip(payload));
        }
        let Some(&Waiting { at, sequence, ticks, ref payload }) = self.waiting.front() else {
            self.tally.put_in += 1;
            return Some(stream.starve());
        };
        if at > stream.next && stream.starved == Duration::ZERO {
            let missing = at - stream.next;
            let paused = stream.last.is_some_and(|last| last.wrapping_add(1) == sequence);
            if held < delay && !paused {
                // It may still come: from here on everything is played later.
                self.tally.put_in += 1;
                stream.due += FRAME;
                stream.made_up += 1;
                let made_up = stream.made_up <= CONCEALED_MAX;
                return Some(if made_up { Play::Conceal } else { Play::Silence });
            }
            stream.next += FRAME_TICKS.min(missing);
            stream.due += FRAME;
            if paused {
                return Some(Play::Silence);
            }
            self.tally.lost += 1;
            stream.made_up += 1;
            return Some(match stream.made_up {
                _ if missing <= FRAME_TICKS => Play::Recover(payload.clone()),
                made_up if made_up > CONCEALED_MAX => Play::Silence,
                _ => Play::Conceal,
            });
        }
        stream.last = Some(sequence);
        stream.next = at + u64::from(ticks);
        stream.due += span(u64::from(ticks));
        (stream.starved, stream.made_up) = (Duration::ZERO, 0);
        let surplus = held > delay + SURPLUS;
        stream.surplus = if surplus { stream.surplus + 1 } else { 0 };
        self.waiting.pop_front().map(|packet| Play::Packet(packet.payload))
    }

    /// When [`JitterBuffer::poll`] has something next.
    pub fn due(&self) -> Option<Timestamp> {
        self.stream.as_ref().map(|stream| stream.due)
    }

    /// By when to play for somebody who is awake now. The next packet, where it is there, is played
    /// up to a frame early: whoever hears it need not be woken once more, and hears it sooner.
    pub fn horizon(&self, now: Timestamp) -> Timestamp {
        let Some(stream) = &self.stream else { return now };
        let comes_soon = stream.due.since(now) < FRAME && stream.hold <= stream.due;
        let is_there = self.waiting.front().is_some_and(|first| first.at <= stream.next);
        if comes_soon && is_there { now.max(stream.due) } else { now }
    }

    /// How much is held back: as much as all but the latest twentieth of the packets need.
    pub fn delay(&self) -> Duration {
        let late = self.transits.late().map_or(Duration::ZERO, |late| late + FRAME);
        late.clamp(DELAY_MIN, DELAY_MAX)
    }

    /// What was done so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// The timestamp without its wrap-around; one that fits nowhere begins another stream.
    fn unrolled(&mut self, now: Timestamp, timestamp: u32) -> u64 {
        if let Some(stream) = &self.stream {
            let ahead = i64::from(timestamp.wrapping_sub(stream.newest as u32) as i32);
            let at = stream.newest.saturating_add_signed(ahead);
            if ahead.unsigned_abs() <= JUMP_TICKS + ticks(stream.starved) {
                return at;
            }
        }
        // Room below, for what overtook it.
        let at = (1 << 32) + u64::from(timestamp);
        let due = now.max(self.due().unwrap_or(self.not_before));
        self.waiting.clear();
        self.transits.clear();
        self.stream = Some(Stream {
            newest: at,
            next: at,
            last: None,
            due,
            hold: now + DELAY_MIN,
            starved: Duration::ZERO,
            made_up: 0,
            surplus: 0,
        });
        at
    }

    fn note_transit(&mut self, now: Timestamp, at: u64) {
        let sent_us = at * 1_000_000 / u64::from(CLOCK_HZ);
        self.transits.push(now.as_micros() as i64 - sent_us as i64);
    }
}

impl Transits {
    fn push(&mut self, transit_us: i64) {
        if self.newest_us.is_empty() {
            self.first_us = transit_us;
        }
        let transit_us = i32::try_from(transit_us - self.first_us).unwrap_or_else(|_| {
            // Half an hour apart, they have nothing to do with each other.
            self.clear();
            self.first_us = transit_us;
            0
        });
        self.newest_us.push_back(transit_us);
        let to = self.place(transit_us);
        if self.newest_us.len() <= REMEMBERED {
            return self.sorted_us.insert(to, transit_us);
        }
        let Some(oldest_us) = self.newest_us.pop_front() else { return };
        // It takes the oldest one's place, and what lies between moves up by one.
        let from = self.place(oldest_us);
        let to = if from < to {
            self.sorted_us.copy_within(from + 1..to, from);
            to - 1
        } else {
            self.sorted_us.copy_within(to..from, to + 1);
            to
        };
        self.sorted_us[to] = transit_us;
    }

    /// Where the first one stands that is not faster.
    fn place(&self, transit_us: i32) -> usize {
        self.sorted_us.partition_point(|faster_us| *faster_us < transit_us)
    }

    fn clear(&mut self) {
        self.newest_us.clear();
        self.sorted_us.clear();
    }

    /// The fastest.
    fn least_us(&self) -> Option<i64> {
        self.sorted_us.first().map(|least_us| self.first_us + i64::from(*least_us))
    }

    /// How much longer than the fastest all but the latest twentieth have taken.
    fn late(&self) -> Option<Duration> {
        let at = (self.sorted_us.len() * 19 / 20).min(self.sorted_us.len().checked_sub(1)?);
        let late_us = i64::from(self.sorted_us[at]) - i64::from(self.sorted_us[0]);
        Some(Duration::from_micros(late_us as u64))
    }
}

impl Stream {
    /// How much longer than the fastest of all packets takes the next one may have taken.
    fn held(&self, least_us: i64) -> Duration {
        let sent_us = span(self.next).as_micros() as i64;
        Duration::from_micros((self.due.as_micros() as i64 - least_us - sent_us).max(0) as u64)
    }

    /// Nothing is there: made up for a while, then silence. The place in the stream is kept, for
    /// what is only late.
    fn starve(&mut self) -> Play {
        self.due += FRAME;
        self.starved += FRAME;
        self.made_up += 1;
        if self.made_up > CONCEALED_MAX || self.last.is_none() {
            Play::Silence
        } else {
            Play::Conceal
        }
    }
}

fn span(ticks: u64) -> Duration {
    Duration::from_micros(ticks * 1_000_000 / u64::from(CLOCK_HZ))
}

fn ticks(span: Duration) -> u64 {
    span.as_micros() as u64 * u64::from(CLOCK_HZ) / 1_000_000
}

#[cfg(test)]
#[path = "jitter_tests.rs"]
mod tests;
