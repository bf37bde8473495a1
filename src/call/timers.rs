//! Every wait of a call, by name: when it is due and what is then done.

use std::time::Duration;

use super::state::{Answer, Ear, Floor, Model, Voice};
use super::{AUDIO_GAP, Call, Timer};
use crate::admission::Admit;
use crate::leg::{HangUp, TurnDetection};
use crate::time::{Timestamp, ms};

/// How long before its stage's deadline a turn that waits there is told so.
const WAIT_TOLD_BEFORE: Duration = ms(100);
/// How much silence is heard at a time while the caller's sound has stopped coming.
const GAP_STEP: Duration = ms(100);

impl Answer {
    /// It waits at a gate.
    fn is_queued(&self) -> bool {
        matches!(self.model, Model::Waiting(_)) || matches!(self.voice, Voice::Waiting(..))
    }
}

impl Call {
    /// When to come back with [`super::Event::Timeout`], and why.
    pub fn poll_timeout(&self, now: Timestamp) -> Option<(Timestamp, Timer)> {
        if let Floor::Ended { .. } = self.floor {
            return None;
        }
        let mut next = (self.began + self.profile.call_max, Timer::CallMax);
        let mut consider = |due: Option<Timestamp>, timer: Timer| {
            if let Some(due) = due.filter(|due| *due < next.0) {
                next = (due, timer);
            }
        };
        consider(self.next_frame(now), Timer::NextFrame);
        consider(self.played_out_at(now), Timer::PlayedOut);
        consider(self.budget_due(), Timer::TurnBudget);
        match &self.ear {
            Ear::Quiet => {}
            Ear::Suspect(utterance) => {
                consider(self.partial_due(), Timer::Partial);
                let paused = utterance.pause.is_some();
                let resume = utterance.last_speech + self.profile.barge_in.resume;
                consider(paused.then_some(resume), Timer::Resume);
                consider(Some(self.last_sound + AUDIO_GAP), Timer::AudioGap);
            }
            Ear::Hearing(_) => consider(Some(self.last_sound + AUDIO_GAP), Timer::AudioGap),
            Ear::Settling { by, .. } => consider(Some(*by), Timer::FinalWords),
        }
        consider(self.idle_due(), Timer::Idle);
        Some(next)
    }

    fn next_frame(&self, now: Timestamp) -> Option<Timestamp> {
        let held = self.caller_speaks() && !self.floor.is_audible();
        let playout = match &self.floor {
            Floor::Thinking(answer) | Floor::Speaking(answer) => &answer.playout,
            Floor::FallingBack(prompt) => &prompt.playout,
            Floor::Ringing
            | Floor::Listening { .. }
            | Floor::PlayingOut(_)
            | Floor::Ended { .. } => return None,
        };
        playout.next_due(now).filter(|_| !held)
    }

    fn played_out_at(&self, now: Timestamp) -> Option<Timestamp> {
        match &self.floor {
            Floor::PlayingOut(tail) => Some(tail.playout.ends_at(now)),
            Floor::Ringing
            | Floor::Listening { .. }
            | Floor::Thinking(_)
            | Floor::Speaking(_)
            | Floor::FallingBack(_)
            | Floor::Ended { .. } => None,
        }
    }

    fn budget_due(&self) -> Option<Timestamp> {
        match &self.floor {
            Floor::Thinking(answer) if !self.caller_speaks() => {
                // A turn that waits is told so just before its wait would run out.
                let before = if answer.is_queued() { WAIT_TOLD_BEFORE } else { Duration::ZERO };
                answer.turn.audible_by.map(|by| by - before)
            }
            Floor::Ringing
            | Floor::Listening { .. }
            | Floor::Thinking(_)
            | Floor::Speaking(_)
            | Floor::PlayingOut(_)
            | Floor::FallingBack(_)
            | Floor::Ended { .. } => None,
        }
    }

    fn partial_due(&self) -> Option<Timestamp> {
        match &self.ear {
            Ear::Suspect(utterance) if self.profile.partials => Some(utterance.partial_due),
            Ear::Quiet | Ear::Suspect(_) | Ear::Hearing(_) | Ear::Settling { .. } => None,
        }
    }

    fn idle_due(&self) -> Option<Timestamp> {
        let TurnDetection::Server(turns) = self.settings.turn_detection else { return None };
        match (&self.floor, &self.ear) {
            (Floor::Listening { resumes: None }, Ear::Quiet) => {
                turns.idle.map(|idle| self.last_activity + idle)
            }
            _ => None,
        }
    }

    pub(super) fn on_timeout(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        // Each due timer is carried out; what it does may make others due at once.
        for _ in 0..8 {
            let Some((due, timer)) = self.poll_timeout(now) else { return };
            if due > now {
                return;
            }
            match timer {
                Timer::NextFrame => self.send_frames(now, admit),
                Timer::PlayedOut => self.on_played_out(now, admit),
                Timer::TurnBudget => self.on_budget(now, admit),
                Timer::Partial => self.on_partial_due(now),
                Timer::Resume => self.reject_barge_in(now, admit),
                Timer::AudioGap => self.on_audio_gap(now, admit),
                Timer::FinalWords => self.on_words_overdue(now, admit),
                Timer::Idle => self.on_idle(now, admit),
                Timer::CallMax => self.end(now, admit, HangUp::TooLong),
            }
        }
    }

    /// The caller's sound stopped coming in mid-speech: that is silence (B23).
    fn on_audio_gap(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let gap = now.since(self.last_sound).max(GAP_STEP);
        // The next step is due one step from now, not a whole gap.
        self.last_sound = now + GAP_STEP - AUDIO_GAP;
        self.on_speech(now, admit, 0.0, gap);
    }

    fn on_idle(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        self.last_activity = now;
        self.answer_silence(now, admit);
    }
}
