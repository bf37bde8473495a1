//! A script's expectations against what happened.

use std::time::Duration;

use super::facts::Fact;
use super::script::Expect;

/// What an interrupted answer's caller had heard, and what the next request showed of it.
#[derive(Clone, Debug, PartialEq)]
pub struct HeardCheck {
    /// All that was to be said.
    pub said: String,
    /// How much of its sound had been played.
    pub played: Duration,
    /// Words a second of the synthesiser.
    pub words_per_s: f64,
    /// The agent's last words in the next request's history.
    pub in_history: String,
}

/// Says what is not as expected; empty when all is well.
pub fn check(
    expect: &[Expect],
    facts: &[Fact],
    heard: &[HeardCheck],
    asked: &[Vec<String>],
) -> Vec<String> {
    expect.iter().filter_map(|one| failed(one, facts, heard, asked)).collect()
}

/// A deed of the caller that waited for what never came.
pub fn never_happened(at: usize, fact: &str, nth: u32) -> String {
    let times = if nth > 1 { format!(" {nth} times") } else { String::new() };
    format!("caller[{}]: \"{fact}\" never happened{times}", at + 1)
}

fn failed(
    expect: &Expect,
    facts: &[Fact],
    heard: &[HeardCheck],
    asked: &[Vec<String>],
) -> Option<String> {
    match expect {
        Expect::Order(order) => out_of_order(order, facts),
        Expect::Never { fact, after } => {
            let from = match after {
                None => 0,
                Some(after) => match facts.iter().position(|f| f.fits(after)) {
                    Some(at) => at + 1,
                    None => return Some(format!("never {fact} after {after}: no {after} came")),
                },
            };
            let came = facts[from..].iter().find(|f| f.fits(fact))?;
            Some(format!("never {fact}: {came} came at {} ms", came.at.as_millis()))
        }
        Expect::Count { fact, at_least, at_most } => {
            let count = facts.iter().filter(|f| f.fits(fact)).count();
            let wrong = count < *at_least || count > *at_most;
            wrong.then(|| format!("{fact} came {count} times, not {at_least} to {at_most}"))
        }
        Expect::Within { fact, of, span } => {
            let start = facts.iter().position(|f| f.fits(of));
            let Some(start) = start else { return Some(format!("no {of} came")) };
            let Some(end) = facts[start..].iter().find(|f| f.fits(fact)) else {
                return Some(format!("no {fact} came behind {of}"));
            };
            let took = end.at.since(facts[start].at);
            (took > *span).then(|| format!("{fact} came {took:?} after {of}, not within {span:?}"))
        }
        Expect::HistoryEndsWithHeard if heard.is_empty() => {
            Some("history_ends_with: no answer was interrupted and followed by a request".into())
        }
        Expect::HistoryEndsWithHeard => heard.iter().find_map(not_as_heard),
        Expect::Asked { nth, has, lacks } => {
            let Some(request) = nth.checked_sub(1).and_then(|at| asked.get(at)) else {
                return Some(format!("asked: there were {} requests, not {nth}", asked.len()));
            };
            let mut lines = request.iter();
            let missing = has.iter().find(|line| !lines.any(|had| had == *line));
            let wrong = lacks.iter().find(|w| request.iter().any(|had| had.contains(w.as_str())));
            let shown = request.join(" | ");
            missing
                .map(|line| format!("asked: request {nth} lacks \"{line}\": {shown}"))
                .or(wrong.map(|w| format!("asked: request {nth} has \"{w}\": {shown}")))
        }
    }
}

fn out_of_order(order: &[String], facts: &[Fact]) -> Option<String> {
    let mut at = 0;
    for wanted in order {
        match facts[at..].iter().position(|fact| fact.fits(wanted)) {
            Some(found) => at += found + 1,
            None => {
                let before = facts.iter().any(|fact| fact.fits(wanted));
                let how = if before { "came too early" } else { "did not come" };
                return Some(format!("order: {wanted} {how}"));
            }
        }
    }
    None
}

/// What holds for every interruption, whatever else the script does: nothing beyond what was
/// played.
pub fn too_much(check: &HeardCheck) -> Option<String> {
    let words = check.in_history.split_whitespace().count();
    let could = (check.played.as_secs_f64() * check.words_per_s) as usize;
    let begins = check.said.trim_start().starts_with(check.in_history.trim());
    let played = check.played.as_millis();
    (begins && words > could + 4).then(|| {
        format!("history: {words} words after {played} ms of sound, at most {could} heard")
    })
}

/// The history's words are the first of those said, as many as the sound played can have held.
fn not_as_heard(check: &HeardCheck) -> Option<String> {
    let said: Vec<&str> = check.said.split_whitespace().collect();
    let words: Vec<&str> = check.in_history.split_whitespace().collect();
    if !said.starts_with(&words) {
        let (shown, said) = (&check.in_history, &check.said);
        return Some(format!("history: \"{shown}\" is no beginning of \"{said}\""));
    }
    let could = (check.played.as_secs_f64() * check.words_per_s) as usize;
    let near = words.len() <= could + 1 && words.len() + 2 >= could.min(said.len());
    (!near).then(|| {
        let played = check.played.as_millis();
        format!("history: {} words after {played} ms of sound, about {could} expected", words.len())
    })
}
