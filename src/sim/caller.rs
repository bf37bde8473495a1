//! The speaking caller in virtual time: what they sound, and what a detector hears of it.

use std::time::Duration;

use super::facts::Fact;
use super::heard::Said;
use super::script::{Colour, Source, What};
use super::workers::Utterance;
use super::world::{TICK, World};
use crate::audio::Window;
use crate::call::Event;
use crate::time::Timestamp;

impl World {
    pub(super) fn act(&mut self, deed: usize, what: What) {
        if let Some(line) = told(&what) {
            self.line(&format!("<- {line}"));
        }
        self.fact(Fact::of_caller(self.now, what.name()));
        match what {
            What::Says { .. } | What::Noise { .. } | What::Plays { .. } => self.sound(deed, &what),
            What::HangsUp => {
                self.ends.clear(self.now);
                self.ask(What::HangsUp);
            }
            other => self.ask(other),
        }
    }

    fn ask(&mut self, what: What) {
        if let Some(event) = self.of_client(what) {
            self.step(event);
        }
    }

    fn sound(&mut self, deed: usize, what: &What) {
        let until = self.now + self.ends.sound(self.now, deed, what);
        let (until, words, is_speech) = match what {
            What::Says { words, span, .. } => (self.now + *span, words, true),
            What::Noise { span, .. } => (self.now + *span, &String::new(), true),
            What::Plays { source: Source::Wav { words, .. }, .. } => (until, words, true),
            _ => (until, &String::new(), false),
        };
        self.said.push(Said { from: self.now, until, words: words.clone() });
        if self.ends.are_heard() {
            return;
        }
        if !self.ticks() {
            self.next_tick = self.now;
        }
        if let What::Says { mutes, .. } = what {
            self.muted = *mutes;
        }
        if is_speech {
            self.speaks_until = self.speaks_until.max(until);
        }
    }

    /// The caller speaks, or somebody listens for whether they go on.
    fn ticks(&self) -> bool {
        self.speaks_until > self.next_tick || (self.call.is_hearing() && !self.muted)
    }

    /// When the caller's sound is next heard; `due` is what else will happen.
    pub(super) fn next_heard(&self, due: Option<Timestamp>) -> Option<Timestamp> {
        if !self.ends.are_heard() {
            return self.ticks().then_some(self.next_tick);
        }
        let goes_on = due.is_some() || self.ends.is_sounding() || self.call.is_hearing();
        let frame = goes_on.then(|| self.ends.next_frame_at());
        self.ends.next_arrival().into_iter().chain(frame).min()
    }

    /// The caller's sound so far is heard.
    pub(super) fn listen(&mut self) {
        if !self.ends.are_heard() {
            if self.ticks() && self.next_tick <= self.now {
                self.tick();
            }
            return;
        }
        if self.call.has_ended().is_some() {
            return;
        }
        self.ends.capture(self.now);
        while let Some(arrived) = self.ends.arrive(self.now, self.call.agent_sounds()) {
            let at = arrived.captured;
            let speaks =
                |said: &Said| said.from < at + TICK && said.until > at && !said.words.is_empty();
            if self.said.iter().any(speaks) {
                self.workers.hear_for(TICK);
            }
            for (window, at) in arrived.heard {
                self.step(Event::Speech { window, at });
            }
        }
    }

    fn tick(&mut self) {
        self.next_tick = self.now + TICK;
        let speaks = self.now < self.speaks_until;
        if speaks {
            self.workers.hear_for(TICK);
        }
        let probability = if speaks { 0.95 } else { 0.05 };
        let at = Duration::from_micros(self.now.as_micros()) + TICK;
        self.step(Event::Speech { window: Window::plain(probability, TICK), at });
    }
}

/// What a sounding deed is in a trace, behind its arrow.
pub(crate) fn told(what: &What) -> Option<String> {
    Some(match what {
        What::Says { words, .. } => format!("caller says \"{words}\""),
        What::Noise { span, .. } => format!("noise of {} ms", span.as_millis()),
        What::Plays { source, .. } => match source {
            Source::Wav { file, words } if words.is_empty() => format!("caller plays {file}"),
            Source::Wav { file, words } => format!("caller plays {file} \"{words}\""),
            Source::Tone { hz, span } => format!("tone of {} ms at {hz} Hz", span.as_millis()),
            Source::Noise { colour: Colour::White, span } => {
                format!("white noise of {} ms", span.as_millis())
            }
            Source::Noise { colour: Colour::Pink, span } => {
                format!("pink noise of {} ms", span.as_millis())
            }
            Source::Silence { span } => format!("silence of {} ms", span.as_millis()),
        },
        _ => return None,
    })
}

/// What the caller says in an utterance that began then.
pub(super) fn since(said: &[Said], now: Timestamp, from: Timestamp) -> Utterance {
    let within = said.iter().filter(|said| said.until > from && said.from <= now);
    let words = within.map(|said| said.words.as_str()).filter(|words| !words.is_empty());
    let words: Vec<&str> = words.collect();
    Utterance { words: words.join(" ").trim().to_owned(), so_far: now.since(from) }
}
