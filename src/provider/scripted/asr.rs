//! A recogniser that hears what its table, or the simulator, says.

use std::time::Duration;

use super::course::{Course, FAULT_KEYS, FaultScript, Output, at_rate};
use crate::audio::{CALLER_RATE_HZ, samples_to_duration};
use crate::dialogue::Transcript;
use crate::provider::asr::{AsrInput, AsrSignal};
use crate::provider::keys::{self, Keys, PerRun};
use crate::provider::{BuildError, Ended};
use crate::time::{Timestamp, ms};

const KEYS: &[&str] = &["text", "partial_ms", "final_ms", "words_per_s"];

/// What a scripted recogniser hears, by utterance, and how fast it answers.
#[derive(Clone, Debug)]
pub struct AsrScript {
    text: PerRun<Option<String>>,
    partial: PerRun<Option<Duration>>,
    final_: PerRun<Option<Duration>>,
    words_per_s: f64,
    faults: FaultScript,
}

impl AsrScript {
    /// Reads the table of a `provider = "scripted"` recogniser.
    pub fn from_table(table: &toml::Table) -> Result<AsrScript, BuildError> {
        let keys = Keys::new(table, &[KEYS, FAULT_KEYS])?;
        Ok(AsrScript {
            text: keys.per_run("text", keys::text)?,
            partial: keys.per_run("partial_ms", keys::millis)?,
            final_: keys.per_run("final_ms", keys::millis)?,
            words_per_s: keys.one("words_per_s", keys::rate)?.unwrap_or(2.5),
            faults: FaultScript::from_keys(&keys)?,
        })
    }

    /// Begins run number `nth_run` (from 0): one utterance.
    pub fn start(&self, now: Timestamp, nth_run: u32) -> AsrRun {
        self.start_with_text(now, nth_run, None)
    }

    /// The same with the words of the utterance given; `None` takes those of the table.
    pub fn start_with_text(&self, now: Timestamp, nth_run: u32, text: Option<&str>) -> AsrRun {
        let faults = self.faults.of_run(nth_run);
        let deaf = faults.empty;
        let text = match (faults.empty, text) {
            (true, _) => "",
            (false, Some(text)) => text,
            (false, None) => self.text.at(nth_run).as_deref().unwrap_or("Hello."),
        };
        // No words is a recogniser's honest answer, not the end of its run.
        let mut course = Course::new(now, super::course::Faults { empty: false, ..faults });
        let final_ = self.final_.at(nth_run).unwrap_or(ms(60));
        course.begin(now, final_);
        AsrRun {
            course,
            text: text.to_owned(),
            deaf,
            heard: Duration::ZERO,
            partial: self.partial.at(nth_run).unwrap_or(ms(40)),
            final_,
            words_per_s: self.words_per_s,
        }
    }
}

/// One run of a scripted recogniser.
#[derive(Clone, Debug)]
pub struct AsrRun {
    course: Course<AsrSignal>,
    text: String,
    deaf: bool,
    heard: Duration,
    partial: Duration,
    final_: Duration,
    words_per_s: f64,
}

impl AsrRun {
    /// The words of the utterance so far, where somebody knows them.
    pub fn set_text(&mut self, text: &str) {
        if !self.deaf {
            self.text = text.to_owned();
        }
    }

    /// Gives it sound or a question.
    pub fn hear(&mut self, now: Timestamp, input: &AsrInput) {
        match input {
            AsrInput::Audio(samples) => {
                self.hear_for(samples_to_duration(samples.len(), CALLER_RATE_HZ));
            }
            AsrInput::Decode { seq, is_final: false } => {
                // Busy: a partial may be skipped.
                if self.course.is_idle() {
                    let words = (self.heard.as_secs_f64() * self.words_per_s) as usize;
                    self.answer(now + self.partial, *seq, false, &first_words(&self.text, words));
                }
            }
            AsrInput::Decode { seq, is_final: true } => {
                let text = self.text.clone();
                self.answer(now + self.final_, *seq, true, &text);
            }
            AsrInput::Close => self.course.finish(now, Ended::completed()),
        }
    }

    /// Gives it this much sound; what is in it does not matter to a script.
    pub fn hear_for(&mut self, span: Duration) {
        self.heard += span;
    }

    fn answer(&mut self, at: Timestamp, seq: u32, is_final: bool, text: &str) {
        let words = text.split_whitespace().count();
        let dripped = self.course.faults.drip_per_s.map(|per_s| at_rate(words, per_s));
        let transcript = Transcript { text: text.to_owned(), mean_log_prob: None };
        let at = at + dripped.unwrap_or_default();
        self.course.push(at, AsrSignal { seq, is_final, transcript });
    }

    /// Asks it to stop.
    pub fn cancel(&mut self, now: Timestamp) {
        let mut late = Some(AsrSignal {
            seq: u32::MAX,
            is_final: true,
            transcript: Transcript { text: self.text.clone(), mean_log_prob: None },
        });
        self.course.cancel(now, self.final_, |_| true, || late.take());
    }

    /// When to poll next; `None` when nothing comes by itself.
    pub fn next_at(&self) -> Option<Timestamp> {
        self.course.next_at()
    }

    /// What is due by `now`, one at a time, in time order.
    pub fn poll(&mut self, now: Timestamp) -> Option<Output<AsrSignal>> {
        self.course.poll(now)
    }
}

fn first_words(text: &str, count: usize) -> String {
    let all: Vec<&str> = text.split_whitespace().collect();
    all[..count.min(all.len())].join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(run: &mut AsrRun, at_ms: u64) {
        run.hear(Timestamp::from_millis(at_ms), &AsrInput::Audio(vec![0; 16_000]));
    }

    fn ask(run: &mut AsrRun, at_ms: u64, seq: u32, is_final: bool) -> Option<(u64, AsrSignal)> {
        run.hear(Timestamp::from_millis(at_ms), &AsrInput::Decode { seq, is_final });
        let at = run.next_at()?;
        match run.poll(at) {
            Some(Output::Signal(signal)) => Some((at.as_millis(), signal)),
            other => panic!("expected words, got {other:?}"),
        }
    }

    #[test]
    fn partials_grow_with_the_sound_and_the_final_is_whole() {
        let table = toml::toml! { text = "tell me a story now" partial_ms = 40 final_ms = 60 };
        let script = AsrScript::from_table(&table).unwrap();
        let mut run = script.start(Timestamp::ZERO, 0);
        second(&mut run, 1_000);
        let (at, first) = ask(&mut run, 1_000, 0, false).unwrap();
        assert_eq!((at, first.transcript.text.as_str()), (1_040, "tell me"));
        second(&mut run, 2_000);
        assert_eq!(
            ask(&mut run, 2_000, 1, false).unwrap().1.transcript.text,
            "tell me a story now"
        );
        let (at, last) = ask(&mut run, 2_200, 2, true).unwrap();
        assert_eq!((at, last.seq, last.is_final), (2_260, 2, true));
        run.hear(Timestamp::from_millis(2_300), &AsrInput::Close);
        let end = run.poll(Timestamp::from_millis(2_300));
        assert_eq!(end, Some(Output::Ended(Ended::completed())));
    }

    #[test]
    fn close_lets_a_pending_answer_through_first() {
        let script = AsrScript::from_table(&toml::toml! { final_ms = 60 }).unwrap();
        let mut run = script.start_with_text(Timestamp::ZERO, 0, Some("wait, stop"));
        run.hear(Timestamp::ZERO, &AsrInput::Decode { seq: 7, is_final: true });
        run.hear(Timestamp::ZERO, &AsrInput::Close);
        let later = Timestamp::from_millis(60);
        assert!(matches!(
            run.poll(later),
            Some(Output::Signal(AsrSignal { seq: 7, is_final: true, transcript }))
                if transcript.text == "wait, stop"
        ));
        assert_eq!(run.poll(later), Some(Output::Ended(Ended::completed())));
    }

    #[test]
    fn a_list_of_texts_goes_by_utterance() {
        let script = AsrScript::from_table(&toml::toml! { text = ["one", "two"] }).unwrap();
        let mut run = script.start(Timestamp::ZERO, 1);
        assert_eq!(ask(&mut run, 0, 0, true).unwrap().1.transcript.text, "two");
    }
}
