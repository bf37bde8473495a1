//! What the desk answers to a caller's words.

use super::desk::{Desk, PENDING, Reply, Standing};
use super::form::Action;
use super::intents::{Intent, intent, no, yes};
use super::name::bare_name;
use super::say::{self, Spoken};
use super::slots::{Ask, Slots};
use super::words::Words;

impl Desk<'_> {
    /// The reply to one utterance; `misses` counts those before it that were not understood.
    pub(super) fn answer(&mut self, words: &Words, asked: Option<Ask>, misses: u32) -> Reply {
        let wanted = self.form.as_ref().and_then(|form| form.wanted());
        let mut slots = Slots::of(words, asked, wanted);
        let meant = intent(words);
        if words.is_empty() {
            return self.silence().into();
        }
        if let Some(reply) = self.yes_or_no(asked, words, &slots, meant) {
            return reply;
        }
        if asked == Some(Ask::Name) && self.form.is_some() && polite(meant) {
            if slots.is_empty() {
                slots.name = bare_name(words);
            }
            if slots.name.is_some() {
                return self.fill(words, &slots, asked);
            }
        }
        if let Some(reply) = meant.and_then(|meant| self.control(meant, words, &slots)) {
            return reply;
        }
        if let Some(spoken) = meant.and_then(|meant| self.tell_about(meant)) {
            return self.back_to_form(spoken).unwrap_or_else(|alone| alone).into();
        }
        if let Some(reply) = self.booking_words(meant, words, &slots, asked) {
            return reply;
        }
        if let Some(spoken) = meant.and_then(|meant| self.small_talk(meant)) {
            return self.back_to_form(spoken).unwrap_or_else(|alone| alone).into();
        }
        if words.all().len() <= 3 && (yes(words) || no(words)) {
            if let Some(question) = self.question() {
                return question.into();
            }
            if yes(words) {
                return Spoken::asking("All right. What would you like?", Ask::Else).into();
            }
            return Spoken::plain("All right. Just tell me if you need anything.").into();
        }
        if let (Some(name), None) = (slots.name, &self.form) {
            return Spoken::plain(format!("Hello, {name}. How can I help?")).into();
        }
        self.not_understood(misses)
    }

    fn silence(&mut self) -> Spoken {
        let spoken = Spoken::plain("I did not hear anything.");
        self.back_to_form(spoken)
            .unwrap_or_else(|alone| Spoken::plain(format!("{} Are you still there?", alone.text)))
    }

    /// Answers to questions that want a yes or a no.
    fn yes_or_no(
        &mut self,
        asked: Option<Ask>,
        words: &Words,
        slots: &Slots,
        meant: Option<Intent>,
    ) -> Option<Reply> {
        const PARTS: &[&str] = &["day", "date", "time", "name", "people", "party"];
        let asked = asked?;
        let action = self.form.as_ref().map(|form| form.action);
        let does_it = match action {
            Some(Action::Cancel) => meant == Some(Intent::Cancel),
            Some(Action::Move) => meant == Some(Intent::Move),
            _ => false,
        };
        let plain = matches!(meant, None | Some(Intent::Book | Intent::Praise | Intent::Thanks))
            || meant == Some(Intent::Continue);
        let yes = ((yes(words) && plain) || does_it) && slots.is_empty();
        let no = no(words) && slots.is_empty() && (plain || meant == Some(Intent::Sorry));
        match (asked, yes, no) {
            (Ask::Confirm, true, _) => self.confirmed(),
            (Ask::Confirm, _, true) if words.says_any(PARTS) => {
                Some(self.fill(words, slots, Some(Ask::Change)))
            }
            (Ask::Confirm, _, true) => {
                let change = "All right, I have not done it. What should I change?";
                self.form.is_some().then(|| Spoken::asking(change, Ask::Change).into())
            }
            (Ask::Retry, true, _) if self.form.is_some() => Some(self.try_again()),
            (Ask::Retry | Ask::Change, _, true) => Some(self.drop_form().into()),
            (Ask::Start, true, _) => Some(self.start(Action::Book, words, slots)),
            (Ask::Person, true, _) => Some(self.person()),
            (Ask::Callback, true, _) => Some(self.call_back()),
            (Ask::Start | Ask::Person | Ask::Callback, _, true) => {
                let spoken = Spoken::plain("All right.");
                let alone = |_| Spoken::asking("All right. What else can I do for you?", Ask::Else);
                Some(self.back_to_form(spoken).unwrap_or_else(alone).into())
            }
            (Ask::Else, _, true) if self.form.is_none() => Some(self.goodbye().into()),
            _ => None,
        }
    }

    /// Words that steer the conversation itself.
    fn control(&mut self, meant: Intent, words: &Words, slots: &Slots) -> Option<Reply> {
        match meant {
            Intent::Wait if slots.is_empty() => Some(Spoken::plain("Sure, go ahead.").into()),
            Intent::Repeat if slots.is_empty() => Some(self.again().into()),
            Intent::Continue if slots.is_empty() => {
                let rest = self.rest();
                let nothing = "There is no more to say about that. What else can I do?";
                Some(rest.unwrap_or_else(|| Spoken::asking(nothing, Ask::Else)).into())
            }
            Intent::NeverMind if !self.may_mean_the_booking(words) => Some(self.drop_form().into()),
            Intent::Bye if slots.is_empty() => Some(self.goodbye().into()),
            Intent::Person => Some(self.person()),
            Intent::CallBack => Some(self.call_back()),
            _ => None,
        }
    }

    /// Questions that the desk answers and then goes back to what it was doing.
    fn tell_about(&mut self, meant: Intent) -> Option<Spoken> {
        let can_book = self.offers.book;
        let persona = self.persona;
        Some(match meant {
            Intent::Hours => Spoken::plain(persona.opening_hours.clone()),
            Intent::Address => Spoken::plain(persona.address.clone()),
            Intent::Identity => Spoken::plain(format!(
                "This is {}. I am a computer program, not a person.",
                persona.name
            )),
            Intent::Story => self.tell(say::STORY.to_owned()),
            Intent::About => {
                let ask = can_book.then_some(Ask::Start);
                Spoken { ask, ..self.tell(say::about(persona, can_book)) }
            }
            Intent::HowBooking => self.tell(say::how_booking_works(can_book)),
            Intent::Abilities => Spoken::plain(say::abilities(can_book)),
            Intent::Clock => Spoken::plain("I have no clock here, so I cannot tell you that."),
            Intent::NotKnown => Spoken::plain(
                "I do not know about that, and I would rather not guess. \
                 I know our opening hours, our address and the bookings.",
            ),
            Intent::MyBooking => self.standing_in_words(),
            _ => return None,
        })
    }

    fn standing_in_words(&self) -> Spoken {
        if self.open.iter().any(|call| call.name == "book") {
            return Spoken::plain(PENDING);
        }
        match &self.standing {
            Standing::Stands(form, number) => self.booking_stands(form, number.as_deref()),
            Standing::Cancelled => Spoken::plain("Your booking is cancelled."),
            Standing::Unknown => Spoken::plain(
                "I cannot tell whether your booking went through. Please do not rely on it.",
            ),
            Standing::Nothing | Standing::NotDone => {
                Spoken::plain("I have not made a booking for you in this conversation.")
            }
        }
    }

    /// Words about making, moving or cancelling a booking.
    fn booking_words(
        &mut self,
        meant: Option<Intent>,
        words: &Words,
        slots: &Slots,
        asked: Option<Ask>,
    ) -> Option<Reply> {
        const THING: &[&str] = &["booking", "reservation", "table", "appointment"];
        const ANEW: &[&str] = &["book a", "reserve a", "new booking", "another table"];
        let action = self.form.as_ref().map(|form| form.action);
        match (meant, action) {
            (Some(Intent::Cancel), Some(Action::Book | Action::Move)) if !words.says_any(THING) => {
                Some(self.drop_form().into())
            }
            (Some(Intent::Cancel), Some(Action::Cancel))
            | (Some(Intent::Move), Some(Action::Move | Action::Book)) => {
                Some(self.fill(words, slots, asked))
            }
            (Some(Intent::Cancel | Intent::NeverMind), _) => {
                Some(self.start(Action::Cancel, words, slots))
            }
            (Some(Intent::Move), _) => Some(self.start(Action::Move, words, slots)),
            (Some(Intent::Book), None) => Some(self.start(Action::Book, words, slots)),
            (Some(Intent::Book), Some(Action::Move | Action::Cancel)) if words.says_any(ANEW) => {
                Some(self.start(Action::Book, words, slots))
            }
            (Some(Intent::Book), Some(_)) => Some(self.fill(words, slots, asked)),
            (_, Some(_)) => self.fill_changed(words, slots, asked),
            (_, None) => {
                const ANEW: &[&str] = &["another", "also", "table", "and"];
                let stands = matches!(self.standing, Standing::Stands(..));
                let other_time = !slots.days.is_empty() || slots.time.is_some();
                if stands && other_time && slots.party.is_none() && !words.says_any(ANEW) {
                    return Some(self.start(Action::Move, words, slots));
                }
                let enough = !slots.days.is_empty() || slots.time.is_some() || slots.any_time;
                let enough = enough || (slots.party.is_some() && words.all().len() <= 6);
                enough.then(|| self.start(Action::Book, words, slots))
            }
        }
    }

    /// "Cancel that" behind a booking that stands means the booking.
    fn may_mean_the_booking(&self, words: &Words) -> bool {
        let stands = matches!(self.standing, Standing::Stands(..));
        self.form.is_none() && stands && words.says("cancel")
    }

    fn small_talk(&mut self, meant: Intent) -> Option<Spoken> {
        let text = match meant {
            Intent::Weather => "I cannot see outside from here, I am afraid.",
            Intent::HowAreYou => "I am well, thank you for asking.",
            Intent::Thanks => "You are welcome.",
            Intent::Greeting => "Hello.",
            Intent::Praise => "I am glad to hear that.",
            Intent::Sorry => "No problem at all.",
            Intent::Wait => "Sure, go ahead.",
            Intent::Repeat => return Some(self.again()),
            Intent::Bye => return Some(self.goodbye()),
            _ => return None,
        };
        Some(match meant {
            _ if self.form.is_some() => Spoken::plain(text),
            Intent::Wait => Spoken::plain(text),
            Intent::Greeting => say::greeting(self.persona),
            Intent::Thanks | Intent::Praise => {
                Spoken::asking(format!("{text} Is there anything else?"), Ask::Else)
            }
            _ => Spoken::plain(format!("{text} How can I help?")),
        })
    }

    fn goodbye(&mut self) -> Spoken {
        let text = match &self.form {
            Some(form) if form.sent => {
                "Goodbye. I do not know yet whether your request went through."
            }
            Some(_) => "Goodbye. I have not made or changed any booking.",
            None => "Thank you for calling. Goodbye.",
        };
        Spoken::plain(text)
    }

    fn drop_form(&mut self) -> Spoken {
        match self.form.take() {
            Some(form) if form.sent => {
                self.form = Some(form);
                Spoken::plain(format!("It is too late to stop it here. {PENDING}"))
            }
            Some(form) => {
                let done = match form.action {
                    Action::Book => "All right, I have not made a booking.",
                    Action::Move | Action::Cancel => "All right, the booking stays as it is.",
                };
                Spoken::asking(format!("{done} Is there anything else?"), Ask::Else)
            }
            None => Spoken::asking("All right. Is there anything else?", Ask::Else),
        }
    }

    fn not_understood(&mut self, misses: u32) -> Reply {
        self.misses = misses + 1;
        let can_book = self.offers.book;
        let question = self.question();
        let spoken = match (misses, question) {
            (0, Some(question)) => question.after("Sorry, I did not get that."),
            (1, Some(question)) => {
                let example = question.ask.map_or("", example);
                question.after(format!("I still did not understand you. {example}").trim_end())
            }
            (0, None) => Spoken::plain(format!("I did not get that. {}", say::hint(can_book))),
            (1, None) => Spoken::plain(if can_book {
                "Sorry, I still did not understand. You could say: a table for two, tomorrow."
            } else {
                "Sorry, I still did not understand. You could ask when we are open."
            }),
            (_, _) => {
                self.misses = 0;
                self.way_out()
            }
        };
        spoken.into()
    }

    /// For a caller who was not understood three times: what really exists, and no more.
    fn way_out(&mut self) -> Spoken {
        const SORRY: &str = "I am sorry, I keep failing to understand you.";
        if self.offers.handoff {
            Spoken::asking(format!("{SORRY} Shall I ask for a person?"), Ask::Person)
        } else if self.offers.callback {
            Spoken::asking(format!("{SORRY} Shall I ask for a call back?"), Ask::Callback)
        } else {
            Spoken::plain(format!(
                "{SORRY} I cannot connect you to a person from here. \
                 Please try it in other words."
            ))
        }
    }
}

/// Words that may come along with a name.
fn polite(meant: Option<Intent>) -> bool {
    use Intent::{Book, Greeting, Praise, Sorry, Thanks};
    matches!(meant, None | Some(Greeting | Thanks | Praise | Sorry | Book))
}

fn example(ask: Ask) -> &'static str {
    match ask {
        Ask::Day | Ask::NewDay => "You could say tomorrow, or Friday.",
        Ask::Time | Ask::Pick => "You could say half past seven.",
        Ask::Party => "A number is enough, for example four.",
        Ask::Name => "Your last name is enough.",
        Ask::Confirm | Ask::Retry | Ask::Start | Ask::Person | Ask::Callback => {
            "Please say yes or no."
        }
        Ask::Change | Ask::Else => "",
    }
}
