//! The conversation's items, and the history a model is shown: of the agent's words only what was
//! heard.

use std::time::Duration;

use crate::dialogue::{Item, ItemBody, ItemStatus, Message, Role, ToolCall};
use crate::id::ItemId;
use crate::leg::Place;
use crate::turn::script::Script;

/// Most items a conversation keeps; the oldest go first.
pub const ITEMS_MAX: usize = 2_000;
/// Most bytes of text that a conversation keeps, beside its newest item; the oldest go first.
pub const BYTES_MAX: usize = 4 * 1_024 * 1_024;

/// What a model is shown in place of a tool's result that has not come yet.
const UNFINISHED: &str = "{\"status\":\"started, not finished yet\"}";

/// One conversation.
#[derive(Clone, Debug, Default)]
pub struct History {
    entries: Vec<Entry>,
}

/// An item and, when it is the agent's speech, what of it was heard.
#[derive(Clone, Debug)]
struct Entry {
    item: Item,
    spoken: Option<Spoken>,
    /// Known to the client as an item of the conversation.
    visible: bool,
}

impl Entry {
    /// What of it may be as large as whoever wrote it likes.
    fn bytes(&self) -> usize {
        match &self.item.body {
            ItemBody::Text { text, .. } => text.len(),
            ItemBody::Speech { transcript } => transcript.as_ref().map_or(0, String::len),
            ItemBody::Spoken { transcript } => transcript.len(),
            ItemBody::FunctionCall(call) => call.arguments.len(),
            ItemBody::FunctionOutput { output, .. } => output.len(),
        }
    }

    fn is_being_said(&self) -> bool {
        matches!(self.item.body, ItemBody::Spoken { .. })
            && self.item.status == ItemStatus::InProgress
    }
}

#[derive(Clone, Debug)]
struct Spoken {
    script: Script,
    heard: Duration,
    sent: Duration,
}

/// Why an item request could not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// An item of this name exists.
    Duplicate,
    /// There is no item of this name.
    Unknown,
    /// The item is no speech of the agent.
    NotSpoken,
}

impl History {
    /// Adds an item and gives the visible one before it.
    pub fn add(&mut self, item: Item, place: &Place) -> Result<Option<ItemId>, Wrong> {
        self.insert(Entry { item, spoken: None, visible: true }, place)
    }

    /// Adds an item that only the model sees (our own tools' calls and results).
    pub fn add_hidden(&mut self, item: Item) {
        let entry = Entry { item, spoken: None, visible: false };
        // A hidden item's name is ours and counts up: it cannot be a duplicate.
        let _ = self.insert(entry, &Place::End);
    }

    fn insert(&mut self, entry: Entry, place: &Place) -> Result<Option<ItemId>, Wrong> {
        if self.find(&entry.item.id).is_some() {
            return Err(Wrong::Duplicate);
        }
        let at = match place {
            Place::End => self.entries.len(),
            Place::Front => 0,
            Place::After(id) => self.find(id).ok_or(Wrong::Unknown)? + 1,
        };
        let before = self.entries[..at].iter().rev().find(|entry| entry.visible);
        let before = before.map(|entry| entry.item.id.clone());
        self.entries.insert(at, entry);
        self.forget_oldest();
        Ok(before)
    }

    fn forget_oldest(&mut self) {
        let mut bytes: usize = self.entries.iter().map(Entry::bytes).sum();
        let mut gone = 0;
        while self.entries.len() - gone > ITEMS_MAX
            || bytes > BYTES_MAX && self.entries.len() - gone > 1
        {
            bytes -= self.entries[gone].bytes();
            gone += 1;
        }
        self.entries.drain(..gone);
    }

    /// Removes an item.
    pub fn remove(&mut self, id: &ItemId) -> Result<(), Wrong> {
        let at = self.find(id).ok_or(Wrong::Unknown)?;
        self.entries.remove(at);
        Ok(())
    }

    /// The item of this name.
    pub fn get(&self, id: &ItemId) -> Option<&Item> {
        self.find(id).map(|at| &self.entries[at].item)
    }

    /// A tool call of this name was made and is not answered yet.
    pub fn awaits_output(&self, call_id: &str) -> bool {
        let called =
            |body: &ItemBody| matches!(body, ItemBody::FunctionCall(c) if c.call_id == call_id);
        let answered = |body: &ItemBody| match body {
            ItemBody::FunctionOutput { call_id: id, .. } => id == call_id,
            _ => false,
        };
        self.entries.iter().any(|entry| called(&entry.item.body))
            && !self.entries.iter().any(|entry| answered(&entry.item.body))
    }

    /// A tool call of this name is in the conversation.
    pub fn knows_call(&self, call_id: &str) -> bool {
        self.is_call(call_id)
    }

    /// What came of a tool is known after all.
    pub fn amend_output(&mut self, id: &str, known: &str) {
        for entry in &mut self.entries {
            if let ItemBody::FunctionOutput { call_id, output } = &mut entry.item.body
                && call_id == id
            {
                *output = known.to_owned();
            }
        }
    }

    /// What the caller said is known.
    pub fn set_transcript(&mut self, id: &ItemId, text: &str) {
        if let Some(at) = self.find(id)
            && let ItemBody::Speech { transcript } = &mut self.entries[at].item.body
        {
            *transcript = Some(text.to_owned());
        }
    }

    /// The text of a written answer so far.
    pub fn set_text(&mut self, id: &ItemId, text: &str, status: ItemStatus) {
        if let Some(at) = self.find(id) {
            let entry = &mut self.entries[at];
            entry.item.status = status;
            if let ItemBody::Text { text: own, .. } = &mut entry.item.body {
                *own = text.to_owned();
            }
        }
    }

    /// How much of the agent's speech was sent and heard so far, and its words.
    pub fn set_heard(&mut self, id: &ItemId, script: Script, heard: Duration, sent: Duration) {
        if let Some(at) = self.find(id) {
            let entry = &mut self.entries[at];
            if let ItemBody::Spoken { transcript } = &mut entry.item.body {
                *transcript = script.heard(heard).to_owned();
            }
            entry.spoken = Some(Spoken { script, heard, sent });
        }
    }

    /// The agent's speech is over; `completed` says whether all of it was sent.
    pub fn finish_spoken(&mut self, id: &ItemId, completed: bool) {
        if let Some(at) = self.find(id) {
            let done = if completed { ItemStatus::Completed } else { ItemStatus::Incomplete };
            self.entries[at].item.status = done;
        }
    }

    /// The client says how much of an item was heard; overshoot is clamped to what was sent. Gives
    /// what is now taken as heard.
    pub fn truncate(&mut self, id: &ItemId, played: Duration) -> Result<Duration, Wrong> {
        let at = self.find(id).ok_or(Wrong::Unknown)?;
        let entry = &mut self.entries[at];
        let ItemBody::Spoken { transcript } = &mut entry.item.body else {
            return Err(Wrong::NotSpoken);
        };
        let Some(spoken) = &mut entry.spoken else {
            transcript.clear();
            return Ok(Duration::ZERO);
        };
        spoken.heard = played.min(spoken.sent);
        *transcript = spoken.script.heard(spoken.heard).to_owned();
        Ok(spoken.heard)
    }

    /// What the caller said last, behind the agent's last words as they were heard; `None` when
    /// anything else stands between them.
    pub fn last_exchange(&self) -> Option<(&str, String)> {
        let mut said = Vec::new();
        for entry in self.entries.iter().rev() {
            match &entry.item.body {
                ItemBody::Speech { transcript } => said.extend(transcript.as_deref()),
                ItemBody::Text { role: Role::User, text } => said.push(text),
                ItemBody::Spoken { transcript: text }
                | ItemBody::Text { role: Role::Assistant, text } => {
                    said.reverse();
                    return Some((text, said.join(" ")));
                }
                ItemBody::Text { role: Role::System, .. }
                | ItemBody::FunctionCall(_)
                | ItemBody::FunctionOutput { .. } => return None,
            }
        }
        None
    }

    /// How much of an item of the agent's speech was heard, and which words.
    pub fn heard(&self, id: &ItemId) -> Option<(Duration, &str)> {
        let entry = &self.entries[self.find(id)?];
        match (&entry.item.body, &entry.spoken) {
            (ItemBody::Spoken { transcript }, Some(spoken)) => Some((spoken.heard, transcript)),
            _ => None,
        }
    }

    /// Bytes of all that is kept.
    pub fn bytes(&self) -> usize {
        self.entries.iter().map(Entry::bytes).sum()
    }

    /// What a model is shown, oldest first. Results stand right behind their calls, as model
    /// servers demand, whenever they came; a call without a result is shown as unfinished, not as
    /// new. What is being said in front of a call stands in front of it: behind it, servers take it
    /// for the beginning of the next answer and go on with it.
    pub fn messages(&self) -> Vec<Message> {
        let mut messages = Vec::new();
        let mut asked: Vec<&str> = Vec::new();
        // Where the calls begin that nothing was said behind.
        let mut calls_from = 0;
        for entry in &self.entries {
            let call_id = match &entry.item.body {
                ItemBody::FunctionCall(call) => Some(call.call_id.as_str()),
                // Shown behind its call.
                ItemBody::FunctionOutput { call_id, .. } if self.is_call(call_id) => continue,
                _ => None,
            };
            let Some(message) = to_message(&entry.item.body) else { continue };
            if entry.is_being_said() {
                messages.insert(calls_from, message);
                calls_from += 1;
                continue;
            }
            if call_id.is_none() {
                messages.extend(asked.drain(..).map(|call_id| self.result_of(call_id)));
                calls_from = messages.len() + 1;
            }
            asked.extend(call_id);
            messages.push(message);
        }
        messages.extend(asked.into_iter().map(|call_id| self.result_of(call_id)));
        messages
    }

    fn is_call(&self, id: &str) -> bool {
        let called = |body: &ItemBody| matches!(body, ItemBody::FunctionCall(c) if c.call_id == id);
        self.entries.iter().any(|entry| called(&entry.item.body))
    }

    fn result_of(&self, id: &str) -> Message {
        let of = |entry: &Entry| match &entry.item.body {
            ItemBody::FunctionOutput { call_id, output } if call_id == id => Some(output.clone()),
            _ => None,
        };
        let output = self.entries.iter().find_map(of).unwrap_or_else(|| UNFINISHED.to_owned());
        Message::Returned { call_id: id.to_owned(), output }
    }

    /// One item as a model is shown it.
    pub fn message(&self, id: &ItemId) -> Option<Message> {
        self.get(id).and_then(|item| to_message(&item.body))
    }

    fn find(&self, id: &ItemId) -> Option<usize> {
        self.entries.iter().rposition(|entry| entry.item.id == *id)
    }
}

fn to_message(body: &ItemBody) -> Option<Message> {
    let said = |role, text: &str| {
        let text = text.trim();
        (!text.is_empty()).then(|| Message::Said { role, text: text.to_owned() })
    };
    match body {
        ItemBody::Text { role, text } => said(*role, text),
        ItemBody::Speech { transcript } => said(Role::User, transcript.as_deref().unwrap_or("")),
        ItemBody::Spoken { transcript } => said(Role::Assistant, transcript),
        ItemBody::FunctionCall(call) => Some(Message::Called(ToolCall::clone(call))),
        ItemBody::FunctionOutput { call_id, output } => {
            Some(Message::Returned { call_id: call_id.clone(), output: output.clone() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialogue::WordTime;
    use crate::time::ms;

    fn spoken(id: &str) -> Item {
        let body = ItemBody::Spoken { transcript: String::new() };
        Item { id: ItemId::new(id), body, status: ItemStatus::InProgress }
    }

    #[test]
    fn the_model_is_shown_only_what_was_heard() {
        let mut history = History::default();
        let id = ItemId::new("a");
        assert_eq!(history.add(spoken("a"), &Place::End), Ok(None));
        assert!(history.messages().is_empty(), "nothing was heard yet");
        let words =
            vec![WordTime { text_end: 5, end: ms(300) }, WordTime { text_end: 11, end: ms(600) }];
        let script = Script { text: "There was a king.".into(), words };
        history.set_heard(&id, script, ms(650), ms(800));
        let said = |text: &str| Message::Said { role: Role::Assistant, text: text.into() };
        assert_eq!(history.messages(), [said("There was a")]);
        assert_eq!(history.truncate(&id, ms(400)), Ok(ms(400)));
        assert_eq!(history.messages(), [said("There")]);
        assert_eq!(history.truncate(&id, ms(9_999)), Ok(ms(800)), "overshoot is clamped");
    }

    #[test]
    fn results_stand_behind_their_calls_whenever_they_came() {
        let mut history = History::default();
        let call =
            |id: &str| ToolCall { call_id: id.into(), name: "book".into(), arguments: "{}".into() };
        let mut add = |id: &str, body: ItemBody| {
            let item = Item { id: ItemId::new(id), body, status: ItemStatus::Completed };
            history.add_hidden(item);
        };
        add("a", ItemBody::FunctionCall(call("one")));
        add("b", ItemBody::FunctionCall(call("two")));
        add("c", ItemBody::Text { role: Role::User, text: "hello".into() });
        add("d", ItemBody::FunctionOutput { call_id: "one".into(), output: "done".into() });
        let returned = |id: &str, output: &str| Message::Returned {
            call_id: id.into(),
            output: output.into(),
        };
        assert_eq!(
            history.messages(),
            [
                Message::Called(call("one")),
                Message::Called(call("two")),
                returned("one", "done"),
                returned("two", UNFINISHED),
                Message::Said { role: Role::User, text: "hello".into() },
            ]
        );
    }

    #[test]
    fn items_go_where_they_are_put_and_names_are_unique() {
        let mut history = History::default();
        assert_eq!(history.add(spoken("a"), &Place::End), Ok(None));
        let a = ItemId::new("a");
        assert_eq!(history.add(spoken("b"), &Place::After(a.clone())), Ok(Some(a.clone())));
        assert_eq!(history.add(spoken("c"), &Place::Front), Ok(None));
        assert_eq!(history.add(spoken("a"), &Place::End), Err(Wrong::Duplicate));
        let nowhere = Place::After(ItemId::new("x"));
        assert_eq!(history.add(spoken("d"), &nowhere), Err(Wrong::Unknown));
        assert_eq!(history.remove(&ItemId::new("x")), Err(Wrong::Unknown));
    }
}
