//! What tools are started for (invariant 8): at most once under a key, never for a generation that
//! has lost the floor.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::Generation;

/// The tools a call has been asked for, and those it has started.
#[derive(Default)]
pub(super) struct Started {
    /// The generation whose model asked for a call, newest.
    wanted: BTreeMap<String, Generation>,
    keys: BTreeSet<String>,
}

impl Started {
    /// A model of this generation asks for a tool.
    pub fn wanted(&mut self, call_id: &str, by: Generation) {
        self.wanted.insert(call_id.to_owned(), by);
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
}
