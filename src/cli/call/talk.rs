//! The loop of a call: a frame out, a frame heard, events in between.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};

use super::connect::{Line, next_event};
use super::mouth::Mouth;
use super::playback::{Arrival, Cut, Playback};
use super::story::{Rung, Story};
use super::wire::{self, ServerEvent, WIRE_FRAME_SAMPLES};
use crate::audio::{FRAME, level_dbfs};

/// The agent has been quiet for this long: the call is over.
const AGENT_QUIET: Duration = Duration::from_secs(3);
/// An answer that has not begun after this long does not come.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// An answer may take this long without a sound of it being heard.
const STALL_LIMIT: Duration = Duration::from_secs(30);
/// Quieter sound of the agent is not heard as an answer.
const AUDIBLE_DBFS: f32 = -60.0;

/// A call in progress.
pub(super) struct Talk {
    line: Line,
    mouth: Mouth,
    playback: Playback,
    pub(super) story: Story,
    /// What the caller heard, frame by frame.
    pub(super) recording: Vec<i16>,
    pub(super) suppressed: BTreeMap<String, u64>,
    pub(super) functions_called: Vec<String>,
    pub(super) errors: Vec<String>,
    /// Interruptions that had not begun when the call ended.
    pub(super) barges_not_played: usize,
    /// Whether the agent was heard at all.
    pub(super) agent_spoke: bool,
    responses_open: usize,
    last_activity: Duration,
    verbose: bool,
}

impl Talk {
    /// A call whose caller is `mouth`; `verbose` tells its progress on stderr.
    pub(super) fn new(line: Line, mouth: Mouth, verbose: bool) -> Talk {
        Talk {
            line,
            mouth,
            playback: Playback::default(),
            story: Story::default(),
            recording: Vec::new(),
            suppressed: BTreeMap::new(),
            functions_called: Vec::new(),
            errors: Vec::new(),
            barges_not_played: 0,
            agent_spoke: false,
            responses_open: 0,
            last_activity: Duration::ZERO,
            verbose,
        }
    }

    /// Talks until everything was said and answered, or until `limit`.
    pub(super) async fn run(&mut self, limit: Option<Duration>) -> Result<(), String> {
        let start = Instant::now();
        let mut ticks = tokio::time::interval(FRAME);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        loop {
            tokio::select! {
                event = next_event(&mut self.line.incoming) => {
                    self.on_event(start.elapsed(), event?)?;
                }
                _ = ticks.tick() => {
                    let now = start.elapsed();
                    self.on_tick(now)?;
                    if self.is_over(now) || limit.is_some_and(|limit| now >= limit) {
                        self.barges_not_played = self.mouth.interruptions_waiting();
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Ends the call properly.
    pub(super) async fn hang_up(self) {
        self.line.hang_up().await;
    }

    fn on_tick(&mut self, now: Duration) -> Result<(), String> {
        let frame = self.mouth.next_frame(now);
        self.story.caller_frame(now, frame.speech, self.playback.is_audible());
        if frame.speech || !self.mouth.is_quiet() {
            self.last_activity = now;
        }
        self.say(wire::append(&frame.samples))?;
        let mut heard = [0; WIRE_FRAME_SAMPLES];
        if self.playback.play(&mut heard) > 0 {
            self.last_activity = now;
            if level_dbfs(&heard) > AUDIBLE_DBFS {
                self.agent_spoke = true;
                self.mouth.agent_became_audible(now);
                self.story.agent_heard(now, self.playback.response());
            }
        }
        self.recording.extend_from_slice(&heard);
        Ok(())
    }

    fn is_over(&self, now: Duration) -> bool {
        let quiet_for = now.saturating_sub(self.last_activity);
        let barge_may_come = self.mouth.interruptions_waiting() > 0;
        let enough = if self.responses_open > 0 {
            STALL_LIMIT
        } else if self.story.awaits_answer() || (barge_may_come && !self.agent_spoke) {
            ANSWER_LIMIT
        } else if barge_may_come {
            return false;
        } else {
            AGENT_QUIET
        };
        quiet_for >= enough
    }

    fn say(&mut self, message: String) -> Result<(), String> {
        self.line.outgoing.try_send(message).map_err(|error| match error {
            tokio::sync::mpsc::error::TrySendError::Full(_) => {
                "the server has not read for two and a half seconds".to_owned()
            }
            tokio::sync::mpsc::error::TrySendError::Closed(_) => {
                "the connection broke while speaking".to_owned()
            }
        })
    }

    fn on_event(&mut self, now: Duration, event: ServerEvent) -> Result<(), String> {
        match event {
            ServerEvent::SpeechStarted { .. } => self.clear(now)?,
            ServerEvent::Committed { item } => {
                self.last_activity = now;
                self.story.committed(item);
            }
            ServerEvent::Transcribed { item, text } => {
                self.tell(now, &format!("caller: {text}"));
                self.story.transcribed(&item, text);
            }
            ServerEvent::TranscriptionFailed { item, message } => {
                self.story.transcribed(&item, format!("({message})"));
            }
            ServerEvent::ResponseCreated { response } => {
                self.last_activity = now;
                self.responses_open += 1;
                self.story.response_created(response);
            }
            ServerEvent::Audio { response, item, samples } => {
                self.on_audio(&response, &item, &samples);
            }
            ServerEvent::Words { response, item, text } => {
                self.story.words(&response, &item, &text, false);
            }
            ServerEvent::WordsDone { response, item, text } => {
                self.tell(now, &format!("agent: {text}"));
                self.story.words(&response, &item, &text, true);
            }
            ServerEvent::FunctionCalled { name, arguments } => {
                self.functions_called.push(format!("{name}({arguments})"));
            }
            ServerEvent::ResponseDone { response, status, code } => {
                self.last_activity = now;
                self.responses_open = self.responses_open.saturating_sub(1);
                self.story.response_done(&response, &status, code);
            }
            ServerEvent::Truncated { item } => self.say(wire::retrieve(&item))?,
            ServerEvent::Retrieved { item, text } => self.story.item_is_now(&item, &text),
            ServerEvent::Error { code, message } => {
                self.tell(now, &format!("server error: {code}: {message}"));
                self.errors.push(format!("{code}: {message}"));
            }
            extra => self.on_extra(now, extra)?,
        }
        Ok(())
    }

    fn on_extra(&mut self, now: Duration, event: ServerEvent) -> Result<(), String> {
        match event {
            ServerEvent::Admission(note) => self.story.admission(now, note),
            ServerEvent::Playout { state, item, played_ms } => match state.as_str() {
                "paused" => {
                    self.tell(now, &format!("paused, {played_ms} ms of {item} played"));
                    self.playback.pause();
                    self.story.paused(now);
                    if let Some(Cut { item, played_ms }) = self.playback.position() {
                        self.say(wire::heard(&item, played_ms))?;
                    }
                }
                "resumed" => {
                    self.tell(now, "resumed");
                    self.playback.resume();
                    self.story.resumed();
                }
                "cleared" => self.clear(now)?,
                other => self.errors.push(format!("unknown playout state `{other}`")),
            },
            ServerEvent::Turn { turn, state } => self.story.turn_state(turn, state),
            ServerEvent::LateOutput { stage } => {
                *self.suppressed.entry(stage).or_default() += 1;
            }
            ServerEvent::Fallback { rung, outcome, prompt } => {
                self.last_activity = now;
                self.tell(now, &format!("fallback: {rung} {outcome}: {prompt}"));
                self.story.fallback(Rung { rung, outcome, prompt });
            }
            _ => {}
        }
        Ok(())
    }

    fn on_audio(&mut self, response: &str, item: &str, samples: &[i16]) {
        match self.playback.receive(response, item, samples) {
            Arrival::Queued => {}
            Arrival::Late => {
                let frames = samples.len().div_ceil(WIRE_FRAME_SAMPLES) as u64;
                self.story.late(response, frames);
            }
        }
    }

    /// The caller took the floor: what is buffered is thrown away, as every client does.
    fn clear(&mut self, now: Duration) -> Result<(), String> {
        let cut = self.playback.clear();
        self.story.cleared(now, cut.is_some());
        if let Some(Cut { item, played_ms }) = cut {
            self.tell(now, &format!("cleared, {played_ms} ms of {item} heard"));
            self.say(wire::truncate(&item, played_ms))?;
        }
        Ok(())
    }

    fn tell(&self, now: Duration, what: &str) {
        if self.verbose {
            eprintln!("{:>8.2} s  {what}", now.as_secs_f64());
        }
    }
}
