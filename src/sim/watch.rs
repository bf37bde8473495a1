//! Invariants of any simulated call, held against every event and action (DESIGN section 9).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::call::{Action, Call};
use crate::dialogue::{Message, Role};
use crate::id::{ItemId, ResponseId};
use crate::leg::{Modality, ToCaller};
use crate::time::{Timestamp, ms};

/// What a caller may be left without a word beyond the budget: one prompt's start.
const SLACK: Duration = ms(200);

/// What has to stay true.
pub(super) struct Watch {
    budget: Duration,
    /// Since when an answer is made, the caller is silent and nothing was heard.
    silent_since: Option<Timestamp>,
    /// Every word the agent's sound has begun to say, by item.
    said: BTreeMap<ItemId, String>,
    open: BTreeSet<ResponseId>,
    writing: BTreeSet<ResponseId>,
    over: bool,
    told: bool,
}

impl Watch {
    /// `wait` is what is said to a turn that waits: the only words that no client is told.
    pub fn new(budget: Duration, wait: String) -> Watch {
        let (open, writing) = (BTreeSet::new(), BTreeSet::new());
        let said = BTreeMap::from([(ItemId::new("please wait"), wait)]);
        Watch { budget, silent_since: None, said, open, writing, over: false, told: false }
    }

    /// Nothing that the caller cannot have heard is in a request (invariant 7).
    fn asked(&self, now: Timestamp, history: &[Message], problems: &mut Vec<String>) {
        for message in history {
            let Message::Said { role: Role::Assistant, text } = message else { continue };
            if !self.said.values().any(|said| said.trim().starts_with(text.trim())) {
                let at = now.as_millis();
                problems.push(format!("at {at} ms: a request holds words never said: \"{text}\""));
            }
        }
    }

    /// Before an event: has the caller been left alone for too long (invariant 5)?
    pub fn state(&mut self, now: Timestamp, call: &Call, problems: &mut Vec<String>) {
        let waits = call.state_names() == ("thinking", "quiet")
            && call.settings().modality == Modality::Audio;
        if !waits {
            self.silent_since = None;
            self.told = false;
            return;
        }
        let since = *self.silent_since.get_or_insert(now);
        if now.since(since) > self.budget + SLACK && !self.told {
            self.told = true;
            problems.push(format!(
                "at {} ms: dead air since {} ms",
                now.as_millis(),
                since.as_millis()
            ));
        }
    }

    /// Every response and message that begins ends once, and nothing follows the hang-up.
    pub fn action(&mut self, now: Timestamp, action: &Action, problems: &mut Vec<String>) {
        let what = match action {
            Action::Tell(what) => what,
            Action::Think { request, .. } => return self.asked(now, &request.history, problems),
            _ => return,
        };
        if let ToCaller::Text { item, delta, .. } = what {
            self.said.entry(item.clone()).or_default().push_str(delta);
        }
        let mut wrong = |what: &str, response: ResponseId| {
            problems.push(format!("at {} ms: {what} {response}", now.as_millis()));
        };
        match what {
            ToCaller::ResponseStarted(head) if !self.open.insert(head.response) => {
                wrong("a second start of", head.response);
            }
            ToCaller::MessageStarted { response, .. } if !self.writing.insert(*response) => {
                wrong("a message inside a message of", *response);
            }
            ToCaller::MessageStarted { response, .. } if !self.open.contains(response) => {
                wrong("a message outside of", *response);
            }
            ToCaller::MessageEnded { response, .. } if !self.writing.remove(response) => {
                wrong("the end of no message of", *response);
            }
            ToCaller::ResponseEnded { response, .. } => {
                if !self.open.remove(response) {
                    wrong("a second end of", *response);
                }
                if self.writing.contains(response) {
                    wrong("an open message at the end of", *response);
                }
            }
            ToCaller::Audio { response: Some(response), .. }
                if !self.writing.contains(response) =>
            {
                wrong("sound outside of a message of", *response);
            }
            ToCaller::Audio { .. } if self.over => {
                problems.push(format!("at {} ms: sound behind the hang-up", now.as_millis()));
            }
            ToCaller::HangUp { .. } => self.over = true,
            _ => {}
        }
    }

    /// Nothing is due any more: the call is at rest, and every response has ended.
    pub fn rest(&self, call: &Call, problems: &mut Vec<String>) {
        let (floor, ear) = call.state_names();
        if call.has_ended().is_some() {
            return;
        }
        if floor != "listening" || ear != "quiet" {
            problems.push(format!("at rest in {floor}/{ear}: a normal turn would not be answered"));
        }
        for response in &self.open {
            problems.push(format!("{response} never ended"));
        }
    }
}
