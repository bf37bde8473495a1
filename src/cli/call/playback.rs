//! The caller's loudspeaker: plays what arrives in order, and obeys clear and pause.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::wire::WIRE_RATE_HZ;

/// What became of a piece of the agent's sound on arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It will be heard when its turn comes.
    Queued,
    /// It belongs to an answer that was cleared; nobody hears it.
    Late,
}

/// Where a clear cut the agent off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) item: String,
    pub(super) played_ms: u64,
}

/// Sound waiting to be heard, and how much of each item was.
#[derive(Debug, Default)]
pub(super) struct Playback {
    waiting: VecDeque<Chunk>,
    paused: bool,
    /// Answers and items that were cleared: nothing of them may sound again.
    cleared: BTreeSet<String>,
    /// Answers and items that arrived since the last clear.
    current: BTreeSet<String>,
    heard_samples: BTreeMap<String, u64>,
    sounding: Option<String>,
    sounding_response: String,
}

#[derive(Debug)]
struct Chunk {
    response: String,
    item: String,
    samples: VecDeque<i16>,
}

impl Playback {
    /// Takes in a piece of the agent's sound.
    pub(super) fn receive(&mut self, response: &str, item: &str, samples: &[i16]) -> Arrival {
        if self.cleared.contains(response) || self.cleared.contains(item) {
            return Arrival::Late;
        }
        for name in [response, item] {
            if !name.is_empty() && !self.current.contains(name) {
                self.current.insert(name.to_owned());
            }
        }
        match self.waiting.back_mut() {
            Some(last) if last.item == item => last.samples.extend(samples),
            _ => self.waiting.push_back(Chunk {
                response: response.to_owned(),
                item: item.to_owned(),
                samples: samples.iter().copied().collect(),
            }),
        }
        Arrival::Queued
    }

    /// Plays one frame into `out`; gives the number of the agent's samples in it.
    pub(super) fn play(&mut self, out: &mut [i16]) -> usize {
        out.fill(0);
        if self.paused {
            return 0;
        }
        let mut filled = 0;
        while filled < out.len() {
            let Some(chunk) = self.waiting.front_mut() else { break };
            let take = chunk.samples.len().min(out.len() - filled);
            for (slot, sample) in out[filled..].iter_mut().zip(chunk.samples.drain(..take)) {
                *slot = sample;
            }
            *self.heard_samples.entry(chunk.item.clone()).or_default() += take as u64;
            self.sounding = Some(chunk.item.clone());
            self.sounding_response.clone_from(&chunk.response);
            filled += take;
            if chunk.samples.is_empty() {
                self.waiting.pop_front();
            }
        }
        filled
    }

    /// Whether the agent has something left to say to the caller.
    pub(super) fn is_audible(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Holds everything back until `resume` or `clear`.
    pub(super) fn pause(&mut self) {
        self.paused = true;
    }

    /// Goes on where it stopped.
    pub(super) fn resume(&mut self) {
        self.paused = false;
    }

    /// Throws away what is waiting, for good. Gives the cut when the agent was in mid-sentence.
    pub(super) fn clear(&mut self) -> Option<Cut> {
        self.paused = false;
        self.cleared.append(&mut self.current);
        let interrupted = self.waiting.front().map(|chunk| chunk.item.clone());
        self.waiting.clear();
        interrupted.map(|item| Cut { played_ms: self.played_ms(&item), item })
    }

    /// The answer that sounds or sounded last.
    pub(super) fn response(&self) -> &str {
        &self.sounding_response
    }

    /// The item that sounds or sounded last, and how much of it was heard.
    pub(super) fn position(&self) -> Option<Cut> {
        let item = self.sounding.clone()?;
        Some(Cut { played_ms: self.played_ms(&item), item })
    }

    fn played_ms(&self, item: &str) -> u64 {
        self.heard_samples.get(item).copied().unwrap_or(0) * 1_000 / u64::from(WIRE_RATE_HZ)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: usize = 480;

    #[test]
    fn what_was_cleared_never_sounds_and_is_counted_late() {
        let mut playback = Playback::default();
        playback.receive("resp_1", "item_1", &[7; 3 * FRAME]);
        let mut frame = [0; FRAME];
        assert_eq!(playback.play(&mut frame), FRAME);
        assert_eq!(playback.clear(), Some(Cut { item: "item_1".into(), played_ms: 20 }));
        assert_eq!(playback.receive("resp_1", "item_1", &[7; FRAME]), Arrival::Late);
        assert_eq!(playback.receive("resp_1", "item_2", &[7; FRAME]), Arrival::Late);
        assert_eq!(playback.play(&mut frame), 0);
        assert_eq!(frame, [0; FRAME]);
        assert_eq!(playback.receive("resp_2", "item_3", &[9; FRAME]), Arrival::Queued);
        assert_eq!(playback.play(&mut frame), FRAME);
        assert_eq!(frame, [9; FRAME]);
    }

    #[test]
    fn a_pause_holds_the_sound_and_a_resume_loses_none_of_it() {
        let mut playback = Playback::default();
        playback.receive("resp_1", "item_1", &[1, 2, 3, 4]);
        let mut frame = [0; 2];
        playback.play(&mut frame);
        playback.pause();
        assert_eq!(playback.play(&mut frame), 0);
        playback.resume();
        playback.play(&mut frame);
        assert_eq!(frame, [3, 4]);
        assert_eq!(playback.clear(), None, "all of it was heard");
    }
}
