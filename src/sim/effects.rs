//! What tools are started for (invariant 8): at most once under a key, never for a generation that
//! has lost the floor, never against the caller.

use std::collections::{BTreeMap, BTreeSet};

use crate::call::{Call, Profile};
use crate::dialogue::{Effect, ToolCall, ToolRuns};
use crate::id::{Generation, ToolId};
use crate::leg::TurnDetection;

/// The tools a call has been asked for, and those it has started.
#[derive(Default)]
pub(super) struct Started {
    /// The generation whose model asked for a call, newest.
    wanted: BTreeMap<String, Generation>,
    keys: BTreeSet<String>,
    /// How often each order was given: its name and arguments.
    orders: BTreeMap<(String, String), u32>,
}

impl Started {
    /// A model of this generation asks for a tool.
    pub fn wanted(&mut self, call: &ToolCall, by: Generation) {
        self.wanted.insert(call.call_id.clone(), by);
        *self.orders.entry((call.name.clone(), call.arguments.clone())).or_default() += 1;
    }

    /// A tool starts under this key while `now` has the floor. Says what is wrong with that.
    pub fn start(&mut self, key: &str, now: Generation) -> Option<String> {
        let call_id = key.rsplit_once('/').map_or(key, |(_, call_id)| call_id);
        match self.wanted.get(call_id) {
            None => return Some(format!("a tool nobody asked for was started: {key}")),
            Some(by) if *by != now => {
                return Some(format!("a tool of generation {by} was started in {now}: {key}"));
            }
            Some(_) => {}
        }
        let first = self.keys.insert(key.to_owned());
        (!first).then(|| format!("a tool was started a second time under {key}"))
    }

    /// What starts against the caller: an order that needs their yes and was given once only, so
    /// that nobody can have asked them; a change that begins while they speak.
    pub fn against(
        &self,
        call: &Call,
        profile: &Profile,
        tool: ToolId,
        arguments: &str,
    ) -> Option<String> {
        let settings = call.settings();
        let (name, effect) = settings.tools.iter().find_map(|spec| match spec.runs {
            ToolRuns::Here { tool: own, effect } if own == tool => Some((&spec.name, effect)),
            ToolRuns::Here { .. } | ToolRuns::AtClient => None,
        })?;
        let given = self.orders.get(&(name.clone(), arguments.to_owned())).copied();
        if profile.confirmed_tools.contains(&tool) && given.unwrap_or(0) < 2 {
            return Some(format!("{name} was started, and nobody was asked for their yes"));
        }
        let yields = matches!(settings.turn_detection,
            TurnDetection::Server(turns) if turns.interrupt_response);
        let over = effect != Effect::Read && yields && call.is_hearing();
        over.then(|| format!("{name} was started while the caller speaks"))
    }
}
