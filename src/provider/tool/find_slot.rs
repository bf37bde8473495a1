//! The tool `find_slot`: which times of a day are free. It only reads.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::ToolRun;
use super::calendar::{Answer, Calendar, clock, minute_of, shared};
use crate::dialogue::{Effect, ToolOutcome};
use crate::evidence::Evidence;
use crate::provider::{BuildError, Cancel, Ended, Entry, Surroundings};

/// Its line in the table.
pub const ENTRY: Entry<dyn super::Tool> =
    Entry { name: "find_slot", about: "looks up free times in the built-in calendar", build };

fn build(table: &toml::Table, _: &Surroundings) -> Result<Arc<dyn super::Tool>, BuildError> {
    Ok(Arc::new(FindSlot::new(shared(), delay(table)?)))
}

/// `find_slot` over a calendar.
#[derive(Debug)]
pub struct FindSlot {
    calendar: Arc<Mutex<Calendar>>,
    delay: Duration,
}

impl FindSlot {
    /// Looks into this calendar, after a delay.
    pub fn new(calendar: Arc<Mutex<Calendar>>, delay: Duration) -> FindSlot {
        FindSlot { calendar, delay }
    }

    fn look(&self, arguments: &str) -> Result<String, String> {
        let value = object(arguments)?;
        let day = text(&value, "day")?;
        party(&value)?;
        let minute = match &value["time"] {
            Value::Null => None,
            time => Some(minute(time)?),
        };
        let calendar = self.calendar.lock().unwrap_or_else(PoisonError::into_inner);
        let found = calendar.find(day, minute);
        drop(calendar);
        Ok(match found {
            Answer::Free(free) => {
                json!({"status": "ok", "day": day, "free": clocks(&free)}).to_string()
            }
            _ => json!({"status": "closed", "day": day}).to_string(),
        })
    }
}

impl super::Tool for FindSlot {
    fn description(&self) -> String {
        "Looks up to three free times for a table, the nearest to the time asked for.".into()
    }

    fn parameters(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "day": {"type": "string", "description": DAY},
                "time": {"type": "string", "description": "24-hour time, for example 19:30"},
                "party": {"type": "integer", "minimum": 1, "description": "how many people"},
            },
            "required": ["day", "party"],
        })
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    fn run(self: Arc<Self>, arguments: String, _: String, cancel: Cancel) -> ToolRun {
        Box::pin(async move {
            let stopped = match self.delay.is_zero() {
                true => cancel.is_cancelled(),
                false => tokio::time::timeout(self.delay, cancel.cancelled()).await.is_ok(),
            };
            if stopped {
                return (ToolOutcome::Cancelled, Ended::stopped(Evidence::AbortAcknowledged));
            }
            (outcome(self.look(&arguments)), Ended::completed())
        })
    }
}

/// How days are written in arguments.
pub(super) const DAY: &str =
    "the day as the caller said it: today, tomorrow, friday, next friday, 21 june";

/// Half hours as `19:30`.
pub(super) fn clocks(minutes: &[u16]) -> Vec<String> {
    minutes.iter().map(|minute| clock(*minute)).collect()
}

/// What the arguments' check or the calendar said, as an outcome.
pub(super) fn outcome(result: Result<String, String>) -> ToolOutcome {
    match result {
        Ok(result) => ToolOutcome::Completed(result),
        Err(why) => ToolOutcome::Failed(why),
    }
}

/// The arguments, if they are a JSON object.
pub(super) fn object(arguments: &str) -> Result<Value, String> {
    let value: Value = serde_json::from_str(arguments)
        .map_err(|error| format!("the arguments are not JSON ({error}); give an object"))?;
    if value.is_object() { Ok(value) } else { Err("the arguments are no JSON object".into()) }
}

/// A text that has to be there.
pub(super) fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str, String> {
    let text = value[key].as_str().map(str::trim).unwrap_or_default();
    let right = (1..=100).contains(&text.len());
    right.then_some(text).ok_or_else(|| format!("`{key}` must be a text of 1 to 100 bytes"))
}

/// How many people.
pub(super) fn party(value: &Value) -> Result<u32, String> {
    let party = value["party"].as_u64().and_then(|party| u32::try_from(party).ok());
    party
        .filter(|party| (1..=99).contains(party))
        .ok_or_else(|| "`party` must be a whole number from 1 to 99".to_owned())
}

/// A time of day.
pub(super) fn minute(time: &Value) -> Result<u16, String> {
    let minute = time.as_str().and_then(minute_of);
    minute.ok_or_else(|| "`time` must be a time such as \"19:30\"".to_owned())
}

/// The one key that these tools have: how long they pretend to work, for demonstrations.
pub(super) fn delay(table: &toml::Table) -> Result<Duration, BuildError> {
    let wrong = |key: &str, problem: String, right: &str| BuildError::Config {
        key: key.to_owned(),
        problem,
        right: right.to_owned(),
    };
    let mut delay = Duration::ZERO;
    for (key, value) in table {
        match key.as_str() {
            "provider" => {}
            "delay_ms" => {
                let ms = value.as_integer().and_then(|ms| u64::try_from(ms).ok());
                let ms = ms.filter(|ms| *ms <= 60_000).ok_or_else(|| {
                    wrong(key, format!("{value} is out of range"), "a whole number, 0 to 60000")
                })?;
                delay = Duration::from_millis(ms);
            }
            _ => return Err(wrong(key, "no such key".into(), "the only key is delay_ms")),
        }
    }
    Ok(delay)
}
