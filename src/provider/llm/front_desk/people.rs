//! Asking for a person or a call back: only what the tools on offer can really do.

use serde_json::json;

use super::desk::{Desk, Reply};
use super::outcome::{Asked, Trouble};
use super::say::Spoken;
use super::slots::Ask;

impl Desk<'_> {
    /// The caller wants a person.
    pub(super) fn person(&mut self) -> Reply {
        if self.open.iter().any(|call| call.name == "handoff") {
            return Spoken::plain("I have asked for a person. Nobody has answered yet.").into();
        }
        if self.offers.handoff {
            let reason = json!({"reason": "the caller asked for a person"});
            return self.call("handoff", reason.to_string());
        }
        let sorry = "I cannot connect you to a person from here, I am afraid.";
        if self.offers.callback {
            let text = format!("{sorry} I could ask for a call back. Shall I?");
            return Spoken::asking(text, Ask::Callback).into();
        }
        self.or_the_form(sorry).into()
    }

    /// The caller wants to be called back.
    pub(super) fn call_back(&mut self) -> Reply {
        if self.open.iter().any(|call| call.name == "callback") {
            let text = "I have asked for a call back. I do not know yet whether it is recorded.";
            return Spoken::plain(text).into();
        }
        if self.offers.callback {
            let reason = json!({"reason": "the caller asked to be called back"});
            return self.call("callback", reason.to_string());
        }
        self.or_the_form("I cannot arrange a call back from here, I am afraid.").into()
    }

    /// `handoff` has returned.
    pub(super) fn person_asked(&mut self, asked: Asked) -> Spoken {
        match asked {
            Asked::Done => Spoken::plain("A person has answered. I am connecting you now."),
            Asked::Pending => Spoken::plain("I have asked for a person. Nobody has answered yet."),
            Asked::Trouble(Trouble::Busy) => {
                self.or_the_form("I am sorry, nobody can take your call just now.")
            }
            Asked::Trouble(Trouble::Stopped) => self.or_the_form("I stopped asking for a person."),
            Asked::Trouble(Trouble::Failed) => {
                self.or_the_form("I am sorry, I could not reach anybody.")
            }
            Asked::Trouble(Trouble::Unknown) => {
                self.or_the_form("I am sorry, I cannot tell whether anybody was reached.")
            }
        }
    }

    /// `callback` has returned.
    pub(super) fn callback_asked(&mut self, asked: Asked) -> Spoken {
        self.or_the_form(match asked {
            Asked::Done => "Your request for a call back is recorded.",
            Asked::Pending => "I have asked for a call back. It is not recorded yet.",
            Asked::Trouble(Trouble::Busy) => {
                "I am sorry, no call back can be taken on at the moment."
            }
            Asked::Trouble(Trouble::Stopped) => "I stopped asking for a call back.",
            Asked::Trouble(Trouble::Failed) => "I am sorry, the call back could not be recorded.",
            Asked::Trouble(Trouble::Unknown) => {
                "I am sorry, I cannot tell whether the call back is recorded."
            }
        })
    }

    fn or_the_form(&mut self, text: &str) -> Spoken {
        self.back_to_form(Spoken::plain(text)).unwrap_or_else(|alone| {
            Spoken::asking(format!("{} What else can I do for you?", alone.text), Ask::Else)
        })
    }
}
