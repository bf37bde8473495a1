//! The record that our own server keeps of a call, read back as facts; and brought together with
//! what came over the wire.

use std::collections::BTreeMap;

use super::hearing::{AUDIBLE, STARTED, fact};
use crate::sim::expect::HeardCheck;
use crate::sim::facts::Fact;
use crate::time::{Timestamp, ms};

/// Facts that no wire shows: only a server's own record has them.
const INNER: [&str; 13] = [
    "fence",
    "prompt",
    "hang_up",
    "tool.returned",
    "prompt.cancel",
    "recognition.start",
    "model.start",
    "synthesis.start",
    "tool.start",
    "tool.wait_ended",
    "callback.start",
    "handoff.start",
    "arranged",
];

/// Whether only a server's own record has facts of this name.
pub(super) fn is_inner(name: &str) -> bool {
    INNER.contains(&name) || name.ends_with(".cancel") || name.ends_with(".wait_ended")
}

/// Reads a record line by line.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// The stages of runs.
    stages: BTreeMap<String, &'static str>,
    facts: Vec<Fact>,
    /// The caller has left: nothing told from here on reaches them.
    pub(super) gone_at: Option<Timestamp>,
    saying: String,
    interrupted: Option<(String, std::time::Duration)>,
    /// Interrupted answers, each with the number of the request that followed.
    pub(super) interruptions: Vec<Interruption>,
    requests: usize,
}

/// An answer that was interrupted, and which request came next.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Interruption {
    said: String,
    played: std::time::Duration,
    request: usize,
}

impl Reading {
    /// Takes the next line; gives its fact.
    pub(super) fn line(&mut self, line: &str) -> Option<Fact> {
        let (time, text) = line.trim_start().split_once("ms  ")?;
        let at = Timestamp::from_millis(time.trim().parse().ok()?);
        if text.starts_with("<- caller gone") {
            self.gone_at.get_or_insert(at);
        }
        self.follow(text);
        let found = match text.split_at_checked(3)? {
            ("-- ", said) => decided(at, said),
            ("<- ", came) => came_in(at, came),
            ("-> ", done) => self.run(at, done).or_else(|| self::done(at, done)),
            _ => None,
        }?;
        self.facts.push(found.clone());
        Some(found)
    }

    /// Everything so far, in the server's own order.
    pub(super) fn facts(&self) -> &[Fact] {
        &self.facts
    }

    /// What interrupted answers and the requests behind them have to agree on.
    pub(super) fn heard(&self, asked: &[Vec<String>], words_per_s: f64) -> Vec<HeardCheck> {
        let check = |interruption: &Interruption| {
            let request = asked.get(interruption.request)?;
            let last = request.iter().rev().find_map(|line| line.strip_prefix("agent: "));
            Some(HeardCheck {
                said: interruption.said.clone(),
                played: interruption.played,
                words_per_s,
                in_history: last.unwrap_or_default().to_owned(),
            })
        };
        self.interruptions.iter().filter_map(check).collect()
    }

    /// The start or the cancel of a run.
    fn run(&mut self, at: Timestamp, text: &str) -> Option<Fact> {
        const STARTS: [(&str, &str); 6] = [
            ("recognise ", "recognition"),
            ("think ", "model"),
            ("voice ", "synthesis"),
            ("use tool ", "tool"),
            ("arrange callback ", "callback"),
            ("arrange handoff ", "handoff"),
        ];
        if let Some(run) = text.strip_prefix("cancel ") {
            let stage = self.stages.get(run).copied().unwrap_or("prompt");
            return Some(fact(at, &format!("{stage}.cancel"), Vec::new()));
        }
        let (rest, stage) =
            STARTS.iter().find_map(|(word, stage)| Some((text.strip_prefix(word)?, *stage)))?;
        let (run, more) = rest.split_once(':').unwrap_or((rest, ""));
        self.stages.insert(run.to_owned(), stage);
        let details = match more.trim().strip_suffix(" messages") {
            Some(messages) => vec![("messages", messages.to_owned())],
            None => Vec::new(),
        };
        Some(fact(at, &format!("{stage}.start"), details))
    }

    /// Keeps what the agent says, how much of it was heard, and what was asked then.
    fn follow(&mut self, text: &str) {
        if text.starts_with("-> prompt ")
            || text.starts_with("-> response-") && ends_with_start(text)
        {
            self.saying.clear();
        } else if let Some(said) = text.strip_prefix("-> say ") {
            let words = said.split_once('"').map_or("", |(_, words)| words.trim_end_matches('"'));
            self.saying = format!("{} {words}", self.saying).trim().to_owned();
        } else if let Some(heard) = text.strip_prefix("-> clear far end, heard ") {
            let played = heard.trim_end_matches(" ms").parse().unwrap_or(0);
            let said = Some(self.saying.clone()).filter(|said| !said.is_empty());
            self.interrupted = said.map(|said| (said, ms(played)));
        } else if text.starts_with("-> think ") {
            if let Some((said, played)) = self.interrupted.take() {
                let request = self.requests;
                self.interruptions.push(Interruption { said, played, request });
            }
            self.requests += 1;
        }
    }
}

fn ends_with_start(text: &str) -> bool {
    text.ends_with(" starts")
}

fn decided(at: Timestamp, text: &str) -> Option<Fact> {
    let (gate, said) = text.rsplit_once(": ")?;
    let (word, reason) = said.split_once('{').unwrap_or((said, ""));
    let reason = reason.trim_end_matches('}').to_owned();
    Some(fact(at, &format!("admission.{word}"), vec![("", gate.to_owned()), ("reason", reason)]))
}

fn came_in(at: Timestamp, text: &str) -> Option<Fact> {
    if let Some(outcome) = text.strip_prefix("tool ") {
        return Some(fact(at, "tool.returned", vec![("", outcome.to_owned())]));
    }
    if let Some(how) = arranged(text) {
        return Some(fact(at, "arranged", vec![("", how.to_owned())]));
    }
    let (stage, how) = text.strip_prefix("wait for ")?.split_once(" ended: ")?;
    let stage = stage.split(':').next().unwrap_or_default();
    let how = how.split('{').next().unwrap_or_default();
    Some(fact(at, &format!("{stage}.wait_ended"), vec![("", how.to_owned())]))
}

/// What came of an alternative that was being arranged.
fn arranged(text: &str) -> Option<&str> {
    Some(match text {
        "callback on record" => "callback",
        "handoff acknowledged" => "acknowledged",
        "handoff connected" => "connected",
        "nobody knows whether it is arranged" => "unknown",
        other => {
            let refused = other.strip_prefix("not arranged: ");
            refused.or_else(|| other.strip_prefix("handoff failed: "))?
        }
    })
}

fn done(at: Timestamp, text: &str) -> Option<Fact> {
    let plain = |name: &str| Some(fact(at, name, Vec::new()));
    let with = |name: &str, detail: &str| Some(fact(at, name, vec![("", detail.to_owned())]));
    match text {
        "speech started" => return plain("speech.started"),
        "speech stopped" => return plain("speech.stopped"),
        "idle timeout" => return plain("idle"),
        "message whole" => return with("message.ended", "whole"),
        "message cut" => return with("message.ended", "cut"),
        _ => {}
    }
    let (word, rest) = text.split_once(' ')?;
    match word {
        "fence" => {
            let (change, why) = rest.split_once(": ")?;
            let to = change.rsplit(' ').next()?.to_owned();
            Some(fact(at, "fence", vec![("", to), ("why", why.to_owned())]))
        }
        "prompt" => with("prompt", rest.rsplit(' ').next()?),
        "fallback" => {
            let (rung, outcome) = rest.split_once(':')?.0.split_once(' ')?;
            let details = vec![("", rung.to_owned()), ("outcome", outcome.to_owned())];
            Some(fact(at, "fallback", details))
        }
        "transcribed" => plain("transcribed"),
        "transcription" => with("transcription.failed", rest.strip_prefix("failed: ")?),
        "heard" => {
            let words = rest.split_once(": ")?.1.trim_matches('"');
            let count = words.split_whitespace().count().to_string();
            Some(fact(at, "heard", vec![("words", count)]))
        }
        "truncated" => plain("truncated"),
        "pause" => plain("agent.paused"),
        "resume" => plain("agent.resumed"),
        "clear" => plain("far_end.clear"),
        "rejected:" => with("rejected", rest),
        "hang" => with("hang_up", rest.strip_prefix("up: ")?),
        "client" => with("client.runs", rest.strip_prefix("runs ")?),
        "late" => late(at, rest),
        _ if word.starts_with("turn-") => turn(at, word.strip_prefix("turn-")?, rest),
        _ if word.starts_with("response-") => answer(at, rest),
        _ => None,
    }
}

fn late(at: Timestamp, rest: &str) -> Option<Fact> {
    let (generation, stage) =
        rest.strip_prefix("output of generation ")?.split_once(" suppressed at ")?;
    let details = vec![("stage", stage.to_owned()), ("generation", generation.to_owned())];
    Some(fact(at, "late_output", details))
}

fn turn(at: Timestamp, turn: &str, rest: &str) -> Option<Fact> {
    let (state, generation) = rest.trim_end_matches(')').split_once(" (generation ")?;
    let details = vec![("", turn.to_owned()), ("generation", generation.to_owned())];
    Some(fact(at, &format!("turn.{state}"), details))
}

fn answer(at: Timestamp, rest: &str) -> Option<Fact> {
    let how = match rest {
        "starts" => return Some(fact(at, STARTED, Vec::new())),
        "is audible" | "is being written" => return Some(fact(at, AUDIBLE, Vec::new())),
        other => other.strip_prefix("ended: ")?,
    };
    let code = match how {
        "cancelled by the caller's speech" => "turn_detected",
        "cancelled by the client" => "client_cancelled",
        "incomplete: token limit" => "max_tokens",
        "incomplete: content filter" => "content_filter",
        other => other,
    };
    Some(fact(at, "response.ended", vec![("", code.to_owned())]))
}

/// What came of bringing both sides together.
#[derive(Debug, Default)]
pub(super) struct Merged {
    pub(super) facts: Vec<Fact>,
    /// Where the two sides tell different stories.
    pub(super) problems: Vec<String>,
}

/// The record's facts and the wire's in one order. What both show has to be the same and in the
/// same order, and is the place at which the rest is put in.
///
/// `from` is when the client began to hear everything, `until` when it left.
pub(super) fn merge(
    record: &[Fact],
    wire: &[Fact],
    from: Timestamp,
    until: Option<Timestamp>,
) -> Merged {
    let same = |a: &Fact, b: &Fact| a.name == b.name && a.details == b.details;
    let mut merged = Merged::default();
    let mut rest = record;
    for told in wire.iter().filter(|fact| !is_inner(&fact.name)) {
        if told.name.starts_with("caller.") {
            // A record knows whole milliseconds only; a deed comes before what it causes.
            let before =
                |fact: &&Fact| is_inner(&fact.name) && fact.at.as_millis() < told.at.as_millis();
            let count = rest.iter().take_while(before).count();
            let (earlier, later) = rest.split_at(count);
            merged.facts.extend(earlier.iter().cloned());
            rest = later;
            merged.facts.push(told.clone());
        } else if told.name.starts_with("agent.first_audio") || told.name == "agent.audio" {
            merged.facts.push(told.clone());
        } else if let Some(place) = rest.iter().position(|fact| same(fact, told)) {
            for fact in &rest[..place] {
                merged.miss(fact, from, until);
            }
            merged.facts.extend(rest[..=place].iter().cloned());
            rest = &rest[place + 1..];
        } else {
            let at_ms = told.at.as_millis();
            merged.facts.push(told.clone());
            // The protocol's own answers to wrong requests are no part of a call's record.
            if told.name != "rejected" {
                merged.problems.push(format!(
                    "at {at_ms} ms: {told} came over the wire and is not in the server's record"
                ));
            }
        }
    }
    for fact in rest {
        merged.miss(fact, from, until);
    }
    merged.facts.extend(rest.iter().cloned());
    merged
}

impl Merged {
    /// The record has this, and the wire should have.
    fn miss(&mut self, fact: &Fact, from: Timestamp, until: Option<Timestamp>) {
        let reaches = fact.at >= from && until.is_none_or(|until| fact.at < until);
        if reaches && !is_inner(&fact.name) {
            let at_ms = fact.at.as_millis();
            self.problems.push(format!(
                "at {at_ms} ms: {fact} is in the server's record and did not come over the wire"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::script::Script;
    use crate::sim::world;

    /// Every line of every golden trace is read as the fact that the simulator saw.
    #[test]
    fn a_record_is_read_as_what_the_simulator_saw() {
        let fallback = std::sync::Arc::new(crate::config::Script::read(None).unwrap());
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/calls");
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.extension().is_none_or(|extension| extension != "toml") {
                continue;
            }
            let name = entry.display().to_string();
            let script = Script::parse(&name, &std::fs::read_to_string(&entry).unwrap()).unwrap();
            let outcome = world::run(&script, fallback.clone()).unwrap();
            let mut reading = Reading::default();
            let read: Vec<String> = outcome
                .trace
                .lines()
                .filter_map(|line| reading.line(line))
                .filter(|fact| ![STARTED, AUDIBLE].contains(&&*fact.name))
                .map(|fact| fact.to_string())
                .collect();
            let unseen = ["caller.", "agent.audio", "agent.first_audio"];
            let seen: Vec<String> = outcome
                .facts
                .iter()
                .map(Fact::to_string)
                .filter(|fact| !unseen.iter().any(|name| fact.starts_with(name)))
                .collect();
            assert_eq!(read, seen, "{name}");
        }
    }

    fn at(at_ms: u64, name: &str) -> Fact {
        fact(Timestamp::from_millis(at_ms), name, Vec::new())
    }

    fn names(facts: &[Fact]) -> Vec<&str> {
        facts.iter().map(|fact| &*fact.name).collect()
    }

    #[test]
    fn both_sides_are_one_story() {
        let record =
            [at(0, "turn"), at(0, "fence"), at(1, AUDIBLE), at(90, "fence"), at(90, "idle")];
        let wire = [at(1, "turn"), at(2, AUDIBLE), at(3, "agent.audio"), at(95, "idle")];
        let merged = merge(&record, &wire, Timestamp::ZERO, None);
        let order = ["turn", "fence", AUDIBLE, "agent.audio", "fence", "idle"];
        assert_eq!(names(&merged.facts), order);
        assert_eq!(merged.problems, Vec::<String>::new());
    }

    #[test]
    fn what_only_one_side_tells_is_a_problem() {
        let record = [at(10, "turn"), at(50, "idle"), at(90, "turn")];
        let merged = merge(&record, &[at(11, "turn"), at(60, "truncated")], Timestamp::ZERO, None);
        assert_eq!(merged.problems.len(), 3, "{:?}", merged.problems);
        let left = Some(Timestamp::from_millis(40));
        let merged = merge(&record, &[at(11, "turn")], Timestamp::ZERO, left);
        assert_eq!(merged.problems, Vec::<String>::new());
    }
}
