//! Carrying out a call's actions: provider runs started, fed, closed and cancelled.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::driver::Driver;
use super::metrics::Bypass;
use super::promises::Promisee;
use super::runs::Watch;
use super::sound::samples_at;
use crate::admission::Cancelled;
use crate::audio::{CALLER_RATE_HZ, Pcm, duration_to_samples};
use crate::call::{Action, Arranged, Event, Wish};
use crate::codec::resample::Resampler;
use crate::dialogue::{ModelRequest, ToolOutcome};
use crate::evidence::Evidence;
use crate::fallback::Rung;
use crate::fault::Fault;
use crate::id::{RunId, Stage, ToolId, UtteranceId};
use crate::provider::asr::{Asr, AsrInput, AsrOptions, AsrSignal};
use crate::provider::llm::{Llm, ModelSignal};
use crate::provider::tool::Tool;
use crate::provider::tts::{Phrase, Tts, TtsOptions, TtsSignal};
use crate::provider::{Cancel, Ended, Run};

/// Sound pieces that may wait for a recogniser.
const FEED_MAX: usize = 256;
/// Phrases that may wait for a synthesiser; an answer has fewer.
const PHRASES_MAX: usize = 512;
/// Signals that may wait between a provider and its stamp.
const SIGNALS_MAX: usize = 32;
/// Sound shown to the end-of-turn model.
const JUDGED: Duration = Duration::from_secs(8);

/// A run under way.
pub(super) struct Started {
    pub cancel: Cancel,
    pub feed: Feed,
}

/// What a run is still given.
pub(super) enum Feed {
    /// Nothing.
    Nothing,
    /// The caller's sound, up to this position so far.
    Recogniser { input: mpsc::Sender<AsrInput>, fed: u64 },
    /// Phrases.
    Voice { input: mpsc::Sender<Phrase> },
    /// Why nobody waits for the human any more.
    Human { given_up: oneshot::Sender<Cancelled> },
}

impl Driver {
    pub(super) fn start(&mut self, action: Action) {
        match action {
            Action::Tell(_) => {}
            // What was made for the old generation will not be sent.
            Action::Fence { .. } => self.ahead.forget(),
            Action::ForgetSound => self.sound.forget(),
            Action::Recognise { run, from } => self.start_recogniser(run, from),
            Action::Decode { run, seq, is_final } => self.decode(run, seq, is_final),
            Action::JudgeTurn { utterance, seq } => self.judge_turn(utterance, seq),
            Action::Think { run, request } => self.start_model(run, *request),
            Action::Voice { run, voice, speed } => self.start_voice(run, voice, speed),
            Action::Say { run, phrase, text } => self.say(run, phrase, text),
            Action::UseTool { run, tool, arguments, idempotency_key } => {
                self.start_tool(run, tool, arguments, idempotency_key);
            }
            Action::Arrange { run, wish } => self.arrange(run, *wish),
            Action::Prompt { run, prompt } => self.start_prompt(run, &prompt),
            Action::Close { run } => self.close(run),
            Action::Cancel { run, why } => self.cancel(run, why),
        }
    }

    /// Puts a callback on record, or asks a human.
    fn arrange(&mut self, run: RunId, wish: Wish) {
        let Some(promises) = self.service.promises().cloned() else {
            return self.cannot_start(run, "store");
        };
        let promisee = Promisee { turn: self.call.turn().0, ..self.promisee.clone() };
        let (out, signals) = mpsc::channel::<Arranged>(4);
        let (cancel, (given_up, why)) = (Cancel::new(), oneshot::channel());
        let stage = if wish.rung == Rung::Handoff { Stage::Handoff } else { Stage::Callback };
        let desk = (stage == Stage::Handoff).then(|| self.desk()).flatten();
        let task: Run = Box::pin(async move {
            if stage == Stage::Handoff {
                return promises.hand_over(&wish, &promisee, desk, out, why).await;
            }
            // A commit that is under way is not stopped: it is what the caller wanted.
            let arranged = promises.promise(promises.offer(&wish, &promisee)).await;
            let _ = out.send(arranged).await;
            Ended { proof: Ok(Evidence::Completed), fault: None }
        });
        let watch = self.watch(run, stage, cancel.clone());
        tokio::spawn(watch.carry(task, signals, move |what| vec![Event::Arranged { run, what }]));
        self.remember(run, cancel, Feed::Human { given_up });
    }

    /// The run's task: its signals, stamped, until its end.
    fn watch(&mut self, run: RunId, stage: Stage, cancel: Cancel) -> Watch {
        Watch {
            run,
            unit: self.call.lease_of(run),
            events: self.events_out.clone(),
            cancel,
            evidence: self.service.evidence(stage),
            gates: self.service.gates.clone(),
            ahead: None,
            rate_hz: self.call.settings().out_rate_hz,
        }
    }

    fn remember(&mut self, run: RunId, cancel: Cancel, feed: Feed) {
        self.runs.insert(run, Started { cancel, feed });
    }

    /// A run whose provider cannot be had never starts.
    fn cannot_start(&mut self, run: RunId, what: &str) {
        let fault = Some(Fault::Lost { detail: format!("there is no {what}") });
        let proof = Ok(Evidence::NeverStarted);
        self.at_once.push_back(Event::Ended { run, proof, fault });
    }

    fn start_recogniser(&mut self, run: RunId, from: Duration) {
        let asr: Option<Arc<dyn Asr>> = self.service.backends().and_then(|b| b.asr.clone());
        let Some(asr) = asr else { return self.cannot_start(run, "recogniser") };
        let (input, input_out) = mpsc::channel(FEED_MAX);
        let (out, signals) = mpsc::channel(SIGNALS_MAX);
        let cancel = Cancel::new();
        let options = AsrOptions { language: self.profile.language.clone() };
        let stop = cancel.clone();
        let task = lazily(move || asr.run(options, input_out, out, stop));
        let watch = self.watch(run, Stage::Recognition, cancel.clone());
        tokio::spawn(watch.carry(task, signals, move |signal: AsrSignal| {
            let AsrSignal { seq, is_final, transcript } = signal;
            vec![Event::Recognised { run, seq, is_final, transcript }]
        }));
        self.remember(run, cancel, Feed::Recogniser { input, fed: samples_at(from) });
        self.feed_recognisers();
    }

    fn decode(&mut self, run: RunId, seq: u32, is_final: bool) {
        self.feed_recognisers();
        let Some(Started { feed: Feed::Recogniser { input, .. }, cancel }) = self.runs.get(&run)
        else {
            return;
        };
        // A recogniser too far behind to be asked is too slow to be of use.
        if input.try_send(AsrInput::Decode { seq, is_final }).is_err() && is_final {
            cancel.cancel();
        }
    }

    fn judge_turn(&mut self, utterance: UtteranceId, seq: u32) {
        let Some(model) = self.service.backends().and_then(|b| b.end_of_turn.clone()) else {
            return;
        };
        self.service.metrics.bypassed(Bypass::EndOfTurn);
        let judged = duration_to_samples(JUDGED, CALLER_RATE_HZ) as u64;
        let sound = self.sound.since(self.sound.end().saturating_sub(judged));
        let events = self.events_out.clone();
        let service = self.service.clone();
        tokio::spawn(async move {
            let Ok(_slot) = service.judges.acquire().await else { return };
            let judged = tokio::task::spawn_blocking(move || model.finished(&sound)).await;
            if let Ok(probability) = judged {
                let _ = events.send(Event::TurnJudged { utterance, seq, probability }).await;
            }
        });
    }

    fn start_model(&mut self, run: RunId, request: ModelRequest) {
        let llm: Option<Arc<dyn Llm>> = self.service.backends().map(|b| b.llm.clone());
        let Some(llm) = llm else { return self.cannot_start(run, "language model") };
        let (out, signals) = mpsc::channel(SIGNALS_MAX);
        let cancel = Cancel::new();
        let stop = cancel.clone();
        let task = lazily(move || llm.run(request, out, stop));
        let watch = self.watch(run, Stage::Model, cancel.clone());
        tokio::spawn(watch.carry(task, signals, move |signal: ModelSignal| {
            vec![match signal {
                ModelSignal::Text(text) => Event::Wrote { run, text },
                ModelSignal::ToolCall(call) => Event::Wanted { run, call },
                ModelSignal::Finished { finish, usage } => Event::Finished { run, finish, usage },
            }]
        }));
        self.remember(run, cancel, Feed::Nothing);
    }

    fn start_voice(&mut self, run: RunId, voice: Option<String>, speed: f32) {
        let tts: Option<Arc<dyn Tts>> = self.service.backends().and_then(|b| b.tts.clone());
        let Some(tts) = tts else { return self.cannot_start(run, "synthesiser") };
        let (input, input_out) = mpsc::channel(PHRASES_MAX);
        let (out, signals) = mpsc::channel(SIGNALS_MAX);
        let cancel = Cancel::new();
        let options = TtsOptions { voice, language: self.profile.language.clone(), speed };
        let stop = cancel.clone();
        let task = lazily(move || tts.run(options, input_out, out, stop));
        let mut watch = self.watch(run, Stage::Synthesis, cancel.clone());
        watch.ahead = Some(self.ahead.clone());
        let mut converter = Converter::to(self.call.settings().out_rate_hz);
        tokio::spawn(watch.carry(task, signals, move |signal: TtsSignal| {
            vec![match signal {
                TtsSignal::Audio { phrase, pcm } => {
                    Event::Sounded { run, phrase, samples: converter.convert(pcm) }
                }
                TtsSignal::PhraseDone { phrase, words } => {
                    Event::PhraseSounded { run, phrase, words }
                }
            }]
        }));
        self.remember(run, cancel, Feed::Voice { input });
    }

    fn say(&mut self, run: RunId, index: u32, text: String) {
        if let Some(Started { feed: Feed::Voice { input }, cancel }) = self.runs.get(&run)
            && input.try_send(Phrase { index, text }).is_err()
        {
            // More phrases than any answer has, or a synthesiser that has ended: its end tells.
            cancel.cancel();
        }
    }

    fn start_tool(&mut self, run: RunId, tool: ToolId, arguments: String, key: String) {
        let found = self.service.backends().and_then(|b| b.tools.get(usize::from(tool.0)).cloned());
        let Some((_, tool_impl)) = found else { return self.cannot_start(run, "such tool") };
        let tool_impl: Arc<dyn Tool> = tool_impl;
        let (out, signals) = mpsc::channel::<ToolOutcome>(1);
        let cancel = Cancel::new();
        let stop = cancel.clone();
        let task: Run = Box::pin(async move {
            let running = tool_impl.run(arguments, key, stop);
            let (outcome, ended): (ToolOutcome, Ended) = running.await;
            // The receiver is read until this run has ended.
            let _ = out.send(outcome).await;
            ended
        });
        let watch = self.watch(run, Stage::Tool(tool), cancel.clone());
        tokio::spawn(
            watch.carry(task, signals, move |outcome| vec![Event::ToolReturned { run, outcome }]),
        );
        self.remember(run, cancel, Feed::Nothing);
    }

    /// A prompt's sound was rendered ahead: it needs nothing scarce and is here at once.
    fn start_prompt(&mut self, run: RunId, prompt: &str) {
        self.service.metrics.bypassed(Bypass::Prompt);
        let rate_hz = self.call.settings().out_rate_hz;
        let samples = self.service.prompts.sound(prompt, &self.profile.language, rate_hz);
        self.at_once.push_back(Event::Sounded { run, phrase: 0, samples });
        self.at_once.push_back(Event::PhraseSounded { run, phrase: 0, words: Vec::new() });
        let proof = Ok(Evidence::Completed);
        self.at_once.push_back(Event::Ended { run, proof, fault: None });
    }

    fn close(&mut self, run: RunId) {
        let Some(started) = self.runs.get_mut(&run) else { return };
        match std::mem::replace(&mut started.feed, Feed::Nothing) {
            // Dropping the sender is the end of its input, also when the queue is full.
            Feed::Recogniser { input, .. } => drop(input.try_send(AsrInput::Close)),
            Feed::Voice { input } => drop(input),
            Feed::Human { .. } | Feed::Nothing => {}
        }
    }

    fn cancel(&mut self, run: RunId, why: Cancelled) {
        let Some(started) = self.runs.get_mut(&run) else { return };
        started.cancel.cancel();
        if let Feed::Human { .. } = started.feed
            && let Feed::Human { given_up } = std::mem::replace(&mut started.feed, Feed::Nothing)
        {
            let _ = given_up.send(why); // it may have ended by itself
        }
    }
}

/// A run that is made where it runs: what goes wrong in making it is the provider's fault as well.
fn lazily(make: impl FnOnce() -> Run + Send + 'static) -> Run {
    Box::pin(async move { make().await })
}

/// Brings a synthesiser's sound to the leg's rate.
pub(super) struct Converter {
    to_hz: u32,
    from: Option<(u32, Resampler)>,
}

impl Converter {
    pub fn to(to_hz: u32) -> Converter {
        Converter { to_hz, from: None }
    }

    pub fn convert(&mut self, pcm: Pcm) -> Vec<i16> {
        if pcm.rate_hz == self.to_hz {
            return pcm.samples;
        }
        let fresh = self.from.as_ref().is_none_or(|(rate_hz, _)| *rate_hz != pcm.rate_hz);
        if fresh {
            self.from = Some((pcm.rate_hz, Resampler::new(pcm.rate_hz, self.to_hz)));
        }
        let mut out = Vec::with_capacity(
            pcm.samples.len() * self.to_hz as usize / pcm.rate_hz.max(1) as usize + 16,
        );
        if let Some((_, resampler)) = &mut self.from {
            resampler.push(&pcm.samples, &mut out);
        }
        out
    }
}
