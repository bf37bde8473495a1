//! A call as a Praat TextGrid: what sounded and what was decided, on one axis.

use std::fmt::Write as _;

use crate::sim::facts::Fact;
use crate::sim::heard::{Heard, Said};
use crate::time::Timestamp;

/// A stretch with a label.
type Stretch = (Timestamp, Timestamp, String);

/// A tier.
enum Tier {
    /// Stretches; what is between them is empty.
    Intervals(Vec<Stretch>),
    /// Instants.
    Points(Vec<(Timestamp, String)>),
}

/// What is drawn of a call.
#[derive(Clone, Copy, Debug)]
pub struct Drawing<'a> {
    /// The caller's speech.
    pub said: &'a [Said],
    /// The agent's sound at the far end.
    pub heard: &'a [Heard],
    /// What happened.
    pub facts: &'a [Fact],
    /// Where it ends.
    pub end: Timestamp,
}

/// The text of the file.
pub fn write(drawing: Drawing<'_>) -> String {
    let Drawing { said, heard, facts, end } = drawing;
    let caller = said.iter().map(|said| {
        let label = if said.words.is_empty() { "<noise>" } else { &said.words };
        (said.from, said.until, label.to_owned())
    });
    let agent = heard.iter().map(|one| {
        let label = if one.words.is_empty() { "…" } else { &one.words };
        (one.from, one.until, label.to_owned())
    });
    let (caller, agent) = (apart(caller.collect()), apart(agent.collect()));
    let tiers = [
        ("caller", Tier::Intervals(caller.clone())),
        ("agent", Tier::Intervals(agent.clone())),
        ("generation", Tier::Intervals(generations(facts, end))),
        ("floor", Tier::Intervals(floor(&caller, &agent))),
        ("events", Tier::Points(points(facts, is_event))),
        ("gates", Tier::Points(points(facts, |fact| fact.name.starts_with("admission.")))),
    ];
    let mut text = String::new();
    // Writing to a string does not fail, here and below.
    let _ = write!(
        text,
        "File type = \"ooTextFile\"\nObject class = \"TextGrid\"\n\nxmin = 0\nxmax = {}\n\
         tiers? <exists>\nsize = {}\nitem []:\n",
        seconds(end),
        tiers.len()
    );
    for (at, (name, tier)) in tiers.iter().enumerate() {
        let class = match tier {
            Tier::Intervals(_) => "IntervalTier",
            Tier::Points(_) => "TextTier",
        };
        let _ = write!(
            text,
            "    item [{}]:\n        class = \"{class}\"\n        name = \"{name}\"\n        \
             xmin = 0\n        xmax = {}\n",
            at + 1,
            seconds(end)
        );
        match tier {
            Tier::Intervals(stretches) => intervals(&mut text, stretches, end),
            Tier::Points(all) => marks(&mut text, all),
        }
    }
    text
}

fn intervals(text: &mut String, stretches: &[Stretch], end: Timestamp) {
    let mut whole: Vec<Stretch> = Vec::new();
    let mut at = Timestamp::ZERO;
    for (from, until, label) in stretches {
        let (from, until) = ((*from).max(at).min(end), (*until).min(end));
        if until <= from {
            continue;
        }
        if from > at {
            whole.push((at, from, String::new()));
        }
        whole.push((from, until, label.clone()));
        at = until;
    }
    if at < end || whole.is_empty() {
        whole.push((at, end, String::new()));
    }
    let _ = writeln!(text, "        intervals: size = {}", whole.len());
    for (nth, (from, until, label)) in whole.iter().enumerate() {
        let (nth, label) = (nth + 1, quoted(label));
        let _ = write!(
            text,
            "        intervals [{nth}]:\n            xmin = {}\n            xmax = {}\n            \
             text = {label}\n",
            seconds(*from),
            seconds(*until)
        );
    }
}

fn marks(text: &mut String, points: &[(Timestamp, String)]) {
    let _ = writeln!(text, "        points: size = {}", points.len());
    for (nth, (at, label)) in points.iter().enumerate() {
        let (nth, label) = (nth + 1, quoted(label));
        let _ = write!(
            text,
            "        points [{nth}]:\n            number = {}\n            mark = {label}\n",
            seconds(*at)
        );
    }
}

/// Stretches that overlap are cut where the next one begins; the last one has the rest.
fn apart(stretches: Vec<Stretch>) -> Vec<Stretch> {
    let mut all: Vec<Stretch> = Vec::new();
    for (from, mut until, label) in stretches {
        if let Some(last) = all.last_mut().filter(|last| last.1 > from) {
            until = until.max(last.1);
            last.1 = from;
        }
        all.push((from, until, label));
    }
    all
}

fn generations(facts: &[Fact], end: Timestamp) -> Vec<Stretch> {
    let fences = facts.iter().filter(|fact| fact.name == "fence");
    let starts = fences.filter_map(|fence| Some((fence.at, fence.details.first()?.1.clone())));
    let starts: Vec<(Timestamp, String)> =
        std::iter::once((Timestamp::ZERO, "0".to_owned())).chain(starts).collect();
    let ends = starts.iter().skip(1).map(|(at, _)| *at).chain(std::iter::once(end));
    let ends: Vec<Timestamp> = ends.collect();
    starts.into_iter().zip(ends).map(|((from, name), until)| (from, until, name)).collect()
}

/// Who is audible: the caller, the agent, or both.
fn floor(caller: &[Stretch], agent: &[Stretch]) -> Vec<Stretch> {
    let mut edges: Vec<Timestamp> =
        caller.iter().chain(agent).flat_map(|(from, until, _)| [*from, *until]).collect();
    edges.sort();
    edges.dedup();
    let sounds =
        |all: &[Stretch], at| all.iter().any(|(from, until, _)| *from <= at && at < *until);
    let mut stretches: Vec<Stretch> = Vec::new();
    for pair in edges.windows(2) {
        let label = match (sounds(caller, pair[0]), sounds(agent, pair[0])) {
            (true, true) => "both",
            (true, false) => "caller",
            (false, true) => "agent",
            (false, false) => continue,
        };
        match stretches.last_mut().filter(|last| last.1 == pair[0] && last.2 == label) {
            Some(last) => last.1 = pair[1],
            None => stretches.push((pair[0], pair[1], label.to_owned())),
        }
    }
    stretches
}

/// What is neither sound, nor a gate's answer, nor a stretch of the caller's speech.
fn is_event(fact: &Fact) -> bool {
    let drawn = ["agent.audio", "caller.speech", "caller.noise"].contains(&&*fact.name);
    !drawn && !fact.name.starts_with("admission.")
}

/// One point an instant: Praat takes no two.
fn points(facts: &[Fact], wanted: impl Fn(&Fact) -> bool) -> Vec<(Timestamp, String)> {
    let mut all: Vec<(Timestamp, String)> = Vec::new();
    for fact in facts.iter().filter(|fact| wanted(fact)) {
        match all.last_mut().filter(|(at, _)| *at == fact.at) {
            Some((_, label)) => {
                let _ = write!(label, " + {fact}");
            }
            None => all.push((fact.at, fact.to_string())),
        }
    }
    all
}

fn seconds(at: Timestamp) -> String {
    let micros = at.as_micros();
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// Quotes are written twice; a label is one line.
fn quoted(label: &str) -> String {
    let line = label.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("\"{}\"", line.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn said(from_ms: u64, until_ms: u64, words: &str) -> Said {
        Said { from: at(from_ms), until: at(until_ms), words: words.to_owned() }
    }

    #[test]
    fn tiers_have_no_gaps_and_no_overlaps_and_quotes_stay_text() {
        let said = [said(100, 600, "say \"no\"\nnow"), said(500, 550, ""), said(900, 950, "x")];
        let drawing = Drawing { said: &said, heard: &[], facts: &[], end: at(940) };
        let text = write(drawing);
        let tier = text.split("item [1]:").nth(1).and_then(|t| t.split("item [2]:").next());
        let lines: Vec<&str> = tier.unwrap().lines().map(str::trim).collect();
        let value = |key: &str| -> Vec<&str> {
            let behind = lines.iter().filter_map(|line| line.strip_prefix(key));
            behind.collect()
        };
        assert_eq!(
            value("xmin = ")[1..],
            ["0.000000", "0.100000", "0.500000", "0.600000", "0.900000"]
        );
        assert_eq!(
            value("xmax = ")[1..],
            ["0.100000", "0.500000", "0.600000", "0.900000", "0.940000"]
        );
        let labels = ["\"\"", "\"say \"\"no\"\" now\"", "\"<noise>\"", "\"\"", "\"x\""];
        assert_eq!(value("text = "), labels);
    }
}
