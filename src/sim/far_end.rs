//! What the caller's end has of each item, by a clock of its own: what was said, sent and can have
//! been heard (invariants 5 and 7).

use std::time::Duration;

use super::workers::Workers;
use super::world::PROMPT_LENGTH;
use crate::call::Call;
use crate::dialogue::{Message, Role};
use crate::id::{ItemId, Stage};
use crate::leg::{Modality, ToCaller};
use crate::time::{Timestamp, ms};

/// What a caller may be left without a word beyond the budget: one prompt's start.
const SLACK: Duration = ms(200);
/// Silence that is allowed while a tool runs or the turn truly waits.
const EXCUSED: Duration = ms(10_000);
/// One frame more than our clock says: frames come in pieces.
const FRAME: Duration = ms(20);
/// Words by which an estimate inside a phrase may be wrong: short words come first.
const ESTIMATE_WORDS: usize = 5;

/// The caller's end.
pub(super) struct FarEnd {
    budget: Duration,
    words_per_s: f64,
    /// In the order in which they began.
    items: Vec<(ItemId, Line)>,
    /// When all that was sent has been played.
    plays_until: Timestamp,
    sounding: Option<ItemId>,
    /// The next new item that sounds is a prompt of these words, which come as fast as they like.
    prompt_comes: Option<String>,
    /// Since when an answer is made and nobody speaks.
    quiet_since: Option<Timestamp>,
    /// When the last wait or tool that the answer stood still for was over.
    went_on: Timestamp,
    told: bool,
}

#[derive(Default)]
struct Line {
    said: String,
    sent: Duration,
    /// It was cleared when this much of it had been heard.
    cut: Option<Duration>,
    /// It is text, and no sound follows.
    written: bool,
    /// The client has said itself how much it heard.
    reported: bool,
    /// A prompt: it lasts as long as prompts last, however many words it has.
    prompt: bool,
}

impl FarEnd {
    pub fn new(budget: Duration, words_per_s: f64) -> FarEnd {
        FarEnd {
            budget,
            words_per_s,
            items: Vec::new(),
            plays_until: Timestamp::ZERO,
            sounding: None,
            prompt_comes: None,
            quiet_since: None,
            went_on: Timestamp::ZERO,
            told: false,
        }
    }

    /// How long nothing has been audible.
    pub fn silence(&self, now: Timestamp) -> Duration {
        now.since(self.plays_until)
    }

    /// Has the caller been left alone for too long (invariant 5)?
    pub fn left_alone(
        &mut self,
        now: Timestamp,
        call: &Call,
        workers: &Workers,
        waits: impl FnOnce() -> bool,
    ) -> Option<String> {
        let (floor, ear) = call.state_names();
        // A human takes their time; a store does not.
        let arranging = floor == "arranging" && workers.running_at(Stage::Handoff) == 0;
        let making = arranging || matches!(floor, "thinking" | "speaking" | "falling_back");
        let speaks = call.settings().modality == Modality::Audio;
        if !making || ear != "quiet" || !speaks {
            (self.quiet_since, self.told) = (None, false);
            return None;
        }
        let since = (*self.quiet_since.get_or_insert(now)).max(self.plays_until).max(self.went_on);
        if now.since(since) <= self.budget + SLACK || self.told {
            return None;
        }
        let excused = workers.runs_a_tool() || waits();
        if excused && now.since(since) <= self.budget + EXCUSED + SLACK {
            return None;
        }
        self.told = true;
        Some(format!("dead air since {} ms", since.as_millis()))
    }

    /// The caller does something that what is being made waits for.
    pub fn caller_acts(&mut self) {
        self.quiet_since = None;
    }

    /// What the answer stood still for is over: from here on silence counts anew.
    pub fn goes_on(&mut self, now: Timestamp) {
        self.went_on = now;
    }

    /// A prompt's sound is fetched, or is not wanted any more. Where it belongs to no answer, no
    /// client is told its words.
    pub fn prompt_comes(&mut self, words: Option<String>) {
        self.prompt_comes = words;
    }

    /// The client says how much of an item it has heard, and that it plays no more of it: its word
    /// counts, not our clock.
    pub fn reported(&mut self, now: Timestamp, item: &ItemId) {
        self.plays_until = self.plays_until.min(now);
        if let Some(line) = self.known(item) {
            line.reported = true;
        }
    }

    /// From behind: what is told of is mostly what sounds now.
    fn known(&mut self, item: &ItemId) -> Option<&mut Line> {
        self.items.iter_mut().rev().find(|(id, _)| id == item).map(|(_, line)| line)
    }

    fn line(&mut self, item: &ItemId) -> &mut Line {
        let known = self.items.iter().rposition(|(id, _)| id == item);
        let at = known.unwrap_or(self.items.len());
        if known.is_none() {
            self.items.push((item.clone(), Line::default()));
        }
        &mut self.items[at].1
    }

    /// Something for the caller's end. Says what cannot be right about it.
    pub fn told(&mut self, now: Timestamp, what: &ToCaller) -> Option<String> {
        match what {
            ToCaller::MessageStarted { item, modality, .. } => {
                let line = self.line(item);
                line.written = *modality == Modality::Text;
            }
            ToCaller::Text { item, delta, .. } => {
                self.line(item).said.push_str(delta);
            }
            ToCaller::Audio { item, pcm, .. } => {
                let span = pcm.duration();
                self.line(item).sent += span;
                self.plays_until = self.plays_until.max(now) + span;
                if self.sounding.as_ref() != Some(item) {
                    self.sounding = Some(item.clone());
                    let words = self.prompt_comes.take();
                    let line = self.line(item);
                    line.prompt = words.is_some();
                    if let Some(words) = words.filter(|_| line.said.is_empty()) {
                        line.said = words;
                    }
                }
            }
            ToCaller::ClearFarEnd { item, played } => {
                let left = self.plays_until.since(now);
                self.plays_until = self.plays_until.min(now);
                let sounds = self.sounding.as_ref() == Some(item);
                let line = self.line(item);
                let left = if sounds { left } else { Duration::ZERO };
                let heard = line.sent.saturating_sub(left) + FRAME;
                line.cut = Some(heard);
                if *played > heard && !line.reported {
                    let (played, heard) = (played.as_millis(), heard.as_millis());
                    return Some(format!("{played} ms heard of {item}, {heard} ms can have been"));
                }
            }
            _ => {}
        }
        None
    }

    /// Nothing that the caller cannot have heard is in a request (invariant 7).
    pub fn beyond_heard(&self, history: &[Message]) -> Option<String> {
        history.iter().find_map(|message| {
            let Message::Said { role: Role::Assistant, text } = message else { return None };
            let text = text.trim();
            let begins = |line: &&Line| line.said.trim().starts_with(text);
            let mut said = self.items.iter().map(|(_, line)| line).filter(begins).peekable();
            if said.peek().is_none() {
                return Some(format!("a request holds words never said: \"{text}\""));
            }
            let words = text.split_ascii_whitespace().count();
            (!said.any(|line| words <= self.words_at_most(line)))
                .then(|| format!("a request holds words nobody has heard: \"{text}\""))
        })
    }

    fn words_at_most(&self, line: &Line) -> usize {
        // What was written is read at once; a client's own word counts.
        if line.reported || line.written {
            return usize::MAX;
        }
        let heard = line.cut.unwrap_or(line.sent).min(line.sent).as_secs_f64();
        let words_per_s = match line.prompt {
            false => self.words_per_s,
            true => line.said.split_whitespace().count() as f64 / PROMPT_LENGTH.as_secs_f64(),
        };
        (heard * words_per_s) as usize + ESTIMATE_WORDS
    }
}

impl Workers {
    /// A tool runs whose outcome may still be awaited.
    fn runs_a_tool(&self) -> bool {
        self.stages().any(|stage| matches!(stage, Stage::Tool(_)))
    }
}
