//! The result of a call, as a table for people and as JSON for programs.

use std::fmt;

use serde::Serialize;

use super::story::{Stop, Turn};

/// All that `floorkeeper call` found out.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Whom was called.
    pub(crate) url: String,
    /// The call went as calls should.
    pub(crate) ok: bool,
    /// Why it did not.
    pub(crate) failure: Option<String>,
    /// How long the line was open.
    pub(crate) seconds: f64,
    /// The table.
    pub(crate) turns: Vec<Turn>,
    /// 20 ms frames that came after the clear of their answer: must be none.
    pub(crate) late_frames: u64,
    /// Output of old generations that the server says it suppressed, by stage.
    pub(crate) suppressed: std::collections::BTreeMap<String, u64>,
    /// Functions the agent asked this client to run; it has none.
    pub(crate) functions_called: Vec<String>,
    /// Errors the server told.
    pub(crate) errors: Vec<String>,
    /// Interruptions that never came to be said.
    pub(crate) barges_not_played: usize,
    /// Where the recording is.
    pub(crate) recorded: Option<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, turn) in self.turns.iter().enumerate() {
            row(f, index + 1, turn)?;
        }
        if self.turns.is_empty() {
            writeln!(f, "no turns")?;
        }
        for error in &self.errors {
            writeln!(f, "server error: {error}")?;
        }
        for function in &self.functions_called {
            writeln!(f, "function asked for and not run (a softphone has none): {function}")?;
        }
        for (stage, count) in &self.suppressed {
            writeln!(f, "late output suppressed by the server at {stage}: {count}")?;
        }
        writeln!(f, "late frames after a clear: {}", self.late_frames)?;
        if let Some(path) = &self.recorded {
            writeln!(f, "recorded: {path}")?;
        }
        match &self.failure {
            None => write!(f, "call of {:.1} s: good", self.seconds),
            Some(reason) => write!(f, "call of {:.1} s: FAILED: {reason}", self.seconds),
        }
    }
}

fn row(f: &mut fmt::Formatter<'_>, number: usize, turn: &Turn) -> fmt::Result {
    let outcome = turn.outcome.as_deref().unwrap_or("no outcome told");
    match turn.item {
        Some(_) => writeln!(f, "turn {number}  {outcome}")?,
        None => writeln!(f, "turn {number}  {outcome}  (before the caller's first words)")?,
    }
    if turn.item.is_some() {
        writeln!(f, "  caller       {}", or_dash(&turn.caller))?;
    }
    if let Some(ms) = turn.first_audio_ms {
        writeln!(f, "  first audio  {ms} ms after the end of speech")?;
    }
    let cut = if turn.cut { "  [cut off]" } else { "" };
    writeln!(f, "  heard        {}{cut}", or_dash(&turn.heard))?;
    for stage in &turn.stages {
        let verdict = match stage.reason.as_str() {
            "" => stage.disposition.clone(),
            same if same == stage.disposition => stage.disposition.clone(),
            reason => format!("{}{{{reason}}}", stage.disposition),
        };
        let (wait, work) = (span(stage.wait_ms), span(stage.work_ms));
        writeln!(f, "  {:<12} waited {wait:>7}  worked {work:>8}  {verdict}", stage.gate)?;
    }
    for stop in &turn.stops {
        writeln!(f, "  interrupted  {}", stopped(stop))?;
    }
    if turn.cut || turn.late_frames > 0 {
        writeln!(f, "  late frames  {}", turn.late_frames)?;
    }
    for refusal in &turn.refusals {
        writeln!(f, "  refused      {refusal}")?;
    }
    for rung in &turn.fallback {
        writeln!(f, "  fallback     {} {}: {}", rung.rung, rung.outcome, or_dash(&rung.prompt))?;
    }
    Ok(())
}

fn stopped(stop: &Stop) -> String {
    let pause = stop.pause_ms.map(|ms| format!("paused after {ms} ms"));
    let end = match (stop.clear_ms, stop.resumed) {
        (Some(ms), _) => Some(format!("cleared after {ms} ms")),
        (None, true) => Some("went on: no interruption".to_owned()),
        (None, false) => None,
    };
    let told: Vec<String> = pause.into_iter().chain(end).collect();
    if told.is_empty() { "the agent did not stop".to_owned() } else { told.join(", ") }
}

fn span(ms: Option<u64>) -> String {
    ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms} ms"))
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}
