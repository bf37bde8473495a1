//! Invariants of any simulated call, held against every event and action (DESIGN section 9).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::effects::Started;
use super::far_end::FarEnd;
use super::gates::SimGates;
use super::replies::Replies;
use super::truths::{Seen, Truths};
use super::workers::Workers;
use crate::admission::{Admit, OwnerId};
use crate::call::{Action, Arranged, Call, Event, Profile};
use crate::config::Script;
use crate::dialogue::Message;
use crate::fallback::PromptId;
use crate::id::{CallbackId, Generation, ItemId, RunId, Stage};
use crate::leg::{FromCaller, Modality, PlayoutState, ToCaller};
use crate::time::Timestamp;
use crate::turn::history::ITEMS_MAX;

/// Actions that one event may bring about: what follows from it, and a lead of frames.
const ACTIONS_MAX: u32 = 512;
/// Recognisers that may listen at once: the utterances whose words are awaited, one more that is
/// given up for the next, and the present one.
const LISTENING_MAX: usize = 6;

/// What has to stay true.
pub(super) struct Watch {
    profile: Arc<Profile>,
    script: Arc<Script>,
    owner: OwnerId,
    /// Who has the floor, by the fences told so far.
    generation: Generation,
    /// Under which generation each run was started; those beside the conversation never rotate.
    runs: BTreeMap<RunId, Generation>,
    /// Models asked beside the conversation, or for a turn that is not certain: they may speak for
    /// the generation behind.
    ahead: BTreeMap<RunId, Generation>,
    asked_to_stop: BTreeSet<RunId>,
    listening: BTreeSet<RunId>,
    far_end: FarEnd,
    truths: Truths,
    started: Started,
    replies: Replies,
    last_speech: Timestamp,
    /// When the speech of each utterance ended whose words are awaited, and of the one whose words
    /// came last.
    ends: BTreeMap<ItemId, Timestamp>,
    settled: Option<Timestamp>,
    /// When the turn committed last was born, and when it was at the latest.
    born: Timestamp,
    /// Callbacks whose units go with their promise.
    to_keep: BTreeSet<CallbackId>,
    born_by: Timestamp,
    /// When the client last asked for an answer.
    asked: Timestamp,
    /// The turn has not been offered to the model yet.
    unoffered: bool,
    /// A model was just admitted before the end of a turn is certain.
    guesses: bool,
    guess: Option<Guess>,
    /// Models that were started when nobody could speak what they write.
    mute: Vec<RunId>,
    /// A detector listens to the sound.
    listens: bool,
    /// The transport tells the caller's number.
    knows_number: bool,
    /// Our sending is paused.
    paused: bool,
    /// The answer in the making is to be spoken.
    speaks: bool,
    late_outputs: u64,
    late_due: u64,
    actions: u32,
    pub problems: Vec<String>,
}

/// A model that was started before the end of a turn was certain, and keeps its authority.
#[derive(Clone, Copy)]
struct Guess {
    run: RunId,
    writes: bool,
}

impl Watch {
    pub fn new(
        profile: Arc<Profile>,
        script: Arc<Script>,
        owner: OwnerId,
        far_end: FarEnd,
        listens: bool,
        knows_number: bool,
    ) -> Watch {
        Watch {
            replies: Replies::new(profile.barge_in.clone()),
            profile,
            script,
            owner,
            generation: Generation(0),
            runs: BTreeMap::new(),
            ahead: BTreeMap::new(),
            asked_to_stop: BTreeSet::new(),
            listening: BTreeSet::new(),
            far_end,
            truths: Truths::new(),
            started: Started::default(),
            last_speech: Timestamp::ZERO,
            ends: BTreeMap::new(),
            settled: None,
            born: Timestamp::ZERO,
            to_keep: BTreeSet::new(),
            born_by: Timestamp::ZERO,
            asked: Timestamp::ZERO,
            unoffered: false,
            guesses: false,
            guess: None,
            listens,
            knows_number,
            mute: Vec::new(),
            paused: false,
            speaks: false,
            late_outputs: 0,
            late_due: 0,
            actions: 0,
            problems: Vec::new(),
        }
    }

    fn found(&mut self, now: Timestamp, problems: impl IntoIterator<Item = String>) {
        let told = |wrong| format!("at {} ms: {wrong}", now.as_millis());
        self.problems.extend(problems.into_iter().map(told));
    }

    /// Before an event.
    pub fn event(
        &mut self,
        now: Timestamp,
        call: &Call,
        event: &Event,
        workers: &Workers,
        gates: &SimGates,
    ) {
        let waits = || gates.waits(self.owner);
        let alone = self.far_end.left_alone(now, call, workers, waits);
        self.found(now, alone);
        self.truths.event(event);
        (self.late_outputs, self.late_due, self.actions) = (call.late_outputs(), 0, 0);
        match event {
            Event::Wanted { run, call } => {
                let by = self.runs.get(run).or(self.ahead.get(run)).copied();
                self.started.wanted(call, by.unwrap_or(self.generation));
                self.expect_late(*run);
            }
            Event::Wrote { run, .. } => self.expect_late(*run),
            Event::Sounded { run, samples, .. } if !samples.is_empty() => self.expect_late(*run),
            Event::Caller(FromCaller::Dtmf(_)) => self.far_end.caller_acts(),
            Event::Granted(_) => self.far_end.goes_on(now),
            Event::Caller(FromCaller::Respond { .. }) => self.asked = now,
            Event::ToolReturned { .. } => self.far_end.goes_on(now),
            Event::Speech { window, .. } if window.probability > 0.5 => self.last_speech = now,
            Event::Arranged { run, what: Arranged::Callback(receipt) }
                if call.lease_of(*run).is_some() =>
            {
                self.to_keep.insert(receipt.id());
            }
            Event::Finished { run, .. } => {
                self.guess.iter_mut().for_each(|guess| guess.writes &= guess.run != *run);
            }
            Event::Ended { run, .. } => {
                // One that failed is forgotten: its turn is asked anew.
                self.guess.take_if(|guess| guess.run == *run && guess.writes);
                self.listening.remove(run);
            }
            Event::Caller(FromCaller::Truncate { item, .. }) => {
                self.far_end.reported(now, item);
            }
            _ => {}
        }
    }

    /// What a run of an old generation says is suppressed, and counted (invariant 1).
    fn expect_late(&mut self, run: RunId) {
        let is_old = self.runs.get(&run).is_some_and(|by| *by < self.generation);
        self.late_due += u64::from(is_old);
    }

    /// All that followed from an event was carried out.
    pub fn done(&mut self, now: Timestamp, call: &Call) {
        self.settled = None;
        let (floor, ear) = call.state_names();
        let sounds = matches!(floor, "speaking" | "playing_out" | "falling_back");
        let mute = std::mem::take(&mut self.mute).into_iter();
        let stopped = &self.asked_to_stop;
        let mute: Vec<RunId> = mute.filter(|run| !stopped.contains(run)).collect();
        self.found(now, mute.iter().map(|run| format!("{run} writes what nobody can speak")));
        let forgotten =
            self.truths.promised.is_asking() && !matches!(floor, "arranging" | "falling_back");
        self.found(now, forgotten.then(|| format!("a human is asked, and the call is {floor}")));
        let stuck = self.paused && sounds && ear == "quiet";
        self.found(now, stuck.then(|| "it stays paused, and nobody speaks".to_owned()));
        self.paused &= !stuck;
        let counted = call.late_outputs() - self.late_outputs;
        let uncounted = counted < self.late_due;
        let suppressed = || "output of an old generation was suppressed and not counted".to_owned();
        self.found(now, uncounted.then(suppressed));
        let many = self.actions > ACTIONS_MAX;
        self.found(now, many.then(|| format!("{} actions of one event", self.actions)));
        let listening = self.listening.len();
        let many = listening > LISTENING_MAX;
        self.found(now, many.then(|| format!("{listening} recognisers listen at once")));
    }

    /// One action, in the order of the call's own.
    pub fn action(&mut self, now: Timestamp, action: &Action, call: &Call, gates: &mut SimGates) {
        self.actions += 1;
        self.truths.promised.action(action);
        if let Action::Tell(ToCaller::Admission(note)) = action
            && note.gate == Stage::Model.kind()
        {
            self.offered(now, gates);
            self.guesses |= note.reason == "speculative";
        }
        self.truths.refused(gates.refused.drain(..));
        if std::mem::take(&mut gates.withdrawn) {
            self.truths.withdrawn();
        }
        match action {
            Action::Fence { to, .. } => {
                self.generation = *to;
                self.far_end.prompt_comes(None);
            }
            Action::Tell(what) => self.told(now, what, call),
            Action::Think { run, request } => self.thinks(now, *run, &request.history, call, gates),
            Action::Voice { run, .. } => drop(self.runs.insert(*run, self.generation)),
            Action::UseTool { run, tool, arguments, idempotency_key } => {
                self.runs.insert(*run, self.generation);
                let wrong = self.started.start(idempotency_key, self.generation);
                self.found(now, wrong);
                let wrong = self.started.against(call, &self.profile, *tool, arguments);
                self.found(now, wrong);
            }
            Action::Prompt { prompt, .. } => {
                // Whatever was paused gives way to it.
                self.paused = false;
                self.prompt(now, prompt, call, gates);
            }
            Action::Recognise { run, .. } => drop(self.listening.insert(*run)),
            Action::Cancel { run, .. } => {
                self.truths.given_up();
                self.guess.take_if(|guess| guess.run == *run);
                self.listening.remove(run);
                if !self.asked_to_stop.insert(*run) {
                    self.found(now, Some(format!("{run} was asked to stop twice")));
                }
            }
            // Those behind the rungs keep their own books.
            Action::Arrange { .. } => {}
            Action::Close { run } => drop(self.listening.remove(run)),
            Action::Decode { .. }
            | Action::JudgeTurn { .. }
            | Action::Say { .. }
            | Action::ForgetSound => {}
        }
    }

    /// A run of the model: the answer of a turn, a guess at one, or one beside the call.
    fn thinks(
        &mut self,
        now: Timestamp,
        run: RunId,
        history: &[Message],
        call: &Call,
        gates: &SimGates,
    ) {
        let owner = |(_, offer)| gates.owner_of(offer);
        let beside = call.lease_of(run).is_some_and(|lease| owner(lease) != Some(self.owner));
        let guess = std::mem::take(&mut self.guesses);
        let two = self.guess.filter(|guess| guess.writes && !beside);
        self.found(now, two.map(|guess| format!("{} and {run} answer one turn", guess.run)));
        if guess {
            self.guess = Some(Guess { run, writes: true });
        }
        // What runs beside is of the generation that its turn will have.
        match beside {
            false => self.runs.insert(run, self.generation),
            true if guess => self.runs.insert(run, self.generation.next()),
            true => self.ahead.insert(run, self.generation.next()),
        };
        // No answer is made that nobody can speak.
        let mute = !beside && self.speaks && !gates.can_speak(self.owner);
        // One that is given up in the very same step writes nothing.
        self.mute.extend(mute.then_some(run));
        let wrong = self.far_end.beyond_heard(history);
        self.found(now, wrong);
        let items = history.len();
        let many = items > ITEMS_MAX;
        self.found(now, many.then(|| format!("a request of {items} messages")));
    }

    /// A turn is as old as the end of its speech, wherever it is offered.
    fn offered(&mut self, now: Timestamp, gates: &mut SimGates) {
        for (owner, born) in gates.births.drain(..) {
            if owner == self.owner && std::mem::take(&mut self.unoffered) && born > self.born_by {
                let (by, born) = (self.born_by.as_millis(), born.as_millis());
                let at = now.as_millis();
                self.problems
                    .push(format!("at {at} ms: a turn of {by} ms is offered as of {born} ms"));
            }
        }
    }

    fn told(&mut self, now: Timestamp, what: &ToCaller, call: &Call) {
        let wrong = self.replies.told(what, call.settings());
        self.found(now, wrong);
        let wrong = self.far_end.told(now, what);
        self.found(now, wrong);
        let wrong = match what {
            ToCaller::Audio { generation, .. } => {
                self.paused = false;
                let fenced = *generation != self.generation;
                fenced.then(|| format!("sound of fenced generation {generation}"))
            }
            ToCaller::Playout { state, .. } => {
                self.paused = *state == PlayoutState::Paused;
                None
            }
            ToCaller::SpeechStarted { .. } => {
                // What was paused is cleared, or goes on, or had ended before.
                self.paused = false;
                None
            }
            ToCaller::ResponseStarted(head) if !head.out_of_band => {
                self.speaks = head.modality == Modality::Audio;
                None
            }
            ToCaller::SpeechStopped { item, .. } => {
                self.ends.insert(item.clone(), self.last_speech);
                None
            }
            ToCaller::Transcribed { item, .. } | ToCaller::TranscriptionFailed { item, .. } => {
                self.settled = self.ends.remove(item);
                None
            }
            ToCaller::Turn { state: "committed", .. } => {
                self.born = self.settled.take().unwrap_or(now);
                self.born_by = self.born.max(self.asked);
                // What a listening detector takes for the end of speech only the call knows, and a
                // turn that was guessed has been offered.
                self.unoffered = !self.listens && self.guess.is_none();
                self.guess.take_if(|guess| !guess.writes);
                self.truths.committed()
            }
            ToCaller::Fallback { rung, outcome, .. } => self.truths.promised.told(rung, outcome),
            ToCaller::HangUp { why } => {
                let left = self.truths.promised.hung_up(*why);
                self.truths.hung_up(*why).or(left)
            }
            _ => None,
        };
        self.found(now, wrong);
    }

    /// No prompt is spoken while one of its claims is false (invariant 6).
    fn prompt(&mut self, now: Timestamp, prompt: &str, call: &Call, gates: &SimGates) {
        let least = self.profile.budget.saturating_sub(self.profile.fallback_start);
        let room = |stage: Stage| gates.spare(stage) > 0;
        let offers = self.profile.offers;
        let seen = Seen {
            waits: gates.waits(self.owner),
            budget_spent: self.far_end.silence(now).max(now.since(self.born)) >= least,
            callback_room: offers.callback.allows(self.knows_number) && room(Stage::Callback),
            handoff_room: offers.handoff.allows(true) && room(Stage::Handoff),
            idle: self.profile.idle_max.is_some_and(|most| {
                self.far_end.silence(now).min(now.since(self.last_speech)) >= most
            }),
            time_over: now >= Timestamp::ZERO + self.profile.call_max,
        };
        let prompts = &self.script.prompts;
        let locale = prompts.locale_for(&self.profile.language);
        let words = prompts.get(locale, &PromptId::new(prompt)).map(|prompt| prompt.text.clone());
        self.far_end.prompt_comes(words.or_else(|| Some(String::new())));
        let lie = self.truths.said(&self.script, prompt, &seen);
        self.found(now, lie);
        // A prompt is said to somebody.
        let over = call.has_ended().is_some();
        self.found(now, over.then(|| format!("\"{prompt}\" is said behind the hang-up")));
    }

    /// Units come back with the proof that their run is over, and not before (invariant 3).
    pub fn returned(&mut self, now: Timestamp, gates: &mut SimGates, workers: &Workers) {
        for (offer, evidence) in std::mem::take(&mut gates.returned) {
            let runs = workers.holds(offer);
            self.found(
                now,
                runs.then(|| format!("{offer:?} came back as {evidence} while its run goes on")),
            );
        }
    }

    /// What is quarantined is what nobody knows anything of, and really goes on.
    pub fn quarantined(&mut self, now: Timestamp, gates: &SimGates, workers: &Workers) {
        for (stage, gate) in &gates.gates {
            let (held, unknown) = (gate.counts(now).quarantined, workers.unknown_at(*stage));
            let wrong = held != unknown as u64;
            let wrong = wrong
                .then(|| format!("{stage}: {held} units are quarantined, {unknown} are unknown"));
            self.found(now, wrong);
        }
    }

    /// The unit of every callback on record is kept for its promise, and no other.
    pub fn kept(&mut self, now: Timestamp, kept: &BTreeSet<CallbackId>) {
        let wrong = *kept != self.to_keep;
        let wrong =
            wrong.then(|| format!("units are kept for {kept:?}, promised is {:?}", self.to_keep));
        self.found(now, wrong);
    }

    /// Nothing is due any more: the call is at rest, and every response has ended.
    pub fn rest(&mut self, now: Timestamp, call: &Call) {
        let (floor, ear) = call.state_names();
        if call.has_ended().is_some() {
            return;
        }
        let stuck = floor != "listening" || ear != "quiet";
        self.found(
            now,
            stuck.then(|| format!("at rest in {floor}/{ear}: a normal turn would not be answered")),
        );
        for open in self.replies.open() {
            self.found(now, Some(open));
        }
    }

    /// Something has been audible since.
    pub fn heard_since(&self, then: Timestamp) -> bool {
        self.far_end.silence(then) == Duration::ZERO
    }
}
