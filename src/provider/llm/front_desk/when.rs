//! Days and times of day: how callers say them, how tools are told, how the desk says them.
//!
//! There is no clock in here: "tomorrow" stays a word.

use super::words::{Words, near};

/// A day as the caller named it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Day {
    /// Today or tonight.
    Today,
    /// Tomorrow.
    Tomorrow,
    /// The day after tomorrow.
    Overmorrow,
    /// The coming day of this name; 0 is Monday.
    Weekday(usize),
    /// "Next Friday"; 0 is Monday.
    NextWeekday(usize),
    /// A day of a month; 1 is January.
    Date {
        /// 1 to 31.
        day: u8,
        /// Where it was said.
        month: Option<usize>,
    },
}

/// A time of day, in minutes from midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(u16);

const WEEKDAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const LONGEST: [u8; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

impl Day {
    /// As tools are told.
    pub fn key(self) -> String {
        match self {
            Day::Today => "today".into(),
            Day::Tomorrow => "tomorrow".into(),
            Day::Overmorrow => "day after tomorrow".into(),
            Day::Weekday(day) => WEEKDAYS[day % 7].to_lowercase(),
            Day::NextWeekday(day) => format!("next {}", WEEKDAYS[day % 7].to_lowercase()),
            Day::Date { day, month: None } => format!("{day}"),
            Day::Date { day, month: Some(month) } => {
                format!("{day} {}", MONTHS[(month + 11) % 12].to_lowercase())
            }
        }
    }

    /// The day that tools were told.
    pub fn from_key(key: &str) -> Option<Day> {
        if let Ok(day @ 1..=31) = key.trim().parse::<u8>() {
            return Some(Day::Date { day, month: None });
        }
        days(&Words::of(key), true).first().map(|said| said.day)
    }

    /// As the desk says it, ready to stand in a sentence.
    pub fn spoken(self) -> String {
        match self {
            Day::Today => "today".into(),
            Day::Tomorrow => "tomorrow".into(),
            Day::Overmorrow => "the day after tomorrow".into(),
            Day::Weekday(day) => format!("on {}", WEEKDAYS[day % 7]),
            Day::NextWeekday(day) => format!("next {}", WEEKDAYS[day % 7]),
            Day::Date { day, month: None } => format!("on the {}", ordinal(day)),
            Day::Date { day, month: Some(month) } => {
                format!("on the {} of {}", ordinal(day), MONTHS[(month + 11) % 12])
            }
        }
    }
}

impl Time {
    /// Hour and minute of the day, if there is such a time.
    pub fn new(hour: u16, minute: u16) -> Option<Time> {
        (hour < 24 && minute < 60).then_some(Time(hour * 60 + minute))
    }

    /// As tools are told: `19:30`.
    pub fn key(self) -> String {
        format!("{:02}:{:02}", self.0 / 60, self.0 % 60)
    }

    /// The time that tools were told.
    pub fn from_key(key: &str) -> Option<Time> {
        let (hour, minute) = key.trim().split_once(':')?;
        Time::new(hour.parse().ok()?, minute.parse().ok()?)
    }

    /// As the desk says it.
    pub fn spoken(self) -> String {
        let (hour, minute) = (self.0 / 60, self.0 % 60);
        let name = |hour: u16| number(u32::from((hour + 11) % 12 + 1));
        let words = match minute {
            0 if hour == 0 => "midnight".to_owned(),
            0 if hour == 12 => "noon".to_owned(),
            0 => format!("{} o'clock", name(hour)),
            15 => format!("quarter past {}", name(hour)),
            30 => format!("half past {}", name(hour)),
            45 => format!("quarter to {}", name(hour + 1)),
            35 | 40 | 50 | 55 => {
                format!("{} to {}", number(60 - u32::from(minute)), name(hour + 1))
            }
            5 | 10 | 20 | 25 => format!("{} past {}", number(u32::from(minute)), name(hour)),
            _ => format!("{} minutes past {}", number(u32::from(minute)), name(hour)),
        };
        if (1..12).contains(&hour) { format!("{words} in the morning") } else { words }
    }

    /// The same place on a clock face: half past seven in the morning and in the evening.
    pub fn same_face(self, other: Time) -> bool {
        self.0 % 720 == other.0 % 720
    }

    /// The hour on a clock face, 0 to 11.
    pub fn face_hour(self) -> u16 {
        self.0 / 60 % 12
    }
}

/// A number in words, up to ninety-nine; larger ones digit by digit.
pub fn number(n: u32) -> String {
    const SMALL: [&str; 20] = [
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
    ];
    const TENS: [&str; 10] =
        ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
    match n {
        0..=19 => SMALL[n as usize].to_owned(),
        20..=99 if n.is_multiple_of(10) => TENS[n as usize / 10].to_owned(),
        20..=99 => format!("{}-{}", TENS[n as usize / 10], SMALL[n as usize % 10]),
        _ => {
            let digits = n.to_string();
            let words: Vec<String> = digits.bytes().map(|d| number(u32::from(d - b'0'))).collect();
            words.join(" ")
        }
    }
}

fn ordinal(n: u8) -> String {
    const SMALL: [&str; 20] = [
        "zeroth",
        "first",
        "second",
        "third",
        "fourth",
        "fifth",
        "sixth",
        "seventh",
        "eighth",
        "ninth",
        "tenth",
        "eleventh",
        "twelfth",
        "thirteenth",
        "fourteenth",
        "fifteenth",
        "sixteenth",
        "seventeenth",
        "eighteenth",
        "nineteenth",
    ];
    match n {
        0..=19 => SMALL[usize::from(n)].to_owned(),
        20 => "twentieth".into(),
        30 => "thirtieth".into(),
        _ => format!("{}-{}", if n < 30 { "twenty" } else { "thirty" }, SMALL[usize::from(n % 10)]),
    }
}

/// A day that was said, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaidDay {
    /// The day.
    pub day: Day,
    /// Its first word.
    pub at: usize,
    /// How many words name it.
    pub len: usize,
}

/// All days that were said, in order, without those that were ruled out ("not Friday").
pub fn days(words: &Words, asked: bool) -> Vec<SaidDay> {
    let mut found: Vec<SaidDay> = Vec::new();
    let mut at = 0;
    while at < words.all().len() {
        match day_at(words, at, asked) {
            Some((day, len)) => {
                let before = at.checked_sub(1).map_or("", |before| words.at(before));
                if before != "not" {
                    found.push(SaidDay { day, at, len });
                }
                at += len;
            }
            None => at += 1,
        }
    }
    found
}

fn day_at(words: &Words, at: usize, asked: bool) -> Option<(Day, usize)> {
    let (one, two, three) = (words.at(at), words.at(at + 1), words.at(at + 2));
    match one {
        "today" | "tonight" => return Some((Day::Today, 1)),
        "this" if matches!(two, "evening" | "afternoon") => return Some((Day::Today, 2)),
        "to" | "2" | "two" if matches!(two, "morrow") => return Some((Day::Tomorrow, 2)),
        "day" if two == "after" && near(three, "tomorrow") => {
            return Some((Day::Overmorrow, 3));
        }
        "next" => {
            return weekday(words, at + 1).map(|(day, len)| (Day::NextWeekday(day), len + 1));
        }
        _ if near(one, "tomorrow") || one == "tomorrows" => return Some((Day::Tomorrow, 1)),
        _ => {}
    }
    weekday(words, at)
        .map(|(day, len)| (Day::Weekday(day), len))
        .or_else(|| date_at(words, at, asked))
}

/// A weekday, whole, plural or heard as two words ("fry day").
fn weekday(words: &Words, at: usize) -> Option<(usize, usize)> {
    let one = words.at(at);
    let best = |said: &str| {
        WEEKDAYS
            .iter()
            .enumerate()
            .map(|(day, name)| (strsim::osa_distance(said, &name.to_lowercase()), day))
            .min()
            .filter(|(distance, day)| *distance <= if WEEKDAYS[*day].len() > 7 { 2 } else { 1 })
            .map(|(_, day)| day)
    };
    let whole = one.strip_suffix('s').unwrap_or(one);
    if whole.len() >= 6 && (whole.ends_with("day") || whole.ends_with("dy")) {
        return best(whole).map(|day| (day, 1));
    }
    if matches!(words.at(at + 1), "day" | "days") && (3..=6).contains(&one.len()) {
        return best(&format!("{one}day")).map(|day| (day, 2));
    }
    None
}

/// "The 21st", "21st of June", "June 21", "21 June".
fn date_at(words: &Words, at: usize, asked: bool) -> Option<(Day, usize)> {
    let one = words.at(at);
    if let Some(month) = month(one) {
        let after = if words.at(at + 1) == "the" { at + 2 } else { at + 1 };
        let day = nth(words.at(after)).or_else(|| words.at(after).parse().ok())?;
        return date(day, Some(month)).map(|date| (date, after + 1 - at));
    }
    if let Some(month) = month(words.at(at + 1)).filter(|_| one.len() <= 2)
        && let Ok(day) = one.parse()
    {
        return date(day, Some(month)).map(|date| (date, 2));
    }
    let day = nth(one)?;
    let of = usize::from(words.at(at + 1) == "of");
    if let Some(month) = month(words.at(at + 1 + of)) {
        return date(day, Some(month)).map(|date| (date, 2 + of));
    }
    let before = at.checked_sub(1).map_or("", |before| words.at(before));
    let plain = matches!(before, "the" | "on") && !matches!(words.at(at + 1), "1" | "one" | "time");
    (plain || asked).then(|| date(day, None)).flatten().map(|date| (date, 1))
}

fn date(day: u8, month: Option<usize>) -> Option<Day> {
    let longest = month.map_or(31, |month| LONGEST[(month + 11) % 12]);
    (1..=longest).contains(&day).then_some(Day::Date { day, month })
}

fn month(word: &str) -> Option<usize> {
    MONTHS.iter().position(|name| near(word, &name.to_lowercase())).map(|at| at + 1)
}

/// The number of `21st`.
pub fn nth(word: &str) -> Option<u8> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let ending = &word[digits.len()..];
    matches!(ending, "st" | "nd" | "rd" | "th").then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_as_callers_say_them() {
        for (said, key) in [
            ("tonight", "today"),
            ("tomorow evening", "tomorrow"),
            ("to morrow", "tomorrow"),
            ("the day after tomorrow", "day after tomorrow"),
            ("on fridays", "friday"),
            ("fry day", "friday"),
            ("wensday", "wednesday"),
            ("next Saturday", "next saturday"),
            ("the twenty-first", "21"),
            ("the twenty first of June", "21 june"),
            ("June 21st", "21 june"),
            ("may the fifth", "5 may"),
            ("not friday saturday", "saturday"),
        ] {
            let found = days(&Words::of(said), false);
            let keys: Vec<String> = found.iter().map(|found| found.day.key()).collect();
            assert_eq!(keys, [key], "{said}");
            assert_eq!(Day::from_key(key), Some(found[0].day), "{key} reads back");
        }
        for none in ["one second", "may i", "the first one", "yesterday", "31st of june", "monkey"]
        {
            assert_eq!(days(&Words::of(none), false), [], "{none}");
        }
    }

    #[test]
    fn times_are_said_without_digits() {
        for (key, said) in [
            ("19:00", "seven o'clock"),
            ("19:05", "five past seven"),
            ("19:15", "quarter past seven"),
            ("19:30", "half past seven"),
            ("19:45", "quarter to eight"),
            ("19:55", "five to eight"),
            ("19:33", "thirty-three minutes past seven"),
            ("12:00", "noon"),
            ("12:30", "half past twelve"),
            ("11:00", "eleven o'clock in the morning"),
            ("00:00", "midnight"),
        ] {
            let time = Time::from_key(key).expect(key);
            assert_eq!(time.spoken(), said);
            assert_eq!(time.key(), key);
        }
        assert_eq!(Time::from_key("24:00"), None);
        assert_eq!(number(42), "forty-two");
        assert_eq!(number(417), "four one seven");
    }
}
