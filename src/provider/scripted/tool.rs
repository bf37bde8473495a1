//! A tool that does what its table says, and counts its effects by idempotency key.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::course::{Course, FAULT_KEYS, Fail, FaultScript, Output, at_rate};
use crate::dialogue::{Effect, ToolOutcome};
use crate::provider::keys::{self, Keys, PerRun};
use crate::provider::{BuildError, Ended};
use crate::time::{Timestamp, ms};

const KEYS: &[&str] = &["result", "takes_ms", "effect", "description", "parameters"];
/// Keys remembered; older ones are forgotten first.
const REMEMBERED: usize = 10_000;

/// What a scripted tool is and does.
#[derive(Clone, Debug)]
pub struct ToolScript {
    result: PerRun<Option<String>>,
    takes: PerRun<Option<Duration>>,
    effect: Effect,
    description: String,
    parameters: serde_json::Value,
    faults: FaultScript,
}

/// How often each idempotency key took effect.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    taken: BTreeMap<String, (u32, String)>,
    order: VecDeque<String>,
}

impl Effects {
    /// Effects under this key.
    pub fn count(&self, key: &str) -> u32 {
        self.taken.get(key).map_or(0, |(count, _)| *count)
    }

    /// Effects under all keys that are remembered.
    pub fn total(&self) -> u32 {
        self.taken.values().map(|(count, _)| count).sum()
    }

    /// The most effects that any one key had: more than 1 is a bug (invariant 8).
    pub fn most(&self) -> u32 {
        self.taken.values().map(|(count, _)| *count).max().unwrap_or(0)
    }

    /// Takes effect unless this key already has; the result is the first one's.
    fn take(&mut self, key: &str, result: &str) -> String {
        if let Some((_, first)) = self.taken.get(key) {
            return first.clone();
        }
        if self.order.len() == REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.taken.remove(&oldest);
        }
        self.order.push_back(key.to_owned());
        self.taken.insert(key.to_owned(), (1, result.to_owned()));
        result.to_owned()
    }
}

impl ToolScript {
    /// Reads the table of a `provider = "scripted"` tool.
    pub fn from_table(table: &toml::Table) -> Result<ToolScript, BuildError> {
        let keys = Keys::new(table, &[KEYS, FAULT_KEYS])?;
        let effects = [
            ("read", Effect::Read),
            ("cancellable", Effect::Cancellable),
            ("must_finish", Effect::MustFinish),
        ];
        let parameters = keys.one("parameters", |value| match value {
            toml::Value::Table(_) => Ok(keys::to_json(value)),
            other => Err((format!("{other} is no schema"), "a table: a JSON schema".into())),
        })?;
        Ok(ToolScript {
            result: keys.per_run("result", keys::json_text)?,
            takes: keys.per_run("takes_ms", keys::millis)?,
            effect: keys
                .one("effect", |value| keys::word(value, &effects))?
                .unwrap_or(Effect::Read),
            description: keys.one("description", keys::text)?.unwrap_or_default(),
            parameters: parameters
                .unwrap_or_else(|| serde_json::json!({"type": "object", "properties": {}})),
            faults: FaultScript::from_keys(&keys)?,
        })
    }

    /// When to use it, for the model.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// JSON schema of its arguments.
    pub fn parameters(&self) -> &serde_json::Value {
        &self.parameters
    }

    /// What it does to the world.
    pub fn effect(&self) -> Effect {
        self.effect
    }

    /// Begins run number `nth_run` (from 0) under this idempotency key.
    pub fn start(&self, now: Timestamp, nth_run: u32, idempotency_key: &str) -> ToolRun {
        let faults = self.faults.of_run(nth_run);
        let fail = faults.fail;
        let result = match faults.empty {
            true => String::new(),
            false => self.result.at(nth_run).clone().unwrap_or_else(|| "done".into()),
        };
        let words = result.split_whitespace().count();
        let dripped = faults.drip_per_s.map(|per_s| at_rate(words, per_s)).unwrap_or_default();
        let takes = self.takes.at(nth_run).unwrap_or(ms(50)) + dripped;
        // An empty result is a result: only the model has to make do with it.
        let mut course = Course::new(now, super::course::Faults { empty: false, ..faults });
        course.begin(now, takes);
        course.push(now + takes, ());
        course.finish(now + takes, Ended::completed());
        let key = idempotency_key.to_owned();
        ToolRun { course, key, result, effect: self.effect, fail, done: None }
    }
}

/// One run of a scripted tool.
#[derive(Clone, Debug)]
pub struct ToolRun {
    course: Course<()>,
    key: String,
    result: String,
    effect: Effect,
    fail: Option<Fail>,
    done: Option<String>,
}

impl ToolRun {
    /// Asks it to stop; one that must finish goes on.
    pub fn cancel(&mut self, now: Timestamp) {
        if self.effect != Effect::MustFinish {
            let late = self.course.faults.late_after_cancel.map(|late| late.max(ms(1)));
            let mut once = Some(());
            self.course.cancel(now, late.unwrap_or_default(), |()| true, || once.take());
        }
    }

    /// When to poll next; `None` when nothing comes by itself.
    pub fn next_at(&self) -> Option<Timestamp> {
        self.course.next_at()
    }

    /// What came of it, once it is over by `now`. Its effect is entered in `effects`.
    pub fn poll(&mut self, now: Timestamp, effects: &mut Effects) -> Option<(ToolOutcome, Ended)> {
        loop {
            match self.course.poll(now)? {
                Output::Signal(()) => {
                    self.done = Some(match self.effect {
                        Effect::Read => self.result.clone(),
                        _ => effects.take(&self.key, &self.result),
                    });
                }
                Output::Ended(ended) => return Some((self.outcome(&ended), ended)),
            }
        }
    }

    fn outcome(&mut self, ended: &Ended) -> ToolOutcome {
        match (self.done.take(), &ended.fault) {
            (Some(result), _) => ToolOutcome::Completed(result),
            (None, Some(_)) if self.fail == Some(Fail::Reset) && self.effect != Effect::Read => {
                ToolOutcome::Unknown
            }
            (None, Some(fault)) => ToolOutcome::Failed(fault.to_string()),
            (None, None) => ToolOutcome::Cancelled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Evidence;

    fn run_to_end(run: &mut ToolRun, effects: &mut Effects) -> Option<(u64, ToolOutcome, Ended)> {
        while let Some(now) = run.next_at() {
            if let Some((outcome, ended)) = run.poll(now, effects) {
                return Some((now.as_millis(), outcome, ended));
            }
        }
        None
    }

    #[test]
    fn the_same_key_takes_effect_once() {
        let table = toml::toml! { result = { booked = true } takes_ms = 50 effect = "must_finish" };
        let script = ToolScript::from_table(&table).unwrap();
        let mut effects = Effects::default();
        for nth in 0..2 {
            let mut run = script.start(Timestamp::ZERO, nth, "turn-1:call_1");
            let (at, outcome, ended) = run_to_end(&mut run, &mut effects).unwrap();
            assert_eq!((at, ended), (50, Ended::completed()));
            assert_eq!(outcome, ToolOutcome::Completed("{\"booked\":true}".into()));
        }
        assert_eq!((effects.count("turn-1:call_1"), effects.total(), effects.most()), (1, 1, 1));
    }

    #[test]
    fn a_cancel_stops_a_cancellable_tool_before_its_effect_and_never_one_that_must_finish() {
        let mut effects = Effects::default();
        let table = toml::toml! { takes_ms = 50 effect = "cancellable" };
        let mut run = ToolScript::from_table(&table).unwrap().start(Timestamp::ZERO, 0, "a");
        run.cancel(Timestamp::from_millis(20));
        let (at, outcome, ended) = run_to_end(&mut run, &mut effects).unwrap();
        assert_eq!((at, outcome), (25, ToolOutcome::Cancelled));
        assert_eq!(ended.proof, Ok(Evidence::AbortAcknowledged));
        let table = toml::toml! { takes_ms = 50 effect = "must_finish" };
        let mut run = ToolScript::from_table(&table).unwrap().start(Timestamp::ZERO, 0, "b");
        run.cancel(Timestamp::from_millis(20));
        let (at, outcome, _) = run_to_end(&mut run, &mut effects).unwrap();
        assert_eq!((at, outcome.label()), (50, "completed"));
        assert_eq!((effects.count("a"), effects.count("b")), (0, 1));
    }

    #[test]
    fn failures_are_told_apart_from_what_nobody_knows() {
        let outcome = |table: toml::Table| {
            let mut run = ToolScript::from_table(&table).unwrap().start(Timestamp::ZERO, 0, "k");
            run_to_end(&mut run, &mut Effects::default()).map(|(_, outcome, _)| outcome)
        };
        let failed = outcome(toml::toml! { fail = "500" effect = "cancellable" });
        assert_eq!(failed, Some(ToolOutcome::Failed("rejected with status 500".into())));
        let broken = outcome(toml::toml! { fail = "reset" effect = "cancellable" });
        assert_eq!(broken, Some(ToolOutcome::Unknown));
        assert_eq!(outcome(toml::toml! { never_end = true }), None);
        assert_eq!(outcome(toml::toml! { stall_after_ms = 10 }), None);
    }
}
