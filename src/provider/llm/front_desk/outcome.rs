//! What a tool's result, as the history shows it, says; nothing is read into it.

use serde_json::Value;

use super::when::Time;

/// Why a tool did not do what it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It failed and changed nothing.
    Failed,
    /// It was refused or its time ran out before it started.
    Busy,
    /// It was stopped before it changed anything.
    Stopped,
    /// Nobody can say whether it took effect.
    Unknown,
}

/// What `find_slot` said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Free times, the nearest ones.
    Free(Vec<Time>),
    /// The place is closed on that day.
    Closed,
    /// It did not work.
    Trouble(Trouble),
}

/// What `book` said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Booked {
    /// The booking stands, under this number.
    Made(Option<String>),
    /// The booking was moved and keeps this number.
    Moved(Option<String>),
    /// The booking is gone.
    Cancelled,
    /// The time is not free; these are.
    Taken(Vec<Time>),
    /// The place is closed on that day.
    Closed,
    /// There is no such booking.
    NotFound,
    /// There are several such bookings, at these times.
    Several(Vec<Time>),
    /// It did not work.
    Trouble(Trouble),
}

/// What `handoff` or `callback` said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A person has answered, or the call back is recorded.
    Done,
    /// It was passed on and nobody has answered yet.
    Pending,
    /// It did not work.
    Trouble(Trouble),
}

/// Reads a result of `find_slot`.
pub fn found(output: &str) -> Found {
    let value = parse(output);
    match status(&value) {
        "ok" if value["free"].is_array() => Found::Free(times(&value["free"])),
        "closed" => Found::Closed,
        _ => Found::Trouble(trouble(&value, output).unwrap_or(Trouble::Failed)),
    }
}

/// Reads a result of `book`. What cannot be read is unknown, not failed.
pub fn booked(output: &str) -> Booked {
    let value = parse(output);
    let number = || match &value["confirmation"] {
        Value::String(text) if !text.is_empty() => Some(text.chars().take(12).collect()),
        Value::Number(number) => Some(number.to_string().chars().take(12).collect()),
        _ => None,
    };
    match status(&value) {
        "booked" => Booked::Made(number()),
        "booking_moved" => Booked::Moved(number()),
        "booking_cancelled" => Booked::Cancelled,
        "taken" => Booked::Taken(times(&value["free"])),
        "closed" => Booked::Closed,
        "not_found" => Booked::NotFound,
        "several" => Booked::Several(times(&value["times"])),
        _ => Booked::Trouble(trouble(&value, output).unwrap_or(Trouble::Unknown)),
    }
}

/// Reads a result of `handoff` or `callback`.
pub fn asked(output: &str) -> Asked {
    let value = parse(output);
    match status(&value) {
        "acknowledged" | "connected" | "accepted" | "recorded" | "committed" => Asked::Done,
        "offered" | "pending" | "ringing" => Asked::Pending,
        "busy" => Asked::Trouble(Trouble::Busy),
        "no_answer" | "declined" | "voicemail" | "timeout" => Asked::Trouble(Trouble::Failed),
        _ => Asked::Trouble(trouble(&value, output).unwrap_or(Trouble::Unknown)),
    }
}

fn parse(output: &str) -> Value {
    serde_json::from_str(output).unwrap_or(Value::Null)
}

fn status(value: &Value) -> &str {
    ["status", "outcome", "state"].iter().find_map(|key| value[*key].as_str()).unwrap_or("")
}

fn trouble(value: &Value, output: &str) -> Option<Trouble> {
    match status(value) {
        "unknown" => return Some(Trouble::Unknown),
        "failed" | "error" => return Some(Trouble::Failed),
        "cancelled" | "canceled" => return Some(Trouble::Stopped),
        "refused" | "overloaded" | "expired" | "closed" | "stale" => return Some(Trouble::Busy),
        _ => {}
    }
    let text = value["error"].as_str().unwrap_or(output).to_lowercase();
    let begins = |word: &str| text.starts_with(word);
    if begins("not run: the caller") || begins("cancelled") {
        return Some(Trouble::Stopped);
    }
    if begins("not run") {
        return Some(Trouble::Busy);
    }
    if begins("failed") {
        return Some(Trouble::Failed);
    }
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if says(&["unknown"]) {
        Some(Trouble::Unknown)
    } else if says(&["not run", "overloaded", "refused", "expired", "queue", "capacity", "busy"]) {
        Some(Trouble::Busy)
    } else if says(&["cancel"]) {
        Some(Trouble::Stopped)
    } else if says(&["error", "fail"]) || value["error"].is_string() {
        Some(Trouble::Failed)
    } else {
        None
    }
}

fn times(list: &Value) -> Vec<Time> {
    let keys = list.as_array().map_or(&[][..], Vec::as_slice);
    let read = keys.iter().filter_map(Value::as_str).filter_map(Time::from_key);
    read.take(3).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_yes_is_a_booking() {
        assert_eq!(
            booked(r#"{"status":"booked","confirmation":"417"}"#),
            Booked::Made(Some("417".into()))
        );
        for unclear in ["", "booked", "{}", "[1]", r#"{"status":"maybe"}"#, "null"] {
            assert_eq!(booked(unclear), Booked::Trouble(Trouble::Unknown), "{unclear}");
        }
        assert_eq!(booked(r#"{"outcome":"failed"}"#), Booked::Trouble(Trouble::Failed));
        assert_eq!(booked(r#"{"error":"overloaded"}"#), Booked::Trouble(Trouble::Busy));
        assert_eq!(booked(r#"{"outcome":"cancelled"}"#), Booked::Trouble(Trouble::Stopped));
        let error = |text: &str| booked(&format!(r#"{{"error":"{text}"}}"#));
        let trouble = |text: &str| match error(text) {
            Booked::Trouble(trouble) => trouble,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(trouble("unknown: it may or may not have taken effect"), Trouble::Unknown);
        assert_eq!(trouble("failed: the unknown queue is full"), Trouble::Failed);
        assert_eq!(trouble("cancelled before it took effect"), Trouble::Stopped);
        assert_eq!(trouble("not run: the caller took the floor"), Trouble::Stopped);
        assert_eq!(trouble("not run: it waited too long for a free unit"), Trouble::Busy);
        assert_eq!(booked(r#"{"outcome":"unknown"}"#), Booked::Trouble(Trouble::Unknown));
    }
}
