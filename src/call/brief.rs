//! What a human has to know of a caller before they are joined: read from the history, without a
//! model.

use super::rungs::Unit;
use super::state::Floor;
use super::{Call, keys};
use crate::dialogue::{Message, Role};
use crate::turn::words::{Reply, reply};

/// Words that are passed on of one utterance.
const WORDS_MAX: usize = 24;
/// With fewer words nothing is asked, as far as can be told.
const QUESTION_MIN: usize = 3;

/// What is known of a caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Brief {
    /// The caller's language (BCP 47).
    pub language: String,
    /// Where they call from.
    pub number: Option<String>,
    /// What they asked last.
    pub asked: Option<String>,
    /// What they heard of the last thing that was done for them.
    pub told: Option<String>,
}

impl Call {
    /// What a human has to know of this caller.
    pub fn brief(&self) -> Brief {
        let messages = self.history.messages();
        Brief {
            language: self.profile.language.clone(),
            number: self.identity.number.clone(),
            asked: self.asked(&messages),
            told: told(&messages),
        }
    }

    /// A human has said that they take the caller, who has heard so.
    pub fn awaits_connection(&self) -> bool {
        matches!(&self.floor, Floor::Arranging(arranging)
            if matches!(arranging.unit, Unit::Acknowledged(_)))
    }

    /// The last of the caller's words that is more than a yes or a no; a whole question where there
    /// is one.
    fn asked(&self, messages: &[Message]) -> Option<String> {
        let words = |text: &str| text.split_whitespace().count();
        let is_reply = |text: &str| {
            words(text) <= QUESTION_MIN
                && reply(keys::meant(text), &self.profile.language) != Reply::Other
        };
        let said = messages.iter().rev().filter_map(|message| match message {
            Message::Said { role: Role::User, text } => Some(text.trim()),
            _ => None,
        });
        let said: Vec<&str> = said.filter(|text| !text.is_empty() && !is_reply(text)).collect();
        let is_question = |text: &&&str| words(text) >= QUESTION_MIN;
        said.iter().find(is_question).or(said.first()).map(|text| shortened(text))
    }
}

/// What the agent said behind the last result of a tool.
fn told(messages: &[Message]) -> Option<String> {
    let done = messages.iter().rposition(|m| matches!(m, Message::Returned { .. }))?;
    messages[done..].iter().find_map(|message| match message {
        Message::Said { role: Role::Assistant, text } if !text.trim().is_empty() => {
            Some(shortened(text))
        }
        _ => None,
    })
}

fn shortened(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().take(WORDS_MAX).collect();
    words.join(" ").trim_end_matches(['.', '!']).to_owned()
}
