//! `floorkeeper admission replay FILE.jsonl`: runs an operation trace on a gate, compares answers.
//!
//! A line with `trace` and `limits` opens a trace on a new gate; a line with `op` is an operation,
//! `want` its answer. That gate takes offers queue-first, keeps every tombstone and goes by
//! the times the trace tells. A line with `decisions` opens a gate's own log
//! ([`crate::runtime::decisions`]), which is run again as it was.

mod trace;

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};

use self::trace::{Trace, error, same};
use crate::admission::rerun::Again;
use crate::id::Stage;
use crate::runtime::decisions;

/// How many mismatches are printed; all are counted.
const SHOWN_MAX: usize = 10;

/// What a replay found.
#[derive(Debug, Default, PartialEq)]
pub struct Report {
    /// Lines with an `op`.
    pub operations: u64,
    /// Answers that differ, in order.
    pub mismatches: Vec<Mismatch>,
}

/// One answer that differs.
#[derive(Debug, PartialEq)]
pub struct Mismatch {
    /// Line of the file, from 1.
    pub line: u64,
    /// The operation with its arguments.
    pub operation: String,
    /// What the trace says.
    pub want: Value,
    /// What the gate says.
    pub got: Value,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mismatch { line, operation, want, got } = self;
        write!(f, "line {line}: {operation}: want {want}, got {got}")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for mismatch in self.mismatches.iter().take(SHOWN_MAX) {
            writeln!(f, "{mismatch}")?;
        }
        if self.mismatches.len() > SHOWN_MAX {
            writeln!(f, "… and {} more", self.mismatches.len() - SHOWN_MAX)?;
        }
        write!(f, "{} operations, {} mismatches", self.operations, self.mismatches.len())
    }
}

/// Why a trace cannot be read: where, what, and what would be right.
#[derive(Debug, thiserror::Error)]
#[error("{line}: {what}")]
pub struct Unreadable {
    /// Line of the file, from 1.
    pub line: u64,
    /// What is wrong and what would be right.
    pub what: String,
}

/// Runs the command: 0 when every answer is as wanted, 1 on a mismatch, 2 when the input cannot be
/// read.
pub fn run(path: &Path, json: bool) -> ExitCode {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(cause) => return unreadable(&format!("{}: {cause}", path.display())),
    };
    let report = match replay(BufReader::new(file)) {
        Ok(report) => report,
        Err(why) => return unreadable(&format!("{}:{why}", path.display())),
    };
    let text = match json {
        true => as_json(&report).to_string(),
        false => report.to_string(),
    };
    // Whoever closed the pipe has read what they wanted.
    let _ = writeln!(std::io::stdout(), "{text}");
    match report.mismatches.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(1),
    }
}

fn unreadable(sentence: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "{sentence}");
    ExitCode::from(2)
}

fn as_json(report: &Report) -> Value {
    let first: Vec<Value> = report
        .mismatches
        .iter()
        .take(SHOWN_MAX)
        .map(|m| json!({"line": m.line, "operation": m.operation, "want": m.want, "got": m.got}))
        .collect();
    json!({
        "operations": report.operations,
        "mismatches": report.mismatches.len(),
        "first": first,
    })
}

/// Replays a trace file.
pub fn replay(mut reader: impl BufRead) -> Result<Report, Unreadable> {
    let mut report = Report::default();
    let (mut subject, mut opened) = (None, false);
    let mut bytes = Vec::new();
    for line in 1.. {
        bytes.clear();
        let read = reader.read_until(b'\n', &mut bytes);
        let read = read.map_err(|cause| Unreadable { line, what: cause.to_string() })?;
        if read == 0 {
            break;
        }
        if bytes.trim_ascii().is_empty() {
            continue;
        }
        let value = parsed(&bytes).map_err(|what| Unreadable { line, what })?;
        opened |= value.get("limits").is_some();
        one_line(line, &value, &mut subject, &mut report)
            .map_err(|what| Unreadable { line, what })?;
    }
    if !opened {
        let what =
            "no line opens a trace; it has `trace` and `limits`, or `decisions` and `limits`";
        return Err(Unreadable { line: 1, what: what.into() });
    }
    Ok(report)
}

/// What the lines that follow are run on.
enum Subject {
    Trace(Box<Trace>),
    Log(Box<Again>),
}

fn one_line(
    line: u64,
    value: &Value,
    subject: &mut Option<Subject>,
    report: &mut Report,
) -> Result<(), String> {
    if value.get("trace").is_some() {
        return open_trace(line, value, subject, report);
    }
    if value.get("decisions").is_some() {
        let limits = decisions::limits_of(value.get("limits").unwrap_or(&Value::Null));
        let limits = limits.map_err(|what| format!("limits: {what}"))?;
        *subject = Some(Subject::Log(Box::new(Again::new(Stage::Model, limits))));
        return Ok(());
    }
    if let Some(Subject::Log(again)) = subject {
        return one_decision(line, value, again, report);
    }
    let Some(op) = value.get("op").and_then(Value::as_str) else {
        return Err("neither `trace` nor `op`; a line opens a trace or is an operation".into());
    };
    let Some(Subject::Trace(trace)) = subject else {
        return Err(format!(
            "`{op}` before any trace; first comes \
             {{\"trace\":0,\"limits\":{{\"slots\":1,\"waiting\":1,\"max_age_ms\":1000}}}}"
        ));
    };
    let want = value.get("want").ok_or("`want` is missing; it holds the answer to compare with")?;
    let args = value.get("args").unwrap_or(&Value::Null);
    if !(args.is_object() || args.is_null()) {
        return Err(format!("`args` is {args}; it must be an object"));
    }
    let got = trace.operate(op, args)?;
    report.operations += 1;
    if !same(want, &got) {
        let operation = format!("{op} {args}");
        report.mismatches.push(Mismatch { line, operation, want: want.clone(), got });
    }
    Ok(())
}

fn one_decision(
    line: u64,
    value: &Value,
    again: &mut Again,
    report: &mut Report,
) -> Result<(), String> {
    let (now, act) = decisions::act_of(value)?;
    let (said, told) = again.step(now, &act);
    let (said, told) = decisions::outcome(said, &told);
    report.operations += 1;
    let field = |key: &str| value.get(key).cloned().unwrap_or(Value::Null);
    let want = json!({"said": field("said"), "told": field("told")});
    let got = json!({"said": said, "told": told});
    if want != got {
        let operation = field("act").as_str().unwrap_or_default().to_owned();
        report.mismatches.push(Mismatch { line, operation, want, got });
    }
    Ok(())
}

/// Impossible limits are an answer where the line wants that error, and unreadable elsewhere.
fn open_trace(
    line: u64,
    value: &Value,
    subject: &mut Option<Subject>,
    report: &mut Report,
) -> Result<(), String> {
    let limits = value.get("limits").ok_or("`limits` is missing beside `trace`")?;
    let wants_error = value.get("want").is_some_and(|want| same(want, &error()));
    match Trace::new(limits) {
        Ok(opened) => *subject = Some(Subject::Trace(Box::new(opened))),
        Err(_) if wants_error => {
            *subject = None;
            return Ok(());
        }
        Err(what) => return Err(what),
    }
    if wants_error {
        let operation = format!("limits {limits}");
        report.mismatches.push(Mismatch { line, operation, want: error(), got: json!("ok") });
    }
    Ok(())
}

/// JSON, and the `NaN` and `Infinity` that some writers put in it: those become null, which no
/// argument may be.
fn parsed(bytes: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "not UTF-8; a trace is UTF-8 text")?;
    serde_json::from_str(text).or_else(|cause| {
        let plain = without_bare_words(text);
        serde_json::from_str(&plain).map_err(|_| format!("not JSON: {cause}"))
    })
}

fn without_bare_words(text: &str) -> String {
    let spoken = |piece: &str| {
        let piece = piece.replace("-Infinity", "null").replace("Infinity", "null");
        piece.replace("NaN", "null")
    };
    let pieces = text.split('"').enumerate();
    // Every second piece stands between quotation marks.
    let plain = pieces.map(|(nth, piece)| match nth % 2 {
        0 => spoken(piece),
        _ => piece.to_owned(),
    });
    plain.collect::<Vec<_>>().join("\"")
}
