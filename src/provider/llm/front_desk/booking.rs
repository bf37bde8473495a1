//! The way of a booking: what is asked next, which tool is called, what its result means.

use crate::dialogue::ToolCall;

use super::desk::{Desk, PENDING, Reply, Standing};
use super::form::{Action, Check, Form};
use super::outcome::{Booked, Found, Trouble};
use super::say::{self, Spoken, day_and_time};
use super::slots::{Ask, Slots};
use super::when::{Time, number};
use super::words::Words;

/// After this many failures of a tool the desk stops offering another try.
const MOST_FAILURES: u32 = 2;

impl Desk<'_> {
    /// Begins to make, move or cancel a booking.
    pub(super) fn start(&mut self, action: Action, words: &Words, slots: &Slots) -> Reply {
        let on_its_way = self.open.iter().any(|call| call.name == "book");
        if let Err(spoken) = self.open_form(action) {
            return spoken.into();
        }
        if let (Some(form), Standing::Stands(made, _)) = (&mut self.form, &self.standing)
            && action != Action::Book
        {
            form.name.clone_from(&made.name);
            form.day = made.day;
            // "Move it to Friday" keeps the time; it is read back before anything happens.
            if !slots.days.is_empty() && action == Action::Move {
                form.time = made.time;
            }
        }
        let reply = self.fill(words, slots, None);
        let opening = match action {
            _ if on_its_way => "I do not know yet whether your first request went through.",
            Action::Book if !self.offers.book => {
                "I cannot make bookings here, but I can look for free times."
            }
            Action::Book => "Sure.",
            Action::Move | Action::Cancel => "All right.",
        };
        match reply {
            Reply::Say(spoken) => spoken.after(opening).into(),
            call @ Reply::Call(_) => call,
        }
    }

    /// Takes over what was said and goes on.
    pub(super) fn fill(&mut self, words: &Words, slots: &Slots, asked: Option<Ask>) -> Reply {
        if let Some(form) = self.form.as_mut().filter(|form| !form.sent) {
            form.fill(slots, words, asked);
        }
        self.next()
    }

    /// The same, if something was taken over.
    pub(super) fn fill_changed(
        &mut self,
        words: &Words,
        slots: &Slots,
        asked: Option<Ask>,
    ) -> Option<Reply> {
        let form = self.form.as_mut()?;
        let sent = form.sent;
        let changed = !slots.is_empty() && sent || !sent && form.fill(slots, words, asked);
        (changed || !slots.is_empty()).then(|| self.next())
    }

    /// The next step of the open form.
    fn next(&mut self) -> Reply {
        let most = self.persona.party_max;
        let Some(form) = &mut self.form else {
            return Spoken::plain("How can I help?").into();
        };
        if form.sent {
            return Spoken::plain(PENDING).into();
        }
        if let Some(party) = form.party.filter(|party| *party == 0 || *party > most) {
            form.party = None;
            return Spoken::asking(too_many(party, most), Ask::Party).into();
        }
        if form.action != Action::Book {
            return self.question_or_help();
        }
        let ready = form.day.is_some() && form.party.is_some();
        let ready = ready && (form.time.is_some() || form.any_time);
        if !ready || !self.offers.find_slot {
            return self.question_or_help();
        }
        let Some(check) = form.fitting_check() else {
            let arguments = form.find_arguments();
            return self.call("find_slot", arguments);
        };
        match form.time {
            Some(time) if check.free.contains(&time) => self.time_is_free(time),
            Some(time) if check.time != Some(time) => {
                let arguments = form.find_arguments();
                self.call("find_slot", arguments)
            }
            _ => self.offer_times(),
        }
    }

    fn time_is_free(&mut self, time: Time) -> Reply {
        if self.offers.book {
            return self.question_or_help();
        }
        self.form = None;
        let time = capital(&time.spoken());
        Spoken::plain(format!(
            "{time} is free. I cannot make the booking in this conversation, though."
        ))
        .into()
    }

    /// Reads out the free times of the last check.
    fn offer_times(&mut self) -> Reply {
        let Some(form) = &mut self.form else { return self.question_or_help() };
        let refused = form.time.take();
        let day = form.day;
        let free = form.fitting_check().map(|check| check.free.clone()).unwrap_or_default();
        let sorry = match refused {
            Some(time) => format!("I have nothing {} any more.", day_and_time(day, Some(time))),
            None => String::new(),
        };
        if free.is_empty() {
            form.day = None;
            form.check = None;
            let day = behind_a_space(&day_and_time(day, None));
            let text = format!("I am sorry, nothing is free{day}. Which other day would suit you?");
            return Spoken::asking(text, Ask::Day).into();
        }
        let offer = format!("{sorry} I could offer {}.", say::choice(&free));
        if !self.offers.book {
            self.form = None;
            let but = "I cannot make the booking in this conversation, though.";
            return Spoken::plain(format!("{} {but}", offer.trim())).into();
        }
        Spoken::asking(format!("{} Which one suits you?", offer.trim()), Ask::Pick).into()
    }

    fn question_or_help(&self) -> Reply {
        self.question().unwrap_or_else(|| Spoken::plain("How can I help?")).into()
    }

    /// What the open form waits for, as a question.
    pub(super) fn question(&self) -> Option<Spoken> {
        let form = self.form.as_ref()?;
        if form.sent {
            return Some(Spoken::plain(PENDING));
        }
        let changing = form.action != Action::Book;
        let Some(ask) = form.wanted() else { return Some(self.last_question(form)) };
        let text = match ask {
            Ask::Day if changing => "Which day is the booking for?".to_owned(),
            Ask::Day => "What day would you like?".to_owned(),
            Ask::NewDay => "Which new day would you like?".to_owned(),
            Ask::Time if changing => "What time would you like instead?".to_owned(),
            Ask::Time => "What time would you like?".to_owned(),
            Ask::Party => "How many people will you be?".to_owned(),
            Ask::Name if changing => "What name is the booking under?".to_owned(),
            Ask::Name => "What name shall I put it under?".to_owned(),
            _ => {
                let free = form.fitting_check().map(|check| say::choice(&check.free));
                let free = free.unwrap_or_default();
                format!("I could offer {free}. Which one suits you?")
            }
        };
        Some(Spoken::asking(text, ask))
    }

    /// All is known: reads it back.
    fn last_question(&self, form: &Form) -> Spoken {
        let name = form.name.as_deref().unwrap_or_default();
        match form.action {
            Action::Book if self.offers.find_slot && form.fitting_check().is_none() => {
                Spoken::asking("Shall I look into the calendar now?", Ask::Retry)
            }
            Action::Book => Spoken::asking(
                format!("{} The name is {name}. Shall I make the booking?", table(form)),
                Ask::Confirm,
            ),
            Action::Move => {
                let old = day_and_time(form.day, None);
                let new = day_and_time(form.new_day.or(form.day), form.time);
                Spoken::asking(
                    format!(
                        "That is the booking {old}. The name is {name}. \
                         The new time would be {new}. Shall I move it?"
                    ),
                    Ask::Confirm,
                )
            }
            Action::Cancel => {
                let when = day_and_time(form.day, form.time);
                Spoken::asking(
                    format!("That is the booking {when}. The name is {name}. Shall I cancel it?"),
                    Ask::Confirm,
                )
            }
        }
    }

    /// The caller agreed to what was read back.
    pub(super) fn confirmed(&mut self) -> Option<Reply> {
        let form = self.form.as_ref()?;
        if form.sent || form.wanted().is_some() || !self.offers.book {
            return Some(self.next());
        }
        Some(self.call("book", form.book_arguments()))
    }

    /// The caller wants the tool that failed to be tried again.
    pub(super) fn try_again(&mut self) -> Reply {
        let checked = |form: &Form| {
            form.action != Action::Book || !self.offers.find_slot || form.fitting_check().is_some()
        };
        let known = self.form.as_ref().is_some_and(|form| form.wanted().is_none() && checked(form));
        if known { self.confirmed().unwrap_or_else(|| self.next()) } else { self.next() }
    }

    /// `find_slot` has returned.
    pub(super) fn found(&mut self, call: &ToolCall, found: Found) -> Reply {
        let told = Form::from_arguments(&call.arguments);
        let current = self.form.as_mut().filter(|form| {
            form.action == Action::Book && form.day == told.day && form.party == told.party
        });
        let Some(form) = current else { return self.question_or_help() };
        match found {
            Found::Free(free) => {
                let (Some(day), Some(party)) = (told.day, told.party) else {
                    return self.question_or_help();
                };
                form.check = Some(Check { day, party, time: told.time, free });
                form.failures = 0;
                let reply = self.next();
                self.with_good_news(told.time, reply)
            }
            Found::Closed => self.closed(),
            Found::Trouble(trouble) => {
                form.failures += u32::from(trouble != Trouble::Stopped);
                let what = match trouble {
                    Trouble::Failed | Trouble::Unknown => {
                        "I am sorry, I could not look into the calendar."
                    }
                    Trouble::Busy => "I am sorry, the calendar could not take that on.",
                    Trouble::Stopped => "I stopped looking into the calendar.",
                };
                self.offer_retry(what)
            }
        }
    }

    /// "Half past seven is free" before the next question.
    fn with_good_news(&self, time: Option<Time>, reply: Reply) -> Reply {
        let still = self.form.as_ref().and_then(|form| form.time);
        match (reply, time) {
            (Reply::Say(spoken), Some(time)) if still == Some(time) => {
                spoken.after(&format!("{} is free.", capital(&time.spoken()))).into()
            }
            (reply, _) => reply,
        }
    }

    fn closed(&mut self) -> Reply {
        let Some(form) = &mut self.form else { return self.question_or_help() };
        let (day, ask) = match form.action {
            Action::Move => (form.new_day.take(), Ask::NewDay),
            Action::Book | Action::Cancel => (form.day.take(), Ask::Day),
        };
        let day = behind_a_space(&day_and_time(day, None));
        Spoken::asking(format!("I am sorry, we are closed{day}. Which other day suits you?"), ask)
            .into()
    }

    fn offer_retry(&mut self, what: &str) -> Reply {
        let failures = self.form.as_ref().map_or(MOST_FAILURES, |form| form.failures);
        if failures < MOST_FAILURES {
            return Spoken::asking(format!("{what} Shall I try again?"), Ask::Retry).into();
        }
        self.form = None;
        let hopeless = format!("{what} It keeps failing, so I stop trying.");
        if self.offers.handoff {
            Spoken::asking(format!("{hopeless} Shall I ask for a person?"), Ask::Person).into()
        } else {
            Spoken::plain(format!("{hopeless} Please try again later.")).into()
        }
    }

    /// `book` has returned.
    pub(super) fn booked(&mut self, call: &ToolCall, booked: Booked) -> Reply {
        let mut told = Form::from_arguments(&call.arguments);
        let booked = fitting(told.action, booked);
        let ours = self.form.as_ref().is_some_and(|form| form.sent);
        if let Some(form) = &mut self.form {
            form.sent = false;
        }
        self.standing = match &booked {
            Booked::Made(number) => Standing::Stands(told.clone(), number.clone()),
            Booked::Moved(number) => {
                told.day = told.new_day.or(told.day);
                Standing::Stands(Form { action: Action::Move, ..told.clone() }, number.clone())
            }
            Booked::Cancelled => Standing::Cancelled,
            Booked::Trouble(Trouble::Unknown) => Standing::Unknown,
            _ => Standing::NotDone,
        };
        let done = match &booked {
            Booked::Made(number) => {
                format!("It is booked.{}", number_words(number.as_deref()))
            }
            Booked::Moved(number) => {
                let when = day_and_time(told.day, told.time);
                format!("Your booking is now {when}.{}", number_words(number.as_deref()))
            }
            Booked::Cancelled => "Your booking is cancelled.".to_owned(),
            Booked::Trouble(Trouble::Unknown) => return self.unknown(ours),
            Booked::Trouble(trouble) => return self.not_done(*trouble),
            Booked::Taken(free) => return self.taken(&told, free),
            Booked::Closed => return self.closed(),
            Booked::NotFound => return self.not_found(&told),
            Booked::Several(times) => return self.several(times),
        };
        if ours {
            self.form = None;
        }
        self.news = Some(done.clone());
        Spoken::asking(format!("{done} Is there anything else?"), Ask::Else).into()
    }

    fn unknown(&mut self, ours: bool) -> Reply {
        if ours {
            self.form = None;
        }
        let text = "I am sorry, I cannot tell whether that went through. \
                    Please do not rely on it.";
        self.news = Some(text.to_owned());
        if self.offers.handoff {
            return Spoken::asking(format!("{text} Shall I ask for a person?"), Ask::Person).into();
        }
        Spoken::plain(format!("{text} It is best to ask us again later.")).into()
    }

    fn not_done(&mut self, trouble: Trouble) -> Reply {
        if let Some(form) = &mut self.form {
            form.failures += u32::from(trouble != Trouble::Stopped);
        }
        let what = match trouble {
            Trouble::Busy => {
                "I am sorry, the calendar could not take that on, and nothing was changed."
            }
            Trouble::Stopped => "That was stopped before anything was changed.",
            Trouble::Failed | Trouble::Unknown => {
                "I am sorry, that failed, and nothing was changed."
            }
        };
        self.news = Some(what.to_owned());
        self.offer_retry(what)
    }

    fn taken(&mut self, told: &Form, free: &[Time]) -> Reply {
        let Some(form) = &mut self.form else { return self.question_or_help() };
        let ours = (form.day, form.party) == (told.day, told.party);
        if let (Action::Book, Some(day), Some(party), true) =
            (form.action, told.day, told.party, ours)
        {
            form.check = Some(Check { day, party, time: told.time, free: free.to_vec() });
            return self.offer_times();
        }
        form.time = None;
        let text = if free.is_empty() {
            form.new_day = None;
            "I am sorry, nothing is free then, and nothing was changed.".to_owned()
        } else {
            let free = say::choice(free);
            format!("That time is taken, and nothing was changed. I could offer {free}.")
        };
        match self.question() {
            Some(question) => question.after(&text).into(),
            None => Spoken::plain(text).into(),
        }
    }

    fn not_found(&mut self, told: &Form) -> Reply {
        let day = behind_a_space(&day_and_time(told.day, None));
        let name = told.name.as_deref().unwrap_or("that name");
        if let Some(form) = &mut self.form {
            form.name = None;
            form.day = None;
        }
        let text = format!("I found no booking{day} under {name}.");
        match self.question() {
            Some(question) => question.after(&text).into(),
            None => Spoken::plain(text).into(),
        }
    }

    fn several(&mut self, times: &[Time]) -> Reply {
        let text = format!(
            "There is more than one, at {}. What time is yours?",
            say::choice(times).replace(" or ", " and ")
        );
        Spoken::asking(text, Ask::Time).into()
    }

    /// A booking that stands, in words.
    pub(super) fn booking_stands(&self, form: &Form, number: Option<&str>) -> Spoken {
        let name = name_words(form.name.as_deref());
        let number = number_words(number);
        if form.action == Action::Move {
            let when = day_and_time(form.day, form.time);
            return Spoken::plain(format!("Your booking is now {when}.{name}{number}"));
        }
        Spoken::plain(format!("It is booked. {}{name}{number}", table(form)))
    }
}

/// A result that does not belong to what was asked for says nothing.
fn fitting(action: Action, booked: Booked) -> Booked {
    let fits = match booked {
        Booked::Made(_) => action == Action::Book,
        Booked::Moved(_) => action == Action::Move,
        Booked::Cancelled => action == Action::Cancel,
        _ => true,
    };
    if fits { booked } else { Booked::Trouble(Trouble::Unknown) }
}

fn table(form: &Form) -> String {
    let when = day_and_time(form.day, form.time);
    let party = form.party.map_or_else(|| "you".to_owned(), number);
    let gap = if when.is_empty() { "" } else { ", " };
    capital(&format!("{when}{gap}a table for {party}."))
}

fn behind_a_space(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(" {words}") }
}

fn name_words(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!(" The name is {name}."))
}

fn number_words(confirmation: Option<&str>) -> String {
    match confirmation.map(say::signs).filter(|signs| !signs.is_empty()) {
        Some(signs) => format!(" Your confirmation number is {signs}."),
        None => String::new(),
    }
}

fn too_many(party: u32, most: u32) -> String {
    if party == 0 {
        return "A table needs at least one guest. How many people will you be?".to_owned();
    }
    let most = number(most);
    format!("I can take at most {most} people in one booking. How many will you be?")
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
