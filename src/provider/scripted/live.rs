//! Scripted providers in real time: the pure machines behind the ports, with tokio's clock.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{AsrScript, Effects, LlmScript, Output, ToolScript, TtsScript};
use crate::dialogue::{Effect, ModelRequest};
use crate::provider::asr::{Asr, AsrInput, AsrOptions, AsrSignal};
use crate::provider::llm::{Llm, ModelSignal};
use crate::provider::tool::{Tool, ToolRun};
use crate::provider::tts::{Phrase, Tts, TtsOptions, TtsSignal};
use crate::provider::{BuildError, Cancel, Ended, Entry, Run, Surroundings};
use crate::time::Timestamp;

/// Its line in the table of models.
pub const LLM_ENTRY: Entry<dyn Llm> =
    Entry { name: "scripted", about: "says what its table says", build: build_llm };
/// Its line in the table of recognisers.
pub const ASR_ENTRY: Entry<dyn Asr> =
    Entry { name: "scripted", about: "hears what its table says", build: build_asr };
/// Its line in the table of synthesisers.
pub const TTS_ENTRY: Entry<dyn Tts> =
    Entry { name: "scripted", about: "sounds as its table says", build: build_tts };
/// Its line in the table of tools.
pub const TOOL_ENTRY: Entry<dyn Tool> =
    Entry { name: "scripted", about: "does what its table says", build: build_tool };

fn build_llm(table: &toml::Table, _: &Surroundings) -> Result<Arc<dyn Llm>, BuildError> {
    Ok(Arc::new(Counted::new(LlmScript::from_table(table)?)))
}

fn build_asr(table: &toml::Table, _: &Surroundings) -> Result<Arc<dyn Asr>, BuildError> {
    Ok(Arc::new(Counted::new(AsrScript::from_table(table)?)))
}

fn build_tts(table: &toml::Table, _: &Surroundings) -> Result<Arc<dyn Tts>, BuildError> {
    Ok(Arc::new(Counted::new(TtsScript::from_table(table)?)))
}

fn build_tool(table: &toml::Table, _: &Surroundings) -> Result<Arc<dyn Tool>, BuildError> {
    Ok(Arc::new(ScriptedTool::new(ToolScript::from_table(table)?)))
}

/// A script and the number of runs it has had in this process.
struct Counted<S> {
    script: S,
    runs: AtomicU32,
}

impl<S> Counted<S> {
    fn new(script: S) -> Self {
        Counted { script, runs: AtomicU32::new(0) }
    }

    fn next_run(&self) -> u32 {
        self.runs.fetch_add(1, Ordering::Relaxed)
    }
}

/// The clock of one run: starts when the run does.
#[derive(Clone, Copy)]
struct RunClock(Instant);

impl RunClock {
    fn start() -> Self {
        RunClock(Instant::now())
    }

    fn now(self) -> Timestamp {
        Timestamp::from_micros(self.0.elapsed().as_micros() as u64)
    }

    async fn reach(self, at: Option<Timestamp>) {
        match at {
            Some(at) => tokio::time::sleep_until(self.0 + at.since(Timestamp::ZERO)).await,
            None => std::future::pending().await,
        }
    }
}

/// What the shell needs of a pure machine.
trait Machine {
    type Signal;
    type Input;
    fn next_at(&self) -> Option<Timestamp>;
    fn poll(&mut self, now: Timestamp) -> Option<Output<Self::Signal>>;
    fn cancel(&mut self, now: Timestamp);
    /// `None`: nothing follows.
    fn give(&mut self, now: Timestamp, input: Option<Self::Input>);
}

impl Machine for super::LlmRun {
    type Signal = ModelSignal;
    type Input = std::convert::Infallible;
    fn next_at(&self) -> Option<Timestamp> {
        self.next_at()
    }
    fn poll(&mut self, now: Timestamp) -> Option<Output<ModelSignal>> {
        self.poll(now)
    }
    fn cancel(&mut self, now: Timestamp) {
        self.cancel(now);
    }
    fn give(&mut self, _: Timestamp, _: Option<Self::Input>) {}
}

impl Machine for super::TtsRun {
    type Signal = TtsSignal;
    type Input = Phrase;
    fn next_at(&self) -> Option<Timestamp> {
        self.next_at()
    }
    fn poll(&mut self, now: Timestamp) -> Option<Output<TtsSignal>> {
        self.poll(now)
    }
    fn cancel(&mut self, now: Timestamp) {
        self.cancel(now);
    }
    fn give(&mut self, now: Timestamp, input: Option<Phrase>) {
        match input {
            Some(phrase) => self.say(now, phrase),
            None => self.close_input(now),
        }
    }
}

impl Machine for super::AsrRun {
    type Signal = AsrSignal;
    type Input = AsrInput;
    fn next_at(&self) -> Option<Timestamp> {
        self.next_at()
    }
    fn poll(&mut self, now: Timestamp) -> Option<Output<AsrSignal>> {
        self.poll(now)
    }
    fn cancel(&mut self, now: Timestamp) {
        self.cancel(now);
    }
    fn give(&mut self, now: Timestamp, input: Option<AsrInput>) {
        self.hear(now, &input.unwrap_or(AsrInput::Close));
    }
}

/// Runs a machine to its end.
async fn drive<M: Machine>(
    clock: RunClock,
    mut machine: M,
    mut input: Option<mpsc::Receiver<M::Input>>,
    out: mpsc::Sender<M::Signal>,
    cancel: Cancel,
) -> Ended {
    let mut cancelled = false;
    loop {
        while let Some(output) = machine.poll(clock.now()) {
            let signal = match output {
                Output::Ended(ended) => return ended,
                Output::Signal(signal) => signal,
            };
            if cancelled {
                // What comes now is suppressed anyway; it must not hold up the evidence.
                let _ = out.try_send(signal);
                continue;
            }
            let stopped = tokio::select! {
                biased;
                () = cancel.cancelled() => true,
                sent = out.send(signal) => sent.is_err(),
            };
            if stopped {
                cancelled = true;
                machine.cancel(clock.now());
            }
        }
        tokio::select! {
            biased;
            () = cancel.cancelled(), if !cancelled => {
                cancelled = true;
                machine.cancel(clock.now());
            }
            given = next_input(&mut input) => {
                if given.is_none() {
                    input = None;
                }
                machine.give(clock.now(), given);
            }
            () = clock.reach(machine.next_at()) => {}
        }
    }
}

/// The next input, `None` once when it is closed; pending where there is none.
async fn next_input<T>(input: &mut Option<mpsc::Receiver<T>>) -> Option<T> {
    match input {
        Some(input) => input.recv().await,
        None => std::future::pending().await,
    }
}

impl Llm for Counted<LlmScript> {
    fn run(
        self: Arc<Self>,
        request: ModelRequest,
        out: mpsc::Sender<ModelSignal>,
        cancel: Cancel,
    ) -> Run {
        Box::pin(async move {
            let clock = RunClock::start();
            let run = self.script.start(clock.now(), self.next_run(), &request);
            drive(clock, run, None, out, cancel).await
        })
    }
}

impl Tts for Counted<TtsScript> {
    fn run(
        self: Arc<Self>,
        options: TtsOptions,
        input: mpsc::Receiver<Phrase>,
        out: mpsc::Sender<TtsSignal>,
        cancel: Cancel,
    ) -> Run {
        Box::pin(async move {
            let clock = RunClock::start();
            let run = self.script.start(clock.now(), self.next_run(), &options);
            drive(clock, run, Some(input), out, cancel).await
        })
    }
}

impl Asr for Counted<AsrScript> {
    fn run(
        self: Arc<Self>,
        _: AsrOptions,
        input: mpsc::Receiver<AsrInput>,
        out: mpsc::Sender<AsrSignal>,
        cancel: Cancel,
    ) -> Run {
        Box::pin(async move {
            let clock = RunClock::start();
            let run = self.script.start(clock.now(), self.next_run());
            drive(clock, run, Some(input), out, cancel).await
        })
    }

    fn gives_partials(&self) -> bool {
        true
    }
}

/// A scripted tool in real time, with the record of its effects.
pub struct ScriptedTool {
    counted: Counted<ToolScript>,
    effects: Mutex<Effects>,
}

impl ScriptedTool {
    /// The tool of this script.
    pub fn new(script: ToolScript) -> ScriptedTool {
        ScriptedTool { counted: Counted::new(script), effects: Mutex::default() }
    }

    /// The effects it had so far.
    pub fn effects(&self) -> Effects {
        self.effects.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn poll(
        &self,
        run: &mut super::ToolRun,
        now: Timestamp,
    ) -> Option<(crate::dialogue::ToolOutcome, Ended)> {
        run.poll(now, &mut self.effects.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Tool for ScriptedTool {
    fn description(&self) -> String {
        self.counted.script.description().to_owned()
    }

    fn parameters(&self) -> serde_json::Value {
        self.counted.script.parameters().clone()
    }

    fn effect(&self) -> Effect {
        self.counted.script.effect()
    }

    fn run(self: Arc<Self>, _: String, idempotency_key: String, cancel: Cancel) -> ToolRun {
        Box::pin(async move {
            let clock = RunClock::start();
            let nth = self.counted.next_run();
            let mut run = self.counted.script.start(clock.now(), nth, &idempotency_key);
            let mut cancelled = false;
            loop {
                if let Some(over) = self.poll(&mut run, clock.now()) {
                    return over;
                }
                let next: std::pin::Pin<Box<dyn Future<Output = ()> + Send>> =
                    Box::pin(clock.reach(run.next_at()));
                tokio::select! {
                    biased;
                    () = cancel.cancelled(), if !cancelled => {
                        cancelled = true;
                        run.cancel(clock.now());
                    }
                    () = next => {}
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialogue::ToolOutcome;
    use crate::evidence::Evidence;

    fn surroundings() -> Surroundings {
        Surroundings { models_dir: "models".into(), language: "en".into() }
    }

    fn virtual_time() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap()
    }

    #[test]
    fn a_model_streams_and_ends() {
        virtual_time().block_on(async {
            let table = toml::toml! { reply = "One two three." tokens_per_s = 10 };
            let llm = (LLM_ENTRY.build)(&table, &surroundings()).unwrap();
            let (out, mut signals) = mpsc::channel(2);
            let run = tokio::spawn(llm.run(ModelRequest::default(), out, Cancel::new()));
            let mut text = String::new();
            while let Some(signal) = signals.recv().await {
                if let ModelSignal::Text(words) = signal {
                    text.push_str(&words);
                }
            }
            assert_eq!(text, "One two three.");
            assert_eq!(run.await.unwrap(), Ended::completed());
        });
    }

    #[test]
    fn a_cancel_ends_a_run_that_nobody_reads() {
        virtual_time().block_on(async {
            let table = toml::toml! { reply = "a b c d e f g h" tokens_per_s = 100 };
            let llm = (LLM_ENTRY.build)(&table, &surroundings()).unwrap();
            let (out, mut signals) = mpsc::channel(1);
            let cancel = Cancel::new();
            let run = tokio::spawn(llm.run(ModelRequest::default(), out, cancel.clone()));
            assert_eq!(signals.recv().await, Some(ModelSignal::Text("a".into())));
            cancel.cancel();
            let ended = run.await.unwrap();
            assert_eq!(ended, Ended::stopped(Evidence::AbortAcknowledged));
        });
    }

    #[test]
    fn a_synthesiser_ends_after_its_last_phrase() {
        virtual_time().block_on(async {
            let tts = (TTS_ENTRY.build)(&toml::Table::new(), &surroundings()).unwrap();
            let (out, mut signals) = mpsc::channel(4);
            let (phrases, input) = mpsc::channel(4);
            let options = TtsOptions { voice: None, language: "en".into(), speed: 1.0 };
            let run = tokio::spawn(tts.run(options, input, out, Cancel::new()));
            let phrase = Phrase { index: 0, text: "one two".into() };
            phrases.send(phrase).await.unwrap();
            drop(phrases);
            let mut samples = 0;
            while let Some(signal) = signals.recv().await {
                if let TtsSignal::Audio { pcm, .. } = signal {
                    samples += pcm.samples.len();
                }
            }
            assert_eq!(samples, 24_000 * 8 / 10);
            assert_eq!(run.await.unwrap(), Ended::completed());
        });
    }

    #[test]
    fn a_recogniser_answers_and_ends_when_its_input_is_gone() {
        virtual_time().block_on(async {
            let asr = (ASR_ENTRY.build)(&toml::toml! { text = "hello" }, &surroundings()).unwrap();
            let (out, mut signals) = mpsc::channel(4);
            let (sound, input) = mpsc::channel(4);
            let run = tokio::spawn(asr.run(AsrOptions::default(), input, out, Cancel::new()));
            sound.send(AsrInput::Decode { seq: 1, is_final: true }).await.unwrap();
            assert_eq!(signals.recv().await.unwrap().transcript.text, "hello");
            drop(sound);
            assert_eq!(run.await.unwrap(), Ended::completed());
        });
    }

    #[test]
    fn a_tool_that_stalls_ends_when_cancelled() {
        virtual_time().block_on(async {
            let table = toml::toml! { stall_after_ms = 10 effect = "cancellable" };
            let tool = (TOOL_ENTRY.build)(&table, &surroundings()).unwrap();
            let cancel = Cancel::new();
            let run = tokio::spawn(tool.run("{}".into(), "key".into(), cancel.clone()));
            tokio::task::yield_now().await;
            cancel.cancel();
            let (outcome, ended) = run.await.unwrap();
            assert_eq!(outcome, ToolOutcome::Cancelled);
            assert_eq!(ended.proof, Ok(Evidence::AbortAcknowledged));
        });
    }
}
