//! Answers in text beside the conversation (`conversation: "none"`): admitted, never spoken, never
//! rotated.

use super::fallback::Cause;
use super::state::{Model, Side};
use super::{Action, Call, SIDES_MAX, TOOL_FAN_OUT_MAX, WRITING_QUIET_MAX};
use crate::admission::{Admit, Answer as Verdict, Cancelled, Lease, OfferId};
use crate::dialogue::{Finish, ToolCall, ToolRuns, Usage};
use crate::fault::Fault;
use crate::id::{ResponseId, RunId, Stage};
use crate::leg::{Modality, ResponseEnd, ResponseHead, ResponseRequest, Tag, ToCaller};
use crate::time::Timestamp;

impl Call {
    pub(super) fn respond_beside(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        request: ResponseRequest,
        tag: Tag,
    ) {
        if self.sides.len() >= SIDES_MAX {
            let message = format!("At most {SIDES_MAX} out-of-band responses may run at once.");
            let code = "too_many_responses";
            return self.tell(ToCaller::Rejected { code, message, param: None, tag });
        }
        let response = self.next_response();
        let item = self.next_item();
        self.tell(ToCaller::ResponseStarted(ResponseHead {
            response,
            out_of_band: true,
            modality: Modality::Text,
            voice: None,
            max_tokens: request.max_tokens.unwrap_or(self.settings.max_tokens),
            metadata: request.metadata.clone(),
        }));
        let model = match self.offer(now, admit, Stage::Model, now, None) {
            Verdict::Admitted(lease) => Model::Writing(self.think_beside(lease, &request)),
            Verdict::Queued(ticket) => Model::Waiting(ticket),
            Verdict::Refused(refusal) => {
                return self.side_failed(response, &Cause::refused(refusal), Usage::default());
            }
        };
        let (text, calls) = (String::new(), Vec::new());
        let side = Side { item, model, text, calls, opened: false, progress: now, request };
        self.sides.insert(response, side);
    }

    fn think_beside(&mut self, lease: Lease, request: &ResponseRequest) -> RunId {
        let mut request = Box::new(self.model_request(request));
        // Beside the conversation nothing is done to the world: only the client's own functions are
        // offered.
        request.tools.retain(|tool| tool.runs == ToolRuns::AtClient);
        let run = self.owe(Stage::Model, Some(lease), None);
        self.act(Action::Think { run, request });
        run
    }

    fn side_failed(&mut self, response: ResponseId, cause: &Cause, usage: Usage) {
        let end = ResponseEnd::Failed { code: cause.code(), message: cause.to_string() };
        self.tell(ToCaller::ResponseEnded { response, end, usage });
    }

    fn side_of(&self, run: RunId) -> Option<ResponseId> {
        let writes = |side: &Side| side.model.is_run(run);
        self.sides.iter().find(|(_, side)| writes(side)).map(|(response, _)| *response)
    }

    /// The run belongs to an answer beside the conversation.
    pub(super) fn is_side_run(&self, run: RunId) -> bool {
        self.side_of(run).is_some()
    }

    pub(super) fn side_awaiting(&self, offer: OfferId) -> Option<ResponseId> {
        let waits = |side: &Side| side.model.awaits(offer);
        self.sides.iter().find(|(_, side)| waits(side)).map(|(response, _)| *response)
    }

    pub(super) fn grant_side(&mut self, now: Timestamp, response: ResponseId, lease: Lease) {
        let Some(request) = self.sides.get(&response).map(|side| side.request.clone()) else {
            return;
        };
        self.note(Stage::Model, "admitted", "", None);
        let run = self.think_beside(lease, &request);
        if let Some(side) = self.sides.get_mut(&response) {
            side.model = Model::Writing(run);
            side.progress = now;
        }
    }

    pub(super) fn side_expired(&mut self, offer: OfferId) {
        if let Some(response) = self.side_awaiting(offer) {
            self.sides.remove(&response);
            self.side_failed(response, &Cause::expired(Stage::Model), Usage::default());
        }
    }

    /// True when the words were for an answer beside the conversation.
    pub(super) fn side_wrote(&mut self, now: Timestamp, run: RunId, text: &str) -> bool {
        let Some(response) = self.side_of(run) else { return false };
        let Some(side) = self.sides.get_mut(&response) else { return false };
        side.text.push_str(text);
        side.progress = now;
        let (item, begins) = (side.item.clone(), !side.opened);
        side.opened = true;
        if begins {
            let (item, modality) = (item.clone(), Modality::Text);
            self.tell(ToCaller::MessageStarted { response, item, after: None, modality });
        }
        self.tell(ToCaller::Text { response, item, delta: text.to_owned() });
        true
    }

    /// True when the call was asked for beside the conversation.
    pub(super) fn side_wanted(&mut self, run: RunId, call: &ToolCall) -> bool {
        let Some(response) = self.side_of(run) else { return false };
        if let Some(side) = self.sides.get_mut(&response)
            && side.calls.len() < TOOL_FAN_OUT_MAX
        {
            side.calls.push(call.clone());
        }
        true
    }

    pub(super) fn side_finished(&mut self, run: RunId, finish: Finish, usage: Usage) -> bool {
        let Some(response) = self.side_of(run) else { return false };
        let Some(side) = self.sides.remove(&response) else { return false };
        if !side.opened && side.calls.is_empty() {
            self.side_failed(response, &Cause::fault(Stage::Model, &Fault::Empty), usage);
            return true;
        }
        if side.opened {
            let (item, text) = (side.item, side.text);
            self.tell(ToCaller::MessageEnded { response, item, completed: true, text });
        }
        for call in side.calls {
            let item = self.next_item();
            self.tell(ToCaller::FunctionCalled { response, item, after: None, call });
        }
        let end = match finish {
            Finish::Stop | Finish::ToolCalls => ResponseEnd::Completed,
            Finish::Length => ResponseEnd::MaxTokens,
            Finish::ContentFilter => ResponseEnd::ContentFilter,
        };
        self.tell(ToCaller::ResponseEnded { response, end, usage });
        true
    }

    /// The run of an answer beside the conversation ended before it had finished.
    pub(super) fn side_over(&mut self, run: RunId, fault: Option<&Fault>) -> bool {
        let Some(response) = self.side_of(run) else { return false };
        if let Some(side) = self.sides.remove(&response)
            && side.opened
        {
            let (item, text) = (side.item, side.text);
            self.tell(ToCaller::MessageEnded { response, item, completed: false, text });
        }
        let cause = Cause::fault(Stage::Model, fault.unwrap_or(&Fault::Empty));
        self.side_failed(response, &cause, Usage::default());
        true
    }

    /// The call ends: nothing beside it goes on.
    pub(super) fn drop_sides(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        for side in std::mem::take(&mut self.sides).into_values() {
            match side.model {
                Model::Waiting(ticket) => admit.withdraw(now, ticket, Cancelled::HangUp),
                Model::Writing(run) => self.cancel_run(now, admit, run, Cancelled::HangUp),
                Model::Behind | Model::Done(_) => {}
            }
        }
    }

    /// When an answer beside the conversation has been stuck for too long.
    pub(super) fn side_due(&self) -> Option<Timestamp> {
        let writing = |side: &&Side| matches!(side.model, Model::Writing(_));
        self.sides.values().filter(writing).map(|side| side.progress + WRITING_QUIET_MAX).min()
    }

    /// Whoever asked for it is told that nothing comes.
    pub(super) fn on_side_due(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let stuck = |side: &Side| {
            matches!(side.model, Model::Writing(_)) && side.progress + WRITING_QUIET_MAX <= now
        };
        let found = self.sides.iter().find(|(_, side)| stuck(side)).map(|(response, _)| *response);
        let Some((response, side)) = found.and_then(|r| Some((r, self.sides.remove(&r)?))) else {
            return;
        };
        if let Model::Writing(run) = side.model {
            self.cancel_run(now, admit, run, Cancelled::Superseded);
        }
        if side.opened {
            let (item, text) = (side.item, side.text);
            self.tell(ToCaller::MessageEnded { response, item, completed: false, text });
        }
        let cause = Cause::fault(Stage::Model, &Fault::Slow { deadline: "writing" });
        self.side_failed(response, &cause, Usage::default());
    }

    /// The client cancels an answer beside the conversation. False when it is none.
    pub(super) fn cancel_side(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        response: ResponseId,
    ) -> bool {
        let Some(side) = self.sides.remove(&response) else { return false };
        match side.model {
            Model::Waiting(ticket) => admit.withdraw(now, ticket, Cancelled::Client),
            Model::Writing(run) => self.cancel_run(now, admit, run, Cancelled::Client),
            Model::Behind | Model::Done(_) => {}
        }
        if side.opened {
            let (item, text) = (side.item, side.text);
            self.tell(ToCaller::MessageEnded { response, item, completed: false, text });
        }
        let (end, usage) = (ResponseEnd::ClientCancelled, Usage::default());
        self.tell(ToCaller::ResponseEnded { response, end, usage });
        true
    }
}
