//! Tools of an answer: started only for the living generation, bounded, their outcomes never
//! invented.

use super::consent::NOT_AGREED;
use super::fallback::Cause;
use super::orders::Given;
use super::state::{Answer, Floor, Orphan, ToolState, ToolUse, Voice};
use super::{Action, Call, TOOL_CALLS_MAX, TOOL_FAN_OUT_MAX, TOOL_ROUNDS_MAX};
use crate::admission::{Admit, Answer as Verdict, Lease, OfferId, mutant};
use crate::dialogue::{Effect, Item, ItemBody, ItemStatus, ToolCall, ToolOutcome, ToolRuns};
use crate::evidence::{Evidence, Unknown};
use crate::fault::Fault;
use crate::id::{ItemId, RunId, Stage, ToolId};
use crate::leg::{Modality, ToCaller};
use crate::time::Timestamp;

impl Answer {
    /// Every tool call of this round is answered or is the client's.
    pub fn tools_are_done(&self) -> bool {
        self.calls
            .iter()
            .all(|call| matches!(call.state, ToolState::Returned | ToolState::AtClient))
    }
}

impl Call {
    pub(super) fn on_wanted(&mut self, run: RunId, call: ToolCall) {
        if self.side_wanted(run, &call) || self.guess_wanted(run, &call) {
            return;
        }
        let Some(answer) = self.floor.answer().filter(|answer| answer.model.is_run(run)) else {
            if mutant::is("tool_started_after_fence") {
                self.use_tool(None, ToolId(0), Effect::MustFinish, &call);
            }
            return self.late(run, "model");
        };
        if answer.calls.len() < TOOL_CALLS_MAX {
            answer.calls.push(ToolUse { call, state: ToolState::Wanted });
        }
    }

    /// The model has stopped writing: its tool calls begin. True when the answer waits for some of
    /// them.
    pub(super) fn start_tools(&mut self, now: Timestamp, admit: &mut dyn Admit) -> bool {
        let Some(answer) = self.floor.answer() else { return false };
        let calls: Vec<ToolCall> = answer.calls.iter().map(|use_| use_.call.clone()).collect();
        let called = answer.called as usize;
        answer.called += calls.len() as u32;
        for (at, call) in calls.iter().enumerate() {
            let same =
                |other: &ToolCall| other.name == call.name && other.arguments == call.arguments;
            let again = calls[..at].iter().any(same);
            let state = match self.offered(&call.name) {
                _ if at >= TOOL_FAN_OUT_MAX => self.refuse_tool(call, "too many tools at once"),
                _ if called + at >= self.profile.tool_calls_max => {
                    self.refuse_tool(call, "too many tool calls in one turn")
                }
                None => self.refuse_tool(call, "there is no such tool"),
                Some(ToolRuns::AtClient) => ToolState::AtClient,
                Some(ToolRuns::Here { effect, .. }) if again && effect != Effect::Read => {
                    self.refuse_tool(call, "the same was asked for already")
                }
                Some(ToolRuns::Here { effect, .. }) if self.is_held(effect) => ToolState::Held,
                Some(ToolRuns::Here { tool, effect }) => {
                    self.record_call(call);
                    self.start_tool(now, admit, tool, effect, call)
                }
            };
            if let Some(answer) = self.floor.answer() {
                answer.calls[at].state = state;
            }
        }
        !calls.is_empty() && self.after_tools(now, admit)
    }

    /// Who runs this tool, if it is on offer now: a permission is looked up when it is used
    ///
    fn offered(&mut self, name: &str) -> Option<ToolRuns> {
        let own = self.floor.answer().and_then(|answer| answer.request.tools.clone());
        let specs = own.as_ref().unwrap_or(&self.settings.tools);
        specs.iter().find(|spec| spec.name == name).map(|spec| spec.runs)
    }

    /// What changes something waits until the words written before its call have been heard, and
    /// while the caller speaks: they can still object (B36, B45).
    fn is_held(&mut self, effect: Effect) -> bool {
        let speaks = self.caller_speaks() && !mutant::is("tool_started_over_the_caller");
        let Some(answer) = self.floor.answer() else { return false };
        let silent = answer.phrases == 0 || answer.modality == Modality::Text;
        effect != Effect::Read && (speaks || !silent)
    }

    /// When what is held may start: its words have been heard, and nobody speaks.
    pub(super) fn announced_due(&self) -> Option<Timestamp> {
        let (Floor::Thinking(answer) | Floor::Speaking(answer)) = &self.floor else { return None };
        let held = |use_: &ToolUse| matches!(use_.state, ToolState::Held);
        let said = matches!(answer.voice, Voice::Unasked) && !answer.playout.has_waiting();
        let quiet = !self.caller_speaks();
        (said && quiet && answer.calls.iter().any(held)).then_some(self.plays_until)
    }

    /// What was announced has been heard: now it is done.
    pub(super) fn on_announced(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let Some(answer) = self.floor.answer() else { return };
        let announced = |use_: &ToolUse| matches!(use_.state, ToolState::Held);
        let calls: Vec<(usize, ToolCall)> = answer
            .calls
            .iter()
            .enumerate()
            .filter(|(_, use_)| announced(use_))
            .map(|(at, use_)| (at, use_.call.clone()))
            .collect();
        for (at, call) in calls {
            let state = match self.offered(&call.name) {
                Some(ToolRuns::Here { tool, effect }) => {
                    self.record_call(&call);
                    self.start_tool(now, admit, tool, effect, &call)
                }
                // The client took it off its list meanwhile.
                Some(ToolRuns::AtClient) | None => self.refuse_tool(&call, "there is no such tool"),
            };
            if let Some(answer) = self.floor.answer() {
                answer.calls[at].state = state;
            }
        }
        self.tool_came(now, admit);
    }

    fn refuse_tool(&mut self, call: &ToolCall, why: &str) -> ToolState {
        self.record_call(call);
        self.record_output(&call.call_id, error_json(why))
    }

    fn start_tool(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        tool: ToolId,
        effect: Effect,
        call: &ToolCall,
    ) -> ToolState {
        let Some(turn) = self.floor.answer().map(|answer| answer.turn) else {
            return ToolState::Returned;
        };
        if effect != Effect::Read {
            match self.order(tool, &call.arguments, &call.call_id) {
                Given::Running(run) => return ToolState::Running(run),
                Given::Done(result) => return self.record_output(&call.call_id, result),
                Given::Fresh(_) => {}
            }
        } else if let Some(run) = self.still_running(tool, call) {
            return ToolState::Running(run);
        }
        if !self.agreed(tool, &call.arguments) {
            return self.record_output(&call.call_id, error_json(NOT_AGREED));
        }
        let stage = Stage::Tool(tool);
        match self.offer(now, admit, stage, turn.born, Some(turn)) {
            Verdict::Admitted(lease) => {
                ToolState::Running(self.use_tool(Some(lease), tool, effect, call))
            }
            Verdict::Queued(ticket) => ToolState::Waiting(ticket),
            Verdict::Refused(refusal) => {
                let cause = Cause::refused(refusal);
                let output = error_json(&format!("not run: {cause}"));
                self.record_output(&call.call_id, output)
            }
        }
    }

    /// The very same thing was begun for words that were merged into this turn, and still runs: it
    /// is not done twice (B38, B42).
    fn still_running(&self, tool: ToolId, call: &ToolCall) -> Option<RunId> {
        let same = |orphan: &Orphan| orphan.tool == tool && orphan.call.arguments == call.arguments;
        let running = |run: &RunId| self.owed.get(run).is_some_and(|owed| owed.cancelled.is_none());
        self.orphans.iter().find(|(run, orphan)| same(orphan) && running(run)).map(|(run, _)| *run)
    }

    fn use_tool(
        &mut self,
        lease: Option<Lease>,
        tool: ToolId,
        effect: Effect,
        call: &ToolCall,
    ) -> RunId {
        let turn = self.floor.answer().map(|answer| answer.turn.id);
        let run = self.owe(Stage::Tool(tool), lease, turn);
        if let Some(owed) = self.owed.get_mut(&run) {
            owed.effect = Some(effect);
        }
        let arguments = call.arguments.clone();
        let idempotency_key = match self.order(tool, &arguments, &call.call_id) {
            Given::Fresh(key) if effect != Effect::Read => {
                self.order_started(tool, &arguments, &key, run);
                key
            }
            Given::Fresh(_) | Given::Running(_) | Given::Done(_) => {
                let generation = self.generation;
                format!("{}{generation}/{}", self.identity.item_prefix, call.call_id)
            }
        };
        self.act(Action::UseTool { run, tool, arguments, idempotency_key });
        run
    }

    pub(super) fn grant_tool(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        lease: Lease,
    ) -> Option<Lease> {
        let (offer, stage) = (lease.offer, lease.stage);
        let Stage::Tool(tool) = stage else { return Some(lease) };
        let answer = self.floor.answer();
        let waits =
            |use_: &ToolUse| matches!(&use_.state, ToolState::Waiting(t) if t.offer == offer);
        let Some(at) = answer.and_then(|answer| answer.calls.iter().position(waits)) else {
            return Some(lease);
        };
        let turn = self.floor.answer().map(|answer| answer.turn.id);
        self.note(stage, "admitted", "", turn);
        let answer = self.floor.answer()?;
        let call = answer.calls[at].call.clone();
        let Some(ToolRuns::Here { effect, .. }) = self.offered(&call.name) else {
            // Taken off the list while it waited: it may not start any more.
            let state = self.record_output(&call.call_id, error_json("there is no such tool"));
            if let Some(answer) = self.floor.answer() {
                answer.calls[at].state = state;
            }
            self.tool_came(now, admit);
            return Some(lease);
        };
        if effect != Effect::Read && self.caller_speaks() {
            // The caller may be objecting: it is offered anew once they are quiet.
            if let Some(answer) = self.floor.answer() {
                answer.calls[at].state = ToolState::Held;
            }
            return Some(lease);
        }
        let run = self.use_tool(Some(lease), tool, effect, &call);
        if let Some(answer) = self.floor.answer() {
            answer.calls[at].state = ToolState::Running(run);
        }
        None
    }

    pub(super) fn tool_wait_ended(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        offer: OfferId,
    ) {
        let waits =
            |use_: &ToolUse| matches!(&use_.state, ToolState::Waiting(t) if t.offer == offer);
        let Some(answer) = self.floor.answer() else { return };
        let Some(at) = answer.calls.iter().position(waits) else { return };
        let call_id = answer.calls[at].call.call_id.clone();
        let output = error_json("not run: it waited too long for a free unit");
        let state = self.record_output(&call_id, output);
        if let Some(answer) = self.floor.answer() {
            answer.calls[at].state = state;
        }
        self.tool_came(now, admit);
    }

    pub(super) fn on_tool_returned(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        run: RunId,
        outcome: ToolOutcome,
    ) {
        let result = output_of(&outcome);
        self.order_ended(run, &outcome, &result);
        let is_run = |use_: &ToolUse| matches!(use_.state, ToolState::Running(own) if own == run);
        let calls = self.floor.answer().map(|answer| answer.calls.iter().enumerate());
        let found: Vec<(usize, String)> = calls
            .into_iter()
            .flatten()
            .filter(|(_, use_)| is_run(use_))
            .map(|(at, use_)| (at, use_.call.call_id.clone()))
            .collect();
        if found.is_empty() {
            return self.late_tool(run, &outcome);
        }
        let joined = self.orphans.remove(&run);
        if let Some(orphan) = &joined {
            let _ = self.record_output(&orphan.call.call_id, result.clone());
        }
        for (at, call_id) in found {
            // What was asked to stop for an older answer was not done: this one still wants it.
            let anew = joined.is_some() && outcome == ToolOutcome::Cancelled;
            let state = match anew {
                true => ToolState::Held,
                false => self.record_output(&call_id, result.clone()),
            };
            if let Some(answer) = self.floor.answer() {
                answer.calls[at].state = state;
            }
        }
        self.tool_came(now, admit);
    }

    /// A tool of an old generation returned: its outcome is in the next turn's history and speaks
    /// for nobody.
    fn late_tool(&mut self, run: RunId, outcome: &ToolOutcome) {
        self.late(run, "tool");
        if let Some(call_id) = self.strays.get(&run).and_then(|stray| stray.call_id.as_deref()) {
            // It was unknown; now it is known.
            self.history.amend_output(call_id, &output_of(outcome));
        }
        if let Some(orphan) = self.orphans.remove(&run) {
            let _ = self.record_output(&orphan.call.call_id, output_of(outcome));
        }
    }

    /// A tool's run ended without an outcome. What changes the world and had started may have done
    /// so, whatever went wrong.
    pub(super) fn tool_run_over(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        run: RunId,
        effect: Effect,
        proof: Result<Evidence, Unknown>,
        fault: Option<&Fault>,
    ) {
        let is_run = |use_: &ToolUse| matches!(use_.state, ToolState::Running(own) if own == run);
        let running = self.floor.answer().is_some_and(|answer| answer.calls.iter().any(is_run));
        if !running && !self.orphans.contains_key(&run) {
            return;
        }
        if proof.is_err()
            && let Some(call_id) = self.call_id_of(run)
            && let Some(stray) = self.strays.get_mut(&run)
        {
            stray.call_id = Some(call_id);
        }
        let harmless = effect == Effect::Read || proof == Ok(Evidence::NeverStarted);
        let outcome = match fault {
            Some(fault) if harmless => ToolOutcome::Failed(fault.to_string()),
            Some(_) | None => ToolOutcome::Unknown,
        };
        if running {
            return self.on_tool_returned(now, admit, run, outcome);
        }
        let result = output_of(&outcome);
        self.order_ended(run, &outcome, &result);
        if let Some(orphan) = self.orphans.remove(&run) {
            let _ = self.record_output(&orphan.call.call_id, result);
        }
    }

    fn call_id_of(&mut self, run: RunId) -> Option<String> {
        let is_run = |use_: &&ToolUse| matches!(use_.state, ToolState::Running(own) if own == run);
        let of_answer = self.floor.answer().and_then(|answer| answer.calls.iter().find(is_run));
        let call_id = of_answer.map(|use_| use_.call.call_id.clone());
        call_id.or_else(|| self.orphans.get(&run).map(|orphan| orphan.call.call_id.clone()))
    }

    /// Tool calls that were started and lose the floor: their outcomes are awaited without being
    /// spoken.
    pub(super) fn orphan_tools(&mut self) {
        let Some(answer) = self.floor.answer() else { return };
        let started: Vec<(RunId, ToolCall)> = answer
            .calls
            .iter()
            .filter_map(|use_| match use_.state {
                ToolState::Running(run) => Some((run, use_.call.clone())),
                ToolState::Wanted
                | ToolState::Held
                | ToolState::Waiting(_)
                | ToolState::Returned
                | ToolState::AtClient => None,
            })
            .collect();
        let dropped: Vec<String> = answer
            .calls
            .iter()
            .filter(|use_| matches!(use_.state, ToolState::Waiting(_)))
            .map(|use_| use_.call.call_id.clone())
            .collect();
        for (run, call) in started {
            let Some(Stage::Tool(tool)) = self.owed.get(&run).map(|owed| owed.stage) else {
                continue;
            };
            self.orphans.insert(run, Orphan { call, tool });
        }
        for call_id in dropped {
            let _ = self.record_output(&call_id, error_json("not run: the caller took the floor"));
        }
    }

    /// Something came of a tool that ran or waited: the turn's clock stood still for it, and the
    /// last that comes is the next round's birth. What was refused at once kept nobody waiting.
    fn tool_came(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        if let Some(answer) = self.floor.answer().filter(|answer| answer.tools_are_done()) {
            answer.turn.born = now;
        }
        self.after_tools(now, admit);
    }

    /// Goes on when all tools of a round are answered: the model is shown the results, unless the
    /// client has to answer some of them first. True when the answer goes on or waits.
    fn after_tools(&mut self, now: Timestamp, admit: &mut dyn Admit) -> bool {
        let Some(answer) = self.floor.answer() else { return true };
        if !answer.tools_are_done() {
            return true;
        }
        if answer.calls.iter().any(|use_| matches!(use_.state, ToolState::AtClient)) {
            self.close_voice();
            self.check_complete(now, admit);
            return true;
        }
        if answer.rounds >= TOOL_ROUNDS_MAX {
            let fault = Fault::Garbled { detail: "tools without end".into() };
            self.give_up(now, admit, Cause::fault(Stage::Model, &fault));
            return true;
        }
        answer.rounds += 1;
        answer.calls.clear();
        answer.progress = now;
        self.ask_model(now, admit);
        true
    }

    /// The client's functions of an answer become items and are told. True when there were any.
    pub(super) fn tell_client_calls(&mut self, answer: &Answer) -> bool {
        let mut any = false;
        for use_ in answer.calls.iter().filter(|u| matches!(u.state, ToolState::AtClient)) {
            any = true;
            let id = self.next_item();
            let call = use_.call.clone();
            let body = ItemBody::FunctionCall(call.clone());
            let after = self.append(&id, body, ItemStatus::Completed);
            let response = answer.response;
            self.tell(ToCaller::FunctionCalled { response, item: id, after, call });
        }
        any
    }

    fn record_call(&mut self, call: &ToolCall) {
        if self.history.knows_call(&call.call_id) {
            return;
        }
        let id = self.next_item();
        self.hide(id, ItemBody::FunctionCall(call.clone()));
    }

    fn record_output(&mut self, call_id: &str, output: String) -> ToolState {
        let id = self.next_item();
        self.hide(id, ItemBody::FunctionOutput { call_id: call_id.to_owned(), output });
        ToolState::Returned
    }

    fn hide(&mut self, id: ItemId, body: ItemBody) {
        self.history.add_hidden(Item { id, body, status: ItemStatus::Completed });
    }
}

/// A tool's outcome as the model is shown it.
fn output_of(outcome: &ToolOutcome) -> String {
    match outcome {
        ToolOutcome::Completed(result) => result.clone(),
        ToolOutcome::Cancelled => error_json("cancelled before it took effect"),
        ToolOutcome::Failed(why) => error_json(&format!("failed: {why}")),
        ToolOutcome::Unknown => error_json("unknown: it may or may not have taken effect"),
    }
}

/// `{"error": …}` as JSON text; this layer has no JSON library.
fn error_json(what: &str) -> String {
    let mut escaped = String::with_capacity(what.len());
    for c in what.chars() {
        match c {
            '"' | '\\' => escaped.extend(['\\', c]),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    format!("{{\"error\":\"{escaped}\"}}")
}
