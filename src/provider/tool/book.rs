//! The tool `book`: makes, moves or cancels a booking. Once started it runs to its end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::ToolRun;
use super::calendar::{Answer, Booking, Calendar, Change, clock, shared};
use super::find_slot::{DAY, clocks, delay, minute, object, outcome, party, text};
use crate::dialogue::{Effect, ToolOutcome};
use crate::evidence::Evidence;
use crate::provider::{BuildError, Cancel, Ended, Entry, Surroundings};

/// Its line in the table.
pub const ENTRY: Entry<dyn super::Tool> = Entry {
    name: "book",
    about: "makes, moves and cancels bookings in the built-in calendar",
    build,
};

fn build(table: &toml::Table, _: &Surroundings) -> Result<Arc<dyn super::Tool>, BuildError> {
    Ok(Arc::new(Book::new(shared(), delay(table)?)))
}

/// `book` over a calendar.
#[derive(Debug)]
pub struct Book {
    calendar: Arc<Mutex<Calendar>>,
    delay: Duration,
}

impl Book {
    /// Writes into this calendar, after a delay.
    pub fn new(calendar: Arc<Mutex<Calendar>>, delay: Duration) -> Book {
        Book { calendar, delay }
    }

    fn change(&self, arguments: &str, key: &str) -> Result<String, String> {
        let change = read(arguments)?;
        let mut calendar = self.calendar.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = calendar.change(key, change);
        drop(calendar);
        written(&answer)
    }
}

impl super::Tool for Book {
    fn description(&self) -> String {
        "Makes a booking, or moves or cancels one. Call it only after the caller has agreed.".into()
    }

    fn parameters(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "action": {"type": "string", "enum": ["book", "move", "cancel"]},
                "day": {"type": "string", "description": DAY},
                "new_day": {"type": "string", "description": "for a move: the day to move to"},
                "time": {"type": "string", "description": "24-hour time, for example 19:30"},
                "party": {"type": "integer", "minimum": 1, "description": "how many people"},
                "name": {"type": "string", "description": "under what name"},
            },
            "required": ["day", "name"],
        })
    }

    fn effect(&self) -> Effect {
        Effect::MustFinish
    }

    fn run(self: Arc<Self>, arguments: String, idempotency_key: String, cancel: Cancel) -> ToolRun {
        Box::pin(async move {
            if cancel.is_cancelled() {
                return (ToolOutcome::Cancelled, Ended::stopped(Evidence::NeverStarted));
            }
            if !self.delay.is_zero() {
                tokio::time::sleep(self.delay).await;
            }
            (outcome(self.change(&arguments, &idempotency_key)), Ended::completed())
        })
    }
}

fn read(arguments: &str) -> Result<Change, String> {
    let value = object(arguments)?;
    let (day, name) = (text(&value, "day")?.to_owned(), text(&value, "name")?.to_owned());
    match value["action"].as_str().unwrap_or("book") {
        "book" => {
            Ok(Change::Book { day, minute: minute(&value["time"])?, party: party(&value)?, name })
        }
        "move" => {
            let new_day = match &value["new_day"] {
                Value::Null => day.clone(),
                _ => text(&value, "new_day")?.to_owned(),
            };
            Ok(Change::Move { day, name, new_day, minute: minute(&value["time"])? })
        }
        "cancel" => {
            let minute = match &value["time"] {
                Value::Null => None,
                time => Some(minute(time)?),
            };
            Ok(Change::Cancel { day, minute, name })
        }
        other => Err(format!("there is no action \"{other}\"; one of: book, move, cancel")),
    }
}

fn written(answer: &Answer) -> Result<String, String> {
    let booking = |status: &str, booking: &Booking| {
        json!({
            "status": status,
            "confirmation": booking.number.to_string(),
            "day": booking.day,
            "time": clock(booking.minute),
            "party": booking.party,
        })
    };
    let value = match answer {
        Answer::Booked(made) => booking("booked", made),
        Answer::Moved(moved) => booking("booking_moved", moved),
        Answer::Cancelled(gone) => booking("booking_cancelled", gone),
        Answer::Taken(free) => json!({"status": "taken", "free": clocks(free)}),
        Answer::Several(times) => json!({"status": "several", "times": clocks(times)}),
        Answer::NotFound => json!({"status": "not_found"}),
        Answer::Closed => json!({"status": "closed"}),
        Answer::Full => return Err("the calendar takes no more bookings".into()),
        Answer::Free(_) => return Err("the calendar answered a question nobody asked".into()),
    };
    Ok(value.to_string())
}
