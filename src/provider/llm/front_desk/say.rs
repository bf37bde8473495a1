//! The desk's sentences: short, spoken, without digits or markup, and true.

use super::persona::Persona;
use super::slots::Ask;
use super::when::{Day, Time, number};

/// Something to say, and what it asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spoken {
    /// The sentences.
    pub text: String,
    /// The question at their end.
    pub ask: Option<Ask>,
}

impl Spoken {
    /// Sentences that ask for nothing.
    pub fn plain(text: impl Into<String>) -> Spoken {
        Spoken { text: text.into(), ask: None }
    }

    /// Sentences that end in a question.
    pub fn asking(text: impl Into<String>, ask: Ask) -> Spoken {
        Spoken { text: text.into(), ask: Some(ask) }
    }

    /// The same behind some other sentences.
    pub fn after(self, before: &str) -> Spoken {
        Spoken { text: format!("{before} {}", self.text), ask: self.ask }
    }
}

/// The sentences of a text.
pub fn sentences(text: &str) -> Vec<&str> {
    text.split_inclusive(['.', '?', '!']).map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// `A`, `A or B`, `A, B or C`.
pub fn choice(times: &[Time]) -> String {
    let words: Vec<String> = times.iter().map(|time| time.spoken()).collect();
    match words.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

/// A confirmation number, sign by sign.
pub fn signs(confirmation: &str) -> String {
    let sign = |c: char| match c.to_digit(10) {
        Some(digit) => Some(number(digit)),
        None if c.is_ascii_alphabetic() => Some(c.to_ascii_uppercase().to_string()),
        None => None,
    };
    confirmation.chars().filter_map(sign).collect::<Vec<_>>().join(" ")
}

/// "Tomorrow at half past seven".
pub fn day_and_time(day: Option<Day>, time: Option<Time>) -> String {
    match (day, time) {
        (Some(day), Some(time)) => format!("{} at {}", day.spoken(), time.spoken()),
        (Some(day), None) => day.spoken(),
        (None, Some(time)) => format!("at {}", time.spoken()),
        (None, None) => String::new(),
    }
}

/// What the desk says to a caller who has said nothing yet.
pub fn greeting(persona: &Persona) -> Spoken {
    Spoken::plain(format!("Hello, this is {}. How can I help?", persona.name))
}

/// About the place, long enough to be interrupted.
pub fn about(persona: &Persona, can_book: bool) -> String {
    let end = if can_book {
        "Shall I look for a free table?"
    } else {
        "Is there anything else you would like to know?"
    };
    format!(
        "This is {}, and we look after a small restaurant. \
         The kitchen cooks a short list of dishes, and changes it with the seasons. \
         The dining room has a few tables by the window and a quiet corner at the back. \
         {} {} \
         We take bookings for up to {} people. {end}",
        persona.name,
        persona.address,
        persona.opening_hours,
        number(persona.party_max)
    )
}

/// How booking works, long enough to be interrupted.
pub fn how_booking_works(can_book: bool) -> String {
    let end = if can_book {
        "Only when the calendar has confirmed it do I give you a number."
    } else {
        "In this conversation I have no calendar, so I cannot do it for you."
    };
    format!(
        "Booking a table takes about a minute. \
         First you tell me the day and the time you have in mind. \
         Then I ask how many people are coming. \
         With that I look into the calendar, and if your time is taken, I offer others. \
         After that I need a name for the booking. \
         I read everything back to you, and you say yes or change it. {end}"
    )
}

/// A story, long enough to be interrupted.
pub const STORY: &str = "There was once an innkeeper who had only one table. \
     Every evening two travellers arrived at the same time and wanted it. \
     At first the innkeeper promised it to both of them, because that was easier. \
     Both came, both were hungry, and both were angry. \
     So she bought a small bell and put it by the door. \
     Whoever held the bell had the table, and everybody else was told the truth at once. \
     Some of them waited, some came back another day, and nobody was angry any more. \
     After a year she bought a second table, but she kept the bell.";

/// What the desk can do in this conversation.
pub fn abilities(can_book: bool) -> &'static str {
    if can_book {
        "I can book a table for you, move a booking or cancel one. \
         I can also tell you our opening hours and our address."
    } else {
        "I can tell you our opening hours and our address. \
         I cannot make bookings in this conversation, I am afraid."
    }
}

/// A short offer for a caller who was not understood.
pub fn hint(can_book: bool) -> &'static str {
    if can_book {
        "I can tell you our opening hours or book a table."
    } else {
        "I can tell you our opening hours or our address."
    }
}

/// For requests in another language.
pub const ONLY_ENGLISH: &str = "I am sorry, this front desk speaks only English.";
