//! The names of all facts, and the details that each may have.

use crate::admission::disposition::{ADMITTED, QUEUED, REASONS, TERMINALS};

/// Facts with a fixed name, and their details; the one that needs no name is the empty one.
const FACTS: [(&str, &[&str]); 50] = [
    ("caller.speech", &[]),
    ("caller.noise", &[]),
    ("caller.plays", &[]),
    ("caller.tone", &[]),
    ("caller.silence", &[]),
    ("caller.hangs_up", &[]),
    ("caller.presses", &[]),
    ("caller.cancels", &[]),
    ("caller.responds", &[]),
    ("caller.writes", &[]),
    ("caller.outputs", &[]),
    ("caller.truncates", &[]),
    ("caller.commits", &[]),
    ("caller.clears", &[]),
    ("caller.configures", &[]),
    ("caller.drains", &[]),
    ("speech.started", &[]),
    ("speech.stopped", &[]),
    ("transcribed", &[]),
    ("transcription.failed", &[""]),
    ("agent.first_audio", &[]),
    ("agent.audio", &["generation"]),
    ("agent.paused", &[]),
    ("agent.resumed", &[]),
    ("far_end.clear", &[]),
    ("fence", &["", "why"]),
    ("turn.committed", &["", "generation"]),
    ("turn.answered", &["", "generation"]),
    ("turn.superseded", &["", "generation"]),
    ("turn.interrupted", &["", "generation"]),
    ("turn.failed", &["", "generation"]),
    ("model.start", &["messages"]),
    ("synthesis.start", &[]),
    ("recognition.start", &[]),
    ("tool.start", &[]),
    ("tool.returned", &[""]),
    ("message.ended", &[""]),
    ("response.ended", &[""]),
    ("client.runs", &[""]),
    ("late_output", &["stage", "generation"]),
    ("prompt", &[""]),
    ("fallback", &["", "outcome"]),
    ("rejected", &[""]),
    ("heard", &["words"]),
    ("callback.start", &[]),
    ("handoff.start", &[]),
    ("arranged", &[""]),
    ("truncated", &[]),
    ("idle", &[]),
    ("hang_up", &[""]),
];
/// Kinds of stages.
const STAGES: [&str; 7] =
    ["call", "recognition", "model", "synthesis", "tool", "callback", "handoff"];

/// Why a pattern fits no fact.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NameError {
    /// No fact has this name.
    Name(String),
    /// The fact has no such detail.
    Detail {
        /// The fact's name.
        name: String,
        /// The detail.
        detail: String,
        /// Those it has.
        known: Vec<&'static str>,
    },
}

/// Every name that a fact can have.
pub(super) fn all() -> Vec<String> {
    let mut names: Vec<String> = FACTS.iter().map(|(name, _)| (*name).to_owned()).collect();
    names.extend(STAGES.iter().chain(&["prompt"]).map(|stage| format!("{stage}.cancel")));
    names.extend(STAGES.iter().map(|stage| format!("{stage}.wait_ended")));
    let ends = TERMINALS.iter().map(|end| end.disposition().label);
    let refusals = REASONS.iter().map(|reason| reason.disposition().label);
    let others = [ADMITTED.label, QUEUED.label, "quarantined"];
    let admission = ends.chain(refusals).chain(others);
    names.extend(admission.map(|label| format!("admission.{label}")));
    names
}

/// Whether some fact can fit a pattern.
pub(super) fn known(pattern: &str) -> Result<(), NameError> {
    let (name, details) = match pattern.split_once('(') {
        Some((name, rest)) => (name.trim(), rest.trim_end_matches(')')),
        None => (pattern.trim(), ""),
    };
    let known: &[&'static str] = match FACTS.iter().find(|(fact, _)| *fact == name) {
        Some((_, details)) => details,
        None if !all().iter().any(|known| known == name) => {
            return Err(NameError::Name(name.to_owned()));
        }
        None if name.starts_with("admission.") => &["", "reason"],
        None if name.ends_with(".wait_ended") => &[""],
        None => &[],
    };
    for detail in details.split(',').map(str::trim).filter(|detail| !detail.is_empty()) {
        let key = detail.split_once('=').map_or("", |(key, _)| key.trim());
        if !known.contains(&key) {
            let shown = |key: &&'static str| if key.is_empty() { "the plain one" } else { *key };
            return Err(NameError::Detail {
                name: name.to_owned(),
                detail: detail.to_owned(),
                known: known.iter().map(shown).collect(),
            });
        }
    }
    Ok(())
}
