//! The names of all facts, and the details that each may have.

use crate::admission::disposition::{ADMITTED, QUEUED, REASONS, TERMINALS};
use crate::evidence::{Evidence, Unknown};
use crate::fallback::Rung;
use crate::leg::HangUp;

/// Facts with a fixed name, and their details; the one that needs no name is the empty one.
const FACTS: [(&str, &[&str]); 52] = [
    ("caller.speech", &[]),
    ("caller.noise", &[]),
    ("caller.plays", &[]),
    ("caller.tone", &[]),
    ("caller.silence", &[]),
    ("caller.hangs_up", &[]),
    ("caller.drops", &[]),
    ("caller.returns", &[]),
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

/// Where output can come late.
const LATE: [&str; 4] = ["model", "synthesis", "tool", "rung"];

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
    /// The detail never has this value.
    Value {
        /// The fact's name.
        name: String,
        /// The value.
        value: String,
        /// Those it has; none where it is a number.
        known: Vec<&'static str>,
    },
}

/// What a detail can be.
enum Values {
    /// Anything: a name that somebody chose, or a code of an open list.
    Open,
    Number,
    Words(Vec<&'static str>),
}

fn values(name: &str, key: &str) -> Values {
    let of_ends = |label: &str| {
        let rows = TERMINALS.iter().map(|end| end.disposition());
        rows.filter(|row| row.label == label).map(|row| row.reason).collect()
    };
    match (name, key) {
        (_, "generation" | "messages" | "words") => Values::Number,
        ("fence", "") => Values::Number,
        ("fence", "why") => Values::Words(of_ends("cancelled")),
        (name, "") if name.starts_with("turn.") => Values::Number,
        ("late_output", "stage") => Values::Words(LATE.to_vec()),
        ("message.ended", _) => Values::Words(vec!["whole", "cut"]),
        ("tool.returned", _) => Values::Words(vec!["completed", "cancelled", "failed", "unknown"]),
        ("hang_up", _) => Values::Words(HangUp::ALL.iter().map(|why| why.label()).collect()),
        ("fallback", "") => Values::Words(Rung::ALL.iter().map(|rung| rung.label()).collect()),
        (name, _) if name.ends_with(".wait_ended") => {
            let mut ends: Vec<_> = TERMINALS.iter().map(|end| end.disposition().label).collect();
            ends.dedup();
            Values::Words(ends)
        }
        (name, "reason") if name.starts_with("admission.") => Values::Words(reasons()),
        _ => Values::Open,
    }
}

/// Every finer reason that a gate gives.
fn reasons() -> Vec<&'static str> {
    let ends = TERMINALS.iter().map(|end| end.disposition().reason);
    let refusals = REASONS.iter().map(|reason| reason.disposition().reason);
    let proofs = Evidence::ALL.iter().map(|proof| proof.label());
    let unknown = Unknown::ALL.iter().map(|unknown| unknown.label());
    let all = ends.chain(refusals).chain(proofs).chain(unknown).chain(["claim", "speculative"]);
    let mut all: Vec<_> = all.filter(|reason| !reason.is_empty()).collect();
    all.sort_unstable();
    all.dedup();
    all
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
        let (key, value) = detail.split_once('=').unwrap_or(("", detail));
        let (key, value) = (key.trim(), value.trim());
        if !known.contains(&key) {
            let shown = |key: &&'static str| if key.is_empty() { "the plain one" } else { *key };
            return Err(NameError::Detail {
                name: name.to_owned(),
                detail: detail.to_owned(),
                known: known.iter().map(shown).collect(),
            });
        }
        let known = match values(name, key) {
            Values::Open => continue,
            Values::Number if value.parse::<u64>().is_ok() => continue,
            // `reason=`: it gives none.
            Values::Words(_) if key == "reason" && value.is_empty() => continue,
            Values::Words(known) if known.contains(&value) => continue,
            Values::Number => Vec::new(),
            Values::Words(known) => known,
        };
        return Err(NameError::Value { name: name.to_owned(), value: value.to_owned(), known });
    }
    Ok(())
}
