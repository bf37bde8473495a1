//! What a booking needs, picked out of a caller's words: day, time, party, name.

use super::name::announced_name;
use super::when::{Day, SaidDay, Time, days, nth};
use super::words::Words;

/// What the agent asked for last, as far as the caller heard it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Which day.
    Day,
    /// What time.
    Time,
    /// How many people.
    Party,
    /// What name.
    Name,
    /// Which of the free times.
    Pick,
    /// The new day of a booking that moves.
    NewDay,
    /// What to change.
    Change,
    /// Whether to do it: make, move or cancel the booking.
    Confirm,
    /// Whether to try the tool again.
    Retry,
    /// Whether to start a booking.
    Start,
    /// Whether to ask for a person.
    Person,
    /// Whether to ask for a call back.
    Callback,
    /// Whether the caller wants anything else.
    Else,
}

/// What was said of a booking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// Days, in order.
    pub days: Vec<SaidDay>,
    /// The last time of day.
    pub time: Option<Time>,
    /// How many people.
    pub party: Option<u32>,
    /// The caller's name.
    pub name: Option<String>,
    /// Any time will do, or the caller asks what is free.
    pub any_time: bool,
    /// The place in a list of times that was read out: 0 is the first, `usize::MAX` the last.
    pub pick: Option<usize>,
}

impl Slots {
    /// Nothing was said of a booking.
    pub fn is_empty(&self) -> bool {
        *self == Slots::default()
    }

    /// Reads a caller's words. `asked` is what was asked for, `wanted` what is missing next.
    pub fn of(words: &Words, asked: Option<Ask>, wanted: Option<Ask>) -> Slots {
        let mut reader = Reader { words, used: vec![false; words.all().len()], said: None };
        let picks = asked == Some(Ask::Pick);
        let pick = if picks { pick(words) } else { None };
        let day_asked = matches!(asked, Some(Ask::Day | Ask::NewDay));
        let days = if pick.is_some() { Vec::new() } else { days(words, day_asked) };
        for day in &days {
            reader.take(day.at, day.len);
        }
        reader.clear_times();
        let mut party = reader.clear_party();
        reader.numbers_behind(&["at", "around", "about", "by", "before", "after", "past"]);
        match asked.or(wanted) {
            Some(Ask::Party) => party = party.or_else(|| reader.last_number()),
            Some(Ask::Time | Ask::Pick) => reader.bare_hour(),
            _ => {}
        }
        party = party.or_else(|| reader.number_behind_for());
        if reader.said.is_none() && asked != Some(Ask::Party) {
            reader.numbers_behind(&["it", "to", "for", "no", "say"]);
        }
        let time = reader.said;
        let name = announced_name(words);
        let any_time = words.says_any(ANY_TIME);
        Slots { days, time, party, name, any_time, pick }
    }
}

const ANY_TIME: &[&str] = &[
    "any time",
    "anytime",
    "whenever",
    "what times",
    "which times",
    "what time do you have",
    "what do you have",
    "what is free",
    "when is free",
    "anything free",
    "any free",
    "available",
    "availability",
    "does not matter",
    "do not mind",
    "do not care",
    "you choose",
    "what is the earliest",
    "the earliest",
    "first free",
];

struct Reader<'a> {
    words: &'a Words,
    used: Vec<bool>,
    said: Option<Time>,
}

impl Reader<'_> {
    fn take(&mut self, at: usize, len: usize) {
        self.used.iter_mut().skip(at).take(len).for_each(|used| *used = true);
    }

    fn number(&self, at: usize) -> Option<u32> {
        let free = self.used.get(at).is_some_and(|used| !used);
        let word = self.words.at(at);
        if !free || self.pronoun(at) {
            return None;
        }
        match word {
            "two" => Some(2),
            "ate" => Some(8),
            _ if word.len() <= 4 && word.bytes().all(|b| b.is_ascii_digit()) => word.parse().ok(),
            _ => None,
        }
    }

    /// "One" in "the last one", "the seven one" is no number.
    fn pronoun(&self, at: usize) -> bool {
        const BEFORE: &[&str] = &["last", "later", "earlier", "that", "this", "other", "which"];
        let before = at.checked_sub(1).map_or("", |before| self.words.at(before));
        self.words.at(at) == "1"
            && (BEFORE.contains(&before)
                || nth(before).is_some()
                || before.ends_with(|c: char| c.is_ascii_digit())
                || matches!(before, "oclock" | "pm" | "quarter" | "noon"))
    }

    /// Times that need no context: "half past seven", "7:30", "7 30", "8 oclock", "7 pm", "noon".
    fn clear_times(&mut self) {
        for at in 0..self.words.all().len() {
            if self.used[at] {
                continue;
            }
            if let Some((time, len)) = self.clear_time(at) {
                let (time, extra) = self.with_half_of_day(time, at + len);
                if at == 0 || self.words.at(at - 1) != "not" {
                    self.said = Some(time);
                }
                self.take(at, len + extra);
            }
        }
    }

    fn clear_time(&self, at: usize) -> Option<(Time, usize)> {
        let (one, two, three) = (self.words.at(at), self.words.at(at + 1), self.words.at(at + 2));
        match one {
            "noon" | "midday" | "lunchtime" => return Time::new(12, 0).map(|time| (time, 1)),
            "midnight" => return Time::new(0, 0).map(|time| (time, 1)),
            "half" => {
                let of = if matches!(two, "past" | "passed" | "pass") { at + 2 } else { at + 1 };
                let time = evening(self.number(of)?, 30)?;
                return Some((time, of + 1 - at));
            }
            "quarter" | "quarters" => return self.beside(15, two, at + 2).map(|time| (time, 3)),
            _ => {}
        }
        if let Some((hour, minute)) = one.split_once(':') {
            let time = evening(hour.parse().ok()?, minute.parse().ok()?)?;
            return Some((time, 1));
        }
        let first = self.number(at)?;
        let span = at > 0 && matches!(self.words.at(at - 1), "from" | "between");
        if let Some(time) = self.beside(first, two, at + 2).filter(|_| !span) {
            return Some((time, 3));
        }
        if two == "minutes" {
            return self.beside(first, three, at + 3).map(|time| (time, 4));
        }
        if matches!(two, "oclock" | "clock" | "am" | "pm" | "a:m" | "ish")
            || (two == "in" && three == "the")
        {
            let marks = usize::from(matches!(two, "oclock" | "clock" | "ish"));
            return evening(first, 0).map(|time| (time, 1 + marks));
        }
        if matches!(two, "oh" | "o") {
            let minute = self.number(at + 2).filter(|minute| *minute < 10)?;
            return evening(first, minute).map(|time| (time, 3));
        }
        let minutes = self.number(at + 1).filter(|_| two.len() == 2 && first <= 23);
        if let Some(minute) = minutes {
            return evening(first, minute).map(|time| (time, 2));
        }
        let run_together = (100..=2359).contains(&first) && one.len() >= 3;
        run_together.then(|| evening(first / 100, first % 100)).flatten().map(|time| (time, 1))
    }

    /// "Quarter past seven", "ten to eight".
    fn beside(&self, minutes: u32, word: &str, at: usize) -> Option<Time> {
        let hour = self.number(at)?;
        match word {
            "past" | "passed" | "after" if minutes < 60 => evening(hour, minutes),
            "to" | "before" | "till" if (1..60).contains(&minutes) && minutes.is_multiple_of(5) => {
                let before = if hour == 0 { 23 } else { hour - 1 };
                evening(if before == 0 { 12 } else { before }, 60 - minutes)
            }
            _ => None,
        }
    }

    /// "Pm", "in the morning" behind a time.
    fn with_half_of_day(&self, time: Time, at: usize) -> (Time, usize) {
        let (one, two, three) = (self.words.at(at), self.words.at(at + 1), self.words.at(at + 2));
        let (morning, len) = match (one, two, three) {
            ("am", ..) => (true, 1),
            ("pm", ..) => (false, 1),
            ("in", "the", "morning") => (true, 3),
            ("in", "the", "evening" | "afternoon") => (false, 3),
            ("at", "night", _) => (false, 2),
            _ => return (time, 0),
        };
        let face = time.face_hour();
        let minute = time.key()[3..].parse().unwrap_or(0);
        let hour = if morning { face } else { face + 12 };
        (Time::new(hour, minute).unwrap_or(time), len)
    }

    /// Parties that need no context: "4 people", "party of 4", "just me".
    fn clear_party(&mut self) -> Option<u32> {
        let mut party = None;
        for at in 0..self.words.all().len() {
            let two = self.words.at(at + 1);
            let people = matches!(
                two,
                "people"
                    | "persons"
                    | "person"
                    | "guests"
                    | "adults"
                    | "diners"
                    | "seats"
                    | "heads"
                    | "pax"
                    | "peoples"
            ) || (two == "of" && self.words.at(at + 2) == "us");
            if let Some(count) = self.number(at).filter(|_| people) {
                // "Four or five people": room for the larger party.
                let either = at >= 2 && matches!(self.words.at(at - 1), "or" | "to");
                self.take(if either { at - 2 } else { at }, if either { 4 } else { 2 });
                party = Some(count);
            }
            let table = self.words.at(at) == "table" && !self.is_time(at + 1);
            if let Some(count) = self.number(at + 1).filter(|_| table) {
                self.take(at + 1, 1);
                party = Some(count);
            }
            if matches!((self.words.at(at), two), ("party" | "group", "of"))
                && let Some(count) = self.number(at + 2)
            {
                self.take(at + 2, 1);
                party = Some(count);
            }
        }
        let words = self.words;
        if party.is_none() && words.says_any(&["just me", "only me", "by myself", "for myself"]) {
            party = Some(1);
        }
        const TWO: &[&str] = &[
            "both of us",
            "me and my wife",
            "me and my husband",
            "my wife and i",
            "my husband and i",
            "for a couple",
            "for to",
            "for too",
            "for the two of us",
        ];
        if party.is_none() && words.says_any(TWO) && self.number_after_for_to().is_none() {
            party = Some(2);
        }
        if party.is_none() && words.says("for for") {
            party = Some(4);
        }
        party
    }

    fn is_time(&self, at: usize) -> bool {
        self.used.get(at).is_some_and(|used| *used)
    }

    /// "For to" is "for two" misheard, unless a number or a day follows ("for to 8").
    fn number_after_for_to(&self) -> Option<u32> {
        let at = self.words.find("for to").or_else(|| self.words.find("for too"))?;
        self.number(at + 2)
    }

    fn numbers_behind(&mut self, markers: &[&str]) {
        for at in 1..self.words.all().len() {
            let marked = markers.contains(&self.words.at(at - 1));
            let Some(hour) = self.number(at).filter(|_| marked && self.said.is_none()) else {
                continue;
            };
            if let Some(time) = evening(hour, 0) {
                self.said = Some(time);
                self.take(at, 1);
            }
        }
    }

    fn bare_hour(&mut self) {
        if self.said.is_some() {
            return;
        }
        let place = (0..self.words.all().len()).rev().find(|at| self.number(*at).is_some());
        if let Some(at) = place
            && let Some(time) = self.number(at).and_then(|hour| evening(hour, 0))
        {
            let (time, extra) = self.with_half_of_day(time, at + 1);
            self.said = Some(time);
            self.take(at, 1 + extra);
        }
    }

    fn last_number(&mut self) -> Option<u32> {
        let at = (0..self.words.all().len()).rev().find(|at| self.number(*at).is_some());
        let heard_wrong = || match self.words.all() {
            [.., last] if matches!(last.as_str(), "to" | "too") => Some(2),
            [.., last] if last == "for" => Some(4),
            [.., last] if matches!(last.as_str(), "won" | "me" | "myself") => Some(1),
            _ => None,
        };
        match at {
            Some(at) => {
                let count = self.number(at);
                self.take(at, 1);
                count
            }
            None => heard_wrong(),
        }
    }

    fn number_behind_for(&mut self) -> Option<u32> {
        let at = (1..self.words.all().len())
            .find(|at| self.words.at(at - 1) == "for" && self.number(*at).is_some())?;
        let count = self.number(at);
        self.take(at, 1);
        count
    }
}

/// The hour a caller means without saying which half of the day: one to ten are after noon.
fn evening(hour: u32, minute: u32) -> Option<Time> {
    let hour = if (1..=10).contains(&hour) { hour + 12 } else { hour };
    Time::new(u16::try_from(hour).ok()?, u16::try_from(minute).ok()?)
}

/// "The second one", "the last", "the earlier one".
fn pick(words: &Words) -> Option<usize> {
    if words.says_any(&["last", "latest", "later"]) {
        return Some(usize::MAX);
    }
    if words.says_any(&["earliest", "earlier", "either", "any of them"]) {
        return Some(0);
    }
    if words.says("middle") {
        return Some(1);
    }
    let nth = words.all().iter().find_map(|word| nth(word))?;
    (1..=3).contains(&nth).then(|| usize::from(nth) - 1)
}

/// The last day that was said.
pub fn last_day(days: &[SaidDay]) -> Option<Day> {
    days.last().map(|said| said.day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(text: &str, asked: Option<Ask>) -> Slots {
        Slots::of(&Words::of(text), asked, None)
    }

    #[test]
    fn times_as_callers_say_them() {
        for (said, key) in [
            ("half past seven", "19:30"),
            ("half seven", "19:30"),
            ("seven thirty", "19:30"),
            ("7.30", "19:30"),
            ("at 730", "19:30"),
            ("nineteen thirty", "19:30"),
            ("quarter past eight", "20:15"),
            ("a quarter to eight", "19:45"),
            ("ten to one", "12:50"),
            ("twenty minutes past six", "18:20"),
            ("eight oh five", "20:05"),
            ("8 p.m.", "20:00"),
            ("11 pm", "23:00"),
            ("eleven in the morning", "11:00"),
            ("nine in the morning", "09:00"),
            ("noon", "12:00"),
            ("at seven for four people", "19:00"),
            ("not seven, eight o'clock", "20:00"),
            ("from seven to eight", "20:00"),
        ] {
            let time = slots(said, None).time.map(Time::key);
            assert_eq!(time.as_deref(), Some(key), "{said}");
        }
        for none in ["for four", "four people", "the last one", "25:99", "twenty of us"] {
            assert_eq!(slots(none, None).time, None, "{none}");
        }
    }

    #[test]
    fn parties_as_callers_say_them() {
        for (said, party) in [
            ("a table for two", 2),
            ("table four tomorrow", 4),
            ("for four at seven", 4),
            ("at seven for seven", 7),
            ("there are six of us", 6),
            ("a party of eight", 8),
            ("four or five people", 5),
            ("just me", 1),
            ("me and my wife", 2),
            ("for to", 2),
            ("for for", 4),
            ("for half past seven for three", 3),
        ] {
            assert_eq!(slots(said, None).party, Some(party), "{said}");
        }
        assert_eq!(slots("for eight o'clock", None).party, None);
        assert_eq!(slots("uh too", Some(Ask::Party)).party, Some(2));
        assert_eq!(slots("seven", Some(Ask::Party)).party, Some(7));
        assert_eq!(slots("seven", Some(Ask::Time)).party, None);
    }

    #[test]
    fn one_of_the_times_on_offer() {
        let pick = |text: &str| slots(text, Some(Ask::Pick)).pick;
        assert_eq!(pick("the second one"), Some(1));
        assert_eq!(pick("the last one please"), Some(usize::MAX));
        assert_eq!(pick("the earliest"), Some(0));
        assert_eq!(pick("seven"), None);
    }
}
