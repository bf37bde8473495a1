//! What happened in the call, turn by turn, put together from events and from what was heard.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::wire::Admission;

/// Quiet after which the caller's next sound is a new beginning of speech.
const ONSET_QUIET: Duration = Duration::from_millis(300);

/// One row of the turn table.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Turn {
    /// What the caller said; empty before the first words of the caller.
    pub(crate) caller: String,
    /// The user item on the wire.
    pub(crate) item: Option<String>,
    /// From the last speech in the caller's sound to the first audible sound of the answer.
    pub(crate) first_audio_ms: Option<u64>,
    /// What was heard of the answer.
    pub(crate) heard: String,
    /// The answer was cut off.
    pub(crate) cut: bool,
    /// How the turn ended, as the server says.
    pub(crate) outcome: Option<String>,
    /// Waits and work, in the order of the first decision.
    pub(crate) stages: Vec<Stage>,
    /// The caller spoke while the agent did.
    pub(crate) stops: Vec<Stop>,
    /// 20 ms frames of this answer that came after its clear: must be none.
    pub(crate) late_frames: u64,
    /// Gates that said no, with their reason.
    pub(crate) refusals: Vec<String>,
    /// Rungs of the fallback ladder that were tried.
    pub(crate) fallback: Vec<Rung>,
    #[serde(skip)]
    server_turn: Option<String>,
    #[serde(skip)]
    end_of_speech: Option<Duration>,
    #[serde(skip)]
    answered: bool,
    #[serde(skip)]
    said: Vec<(String, String)>,
}

/// One stage's part in a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Stage {
    /// The gate: `recognition`, `model`, `synthesis`, `tool:<name>`, …
    pub(crate) gate: String,
    /// The last thing it said.
    pub(crate) disposition: String,
    /// Its finer reason; empty when there is none.
    pub(crate) reason: String,
    /// From queued to admitted; `None` when it was never admitted.
    pub(crate) wait_ms: Option<u64>,
    /// From admitted to its end; `None` when no end was told.
    pub(crate) work_ms: Option<u64>,
    #[serde(skip)]
    generation: String,
    #[serde(skip)]
    offered_at: Duration,
    #[serde(skip)]
    admitted_at: Option<Duration>,
    #[serde(skip)]
    over: bool,
}

/// The caller spoke while the agent was audible.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Stop {
    /// From the start of the caller's sound to the agent's pause.
    pub(crate) pause_ms: Option<u64>,
    /// From the start of the caller's sound to the clear.
    pub(crate) clear_ms: Option<u64>,
    /// The agent went on: it was no interruption.
    pub(crate) resumed: bool,
    #[serde(skip)]
    onset: Duration,
}

/// A rung of the fallback ladder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Rung {
    /// `wait`, `retry`, `callback`, `handoff`, `goodbye`.
    pub(crate) rung: String,
    /// `established`, `refused`, `not_offered`.
    pub(crate) outcome: String,
    /// The prompt that was spoken.
    pub(crate) prompt: String,
}

/// The story so far.
#[derive(Debug, Default)]
pub(super) struct Story {
    pub(super) turns: Vec<Turn>,
    /// Stages of the utterance that is not committed yet.
    uncommitted: Vec<Stage>,
    by_response: BTreeMap<String, usize>,
    last_speech: Option<Duration>,
    /// The caller has begun to speak over the agent, and no pause, clear or resume answered it yet.
    speaking_over: bool,
}

impl Story {
    /// One frame left the microphone.
    pub(super) fn caller_frame(&mut self, now: Duration, speech: bool, agent_audible: bool) {
        if !speech {
            return;
        }
        let fresh = self.last_speech.is_none_or(|last| now > last + ONSET_QUIET);
        self.last_speech = Some(now);
        if fresh && agent_audible {
            let stop = Stop { onset: now, ..Stop::default() };
            self.current().stops.push(stop);
            self.speaking_over = true;
        }
    }

    /// The caller's words are an item now: a turn begins.
    pub(super) fn committed(&mut self, item: String) {
        let stages = std::mem::take(&mut self.uncommitted);
        self.turns.push(Turn {
            item: Some(item),
            stages,
            end_of_speech: self.last_speech,
            ..Turn::default()
        });
    }

    /// The caller's words are known.
    pub(super) fn transcribed(&mut self, item: &str, words: String) {
        if let Some(turn) = self.turns.iter_mut().rev().find(|t| t.item.as_deref() == Some(item)) {
            turn.caller = words;
        }
    }

    /// An answer begins; it belongs to the last turn.
    pub(super) fn response_created(&mut self, response: String) {
        let turn = self.current();
        turn.answered = true;
        let index = self.turns.len() - 1;
        self.by_response.insert(response, index);
    }

    /// A non-silent frame of an answer was heard.
    pub(super) fn agent_heard(&mut self, now: Duration, response: &str) {
        let turn = self.turn_of(response);
        if turn.first_audio_ms.is_none() {
            turn.first_audio_ms = turn.end_of_speech.map(|end| ms(now.saturating_sub(end)));
        }
        turn.answered = true;
    }

    /// More words of the agent, or all of an item's words so far when `whole`.
    pub(super) fn words(&mut self, response: &str, item: &str, words: &str, whole: bool) {
        let turn = self.turn_of(response);
        let said = match turn.said.iter_mut().find(|(id, _)| id == item) {
            Some((_, said)) => said,
            None => {
                turn.said.push((item.to_owned(), String::new()));
                &mut turn.said.last_mut().expect("just pushed").1
            }
        };
        if whole {
            said.clear();
        }
        said.push_str(words);
    }

    /// The server says what an item holds after the cut.
    pub(super) fn item_is_now(&mut self, item: &str, words: &str) {
        for (id, said) in self.turns.iter_mut().flat_map(|turn| turn.said.iter_mut()) {
            if id == item {
                words.clone_into(said);
            }
        }
    }

    /// An answer is over.
    pub(super) fn response_done(&mut self, response: &str, status: &str, code: Option<String>) {
        let turn = self.turn_of(response);
        if turn.outcome.is_none() || code.is_some() {
            turn.outcome =
                Some(code.map_or(status.to_owned(), |code| format!("{status} ({code})")));
        }
    }

    /// A gate decided.
    pub(super) fn admission(&mut self, now: Duration, note: Admission) {
        if note.is_claim() {
            // Neither waiting nor work.
            return;
        }
        let known = note.turn.as_ref().and_then(|name| {
            self.turns.iter().rposition(|turn| turn.server_turn.as_ref() == Some(name))
        });
        let refused = note.is_refusal().then(|| note.verdict());
        let stages = match (known, note.gate.as_str()) {
            (Some(index), _) => &mut self.turns[index].stages,
            (None, "recognition") => self.stages_of_recognition(&note.disposition),
            (None, _) => &mut self.current().stages,
        };
        note_decision(stages, now, note);
        if let Some(refused) = refused {
            let index = known.unwrap_or_else(|| self.current_index());
            self.turns[index].refusals.push(refused);
        }
    }

    /// The server told a turn's state.
    pub(super) fn turn_state(&mut self, name: String, state: String) {
        let unnamed = |turn: &Turn| turn.server_turn.is_none();
        let index = self
            .turns
            .iter()
            .rposition(|turn| turn.server_turn.as_ref() == Some(&name))
            .or_else(|| (!self.turns.is_empty()).then(|| self.turns.len() - 1))
            .filter(|&index| {
                unnamed(&self.turns[index]) || self.turns[index].server_turn.as_ref() == Some(&name)
            });
        let Some(index) = index else { return };
        let turn = &mut self.turns[index];
        turn.server_turn = Some(name);
        if state != "committed" {
            turn.outcome = Some(state);
        }
    }

    /// A rung of the ladder was tried.
    pub(super) fn fallback(&mut self, rung: Rung) {
        self.current().fallback.push(rung);
    }

    /// The agent paused.
    pub(super) fn paused(&mut self, now: Duration) {
        if let Some(stop) = self.open_stop() {
            stop.pause_ms.get_or_insert(ms(now.saturating_sub(stop.onset)));
        }
    }

    /// The agent went on after a pause.
    pub(super) fn resumed(&mut self) {
        if let Some(stop) = self.open_stop() {
            stop.resumed = true;
        }
        self.speaking_over = false;
    }

    /// The agent's sound was cleared; `mid_sentence` when some of it was still to be heard.
    pub(super) fn cleared(&mut self, now: Duration, mid_sentence: bool) {
        if let Some(stop) = self.open_stop() {
            stop.clear_ms.get_or_insert(ms(now.saturating_sub(stop.onset)));
        }
        self.speaking_over = false;
        if mid_sentence {
            self.current().cut = true;
        }
    }

    /// Sound of a cleared answer came nevertheless.
    pub(super) fn late(&mut self, response: &str, frames: u64) {
        self.turn_of(response).late_frames += frames;
    }

    /// A committed turn has had no answer of any kind yet.
    pub(super) fn awaits_answer(&self) -> bool {
        self.turns.last().is_some_and(|turn| !turn.answered && turn.outcome.is_none())
    }

    /// The finished rows.
    pub(super) fn into_turns(self) -> Vec<Turn> {
        let mut turns = self.turns;
        for turn in &mut turns {
            let parts: Vec<&str> =
                turn.said.iter().map(|(_, words)| words.trim()).filter(|w| !w.is_empty()).collect();
            turn.heard = parts.join(" ");
        }
        turns
    }

    /// The turn that is running; before the first words of the caller it is the greeting.
    fn current(&mut self) -> &mut Turn {
        let index = self.current_index();
        &mut self.turns[index]
    }

    fn current_index(&mut self) -> usize {
        if self.turns.is_empty() {
            self.turns.push(Turn::default());
        }
        self.turns.len() - 1
    }

    fn turn_of(&mut self, response: &str) -> &mut Turn {
        match self.by_response.get(response).copied() {
            Some(index) => &mut self.turns[index],
            None => self.current(),
        }
    }

    fn open_stop(&mut self) -> Option<&mut Stop> {
        if !self.speaking_over {
            return None;
        }
        self.turns.iter_mut().rev().find_map(|turn| turn.stops.last_mut())
    }

    /// An utterance's recognition is offered before its turn is born and ends after that.
    fn stages_of_recognition(&mut self, disposition: &str) -> &mut Vec<Stage> {
        let begins = matches!(disposition, "queued" | "admitted");
        match self.turns.iter().rposition(|turn| turn.stages.iter().any(is_open_recognition)) {
            Some(index) if !begins && !self.uncommitted.iter().any(is_open_recognition) => {
                &mut self.turns[index].stages
            }
            _ => &mut self.uncommitted,
        }
    }
}

fn is_open_recognition(stage: &Stage) -> bool {
    stage.gate == "recognition" && !stage.over
}

fn note_decision(stages: &mut Vec<Stage>, now: Duration, note: Admission) {
    // An utterance belongs to the call, whatever the generation.
    let same = |stage: &Stage| stage.gate == "recognition" || stage.generation == note.generation;
    let open =
        stages.iter().rposition(|stage| stage.gate == note.gate && same(stage) && !stage.over);
    let index = open.unwrap_or_else(|| {
        stages.push(Stage {
            gate: note.gate,
            generation: note.generation,
            offered_at: now,
            ..Stage::default()
        });
        stages.len() - 1
    });
    let stage = &mut stages[index];
    match note.disposition.as_str() {
        "queued" => {}
        "admitted" => {
            stage.admitted_at = Some(now);
            stage.wait_ms = Some(ms(now.saturating_sub(stage.offered_at)));
        }
        _ => {
            stage.work_ms = stage.admitted_at.map(|at| ms(now.saturating_sub(at)));
            stage.over = true;
        }
    }
    stage.disposition = note.disposition;
    stage.reason = note.reason;
}

fn ms(span: Duration) -> u64 {
    span.as_millis() as u64
}

#[cfg(test)]
#[path = "story_tests.rs"]
mod tests;
