//! What a protocol client asks for: items, answers, cancels, truncation.

use std::time::Duration;

use super::Call;
use super::state::{Afterwards, Floor, Settling, Then};
use crate::admission::{Admit, Cancelled};
use crate::dialogue::{Item, ItemBody, ItemStatus};
use crate::id::{ItemId, ResponseId, TurnId};
use crate::leg::{Place, ResponseEnd, ResponseRequest, Tag, ToCaller};
use crate::time::Timestamp;
use crate::turn::history::Wrong;

impl Call {
    pub(super) fn on_add_item(&mut self, mut item: Item, after: &Place, tag: Tag) {
        if let ItemBody::FunctionOutput { call_id, .. } = &item.body
            && !self.history.awaits_output(call_id)
        {
            let message = format!("Tool call ID '{call_id}' not found in conversation.");
            let code = "invalid_tool_call_id";
            let param = Some("item.call_id");
            return self.tell(ToCaller::Rejected { code, message, param, tag });
        }
        item.status = ItemStatus::Completed;
        match self.history.add(item.clone(), after) {
            Ok(after) => self.tell(ToCaller::ItemAdded { item, after }),
            Err(wrong) => self.reject_item(wrong, &item.id, after, tag),
        }
    }

    fn reject_item(&mut self, wrong: Wrong, id: &ItemId, after: &Place, tag: Tag) {
        let (code, param, message) = match (wrong, after) {
            (Wrong::Unknown, Place::After(previous)) => (
                "item_create_invalid_previous_item_id",
                "previous_item_id",
                format!("Item with ID '{previous}' does not exist; nothing was added."),
            ),
            _ => (
                "item_create_duplicate_item_id",
                "item.id",
                format!("An item with ID '{id}' already exists in the conversation."),
            ),
        };
        self.tell(ToCaller::Rejected { code, message, param: Some(param), tag });
    }

    pub(super) fn on_delete_item(&mut self, item: ItemId, tag: Tag) {
        match self.history.remove(&item) {
            Ok(()) => self.tell(ToCaller::Deleted { item }),
            Err(_) => self.reject_unknown("item_delete_invalid_item_id", &item, tag),
        }
    }

    pub(super) fn on_retrieve_item(&mut self, item: &ItemId, tag: Tag) {
        match self.history.get(item).cloned() {
            Some(item) => self.tell(ToCaller::Retrieved(item)),
            None => self.reject_unknown("item_retrieve_invalid_item_id", item, tag),
        }
    }

    fn reject_unknown(&mut self, code: &'static str, item: &ItemId, tag: Tag) {
        let message = format!("Item with ID '{item}' does not exist in the conversation.");
        self.tell(ToCaller::Rejected { code, message, param: Some("item_id"), tag });
    }

    pub(super) fn on_truncate(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        item: ItemId,
        played: Duration,
        tag: Tag,
    ) {
        if let Some((sounding, playout)) = self.floor.playout()
            && *sounding == item
        {
            playout.cap(played);
        }
        match self.history.truncate(&item, played) {
            Ok(_) => self.tell(ToCaller::Truncated { item: item.clone(), played }),
            Err(Wrong::NotSpoken) => {
                let message = "Only model output audio messages can be truncated.".to_owned();
                let (code, param) = ("invalid_value", Some("item_id"));
                self.tell(ToCaller::Rejected { code, message, param, tag });
            }
            Err(Wrong::Unknown | Wrong::Duplicate) => {
                self.reject_unknown("item_truncate_invalid_item_id", &item, tag);
            }
        }
        // Nothing more of a tail that the caller's end has cut will be heard.
        if let Floor::PlayingOut(tail) = &self.floor
            && tail.item == item
            && tail.leaves.is_none()
        {
            (self.floor, self.plays_until) = (Floor::Listening { resumes: tail.resumes }, now);
            self.floor_is_free(now, admit);
        }
    }

    /// The far end reports how much of what sounds it has played.
    pub(super) fn on_heard(&mut self, now: Timestamp, item: &ItemId, played: Duration) {
        if let Some((sounding, playout)) = self.floor.playout()
            && sounding == item
        {
            playout.report(now, played);
        }
    }

    /// The client asked for an answer at `asked`.
    pub(super) fn on_respond(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        asked: Timestamp,
        request: Box<ResponseRequest>,
        tag: Tag,
    ) {
        if self.settings.transcription_only {
            let message = "A transcription session makes no responses.".to_owned();
            let code = "invalid_request";
            return self.tell(ToCaller::Rejected { code, message, param: None, tag });
        }
        if self.is_leaving() {
            let message = "The call is ending; no response can be made any more.".to_owned();
            let code = "call_ending";
            return self.tell(ToCaller::Rejected { code, message, param: None, tag });
        }
        if request.out_of_band {
            return self.respond_beside(now, admit, *request, tag);
        }
        if self.is_arranging() {
            let message =
                "What the caller agreed to is being arranged; wait until it is.".to_owned();
            let code = "call_arranging";
            return self.tell(ToCaller::Rejected { code, message, param: None, tag });
        }
        if let Some(response) = self.active_response() {
            return self.reject_second(&response.to_string(), tag);
        }
        match self.settling.back_mut() {
            // The words this asks about are still being recognised.
            Some(Settling { then: then @ (Then::Nothing | Then::Answer), .. }) => {
                *then = Then::Respond(request, tag, asked);
                return;
            }
            Some(_) => return self.reject_second("(waiting for the words of an utterance)", tag),
            None => {}
        }
        let resumes = match self.floor {
            Floor::Listening { resumes } => resumes,
            Floor::PlayingOut(ref tail) => tail.resumes,
            Floor::Ringing
            | Floor::Arranging(_)
            | Floor::Thinking(_)
            | Floor::Speaking(_)
            | Floor::FallingBack(_)
            | Floor::Ended { .. } => None,
        };
        let turn = match resumes {
            Some(turn) => {
                self.let_tail_play();
                turn
            }
            None => self.commit_turn(now, admit),
        };
        self.start_answer(now, admit, turn, asked, *request);
    }

    /// The answer that was asked for has not begun, because the words it is about are still being
    /// recognised: it ends before it begins.
    fn cancel_awaited(&mut self, now: Timestamp) -> bool {
        let asked = self.settling.iter_mut().rev().find_map(|settling| match &settling.then {
            Then::Respond(..) => Some(std::mem::replace(&mut settling.then, Then::Nothing)),
            Then::Nothing | Then::Answer => None,
        });
        let Some(Then::Respond(request, _, asked)) = asked else { return false };
        // A response of its own: the client is owed a beginning and an end.
        let answer = self.new_answer(now, TurnId(self.counters.turn), asked, *request);
        let (response, usage) = (answer.response, answer.usage);
        self.tell(ToCaller::ResponseEnded { response, end: ResponseEnd::ClientCancelled, usage });
        true
    }

    fn active_response(&self) -> Option<ResponseId> {
        match &self.floor {
            Floor::Thinking(answer) | Floor::Speaking(answer) => Some(answer.response),
            Floor::FallingBack(prompt) => match (&prompt.then, prompt.response) {
                (Afterwards::Wait(answer), _) => Some(answer.response),
                (Afterwards::Listen, response) => response.map(|(response, _)| response),
                // A goodbye is no answer that could be cancelled.
                (Afterwards::Arrange(_) | Afterwards::HangUp(_), _) => None,
            },
            Floor::Ringing
            | Floor::Arranging(_)
            | Floor::Listening { .. }
            | Floor::PlayingOut(_)
            | Floor::Ended { .. } => None,
        }
    }

    fn reject_second(&mut self, response: &str, tag: Tag) {
        // The transport puts its own name of the response in place of ours.
        let message = format!(
            "Conversation already has an active response in progress: {response}. Wait until the \
             response is finished before creating a new one."
        );
        let code = "conversation_already_has_active_response";
        self.tell(ToCaller::Rejected { code, message, param: None, tag });
    }

    pub(super) fn on_cancel(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        response: Option<ResponseId>,
        tag: Tag,
    ) {
        if let Some(response) = response
            && self.cancel_side(now, admit, response)
        {
            return;
        }
        if response.is_none() && self.cancel_awaited(now) {
            return;
        }
        let active = self.active_response();
        if active.is_none() || response.is_some_and(|response| active != Some(response)) {
            let message = "Cancellation failed: no active response found".to_owned();
            let code = "response_cancel_not_active";
            return self.tell(ToCaller::Rejected { code, message, param: None, tag });
        }
        self.orphan_tools();
        self.fence(now, admit, Cancelled::Client);
        let sounding = self.sounding(now);
        self.drop_answer(now, ResponseEnd::ClientCancelled);
        self.clear_far_end(now, sounding);
        self.last_activity = now;
        self.floor_is_free(now, admit);
    }
}
