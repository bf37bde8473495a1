//! One utterance: gathers its sound, answers requests one at a time, and ends truthfully.

use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::JoinHandle;

use super::Moonshine;
use super::graphs::Graphs;
use super::guard::{Heard, cleaned, without_loop};
use crate::dialogue::Transcript;
use crate::evidence::{Evidence, Unknown};
use crate::fault::Fault;
use crate::provider::asr::{AsrInput, AsrSignal};
use crate::provider::ear::Listening;
use crate::provider::onnx::lock;
use crate::provider::{Cancel, Ended};

/// The model was made for at most this much at a time: 28 s.
const SEGMENT_MAX: usize = 16_000 * 28;
/// A longer utterance is cut at the quietest moment after this: 20 s.
const CUT_AFTER: usize = 16_000 * 20;
/// No more sound is taken in while this much waits to be written down: 60 s.
const WAITING_MAX: usize = 16_000 * 60;
/// Where a cut may be: every 100 ms.
const CUT_STEP: usize = 1_600;

/// Something the model is asked for.
enum Job {
    /// What was said so far?
    Answer { seq: u32, is_final: bool, samples: usize },
    /// Write down the beginning, so that its sound can go.
    Settle { samples: usize },
}

impl Job {
    fn samples(&self) -> usize {
        match self {
            Job::Answer { samples, .. } | Job::Settle { samples } => *samples,
        }
    }

    /// It may be left undone when there is no room or when a newer request waits.
    fn is_partial(&self) -> bool {
        matches!(self, Job::Answer { is_final: false, .. })
    }
}

/// What a worker made of a stretch of sound.
#[derive(Clone, Debug, Default)]
struct Piece {
    text: String,
    log_prob: f32,
    tokens: usize,
}

type Decode = JoinHandle<Result<Piece, String>>;
type Grant = Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send>>;

/// What happens to the oldest job that is not done.
enum Work {
    Nothing,
    /// It waits for a free copy of the model.
    Waiting(Job, Grant),
    /// A worker is at it.
    Running(Job, Decode),
}

/// What `Work` came to.
enum Step {
    Granted(Job, Option<OwnedSemaphorePermit>),
    Decoded(Job, Result<Piece, String>),
}

/// One utterance.
pub(super) struct Utterance {
    model: Arc<Moonshine>,
    out: mpsc::Sender<AsrSignal>,
    sound: Vec<i16>,
    ear: Box<dyn Listening>,
    /// For each window of `sound` that is complete: speech?
    speech: Vec<bool>,
    /// What was written down of sound that is gone.
    settled: Piece,
    /// The newest request that has not been looked at.
    next: Option<Job>,
    work: Work,
    ever_started: bool,
}

impl Utterance {
    pub(super) fn new(model: Arc<Moonshine>, out: mpsc::Sender<AsrSignal>) -> Utterance {
        let ear = model.detector.listen();
        Utterance {
            model,
            out,
            sound: Vec::new(),
            ear,
            speech: Vec::new(),
            settled: Piece::default(),
            next: None,
            work: Work::Nothing,
            ever_started: false,
        }
    }

    /// Runs to the end of the utterance.
    pub(super) async fn listen(
        mut self,
        mut input: mpsc::Receiver<AsrInput>,
        cancel: Cancel,
    ) -> Ended {
        let mut open = true;
        let fault = loop {
            self.begin_next();
            let idle = matches!(self.work, Work::Nothing);
            if idle && !open {
                break None;
            }
            let listens = open && self.takes_more();
            tokio::select! {
                biased;
                () = cancel.cancelled() => break None,
                step = self.work.step(), if !idle => match self.took(step, &cancel).await {
                    Ok(()) => {}
                    Err(fault) => break Some(fault),
                },
                told = input.recv(), if listens => match told {
                    Some(AsrInput::Audio(sound)) => self.hear(&sound),
                    Some(AsrInput::Decode { seq, is_final }) => self.request(seq, is_final),
                    Some(AsrInput::Close) | None => open = false,
                },
            }
        };
        self.end(fault).await
    }

    /// A final request or a cut that waits is done first; nothing of it may be lost.
    fn takes_more(&self) -> bool {
        let certain = |job: &Job| !job.is_partial();
        let waits = self.next.as_ref().is_some_and(certain);
        !waits && self.sound.len() < WAITING_MAX
    }

    fn hear(&mut self, sound: &[i16]) {
        self.sound.extend_from_slice(sound);
        let window = self.ear.window();
        while let Some(heard) =
            self.sound.get(self.speech.len() * window..).filter(|s| s.len() >= window)
        {
            let speech = self.ear.hear(&heard[..window]) > 0.5;
            self.speech.push(speech);
        }
        let settling = |job: &Job| matches!(job, Job::Settle { .. });
        let settles = match &self.work {
            Work::Nothing => false,
            Work::Waiting(job, _) | Work::Running(job, _) => settling(job),
        };
        if self.sound.len() >= SEGMENT_MAX && !settles {
            let samples = self.quietest() / window * window;
            self.next = Some(Job::Settle { samples });
        }
    }

    /// Where to cut: the end of the quietest stretch in the last part of the segment.
    fn quietest(&self) -> usize {
        let energy = |at: &usize| -> i64 {
            self.sound[*at..*at + CUT_STEP].iter().map(|s| i64::from(s.unsigned_abs())).sum()
        };
        let places = (CUT_AFTER..SEGMENT_MAX - CUT_STEP).step_by(CUT_STEP);
        places.min_by_key(energy).unwrap_or(CUT_AFTER) + CUT_STEP / 2
    }

    fn request(&mut self, seq: u32, is_final: bool) {
        self.next = Some(Job::Answer { seq, is_final, samples: self.sound.len() });
    }

    /// Hands the next request to the model, where it can be; a partial one that cannot is dropped.
    fn begin_next(&mut self) {
        if !matches!(self.work, Work::Nothing) {
            return;
        }
        let Some(job) = self.next.take() else { return };
        let free = Arc::clone(&self.model.free);
        self.work = match Arc::clone(&free).try_acquire_owned() {
            Ok(permit) => self.start(job, permit),
            Err(_) if job.is_partial() => Work::Nothing,
            Err(_) => Work::Waiting(job, Box::pin(async move { free.acquire_owned().await.ok() })),
        };
    }

    fn start(&mut self, job: Job, permit: OwnedSemaphorePermit) -> Work {
        self.ever_started = true;
        let samples = job.samples().min(self.sound.len());
        let spoken = self.speech[..samples / self.ear.window()].iter().filter(|s| **s).count();
        let heard = Heard { samples, speech: spoken * self.ear.window() };
        let sound: Vec<f32> =
            self.sound[..samples].iter().map(|sample| f32::from(*sample) / 32_768.0).collect();
        let model = Arc::clone(&self.model);
        Work::Running(
            job,
            tokio::task::spawn_blocking(move || {
                let piece = model.write_down(sound, heard);
                drop(permit);
                piece
            }),
        )
    }

    /// What follows from a step of the work.
    async fn took(&mut self, step: Step, cancel: &Cancel) -> Result<(), Fault> {
        self.work = Work::Nothing;
        match step {
            Step::Granted(job, Some(permit)) => {
                self.work = self.start(job, permit);
                Ok(())
            }
            Step::Granted(_, None) => Err(Fault::Lost { detail: "the workers are gone".into() }),
            Step::Decoded(_, Err(detail)) => Err(Fault::Lost { detail }),
            Step::Decoded(Job::Settle { samples }, Ok(piece)) => {
                self.settled = joined(&self.settled, &piece);
                self.sound.drain(..samples);
                self.speech.drain(..samples / self.ear.window());
                // A partial request made in the meantime meant the sound as it was.
                if let Some(Job::Answer { samples: asked, .. }) = &mut self.next {
                    *asked = asked.saturating_sub(samples);
                }
                Ok(())
            }
            Step::Decoded(Job::Answer { seq, is_final, .. }, Ok(piece)) => {
                let transcript = joined(&self.settled, &piece).transcript();
                let signal = AsrSignal { seq, is_final, transcript };
                tokio::select! {
                    biased;
                    () = cancel.cancelled() => {}
                    // Nobody listens any more: the end of the input says so too.
                    _ = self.out.send(signal) => {}
                }
                Ok(())
            }
        }
    }

    /// Lets a decode in progress run out and says what that proves.
    async fn end(self, fault: Option<Fault>) -> Ended {
        if let Work::Running(_, decode) = self.work
            && decode.await.is_err()
        {
            let fault = Fault::Lost { detail: "the worker panicked".into() };
            return Ended::failed(fault, Err(Unknown::Dropped));
        }
        let proof = if self.ever_started { Evidence::Completed } else { Evidence::NeverStarted };
        match fault {
            Some(fault) => Ended::failed(fault, Ok(proof)),
            None => Ended::stopped(proof),
        }
    }
}

impl Work {
    /// Waits for the next thing to happen. Safe to drop and call again.
    async fn step(&mut self) -> Step {
        match self {
            Work::Nothing => std::future::pending().await,
            Work::Waiting(_, grant) => {
                let permit = grant.await;
                let Work::Waiting(job, _) = std::mem::replace(self, Work::Nothing) else {
                    unreachable!("it was waiting a line ago");
                };
                Step::Granted(job, permit)
            }
            Work::Running(_, decode) => {
                let decoded = decode.await.unwrap_or_else(|error| Err(error.to_string()));
                let Work::Running(job, _) = std::mem::replace(self, Work::Nothing) else {
                    unreachable!("it was running a line ago");
                };
                Step::Decoded(job, decoded)
            }
        }
    }
}

impl Piece {
    fn transcript(self) -> Transcript {
        let mean = self.log_prob / self.tokens.max(1) as f32;
        let mean_log_prob = (self.tokens > 0).then_some(mean);
        Transcript { text: self.text, mean_log_prob }
    }
}

fn joined(head: &Piece, tail: &Piece) -> Piece {
    let space = if head.text.is_empty() || tail.text.is_empty() { "" } else { " " };
    Piece {
        text: format!("{}{space}{}", head.text, tail.text),
        log_prob: head.log_prob + tail.log_prob,
        tokens: head.tokens + tail.tokens,
    }
}

/// A copy of the model while it is used; it goes back even when its user panics.
struct Borrowed<'a> {
    model: &'a Moonshine,
    /// There until the drop.
    graphs: Option<Graphs>,
}

impl Borrowed<'_> {
    fn from(model: &Moonshine) -> Borrowed<'_> {
        Borrowed { model, graphs: lock(&model.idle).pop() }
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        lock(&self.model.idle).extend(self.graphs.take());
    }
}

impl Moonshine {
    /// Writes down a stretch of sound with a copy of the model that is idle; the caller holds a
    /// permit.
    fn write_down(&self, sound: Vec<f32>, heard: Heard) -> Result<Piece, String> {
        if !heard.may_hold_words() {
            return Ok(Piece::default());
        }
        let mut copy = Borrowed::from(self);
        let graphs = copy.graphs.as_mut().ok_or("there is no idle copy of the model")?;
        let written = graphs.write_down(&sound).map_err(|error| error.to_string())?;
        drop(copy);
        let tokens = without_loop(&written.tokens);
        // The end marker is one more token that the model was more or less sure of.
        let count = written.tokens.len() + 1;
        let mean = written.log_prob / count as f32;
        let text = cleaned(&self.vocabulary.text(tokens));
        let looped = tokens.len() < written.tokens.len();
        let may_be_said = heard.may_hold(text.split(' ').count()) && heard.believes(mean, looped);
        if text.is_empty() || !may_be_said || self.hums.invented(&text, &sound) {
            tracing::debug!(mean, "moonshine: nothing that can be believed");
            return Ok(Piece::default());
        }
        Ok(Piece { text, log_prob: written.log_prob, tokens: count })
    }
}
