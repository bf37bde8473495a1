//! One simulated call: jumps from one due instant to the next until nothing is left to happen.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::expect::HeardCheck;
use super::facts::Fact;
use super::far_end::FarEnd;
use super::gates::SimGates;
use super::heard::{self, Said, Sent};
use super::script::{Deed, Expect, Script, What, When};
use super::sound::ends::Ends;
use super::tracks::{Staging, Tracks};
use super::watch::Watch;
use super::workers::{Came, Workers};
use super::{caller, client, names};
use crate::admission::{Lease, OwnerId, Wake};
use crate::audio::duration_to_samples;
use crate::call::{Action, Call, Event, Identity, trace};
use crate::config::{self, Abilities};
use crate::evidence::Evidence;
use crate::id::{CallId, Generation, ItemId, RunId, Stage, TenantId};
use crate::leg::ToCaller;
use crate::provider::BuildError;
use crate::time::{Timestamp, ms};
use crate::turn::bargein::BargeIn;

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
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The story, line by line.
    pub trace: String,
    /// What happened, as named facts.
    pub facts: Vec<Fact>,
    /// What is not as it must be; empty when the fixture passed.
    pub problems: Vec<String>,
    /// What sounded, where it was to be recorded.
    pub tracks: Option<Tracks>,
    /// What the caller said, in virtual time.
    pub said: Vec<Said>,
    /// What the far end received, in virtual time.
    pub sent: Vec<(Timestamp, Sent)>,
    /// The barge-in policy that the call had.
    pub barge_in: BargeIn,
    /// What interrupted answers left in the next request.
    pub heard: Vec<HeardCheck>,
    /// Every request to the model, line by line.
    pub asked: Vec<Vec<String>>,
}

/// Runs a fixture.
pub fn run(script: &Script, fallback: Arc<config::Script>) -> Result<Outcome, BuildError> {
    stage(script, fallback, Staging::default())
}

/// Runs a fixture as it is staged.
pub fn stage(
    script: &Script,
    fallback: Arc<config::Script>,
    staging: Staging<'_>,
) -> Result<Outcome, BuildError> {
    let mut world = World::new(script, fallback, staging)?;
    world.live(script);
    Ok(world.finish(script))
}

pub(super) struct World {
    pub(super) now: Timestamp,
    /// When the script ends, whatever is left of it.
    end: Timestamp,
    pub(super) call: Call,
    /// When the call's next timer is due, unless something happens before.
    timer: Option<Timestamp>,
    pub(super) gates: SimGates,
    pub(super) workers: Workers,
    pub(super) names: BTreeMap<Stage, String>,
    /// Deeds whose time is known.
    pub(super) due: BTreeMap<(Timestamp, usize), What>,
    /// Deeds that wait for something to happen.
    pub(super) awaited: Vec<Awaited>,
    pub(super) holds: BTreeMap<usize, Vec<Lease>>,
    pub(super) hold_times: BTreeSet<(Timestamp, usize, bool)>,
    /// What the caller has said or is saying.
    pub(super) said: Vec<Said>,
    /// Until when a scripted detector hears speech.
    pub(super) speaks_until: Timestamp,
    pub(super) next_tick: Timestamp,
    /// The sound of both sides.
    pub(super) ends: Ends,
    pub(super) stages: BTreeMap<RunId, Stage>,
    pub(super) lines: Vec<String>,
    pub(super) facts: Vec<Fact>,
    pub(super) sent: Vec<(Timestamp, Sent)>,
    pub(super) problems: Vec<String>,
    pub(super) heard: Vec<HeardCheck>,
    /// Every request to the model, line by line, where anybody wants to know.
    pub(super) asked: Option<Vec<Vec<String>>>,
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
    pub(super) barge_in: BargeIn,
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
    pub(super) fn new(
        script: &Script,
        fallback: Arc<config::Script>,
        staging: Staging<'_>,
    ) -> Result<World, BuildError> {
        let mut problems = Vec::new();
        let ends = Ends::new(script, staging, &mut problems)?;
        let config = &script.config;
        let workers = Workers::new(config, &script.behind)?;
        let agent = config.default_agent();
        let abilities = Abilities {
            detects: true,
            judges_turns: false,
            partials: true,
            tool_names: config.tools.keys().cloned().collect(),
        };
        let mut settings = client::settings(script, client::specs(script, &workers));
        settings.turn_detection = config.turn_detection(&abilities);
        client::apply(&mut settings, &script.session);
        let identity = identity(script);
        let profile = Arc::new(config.profile(agent, &abilities, fallback.clone()));
        let words_per_s = heard::words_per_s(script);
        let far_end = FarEnd::new(profile.budget, words_per_s);
        let owners = identity.owners();
        let barge_in = profile.barge_in.clone();
        let listens = ends.are_heard();
        let knows_number = script.session.number.is_some();
        let mut world = World {
            now: Timestamp::ZERO,
            end: Timestamp::ZERO + script.ends_by,
            call: Call::new(Timestamp::ZERO, identity, profile.clone(), settings),
            timer: None,
            gates: SimGates::new(config.gates()),
            workers,
            names: config.gates().iter().map(|(s, _)| (*s, config.gate_name(*s))).collect(),
            due: BTreeMap::new(),
            awaited: Vec::new(),
            holds: BTreeMap::new(),
            hold_times: BTreeSet::new(),
            said: Vec::new(),
            speaks_until: Timestamp::ZERO,
            next_tick: Timestamp::ZERO,
            ends,
            stages: BTreeMap::new(),
            lines: Vec::new(),
            facts: Vec::new(),
            sent: Vec::new(),
            problems,
            heard: Vec::new(),
            asked: script.expect.iter().any(Expect::looks_at_requests).then(Vec::new),
            muted: false,
            committed: Duration::ZERO,
            function: None,
            items: 0,
            saying: String::new(),
            interrupted: None,
            audited: false,
            budget: profile.budget,
            watch: Watch::new(profile, fallback, owners[0], far_end, listens, knows_number),
            owners,
            words_per_s,
            barge_in,
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
            self.hold_times.insert((Timestamp::ZERO + held.from, at, true));
            if let Some(until) = held.until {
                self.hold_times.insert((Timestamp::ZERO + until, at, false));
            }
        }
    }

    // === time ===

    pub(super) fn live(&mut self, script: &Script) {
        self.step(Event::Connected);
        let mut steps = 0;
        while let Some(next) = self.next_instant().filter(|next| *next <= self.end) {
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
        let due = self.next_due();
        let will_be = due.filter(|due| *due <= self.end);
        due.into_iter().chain(self.next_heard(will_be)).min()
    }

    /// The same, but for the caller's sound.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let deeds = self.due.keys().next().map(|(at, _)| *at);
        let holds = self.hold_times.first().map(|(at, _, _)| *at);
        let rings = self.ends.rings_until(self.now);
        let others = [self.workers.next_at(), self.gates.next_deadline()];
        [deeds, holds, self.timer, rings].into_iter().chain(others).flatten().min()
    }

    pub(super) fn happen(&mut self, script: &Script) {
        while let Some(&(at, hold, take)) = self.hold_times.first() {
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
        while let Some((&(at, deed), _)) = self.due.first_key_value() {
            if at > self.now {
                break;
            }
            if let Some((_, what)) = self.due.pop_first() {
                self.act(deed, what);
            }
        }
        self.listen();
        if self.timer.is_some_and(|due| due <= self.now) {
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

    // === the machine ===

    pub(super) fn step(&mut self, event: Event) {
        self.handle(event);
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
        self.timer = self.call.poll_timeout(self.now).map(|(due, _)| due);
        self.watch.done(self.now, &self.call);
    }

    pub(super) fn deliver(&mut self) {
        // A prompt's sound is there at once.
        while let Some(event) = self.prompts.pop_front() {
            self.handle(event);
        }
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
            while let Some(event) = self.prompts.pop_front() {
                self.handle(event);
            }
        }
    }

    fn carry_out(&mut self, action: Action) {
        self.watch.action(self.now, &action, &self.call, &mut self.gates);
        self.sent.extend(Sent::of(&action).map(|sent| (self.now, sent)));
        if let Some(line) = trace::action(&action) {
            self.line(&line);
        }
        match &action {
            Action::Tell(ToCaller::Audio { item, pcm, .. }) => {
                self.ends.play(self.now, pcm);
                if self.sounding.as_ref() != Some(item) {
                    self.sounding = Some(item.clone());
                    self.fact(Fact::first_audio(self.now));
                }
            }
            Action::Tell(ToCaller::ClearFarEnd { .. } | ToCaller::HangUp { .. }) => {
                self.ends.clear(self.now);
            }
            _ => {}
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
        let (now, ends, said) = (self.now, &self.ends, &self.said);
        let utterance = |from| caller::since(said, now, ends.moment(from));
        self.workers.start(now, &action, unit, utterance);
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
        let length = duration_to_samples(PROMPT_LENGTH, RATE_HZ);
        let samples = self.ends.prompt(RATE_HZ, length);
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
        debug_assert!(names::known(&fact.to_string()).is_ok(), "{fact} has no name");
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
        | Action::UseTool { run, .. }
        | Action::Arrange { run, .. } => Some(*run),
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

/// Who calls.
fn identity(script: &Script) -> Identity {
    let agent = script.config.default_agent();
    Identity {
        call: CallId(1),
        tenant: TenantId(0),
        class: script.config.classes.find(agent.class.as_deref()),
        item_prefix: "item_".into(),
        number: script.session.number.clone(),
        greeting: agent.greeting(|_| None).filter(|_| script.session.greets == Some(true)),
    }
}
