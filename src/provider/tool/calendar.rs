//! The calendar that the built-in tools share: bounded, in memory, and without a clock.
//!
//! Days are what callers call them ("tomorrow", "friday", "21 june"): nothing in here knows what
//! day it is, so a booking for "tomorrow" stays under that word. It is a calendar for
//! demonstrations and first tries, and a pattern for a real one. A table stands for half an hour;
//! Monday is closed; on Fridays and Saturdays regular guests have all tables at seven and at half
//! past seven, so that a first try also meets a time that is taken.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock};

/// Tables for each half hour.
const TABLES: usize = 4;
/// Bookings that are kept; then the calendar is full.
const MOST_BOOKINGS: usize = 2_000;
/// Results that are kept for their idempotency keys; the oldest is forgotten first.
const MOST_KEYS: usize = 2_000;
/// Letters of a day or a name that are kept.
const MOST_LETTERS: usize = 60;
/// Free times that are offered.
const OFFERED: usize = 3;
/// First and last half hours of lunch and dinner, in minutes from midnight.
const MEALS: [(u16, u16); 2] = [(12 * 60, 13 * 60 + 30), (17 * 60 + 30, 21 * 60)];

/// A booking, as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Booking {
    /// The day, in the caller's word.
    pub day: String,
    /// Minutes from midnight.
    pub minute: u16,
    /// How many people.
    pub party: u32,
    /// Under what name.
    pub name: String,
    /// Its confirmation number.
    pub number: u32,
}

/// What the calendar says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Free half hours, the nearest to the one asked for.
    Free(Vec<u16>),
    /// Closed on that day.
    Closed,
    /// The booking stands.
    Booked(Booking),
    /// The booking moved and stands like this.
    Moved(Booking),
    /// The booking is gone.
    Cancelled(Booking),
    /// That half hour is taken; these are free.
    Taken(Vec<u16>),
    /// There is no such booking.
    NotFound,
    /// There are several such bookings, at these times.
    Several(Vec<u16>),
    /// No room for more bookings.
    Full,
}

/// What a change is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Make a booking.
    Book {
        /// The day.
        day: String,
        /// Minutes from midnight.
        minute: u16,
        /// How many people.
        party: u32,
        /// Under what name.
        name: String,
    },
    /// Move one.
    Move {
        /// The day it is on.
        day: String,
        /// Under what name.
        name: String,
        /// The day it is to be on.
        new_day: String,
        /// The time it is to be at.
        minute: u16,
    },
    /// Cancel one.
    Cancel {
        /// The day it is on.
        day: String,
        /// The time it is at, where there are several.
        minute: Option<u16>,
        /// Under what name.
        name: String,
    },
}

/// All bookings of a process.
#[derive(Debug)]
pub struct Calendar {
    bookings: Vec<Booking>,
    answers: BTreeMap<String, Answer>,
    keys: VecDeque<String>,
    next_number: u32,
}

impl Default for Calendar {
    fn default() -> Calendar {
        Calendar {
            bookings: Vec::new(),
            answers: BTreeMap::new(),
            keys: VecDeque::new(),
            next_number: 417,
        }
    }
}

/// The calendar of this process.
pub fn shared() -> Arc<Mutex<Calendar>> {
    static SHARED: OnceLock<Arc<Mutex<Calendar>>> = OnceLock::new();
    SHARED.get_or_init(Arc::default).clone()
}

impl Calendar {
    /// Free half hours of a day, the nearest to this one first found, in order.
    pub fn find(&self, day: &str, minute: Option<u16>) -> Answer {
        let day = plain(day);
        if closed(&day) {
            return Answer::Closed;
        }
        Answer::Free(self.free(&day, minute))
    }

    /// Makes a change once: the same key again gives the first answer again. An empty key is no
    /// key.
    pub fn change(&mut self, key: &str, change: Change) -> Answer {
        if let Some(answer) = self.answers.get(key) {
            return answer.clone();
        }
        let answer = match change {
            Change::Book { day, minute, party, name } => {
                self.book(plain(&day), minute, party, plain(&name))
            }
            Change::Move { day, name, new_day, minute } => {
                self.move_to(&plain(&day), &plain(&name), plain(&new_day), minute)
            }
            Change::Cancel { day, minute, name } => {
                self.cancel(&plain(&day), minute, &plain(&name))
            }
        };
        if !key.is_empty() {
            self.remember(key.to_owned(), answer.clone());
        }
        answer
    }

    /// All bookings, oldest first.
    pub fn bookings(&self) -> &[Booking] {
        &self.bookings
    }

    fn remember(&mut self, key: String, answer: Answer) {
        if self.keys.len() == MOST_KEYS
            && let Some(oldest) = self.keys.pop_front()
        {
            self.answers.remove(&oldest);
        }
        self.keys.push_back(key.clone());
        self.answers.insert(key, answer);
    }

    fn book(&mut self, day: String, minute: u16, party: u32, name: String) -> Answer {
        if closed(&day) {
            return Answer::Closed;
        }
        // The same guest asking for the same table again means the booking that already stands.
        let same = |made: &&Booking| {
            (&made.day, made.minute, made.party, &made.name) == (&day, minute, party, &name)
        };
        if let Some(made) = self.bookings.iter().find(same) {
            return Answer::Booked(made.clone());
        }
        if !self.has_room(&day, minute) {
            return Answer::Taken(self.free(&day, Some(minute)));
        }
        if self.bookings.len() == MOST_BOOKINGS {
            return Answer::Full;
        }
        let number = self.next_number;
        self.next_number += 1;
        let booking = Booking { day, minute, party, name, number };
        self.bookings.push(booking.clone());
        Answer::Booked(booking)
    }

    fn move_to(&mut self, day: &str, name: &str, new_day: String, minute: u16) -> Answer {
        let at = match self.only(day, None, name) {
            Ok(at) => at,
            Err(answer) => return answer,
        };
        if closed(&new_day) {
            return Answer::Closed;
        }
        if !self.has_room(&new_day, minute) {
            return Answer::Taken(self.free(&new_day, Some(minute)));
        }
        let booking = &mut self.bookings[at];
        booking.day = new_day;
        booking.minute = minute;
        Answer::Moved(booking.clone())
    }

    fn cancel(&mut self, day: &str, minute: Option<u16>, name: &str) -> Answer {
        match self.only(day, minute, name) {
            Ok(at) => Answer::Cancelled(self.bookings.remove(at)),
            Err(answer) => answer,
        }
    }

    /// The place of the one booking that is meant.
    fn only(&self, day: &str, minute: Option<u16>, name: &str) -> Result<usize, Answer> {
        let meant = |booking: &Booking| {
            booking.day == day
                && booking.name == name
                && minute.is_none_or(|minute| booking.minute == minute)
        };
        let places: Vec<usize> =
            (0..self.bookings.len()).filter(|at| meant(&self.bookings[*at])).collect();
        match places.as_slice() {
            [] => Err(Answer::NotFound),
            [one] => Ok(*one),
            many => {
                let times = many.iter().take(OFFERED).map(|at| self.bookings[*at].minute);
                Err(Answer::Several(times.collect()))
            }
        }
    }

    fn has_room(&self, day: &str, minute: u16) -> bool {
        let seated =
            |booking: &&Booking| booking.day == day && booking.minute.abs_diff(minute) < 30;
        served(minute)
            && !regulars(day, minute)
            && self.bookings.iter().filter(seated).count() < TABLES
    }

    fn free(&self, day: &str, minute: Option<u16>) -> Vec<u16> {
        let half_hours = MEALS.iter().flat_map(|(first, last)| (*first..=*last).step_by(30));
        let asked = minute.filter(|minute| minute % 30 != 0);
        let mut free: Vec<u16> =
            half_hours.chain(asked).filter(|minute| self.has_room(day, *minute)).collect();
        // Without a time asked for, early, middle and late dinner say more than three half hours.
        match minute {
            Some(minute) => free.sort_by_key(|free| (free.abs_diff(minute), *free)),
            None => free.sort_by_key(|free| ([1080, 1170, 1260].iter().all(|m| m != free), *free)),
        }
        free.truncate(OFFERED);
        free.sort_unstable();
        free
    }
}

/// Names and days compare without case and odd spaces, and are short.
fn plain(text: &str) -> String {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    words.join(" ").chars().take(MOST_LETTERS).collect()
}

fn served(minute: u16) -> bool {
    MEALS.iter().any(|(first, last)| (*first..=*last).contains(&minute))
}

fn closed(day: &str) -> bool {
    day.ends_with("monday")
}

fn regulars(day: &str, minute: u16) -> bool {
    (day.ends_with("friday") || day.ends_with("saturday")) && (1140..1200).contains(&minute)
}

/// `19:30`.
pub fn clock(minute: u16) -> String {
    format!("{:02}:{:02}", minute / 60, minute % 60)
}

/// Minutes from midnight of `19:30`, `7:30 pm`, `7pm`.
pub fn minute_of(text: &str) -> Option<u16> {
    let lower = text.trim().to_lowercase().replace('.', "");
    let (digits, after_noon) = match lower.strip_suffix("pm") {
        Some(digits) => (digits, Some(true)),
        None => match lower.strip_suffix("am") {
            Some(digits) => (digits, Some(false)),
            None => (lower.as_str(), None),
        },
    };
    let digits = digits.trim();
    let (hour, minute) = match (digits.split_once(':'), after_noon) {
        (Some((hour, minute)), _) => (hour.parse::<u16>().ok()?, minute.parse::<u16>().ok()?),
        (None, Some(_)) => (digits.parse().ok()?, 0),
        (None, None) => return None,
    };
    let hour = match after_noon {
        Some(after) if (1..=12).contains(&hour) => hour % 12 + if after { 12 } else { 0 },
        Some(_) => return None,
        None => hour,
    };
    (hour < 24 && minute < 60).then_some(hour * 60 + minute)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book(day: &str, minute: u16, name: &str) -> Change {
        Change::Book { day: day.into(), minute, party: 2, name: name.into() }
    }

    fn number(answer: &Answer) -> u32 {
        match answer {
            Answer::Booked(booking) | Answer::Moved(booking) => booking.number,
            other => panic!("no booking: {other:?}"),
        }
    }

    #[test]
    fn the_same_key_books_once() {
        let mut calendar = Calendar::default();
        let first = calendar.change("k1", book("tomorrow", 1170, "Smith"));
        let again = calendar.change("k1", book("tomorrow", 1200, "Somebody else"));
        assert_eq!(first, again);
        assert_eq!(calendar.bookings().len(), 1);
        let other_key = calendar.change("k2", book("Tomorrow ", 1170, "SMITH"));
        assert_eq!(number(&other_key), number(&first), "the same guest and table: no second one");
        assert_eq!(calendar.bookings().len(), 1);
    }

    #[test]
    fn a_full_half_hour_offers_its_neighbours() {
        let mut calendar = Calendar::default();
        for at in 0..TABLES {
            number(&calendar.change("", book("sunday", 1140, &format!("guest {at}"))));
        }
        let answer = calendar.change("", book("sunday", 1140, "late"));
        assert_eq!(answer, Answer::Taken(vec![1080, 1110, 1170]));
        assert_eq!(calendar.find("friday", Some(1140)), Answer::Free(vec![1080, 1110, 1200]));
        assert_eq!(calendar.find("next monday", None), Answer::Closed);
        assert_eq!(calendar.find("tomorrow", None), Answer::Free(vec![1080, 1170, 1260]));
        assert_eq!(
            calendar.find("tomorrow", Some(180)),
            Answer::Free(vec![720, 750, 780]),
            "outside the meals nothing is free"
        );
    }

    #[test]
    fn moving_keeps_the_number_and_cancelling_frees_the_table() {
        let mut calendar = Calendar::default();
        let made = number(&calendar.change("", book("sunday", 1140, "Smith")));
        let change = Change::Move {
            day: "sunday".into(),
            name: "smith".into(),
            new_day: "tuesday".into(),
            minute: 1200,
        };
        assert_eq!(number(&calendar.change("", change)), made);
        let gone =
            |day: &str| Change::Cancel { day: day.into(), minute: None, name: "Smith".into() };
        assert_eq!(calendar.change("", gone("sunday")), Answer::NotFound);
        assert!(matches!(calendar.change("", gone("tuesday")), Answer::Cancelled(_)));
        assert!(calendar.bookings().is_empty());
    }

    #[test]
    fn two_of_one_name_are_told_apart_by_their_time() {
        let mut calendar = Calendar::default();
        calendar.change("", book("sunday", 1140, "Smith"));
        calendar.change("", book("sunday", 1200, "Smith"));
        let cancel = |minute| Change::Cancel { day: "sunday".into(), minute, name: "Smith".into() };
        assert_eq!(calendar.change("", cancel(None)), Answer::Several(vec![1140, 1200]));
        assert!(matches!(calendar.change("", cancel(Some(1200))), Answer::Cancelled(_)));
    }

    #[test]
    fn everything_is_bounded() {
        let mut calendar = Calendar::default();
        for at in 0..3_000 {
            calendar.change(&format!("key {at}"), book(&format!("day {at}"), 1140, "Smith"));
        }
        assert_eq!(calendar.bookings().len(), MOST_BOOKINGS);
        assert_eq!(calendar.answers.len(), MOST_KEYS);
        assert_eq!(calendar.keys.len(), MOST_KEYS);
        assert_eq!(calendar.change("", book("new day", 1140, "Smith")), Answer::Full);
    }

    #[test]
    fn times_as_models_write_them() {
        let all = ["19:30", "7:30 pm", "7 p.m.", "12 am", "12pm", "25:00", "7", "noon", "0 pm"];
        let read: Vec<Option<u16>> = all.iter().map(|text| minute_of(text)).collect();
        let right =
            [Some(1170), Some(1170), Some(1140), Some(0), Some(720), None, None, None, None];
        assert_eq!(read, right);
    }
}
