//! Keys that the caller presses: they take the floor, and together they are a turn of their own.

use std::time::Duration;

use super::Call;
use super::state::{Ear, Floor};
use crate::admission::{Admit, Cancelled};
use crate::dialogue::{Item, ItemBody, ItemStatus, Role};
use crate::leg::{ResponseEnd, ToCaller, TurnDetection};
use crate::time::{Timestamp, ms};

/// Behind the last key, the next one begins another turn.
const KEYS_PAUSE: Duration = ms(1_500);
/// Most keys that one turn holds.
const KEYS_MAX: usize = 64;
/// The key that says "that was all".
const END_KEY: char = '#';

/// What stands before the keys in the words that the model is shown.
const PRESSED: &str = "Keys pressed: ";

/// What pressed keys mean as an answer: one is yes and two is no, as telephone menus have it.
/// Other words mean what they say.
pub(super) fn meant(said: &str) -> &str {
    let Some(keys) = said.strip_prefix(PRESSED) else { return said };
    match keys.trim_end_matches(END_KEY) {
        "1" => "yes",
        "2" => "no",
        keys => keys,
    }
}

/// Keys pressed so far.
#[derive(Debug)]
pub(super) struct Keys {
    pressed: String,
    /// When the last one was.
    last: Timestamp,
    /// They are a turn then.
    due: Timestamp,
}

impl Call {
    pub(super) fn on_key(&mut self, now: Timestamp, admit: &mut dyn Admit, key: char) {
        self.last_activity = now;
        if self.is_leaving() {
            return;
        }
        let mut keys =
            self.keys.take().unwrap_or(Keys { pressed: String::new(), last: now, due: now });
        keys.last = now;
        keys.due = now + KEYS_PAUSE;
        if key == END_KEY || keys.pressed.len() >= KEYS_MAX {
            keys.due = now;
        }
        if keys.pressed.len() < KEYS_MAX {
            keys.pressed.push(key);
        }
        self.keys = Some(keys);
        if self.can_be_interrupted() && self.profile.barge_in.keys {
            self.orphan_tools();
            self.fence(now, admit, Cancelled::BargeIn);
            let sounding = self.sounding(now);
            self.drop_answer(now, ResponseEnd::TurnDetected);
            self.clear_far_end(now, sounding);
            if let Ear::Suspect(_) = self.ear {
                self.announce_suspect();
            }
        }
        self.on_keys_due(now, admit);
    }

    /// When the keys so far are a turn.
    pub(super) fn keys_due(&self) -> Option<Timestamp> {
        // What the caller is saying comes first: one turn after the other.
        let quiet = !self.is_hearing();
        self.keys.as_ref().filter(|_| quiet).map(|keys| keys.due)
    }

    /// No further key came: those pressed are what the caller says.
    pub(super) fn on_keys_due(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        if self.is_hearing() {
            return;
        }
        let Some(keys) = self.keys.take_if(|keys| keys.due <= now) else { return };
        if keys.pressed == "#" {
            // The end of nothing.
            return self.send_frames(now, admit);
        }
        let (id, text) = (self.next_item(), format!("{PRESSED}{}", keys.pressed));
        let said = meant(&text).to_owned();
        let body = ItemBody::Text { role: Role::User, text };
        let after = self.append(&id, body.clone(), ItemStatus::Completed);
        let item = Item { id, body, status: ItemStatus::Completed };
        self.tell(ToCaller::ItemAdded { item, after });
        let answers = match self.settings.turn_detection {
            TurnDetection::Manual => false,
            TurnDetection::Server(turns) => turns.create_response,
        };
        if answers && !self.settings.transcription_only && !matches!(self.floor, Floor::Ringing) {
            let answered = self.unwanted(now, admit, keys.last, &said)
                || self.answers_offer(now, admit, keys.last, &said);
            if !answered {
                self.answer_words(now, admit, keys.last);
            }
        } else {
            // What was held back while the keys were pressed goes on.
            self.send_frames(now, admit);
        }
    }
}
