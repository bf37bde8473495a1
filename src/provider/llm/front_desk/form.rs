//! A booking that is being made, moved or cancelled: what is known, what is missing next.

use serde_json::{Value, json};

use super::slots::{Ask, Slots, last_day};
use super::when::{Day, Time};
use super::words::Words;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make a booking.
    Book,
    /// Move one.
    Move,
    /// Cancel one.
    Cancel,
}

/// What `find_slot` said, and to which question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The day asked for.
    pub day: Day,
    /// The party asked for.
    pub party: u32,
    /// The time asked for.
    pub time: Option<Time>,
    /// Free times.
    pub free: Vec<Time>,
}

/// A booking in the making.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// What is to be done.
    pub action: Action,
    /// The day; for a move the day it is now on.
    pub day: Option<Day>,
    /// The day to move to.
    pub new_day: Option<Day>,
    /// The time; for a move the new one.
    pub time: Option<Time>,
    /// How many people.
    pub party: Option<u32>,
    /// Under what name.
    pub name: Option<String>,
    /// Any time will do.
    pub any_time: bool,
    /// The last answer of `find_slot`.
    pub check: Option<Check>,
    /// How often tools failed for this form.
    pub failures: u32,
    /// `book` was called for it and has not returned.
    pub sent: bool,
}

impl Form {
    /// An empty form.
    pub fn new(action: Action) -> Form {
        Form {
            action,
            day: None,
            new_day: None,
            time: None,
            party: None,
            name: None,
            any_time: false,
            check: None,
            failures: 0,
            sent: false,
        }
    }

    /// The form that a call of `find_slot` or `book` was made from, as far as its arguments tell.
    pub fn from_arguments(arguments: &str) -> Form {
        let sayable = |c: &char| c.is_alphabetic() || matches!(c, ' ' | '\'' | '-');
        let value: Value = serde_json::from_str(arguments).unwrap_or(Value::Null);
        let text = |key: &str| value[key].as_str().unwrap_or_default();
        let name: String = text("name").chars().filter(sayable).take(60).collect();
        let name = name.trim().to_owned();
        Form {
            day: Day::from_key(text("day")),
            new_day: Day::from_key(text("new_day")),
            time: Time::from_key(text("time")),
            party: value["party"].as_u64().and_then(|party| u32::try_from(party).ok()),
            name: Some(name).filter(|name| !name.is_empty()),
            ..Form::new(match text("action") {
                "move" => Action::Move,
                "cancel" => Action::Cancel,
                _ => Action::Book,
            })
        }
    }

    /// The answer of `find_slot` that fits what is known now.
    pub fn fitting_check(&self) -> Option<&Check> {
        let fits = |check: &&Check| Some(check.day) == self.day && Some(check.party) == self.party;
        self.check.as_ref().filter(fits)
    }

    /// What has to be asked for next, as far as the form alone can tell.
    pub fn wanted(&self) -> Option<Ask> {
        let no_time = self.time.is_none();
        match self.action {
            Action::Book if self.day.is_none() => Some(Ask::Day),
            Action::Book if no_time && self.fitting_check().is_some() => Some(Ask::Pick),
            Action::Book if no_time && !self.any_time => Some(Ask::Time),
            Action::Book if self.party.is_none() => Some(Ask::Party),
            Action::Book if self.name.is_none() => Some(Ask::Name),
            Action::Book => None,
            Action::Move | Action::Cancel if self.name.is_none() => Some(Ask::Name),
            Action::Move | Action::Cancel if self.day.is_none() => Some(Ask::Day),
            Action::Move if self.new_day.is_none() && no_time => Some(Ask::NewDay),
            Action::Move if no_time => Some(Ask::Time),
            Action::Move | Action::Cancel => None,
        }
    }

    /// Takes over what was said; true when that changed something.
    pub fn fill(&mut self, slots: &Slots, words: &Words, asked: Option<Ask>) -> bool {
        let before = self.clone();
        match self.action {
            Action::Book | Action::Cancel => self.day = last_day(&slots.days).or(self.day),
            Action::Move => self.fill_move(slots, words, asked),
        }
        self.time = self.chosen(slots).or(self.time);
        self.any_time |= slots.any_time;
        self.party = slots.party.or(self.party);
        if slots.name.is_some() {
            self.name = slots.name.clone();
        }
        self.clear_named(slots, words, asked);
        *self != before
    }

    fn fill_move(&mut self, slots: &Slots, words: &Words, asked: Option<Ask>) {
        match slots.days.as_slice() {
            [] => {}
            [one] => {
                let before = one.at.checked_sub(1).map_or("", |at| words.at(at));
                let new = before == "to"
                    || before == "it"
                    || asked == Some(Ask::NewDay)
                    || self.day.is_some();
                let old = asked == Some(Ask::Day) || before == "from";
                if new && !old {
                    self.new_day = Some(one.day);
                } else {
                    self.day = Some(one.day);
                }
            }
            [first, .., last] => {
                self.day = Some(first.day);
                self.new_day = Some(last.day);
            }
        }
    }

    /// The time that was said, or the one that was picked from those on offer.
    fn chosen(&self, slots: &Slots) -> Option<Time> {
        let free = self.fitting_check().map_or(&[][..], |check| check.free.as_slice());
        match (slots.pick, slots.time) {
            (Some(usize::MAX), None) => free.last().copied(),
            (Some(at), None) => free.get(at).copied(),
            (_, None) => None,
            (_, Some(said)) => {
                let exact = free.iter().find(|time| time.same_face(said));
                let same_hour = |time: &&Time| time.face_hour() == said.face_hour();
                let lone = match free.iter().filter(same_hour).collect::<Vec<_>>().as_slice() {
                    [lone] if said.key().ends_with(":00") && self.time.is_none() => Some(*lone),
                    _ => None,
                };
                Some(exact.or(lone).copied().unwrap_or(said))
            }
        }
    }

    /// "Another day", "change the time": that part is asked for again, unless it was said anew.
    fn clear_named(&mut self, slots: &Slots, words: &Words, asked: Option<Ask>) {
        const OTHER: &[&str] = &["change", "different", "another", "other", "wrong"];
        let long = words.all().len() > 8;
        if long || (asked != Some(Ask::Change) && !words.says_any(OTHER)) {
            return;
        }
        if words.says_any(&["day", "date"]) && slots.days.is_empty() {
            match self.action {
                Action::Move => self.new_day = None,
                Action::Book | Action::Cancel => self.day = None,
            }
        }
        if words.says_any(&["time", "hour"]) && slots.time.is_none() {
            self.time = None;
            self.any_time = false;
            self.check = None;
        }
        if words.says("name") && slots.name.is_none() {
            self.name = None;
        }
        if words.says_any(&["people", "party", "number"]) && slots.party.is_none() {
            self.party = None;
        }
    }

    /// Arguments of `find_slot`.
    pub fn find_arguments(&self) -> String {
        let day = self.day.map(Day::key);
        match self.time {
            Some(time) => json!({"day": day, "time": time.key(), "party": self.party}),
            None => json!({"day": day, "party": self.party}),
        }
        .to_string()
    }

    /// Arguments of `book`.
    pub fn book_arguments(&self) -> String {
        let (day, time) = (self.day.map(Day::key), self.time.map(Time::key));
        match self.action {
            Action::Book => json!({
                "action": "book", "day": day, "time": time, "party": self.party, "name": self.name,
            }),
            Action::Move => json!({
                "action": "move", "day": day, "new_day": self.new_day.or(self.day).map(Day::key),
                "time": time, "name": self.name,
            }),
            Action::Cancel if time.is_some() => json!({
                "action": "cancel", "day": day, "time": time, "name": self.name,
            }),
            Action::Cancel => json!({"action": "cancel", "day": day, "name": self.name}),
        }
        .to_string()
    }
}
