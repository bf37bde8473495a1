//! The caller's speech: utterances begun, suspected barge-ins judged, the end of a turn found.

use std::time::Duration;

use super::state::{Ear, Floor, Pause, Recognition, Then, Utterance};
use super::{Action, Call, DEAF_MAX, Measure};
use crate::admission::{Admit, Cancelled};
use crate::audio::Window;
use crate::dialogue::Transcript;
use crate::id::{RunId, UtteranceId};
use crate::leg::{EndOfTurn, ServerTurns, ToCaller, TurnDetection};
use crate::time::Timestamp;
use crate::turn::bargein::{self, Evidence};
use crate::turn::end;
use crate::turn::speech::{Edge, ONSET};

impl Call {
    pub(super) fn on_speech(&mut self, now: Timestamp, admit: &mut dyn Admit, window: Window) {
        let TurnDetection::Server(turns) = self.settings.turn_detection else { return };
        if matches!(self.floor, Floor::Ringing | Floor::Ended { .. }) || self.is_leaving() {
            return;
        }
        let onset = if self.can_be_interrupted() { self.profile.barge_in.duck } else { ONSET };
        let edge = self.speech.hear(window, onset);
        let (silence, at) = (self.speech.silence(), self.sound_at);
        if let Some(utterance) = self.ear.utterance()
            && silence.is_zero()
        {
            (utterance.last_speech, utterance.last_speech_at) = (now, at);
        }
        match &self.ear {
            Ear::Quiet if edge == Some(Edge::Started) => self.speech_began(now, admit, turns),
            // A wordless sound pauses, or has gone on for long: what comes now may be the caller.
            Ear::Quiet if self.speech.is_on() => {
                if edge == Some(Edge::Paused) || now >= self.deaf_until {
                    self.speech.reset();
                }
            }
            Ear::Quiet if window.is_loud && self.can_be_interrupted() => self.rein_in(now),
            Ear::Quiet => {}
            Ear::Suspect(_) => self.suspect_heard(now, admit, edge),
            Ear::Hearing(_) => self.turn_heard(now, admit, turns, edge),
        }
    }

    /// The agent is audible, and speech would stop it.
    pub(super) fn can_be_interrupted(&self) -> bool {
        self.floor.is_audible() && self.interrupts()
    }

    fn speech_began(&mut self, now: Timestamp, admit: &mut dyn Admit, turns: ServerTurns) {
        self.last_activity = now;
        let speech = self.speech.speech();
        // What an utterance before it has taken is not heard twice.
        let from = self.sound_at.saturating_sub(speech + turns.prefix).max(self.taken_to);
        let utterance = self.begin_utterance(now, admit, now - speech, from);
        if self.can_be_interrupted() {
            self.pause_playout(now);
            self.measures.push(Measure::BargeInStop(speech));
            self.ear = Ear::Suspect(Box::new(utterance));
            return;
        }
        let (item, at) = (utterance.item.clone(), utterance.from);
        self.ear = Ear::Hearing(Box::new(utterance));
        self.tell(ToCaller::SpeechStarted { item, at });
    }

    pub(super) fn begin_utterance(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        born: Timestamp,
        from: Duration,
    ) -> Utterance {
        self.counters.utterance += 1;
        let over_statement = self.floor.is_audible() && !self.asked_something(now);
        let recognition = self.open_recogniser(now, admit, born, from);
        Utterance {
            id: UtteranceId(self.counters.utterance),
            item: self.next_item(),
            from,
            began: now,
            took_floor: false,
            over_statement,
            last_speech: now,
            last_speech_at: self.sound_at,
            recognition,
            partial: None,
            partial_due: now + self.profile.barge_in.partial_every,
            pause: None,
        }
    }

    pub(super) fn on_recognised(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        run: RunId,
        seq: u32,
        is_final: bool,
        transcript: Transcript,
    ) {
        let Some(utterance) = self.utterance(|u| u.recognition.is_run(run)) else { return };
        match &mut utterance.pause {
            Some(pause) if is_final && pause.seq == seq => pause.words = Some(transcript),
            Some(_) | None if !is_final => utterance.partial = Some(transcript.text),
            // The caller went on speaking after this was asked.
            Some(_) | None => {}
        }
        self.look_again(now, admit);
        self.guess(now, admit);
        if !is_final {
            self.is_noise(now, admit);
        }
    }

    pub(super) fn on_turn_judged(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        id: UtteranceId,
        seq: u32,
        probability: f32,
    ) {
        if let Some(utterance) = self.ear.utterance()
            && utterance.id == id
            && let Some(pause) = &mut utterance.pause
            && pause.seq == seq
        {
            pause.judged = Some(probability);
            self.look_again(now, admit);
        }
    }

    /// There were no words in all of a long sound for which an answer is held back, or was given
    /// up: nobody is speaking (B19). What it goes on with is not listened to.
    fn is_noise(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let Ear::Hearing(utterance) = &self.ear else { return };
        let long = now >= utterance.began + self.quiet_max();
        let wordless = utterance.partial.as_ref().is_some_and(|words| words.trim().is_empty());
        if long && wordless && self.is_waited_for() {
            let speech = self.speech.clone();
            self.deaf_until = now + DEAF_MAX;
            self.on_utterance_max(now, admit);
            self.speech = speech;
        }
    }

    /// Something waits for the caller to have spoken: an answer held back, or one given up.
    fn is_waited_for(&self) -> bool {
        let took_floor = matches!(&self.ear, Ear::Hearing(utterance) if utterance.took_floor);
        took_floor || matches!(self.floor, Floor::Thinking(_))
    }

    /// When to ask whether a long sound has any words.
    pub(super) fn noise_due(&self) -> Option<Timestamp> {
        let Ear::Hearing(utterance) = &self.ear else { return None };
        let spoken = utterance.partial.as_ref().is_some_and(|words| !words.trim().is_empty());
        let asks = self.profile.partials && !spoken && utterance.pause.is_none();
        let due = utterance.partial_due.max(utterance.began + self.quiet_max());
        (asks && self.is_waited_for()).then_some(due)
    }

    /// An utterance that is being heard or whose words are awaited.
    pub(super) fn utterance(&mut self, is: impl Fn(&Utterance) -> bool) -> Option<&mut Utterance> {
        let settling = self.settling.iter_mut().map(|settling| &mut settling.utterance);
        settling.chain(self.ear.utterance()).find(|utterance| is(utterance))
    }

    /// Something new is known of an utterance.
    pub(super) fn look_again(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        self.settle_words(now, admit);
        match &self.ear {
            Ear::Quiet => {}
            Ear::Suspect(_) => self.judge_suspect(now, admit, false),
            Ear::Hearing(_) => self.judge_end(now, admit),
        }
    }

    // === a suspected barge-in ===

    fn suspect_heard(&mut self, now: Timestamp, admit: &mut dyn Admit, edge: Option<Edge>) {
        match edge {
            Some(Edge::Paused) => self.ask_for_words(false),
            Some(Edge::Resumed) => self.pause_is_over(),
            Some(Edge::Started) | None => {}
        }
        self.judge_suspect(now, admit, false);
    }

    /// `overdue`: its last words did not come in time, and the newest partial is all there is.
    pub(super) fn judge_suspect(&mut self, now: Timestamp, admit: &mut dyn Admit, overdue: bool) {
        let after_question = self.asked_something(now);
        let speech = self.speech.speech();
        let Ear::Suspect(utterance) = &self.ear else { return };
        let words = utterance.pause.as_ref().and_then(|pause| pause.words.as_ref());
        let paused = utterance.pause.is_some();
        let recogniser = match utterance.recognition {
            Recognition::Open(_) => true,
            // Its words may still come in time for speech that has ended.
            Recognition::Waiting(_) => paused,
            Recognition::Refused(_) | Recognition::Expired | Recognition::Failed(_) => false,
        };
        let verdict = self.profile.barge_in.judge(Evidence {
            speech,
            paused,
            words: words.map(|w| w.text.as_str()).or(utterance.partial.as_deref()),
            words_are_final: words.is_some() || overdue,
            recogniser,
            after_question,
        });
        match verdict {
            bargein::Verdict::Wait => {}
            bargein::Verdict::Confirm(_) => self.confirm_barge_in(now, admit),
            bargein::Verdict::Reject(_) => self.reject_barge_in(now, admit),
        }
    }

    pub(super) fn confirm_barge_in(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let Ear::Suspect(mut utterance) = std::mem::replace(&mut self.ear, Ear::Quiet) else {
            return;
        };
        let (item, at) = (utterance.item.clone(), utterance.from);
        utterance.took_floor = true;
        // The turn's own pause asks anew, this time also the end-of-turn model.
        utterance.pause = None;
        self.ear = Ear::Hearing(utterance);
        self.take_floor(now, admit, item, at);
        self.judge_end(now, admit);
    }

    /// It was nothing: the utterance is forgotten and the answer goes on where it stopped.
    fn reject_barge_in(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let Ear::Suspect(utterance) = std::mem::replace(&mut self.ear, Ear::Quiet) else { return };
        self.close_recogniser(now, admit, utterance.recognition, Cancelled::Superseded);
        self.speech.reset();
        if !crate::admission::mutant::is("resume_forgotten") {
            self.resume_playout(now);
        }
    }

    /// Speech suspected to be a barge-in has nothing left to interrupt: it is a turn like any
    /// other.
    pub(super) fn announce_suspect(&mut self) {
        match std::mem::replace(&mut self.ear, Ear::Quiet) {
            Ear::Suspect(mut utterance) => {
                utterance.pause = None;
                let (item, at) = (utterance.item.clone(), utterance.from);
                self.ear = Ear::Hearing(utterance);
                self.tell(ToCaller::SpeechStarted { item, at });
            }
            other @ (Ear::Quiet | Ear::Hearing(_)) => self.ear = other,
        }
    }

    // === a turn ===

    fn turn_heard(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        turns: ServerTurns,
        edge: Option<Edge>,
    ) {
        self.last_activity = now;
        if edge == Some(Edge::Resumed) {
            self.pause_is_over();
        }
        let asked = self.ear.utterance().is_some_and(|utterance| utterance.pause.is_some());
        let ask_after = match turns.end {
            EndOfTurn::Silence(limit) => limit.min(end::ASK_AFTER),
            EndOfTurn::Content { .. } => end::ASK_AFTER,
        };
        if !asked && self.speech.silence() >= ask_after {
            self.ask_for_words(true);
        }
        self.judge_end(now, admit);
    }

    /// The caller pauses: what was said so far, and (behind a turn) was that all?
    pub(super) fn ask_for_words(&mut self, judge: bool) {
        let judge = judge && self.profile.judges_turns && self.uses_turn_model();
        self.counters.decode += 1;
        let seq = self.counters.decode;
        let Some(utterance) = self.ear.utterance() else { return };
        utterance.pause = Some(Pause { seq, words: None, judged: None });
        let (id, run) = (utterance.id, utterance.recognition.open_run());
        if let Some(run) = run {
            self.act(Action::Decode { run, seq, is_final: true });
        }
        if judge {
            self.act(Action::JudgeTurn { utterance: id, seq });
        }
    }

    fn pause_is_over(&mut self) {
        if let Some(utterance) = self.ear.utterance() {
            utterance.pause = None;
        }
    }

    fn uses_turn_model(&self) -> bool {
        match self.settings.turn_detection {
            TurnDetection::Manual => false,
            TurnDetection::Server(turns) => match turns.end {
                EndOfTurn::Silence(_) => false,
                EndOfTurn::Content { .. } => self.profile.end.asks_model(),
            },
        }
    }

    fn judge_end(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let TurnDetection::Server(turns) = self.settings.turn_detection else { return };
        let Ear::Hearing(utterance) = &self.ear else { return };
        let Some(pause) = &utterance.pause else { return };
        let (policy, silences): (&dyn end::Policy, _) = match turns.end {
            EndOfTurn::Silence(limit) => {
                (&end::Silence, end::Silences { plain: limit, at_most: limit })
            }
            EndOfTurn::Content { at_most } => {
                (self.profile.end, end::Silences { plain: self.profile.silence, at_most })
            }
        };
        let pause = end::Pause {
            silence: self.speech.silence(),
            words: pause.words.as_ref().map(|words| words.text.as_str()),
            finished: pause.judged,
            language: &self.profile.language,
        };
        if end::judge(policy, silences, &pause) == end::Verdict::Ended {
            self.end_turn(now, admit, turns);
        }
    }

    /// The caller has spoken for as long as an utterance may: what was said so far is a turn (B56).
    pub(super) fn on_utterance_max(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let TurnDetection::Server(turns) = self.settings.turn_detection else { return };
        self.ask_for_words(false);
        self.end_turn(now, admit, turns);
    }

    fn end_turn(&mut self, now: Timestamp, admit: &mut dyn Admit, turns: ServerTurns) {
        let Ear::Hearing(utterance) = &self.ear else { return };
        let answers = turns.create_response && !self.settings.transcription_only;
        let then = if answers { Then::Answer } else { Then::Nothing };
        let (item, at) = (utterance.item.clone(), self.sound_at);
        self.tell(ToCaller::SpeechStopped { item, at });
        self.end_utterance(now, admit, then);
    }

    /// The settings changed while the caller spoke: what was begun under the old ones ends as they
    /// allow.
    pub(super) fn ear_reconfigured(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let manual = matches!(self.settings.turn_detection, TurnDetection::Manual);
        match std::mem::replace(&mut self.ear, Ear::Quiet) {
            Ear::Suspect(utterance) | Ear::Hearing(utterance) if manual => {
                // The client says from now on what an utterance is; the sound is still there.
                let why = Cancelled::Client;
                self.close_recogniser(now, admit, utterance.recognition, why);
                self.speech.reset();
                self.resume_playout(now);
            }
            Ear::Suspect(utterance) if !self.interrupts() => {
                self.ear = Ear::Suspect(utterance);
                self.announce_suspect();
                self.resume_playout(now);
            }
            other @ (Ear::Quiet | Ear::Suspect(_) | Ear::Hearing(_)) => self.ear = other,
        }
    }

    // === timers of the ear ===

    /// Asks for the words so far of a suspected barge-in, or of a long sound.
    pub(super) fn on_partial_due(&mut self, now: Timestamp) {
        let every = self.profile.barge_in.partial_every;
        self.counters.decode += 1;
        let seq = self.counters.decode;
        let (Ear::Suspect(utterance) | Ear::Hearing(utterance)) = &mut self.ear else { return };
        utterance.partial_due = now + every;
        if let Some(run) = utterance.recognition.open_run() {
            self.act(Action::Decode { run, seq, is_final: false });
        }
    }
}
