//! What others do in a simulated process: units held by hand; and what is kept for the script's
//! expectations.

use std::collections::BTreeMap;

use super::client;
use super::expect::HeardCheck;
use super::script::{Handled, Script};
use super::workers::Workers;
use super::world::{HOLDER, TICK, World};
use crate::admission::limits::Slots;
use crate::admission::{Admit, Answer, Cancelled, Lease, Offer, Release};
use crate::call::Action;
use crate::dialogue::{Message, Role};
use crate::evidence::Evidence;
use crate::id::{Generation, Stage};
use crate::leg::ToCaller;

impl World {
    pub(super) fn hold(&mut self, script: &Script, at: usize, take: bool) {
        let held = &script.gates[at];
        let stage =
            self.names.iter().find(|(_, name)| **name == held.gate).map(|(stage, _)| *stage);
        let Some(stage) = stage else {
            return self.problems.push(format!("gate[{}]: there is no gate {}", at + 1, held.gate));
        };
        match held.what {
            Handled::Holds(units) if take => self.take_units(at, stage, units),
            Handled::Holds(_) => {
                for lease in self.holds.remove(&at).unwrap_or_default() {
                    let release = Release::Completed(Evidence::Operator);
                    let _ = self.gates.settle(self.now, lease, release);
                }
                self.deliver();
            }
            Handled::Limits { slots, queue } => {
                let Some(gate) = self.gates.gates.get(&stage) else { return };
                let mut limits = gate.limits().clone();
                let own = script.config.gates().into_iter().find(|(of, _)| *of == stage);
                let Some((_, own)) = own else { return };
                let slots = slots.filter(|_| take).map_or(own.slots, Slots::Units);
                (limits.slots, limits.queue) = (slots, queue.filter(|_| take).unwrap_or(own.queue));
                self.line(&format!("-- {} may now have {} units", held.gate, word_of(slots)));
                let runs = runs_at(stage, &self.holds, &self.workers);
                self.gates.change(self.now, stage, limits, runs);
                self.deliver();
            }
        }
    }

    fn take_units(&mut self, at: usize, stage: Stage, units: u32) {
        self.gates.rotate(self.now, HOLDER, Generation(0), Cancelled::Client);
        for _ in 0..units {
            let offer = Offer::plain(self.gates.name_offer(), HOLDER, self.now, self.now + TICK);
            if let Answer::Admitted(lease) = self.gates.ask(self.now, stage, offer) {
                self.holds.entry(at).or_default().push(lease);
            }
        }
        // What is refused to somebody else is not refused to this call.
        self.gates.refused.clear();
    }

    /// What the gates' books and the runs have to say of each other, behind every event.
    pub(super) fn audit(&mut self) {
        if !self.gates.was_touched() {
            return;
        }
        self.audited = true;
        let (holds, workers) = (&self.holds, &self.workers);
        let beyond = self.gates.beyond_limits(self.now, |stage| runs_at(stage, holds, workers));
        if let Some(problem) = self.gates.audit().or(beyond) {
            self.problems.push(format!("at {} ms: {problem}", self.now.as_millis()));
        }
        self.watch.returned(self.now, &mut self.gates, &self.workers);
    }

    /// The call is over: every gate is as it began, but for what really goes on (invariant 10).
    pub(super) fn quiesce(&mut self) {
        let owners = self.owners.into_iter().chain([HOLDER]);
        let workers = &self.workers;
        let left = self.gates.left_over(self.now, owners, |stage| workers.running_at(stage));
        self.problems.extend(left);
    }

    /// What the script's expectations will have to be held against.
    pub(super) fn watch(&mut self, action: &Action) {
        match action {
            Action::Tell(ToCaller::ResponseStarted(head)) if !head.out_of_band => {
                self.saying.clear();
            }
            // Its words are not those of an answer.
            Action::Prompt { .. } => self.saying.clear(),
            Action::Say { text, .. } => self.saying.push_str(text),
            Action::Tell(ToCaller::ClearFarEnd { played, .. }) => {
                let said = Some(self.saying.clone()).filter(|said| !said.is_empty());
                self.interrupted = said.map(|said| (said, *played));
            }
            Action::Tell(ToCaller::FunctionCalled { call, .. }) => {
                self.function = Some(call.call_id.clone());
            }
            Action::Think { request, .. } => {
                let lines = || request.history.iter().map(client::line_of).collect();
                self.asked.iter_mut().for_each(|asked| asked.push(lines()));
                let Some((said, played)) = self.interrupted.take() else { return };
                let spoken = |message: &Message| match message {
                    Message::Said { role: Role::Assistant, text } => Some(text.clone()),
                    Message::Said { .. } | Message::Called(_) | Message::Returned { .. } => None,
                };
                let in_history = request.history.iter().rev().find_map(spoken).unwrap_or_default();
                let words_per_s = self.words_per_s;
                self.heard.push(HeardCheck { said, played, words_per_s, in_history });
            }
            _ => {}
        }
    }
}

/// What runs at a stage, or is held there by hand.
fn runs_at(stage: Stage, holds: &BTreeMap<usize, Vec<Lease>>, workers: &Workers) -> usize {
    let held = holds.values().flatten().filter(|lease| lease.stage == stage).count();
    workers.running_at(stage) + held
}

fn word_of(slots: Slots) -> String {
    slots.units().map_or("unlimited".to_owned(), |units| units.to_string())
}
