//! The conversation so far, read anew from the history each time, and the next reply.

use crate::dialogue::{Message, ModelRequest, Role, ToolCall, ToolChoice};

use super::form::{Action, Form};
use super::outcome;
use super::persona::Persona;
use super::say::{self, Spoken};
use super::slots::Ask;
use super::words::{Words, bare};

/// Messages of a history that are looked at.
const MOST_MESSAGES: usize = 400;

/// What the desk does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It says something.
    Say(Spoken),
    /// It asks for a tool.
    Call(ToolCall),
}

impl From<Spoken> for Reply {
    fn from(spoken: Spoken) -> Reply {
        Reply::Say(spoken)
    }
}

/// Which tools the desk may ask for in this request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Offers {
    pub(super) find_slot: bool,
    pub(super) book: bool,
    pub(super) callback: bool,
    pub(super) handoff: bool,
}

/// What became of the last use of `book`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// `book` was not used.
    Nothing,
    /// This booking stands: the form it was made with, and its number.
    Stands(Form, Option<String>),
    /// A booking was cancelled.
    Cancelled,
    /// It did nothing.
    NotDone,
    /// Nobody can say.
    Unknown,
}

/// Something long that the caller may want to hear the rest of.
struct Long {
    text: String,
    heard: usize,
}

/// A conversation as far as it has been read.
pub(super) struct Desk<'a> {
    pub(super) persona: &'a Persona,
    pub(super) offers: Offers,
    pub(super) form: Option<Form>,
    pub(super) asked: Option<Ask>,
    pub(super) open: Vec<ToolCall>,
    pub(super) standing: Standing,
    pub(super) misses: u32,
    /// A result of `book` that the caller has not heard of yet.
    pub(super) news: Option<String>,
    planned: Option<Spoken>,
    long: Option<Long>,
    last_heard: String,
    /// How many messages have been read: names the next tool call.
    at: usize,
}

/// The reply to a request: the same request always gets the same reply.
pub fn reply(persona: &Persona, request: &ModelRequest) -> Reply {
    let language = request.language.to_lowercase();
    if !(language.is_empty() || language == "und" || language.starts_with("en")) {
        return Spoken::plain(say::ONLY_ENGLISH).into();
    }
    let mut desk = Desk::new(persona, request);
    let skipped = request.history.len().saturating_sub(MOST_MESSAGES);
    let mut last = None;
    let mut newest_call = "";
    for (at, message) in as_known(&request.history).into_iter().enumerate().skip(skipped) {
        desk.at = at + 1;
        match message {
            Message::Said { role: Role::User, text } => last = Some(desk.user(text)),
            Message::Said { role: Role::Assistant, text } => {
                desk.heard(text);
                last = None;
            }
            Message::Said { role: Role::System, .. } => {}
            Message::Called(call) => {
                desk.called(call);
                newest_call = &call.call_id;
                last = None;
            }
            Message::Returned { call_id, output } => {
                let reply = desk.returned(call_id, output);
                // The late result of an older call does not answer for the newest one.
                if call_id == newest_call || last.is_none() {
                    last = Some(reply);
                }
            }
        }
    }
    last.unwrap_or_else(|| desk.unprompted())
}

/// The history in the order in which it has to be known: the result of a tool that was called
/// before the caller's last words comes before these words, so that they are answered knowing it.
fn as_known(history: &[Message]) -> Vec<&Message> {
    let mut known: Vec<&Message> = Vec::with_capacity(history.len());
    for message in history {
        let from_caller =
            |known: &&Message| matches!(known, Message::Said { role: Role::User, .. });
        let place = match message {
            Message::Returned { .. } => {
                known.len() - known.iter().rev().take_while(|known| from_caller(known)).count()
            }
            Message::Said { .. } | Message::Called(_) => known.len(),
        };
        known.insert(place, message);
    }
    known
}

impl<'a> Desk<'a> {
    fn new(persona: &'a Persona, request: &ModelRequest) -> Desk<'a> {
        let may = request.tool_choice != ToolChoice::None;
        let has = |name: &str| may && request.tools.iter().any(|tool| tool.name == name);
        Desk {
            persona,
            offers: Offers {
                find_slot: has("find_slot"),
                book: has("book"),
                callback: has("callback"),
                handoff: has("handoff"),
            },
            form: None,
            asked: None,
            open: Vec::new(),
            standing: Standing::Nothing,
            misses: 0,
            news: None,
            planned: None,
            long: None,
            last_heard: String::new(),
            at: 0,
        }
    }

    fn user(&mut self, text: &str) -> Reply {
        let asked = self.asked.take();
        let news = self.news.take();
        let before = self.misses;
        self.misses = 0;
        let reply = self.answer(&Words::of(text), asked, before);
        let reply = match (reply, news) {
            (Reply::Say(spoken), Some(news)) => {
                self.news = Some(news.clone());
                Reply::Say(spoken.after(&news))
            }
            (call @ Reply::Call(_), news) => {
                self.news = news;
                call
            }
            (reply, None) => reply,
        };
        self.plan(reply)
    }

    /// Remembers what is about to be said, to compare it with what was heard.
    fn plan(&mut self, reply: Reply) -> Reply {
        self.planned = match &reply {
            Reply::Say(spoken) => Some(spoken.clone()),
            Reply::Call(_) => None,
        };
        reply
    }

    /// The caller heard this much of an answer, which need not be ours.
    fn heard(&mut self, text: &str) {
        let heard = bare(text);
        if heard.is_empty() {
            return;
        }
        self.last_heard = text.to_owned();
        if let Some(long) = &mut self.long
            && bare(&long.text).starts_with(&heard)
        {
            long.heard = heard.len();
        }
        self.asked = match &self.planned {
            Some(planned) if bare(&planned.text).starts_with(&heard) => {
                asked_by(planned, heard.len())
            }
            _ => asked_in(&text.to_lowercase()),
        };
        if let Some(news) = &self.news {
            let first = say::sentences(news).first().map(|first| bare(first)).unwrap_or_default();
            if heard.windows(first.len().max(1)).any(|part| part == first) {
                self.news = None;
            }
        }
    }

    fn called(&mut self, call: &ToolCall) {
        if call.name == "book"
            && let Some(form) = &mut self.form
        {
            form.sent = true;
        }
        self.open.push(call.clone());
    }

    fn returned(&mut self, call_id: &str, output: &str) -> Reply {
        let Some(at) = self.open.iter().rposition(|call| call.call_id == call_id) else {
            return self.unprompted();
        };
        let call = self.open.remove(at);
        let reply = match call.name.as_str() {
            "find_slot" => self.found(&call, outcome::found(output)),
            "book" => self.booked(&call, outcome::booked(output)),
            "handoff" => self.person_asked(outcome::asked(output)).into(),
            "callback" => self.callback_asked(outcome::asked(output)).into(),
            _ => self.unprompted(),
        };
        self.plan(reply)
    }

    /// Nobody has said anything new.
    fn unprompted(&mut self) -> Reply {
        let reply = if self.last_heard.is_empty() && self.at == 0 {
            say::greeting(self.persona)
        } else if self.open.iter().any(|call| call.name == "book") {
            Spoken::plain(PENDING)
        } else {
            self.back_to_form(Spoken::plain("I am still here.")).unwrap_or_else(|spoken| Spoken {
                text: format!("{} How can I help?", spoken.text),
                ask: None,
            })
        };
        self.plan(reply.into())
    }

    /// A tool call under a name that the same request always gives it.
    pub(super) fn call(&self, name: &str, arguments: String) -> Reply {
        // FNV-1a: another call at the same place of the history must have another name.
        let hash = arguments
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        let call_id = format!("desk_{}_{hash:08x}", self.at);
        Reply::Call(ToolCall { call_id, name: name.to_owned(), arguments })
    }

    /// Says this and asks again what the open form waits for; gives it back where there is none.
    pub(super) fn back_to_form(&mut self, spoken: Spoken) -> Result<Spoken, Spoken> {
        match self.question() {
            Some(question) => Ok(question.after(&spoken.text)),
            None => Err(spoken),
        }
    }

    /// Begins something long.
    pub(super) fn tell(&mut self, text: String) -> Spoken {
        self.long = Some(Long { text: text.clone(), heard: 0 });
        Spoken::plain(text)
    }

    /// The rest of something long, from the sentence where it was cut.
    pub(super) fn rest(&mut self) -> Option<Spoken> {
        let long = self.long.as_ref()?;
        let mut passed = 0;
        let rest: Vec<&str> = say::sentences(&long.text)
            .into_iter()
            .skip_while(|sentence| {
                passed += bare(sentence).len();
                passed <= long.heard
            })
            .collect();
        let text = rest.join(" ");
        (!text.is_empty()).then(|| self.tell(text))
    }

    /// The last thing that was said to the caller, whole if it was ours.
    pub(super) fn again(&mut self) -> Spoken {
        if let Some(planned) = self.planned.clone()
            && (self.last_heard.is_empty()
                || bare(&planned.text).starts_with(&bare(&self.last_heard)))
        {
            return planned;
        }
        // Somebody else's words are repeated as they were heard, but no claim is made twice.
        let safe = |part: &&str| !part.to_lowercase().contains("book");
        let heard = say::sentences(&self.last_heard);
        let text = heard.into_iter().filter(safe).take(8).collect::<Vec<_>>().join(" ");
        match text.chars().any(char::is_alphanumeric) {
            true => Spoken { ask: asked_in(&text.to_lowercase()), text },
            false => say::greeting(self.persona),
        }
    }

    /// Starts a form, or says that this conversation has no calendar.
    pub(super) fn open_form(&mut self, action: Action) -> Result<(), Spoken> {
        let possible = self.offers.book || (action == Action::Book && self.offers.find_slot);
        if !possible {
            return Err(Spoken::plain(
                "I cannot make, move or cancel bookings in this conversation, I am afraid. \
                 I can tell you our opening hours and our address.",
            ));
        }
        self.form = Some(Form::new(action));
        Ok(())
    }
}

/// While a booking is on its way.
pub(super) const PENDING: &str = "I have sent your request to the calendar. \
     I do not know yet whether it went through.";

/// What our own words asked for, when this many words of them were heard. A question to be answered
/// with yes or no counts only if all before it was heard: nobody agrees to what he did not hear.
fn asked_by(planned: &Spoken, heard: usize) -> Option<Ask> {
    let ask = planned.ask?;
    let open_question = matches!(
        ask,
        Ask::Day | Ask::Time | Ask::Party | Ask::Name | Ask::Pick | Ask::NewDay | Ask::Change
    );
    let sentences = say::sentences(&planned.text);
    let before: usize = sentences.iter().rev().skip(1).map(|part| bare(part).len()).sum();
    (open_question || heard >= before.max(1)).then_some(ask)
}

/// What somebody else's words asked for.
fn asked_in(text: &str) -> Option<Ask> {
    const MARKS: &[(&str, Ask)] = &[
        ("what day", Ask::Day),
        ("which day", Ask::Day),
        ("what time", Ask::Time),
        ("how many", Ask::Party),
        ("what name", Ask::Name),
        ("your name", Ask::Name),
        ("new day", Ask::NewDay),
    ];
    let last = |(mark, ask): &(&str, Ask)| text.rfind(mark).map(|at| (at, *ask));
    MARKS.iter().filter_map(last).max_by_key(|(at, _)| *at).map(|(_, ask)| ask)
}
