//! What a call was like, in numbers: every metric is defined here, once.

use std::time::Duration;

use super::facts::Fact;
use super::heard::{self, Heard, Said};
use super::script::Script;
use super::world::Outcome;
use crate::time::Timestamp;
use crate::turn::bargein::BargeIn;

/// A metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name, with its unit.
    pub name: &'static str,
    /// What it is, in words.
    pub means: &'static str,
    of: fn(&Call) -> Sample,
}

/// What one call gives for a metric.
#[derive(Clone, Debug, PartialEq)]
pub enum Sample {
    /// One value; `None` where the call has nothing to measure.
    Value(Option<f64>),
    /// So many of so many cases.
    Share {
        /// Cases that count.
        hits: u32,
        /// All cases.
        of: u32,
    },
}

impl Metric {
    /// Measures a call.
    pub fn of(&self, call: &Call) -> Sample {
        (self.of)(call)
    }
}

/// Every metric, in the order in which they are shown.
pub const METRICS: [Metric; 10] = [
    Metric {
        name: "stop_pause_ms",
        means: "from the acoustic onset of an interruption that stopped the agent to the instant \
                at which our sending pauses",
        of: |call| mean(call.stops().filter_map(|stop| stop.pause_after)),
    },
    Metric {
        name: "stop_silence_ms",
        means: "from the same onset to the end of the agent's sound at the far end: what was sent \
                ahead has been played or was cleared",
        of: |call| mean(call.stops().filter_map(|stop| stop.silent_after)),
    },
    Metric {
        name: "stop_clear_ms",
        means: "from the same onset to the clear of the far end: the interruption is confirmed, \
                its answer lost",
        of: |call| mean(call.stops().filter_map(|stop| stop.clear_after)),
    },
    Metric {
        name: "false_interruptions",
        means: "of the sounds without meant words (noise, back-channels but for those that answer \
                a question) that began while the agent was audible, and of the stops without any \
                sound of the caller: those that stopped the agent",
        of: |call| {
            let unmeant = call.onsets.iter().filter(|onset| !onset.meant);
            let cut = unmeant.clone().filter(|onset| onset.stopped()).count() + call.unprovoked;
            share(cut, unmeant.count() + call.unprovoked)
        },
    },
    Metric {
        name: "missed_interruptions",
        means: "of the speech with meant words that began while the agent was audible: that which \
                did not stop the agent, who still sounded turn.barge_in.backchannel_ms after its \
                onset. What the agent's own end came before counts as neither",
        of: |call| {
            let meant = call.onsets.iter().filter(|onset| onset.meant);
            let missed = meant.clone().filter(|onset| !onset.stopped() && onset.went_on).count();
            share(missed, missed + meant.filter(|onset| onset.stopped()).count())
        },
    },
    Metric {
        name: "overlap_ms",
        means: "time in which caller and agent were audible together",
        of: |call| Sample::Value(Some(call.overlap_ms())),
    },
    Metric {
        name: "gap_ms",
        means: "from the acoustic end of a caller's turn to the first sound, at the far end, that \
                the agent makes for it, prompts included; the call's mean",
        of: |call| mean(call.gaps.iter().copied()),
    },
    Metric {
        name: "words_heard_after_fence",
        means: "words of a fenced generation that sounded at the far end behind its fence, by the \
                synthesiser's rate, begun words whole. 0, or something is broken",
        of: |call| Sample::Value(Some(call.words_after_fence())),
    },
    Metric {
        name: "late_outputs",
        means: "pieces of provider output for a fenced generation, suppressed at their stage",
        of: |call| Sample::Value(Some(call.late_outputs as f64)),
    },
    Metric {
        name: "resumed",
        means: "pauses after which the agent went on where it had stopped",
        of: |call| Sample::Value(Some(call.resumed as f64)),
    },
];

/// A call, seen as the metrics need it.
#[derive(Clone, Debug)]
pub struct Call {
    onsets: Vec<Onset>,
    gaps: Vec<Duration>,
    said: Vec<Said>,
    heard: Vec<Heard>,
    /// When a fence came, and the first generation that it lets through.
    fences: Vec<(Timestamp, u64)>,
    words_per_s: f64,
    unprovoked: usize,
    late_outputs: usize,
    resumed: usize,
}

/// A sound of the caller that began while the agent was audible, and what came of it.
#[derive(Clone, Debug)]
struct Onset {
    meant: bool,
    pause_after: Option<Duration>,
    clear_after: Option<Duration>,
    silent_after: Option<Duration>,
    /// The agent still sounded when every decision should have been made.
    went_on: bool,
}

impl Onset {
    fn stopped(&self) -> bool {
        self.clear_after.is_some()
    }
}

impl Call {
    /// The call that a script led to.
    pub fn of(script: &Script, outcome: &Outcome) -> Call {
        let facts = &outcome.facts;
        let heard = heard::heard(&outcome.sent);
        let count = |name: &str| facts.iter().filter(|fact| fact.name == name).count();
        let view = View { script, facts, heard: &heard, said: &outcome.said };
        Call {
            onsets: view.onsets(),
            gaps: view.gaps(),
            unprovoked: view.unprovoked(),
            fences: facts
                .iter()
                .filter(|fact| fact.name == "fence")
                .filter_map(|fact| Some((fact.at, number(fact, "")?)))
                .collect(),
            said: outcome.said.clone(),
            words_per_s: heard::words_per_s(script),
            late_outputs: count("late_output"),
            resumed: count("agent.resumed"),
            heard,
        }
    }

    /// When the agent sounded at the far end.
    pub fn heard(&self) -> &[Heard] {
        &self.heard
    }

    fn stops(&self) -> impl Iterator<Item = &Onset> {
        self.onsets.iter().filter(|onset| onset.meant && onset.stopped())
    }

    fn overlap_ms(&self) -> f64 {
        let mut speech: Vec<(Timestamp, Timestamp)> = Vec::new();
        for said in &self.said {
            match speech.last_mut() {
                Some((_, until)) if *until >= said.from => *until = (*until).max(said.until),
                _ => speech.push((said.from, said.until)),
            }
        }
        let both = speech.iter().flat_map(|(from, until)| {
            self.heard.iter().map(|one| one.until.min(*until).since(one.from.max(*from)))
        });
        in_ms(both.sum())
    }

    fn words_after_fence(&self) -> f64 {
        let behind = |one: &Heard| {
            let fence = self.fences.iter().find(|(_, to)| one.generation.0 < *to)?;
            Some(one.until.since(one.from.max(fence.0)))
        };
        let spans = self.heard.iter().filter_map(behind).map(|span| span.as_secs_f64());
        spans.map(|seconds| (seconds * self.words_per_s).ceil()).sum()
    }
}

/// What there is to look at.
struct View<'a> {
    script: &'a Script,
    facts: &'a [Fact],
    heard: &'a [Heard],
    said: &'a [Said],
}

impl View<'_> {
    fn audible_at(&self, at: Timestamp) -> bool {
        self.heard.iter().any(|one| one.from <= at && at < one.until)
    }

    fn onsets(&self) -> Vec<Onset> {
        let all = self.said.iter().enumerate();
        all.filter(|(_, said)| self.audible_at(said.from)).map(|(at, _)| self.onset(at)).collect()
    }

    fn onset(&self, at: usize) -> Onset {
        let said = &self.said[at];
        // What follows belongs to it until the caller makes the next sound.
        let end = self.said.get(at + 1).map_or(Timestamp::FAR_FUTURE, |next| next.from);
        let window = || self.facts.iter().filter(|fact| fact.at >= said.from && fact.at < end);
        let since = |fact: &Fact| fact.at.since(said.from);
        let stop = window()
            .find(|fact| is_stop(fact))
            .filter(|stop| window().any(|fact| fact.name == "far_end.clear" && fact.at == stop.at));
        let pause = window().find(|fact| fact.name == "agent.paused");
        let until = stop.map(|stop| stop.at);
        let sounded = self.heard.iter().filter(|one| until.is_some_and(|until| one.from < until));
        let silence = sounded.map(|one| one.until).max();
        let decided = said.from + self.script.config.turn.barge_in.backchannel;
        Onset {
            meant: self.is_meant(said),
            pause_after: pause.map(since),
            clear_after: stop.map(since),
            silent_after: silence.map(|silence| silence.since(said.from)),
            went_on: self.heard.iter().any(|one| one.until > decided && one.from < end),
        }
    }

    /// It has words, and they say more than "go on".
    fn is_meant(&self, said: &Said) -> bool {
        let backchannels = self.script.config.turn.barge_in.backchannels.clone();
        let policy = BargeIn { backchannels, ..BargeIn::default() };
        let begun = self.heard.iter().filter(|one| one.from <= said.from && !one.words.is_empty());
        let answers = begun.last().is_some_and(|one| one.words.ends_with('?'));
        !said.words.trim().is_empty() && (answers || !policy.is_backchannel(&said.words))
    }

    /// Stops behind which no sound of the caller stands: the agent's own echo, most likely.
    fn unprovoked(&self) -> usize {
        let patience = self.script.config.turn.barge_in.backchannel;
        let stops = self.facts.iter().filter(|fact| fact.fits("fence(why=barge_in)"));
        let provoked = |stop: &Fact| {
            self.said.iter().any(|s| s.from <= stop.at && stop.at <= s.until + patience)
        };
        stops.filter(|stop| !provoked(stop)).count()
    }

    fn gaps(&self) -> Vec<Duration> {
        let committed = self.facts.iter().filter(|fact| fact.name == "turn.committed");
        let mut answered = None;
        committed
            .filter_map(|turn| {
                let end = self.said.iter().map(|said| said.until).filter(|end| *end <= turn.at);
                let end = end.max().filter(|end| Some(*end) > answered)?;
                answered = Some(end);
                let generation = number(turn, "generation")?;
                let first = self.heard.iter().find(|one| one.generation.0 == generation)?;
                Some(first.from.since(end))
            })
            .collect()
    }
}

/// A fence by which the caller's speech takes the floor.
fn is_stop(fact: &Fact) -> bool {
    fact.fits("fence(why=barge_in)") || fact.fits("fence(why=superseded)")
}

fn number(fact: &Fact, key: &str) -> Option<u64> {
    fact.details.iter().find(|(name, _)| *name == key)?.1.parse().ok()
}

fn in_ms(span: Duration) -> f64 {
    span.as_micros() as f64 / 1_000.0
}

/// The call's mean of what it has of a thing.
fn mean(spans: impl Iterator<Item = Duration>) -> Sample {
    let all: Vec<f64> = spans.map(in_ms).collect();
    let sum: f64 = all.iter().sum();
    Sample::Value((!all.is_empty()).then(|| sum / all.len() as f64))
}

fn share(hits: usize, of: usize) -> Sample {
    Sample::Share { hits: hits as u32, of: of as u32 }
}
