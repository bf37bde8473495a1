//! Every wait of a call, by name: when it is due and what is then done.

use std::time::Duration;

use super::state::{Answer, Ear, Floor, Model, ToolState, ToolUse, Voice};
use super::{AUDIO_GAP, Call, TOOL_QUIET_MAX, Timer, UTTERANCE_MAX, WRITING_QUIET_MAX};
use crate::admission::{Admit, mutant};
use crate::audio::Window;
use crate::leg::{HangUp, Modality, TurnDetection};
use crate::time::{Timestamp, ms};

/// How long before its stage's deadline a turn that waits there is told so.
const WAIT_TOLD_BEFORE: Duration = ms(100);
/// How much silence is heard at a time while the caller's sound has stopped coming.
const GAP_STEP: Duration = ms(100);

impl Answer {
    /// It waits at a gate.
    pub fn is_queued(&self) -> bool {
        matches!(self.model, Model::Waiting(_)) || matches!(self.voice, Voice::Waiting(..))
    }

    /// Its tools run, and only for them it does not go on.
    fn runs_tools(&self) -> bool {
        let running = |call: &ToolUse| matches!(call.state, ToolState::Running(_));
        matches!(self.model, Model::Done(_)) && self.calls.iter().any(running)
    }
}

impl Call {
    /// When to come back with [`super::Event::Timeout`], and why.
    pub fn poll_timeout(&self, now: Timestamp) -> Option<(Timestamp, Timer)> {
        if let Floor::Ended { .. } = self.floor {
            return None;
        }
        let mut next = match self.floor.leaving() {
            Some(leaving) => (leaving.by, Timer::Goodbye),
            None => (self.began + self.profile.call_max, Timer::CallMax),
        };
        let mut consider = |due: Option<Timestamp>, timer: Timer| {
            if let Some(due) = due.filter(|due| *due < next.0) {
                next = (due, timer);
            }
        };
        consider(self.next_frame(now), Timer::NextFrame);
        consider(self.played_out_at(now), Timer::PlayedOut);
        consider(self.budget_due(), Timer::TurnBudget);
        consider(self.side_due(), Timer::Beside);
        consider(self.announced_due(), Timer::Announced);
        match &self.ear {
            Ear::Quiet => {
                let sounds = self.speech.is_on().then(|| self.last_sound + AUDIO_GAP);
                consider(sounds, Timer::AudioGap);
            }
            Ear::Suspect(utterance) => {
                consider(self.partial_due(), Timer::Partial);
                let paused = utterance.pause.is_some();
                let resume = utterance.last_speech + self.profile.barge_in.resume;
                consider(paused.then_some(resume), Timer::Resume);
                consider(Some(self.last_sound + AUDIO_GAP), Timer::AudioGap);
            }
            Ear::Hearing(utterance) => {
                consider(Some(utterance.began + UTTERANCE_MAX), Timer::UtteranceMax);
                consider(self.noise_due(), Timer::Partial);
                consider(Some(self.last_sound + AUDIO_GAP), Timer::AudioGap);
            }
        }
        let open = self.settling.iter().filter(|settling| settling.is_open());
        consider(open.map(|settling| settling.by).min(), Timer::FinalWords);
        consider(self.keys_due(), Timer::Keys);
        consider(self.arranging_due(), Timer::Arranging);
        consider(self.idle_due(), Timer::Idle);
        consider(self.idle_max_due(), Timer::IdleMax);
        Some(next)
    }

    fn next_frame(&self, now: Timestamp) -> Option<Timestamp> {
        let held = self.caller_speaks() && !self.floor.is_audible();
        let playout = match &self.floor {
            Floor::Thinking(answer) | Floor::Speaking(answer) => &answer.playout,
            Floor::FallingBack(prompt) => &prompt.playout,
            Floor::Ringing
            | Floor::Arranging(_)
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
            | Floor::Arranging(_)
            | Floor::Listening { .. }
            | Floor::Thinking(_)
            | Floor::Speaking(_)
            | Floor::FallingBack(_)
            | Floor::Ended { .. } => None,
        }
    }

    /// When the caller has heard nothing for as long as they may while an answer is made.
    fn budget_due(&self) -> Option<Timestamp> {
        match &self.floor {
            Floor::Thinking(answer) | Floor::Speaking(answer) if !self.caller_speaks() => {
                self.quiet_until(answer)
            }
            Floor::Ringing
            | Floor::Arranging(_)
            | Floor::Listening { .. }
            | Floor::Thinking(_)
            | Floor::Speaking(_)
            | Floor::PlayingOut(_)
            | Floor::FallingBack(_)
            | Floor::Ended { .. } => None,
        }
    }

    fn quiet_until(&self, answer: &Answer) -> Option<Timestamp> {
        if answer.modality == Modality::Text {
            return (!answer.is_queued()).then(|| answer.progress + WRITING_QUIET_MAX);
        }
        let first = answer.turn.audible_by.filter(|_| !mutant::is("budget_ignored"))?;
        if answer.playout.has_waiting() || answer.playout.all_sent() {
            return None;
        }
        let most = if answer.runs_tools() { TOOL_QUIET_MAX } else { self.quiet_max() };
        // Once something was audible, the silence behind it counts.
        let by = if answer.turn.heard { first.max(self.plays_until + most) } else { first };
        match (answer.is_queued(), answer.told_to_wait) {
            (false, _) => Some(by),
            // A turn that waits is told so just before its wait would run out; once.
            (true, false) => Some(by - WAIT_TOLD_BEFORE),
            (true, true) => None,
        }
    }

    /// What is being arranged is given up then; not while its prompt is still heard.
    fn arranging_due(&self) -> Option<Timestamp> {
        match &self.floor {
            Floor::Arranging(arranging) => Some(arranging.by),
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
            // Once the caller pauses the last words have been asked for.
            Ear::Suspect(utterance) if self.profile.partials && utterance.pause.is_none() => {
                Some(utterance.partial_due)
            }
            Ear::Quiet | Ear::Suspect(_) | Ear::Hearing(_) => None,
        }
    }

    fn idle_due(&self) -> Option<Timestamp> {
        let TurnDetection::Server(turns) = self.settings.turn_detection else { return None };
        // It is there for the answer that comes of it: where none may, silence is no turn.
        let answers = turns.create_response && !self.settings.transcription_only;
        turns.idle.filter(|_| answers && self.is_at_rest()).map(|idle| self.last_activity + idle)
    }

    /// When the call ends because nobody has spoken for long.
    fn idle_max_due(&self) -> Option<Timestamp> {
        self.profile.idle_max.filter(|_| self.is_at_rest()).map(|idle| self.last_activity + idle)
    }

    fn is_at_rest(&self) -> bool {
        // Never while work is in flight (B26), and never while somebody says something.
        matches!((&self.floor, &self.ear), (Floor::Listening { resumes: None }, Ear::Quiet))
            && self.settling.is_empty()
            && self.keys.is_none()
            && self.orphans.is_empty()
            && self.sides.is_empty()
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
                Timer::Announced => self.on_announced(now, admit),
                Timer::Beside => self.on_side_due(now, admit),
                Timer::Partial => self.on_partial_due(now),
                Timer::Resume => self.judge_suspect(now, admit, true),
                Timer::AudioGap => self.on_audio_gap(now, admit),
                Timer::FinalWords => self.on_words_overdue(now, admit),
                Timer::UtteranceMax => self.on_utterance_max(now, admit),
                Timer::Keys => self.on_keys_due(now, admit),
                Timer::Arranging => self.on_arranging_due(now, admit),
                Timer::Idle => self.on_idle(now, admit),
                Timer::IdleMax => self.leave(now, admit, HangUp::Idle),
                Timer::CallMax => self.leave(now, admit, HangUp::TooLong),
                Timer::Goodbye => self.on_goodbye_max(now, admit),
            }
        }
    }

    /// The caller's sound stopped coming in mid-speech: that is silence (B23).
    fn on_audio_gap(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        if matches!(self.ear, Ear::Quiet) {
            // The wordless sound that was not listened to is over: what comes may be the caller.
            self.speech.reset();
            return;
        }
        let gap = now.since(self.last_sound).max(GAP_STEP);
        // The next step is due one step from now, not a whole gap.
        self.last_sound = now + GAP_STEP - AUDIO_GAP;
        self.on_speech(now, admit, Window::plain(0.0, gap));
    }

    /// The goodbye had its time, heard or not.
    fn on_goodbye_max(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        if let Some(leaving) = self.floor.leaving() {
            self.end(now, admit, leaving.why);
        }
    }

    fn on_idle(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let silence = now.since(self.last_activity);
        self.last_activity = now;
        self.answer_silence(now, admit, silence);
    }
}
