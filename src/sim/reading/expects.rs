//! An expectation as written, as meant; and whether its facts, and those that deeds wait for, are
//! facts at all.

use super::super::names::{self, NameError};
use super::super::script::{Deed, Expect, ScriptError, When};
use super::{RawAsked, RawExpect, Reading, nearest};

impl Reading<'_> {
    pub(super) fn expect(&self, key: &str, raw: RawExpect) -> Result<Expect, ScriptError> {
        let kinds = "one of order, never, count, within, asked, history_ends_with = \"heard\"";
        let named = [
            raw.order.is_some(),
            raw.never.is_some(),
            raw.count.is_some(),
            raw.within.is_some(),
            raw.history_ends_with.is_some(),
            raw.asked.is_some(),
        ];
        if named.iter().filter(|named| **named).count() > 1 {
            return Err(self.wrong(key, "it is more than one expectation", kinds));
        }
        if raw.after.is_some() && raw.never.is_none() {
            let key = format!("{key}.after");
            return Err(self.wrong(&key, "it means nothing here", "an expectation with `never`"));
        }
        match raw {
            RawExpect { order: Some(order), .. } if order.is_empty() => {
                Err(self.wrong(&format!("{key}.order"), "it expects nothing", "a list of facts"))
            }
            RawExpect { order: Some(order), .. } => Ok(Expect::Order(order)),
            RawExpect { never: Some(fact), after, .. } => Ok(Expect::Never { fact, after }),
            RawExpect { count: Some(count), .. } => {
                let at_least = count.exactly.or(count.at_least).unwrap_or(0);
                let at_most = count.exactly.or(count.at_most).unwrap_or(usize::MAX);
                if at_least > at_most {
                    let problem = format!("at least {at_least} and at most {at_most} is never");
                    let right = "an at_least that is not above at_most";
                    return Err(self.wrong(&format!("{key}.count"), problem, right));
                }
                Ok(Expect::Count { fact: count.event, at_least, at_most })
            }
            RawExpect { within: Some(within), .. } => {
                let span = self.span(&format!("{key}.within.span"), &within.span)?;
                Ok(Expect::Within { fact: within.event, of: within.of, span })
            }
            RawExpect { history_ends_with: Some(what), .. } if what == "heard" => {
                Ok(Expect::HistoryEndsWithHeard)
            }
            RawExpect { asked: Some(RawAsked { nth, has, lacks }), .. } => {
                if nth == 0 {
                    let key = format!("{key}.asked.nth");
                    return Err(self.wrong(&key, "there is no such request", "a number from 1"));
                }
                Ok(Expect::Asked { nth, has, lacks })
            }
            _ => Err(self.wrong(key, "it expects nothing", kinds)),
        }
    }

    /// Every fact that something waits for or that is expected is one that can be.
    pub(super) fn facts(&self, caller: &[Deed], expect: &[Expect]) -> Result<(), ScriptError> {
        for (at, deed) in caller.iter().enumerate() {
            if let When::After { fact, .. } = &deed.when {
                self.fact(&format!("caller[{}].after", at + 1), fact, caller)?;
            }
        }
        for (at, expect) in expect.iter().enumerate() {
            let key = format!("expect[{}]", at + 1);
            match expect {
                Expect::Order(order) => {
                    for (nth, fact) in order.iter().enumerate() {
                        self.fact(&format!("{key}.order[{}]", nth + 1), fact, caller)?;
                    }
                }
                Expect::Never { fact, after } => {
                    self.fact(&format!("{key}.never"), fact, caller)?;
                    if let Some(after) = after {
                        self.fact(&format!("{key}.after"), after, caller)?;
                    }
                }
                Expect::Count { fact, .. } => {
                    self.fact(&format!("{key}.count.event"), fact, caller)?;
                }
                Expect::Within { fact, of, .. } => {
                    self.fact(&format!("{key}.within.event"), fact, caller)?;
                    self.fact(&format!("{key}.within.of"), of, caller)?;
                }
                Expect::HistoryEndsWithHeard | Expect::Asked { .. } => {}
            }
        }
        Ok(())
    }

    fn fact(&self, key: &str, fact: &str, caller: &[Deed]) -> Result<(), ScriptError> {
        match names::known(fact) {
            Ok(()) => {}
            Err(NameError::Name(name)) => {
                let right = match nearest(&name, names::all().iter().map(String::as_str)) {
                    Some(near) => format!("did you mean \"{near}\"?"),
                    None => "a fact of docs/reference/fixtures.md".to_owned(),
                };
                return Err(self.wrong(key, format!("\"{name}\" never happens"), &right));
            }
            Err(NameError::Detail { name, detail, known }) => {
                let problem = format!("\"{name}\" has no detail {detail}");
                let right = match known.is_empty() {
                    true => "it has no details".to_owned(),
                    false => format!("its details: {}", known.join(", ")),
                };
                return Err(self.wrong(key, problem, &right));
            }
            Err(NameError::Value { name, value, known }) => {
                let problem = format!("\"{name}\" is never \"{value}\"");
                let right = match nearest(&value, known.iter().copied()) {
                    Some(near) => format!("did you mean \"{near}\"?"),
                    None if known.is_empty() => "a whole number".to_owned(),
                    None => format!("one of {}", known.join(", ")),
                };
                return Err(self.wrong(key, problem, &right));
            }
        }
        let name = fact.split('(').next().unwrap_or_default().trim();
        let Some(deed) = name.strip_prefix("caller.") else { return Ok(()) };
        match caller.iter().any(|done| done.what.name() == deed) {
            true => Ok(()),
            false => {
                let done: Vec<String> =
                    caller.iter().map(|deed| format!("caller.{}", deed.what.name())).collect();
                let right = match done.is_empty() {
                    true => "a [[caller]] that does it".to_owned(),
                    false => format!("a [[caller]] that does it; there are {}", done.join(", ")),
                };
                Err(self.wrong(key, format!("no deed of this script is \"{name}\""), &right))
            }
        }
    }
}
