//! What a server says over the wire, as the facts that fixtures name and as lines of a story.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::sim::facts::Fact;
use crate::time::Timestamp;

/// Errors that are last words and answer no request.
const LAST_WORDS: [&str; 4] = ["draining", "session_expired", "policy_violation", "internal_error"];
/// How a wait at a gate ends that is not granted.
const WAIT_ENDS: [&str; 5] = ["expired", "cancelled", "stale", "closed", "overloaded"];

/// What one event told.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Told {
    /// The facts, in their order.
    pub(super) facts: Vec<Fact>,
    /// Its line of the story.
    pub(super) line: Option<String>,
}

/// Listens to one session.
#[derive(Debug, Default)]
pub(super) struct Hearing {
    /// The newest generation that was told.
    generation: String,
    /// Under which generation an item began.
    items: BTreeMap<String, String>,
    /// The item that sounded last.
    pub(super) sounding: Option<String>,
    /// The function call that the client is asked to run.
    pub(super) function: Option<String>,
    /// Answers that have begun and not ended.
    pub(super) open: BTreeSet<String>,
    /// Gates at which something waits.
    waiting: BTreeSet<String>,
    /// The server speaks the extra events.
    pub(super) extras: bool,
}

impl Hearing {
    /// Takes one event.
    pub(super) fn hear(&mut self, at: Timestamp, event: &Value) -> Told {
        let kind = event["type"].as_str().unwrap_or_default();
        if kind.starts_with("floorkeeper.") {
            self.extras = true;
            return self.extra(at, kind, event);
        }
        match kind {
            "input_audio_buffer.speech_started" => told(at, "speech.started", "-> speech started"),
            "input_audio_buffer.speech_stopped" => told(at, "speech.stopped", "-> speech stopped"),
            "input_audio_buffer.timeout_triggered" => told(at, "idle", "-> idle timeout"),
            "conversation.item.input_audio_transcription.completed" => {
                let line = format!("-> transcribed \"{}\"", text(event, "transcript"));
                told(at, "transcribed", &line)
            }
            "conversation.item.input_audio_transcription.failed" => {
                let code = text(&event["error"], "code");
                let line = format!("-> transcription failed: {code}");
                one(at, "transcription.failed", vec![("", code)], line)
            }
            "conversation.item.truncated" => {
                let line = format!("-> truncated at {} ms", text(event, "audio_end_ms"));
                told(at, "truncated", &line)
            }
            "error" => rejected(at, &text(&event["error"], "code")),
            _ => self.answer(at, kind, event),
        }
    }

    fn answer(&mut self, at: Timestamp, kind: &str, event: &Value) -> Told {
        match kind {
            "response.created" => {
                let name = text(&event["response"], "id");
                self.open.insert(name.clone());
                match is_announcement(&name) {
                    true => Told::default(),
                    false => told(at, STARTED, &format!("-> {} starts", short(&name))),
                }
            }
            "response.output_item.added" => self.item_begun(at, event),
            "response.output_item.done" => item_ended(at, event),
            "response.output_audio.delta" => self.sound(at, &text(event, "item_id")),
            "response.function_call_arguments.done" => {
                self.function = Some(text(event, "call_id"));
                let name = text(event, "name");
                let line = format!("-> client runs {name}");
                one(at, "client.runs", vec![("", name)], line)
            }
            "response.done" => {
                let name = text(&event["response"], "id");
                self.open.remove(&name);
                if is_announcement(&name) {
                    return Told::default();
                }
                let how = ended(&event["response"]);
                let line = format!("-> {} ended: {how}", short(&name));
                one(at, "response.ended", vec![("", how)], line)
            }
            _ => Told::default(),
        }
    }

    fn item_begun(&mut self, at: Timestamp, event: &Value) -> Told {
        let item = text(&event["item"], "id");
        self.items.insert(item, self.generation.clone());
        let name = text(event, "response_id");
        let is_message = event["item"]["type"] == "message";
        if !is_message || is_announcement(&name) {
            return Told::default();
        }
        told(at, AUDIBLE, &format!("-> {} is audible", short(&name)))
    }

    /// A piece of the agent's sound.
    fn sound(&mut self, at: Timestamp, item: &str) -> Told {
        let mut facts = Vec::new();
        if self.sounding.as_deref() != Some(item) {
            self.sounding = Some(item.to_owned());
            facts.push(Fact::first_audio(at));
        }
        let generation = self.items.get(item).unwrap_or(&self.generation).clone();
        facts.push(fact(at, "agent.audio", vec![("generation", generation)]));
        Told { facts, line: None }
    }

    fn extra(&mut self, at: Timestamp, kind: &str, event: &Value) -> Told {
        let generation = text(event, "generation");
        if !generation.is_empty() && kind != "floorkeeper.late_output" {
            self.generation.clone_from(&generation);
        }
        match kind {
            "floorkeeper.playout" => playout(at, event),
            "floorkeeper.heard" => {
                let count = text(event, "words").split_whitespace().count().to_string();
                let facts = vec![fact(at, "heard", vec![("words", count)])];
                let played = text(event, "played_ms");
                let line = format!("-> heard {played} ms: \"{}\"", text(event, "words"));
                Told { facts, line: Some(line) }
            }
            "floorkeeper.turn" => {
                let (turn, state) = (text(event, "turn"), text(event, "state"));
                let line = format!("-> turn-{turn} {state} (generation {generation})");
                let details = vec![("", turn), ("generation", generation)];
                one(at, &format!("turn.{state}"), details, line)
            }
            "floorkeeper.late_output" => {
                let stage = text(event, "stage");
                let line =
                    format!("-> late output of generation {generation} suppressed at {stage}");
                one(at, "late_output", vec![("stage", stage), ("generation", generation)], line)
            }
            "floorkeeper.fallback" => {
                let (rung, outcome) = (text(event, "rung"), text(event, "outcome"));
                let prompt = text(event, "prompt");
                let line = format!("-> fallback {rung} {outcome}: {prompt}");
                let spoken = fact(at, "prompt", vec![("", prompt)]);
                let tried = fact(at, "fallback", vec![("", rung), ("outcome", outcome)]);
                Told { facts: vec![spoken, tried], line: Some(line) }
            }
            "floorkeeper.admission" => self.decided(at, event),
            _ => Told::default(),
        }
    }

    fn decided(&mut self, at: Timestamp, event: &Value) -> Told {
        let (gate, reason) = (text(event, "gate"), text(event, "reason"));
        let disposition = text(event, "disposition");
        let line = match reason.as_str() {
            "" => format!("-- {gate}: {disposition}"),
            reason => format!("-- {gate}: {disposition}{{{reason}}}"),
        };
        let mut facts = Vec::new();
        if disposition == "queued" {
            self.waiting.insert(gate.clone());
        } else if self.waiting.remove(&gate) && WAIT_ENDS.contains(&disposition.as_str()) {
            let stage = gate.split(':').next().unwrap_or_default();
            facts.push(fact(at, &format!("{stage}.wait_ended"), vec![("", disposition.clone())]));
        }
        let details = vec![("", gate), ("reason", reason)];
        facts.push(fact(at, &format!("admission.{disposition}"), details));
        Told { facts, line: Some(line) }
    }
}

/// An answer begins: no fact of a fixture, but a place in the order of things.
pub(super) const STARTED: &str = "response.started";
/// A message of it begins.
pub(super) const AUDIBLE: &str = "message.started";

pub(super) fn fact(at: Timestamp, name: &str, details: Vec<(&'static str, String)>) -> Fact {
    Fact { at, name: name.to_owned().into(), details: details.into() }
}

fn told(at: Timestamp, name: &str, line: &str) -> Told {
    one(at, name, Vec::new(), line.to_owned())
}

fn one(at: Timestamp, name: &str, details: Vec<(&'static str, String)>, line: String) -> Told {
    Told { facts: vec![fact(at, name, details)], line: Some(line) }
}

fn rejected(at: Timestamp, code: &str) -> Told {
    match LAST_WORDS.contains(&code) {
        true => Told::default(),
        false => one(at, "rejected", vec![("", code.to_owned())], format!("-> rejected: {code}")),
    }
}

fn item_ended(at: Timestamp, event: &Value) -> Told {
    let is_message = event["item"]["type"] == "message";
    if !is_message || is_announcement(&text(event, "response_id")) {
        return Told::default();
    }
    let how = if event["item"]["status"] == "completed" { "whole" } else { "cut" };
    one(at, "message.ended", vec![("", how.to_owned())], format!("-> message {how}"))
}

fn playout(at: Timestamp, event: &Value) -> Told {
    let played = text(event, "played_ms");
    match event["state"].as_str().unwrap_or_default() {
        "paused" => told(at, "agent.paused", &format!("-> pause playout at {played} ms")),
        "resumed" => told(at, "agent.resumed", &format!("-> resume playout at {played} ms")),
        "cleared" => told(at, "far_end.clear", &format!("-> clear far end, heard {played} ms")),
        _ => Told::default(),
    }
}

/// How an answer ended, as the fact names it.
fn ended(response: &Value) -> String {
    let details = &response["status_details"];
    match (response["status"].as_str(), details["reason"].as_str()) {
        (Some("failed"), _) => text(&details["error"], "code"),
        (_, Some("max_output_tokens")) => "max_tokens".to_owned(),
        (_, Some(reason)) => reason.to_owned(),
        (status, None) => status.unwrap_or_default().to_owned(),
    }
}

/// Something our own server says outside any answer.
fn is_announcement(response: &str) -> bool {
    let last = response.rsplit('_').next().unwrap_or_default();
    last.strip_prefix('a').is_some_and(|number| number.parse::<u32>().is_ok())
}

/// The name of our own server's answer as its record has it; of another's as it is.
fn short(response: &str) -> String {
    match response.rsplit('_').next().and_then(|last| last.parse::<u64>().ok()) {
        Some(number) => format!("response-{number}"),
        None => response.to_owned(),
    }
}

/// A field as text, whether it is written as a string or a number.
pub(super) fn text(object: &Value, key: &str) -> String {
    match &object[key] {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn facts(events: &[Value]) -> Vec<String> {
        let mut hearing = Hearing::default();
        let hear = |event| hearing.hear(Timestamp::ZERO, event).facts;
        events.iter().flat_map(hear).map(|fact| fact.to_string()).collect()
    }

    #[test]
    fn sound_is_named_by_the_generation_under_which_its_item_began() {
        let told = facts(&[
            json!({"type": "floorkeeper.turn", "turn": 1, "state": "committed", "generation": 1}),
            json!({"type": "response.created", "response": {"id": "resp_x_1"}}),
            json!({"type": "response.output_item.added", "response_id": "resp_x_1",
                "item": {"id": "item_1", "type": "message"}}),
            json!({"type": "response.output_audio.delta", "item_id": "item_1", "delta": ""}),
            json!({"type": "floorkeeper.turn", "turn": 1, "state": "interrupted", "generation": 2}),
            json!({"type": "response.output_audio.delta", "item_id": "item_1", "delta": ""}),
        ]);
        let audio = "agent.audio(generation=1)";
        assert_eq!(
            told,
            [
                "turn.committed(1, generation=1)",
                STARTED,
                AUDIBLE,
                "agent.first_audio",
                audio,
                "turn.interrupted(1, generation=2)",
                audio
            ]
        );
    }

    #[test]
    fn a_wait_that_ends_unserved_is_told_as_such() {
        let note = |disposition: &str| {
            let (kind, gate) = ("floorkeeper.admission", "model");
            json!({"type": kind, "gate": gate, "disposition": disposition, "generation": 1})
        };
        let told = facts(&[note("queued"), note("expired"), note("expired")]);
        let expired = "admission.expired(model, reason=)";
        assert_eq!(
            told,
            ["admission.queued(model, reason=)", "model.wait_ended(expired)", expired, expired]
        );
    }

    #[test]
    fn ends_and_errors_have_the_names_that_fixtures_use() {
        let done = |status: &str, details: Value| {
            let response = json!({"id": "resp_x_1", "status": status, "status_details": details});
            json!({"type": "response.done", "response": response})
        };
        let announced = json!({"id": "resp_x_a1", "status": "completed"});
        let error = |code: &str| json!({"type": "error", "error": {"code": code}});
        let told = facts(&[
            done("completed", Value::Null),
            done("cancelled", json!({"reason": "turn_detected"})),
            done("incomplete", json!({"reason": "max_output_tokens"})),
            done("failed", json!({"error": {"code": "provider_slow"}})),
            json!({"type": "response.done", "response": announced}),
            error("response_cancel_not_active"),
            error("draining"),
        ]);
        assert_eq!(
            told,
            [
                "response.ended(completed)",
                "response.ended(turn_detected)",
                "response.ended(max_tokens)",
                "response.ended(provider_slow)",
                "rejected(response_cancel_not_active)",
            ]
        );
    }
}
