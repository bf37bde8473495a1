//! One simulated call: jumps from one due instant to the next until nothing is left to happen.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::client;
use super::expect::HeardCheck;
use super::facts::Fact;
use super::gates::SimGates;
use super::heard::FarEnd;
use super::script::{Deed, Script, WORDS_PER_S, What, When};
use super::tracks::{Staging, Tracks};
use super::watch::Watch;
use super::workers::{Came, Workers};
use crate::admission::{Lease, OwnerId, Wake};
use crate::audio::duration_to_samples;
use crate::call::{Action, Call, Cause, Choose, Event, Identity, trace};
use crate::config::{self, Abilities};
use crate::evidence::Evidence;
use crate::id::{CallId, Generation, ItemId, RunId, Stage, TenantId};
use crate::leg::ToCaller;
use crate::provider::BuildError;
use crate::time::{Timestamp, ms};

/// The caller's sound comes in such pieces.
pub(super) const TICK: Duration = ms(20);
/// The leg's rate.
pub(super) const RATE_HZ: u32 = 24_000;
/// How long a prompt sounds: forty characters at fifteen a second.
pub(super) const PROMPT_LENGTH: Duration = ms(1_000 * 40 / 15);
/// Owner of units that the script holds by hand.
pub(super) const HOLDER: OwnerId = OwnerId(u64::MAX);
/// Steps without time going on that are a loop.
const STEPS_MAX: u32 = 100_000;

/// What came of a fixture.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The story, line by line.
    pub trace: String,
    /// What happened, as named facts.
    pub facts: Vec<Fact>,
    /// What is not as it must be; empty when the fixture passed.
    pub problems: Vec<String>,
    /// What sounded, where it was to be recorded.
    pub tracks: Option<Tracks>,
}

/// Runs a fixture.
pub fn run(script: &Script, fallback: Arc<config::Script>) -> Result<Outcome, BuildError> {
    stage(script, fallback, Staging::default())
}

/// Runs a fixture as it is staged.
pub fn stage(
    script: &Script,
    fallback: Arc<config::Script>,
    _staging: Staging,
) -> Result<Outcome, BuildError> {
    let mut world = World::new(script, fallback)?;
    world.live(script);
    Ok(world.finish(script))
}

pub(super) struct World {
    pub(super) now: Timestamp,
    pub(super) call: Call,
    pub(super) gates: SimGates,
    pub(super) workers: Workers,
    pub(super) names: BTreeMap<Stage, String>,
    /// Deeds whose time is known.
    pub(super) due: BTreeMap<(Timestamp, usize), What>,
    /// Deeds that wait for something to happen.
    pub(super) awaited: Vec<Awaited>,
    pub(super) holds: BTreeMap<usize, Vec<Lease>>,
    pub(super) hold_times: BTreeMap<(Timestamp, usize, bool), ()>,
    /// What the caller has said or is saying: from, to, words.
    pub(super) said: Vec<(Timestamp, Timestamp, String)>,
    pub(super) speaks_until: Timestamp,
    pub(super) next_tick: Timestamp,
    pub(super) stages: BTreeMap<RunId, Stage>,
    pub(super) lines: Vec<String>,
    pub(super) facts: Vec<Fact>,
    pub(super) problems: Vec<String>,
    pub(super) heard: Vec<HeardCheck>,
    /// Every request to the model, line by line.
    pub(super) asked: Vec<Vec<String>>,
    /// The caller's sound has stopped coming.
    pub(super) muted: bool,
    /// How much of the caller's sound was committed.
    pub(super) committed: Duration,
    /// The function that the client was asked to run last.
    pub(super) function: Option<String>,
    pub(super) items: u32,
    pub(super) saying: String,
    pub(super) interrupted: Option<(String, Duration)>,
    pub(super) watch: Watch,
    /// The gates' books have changed at this instant.
    pub(super) audited: bool,
    /// The turn's budget.
    pub(super) budget: Duration,
    /// Who this call is at the gates.
    pub(super) owners: [OwnerId; 2],
    pub(super) words_per_s: f64,
    pub(super) prompts: VecDeque<Event>,
    /// The item that sounded last.
    pub(super) sounding: Option<ItemId>,
    /// What the last frame told.
    frame: Option<(Generation, Fact)>,
}

/// A deed that waits for something to happen, and how often it has.
pub(super) struct Awaited {
    pub at: usize,
    pub deed: Deed,
    came: u32,
}

impl World {
    pub(super) fn new(script: &Script, fallback: Arc<config::Script>) -> Result<World, BuildError> {
        let config = &script.config;
        let workers = Workers::new(config)?;
        let agent = config.default_agent();
        let abilities = Abilities {
            detects: true,
            judges_turns: false,
            partials: true,
            tool_names: config.tools.keys().cloned().collect(),
        };
        let mut settings = client::settings(script, client::specs(script, &workers));
        settings.turn_detection = config.turn_detection(agent, &abilities);
        client::apply(&mut settings, &script.session);
        let identity = Identity {
            call: CallId(1),
            tenant: TenantId(0),
            class: config.classes.find(agent.class.as_deref()),
            item_prefix: "item_".into(),
        };
        let profile = Arc::new(config.profile(agent, &abilities, fallback.clone()));
        let waits = Cause::StillQueued(Stage::Model);
        let wait = fallback.choose(&waits, &profile.language, 0).text;
        let words_per_s = words_per_s(script);
        let far_end = FarEnd::new(profile.budget, words_per_s, wait);
        let owners = identity.owners();
        let mut world = World {
            now: Timestamp::ZERO,
            call: Call::new(Timestamp::ZERO, identity, profile.clone(), settings),
            gates: SimGates::new(config.gates()),
            workers,
            names: config.gates().iter().map(|(s, _)| (*s, config.gate_name(*s))).collect(),
            due: BTreeMap::new(),
            awaited: Vec::new(),
            holds: BTreeMap::new(),
            hold_times: BTreeMap::new(),
            said: Vec::new(),
            speaks_until: Timestamp::ZERO,
            next_tick: Timestamp::ZERO,
            stages: BTreeMap::new(),
            lines: Vec::new(),
            facts: Vec::new(),
            problems: Vec::new(),
            heard: Vec::new(),
            asked: Vec::new(),
            muted: false,
            committed: Duration::ZERO,
            function: None,
            items: 0,
            saying: String::new(),
            interrupted: None,
            audited: false,
            budget: profile.budget,
            watch: Watch::new(profile, fallback, owners[0], far_end),
            owners,
            words_per_s,
            prompts: VecDeque::new(),
            sounding: None,
            frame: None,
        };
        world.schedule(script);
        Ok(world)
    }

    fn schedule(&mut self, script: &Script) {
        for (at, deed) in script.caller.iter().enumerate() {
            match &deed.when {
                When::At(time) => {
                    self.due.insert((Timestamp::ZERO + *time, at), deed.what.clone());
                }
                When::After { .. } => {
                    self.awaited.push(Awaited { at, deed: deed.clone(), came: 0 })
                }
            }
        }
        for (at, held) in script.gates.iter().enumerate() {
            self.hold_times.insert((Timestamp::ZERO + held.from, at, true), ());
            if let Some(until) = held.until {
                self.hold_times.insert((Timestamp::ZERO + until, at, false), ());
            }
        }
    }

    // === time ===

    pub(super) fn live(&mut self, script: &Script) {
        let end = Timestamp::ZERO + script.ends_by;
        self.step(Event::Connected);
        let mut steps = 0;
        while let Some(next) = self.next_instant().filter(|next| *next <= end) {
            steps = if next > self.now { 0 } else { steps + 1 };
            if steps > STEPS_MAX {
                self.problems.push(format!("time stands still at {} ms", self.now.as_millis()));
                return;
            }
            self.now = self.now.max(next);
            self.happen(script);
            if self.call.is_over() {
                return;
            }
        }
    }

    /// The next instant at which anything is due.
    pub(super) fn next_instant(&self) -> Option<Timestamp> {
        let deeds = self.due.keys().next().map(|(at, _)| *at);
        let holds = self.hold_times.keys().next().map(|(at, _, _)| *at);
        let tick = self.ticks().then_some(self.next_tick);
        let timer = self.call.poll_timeout(self.now).map(|(due, _)| due);
        let all = [deeds, holds, tick, timer, self.workers.next_at(), self.gates.next_deadline()];
        all.into_iter().flatten().min()
    }

    /// The caller speaks, or somebody listens for whether they go on.
    fn ticks(&self) -> bool {
        self.speaks_until > self.next_tick || (self.call.is_hearing() && !self.muted)
    }

    pub(super) fn happen(&mut self, script: &Script) {
        while let Some((&(at, hold, take), ())) = self.hold_times.first_key_value() {
            if at > self.now {
                break;
            }
            self.hold_times.pop_first();
            self.hold(script, hold, take);
        }
        self.gates.expire(self.now);
        self.deliver();
        loop {
            let came = self.workers.poll(self.now);
            if came.is_empty() {
                break;
            }
            for came in came {
                self.take(came);
            }
        }
        while let Some((&(at, _), _)) = self.due.first_key_value() {
            if at > self.now {
                break;
            }
            if let Some((_, what)) = self.due.pop_first() {
                self.act(what);
            }
        }
        if self.ticks() && self.next_tick <= self.now {
            self.tick();
        }
        let due = self.call.poll_timeout(self.now).is_some_and(|(due, _)| due <= self.now);
        if due || !self.prompts.is_empty() {
            self.step(Event::Timeout);
        }
        if std::mem::take(&mut self.audited) {
            self.watch.quarantined(self.now, &self.gates, &self.workers);
        }
    }

    fn take(&mut self, came: Came) {
        match came {
            Came::Event(event) => self.step(event),
            Came::Late(stage, offer, evidence) => {
                self.gates.evidence(self.now, stage, offer, evidence);
                self.deliver();
            }
        }
    }

    fn tick(&mut self) {
        self.next_tick = self.now + TICK;
        let speaks = self.now < self.speaks_until;
        if speaks {
            self.workers.hear_for(TICK);
        }
        let probability = if speaks { 0.95 } else { 0.05 };
        let at = Duration::from_micros(self.now.as_micros()) + TICK;
        self.step(Event::Speech { probability, span: TICK, at });
    }

    // === the caller and the others ===

    fn act(&mut self, what: What) {
        match &what {
            What::Says { words, .. } => self.line(&format!("<- caller says \"{words}\"")),
            What::Noise(span) => self.line(&format!("<- noise of {} ms", span.as_millis())),
            _ => {}
        }
        self.fact(Fact::of_caller(self.now, what.name()));
        match what {
            What::Says { words, span, mutes } => self.speak(words, span, mutes),
            What::Noise(span) => self.speak(String::new(), span, false),
            other => {
                if let Some(event) = self.of_client(other) {
                    self.step(event);
                }
            }
        }
    }

    pub(super) fn speak(&mut self, words: String, span: Duration, mutes: bool) {
        let until = self.now + span;
        self.said.push((self.now, until, words));
        if !self.ticks() {
            self.next_tick = self.now;
        }
        self.muted = mutes;
        self.speaks_until = self.speaks_until.max(until);
    }

    // === the machine ===

    pub(super) fn step(&mut self, event: Event) {
        self.handle(event);
        while let Some(event) = self.prompts.pop_front() {
            self.handle(event);
        }
        self.deliver();
        self.audit();
    }

    fn handle(&mut self, event: Event) {
        self.watch.event(self.now, &self.call, &event, &self.workers, &self.gates);
        if let Some(line) = trace::event(&event) {
            self.line(&line);
        }
        if let Some(fact) = Fact::of_event(self.now, &event) {
            self.fact(fact);
        }
        self.call.handle(self.now, &mut self.gates, event);
        while let Some(action) = self.call.poll_action() {
            self.carry_out(action);
        }
        self.watch.done(self.now, &self.call);
    }

    pub(super) fn deliver(&mut self) {
        while !self.gates.wakes.is_empty() {
            for wake in std::mem::take(&mut self.gates.wakes) {
                match wake {
                    Wake::Granted { lease, .. } => self.handle(Event::Granted(lease)),
                    Wake::Ended { owner: HOLDER, .. } => {}
                    Wake::Ended { offer, stage, terminal, .. } => {
                        self.handle(Event::WaitEnded { offer, stage, terminal });
                    }
                }
            }
        }
    }

    fn carry_out(&mut self, action: Action) {
        self.watch.action(self.now, &action, &self.call, &mut self.gates);
        if let Some(line) = trace::action(&action) {
            self.line(&line);
        }
        if let Action::Tell(ToCaller::Audio { item, .. }) = &action
            && self.sounding.as_ref() != Some(item)
        {
            self.sounding = Some(item.clone());
            self.fact(Fact::first_audio(self.now));
        }
        if let Some(fact) = self.fact_of(&action) {
            self.fact(fact);
        }
        self.watch(&action);
        let unit = started(&action).and_then(|run| self.call.lease_of(run));
        if started(&action).is_some() && unit.is_none() {
            let at = self.now.as_millis();
            self.problems.push(format!("at {at} ms: something was started without a unit"));
        }
        if let (Some(run), Some((stage, _))) = (started(&action), unit) {
            self.stages.insert(run, stage);
        }
        if let Action::Prompt { run, .. } = &action {
            return self.play_prompt(*run);
        }
        let said = &self.said;
        let now = self.now;
        self.workers.start(now, &action, unit, |from| words_since(said, now, from));
    }

    /// What an action tells; frames of one generation all tell the same.
    fn fact_of(&mut self, action: &Action) -> Option<Fact> {
        let stage_of = |run| self.stages.get(&run).copied();
        let Action::Tell(ToCaller::Audio { generation, .. }) = action else {
            return Fact::of_action(self.now, action, stage_of);
        };
        if let Some((of, fact)) = &self.frame
            && of == generation
        {
            return Some(Fact { at: self.now, ..fact.clone() });
        }
        let fact = Fact::of_action(self.now, action, stage_of);
        self.frame = fact.clone().map(|fact| (*generation, fact));
        fact
    }

    /// A prompt's sound is here at once.
    fn play_prompt(&mut self, run: RunId) {
        let samples = vec![0; duration_to_samples(PROMPT_LENGTH, RATE_HZ)];
        self.prompts.push_back(Event::Sounded { run, phrase: 0, samples });
        self.prompts.push_back(Event::PhraseSounded { run, phrase: 0, words: Vec::new() });
        let proof = Ok(Evidence::Completed);
        self.prompts.push_back(Event::Ended { run, proof, fault: None });
    }

    // === the story ===

    pub(super) fn line(&mut self, line: &str) {
        self.lines.push(format!("{}  {line}", self.now));
    }

    pub(super) fn fact(&mut self, fact: Fact) {
        let (now, due) = (self.now, &mut self.due);
        self.awaited.retain_mut(|awaited| {
            let When::After { fact: pattern, delay, nth } = &awaited.deed.when else {
                return false;
            };
            awaited.came += u32::from(fact.fits(pattern));
            let came = awaited.came >= *nth;
            if came {
                due.insert((now + *delay, awaited.at), awaited.deed.what.clone());
            }
            !came
        });
        self.facts.push(fact);
    }
}

fn started(action: &Action) -> Option<RunId> {
    match action {
        Action::Recognise { run, .. }
        | Action::Think { run, .. }
        | Action::Voice { run, .. }
        | Action::UseTool { run, .. } => Some(*run),
        Action::Tell(_)
        | Action::Fence { .. }
        | Action::Decode { .. }
        | Action::JudgeTurn { .. }
        | Action::Say { .. }
        | Action::Prompt { .. }
        | Action::Close { .. }
        | Action::Cancel { .. }
        | Action::ForgetSound => None,
    }
}

/// What the caller says in an utterance that began at this position of their sound.
fn words_since(said: &[(Timestamp, Timestamp, String)], now: Timestamp, from: Duration) -> String {
    let from = Timestamp::from_micros(from.as_micros() as u64);
    let within = said.iter().filter(|(start, until, _)| *until > from && *start <= now);
    let words: Vec<&str> = within.map(|(_, _, words)| words.as_str()).collect();
    words.join(" ").trim().to_owned()
}

fn words_per_s(script: &Script) -> f64 {
    let table = &script.config.tts.table;
    let given =
        table.get("words_per_s").and_then(|v| v.as_float().or(v.as_integer().map(|i| i as f64)));
    given.unwrap_or(WORDS_PER_S)
}
