//! The end of a simulated call: what it gives back, what it has to show, and whether a normal turn
//! would still be answered.

use std::sync::Arc;
use std::time::Duration;

use super::expect;
use super::script::{Loudness, Script, What, When};
use super::tracks::Staging;
use super::world::{Awaited, Outcome, World};
use crate::admission::{Admit, Release};
use crate::call::Event;
use crate::config;
use crate::evidence::Evidence;
use crate::leg::{FromCaller, Modality, Settings, TurnDetection};
use crate::provider::BuildError;
use crate::time::{Timestamp, ms};

/// Virtual time that a call may take to give back what it owes.
const TEARDOWN: Duration = Duration::from_secs(30);
/// What a caller says in a normal turn, and for how long.
const NORMAL: (&str, Duration) = ("are you there", ms(1_200));
/// The place of a deed that no script has.
const UNSCRIPTED: usize = usize::MAX;
/// The end of a turn is noticed, and its words are known or given up, within this time.
const NOTICED: Duration = ms(5_000);

/// Runs a fixture, and then once more: the same story byte for byte (invariant 12), behind which a
/// normal turn is answered (invariant 5).
pub fn run_twice(
    script: &Script,
    fallback: Arc<config::Script>,
    staging: Staging<'_>,
) -> Result<Outcome, BuildError> {
    let mut first = World::new(script, fallback.clone(), staging)?;
    first.live(script);
    let mut again = World::new(script, fallback, staging)?;
    again.live(script);
    let is_same = first.lines == again.lines;
    let mut outcome = first.finish(script);
    if !is_same {
        outcome.problems.push("the same script told another story the second time".into());
    }
    let told = again.lines.len();
    again.come_back();
    if again.is_at_rest() && !again.answers_a_turn(script) {
        outcome.problems.push("behind the script a normal turn was not answered".into());
        let rest = again.lines.get(told..).unwrap_or_default().join("\n");
        outcome.trace.push_str(&format!("-- and instead of hanging up:\n{rest}\n"));
    }
    // What the first run has told already is not told twice.
    let more = again.watch.problems.into_iter().chain(again.problems);
    let new: Vec<String> = more.filter(|problem| !outcome.problems.contains(problem)).collect();
    outcome.problems.extend(new);
    Ok(outcome)
}

impl World {
    /// A caller who has lost the connection comes back now at the latest.
    fn come_back(&mut self) {
        if self.call.state_names().0 == "ringing" {
            self.step(Event::Caller(FromCaller::Back));
        }
    }

    fn is_at_rest(&self) -> bool {
        // A listening detector needs a sound, and scripts have none but their own.
        let at_rest = self.call.state_names() == ("listening", "quiet") && !self.ends.are_heard();
        at_rest && answers_by_itself(self.call.settings())
    }

    /// The caller says something more; true when they hear something for it.
    fn answers_a_turn(&mut self, script: &Script) -> bool {
        let (words, span) = NORMAL;
        let (before, end) = (self.lines.len(), self.now + span);
        // What the script had in mind for later is over.
        self.awaited.clear();
        self.due.clear();
        let loudness = Loudness::AsItIs;
        let says = What::Says { words: words.to_owned(), span, mutes: false, loudness };
        self.act(UNSCRIPTED, says);
        let by = end + NOTICED + self.budget;
        while !self.watch.heard_since(end) {
            let Some(next) = self.next_instant().filter(|next| *next <= by) else { break };
            self.now = self.now.max(next);
            self.happen(script);
        }
        // A recogniser that made out no word of it has brought about no turn, and what the client
        // is asked to do is for the client to answer.
        let excused =
            |line: &String| line.ends_with("<- final \"\"") || line.contains("-> client runs");
        self.watch.heard_since(end) || self.lines[before..].iter().any(excused)
    }

    /// Whoever keeps the promises has kept them: their units come back.
    fn keep_promises(&mut self) {
        let kept = std::mem::take(&mut self.gates.promised);
        self.watch.kept(self.now, &kept.keys().copied().collect());
        for lease in kept.into_values() {
            let _ = self.gates.settle(self.now, lease, Release::Completed(Evidence::Completed));
        }
        self.deliver();
    }

    /// Nothing happens until then but that the microphone is open.
    fn is_quiet(&self, until: Timestamp) -> bool {
        let due = self.next_due();
        let heard = self.next_heard(None);
        due.into_iter().chain(heard).all(|next| next > until)
    }

    /// The caller hangs up, if the call still stands; then everything has to be as it began.
    pub(super) fn finish(mut self, script: &Script) -> Outcome {
        for Awaited { at, deed, .. } in self.awaited.iter().filter(|a| !a.deed.maybe) {
            if let When::After { fact, nth, .. } = &deed.when {
                self.problems.push(expect::never_happened(*at, fact, *nth));
            }
        }
        self.awaited.clear();
        self.come_back();
        let soon = self.now + TEARDOWN;
        if self.is_quiet(soon) {
            self.watch.rest(self.now, &self.call);
        }
        if self.call.has_ended().is_none() {
            self.step(Event::Caller(FromCaller::Gone { how: "closed" }));
        }
        let until = self.now + TEARDOWN;
        while !self.call.is_over() {
            let Some(next) = self.workers.next_at().filter(|next| *next <= until) else { break };
            self.now = self.now.max(next);
            self.happen(script);
        }
        for lease in std::mem::take(&mut self.holds).into_values().flatten() {
            let _ = self.gates.settle(self.now, lease, Release::Completed(Evidence::Operator));
        }
        self.deliver();
        self.keep_promises();
        if !self.call.is_over() {
            self.problems.push("the call did not end".into());
        }
        self.quiesce();
        self.problems.append(&mut self.watch.problems);
        self.problems.extend(self.heard.iter().filter_map(expect::too_much));
        let asked = self.asked.unwrap_or_default();
        self.problems.extend(expect::check(&script.expect, &self.facts, &self.heard, &asked));
        let mut trace = self.lines.join("\n");
        trace.push('\n');
        let tracks = self.ends.tracks(self.now);
        Outcome {
            trace,
            facts: self.facts,
            problems: self.problems,
            tracks,
            said: self.said,
            sent: self.sent,
            barge_in: self.barge_in,
            heard: self.heard,
            asked,
        }
    }
}

/// The caller's words are answered aloud, without being asked for.
fn answers_by_itself(settings: &Settings) -> bool {
    let answers = match settings.turn_detection {
        TurnDetection::Manual => false,
        TurnDetection::Server(turns) => turns.create_response,
    };
    answers && settings.modality == Modality::Audio && !settings.transcription_only
}
