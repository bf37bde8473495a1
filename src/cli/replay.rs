//! `floorkeeper admission replay FILE.jsonl`: runs an operation trace on a gate, compares answers.
//!
//! A line with `trace` and `limits` opens a trace on a new gate; a line with `op` is an operation,
//! `want` its answer. The gate takes offers queue-first, keeps every tombstone and goes by
//! the times the trace tells.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::admission::gate::Taken;
use crate::admission::limits::{CloseMode, Intake, Limits, Slots, Tombstones};
use crate::admission::{
    Answer, Cancelled, Closed, Gate, Lease, Offer, OfferId, OwnerId, Place, RefusalReason, Release,
    Settled, Terminal,
};
use crate::evidence::Evidence;
use crate::id::{ClassId, Generation, Stage, TenantId};
use crate::time::Timestamp;

/// How many mismatches are printed; all are counted.
const SHOWN_MAX: usize = 10;
/// Longest name of an offer or an owner, in bytes.
const NAME_MAX: usize = 256;
/// Time zero of a trace, so that times before it can be told apart; one tick is a nanosecond.
const EPOCH_TICKS: i128 = 1 << 62;
/// A span longer than any trace, as `Duration` and `Timestamp` can both hold it.
const FOREVER_MS: u64 = u64::MAX / 1_000;

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
    let mut trace = None;
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
        one_line(line, &value, &mut trace, &mut report)
            .map_err(|what| Unreadable { line, what })?;
    }
    Ok(report)
}

fn one_line(
    line: u64,
    value: &Value,
    trace: &mut Option<Trace>,
    report: &mut Report,
) -> Result<(), String> {
    if value.get("trace").is_some() {
        return open_trace(line, value, trace, report);
    }
    let Some(op) = value.get("op").and_then(Value::as_str) else {
        return Err("neither `trace` nor `op`; a line opens a trace or is an operation".into());
    };
    let trace = trace.as_mut().ok_or_else(|| {
        format!(
            "`{op}` before any trace; first comes \
             {{\"trace\":0,\"limits\":{{\"slots\":1,\"waiting\":1,\"max_age_ms\":1000}}}}"
        )
    })?;
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

/// Impossible limits are an answer where the line wants that error, and unreadable elsewhere.
fn open_trace(
    line: u64,
    value: &Value,
    trace: &mut Option<Trace>,
    report: &mut Report,
) -> Result<(), String> {
    let limits = value.get("limits").ok_or("`limits` is missing beside `trace`")?;
    let wants_error = value.get("want").is_some_and(|want| same(want, &error()));
    match Trace::new(limits) {
        Ok(opened) => *trace = Some(opened),
        Err(_) if wants_error => {
            *trace = None;
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

fn error() -> Value {
    json!({"error": true})
}

/// The order of leases means nothing; every other order does.
fn same(want: &Value, got: &Value) -> bool {
    let sorted = |value: &Value| {
        let mut value = value.clone();
        if let Some(leases) = value.get_mut("leases").and_then(Value::as_array_mut) {
            leases.sort_by_key(Value::to_string);
        }
        value
    };
    want == got || sorted(want) == sorted(got)
}

/// An argument no operation can have: the answer is an error, as in the reference.
struct BadArgument;

/// One trace: a gate, and the names its numbers stand for.
struct Trace {
    gate: Gate,
    max_age_ticks: u64,
    names: Vec<String>,
    offers: BTreeMap<String, OfferId>,
    owners: BTreeMap<String, OwnerId>,
    leases: BTreeMap<String, Lease>,
}

impl Trace {
    fn new(limits: &Value) -> Result<Self, String> {
        let whole = |key: &str| {
            let value = limits.get(key).unwrap_or(&Value::Null);
            let number = value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|&n| n > 0);
            let right = "it must be a whole number from 1 to 4294967295";
            number.ok_or_else(|| format!("limits.{key} is {value}; {right}"))
        };
        let max_age = limits.get("max_age_ms").unwrap_or(&Value::Null);
        let max_age_ticks = ticks(max_age).and_then(|ticks| u64::try_from(ticks).ok());
        let right = "it must be a number of milliseconds, 0 or more";
        let max_age_ticks =
            max_age_ticks.ok_or_else(|| format!("limits.max_age_ms is {max_age}; {right}"))?;
        let limits = Limits {
            slots: Slots::Units(whole("slots")?),
            queue: whole("waiting")?,
            queue_bytes: u64::MAX,
            max_wait_ms: FOREVER_MS,
            tombstones: Tombstones { count: usize::MAX, age_ms: FOREVER_MS },
            intake: Intake::QueueFirst,
            ..Limits::default()
        };
        Ok(Trace {
            gate: Gate::new(Stage::Model, limits),
            max_age_ticks,
            names: Vec::new(),
            offers: BTreeMap::new(),
            owners: BTreeMap::new(),
            leases: BTreeMap::new(),
        })
    }

    /// The answer to one operation; an error is about the file, not the operation.
    fn operate(&mut self, op: &str, args: &Value) -> Result<Value, String> {
        let answer = match op {
            "offer" => self.offer(args),
            "take" => self.take(args),
            "release" => self.release(args),
            "rotate" => self.rotate(args),
            "close" => {
                let now = self.gate.now();
                let mode = CloseMode::FinishQueue;
                self.gate.close(now, Closed::Maintenance, mode, &mut Vec::new());
                Ok(json!("ok"))
            }
            "open" => {
                self.gate.open();
                Ok(json!("ok"))
            }
            "snapshot" => Ok(self.snapshot()),
            other => {
                let known = "offer, take, release, rotate, close, open or snapshot";
                return Err(format!("unknown op `{other}`; an operation is {known}"));
            }
        };
        Ok(answer.unwrap_or_else(|BadArgument| error()))
    }

    fn offer(&mut self, args: &Value) -> Result<Value, BadArgument> {
        let name = name(args, "id")?;
        let owner = name_of(&mut self.owners, self::name(args, "owner")?, OwnerId);
        let generation = generation(args)?;
        let (born, now) = (time(args, "born_ms")?, time(args, "now_ms")?);
        let id = name_of(&mut self.offers, name, OfferId);
        if self.names.len() <= id.0 as usize {
            self.names.push(name.to_owned());
        }
        let offer = Offer {
            id,
            owner,
            generation,
            born,
            deadline: Timestamp::from_micros(born.as_micros().saturating_add(self.max_age_ticks)),
            tenant: TenantId(0),
            class: ClassId(0),
            cost: 1,
            bytes: 0,
            retry_of: None,
            supersedes: None,
        };
        offer.check(now).map_err(|_| BadArgument)?;
        let word = match self.gate.offer(now, offer, &mut Vec::new()) {
            Answer::Queued(_) => "queued",
            Answer::Admitted(lease) => {
                self.leases.insert(name.to_owned(), lease);
                "admitted"
            }
            Answer::Refused(refusal) => match refusal.reason {
                RefusalReason::Duplicate => return Err(BadArgument),
                RefusalReason::OutOfOrder => "out-of-order",
                reason => reason.disposition().label,
            },
        };
        Ok(json!(word))
    }

    fn take(&mut self, args: &Value) -> Result<Value, BadArgument> {
        let now = time(args, "now_ms")?;
        Ok(match self.gate.take(now) {
            Taken::Empty => json!(["empty", null]),
            Taken::Closed => json!(["closed", null]),
            Taken::Busy => json!(["busy", null]),
            Taken::Expired(offer) => json!(["expired", self.named(offer)]),
            Taken::Admitted(lease) => {
                let name = self.named(lease.offer).to_owned();
                let answer = json!(["admitted", name]);
                self.leases.insert(name, lease);
                answer
            }
            Taken::BeforeBirth(_) => return Err(BadArgument),
        })
    }

    fn release(&mut self, args: &Value) -> Result<Value, BadArgument> {
        let lease = self.leases.remove(name(args, "id")?).ok_or(BadArgument)?;
        let now = self.gate.now();
        let release = Release::Completed(Evidence::Completed);
        match self.gate.settle(now, lease, release, &mut Vec::new()) {
            Settled::Released(terminal) => Ok(json!(state(terminal))),
            Settled::Quarantined | Settled::AlreadyReleased => Err(BadArgument),
        }
    }

    fn rotate(&mut self, args: &Value) -> Result<Value, BadArgument> {
        let name = name(args, "owner")?;
        let generation = generation(args)?;
        let owner = name_of(&mut self.owners, name, OwnerId);
        let now = self.gate.now();
        let why = Cancelled::BargeIn;
        match self.gate.rotate(now, owner, generation, why, &mut Vec::new()) {
            Ok(_) => Ok(json!("ok")),
            Err(_) => Err(BadArgument),
        }
    }

    fn snapshot(&self) -> Value {
        let mut queued = Vec::new();
        let mut leases = Vec::new();
        let mut states = serde_json::Map::new();
        for held in self.gate.inventory() {
            let name = self.named(held.offer);
            let state = match held.place {
                Place::Queued => {
                    queued.push(name);
                    "queued"
                }
                Place::Active | Place::Quarantined(_) => {
                    leases.push(name);
                    if held.cancelled.is_some() { "cancelled" } else { "active" }
                }
                Place::Ended(terminal) => state(terminal),
            };
            states.insert(name.to_owned(), json!(state));
        }
        leases.sort_unstable();
        json!({"queued": queued, "leases": leases, "states": states})
    }

    fn named(&self, offer: OfferId) -> &str {
        &self.names[offer.0 as usize]
    }
}

fn state(terminal: Terminal) -> &'static str {
    terminal.disposition().label
}

fn name_of<Id: Copy>(names: &mut BTreeMap<String, Id>, name: &str, number: fn(u64) -> Id) -> Id {
    if let Some(&id) = names.get(name) {
        return id;
    }
    let id = number(names.len() as u64);
    names.insert(name.to_owned(), id);
    id
}

fn name<'a>(args: &'a Value, key: &str) -> Result<&'a str, BadArgument> {
    let name = args.get(key).and_then(Value::as_str);
    name.filter(|name| (1..=NAME_MAX).contains(&name.len())).ok_or(BadArgument)
}

fn generation(args: &Value) -> Result<Generation, BadArgument> {
    args.get("generation").and_then(Value::as_u64).map(Generation).ok_or(BadArgument)
}

fn time(args: &Value, key: &str) -> Result<Timestamp, BadArgument> {
    let ticks = args.get(key).and_then(ticks).ok_or(BadArgument)?;
    let since_epoch = u64::try_from(ticks + EPOCH_TICKS).map_err(|_| BadArgument)?;
    Ok(Timestamp::from_micros(since_epoch))
}

/// Milliseconds, whole or not, as ticks; `None` for what is no finite number.
fn ticks(ms: &Value) -> Option<i128> {
    const PER_MS: i128 = 1_000_000;
    if let Some(whole) = ms.as_i64() {
        return Some(i128::from(whole) * PER_MS);
    }
    let ticks = ms.as_f64()? * PER_MS as f64;
    ticks.is_finite().then_some(ticks.round() as i128)
}
