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
                did not stop the agent, who still sounded in the same answer \
                turn.barge_in.backchannel_ms after its onset. Where the answer ended by itself \
                before that, it counts as neither",
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
        means: "words of a fenced generation that sounded at the far end behind the fence by which \
                the caller or the client took the floor (barge_in, client), by the synthesiser's \
                rate, begun words whole. 0, or something is broken. Other fences let what was \
                sent ahead be played",
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
    /// When the floor was taken, and the first generation that may sound behind that.
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
        let view = View { policy: &outcome.barge_in, facts, heard: &heard, said: &outcome.said };
        Call {
            onsets: view.onsets(),
            gaps: view.gaps(),
            unprovoked: view.unprovoked(),
            fences: facts
                .iter()
                .filter(|fact| ["barge_in", "client"].iter().any(|why| is_fence(fact, why)))
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
        // Not `sum`, which makes -0 of nothing.
        spans.fold(0.0, |words, seconds| words + (seconds * self.words_per_s).ceil())
    }
}

/// What there is to look at.
struct View<'a> {
    policy: &'a BargeIn,
    facts: &'a [Fact],
    heard: &'a [Heard],
    said: &'a [Said],
}

impl View<'_> {
    /// What of the agent sounds then.
    fn sounding(&self, at: Timestamp) -> Option<&Heard> {
        self.heard.iter().find(|one| one.from <= at && at < one.until)
    }

    fn onsets(&self) -> Vec<Onset> {
        let all = self.said.iter().enumerate();
        all.filter_map(|(at, said)| Some(self.onset(at, self.sounding(said.from)?))).collect()
    }

    /// What came of the caller's sound at this place, over `answer`.
    fn onset(&self, at: usize, answer: &Heard) -> Onset {
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
        let decided = said.from + self.policy.backchannel;
        let same = |one: &&Heard| one.item == answer.item || one.generation == answer.generation;
        Onset {
            meant: self.is_meant(said),
            pause_after: pause.map(since),
            clear_after: stop.map(since),
            silent_after: silence.map(|silence| silence.since(said.from)),
            went_on: self.heard.iter().filter(same).any(|one| one.until > decided),
        }
    }

    /// It has words, and they say more than "go on".
    fn is_meant(&self, said: &Said) -> bool {
        let begun = self.heard.iter().rfind(|one| one.from <= said.from && !one.words.is_empty());
        let answers = begun.is_some_and(|one| one.words.ends_with('?'));
        !said.words.trim().is_empty() && (answers || !self.policy.is_backchannel(&said.words))
    }

    /// Stops behind which no sound of the caller stands: the agent's own echo, most likely.
    fn unprovoked(&self) -> usize {
        let patience = self.policy.backchannel;
        let stops = self.facts.iter().filter(|fact| is_fence(fact, "barge_in"));
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
    is_fence(fact, "barge_in") || is_fence(fact, "superseded")
}

fn is_fence(fact: &Fact, why: &str) -> bool {
    fact.name == "fence" && fact.details.contains(&("why", why.to_owned()))
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

#[cfg(test)]
mod tests {
    use super::super::heard::Sent;
    use super::*;
    use crate::id::{Generation, ItemId};
    use crate::time::ms;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn fact(at_ms: u64, name: &str, details: &[(&'static str, &str)]) -> Fact {
        let details = details.iter().map(|(key, value)| (*key, (*value).to_owned()));
        Fact { at: at(at_ms), name: name.to_owned().into(), details: details.collect() }
    }

    /// The agent says one answer from 1 s to 3 s, of which `words` are told.
    fn outcome(words: &str, said: &[(u64, u64, &str)], facts: Vec<Fact>) -> Outcome {
        let item = ItemId::new("item_1");
        let generation = Generation(1);
        let text = Sent::Words { item: item.clone(), text: words.to_owned() };
        let sound = Sent::Sound { item, generation, span: ms(2_000) };
        let mut sent = vec![(at(1_000), text), (at(1_000), sound)];
        let clears = facts.iter().filter(|fact| fact.name == "far_end.clear");
        sent.extend(clears.map(|clear| (clear.at, Sent::Cleared)));
        let said = said.iter().map(|(from, until, words)| Said {
            from: at(*from),
            until: at(*until),
            words: (*words).to_owned(),
        });
        Outcome { facts, sent, said: said.collect(), ..Outcome::default() }
    }

    fn metric(name: &str, outcome: &Outcome) -> Sample {
        let script = Script::parse("test.toml", "about = \"a test\"\n").unwrap();
        let call = Call::of(&script, outcome);
        METRICS.iter().find(|metric| metric.name == name).unwrap().of(&call)
    }

    fn stop_at(ms: u64) -> Vec<Fact> {
        vec![
            fact(ms - 100, "agent.paused", &[]),
            fact(ms, "fence", &[("", "2"), ("why", "barge_in")]),
            fact(ms, "far_end.clear", &[]),
        ]
    }

    #[test]
    fn a_stop_is_timed_from_the_acoustic_onset() {
        let call = outcome("Hello.", &[(1_500, 2_500, "stop it")], stop_at(1_720));
        for (name, wanted) in [
            ("stop_pause_ms", 120.0),
            ("stop_clear_ms", 220.0),
            ("stop_silence_ms", 220.0),
            ("overlap_ms", 220.0),
            ("words_heard_after_fence", 0.0),
        ] {
            assert_eq!(metric(name, &call), Sample::Value(Some(wanted)), "{name}");
        }
        assert_eq!(metric("missed_interruptions", &call), Sample::Share { hits: 0, of: 1 });
        assert_eq!(metric("false_interruptions", &call), Sample::Share { hits: 0, of: 0 });
    }

    #[test]
    fn noise_and_back_channels_that_stop_the_agent_are_false_and_an_echo_is_too() {
        for words in ["", "mm-hmm"] {
            let call = outcome("Hello.", &[(1_500, 2_500, words)], stop_at(2_200));
            assert_eq!(metric("false_interruptions", &call), Sample::Share { hits: 1, of: 1 });
            assert_eq!(metric("missed_interruptions", &call), Sample::Share { hits: 0, of: 0 });
            assert_eq!(metric("stop_clear_ms", &call), Sample::Value(None));
        }
        let answer = outcome("Are you there?", &[(1_500, 1_700, "yeah")], stop_at(1_720));
        assert_eq!(metric("false_interruptions", &answer), Sample::Share { hits: 0, of: 0 });
        let echo = outcome("Hello.", &[], stop_at(1_720));
        assert_eq!(metric("false_interruptions", &echo), Sample::Share { hits: 1, of: 1 });
    }

    #[test]
    fn a_call_without_an_interruption_has_zeros_and_no_stop_time() {
        let call = outcome("Hello.", &[], Vec::new());
        let Sample::Value(Some(words)) = metric("words_heard_after_fence", &call) else {
            panic!("a number of words")
        };
        assert_eq!(words.to_string(), "0");
        assert_eq!(metric("stop_pause_ms", &call), Sample::Value(None));
    }

    #[test]
    fn words_that_did_not_stop_the_agent_are_missed_unless_it_ended_by_itself() {
        let missed = outcome("Hello.", &[(1_500, 2_500, "stop it")], Vec::new());
        assert_eq!(metric("missed_interruptions", &missed), Sample::Share { hits: 1, of: 1 });
        let ended = outcome("Hello.", &[(2_900, 3_500, "stop it")], Vec::new());
        assert_eq!(metric("missed_interruptions", &ended), Sample::Share { hits: 0, of: 0 });
        let before = outcome("Hello.", &[(500, 1_500, "stop it")], Vec::new());
        assert_eq!(metric("missed_interruptions", &before), Sample::Share { hits: 0, of: 0 });
    }

    #[test]
    fn a_far_end_that_is_not_cleared_is_found() {
        let mut facts = stop_at(1_720);
        facts.pop();
        let call = outcome("Hello.", &[(1_500, 2_500, "stop it")], facts);
        // 1 280 ms at 2.5 words a second: three and the beginning of a fourth.
        assert_eq!(metric("words_heard_after_fence", &call), Sample::Value(Some(4.0)));
    }

    #[test]
    fn the_gap_runs_from_the_end_of_speech_to_the_first_sound_of_its_answer() {
        let turn = fact(800, "turn.committed", &[("", "1"), ("generation", "1")]);
        let call = outcome("Hello.", &[(100, 640, "tell me")], vec![turn.clone()]);
        assert_eq!(metric("gap_ms", &call), Sample::Value(Some(360.0)));
        // A turn without speech of its own has no gap.
        let again = fact(900, "turn.committed", &[("", "2"), ("generation", "1")]);
        let call = outcome("Hello.", &[(100, 640, "tell me")], vec![turn, again]);
        assert_eq!(metric("gap_ms", &call), Sample::Value(Some(360.0)));
    }
}
