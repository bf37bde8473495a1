//! What others do in a simulated process: units held by hand; and what is kept for the script's
//! expectations.

use super::client;
use super::expect::HeardCheck;
use super::script::Script;
use super::world::{HOLDER, TICK, World};
use crate::admission::limits::Slots;
use crate::admission::{Admit, Answer, Cancelled, Offer, Release};
use crate::call::Action;
use crate::dialogue::{Message, Role};
use crate::evidence::Evidence;
use crate::id::Generation;
use crate::leg::ToCaller;

impl World {
    pub(super) fn hold(&mut self, script: &Script, at: usize, take: bool) {
        let held = &script.gates[at];
        let stage =
            self.names.iter().find(|(_, name)| **name == held.gate).map(|(stage, _)| *stage);
        let Some(stage) = stage else {
            return self.problems.push(format!("gate[{}]: there is no gate {}", at + 1, held.gate));
        };
        if !take {
            for lease in self.holds.remove(&at).unwrap_or_default() {
                let release = Release::Completed(Evidence::Operator);
                let _ = self.gates.settle(self.now, lease, release);
            }
            return self.deliver();
        }
        self.gates.rotate(self.now, HOLDER, Generation(0), Cancelled::Client);
        for _ in 0..held.units {
            let offer = Offer::plain(self.gates.name_offer(), HOLDER, self.now, self.now + TICK);
            if let Answer::Admitted(lease) = self.gates.ask(self.now, stage, offer) {
                self.holds.entry(at).or_default().push(lease);
            }
        }
    }

    /// Invariants that are held at every action, and what the history has to show later.
    /// What really runs never exceeds what the gates may give away (invariant 2), whatever was
    /// cancelled.
    pub(super) fn overcommitted(&self) -> Option<String> {
        self.gates.gates.iter().find_map(|(stage, gate)| {
            let Slots::Units(units) = gate.limits().slots else { return None };
            let held = self.holds.values().flatten().filter(|lease| lease.stage == *stage).count();
            let runs = self.workers.running_at(*stage) + held;
            (runs > units as usize)
                .then(|| format!("{runs} runs at {stage}, which has {units} units"))
        })
    }

    pub(super) fn watch(&mut self, action: &Action) {
        match action {
            Action::Tell(ToCaller::Audio { generation, .. })
                if *generation != self.call.generation() =>
            {
                let at = self.now.as_millis();
                self.problems.push(format!("at {at} ms: sound of fenced generation {generation}"));
            }
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
                self.asked.push(request.history.iter().map(client::line_of).collect());
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
