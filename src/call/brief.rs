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
            asked: asked(&messages, &self.profile.language),
            told: told(&messages),
        }
    }

    /// A human has said that they take the caller, who has heard so.
    pub fn awaits_connection(&self) -> bool {
        matches!(&self.floor, Floor::Arranging(arranging)
            if matches!(arranging.unit, Unit::Acknowledged(_)))
    }
}

/// The last of the caller's words that is more than a yes or a no; a whole question where there is
/// one.
fn asked(messages: &[Message], language: &str) -> Option<String> {
    let words = |text: &str| text.split_whitespace().count();
    let is_reply = |text: &str| {
        words(text) <= QUESTION_MIN && reply(keys::meant(text), language) != Reply::Other
    };
    let said = messages.iter().rev().filter_map(|message| match message {
        Message::Said { role: Role::User, text } => Some(text.trim()),
        Message::Said { .. } | Message::Called(_) | Message::Returned { .. } => None,
    });
    let said: Vec<&str> = said.filter(|text| !text.is_empty() && !is_reply(text)).collect();
    let is_question = |text: &&&str| words(text) >= QUESTION_MIN;
    said.iter().find(is_question).or(said.first()).map(|text| shortened(text))
}

/// What the agent said behind the last result of a tool.
fn told(messages: &[Message]) -> Option<String> {
    let done = messages.iter().rposition(|m| matches!(m, Message::Returned { .. }))?;
    messages[done..].iter().find_map(|message| match message {
        Message::Said { role: Role::Assistant, text } if !text.trim().is_empty() => {
            Some(shortened(text))
        }
        Message::Said { .. } | Message::Called(_) | Message::Returned { .. } => None,
    })
}

fn shortened(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().take(WORDS_MAX).collect();
    words.join(" ").trim_end_matches(['.', '!']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(role: Role, text: &str) -> Message {
        Message::Said { role, text: text.to_owned() }
    }

    #[test]
    fn a_yes_is_no_question() {
        let mut messages = vec![
            said(Role::User, "Can I have a table for two on Friday?"),
            said(Role::Assistant, "Shall I try to reach a person?"),
            said(Role::User, "Yes please."),
        ];
        let question = "Can I have a table for two on Friday?";
        assert_eq!(asked(&messages, "en").as_deref(), Some(question));
        messages.insert(1, said(Role::User, "Hello?"));
        assert_eq!(asked(&messages, "en").as_deref(), Some(question), "a whole question first");
        assert_eq!(asked(&messages[1..], "en").as_deref(), Some("Hello?"));
        assert_eq!(asked(&messages[2..], "en"), None);
        let long = said(Role::User, &"word ".repeat(60));
        assert_eq!(asked(&[long], "en").unwrap().split(' ').count(), WORDS_MAX);
    }

    #[test]
    fn what_was_agreed_is_what_was_said_behind_a_tool() {
        let mut messages = vec![said(Role::Assistant, "Good morning.")];
        assert_eq!(told(&messages), None, "nothing was done");
        let output = "{\"ok\": true}".to_owned();
        messages.push(Message::Returned { call_id: "1".to_owned(), output });
        assert_eq!(told(&messages), None, "nothing of it was heard");
        messages.push(said(Role::Assistant, "You have a table for two on Friday."));
        messages.push(said(Role::User, "I want to speak to a person."));
        messages.push(said(Role::Assistant, "I am trying to reach one."));
        assert_eq!(told(&messages).as_deref(), Some("You have a table for two on Friday"));
    }
}
