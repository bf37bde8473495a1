//! Deeds that can never be done are mistakes: behind the end of the script or of the call, or
//! waiting for each other.

use std::time::Duration;

use super::super::script::{Deed, ScriptError, What, When};
use super::Reading;

impl Reading<'_> {
    pub(super) fn possible(&self, caller: &[Deed], ends_by: Duration) -> Result<(), ScriptError> {
        let earliest = earliest(caller);
        for (at, deed) in caller.iter().enumerate() {
            let key = match &deed.when {
                When::At(_) => format!("caller[{}].at", at + 1),
                When::After { .. } => format!("caller[{}].after", at + 1),
            };
            match earliest[at] {
                Some(time) if time > ends_by => {
                    let problem = format!("{time:?} is behind the fixture's end ({ends_by:?})");
                    return Err(self.wrong(&key, problem, "an earlier time, or a later ends_by"));
                }
                Some(_) => {}
                None => return Err(self.never(&key, caller, deed)),
            }
        }
        let Some(leaves) = left_at(caller) else { return Ok(()) };
        let late = |deed: &Deed| matches!(deed.when, When::At(at) if at > leaves) && !deed.maybe;
        match caller.iter().position(late) {
            Some(at) => {
                let key = format!("caller[{}].at", at + 1);
                let problem = format!("the caller has hung up by then ({leaves:?})");
                Err(self.wrong(&key, problem, "an earlier time, or maybe = true"))
            }
            None => Ok(()),
        }
    }

    /// Why a deed's time never comes.
    fn never(&self, key: &str, caller: &[Deed], deed: &Deed) -> ScriptError {
        let When::After { fact, nth, .. } = &deed.when else {
            return self.wrong(key, "it is never", "another time");
        };
        let waited = waits_for(fact).unwrap_or_default();
        let count = caller.iter().filter(|deed| deed.what.name() == waited).count();
        if count < *nth as usize {
            let problem = format!("\"{fact}\" is done {count} times, never {nth}");
            let right = format!("nth = {count}, or more such deeds");
            let right = if count == 0 { "a [[caller]] that does it".to_owned() } else { right };
            return self.wrong(key, problem, &right);
        }
        let problem = format!("\"{fact}\" is only done behind this very deed");
        self.wrong(key, problem, "a deed that does not wait for itself")
    }
}

/// The earliest time of each deed; `None` where it waits, over others, for itself.
fn earliest(caller: &[Deed]) -> Vec<Option<Duration>> {
    let mut times: Vec<Option<Duration>> = vec![None; caller.len()];
    loop {
        let before = times.clone();
        for (at, deed) in caller.iter().enumerate() {
            times[at] = match &deed.when {
                When::At(time) => Some(*time),
                When::After { fact, delay, nth } => match waits_for(fact) {
                    None => Some(*delay),
                    Some(name) => {
                        let named = |(_, deed): &(usize, &Deed)| deed.what.name() == name;
                        let others = caller.iter().enumerate().filter(named);
                        let mut known: Vec<Duration> =
                            others.filter_map(|(other, _)| before[other]).collect();
                        known.sort();
                        known.get((*nth as usize).saturating_sub(1)).map(|time| *time + *delay)
                    }
                },
            };
        }
        if times == before {
            return times;
        }
    }
}

/// The deed that a fact tells of.
fn waits_for(fact: &str) -> Option<&str> {
    fact.split('(').next().unwrap_or_default().trim().strip_prefix("caller.")
}

/// When the caller leaves, where that has a time.
fn left_at(caller: &[Deed]) -> Option<Duration> {
    let leaves = |deed: &Deed| match (&deed.what, &deed.when) {
        (What::HangsUp, When::At(at)) => Some(*at),
        _ => None,
    };
    caller.iter().filter_map(leaves).min()
}
