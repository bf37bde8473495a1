//! What the caller still has to do, and what has happened so far: a script in the order of real
//! time.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::sim::facts::Fact;
use crate::sim::script::{Deed, Script, What, When};
use crate::time::Timestamp;

/// A script under way.
#[derive(Debug)]
pub(super) struct Plan {
    /// Deeds whose time is known, by their place in the script.
    due: BTreeMap<(Timestamp, usize), What>,
    /// Deeds that wait for something to happen.
    awaited: Vec<(usize, Deed)>,
    facts: Vec<Fact>,
}

impl Plan {
    /// A script whose time begins at `zero`.
    pub(super) fn new(script: &Script, zero: Timestamp) -> Plan {
        let mut plan = Plan { due: BTreeMap::new(), awaited: Vec::new(), facts: Vec::new() };
        for (at, deed) in script.caller.iter().enumerate() {
            match &deed.when {
                When::At(time) => {
                    plan.due.insert((zero + *time, at), deed.what.clone());
                }
                When::After { .. } => plan.awaited.push((at, deed.clone())),
            }
        }
        plan
    }

    /// Something happened: deeds that waited for it are due.
    pub(super) fn fact(&mut self, fact: Fact) {
        let now = fact.at;
        self.facts.push(fact);
        for (at, deed) in std::mem::take(&mut self.awaited) {
            let When::After { fact: pattern, delay, nth } = &deed.when else { continue };
            let came = self.facts.iter().filter(|fact| fact.fits(pattern)).count();
            match came >= *nth as usize {
                true => drop(self.due.insert((now + *delay, at), deed.what)),
                false => self.awaited.push((at, deed)),
            }
        }
    }

    /// The next deed whose time has come, with its place in the script.
    pub(super) fn next(&mut self, now: Timestamp) -> Option<(usize, What)> {
        let entry = self.due.first_entry().filter(|entry| entry.key().0 <= now)?;
        let ((_, at), what) = entry.remove_entry();
        Some((at, what))
    }

    /// When the next deed is due.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        self.due.keys().next().map(|(at, _)| *at)
    }

    /// Nothing that has to be done is left.
    pub(super) fn is_done(&self) -> bool {
        self.due.is_empty() && self.awaited.iter().all(|(_, deed)| deed.maybe)
    }

    /// Deeds that were never done, each with the fact it waited for and how often.
    pub(super) fn undone(&self) -> Vec<(usize, String, u32)> {
        let undone = self.awaited.iter().filter(|(_, deed)| !deed.maybe);
        undone
            .filter_map(|(at, deed)| match &deed.when {
                When::After { fact, nth, .. } => Some((*at, fact.clone(), *nth)),
                When::At(_) => None,
            })
            .collect()
    }
}

/// A moment of the call in the script's own terms.
pub(super) fn moment(since_start: Duration) -> Timestamp {
    Timestamp::ZERO + since_start
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::ms;

    fn script(text: &str) -> Script {
        Script::parse("test", &format!("about = \"a test\"\n{text}")).unwrap()
    }

    #[test]
    fn deeds_come_at_their_times_and_behind_their_facts() {
        let script = script(
            "[[caller]]\nat = \"1s\"\ncancels = true\n[[caller]]\nafter = \"idle + 200ms\"\nnth = 2\n\
             commits = true\n[[caller]]\nafter = \"truncated\"\nmaybe = true\nclears = true",
        );
        let mut plan = Plan::new(&script, moment(ms(100)));
        assert_eq!(plan.next(moment(ms(1_099))), None);
        assert_eq!(plan.next(moment(ms(1_100))), Some((0, What::Cancels)));
        let idle =
            |at| Fact { at: moment(ms(at)), name: "idle".into(), details: Vec::new().into() };
        plan.fact(idle(2_000));
        assert!(plan.next_at().is_none() && !plan.is_done());
        assert_eq!(plan.undone(), [(1, "idle".to_owned(), 2)]);
        plan.fact(idle(3_000));
        assert_eq!(plan.next_at(), Some(moment(ms(3_200))));
        assert_eq!(plan.next(moment(ms(3_200))), Some((1, What::Commits)));
        assert!(plan.is_done() && plan.undone().is_empty());
    }
}
