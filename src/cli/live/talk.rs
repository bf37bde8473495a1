//! The loop of a live fixture: a frame of the caller out, deeds at their times, events in between.

use std::time::Duration;

use futures_util::StreamExt;
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_tungstenite::tungstenite::Message;

use super::super::call::connect::{Incoming, Line};
use super::super::call::wire;
use super::hearing::{Hearing, fact};
use super::inner::{Reading, is_inner};
use super::own::Own;
use super::plan::{Plan, moment};
use super::requests::{self, Known};
use super::room::Room;
use crate::audio::FRAME;
use crate::sim::caller;
use crate::sim::facts::Fact;
use crate::sim::script::{Script, Session, Source, What};
use crate::sim::sound::Bank;
use crate::time::{Timestamp, ms};

/// A call in which nothing happens for so long may be over, when all is as expected.
const QUIET: Duration = ms(3_000);
/// A call in which nothing happens for so long is over.
const QUIET_MAX: Duration = ms(12_000);
/// How much longer than its script a call may last.
const OVERTIME: Duration = ms(10_000);
/// Whether all is as expected is looked at so often.
const LOOK_EVERY: Duration = ms(1_000);

/// A live fixture under way.
pub(super) struct Talk<'a> {
    script: &'a Script,
    own: Option<&'a mut Own>,
    line: Option<Line>,
    start: Instant,
    /// When the script's time began, on the clock of what is told.
    pub(super) zero: Timestamp,
    plan: Plan,
    room: Room<'a>,
    session: Session,
    pub(super) hearing: Hearing,
    pub(super) reading: Reading,
    /// The server's own record so far.
    pub(super) record: Vec<String>,
    /// What the wire and the caller told, in order.
    pub(super) wire: Vec<Fact>,
    /// The same as lines.
    pub(super) lines: Vec<(Timestamp, String)>,
    pub(super) problems: Vec<String>,
    pub(super) notes: Vec<String>,
    /// What is done to the gates, and when.
    holds: Vec<(Timestamp, usize, bool)>,
    last_event: Timestamp,
    next_look: Timestamp,
}

/// What came next over the wire.
enum Came {
    Event(Value),
    /// The server closed the call, with its reason.
    Closed(String),
    Broke(String),
}

impl<'a> Talk<'a> {
    /// A call that begins now.
    pub(super) fn new(
        script: &'a Script,
        own: Option<&'a mut Own>,
        bank: &'a Bank,
        line: Line,
    ) -> Talk<'a> {
        let began =
            own.as_ref().and_then(|own| own.record().map(|record| own.since_began(&record)));
        let zero = moment(began.unwrap_or_default());
        let mut holds = Vec::new();
        for (at, held) in script.gates.iter().enumerate().filter(|_| own.is_some()) {
            holds.push((zero + held.from, at, true));
            holds.extend(held.until.map(|until| (zero + until, at, false)));
        }
        holds.sort_unstable_by_key(|(at, _, take)| (*at, *take));
        // The script decides what is understood, not the sound.
        let hears_script = own.as_ref().is_some_and(|own| own.hears_script);
        let mut problems = Vec::new();
        Talk {
            plan: Plan::new(script, zero),
            room: Room::new(script, bank, hears_script, &mut problems),
            script,
            own,
            line: Some(line),
            start: Instant::now(),
            zero,
            session: script.session.clone(),
            hearing: Hearing::default(),
            reading: Reading::default(),
            record: Vec::new(),
            wire: Vec::new(),
            lines: Vec::new(),
            problems,
            notes: Vec::new(),
            holds,
            last_event: zero,
            next_look: zero,
        }
    }

    fn now(&self) -> Timestamp {
        self.zero + self.start.elapsed()
    }

    /// Plays the script to its end, or to the end of the call. `is_good` says whether all is as
    /// expected so far.
    pub(super) async fn run(&mut self, is_good: impl Fn(&Talk<'_>) -> bool) {
        if let Some(update) = requests::configure(&self.session) {
            self.send(update);
        }
        let end = self.zero + self.script.ends_by + OVERTIME;
        let mut ticks = tokio::time::interval(FRAME);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        while let Some(line) = &mut self.line {
            tokio::select! {
                came = next(&mut line.incoming) => match came {
                    Came::Event(event) => self.hear(&event),
                    Came::Closed(reason) => self.closed(&reason),
                    Came::Broke(why) => {
                        self.problems.push(why);
                        self.line = None;
                    }
                },
                _ = ticks.tick() => {
                    self.tick().await;
                    if self.now() > end || self.is_over(&is_good) {
                        self.leave().await;
                    }
                }
            }
        }
    }

    fn is_over(&mut self, is_good: impl Fn(&Talk<'_>) -> bool) -> bool {
        let now = self.now();
        let quiet = now.since(self.last_event);
        let still = self.room.is_quiet() && self.holds.is_empty();
        if !still || self.plan.next_at().is_some() || quiet < QUIET {
            return false;
        }
        if now < self.next_look {
            return false;
        }
        self.next_look = now + LOOK_EVERY;
        // An answer that stands still ends at some time.
        let nothing_runs = self.hearing.open.is_empty();
        (quiet >= QUIET_MAX && nothing_runs) || (self.plan.is_done() && is_good(self))
    }

    // === the caller ===

    async fn tick(&mut self) {
        let now = self.now();
        self.read_record();
        while let Some((_, at, take)) = self.holds.first().copied().filter(|hold| hold.0 <= now) {
            self.holds.remove(0);
            self.hold(at, take);
        }
        while let Some((deed, what)) = self.plan.next(now) {
            self.act(now, deed, what).await;
        }
        for frame in self.room.pass(Timestamp::ZERO + now.since(self.zero)) {
            self.send(wire::append(&frame));
        }
    }

    fn hold(&mut self, at: usize, take: bool) {
        let Some(own) = &mut self.own else { return };
        if let Err(problem) = own.hold(at, &self.script.gates[at], take) {
            self.problems.push(problem);
        }
    }

    async fn act(&mut self, now: Timestamp, deed: usize, what: What) {
        self.last_event = now;
        if let Some(line) = caller::told(&what) {
            self.lines.push((now, format!("<- {line}")));
        }
        self.take(Fact::of_caller(now, what.name()));
        match &what {
            What::Says { .. } | What::Noise { .. } | What::Plays { .. } => self.sound(deed, &what),
            What::HangsUp => self.leave().await,
            What::Presses(key) => {
                self.notes.push(format!("not sent: key {key}; this transport has no keys"));
            }
            What::Drains => match &self.own {
                Some(own) => own.drain(),
                None => self.notes.push("not applied: drains".to_owned()),
            },
            request => {
                if let What::Configures(session) = request {
                    self.session = requests::changed(&self.session, session);
                }
                let known = Known {
                    sounding: self.hearing.sounding.as_deref(),
                    function: self.hearing.function.as_deref(),
                    session: &self.session,
                };
                if let Some(event) = requests::of_deed(request, &known) {
                    self.send(event);
                }
            }
        }
    }

    fn sound(&mut self, deed: usize, what: &What) {
        let length = match self.room.sound(deed, what) {
            Ok(length) => length,
            Err(problem) => return self.problems.push(problem),
        };
        let words = match what {
            What::Says { words, .. } | What::Plays { source: Source::Wav { words, .. }, .. } => {
                words
            }
            _ => return,
        };
        if let Some(own) = &self.own {
            own.said.says(words, length);
        }
    }

    fn send(&mut self, event: String) {
        let Some(line) = &self.line else { return };
        if line.outgoing.try_send(event).is_err() {
            self.problems.push("the server has stopped reading".to_owned());
            self.line = None;
        }
    }

    /// Hangs up properly.
    async fn leave(&mut self) {
        if let Some(line) = self.line.take() {
            line.hang_up().await;
            let gone = vec![("", "caller_gone".to_owned())];
            self.take(fact(self.now(), "hang_up", gone));
        }
    }

    // === the server ===

    fn hear(&mut self, event: &Value) {
        let now = self.now();
        self.last_event = now;
        self.listen(event);
        let told = self.hearing.hear(now, event);
        self.lines.extend(told.line.map(|line| (now, line)));
        for fact in told.facts {
            self.take(fact);
        }
    }

    /// What the caller's loudspeaker does.
    fn listen(&mut self, event: &Value) {
        match event["type"].as_str().unwrap_or_default() {
            "response.output_audio.delta" if self.script.scene.echo.is_some() => {
                // What is no sound is told by `hearing`.
                if let Ok(samples) = wire::pcm(event["delta"].as_str().unwrap_or_default()) {
                    self.room.play(samples);
                }
            }
            "input_audio_buffer.speech_started" => self.room.clear(),
            "floorkeeper.playout" if event["state"] == "cleared" => self.room.clear(),
            _ => {}
        }
    }

    fn closed(&mut self, reason: &str) {
        self.line = None;
        let now = self.now();
        if !reason.is_empty() {
            self.lines.push((now, format!("-> hang up: {reason}")));
            self.take(fact(now, "hang_up", vec![("", reason.to_owned())]));
        }
    }

    /// Something told by the wire or done by the caller.
    fn take(&mut self, fact: Fact) {
        self.wire.push(fact.clone());
        // What our own server keeps of itself comes from its record.
        if self.own.is_none() || !is_inner(&fact.name) {
            self.plan.fact(fact);
        }
    }

    /// What our own server has written down since the last look.
    pub(super) fn read_record(&mut self) {
        let Some(own) = &self.own else { return };
        for line in own.lines(self.record.len()) {
            if let Some(fact) = self.reading.line(&line)
                && is_inner(&fact.name)
            {
                self.last_event = self.last_event.max(fact.at);
                self.plan.fact(fact);
            }
            self.record.push(line);
        }
    }

    /// Waits until our own server owes nothing any more; says what is left.
    pub(super) async fn settle(&mut self) -> Vec<String> {
        let left = match &mut self.own {
            Some(own) => own.settle().await,
            None => Vec::new(),
        };
        self.read_record();
        left
    }

    /// Deeds that were never done.
    pub(super) fn undone(&self) -> Vec<(usize, String, u32)> {
        self.plan.undone()
    }
}

async fn next(incoming: &mut Incoming) -> Came {
    loop {
        return match incoming.next().await {
            None => Came::Broke("the connection ended without a close".to_owned()),
            Some(Err(error)) => Came::Broke(format!("the connection broke: {error}")),
            Some(Ok(Message::Text(text))) => match serde_json::from_str(&text) {
                Ok(event) => Came::Event(event),
                Err(error) => Came::Broke(format!("the server sent no JSON: {error}")),
            },
            Some(Ok(Message::Close(close))) => {
                Came::Closed(close.map(|close| close.reason.to_string()).unwrap_or_default())
            }
            Some(Ok(Message::Binary(_))) => Came::Broke("the server sent bytes".to_owned()),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => continue,
        };
    }
}
