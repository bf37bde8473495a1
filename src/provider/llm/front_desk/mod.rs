//! The built-in front desk: a deterministic dialogue engine that needs no account and no key.
//!
//! It answers from the history alone: the same request always gets the same reply. It stays a
//! front desk whatever the instructions say; it cannot follow instructions. A tool that it calls
//! is named `find_slot`, `book`, `handoff` or `callback`, and only if the request offers it.
//!
//! Its table takes `name`, `opening_hours` (a text, or a table of weekdays), `address` and
//! `party_max`. Results of tools are believed only in the shapes that `outcome.rs` lists; any
//! other result of `book` is an unknown outcome, and is told as one. The names of its tool calls
//! repeat from one call to the next, so an idempotency key made from them has to hold the
//! conversation's own name as well.
//!
//! A cancelled run stops between two words; its end proves that nothing runs any more
//! (`abort_acknowledged`), because nothing outside the run's own future ever works for it.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::ModelSignal;
use crate::dialogue::{Finish, Message, ModelRequest, Usage};
use crate::evidence::Evidence;
use crate::provider::{BuildError, Cancel, Ended, Entry, Run, Surroundings};

mod answer;
mod booking;
mod desk;
mod form;
mod intents;
mod name;
mod outcome;
mod people;
mod persona;
mod say;
mod slots;
mod when;
mod words;

pub use desk::{Reply, reply};
pub use persona::Persona;
pub use say::Spoken;
pub use slots::Ask;

/// Its line in the table.
pub const ENTRY: Entry<dyn super::Llm> =
    Entry { name: "front_desk", about: "built-in dialogue engine", build };

fn build(table: &toml::Table, _: &Surroundings) -> Result<Arc<dyn super::Llm>, BuildError> {
    Ok(Arc::new(FrontDesk::new(Persona::from_table(table)?)))
}

/// The front desk as a language model.
#[derive(Debug)]
pub struct FrontDesk {
    persona: Persona,
}

impl FrontDesk {
    /// A desk that speaks for this place.
    pub fn new(persona: Persona) -> FrontDesk {
        FrontDesk { persona }
    }
}

impl super::Llm for FrontDesk {
    fn run(
        self: Arc<Self>,
        request: ModelRequest,
        out: mpsc::Sender<ModelSignal>,
        cancel: Cancel,
    ) -> Run {
        Box::pin(async move {
            let signals = signals(reply(&self.persona, &request), &request);
            for signal in signals {
                let sent = tokio::select! {
                    biased;
                    () = cancel.cancelled() => false,
                    sent = out.send(signal) => sent.is_ok(),
                };
                if !sent {
                    return Ended::stopped(Evidence::AbortAcknowledged);
                }
            }
            Ended::completed()
        })
    }
}

/// The reply as a model writes it: word by word. Its tokens are words.
fn signals(reply: Reply, request: &ModelRequest) -> Vec<ModelSignal> {
    let most = request.max_tokens.map_or(usize::MAX, |most| most as usize);
    let mut signals = Vec::new();
    let finish = match reply {
        Reply::Say(spoken) => {
            let words: Vec<&str> = spoken.text.split_whitespace().collect();
            let pieces = words.iter().take(most).enumerate().map(|(at, word)| {
                let gap = if at == 0 { "" } else { " " };
                ModelSignal::Text(format!("{gap}{word}"))
            });
            signals.extend(pieces);
            if words.len() > most { Finish::Length } else { Finish::Stop }
        }
        Reply::Call(call) => {
            signals.push(ModelSignal::ToolCall(call));
            Finish::ToolCalls
        }
    };
    let usage = Usage { input_tokens: words_read(request), output_tokens: small(signals.len()) };
    signals.push(ModelSignal::Finished { finish, usage });
    signals
}

fn words_read(request: &ModelRequest) -> u32 {
    let words = |text: &str| text.split_whitespace().count();
    let read = request.history.iter().map(|message| match message {
        Message::Said { text, .. } => words(text),
        Message::Called(call) => words(&call.arguments),
        Message::Returned { output, .. } => words(output),
    });
    small(read.sum())
}

fn small(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
