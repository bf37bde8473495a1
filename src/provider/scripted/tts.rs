//! A synthesiser that sounds as its table says: a quiet, speech-like tone.

use std::sync::Arc;
use std::time::Duration;

use super::course::{Course, FAULT_KEYS, FaultScript, Output, at_rate};
use super::tone::one_second;
use crate::audio::{Pcm, duration_to_samples};
use crate::dialogue::WordTime;
use crate::provider::keys::{self, Keys, PerRun, Wrong};
use crate::provider::tts::{Phrase, TtsOptions, TtsSignal};
use crate::provider::{BuildError, Ended};
use crate::time::{Timestamp, ms};

const KEYS: &[&str] = &[
    "first_audio_ms",
    "words_per_s",
    "ms_per_char",
    "faster_than_real_time",
    "rate_x",
    "word_times",
    "rate_hz",
];
/// Sound comes in pieces of this length.
const PIECE: Duration = ms(100);

/// How a scripted synthesiser sounds and how fast.
///
/// Sound comes at `rate_x` times real time: 20 by default, 1 when `faster_than_real_time = false`,
/// and 1.25 when `late_after_cancel_ms` asks for a run that is still going when it is cancelled.
#[derive(Clone, Debug)]
pub struct TtsScript {
    first_audio: PerRun<Option<Duration>>,
    rate_x: PerRun<Option<f64>>,
    real_time: bool,
    length: Length,
    word_times: bool,
    rate_hz: u32,
    second: Arc<[i16]>,
    faults: FaultScript,
}

/// What the length of a phrase comes from.
#[derive(Clone, Copy, Debug)]
enum Length {
    WordsPerS(f64),
    MsPerChar(f64),
}

impl TtsScript {
    /// Reads the table of a `provider = "scripted"` synthesiser.
    pub fn from_table(table: &toml::Table) -> Result<TtsScript, BuildError> {
        let keys = Keys::new(table, &[KEYS, FAULT_KEYS])?;
        let rate_hz = keys.one("rate_hz", rate_hz)?.unwrap_or(24_000);
        let length = match keys.one("ms_per_char", keys::rate)? {
            Some(per_char) => Length::MsPerChar(per_char),
            None => Length::WordsPerS(keys.one("words_per_s", keys::rate)?.unwrap_or(2.5)),
        };
        Ok(TtsScript {
            first_audio: keys.per_run("first_audio_ms", keys::millis)?,
            rate_x: keys.per_run("rate_x", keys::rate)?,
            real_time: !keys.one("faster_than_real_time", keys::flag)?.unwrap_or(true),
            length,
            word_times: keys.one("word_times", keys::flag)?.unwrap_or(false),
            rate_hz,
            second: one_second(rate_hz),
            faults: FaultScript::from_keys(&keys)?,
        })
    }

    /// Words a second that it says; at most so many, where only the pace of letters is said.
    pub fn words_per_s(&self) -> f64 {
        match self.length {
            Length::WordsPerS(words_per_s) => words_per_s,
            // A word is a letter and a blank at least.
            Length::MsPerChar(ms_per_char) => 1_000.0 / ms_per_char / 2.0,
        }
    }

    /// Begins run number `nth_run` (from 0): one answer, whose phrases follow.
    pub fn start(&self, now: Timestamp, nth_run: u32, options: &TtsOptions) -> TtsRun {
        let faults = self.faults.of_run(nth_run);
        let default_x = match (self.real_time, faults.late_after_cancel) {
            (true, _) => 1.0,
            (false, Some(_)) => 1.25,
            (false, None) => 20.0,
        };
        let rate_x = self.rate_x.at(nth_run).unwrap_or(default_x);
        let pace = match faults.drip_per_s {
            Some(per_s) => at_rate(1, per_s),
            None => Duration::from_secs_f64(PIECE.as_secs_f64() / rate_x),
        };
        TtsRun {
            course: Course::new(now, faults),
            first_audio: self.first_audio.at(nth_run).unwrap_or(ms(80)),
            pace,
            length: self.length,
            speed: f64::from(options.speed.clamp(0.1, 10.0)),
            word_times: self.word_times,
            rate_hz: self.rate_hz,
            second: self.second.clone(),
            begun: false,
            closed: false,
            phrase: 0,
        }
    }
}

/// One run of a scripted synthesiser.
#[derive(Clone, Debug)]
pub struct TtsRun {
    course: Course<Planned>,
    first_audio: Duration,
    pace: Duration,
    length: Length,
    speed: f64,
    word_times: bool,
    rate_hz: u32,
    second: Arc<[i16]>,
    begun: bool,
    closed: bool,
    phrase: u32,
}

/// Sound is made when it is due: a plan of a long phrase stays small.
#[derive(Clone, Debug)]
enum Planned {
    Piece { phrase: u32, from: usize, to: usize },
    Done { phrase: u32, words: Vec<WordTime> },
}

impl TtsRun {
    /// One more phrase of the answer.
    pub fn say(&mut self, now: Timestamp, phrase: Phrase) {
        if self.closed || self.course.is_cancelled() {
            return;
        }
        if !self.begun {
            self.begun = true;
            self.course.begin(now, self.first_audio);
        }
        self.phrase = phrase.index;
        let ready = now + self.first_audio;
        let mut at = self.course.last_due().map_or(ready, |last| ready.max(last + self.pace));
        let words = self.word_times(&phrase.text);
        let total = words.last().map_or(0, |last| duration_to_samples(last.end, self.rate_hz));
        let piece = duration_to_samples(PIECE, self.rate_hz);
        let mut from = 0;
        while from < total {
            let to = (from + piece).min(total);
            self.course.push(at, Planned::Piece { phrase: phrase.index, from, to });
            from = to;
            if from < total {
                at += self.pace;
            }
        }
        let words = if self.word_times { words } else { Vec::new() };
        self.course.push(at, Planned::Done { phrase: phrase.index, words });
    }

    /// No phrase follows.
    pub fn close_input(&mut self, now: Timestamp) {
        if !self.closed {
            self.closed = true;
            self.course.finish(now, Ended::completed());
        }
    }

    /// Asks it to stop.
    pub fn cancel(&mut self, now: Timestamp) {
        if !self.begun {
            return self.course.withdraw(now);
        }
        let piece = duration_to_samples(PIECE, self.rate_hz);
        let phrase = self.phrase;
        let more = || Some(Planned::Piece { phrase, from: 0, to: piece });
        self.course.cancel(now, self.pace, |_| true, more);
    }

    /// When to poll next; `None` when nothing comes by itself.
    pub fn next_at(&self) -> Option<Timestamp> {
        self.course.next_at()
    }

    /// What is due by `now`, one at a time, in time order.
    pub fn poll(&mut self, now: Timestamp) -> Option<Output<TtsSignal>> {
        Some(match self.course.poll(now)? {
            Output::Ended(ended) => Output::Ended(ended),
            Output::Signal(Planned::Done { phrase, words }) => {
                Output::Signal(TtsSignal::PhraseDone { phrase, words })
            }
            Output::Signal(Planned::Piece { phrase, from, to }) => {
                let mut samples = Vec::with_capacity(to - from);
                while samples.len() < to - from {
                    let at = (from + samples.len()) % self.second.len();
                    let rest = (self.second.len() - at).min(to - from - samples.len());
                    samples.extend_from_slice(&self.second[at..at + rest]);
                }
                let pcm = Pcm { rate_hz: self.rate_hz, samples };
                Output::Signal(TtsSignal::Audio { phrase, pcm })
            }
        })
    }

    fn word_times(&self, text: &str) -> Vec<WordTime> {
        let mut times = Vec::new();
        let mut from = 0;
        for word in text.split_whitespace() {
            // `word` is a part of `text` behind `from`, so it is found.
            let start = text[from..].find(word).map_or(from, |at| from + at);
            from = start + word.len();
            let seconds = match self.length {
                Length::WordsPerS(per_s) => (times.len() + 1) as f64 / per_s,
                Length::MsPerChar(per_char) => text[..from].chars().count() as f64 * per_char / 1e3,
            };
            let end = Duration::from_micros((seconds / self.speed * 1e6).round() as u64);
            times.push(WordTime { text_end: from, end });
        }
        times
    }
}

fn rate_hz(value: &toml::Value) -> Result<u32, Wrong> {
    let given = value.as_integer().and_then(|hz| u32::try_from(hz).ok());
    given
        .filter(|hz| (8_000..=48_000).contains(hz))
        .ok_or_else(|| (format!("{value} is of no use here"), "8000 to 48000".into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Evidence;
    use crate::fault::Fault;

    fn start(table: &toml::Table) -> TtsRun {
        let options = TtsOptions { voice: None, language: "en".into(), speed: 1.0 };
        TtsScript::from_table(table).unwrap().start(Timestamp::ZERO, 0, &options)
    }

    fn phrase(index: u32, text: &str) -> Phrase {
        Phrase { index, text: text.into() }
    }

    fn drain(run: &mut TtsRun, until_ms: u64) -> Vec<(u64, Output<TtsSignal>)> {
        let mut seen = Vec::new();
        while let Some(now) = run.next_at().filter(|at| at.as_millis() <= until_ms) {
            while let Some(output) = run.poll(now) {
                seen.push((now.as_millis(), output));
            }
        }
        seen
    }

    fn sound_ms(seen: &[(u64, Output<TtsSignal>)]) -> u64 {
        let length = |(_, output): &(u64, Output<TtsSignal>)| match output {
            Output::Signal(TtsSignal::Audio { pcm, .. }) => pcm.duration().as_millis() as u64,
            _ => 0,
        };
        seen.iter().map(length).sum()
    }

    #[test]
    fn phrases_sound_in_order_for_as_long_as_their_words() {
        let mut run =
            start(&toml::toml! { first_audio_ms = 80 words_per_s = 2.5 word_times = true });
        run.say(Timestamp::ZERO, phrase(0, "one two"));
        run.say(Timestamp::ZERO, phrase(1, "three"));
        run.close_input(Timestamp::ZERO);
        let seen = drain(&mut run, 10_000);
        assert_eq!(sound_ms(&seen), 1_200);
        assert_eq!(seen[0].0, 80);
        let order: Vec<u32> = seen
            .iter()
            .filter_map(|(_, output)| match output {
                Output::Signal(TtsSignal::PhraseDone { phrase, words }) => {
                    assert!(!words.is_empty());
                    Some(*phrase)
                }
                _ => None,
            })
            .collect();
        assert_eq!(order, [0, 1]);
        assert_eq!(seen.last(), Some(&(seen.last().unwrap().0, Output::Ended(Ended::completed()))));
    }

    #[test]
    fn word_times_name_the_end_of_each_word_in_the_text() {
        let run = start(&toml::toml! { words_per_s = 2 });
        let times = run.word_times("Hi,  you there.");
        let ends: Vec<_> = times.iter().map(|w| (w.text_end, w.end.as_millis())).collect();
        assert_eq!(ends, [(3, 500), (8, 1_000), (15, 1_500)]);
    }

    #[test]
    fn it_waits_for_phrases_and_ends_only_when_the_input_is_closed() {
        let mut run = start(&toml::toml! { first_audio_ms = 80 });
        run.say(Timestamp::ZERO, phrase(0, "one"));
        assert_eq!(sound_ms(&drain(&mut run, 10_000)), 400);
        assert_eq!(run.next_at(), None);
        run.close_input(Timestamp::from_millis(20_000));
        let seen = drain(&mut run, 30_000);
        assert_eq!(seen, [(20_000, Output::Ended(Ended::completed()))]);
    }

    #[test]
    fn late_after_cancel_sends_old_sound_for_that_long() {
        let mut run = start(&toml::toml! { first_audio_ms = 80 late_after_cancel_ms = 300 });
        run.say(Timestamp::ZERO, phrase(0, "there was a king who had three sons"));
        run.close_input(Timestamp::ZERO);
        drain(&mut run, 1_200);
        run.cancel(Timestamp::from_millis(1_200));
        let seen = drain(&mut run, 10_000);
        assert!(sound_ms(&seen) >= 300, "only {} ms came late", sound_ms(&seen));
        let closed = Ended::stopped(Evidence::StreamClosedByBackend);
        assert_eq!(seen.last(), Some(&(1_500, Output::Ended(closed))));
    }

    #[test]
    fn cancelled_before_the_first_phrase_nothing_ever_started() {
        let mut run = start(&toml::Table::new());
        run.cancel(Timestamp::from_millis(3));
        run.say(Timestamp::from_millis(4), phrase(0, "one"));
        let never = Ended::stopped(Evidence::NeverStarted);
        assert_eq!(drain(&mut run, 9_000), [(3, Output::Ended(never))]);
    }

    #[test]
    fn nothing_of_a_cancelled_answer_sounds() {
        let mut run = start(&toml::toml! { first_audio_ms = 80 });
        run.say(Timestamp::ZERO, phrase(0, "one two three"));
        run.cancel(Timestamp::from_millis(50));
        let acknowledged = Ended::stopped(Evidence::AbortAcknowledged);
        assert_eq!(drain(&mut run, 9_000), [(55, Output::Ended(acknowledged))]);
    }

    #[test]
    fn an_empty_answer_is_a_fault() {
        let mut run = start(&toml::toml! { empty = true });
        run.say(Timestamp::ZERO, phrase(0, "one"));
        let empty = Ended::failed(Fault::Empty, Ok(Evidence::Completed));
        assert_eq!(drain(&mut run, 9_000), [(80, Output::Ended(empty))]);
    }
}
