//! One call of the load: it asks, listens, counts, asks again, and hangs up when its time is over.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};

use super::lateness::Stream;
use crate::audio::{FRAME, samples_to_duration};
use crate::cli::call::connect::{Line, Target, next_event};
use crate::cli::call::wire::{self, ServerEvent, WIRE_RATE_HZ};

/// Between an answer's end and the next question.
const BREATH: Duration = Duration::from_secs(1);
/// An answer that has not begun after this long is counted as none.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// What every caller of a run does.
pub(super) struct Script {
    pub(super) target: Target,
    pub(super) stay: Duration,
    pub(super) question: Question,
}

/// How a caller asks.
pub(super) enum Question {
    /// In writing; the answer is spoken.
    Written(String),
    /// With a recording, one ready message a frame.
    Spoken {
        /// The frames, ready to be sent.
        messages: Vec<String>,
        /// The last frame with sound in it.
        last_speech: usize,
    },
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It stayed as long as it wanted.
    Stayed,
    /// It was never taken.
    NotTaken(String),
    /// It broke.
    Broke(String),
}

/// What one call saw.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The call was placed this long after it was due.
    pub(super) started_late: Duration,
    /// From when the call was due to a session that is ready.
    pub(super) set_up: Option<Duration>,
    pub(super) end: End,
    pub(super) first_audio: Vec<Duration>,
    pub(super) lateness: Vec<Duration>,
    /// Answers that ended, by status and code.
    pub(super) answers: Vec<String>,
    pub(super) unanswered: u64,
    /// Refusals told by gates.
    pub(super) refusals: Vec<String>,
}

/// Places the call at `due` and holds it.
pub(super) async fn place(script: Arc<Script>, start: Instant, due: Duration) -> Outcome {
    tokio::time::sleep_until(start + due).await;
    let started_late = start.elapsed().saturating_sub(due);
    let mut outcome = Outcome {
        started_late,
        set_up: None,
        end: End::Stayed,
        first_audio: Vec::new(),
        lateness: Vec::new(),
        answers: Vec::new(),
        unanswered: 0,
        refusals: Vec::new(),
    };
    let mut complaints = Vec::new();
    let line = match script.target.dial(|what| complaints.push(what.to_owned())).await {
        Ok(line) => line,
        Err(reason) => {
            outcome.end = End::NotTaken(reason);
            return outcome;
        }
    };
    outcome.set_up = Some(start.elapsed().saturating_sub(due));
    outcome.answers.append(&mut complaints);
    let mut caller = Caller {
        script: &script,
        line,
        outcome,
        asking: None,
        asked_at: None,
        ask_next_at: Duration::ZERO,
        stream: Stream::default(),
        silence: wire::append(&[0; wire::WIRE_FRAME_SAMPLES]),
    };
    if let Err(reason) = caller.stay().await {
        caller.outcome.end = End::Broke(reason);
    }
    let Caller { line, outcome, .. } = caller;
    line.hang_up().await;
    outcome
}

struct Caller<'a> {
    script: &'a Script,
    line: Line,
    outcome: Outcome,
    /// The next frame of a recording that is being played.
    asking: Option<usize>,
    /// The question is out and no sound of an answer has come.
    asked_at: Option<Duration>,
    ask_next_at: Duration,
    stream: Stream,
    silence: String,
}

impl Caller<'_> {
    async fn stay(&mut self) -> Result<(), String> {
        let start = Instant::now();
        let mut ticks = tokio::time::interval(FRAME);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        loop {
            tokio::select! {
                event = next_event(&mut self.line.incoming) => {
                    self.on_event(start.elapsed(), event?);
                }
                _ = ticks.tick() => {
                    let now = start.elapsed();
                    if now >= self.script.stay {
                        self.close_stream();
                        return Ok(());
                    }
                    self.on_tick(now)?;
                }
            }
        }
    }

    fn on_tick(&mut self, now: Duration) -> Result<(), String> {
        if self.asked_at.is_some_and(|at| now > at + ANSWER_LIMIT) {
            self.outcome.unanswered += 1;
            self.asked_at = None;
            self.ask_next_at = now + BREATH;
        }
        if self.asking.is_none() && self.asked_at.is_none() && now >= self.ask_next_at {
            self.ask(now)?;
        }
        let message = self.next_frame(now);
        self.say(message)
    }

    fn ask(&mut self, now: Duration) -> Result<(), String> {
        // Not again before the answer to this one has ended.
        self.ask_next_at = Duration::MAX;
        match &self.script.question {
            Question::Written(line) => {
                for message in wire::say(line) {
                    self.say(message)?;
                }
                self.asked_at = Some(now);
            }
            Question::Spoken { .. } => self.asking = Some(0),
        }
        Ok(())
    }

    fn next_frame(&mut self, now: Duration) -> String {
        let (Some(index), Question::Spoken { messages, last_speech }) =
            (self.asking, &self.script.question)
        else {
            return self.silence.clone();
        };
        if index == *last_speech {
            self.asked_at = Some(now);
        }
        self.asking = (index + 1 < messages.len()).then_some(index + 1);
        messages[index].clone()
    }

    fn on_event(&mut self, now: Duration, event: ServerEvent) {
        match event {
            ServerEvent::Audio { samples, .. } => {
                if let Some(asked_at) = self.asked_at.take() {
                    self.outcome.first_audio.push(now.saturating_sub(asked_at));
                }
                self.stream.arrived(now, samples_to_duration(samples.len(), WIRE_RATE_HZ));
            }
            ServerEvent::ResponseDone { status, code, .. } => {
                self.close_stream();
                self.asked_at = None;
                self.ask_next_at = now + BREATH;
                self.outcome.answers.push(match code {
                    Some(code) => format!("{status} ({code})"),
                    None => status,
                });
            }
            ServerEvent::Admission(note) if note.is_refusal() => {
                self.outcome.refusals.push(note.verdict());
            }
            ServerEvent::Error { code, message } => {
                self.outcome.answers.push(format!("error {code}: {message}"));
            }
            _ => {}
        }
    }

    fn close_stream(&mut self) {
        self.outcome.lateness.append(&mut self.stream.lateness());
        self.stream = Stream::default();
    }

    fn say(&mut self, message: String) -> Result<(), String> {
        let told = self.line.outgoing.try_send(message);
        told.map_err(|_| "the server does not read, or the connection broke".to_owned())
    }
}
