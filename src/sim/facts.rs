//! What happened in a simulated call, as named facts: `fence(2)`, `agent.audio(generation=1)`, …

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::call::{Action, Event};
use crate::id::{RunId, Stage};
use crate::leg::{PlayoutState, ResponseEnd, ToCaller};
use crate::time::Timestamp;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// When.
    pub at: Timestamp,
    /// What.
    pub name: Cow<'static, str>,
    /// Its details; the one that needs no name has the empty one.
    pub details: Arc<[(&'static str, String)]>,
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        let details: Vec<String> = self
            .details
            .iter()
            .map(|(key, value)| match *key {
                "" => value.clone(),
                key => format!("{key}={value}"),
            })
            .collect();
        if details.is_empty() { Ok(()) } else { write!(f, "({})", details.join(", ")) }
    }
}

impl Fact {
    fn new(
        at: Timestamp,
        name: impl Into<Cow<'static, str>>,
        details: Vec<(&'static str, String)>,
    ) -> Fact {
        Fact { at, name: name.into(), details: details.into() }
    }

    /// The caller did something.
    pub fn of_caller(at: Timestamp, what: &str) -> Fact {
        Fact::new(at, format!("caller.{what}"), Vec::new())
    }

    /// The first sound of another item.
    pub fn first_audio(at: Timestamp) -> Fact {
        Fact::new(at, "agent.first_audio", Vec::new())
    }

    /// The fact fits a pattern: the same name, and every detail that the pattern names.
    pub fn fits(&self, pattern: &str) -> bool {
        let (name, details) = match pattern.split_once('(') {
            Some((name, rest)) => (name, rest.trim_end_matches(')')),
            None => (pattern, ""),
        };
        self.name == name.trim()
            && details.split(',').map(str::trim).filter(|d| !d.is_empty()).all(|wanted| {
                let (key, value) = wanted.split_once('=').unwrap_or(("", wanted));
                self.details.iter().any(|(k, v)| *k == key.trim() && v == value.trim())
            })
    }

    /// What an event tells.
    pub fn of_event(at: Timestamp, event: &Event) -> Option<Fact> {
        Some(match event {
            Event::ToolReturned { outcome, .. } => {
                Fact::new(at, "tool.returned", vec![("", outcome.label().to_owned())])
            }
            Event::Arranged { what, .. } => {
                Fact::new(at, "arranged", vec![("", what.label().to_owned())])
            }
            Event::WaitEnded { stage, terminal, .. } => {
                let how = terminal.disposition().label.to_owned();
                Fact::new(at, format!("{}.wait_ended", stage.kind()), vec![("", how)])
            }
            _ => return None,
        })
    }

    /// What an action tells. `stage_of` knows the stages of runs.
    pub fn of_action(
        at: Timestamp,
        action: &Action,
        stage_of: impl Fn(RunId) -> Option<Stage>,
    ) -> Option<Fact> {
        let plain = |name: &'static str| Fact::new(at, name, Vec::new());
        Some(match action {
            Action::Tell(what) => return told(at, what),
            Action::Fence { to, why, .. } => {
                Fact::new(at, "fence", vec![("", to.to_string()), ("why", (*why).to_owned())])
            }
            Action::Cancel { run, .. } => {
                let of = stage_of(*run).map_or("prompt", Stage::kind);
                Fact::new(at, format!("{of}.cancel"), Vec::new())
            }
            Action::Think { request, .. } => {
                let messages = request.history.len().to_string();
                Fact::new(at, "model.start", vec![("messages", messages)])
            }
            Action::UseTool { .. } => plain("tool.start"),
            Action::Arrange { wish, .. } => {
                Fact::new(at, format!("{}.start", wish.rung), Vec::new())
            }
            Action::Voice { .. } => plain("synthesis.start"),
            Action::Recognise { .. } => plain("recognition.start"),
            Action::Prompt { prompt, .. } => Fact::new(at, "prompt", vec![("", prompt.clone())]),
            Action::Decode { .. }
            | Action::JudgeTurn { .. }
            | Action::Say { .. }
            | Action::Close { .. }
            | Action::ForgetSound => return None,
        })
    }
}

fn told(at: Timestamp, what: &ToCaller) -> Option<Fact> {
    let plain = |name: &'static str| Fact::new(at, name, Vec::new());
    Some(match what {
        ToCaller::Audio { generation, .. } => {
            Fact::new(at, "agent.audio", vec![("generation", generation.to_string())])
        }
        ToCaller::Playout { state: PlayoutState::Paused, .. } => plain("agent.paused"),
        ToCaller::Playout { state: PlayoutState::Resumed, .. } => plain("agent.resumed"),
        ToCaller::ClearFarEnd { .. } => plain("far_end.clear"),
        ToCaller::SpeechStarted { .. } => plain("speech.started"),
        ToCaller::SpeechStopped { .. } => plain("speech.stopped"),
        ToCaller::Transcribed { .. } => plain("transcribed"),
        ToCaller::Turn { turn, state, generation } => {
            let details = vec![("", turn.0.to_string()), ("generation", generation.to_string())];
            Fact::new(at, format!("turn.{state}"), details)
        }
        ToCaller::ResponseEnded { end, .. } => {
            Fact::new(at, "response.ended", vec![("", ended(end).to_owned())])
        }
        ToCaller::LateOutput { stage, generation } => {
            let generation = ("generation", generation.to_string());
            Fact::new(at, "late_output", vec![("stage", (*stage).to_owned()), generation])
        }
        ToCaller::Admission(note) => {
            let reason = ("reason", note.reason.to_owned());
            let name = format!("admission.{}", note.disposition);
            Fact::new(at, name, vec![("", note.gate.clone()), reason])
        }
        ToCaller::Fallback { rung, outcome, .. } => {
            let outcome = ("outcome", (*outcome).to_owned());
            Fact::new(at, "fallback", vec![("", (*rung).to_owned()), outcome])
        }
        ToCaller::Rejected { code, .. } => {
            Fact::new(at, "rejected", vec![("", (*code).to_owned())])
        }
        ToCaller::TranscriptionFailed { code, .. } => {
            Fact::new(at, "transcription.failed", vec![("", (*code).to_owned())])
        }
        ToCaller::FunctionCalled { call, .. } => {
            Fact::new(at, "client.runs", vec![("", call.name.clone())])
        }
        ToCaller::IdleTimeout { .. } => plain("idle"),
        ToCaller::Truncated { .. } => plain("truncated"),
        ToCaller::Heard { words, .. } => {
            let count = words.split_whitespace().count().to_string();
            Fact::new(at, "heard", vec![("words", count)])
        }
        ToCaller::MessageEnded { completed, .. } => {
            let how = if *completed { "whole" } else { "cut" };
            Fact::new(at, "message.ended", vec![("", how.to_owned())])
        }
        ToCaller::HangUp { why } => Fact::new(at, "hang_up", vec![("", why.label().to_owned())]),
        _ => return None,
    })
}

fn ended(end: &ResponseEnd) -> &'static str {
    match end {
        ResponseEnd::Completed => "completed",
        ResponseEnd::TurnDetected => "turn_detected",
        ResponseEnd::ClientCancelled => "client_cancelled",
        ResponseEnd::MaxTokens => "max_tokens",
        ResponseEnd::ContentFilter => "content_filter",
        ResponseEnd::Failed { code, .. } => code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_fits_by_its_name_and_the_details_that_are_asked_for() {
        let details = vec![("stage", "model".to_owned()), ("generation", "1".to_owned())];
        let fact = Fact::new(Timestamp::ZERO, "late_output", details);
        assert!(fact.fits("late_output"));
        assert!(fact.fits("late_output(stage=model)"));
        assert!(!fact.fits("late_output(stage=synthesis)"));
        assert!(!fact.fits("late"));
        assert_eq!(fact.to_string(), "late_output(stage=model, generation=1)");
    }
}
