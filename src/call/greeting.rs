//! What the agent says first, on legs whose callers expect to be greeted.

use super::Call;
use super::state::{Floor, Model};
use crate::admission::Admit;
use crate::dialogue::Finish;
use crate::id::TurnId;
use crate::leg::ResponseRequest;
use crate::time::Timestamp;
use crate::turn::phrase::Phraser;

/// What the agent says first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// Its words.
    pub text: String,
    /// The caller may take the floor from it; a legal notice has to be heard to its end.
    pub interruptible: bool,
}

/// The greeting's turn: before the first that a caller commits.
pub(super) const GREETING: TurnId = TurnId(0);

impl Call {
    /// Says the greeting, under generation 0. Its sound is made like any answer's, without a model.
    pub(super) fn greet(&mut self, now: Timestamp, admit: &mut dyn Admit, greeting: Greeting) {
        let mut answer = self.new_answer(now, GREETING, now, ResponseRequest::default());
        answer.interruptible = greeting.interruptible;
        answer.written.clone_from(&greeting.text);
        answer.model = Model::Done(Finish::Stop);
        let (mut phraser, mut texts) = (Phraser::default(), Vec::new());
        phraser.push(&greeting.text, &mut texts);
        texts.extend(phraser.finish());
        let phrases: Vec<(u32, String)> = (0..).zip(texts).collect();
        for (index, text) in &phrases {
            answer.playout.announce(*index, text);
        }
        answer.phrases = phrases.len() as u32;
        self.floor = Floor::Thinking(Box::new(answer));
        self.ask_voice(now, admit, phrases);
    }
}
