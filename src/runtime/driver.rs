//! The task of one call: waits for one thing, feeds it to the machine, carries out the rest.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Sleep;

use super::bridge::{Bridging, Parted, Relay};
use super::effects::{Feed, Started};
use super::gates::{OwnerGates, WAITS_MAX};
use super::promises::Promisee;
use super::record::{Record, Standing};
use super::runs::Ahead;
use super::service::Service;
use super::sound::{Keep, Sound, position};
use crate::admission::Wake;
use crate::audio::{CALLER_RATE_HZ, samples_to_duration};
use crate::call::{Action, Call, Event, Identity, Profile, trace};
use crate::id::RunId;
use crate::leg::{FromCaller, HangUp, Settings, ToCaller, TurnDetection};
use crate::provider::ear::gain::Gain;
use crate::provider::ear::windows::Windows;
use crate::time::{Timestamp, ms};
use crate::transport::Leg;
use crate::transport::resume::NOT_RESUMED;

/// Signals of providers that may wait for the call's task.
const EVENTS_MAX: usize = 64;
/// Reads of sound are metered: this many times real time …
const METER_RATE: u32 = 8;
/// … behind one burst of this length.
const METER_BURST: Duration = Duration::from_secs(30);
/// How long a peer has to take our last words, and to answer them.
const PARTING_MAX: Duration = Duration::from_secs(2);

/// Drives one call from its first event to the last unit it owes.
pub(super) struct Driver {
    pub(super) service: Arc<Service>,
    pub(super) call: Call,
    pub(super) profile: Arc<Profile>,
    admit: OwnerGates,
    pub(super) leg: Box<dyn Leg>,
    control: mpsc::Receiver<Wake>,
    events: mpsc::Receiver<Event>,
    pub(super) events_out: mpsc::Sender<Event>,
    /// Events that carrying out an action made at once.
    pub(super) at_once: VecDeque<Event>,
    pub(super) runs: BTreeMap<RunId, Started>,
    pub(super) sound: Sound,
    /// How far the answers' sound is ahead of its sending.
    pub(super) ahead: Arc<Ahead>,
    windows: Option<Windows>,
    meter: Meter,
    pub(super) record: Arc<Record>,
    pub(super) leg_is_up: bool,
    /// Somebody is being rung for the caller.
    pub(super) bridging: Option<Bridging>,
    /// Whoever was rung speaks with the caller.
    pub(super) relay: Option<Relay>,
    /// For whom something is promised.
    pub(super) promisee: Promisee,
}

/// One thing that woke the task.
enum Woken {
    Control(Wake),
    Event(Event),
    Caller(FromCaller),
    Parted(Parted),
    Timer,
    Drain,
}

impl Driver {
    pub fn new(
        service: Arc<Service>,
        identity: Identity,
        profile: Arc<Profile>,
        settings: Settings,
        leg: Box<dyn Leg>,
        record: Arc<Record>,
    ) -> Driver {
        let (control_out, control) = mpsc::channel(WAITS_MAX);
        let (events_out, events) = mpsc::channel(EVENTS_MAX);
        let promisee = Promisee {
            call: identity.call.to_string(),
            turn: 0,
            tenant: service.tenants.name(identity.tenant).unwrap_or_default().to_owned(),
            agent: profile.agent.clone(),
        };
        let now = service.clock.now();
        let gain_max_db = service.config.gain_max_db as f32;
        let listening = service.backends().and_then(|b| b.detector.as_ref().map(|d| d.listen()));
        Driver {
            call: Call::new(now, identity, profile.clone(), settings),
            profile,
            admit: service.gates.for_owner(control_out),
            leg,
            control,
            events,
            events_out,
            at_once: VecDeque::new(),
            runs: BTreeMap::new(),
            sound: Sound::default(),
            ahead: Arc::default(),
            windows: listening.map(|ear| Windows::new(ear, Gain::new(gain_max_db))),
            meter: Meter::full(now),
            record,
            leg_is_up: true,
            bridging: None,
            relay: None,
            promisee,
            service,
        }
    }

    /// Runs the call to its end and gives why it ended.
    pub async fn run(&mut self) -> HangUp {
        let mut ending = self.service.ending();
        let drained = async {
            // Who would say so stays for as long as there are calls.
            if ending.wait_for(|ending| *ending).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        self.step(Event::Connected);
        let sleep = tokio::time::sleep(Duration::ZERO);
        tokio::pin!(sleep, drained);
        let mut told_to_end = false;
        while !self.is_over() {
            let mut now = self.service.clock.now();
            let mut timeout = self.call.poll_timeout(now);
            if timeout.is_some_and(|(due, _)| due <= now) {
                // What is due goes before what comes: a caller's frames never starve the agent's
                // own.
                self.step(Event::Timeout);
                // Nothing would wake a call that has ended by it, as where its leg was lost.
                if self.is_over() {
                    break;
                }
                now = self.service.clock.now();
                timeout = self.call.poll_timeout(now);
            }
            let due = timeout.map_or(now + ms(60_000), |(due, _)| due);
            let due = self.meter.opens_at(now).map_or(due, |opens| due.min(opens));
            let due = self.service.clock.instant(due);
            if sleep.deadline() != due {
                sleep.as_mut().reset(due);
            }
            let speaks = self.call.has_ended().is_none() || self.relay.is_some();
            let lives = speaks && !told_to_end;
            let woken = std::future::poll_fn(|cx| self.poll_one(cx, now, sleep.as_mut()));
            let woken = tokio::select! {
                biased;
                () = &mut drained, if lives => Woken::Drain,
                woken = woken => woken,
            };
            match woken {
                Woken::Control(wake) => self.step(event_of(wake)),
                Woken::Event(event) => self.step(event),
                Woken::Caller(said) => self.hear(said),
                Woken::Parted(how) => self.part_them(how),
                Woken::Timer => self.step(Event::Timeout),
                Woken::Drain => {
                    told_to_end = true;
                    self.part_them(Parted::Drained);
                    self.step(Event::Drain);
                }
            }
        }
        self.goodbye().await;
        self.call.has_ended().unwrap_or(HangUp::Broken)
    }

    /// Nothing is left to do for anybody.
    fn is_over(&self) -> bool {
        self.call.is_over() && self.relay.is_none()
    }

    /// Control first, then providers, timers, the caller; what is written is pushed out on the way.
    fn poll_one(
        &mut self,
        cx: &mut Context<'_>,
        now: Timestamp,
        sleep: Pin<&mut Sleep>,
    ) -> Poll<Woken> {
        if let Poll::Ready(Some(wake)) = self.control.poll_recv(cx) {
            return Poll::Ready(Woken::Control(wake));
        }
        if let Poll::Ready(Some(event)) = self.events.poll_recv(cx) {
            return Poll::Ready(Woken::Event(event));
        }
        // Before the caller: one who always has a frame ready must not hold up the agent's sound.
        if sleep.poll(cx).is_ready() {
            return Poll::Ready(Woken::Timer);
        }
        if let Some(relay) = &mut self.relay
            && let Poll::Ready(how) = relay.poll(cx, &mut *self.leg)
        {
            return Poll::Ready(Woken::Parted(how));
        }
        if self.leg_is_up {
            if let Poll::Ready(Err(_)) = self.leg.poll_flush(cx) {
                return Poll::Ready(Woken::Caller(FromCaller::Gone { how: "reset" }));
            }
            if self.meter.opens_at(now).is_none()
                && let Poll::Ready(said) = self.leg.poll_recv(cx)
            {
                return Poll::Ready(Woken::Caller(said));
            }
        }
        Poll::Pending
    }

    fn hear(&mut self, said: FromCaller) {
        match &said {
            FromCaller::Lost { .. } => self.service.metrics.resumption("lost"),
            FromCaller::Back => self.service.metrics.resumption("resumed"),
            FromCaller::Gone { how } if *how == NOT_RESUMED => {
                self.service.metrics.resumption("expired");
            }
            _ => {}
        }
        match said {
            said if self.relay.is_some() => self.hear_for_human(said),
            FromCaller::Audio(samples) => self.hear_sound(&samples),
            FromCaller::CommitAudio { tag } => {
                let (buffered, at) = (self.sound.length(), position(self.sound.end()));
                self.step(Event::Commit { buffered, at, tag });
            }
            gone @ FromCaller::Gone { .. } => {
                self.leg_is_up = false;
                self.step(Event::Caller(gone));
            }
            other => self.step(Event::Caller(other)),
        }
    }

    /// The caller's sound is metered, whoever hears it.
    pub(super) fn spend(&mut self, samples: usize) {
        self.meter.spend(self.service.clock.now(), samples);
    }

    fn hear_sound(&mut self, samples: &[i16]) {
        self.spend(samples.len());
        let manual = matches!(self.call.settings().turn_detection, TurnDetection::Manual);
        let keep = self.keep(manual);
        self.sound.push(samples, keep);
        self.feed_recognisers();
        if manual {
            return;
        }
        let Some(mut windows) = self.windows.take() else { return };
        let heard = self.sound.end() - windows.pending_after(samples.len()) as u64;
        let mut speech = Vec::new();
        let agent_sounds = self.call.agent_sounds();
        windows.push(samples, agent_sounds, |window| speech.push(window));
        self.windows = Some(windows);
        let total: Duration = speech.iter().map(|window| window.span).sum();
        let mut at = position(heard).saturating_sub(total);
        for window in speech {
            at += window.span;
            self.step(Event::Speech { window, at });
        }
    }

    /// Who may still need the sound that comes now.
    fn keep(&self, manual: bool) -> Keep {
        if manual {
            return Keep::Manual;
        }
        let fed = |run: &Started| matches!(run.feed, Feed::Recogniser { .. });
        match (self.call.is_hearing(), self.runs.values().any(fed)) {
            (false, _) => Keep::Start,
            (true, false) => Keep::Utterance,
            (true, true) if self.profile.judges_turns => Keep::Judged,
            (true, true) => Keep::Start,
        }
    }

    /// One event into the machine, and all that follows from it out of it.
    pub(super) fn step(&mut self, event: Event) {
        self.at_once.push_back(event);
        while let Some(event) = self.at_once.pop_front() {
            let now = self.service.clock.now();
            let line = trace::event(&event);
            let quiet = line.is_none();
            if let Some(line) = line {
                self.record.note(now, &line);
            }
            if let Event::Ended { run, .. } = &event {
                self.runs.remove(run);
            }
            self.call.handle(now, &mut self.admit, event);
            let mut acted = false;
            while let Some(action) = self.call.poll_action() {
                acted = true;
                self.carry_out(now, action);
            }
            for measure in self.call.take_measures() {
                self.service.metrics.measured(measure);
            }
            self.announce();
            if acted || !quiet {
                self.stand();
            }
        }
    }

    fn carry_out(&mut self, now: Timestamp, action: Action) {
        if let Some(line) = trace::action(&action) {
            self.record.note(now, &line);
        }
        match action {
            Action::Tell(what) => self.tell(what),
            effect => self.start(effect),
        }
    }

    pub(super) fn tell(&mut self, what: ToCaller) {
        if let ToCaller::Audio { pcm, .. } = &what {
            self.ahead.sent(pcm.duration());
        }
        self.service.metrics.told(&what);
        if let ToCaller::HangUp { why: HangUp::HandedOver } = what
            && let Some(bridging) = self.bridging.take()
        {
            return self.join(bridging);
        }
        if self.leg_is_up && self.leg.send(what).is_err() {
            self.leg_is_up = false;
            self.at_once.push_back(Event::Caller(FromCaller::Gone { how: "reset" }));
        }
    }

    pub(super) fn stand(&self) {
        let (floor, ear) = match self.relay {
            Some(_) => ("bridged", "quiet"),
            None => self.call.state_names(),
        };
        self.record.stand(Standing {
            floor,
            ear,
            generation: self.call.generation().0,
            turn: self.call.turn().0,
            late_outputs: self.call.late_outputs(),
        });
    }

    pub(super) fn feed_recognisers(&mut self) {
        let end = self.sound.end();
        for started in self.runs.values_mut() {
            if let Feed::Recogniser { input, fed } = &mut started.feed
                && *fed < end
            {
                // A recogniser that is behind gets this sound with the next.
                if let Ok(slot) = input.try_reserve() {
                    slot.send(crate::provider::asr::AsrInput::Audio(self.sound.since(*fed)));
                    *fed = end;
                }
            }
        }
    }

    /// Ends a call whose machine broke: truthfully, as far as its leg still works.
    pub async fn break_off(&mut self) {
        if self.leg_is_up && self.leg.send(ToCaller::HangUp { why: HangUp::Broken }).is_ok() {
            self.goodbye().await;
        }
    }

    /// Lets go of everything but what gates may still be sending, and the leg, which has yet to
    /// part from its peer.
    pub fn leave(self) -> (mpsc::Receiver<Wake>, Box<dyn Leg>) {
        for started in self.runs.values() {
            started.cancel.cancel();
        }
        (self.control, self.leg)
    }

    /// The last words out, for a bounded time.
    async fn goodbye(&mut self) {
        if !self.leg_is_up {
            return;
        }
        let flushed = std::future::poll_fn(|cx| self.leg.poll_flush(cx));
        // A peer that does not read its own goodbye is left.
        let _ = tokio::time::timeout(PARTING_MAX, flushed).await;
    }
}

/// Parts from the peer, for a bounded time.
pub(super) async fn part(mut leg: Box<dyn Leg>) {
    let parted = std::future::poll_fn(|cx| leg.poll_part(cx));
    let _ = tokio::time::timeout(PARTING_MAX, parted).await;
}

fn event_of(wake: Wake) -> Event {
    match wake {
        Wake::Granted { lease, .. } => Event::Granted(lease),
        Wake::Ended { offer, stage, terminal, .. } => Event::WaitEnded { offer, stage, terminal },
    }
}

/// Meters the caller's sound: a sender may be ahead by one burst and then by eight times real time.
struct Meter {
    credit: Duration,
    at: Timestamp,
}

impl Meter {
    fn full(now: Timestamp) -> Meter {
        Meter { credit: METER_BURST, at: now }
    }

    fn spend(&mut self, now: Timestamp, samples: usize) {
        self.credit = (self.credit + now.since(self.at) * METER_RATE).min(METER_BURST);
        self.at = now;
        self.credit = self.credit.saturating_sub(samples_to_duration(samples, CALLER_RATE_HZ));
    }

    /// When reading may go on; `None` while it may.
    fn opens_at(&self, now: Timestamp) -> Option<Timestamp> {
        let credit = self.credit + now.since(self.at) * METER_RATE;
        let wanted = ms(200);
        (credit < wanted).then(|| now + (wanted - credit) / METER_RATE)
    }
}
