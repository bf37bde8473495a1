//! A trace read back: who held what from when to when, and what happened in between.

/// What a stretch of a lane is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The caller speaks.
    Speech,
    /// The caller's side makes noise.
    Noise,
    /// The agent is heard.
    Audible,
    /// The agent is heard, with words that were rendered ahead.
    Prompt,
    /// The agent's sound is held back.
    Paused,
    /// A unit is held for work that has not begun.
    Claimed,
    /// An offer waits at a gate.
    Waiting,
    /// Work runs.
    Working,
    /// Work that lost its authority and has not proven its end.
    Cleanup,
    /// Nobody knows what became of it.
    Quarantined,
}

/// A stretch of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub lane: String,
    pub kind: Kind,
    pub from_ms: u64,
    pub to_ms: u64,
    pub label: String,
}

/// A moment of a lane, or of all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// `None` is all lanes: a fence.
    pub lane: Option<String>,
    pub at_ms: u64,
    pub label: String,
}

/// A call's trace as stretches and moments.
#[derive(Debug, Default)]
pub struct Story {
    /// In the order in which they are drawn.
    pub lanes: Vec<String>,
    pub spans: Vec<Span>,
    pub marks: Vec<Mark>,
    pub end_ms: u64,
    open: Vec<Span>,
    fences: Vec<u64>,
    prompt: Option<String>,
}

pub const CALLER: &str = "caller";
pub const AGENT: &str = "agent";

impl Story {
    /// Reads a trace; lines that mean nothing to the picture are left to the text below it.
    pub fn of(trace: &str) -> Story {
        let mut story = Story { lanes: vec![CALLER.into(), AGENT.into()], ..Story::default() };
        for line in trace.lines() {
            let Some((time, text)) = line.trim_start().split_once("ms  ") else { continue };
            let Ok(at_ms) = time.trim().parse() else { continue };
            story.end_ms = story.end_ms.max(at_ms);
            match text.split_at_checked(3) {
                Some(("<- ", text)) => story.happened(at_ms, text),
                Some(("-> ", text)) => story.done(at_ms, text),
                Some(("-- ", text)) => story.gate(at_ms, text),
                _ => {}
            }
        }
        let end_ms = story.end_ms;
        for span in std::mem::take(&mut story.open) {
            story.spans.push(Span { to_ms: end_ms, ..span });
        }
        story.spans.sort_by_key(|span| (span.from_ms, span.to_ms));
        story.lanes.sort_by_key(|lane| rank(lane));
        story
    }

    fn happened(&mut self, at_ms: u64, text: &str) {
        if let Some(words) = text.strip_prefix("caller says ") {
            self.close(CALLER, at_ms);
            self.begin(CALLER, Kind::Speech, at_ms, words.trim_matches('"'));
        } else if let Some(what) = text.strip_prefix("caller plays ") {
            self.close(CALLER, at_ms);
            self.begin(CALLER, Kind::Speech, at_ms, what);
        } else if let Some((kind @ ("noise" | "white noise" | "pink noise" | "tone"), length)) =
            text.split_once(" of ")
        {
            let length: u64 = first_number(length);
            let lane = CALLER.to_owned();
            let (from_ms, to_ms, label) = (at_ms, at_ms + length, kind.to_owned());
            self.spans.push(Span { lane, kind: Kind::Noise, from_ms, to_ms, label });
            self.end_ms = self.end_ms.max(to_ms);
        } else if let Some(key) = text.strip_prefix("key ") {
            self.mark(CALLER, at_ms, &format!("key {key}"));
        }
    }

    fn done(&mut self, at_ms: u64, text: &str) {
        match text {
            "speech started" if !self.is_open(CALLER) => {
                self.begin(CALLER, Kind::Speech, at_ms, "");
            }
            "speech stopped" => self.close(CALLER, at_ms),
            "message whole" | "message cut" => self.close(AGENT, at_ms),
            _ => {}
        }
        if let Some(response) = text.strip_suffix(" is audible") {
            let prompt = self.prompt.take();
            let kind = if prompt.is_some() { Kind::Prompt } else { Kind::Audible };
            self.close(AGENT, at_ms);
            self.begin(AGENT, kind, at_ms, prompt.as_deref().unwrap_or(response));
        } else if text.starts_with("pause playout") && self.is_open(AGENT) {
            self.close(AGENT, at_ms);
            self.begin(AGENT, Kind::Paused, at_ms, "paused");
        } else if text.starts_with("resume playout") {
            self.close(AGENT, at_ms);
            self.begin(AGENT, Kind::Audible, at_ms, "resumed");
        } else if let Some(heard) = text.strip_prefix("clear far end, ") {
            self.close(AGENT, at_ms);
            self.mark(AGENT, at_ms, heard);
        } else if let Some(prompt) = text.strip_prefix("prompt ") {
            let id = prompt.split(' ').next_back().unwrap_or_default();
            self.mark(AGENT, at_ms, id);
            self.prompt = Some(id.to_owned());
        } else if let Some(fence) = text.strip_prefix("fence ") {
            self.fence(at_ms, fence);
        } else if text.starts_with("late output") || text.starts_with("hang up") {
            self.mark(AGENT, at_ms, text);
        }
    }

    /// The floor changes hands: what waits for the old generation waits no longer.
    fn fence(&mut self, at_ms: u64, how: &str) {
        self.fences.push(at_ms);
        self.prompt = None;
        self.marks.push(Mark { lane: None, at_ms, label: how.to_owned() });
        let waits = |span: &Span| span.kind == Kind::Waiting && span.lane != "recognition";
        let (ended, open) = std::mem::take(&mut self.open).into_iter().partition(waits);
        self.open = open;
        self.spans.extend(ended.into_iter().map(|span: Span| Span { to_ms: at_ms, ..span }));
    }

    fn gate(&mut self, at_ms: u64, text: &str) {
        let Some((gate, said)) = text.rsplit_once(": ") else { return };
        if !self.lanes.iter().any(|lane| lane == gate) {
            self.lanes.push(gate.to_owned());
        }
        let (word, detail) = said.split_once('{').unwrap_or((said, ""));
        match word {
            "queued" => self.begin(gate, Kind::Waiting, at_ms, "waits"),
            "admitted" if detail == "claim}" => self.begin(gate, Kind::Claimed, at_ms, "claim"),
            "admitted" => self.granted(gate, at_ms),
            "completed" if detail == "never_started}" => {
                self.close_kind(gate, Kind::Claimed, at_ms);
            }
            "completed" | "failed" => {
                self.close_kind(gate, Kind::Working, at_ms);
                if word == "failed" {
                    self.mark(gate, at_ms, said);
                }
            }
            "cancelled" => self.cancelled(gate, at_ms, Kind::Cleanup, said),
            "quarantined" => self.cancelled(gate, at_ms, Kind::Quarantined, detail),
            "expired" if detail == "claim}" => {
                self.close_kind(gate, Kind::Claimed, at_ms);
                self.mark(gate, at_ms, said);
            }
            _ => {
                self.close_kind(gate, Kind::Waiting, at_ms);
                self.mark(gate, at_ms, said);
            }
        }
    }

    /// What waited or was only claimed works now.
    fn granted(&mut self, gate: &str, at_ms: u64) {
        self.close_kind(gate, Kind::Waiting, at_ms);
        self.close_kind(gate, Kind::Claimed, at_ms);
        self.begin(gate, Kind::Working, at_ms, "");
    }

    /// Work lost its authority at the last fence behind its start; from then on it only held a
    /// unit.
    fn cancelled(&mut self, gate: &str, at_ms: u64, kind: Kind, label: &str) {
        let place = self.open.iter().position(|s| s.lane == gate && s.kind == Kind::Working);
        let Some(place) = place else { return };
        let span = self.open.remove(place);
        let lost = self.fences.iter().copied().find(|fence| *fence >= span.from_ms);
        let lost_ms = lost.unwrap_or(at_ms).min(at_ms);
        let (lane, label) = (span.lane.clone(), label.trim_end_matches('}').to_owned());
        self.spans.push(Span { to_ms: lost_ms, ..span });
        let held = Span { lane, kind: Kind::Cleanup, from_ms: lost_ms, to_ms: at_ms, label };
        match kind {
            Kind::Quarantined => {
                self.spans.push(held.clone());
                self.open.push(Span { kind, from_ms: at_ms, ..held });
            }
            _ => self.spans.push(held),
        }
    }

    fn begin(&mut self, lane: &str, kind: Kind, at_ms: u64, label: &str) {
        let (lane, label) = (lane.to_owned(), label.to_owned());
        self.open.push(Span { lane, kind, from_ms: at_ms, to_ms: at_ms, label });
    }

    fn is_open(&self, lane: &str) -> bool {
        self.open.iter().any(|span| span.lane == lane)
    }

    fn close(&mut self, lane: &str, at_ms: u64) {
        if let Some(place) = self.open.iter().position(|span| span.lane == lane) {
            let span = self.open.remove(place);
            self.spans.push(Span { to_ms: at_ms, ..span });
        }
    }

    fn close_kind(&mut self, lane: &str, kind: Kind, at_ms: u64) {
        let is_it = |span: &Span| span.lane == lane && span.kind == kind;
        if let Some(place) = self.open.iter().position(is_it) {
            let span = self.open.remove(place);
            self.spans.push(Span { to_ms: at_ms, ..span });
        }
    }

    fn mark(&mut self, lane: &str, at_ms: u64, label: &str) {
        let lane = Some(lane.to_owned());
        self.marks.push(Mark { lane, at_ms, label: label.to_owned() });
    }
}

/// From the caller's ear to the agent's deeds.
fn rank(lane: &str) -> (usize, String) {
    const ORDER: [&str; 5] = [CALLER, AGENT, "recognition", "model", "synthesis"];
    let place = ORDER.iter().position(|known| *known == lane).unwrap_or(ORDER.len());
    (place, lane.to_owned())
}

fn first_number(text: &str) -> u64 {
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = include_str!("../../../fixtures/calls/barge_in_while_speaking.trace");

    fn of_lane(story: &Story, lane: &str) -> Vec<(Kind, u64, u64)> {
        let own = story.spans.iter().filter(|span| span.lane == lane);
        own.map(|span| (span.kind, span.from_ms, span.to_ms)).collect()
    }

    #[test]
    fn a_barge_in_is_read_as_it_was() {
        let story = Story::of(TRACE);
        assert_eq!(story.lanes, ["caller", "agent", "recognition", "model", "synthesis"]);
        let agent = [
            (Kind::Audible, 3_530, 5_570),
            (Kind::Paused, 5_570, 5_750),
            (Kind::Audible, 7_885, 9_285),
        ];
        assert_eq!(of_lane(&story, "agent"), agent);
        let synthesis = of_lane(&story, "synthesis");
        let first = [
            (Kind::Claimed, 2_980, 3_450),
            (Kind::Working, 3_450, 5_750),
            (Kind::Cleanup, 5_750, 5_755),
        ];
        assert_eq!(synthesis[..3], first);
        let fences = story.marks.iter().filter(|mark| mark.lane.is_none());
        assert_eq!(fences.clone().count(), 4);
        assert_eq!(fences.clone().nth(1).unwrap().label, "1 -> 2: barge_in");
        assert_eq!(story.end_ms, 9_485);
    }

    #[test]
    fn what_waits_and_is_refused_is_seen() {
        let trace = "  10ms  -- model: queued\n  50ms  -> fence 0 -> 1: barge_in\n\
                     60ms  -- model: queued\n 90ms  -- model: expired\n\
                     95ms  -- model: overloaded{no_queue}\n 99ms  -- tool:book: admitted\n";
        let story = Story::of(trace);
        let waits = [(Kind::Waiting, 10, 50), (Kind::Waiting, 60, 90)];
        assert_eq!(of_lane(&story, "model"), waits);
        let marks: Vec<&str> = story.marks.iter().map(|mark| mark.label.as_str()).collect();
        assert_eq!(marks, ["0 -> 1: barge_in", "expired", "overloaded{no_queue}"]);
        assert_eq!(story.lanes.last().unwrap(), "tool:book");
    }

    #[test]
    fn no_text_is_too_wild() {
        for text in ["", "ms  ", "x", "12ms  ", "12ms  -- ", "9ms  -> é", "1ms  -- : {"] {
            let story = Story::of(text);
            assert!(story.spans.is_empty(), "{text:?}");
        }
    }
}
