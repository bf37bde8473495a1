//! The scripted providers in virtual time: runs started by actions, their signals due at their own
//! instants.

use std::collections::BTreeMap;
use std::time::Duration;

use super::counterparts::{self, ArrangeRun};
use super::script::Behind;
use crate::admission::OfferId;
use crate::call::{Action, Event};
use crate::config::Config;
use crate::evidence::{Evidence, Unknown};
use crate::fallback::Rung;
use crate::id::{RunId, Stage};
use crate::provider::asr::AsrInput;
use crate::provider::llm::ModelSignal;
use crate::provider::scripted::{
    AsrRun, AsrScript, Effects, LlmRun, LlmScript, Output, ToolRun, ToolScript, TtsRun, TtsScript,
};
use crate::provider::tts::{Phrase, TtsOptions, TtsSignal};
use crate::provider::{BuildError, Ended};
use crate::time::Timestamp;

/// Every scripted provider of a simulated process, and what runs.
pub(super) struct Workers {
    llm: LlmScript,
    tts: TtsScript,
    asr: AsrScript,
    /// By their place in the process's table; the others are not scripted.
    tools: BTreeMap<u16, ToolScript>,
    evidence: BTreeMap<Stage, Duration>,
    pub effects: Effects,
    runs: BTreeMap<RunId, Worker>,
    counts: [u32; 6],
    behind: Behind,
    /// Promises made so far, of either kind.
    promises: u32,
}

struct Worker {
    run: Running,
    stage: Stage,
    unit: Option<(Stage, OfferId)>,
    /// Where in the caller's sound it began to listen.
    from: Duration,
    /// Proof must have come by then; set by a cancel.
    overdue: Option<Timestamp>,
    /// The call was told that nothing is known.
    unknown: bool,
}

enum Running {
    Asr(Box<AsrRun>),
    Llm(Box<LlmRun>),
    Tts(Box<TtsRun>),
    Tool(Box<ToolRun>),
    Rung(Box<ArrangeRun>),
}

/// What the caller says in an utterance.
pub(super) struct Utterance {
    /// All of it.
    pub words: String,
    /// How long it has taken so far.
    pub so_far: Duration,
}

/// What comes out of a run.
pub(super) enum Came {
    /// For the call.
    Event(Event),
    /// Late proof, for the gate.
    Late(Stage, OfferId, Evidence),
}

impl Worker {
    /// When it has something to say, or has had its time.
    fn next_at(&self) -> Option<Timestamp> {
        let own = match &self.run {
            Running::Asr(run) => run.next_at(),
            Running::Llm(run) => run.next_at(),
            Running::Tts(run) => run.next_at(),
            Running::Tool(run) => run.next_at(),
            Running::Rung(run) => run.next_at(),
        };
        let overdue = self.overdue.filter(|_| !self.unknown);
        own.into_iter().chain(overdue).min()
    }
}

impl Workers {
    pub fn new(config: &Config, behind: &Behind) -> Result<Workers, BuildError> {
        let mut tools = BTreeMap::new();
        for (at, tool) in config.tools.values().enumerate() {
            if tool.provider == "scripted" {
                tools.insert(at as u16, ToolScript::from_table(&tool.table)?);
            }
        }
        Ok(Workers {
            llm: LlmScript::from_table(&config.llm.table)?,
            tts: TtsScript::from_table(&config.tts.table)?,
            asr: AsrScript::from_table(&config.asr.table)?,
            tools,
            evidence: config
                .gates()
                .into_iter()
                .map(|(stage, _)| (stage, config.gate_limits(stage).evidence))
                .collect(),
            effects: Effects::default(),
            runs: BTreeMap::new(),
            counts: [0; 6],
            behind: behind.clone(),
            promises: 0,
        })
    }

    /// The scripted tools, by their ids.
    pub fn tools(&self) -> &BTreeMap<u16, ToolScript> {
        &self.tools
    }

    /// How many runs of a stage have not ended, whatever the call was told of them.
    pub fn running_at(&self, stage: Stage) -> usize {
        self.runs.values().filter(|worker| worker.stage == stage).count()
    }

    /// The stages of the runs that have not ended.
    pub fn stages(&self) -> impl Iterator<Item = Stage> {
        self.runs.values().map(|worker| worker.stage)
    }

    /// The run that was started on this unit has not ended.
    pub fn holds(&self, offer: OfferId) -> bool {
        self.runs.values().any(|worker| worker.unit.is_some_and(|(_, unit)| unit == offer))
    }

    /// How many runs of a stage have not ended, and the call was told that nothing is known.
    pub fn unknown_at(&self, stage: Stage) -> usize {
        self.runs.values().filter(|worker| worker.stage == stage && worker.unknown).count()
    }

    fn nth(&mut self, kind: usize) -> u32 {
        self.counts[kind] += 1;
        self.counts[kind] - 1
    }

    fn add(&mut self, run: RunId, stage: Stage, unit: Option<(Stage, OfferId)>, running: Running) {
        let worker = Worker {
            run: running,
            stage,
            unit,
            from: Duration::ZERO,
            overdue: None,
            unknown: false,
        };
        self.runs.insert(run, worker);
    }

    /// Carries out an action that concerns a provider. `said` is what the caller says in the
    /// utterance.
    pub fn start(
        &mut self,
        now: Timestamp,
        action: &Action,
        unit: Option<(Stage, OfferId)>,
        said: impl FnOnce(Duration) -> Utterance,
    ) {
        match action {
            Action::Recognise { run, from } => {
                let nth = self.nth(0);
                let utterance = said(*from);
                let mut asr = self.asr.start_with_text(now, nth, Some(&utterance.words));
                asr.hear_for(utterance.so_far);
                self.add(*run, Stage::Recognition, unit, Running::Asr(Box::new(asr)));
                if let Some(worker) = self.runs.get_mut(run) {
                    worker.from = *from;
                }
            }
            Action::Think { run, request } => {
                let nth = self.nth(1);
                let llm = self.llm.start(now, nth, request);
                self.add(*run, Stage::Model, unit, Running::Llm(Box::new(llm)));
            }
            Action::Voice { run, voice, speed } => {
                let nth = self.nth(2);
                let (voice, language) = (voice.clone(), "en".to_owned());
                let options = TtsOptions { voice, language, speed: *speed };
                let tts = self.tts.start(now, nth, &options);
                self.add(*run, Stage::Synthesis, unit, Running::Tts(Box::new(tts)));
            }
            Action::UseTool { run, tool, idempotency_key, .. } => {
                let nth = self.nth(3);
                let Some(script) = self.tools.get(&tool.0) else { return };
                let tool_run = script.start(now, nth, idempotency_key);
                self.add(*run, Stage::Tool(*tool), unit, Running::Tool(Box::new(tool_run)));
            }
            Action::Arrange { run, wish } => {
                let (kind, stage) = match wish.rung {
                    Rung::Handoff => (5, Stage::Handoff),
                    _ => (4, Stage::Callback),
                };
                let nth = self.nth(kind);
                let arranging = match stage {
                    Stage::Handoff => self.behind.human.start(now, nth),
                    _ => self.behind.callbacks.start(now, nth),
                };
                self.add(*run, stage, unit, Running::Rung(Box::new(arranging)));
            }
            other => self.feed(now, other, said),
        }
    }

    fn feed(&mut self, now: Timestamp, action: &Action, said: impl FnOnce(Duration) -> Utterance) {
        match action {
            Action::Decode { run, seq, is_final } => {
                let from = self.runs.get(run).map(|worker| worker.from).unwrap_or_default();
                if let Some(Running::Asr(asr)) = self.running(*run) {
                    asr.set_text(&said(from).words);
                    asr.hear(now, &AsrInput::Decode { seq: *seq, is_final: *is_final });
                }
            }
            Action::Say { run, phrase, text } => {
                if let Some(Running::Tts(tts)) = self.running(*run) {
                    tts.say(now, Phrase { index: *phrase, text: text.clone() });
                }
            }
            Action::Close { run } => match self.running(*run) {
                Some(Running::Asr(asr)) => asr.hear(now, &AsrInput::Close),
                Some(Running::Tts(tts)) => tts.close_input(now),
                Some(Running::Llm(_) | Running::Tool(_) | Running::Rung(_)) | None => {}
            },
            Action::Cancel { run, .. } => self.cancel(now, *run),
            Action::Tell(_)
            | Action::Fence { .. }
            | Action::Recognise { .. }
            | Action::JudgeTurn { .. }
            | Action::Think { .. }
            | Action::Voice { .. }
            | Action::UseTool { .. }
            | Action::Prompt { .. }
            | Action::Arrange { .. }
            | Action::ForgetSound => {}
        }
    }

    fn running(&mut self, run: RunId) -> Option<&mut Running> {
        self.runs.get_mut(&run).map(|worker| &mut worker.run)
    }

    fn cancel(&mut self, now: Timestamp, run: RunId) {
        let Some(worker) = self.runs.get_mut(&run) else { return };
        let patience = self.evidence.get(&worker.stage).copied().unwrap_or_default();
        worker.overdue = Some(now + patience);
        match &mut worker.run {
            Running::Asr(run) => run.cancel(now),
            Running::Llm(run) => run.cancel(now),
            Running::Tts(run) => run.cancel(now),
            Running::Tool(run) => run.cancel(now),
            Running::Rung(run) => run.cancel(now),
        }
    }

    /// The caller has been heard for so much longer.
    pub fn hear_for(&mut self, span: Duration) {
        for worker in self.runs.values_mut() {
            if let Running::Asr(asr) = &mut worker.run {
                asr.hear_for(span);
            }
        }
    }

    /// When something is due.
    pub fn next_at(&self) -> Option<Timestamp> {
        self.runs.values().filter_map(Worker::next_at).min()
    }

    /// What is due next, of the run that was started first; empty when nothing is.
    pub fn poll(&mut self, now: Timestamp) -> Vec<Came> {
        let mut from = RunId(0);
        loop {
            let is_due = |worker: &Worker| worker.next_at().is_some_and(|at| at <= now);
            let due = self.runs.range(from..).find(|(_, worker)| is_due(worker));
            let Some(id) = due.map(|(id, _)| *id) else { return Vec::new() };
            let came = self.poll_run(now, id);
            if !came.is_empty() {
                return came;
            }
            from = RunId(id.0 + 1);
        }
    }

    fn poll_run(&mut self, now: Timestamp, id: RunId) -> Vec<Came> {
        let Some(worker) = self.runs.get_mut(&id) else { return Vec::new() };
        let came = match &mut worker.run {
            Running::Asr(run) => run.poll(now).map(|out| match out {
                Output::Ended(ended) => Err(ended),
                Output::Signal(signal) => Ok(Event::Recognised {
                    run: id,
                    seq: signal.seq,
                    is_final: signal.is_final,
                    transcript: signal.transcript,
                }),
            }),
            Running::Llm(run) => run.poll(now).map(|out| match out {
                Output::Ended(ended) => Err(ended),
                Output::Signal(signal) => Ok(written(id, signal)),
            }),
            Running::Tts(run) => run.poll(now).map(|out| match out {
                Output::Ended(ended) => Err(ended),
                Output::Signal(signal) => Ok(sounded(id, signal)),
            }),
            Running::Tool(run) => match run.poll(now, &mut self.effects) {
                Some((outcome, ended)) => {
                    let returned = Came::Event(Event::ToolReturned { run: id, outcome });
                    return vec![returned, self.ended(id, ended)];
                }
                None => None,
            },
            Running::Rung(run) => run.poll(now, &mut self.promises).map(|out| match out {
                counterparts::Output::Ended(ended) => Err(ended),
                counterparts::Output::Arranged(what) => Ok(Event::Arranged { run: id, what }),
            }),
        };
        match came {
            Some(Ok(event)) => vec![Came::Event(event)],
            Some(Err(ended)) => vec![self.ended(id, ended)],
            None if worker.overdue.is_some_and(|at| at <= now) && !worker.unknown => {
                worker.unknown = true;
                let proof = Err(Unknown::CancelTimeout);
                vec![Came::Event(Event::Ended { run: id, proof, fault: None })]
            }
            None => Vec::new(),
        }
    }

    fn ended(&mut self, id: RunId, ended: Ended) -> Came {
        let Ended { proof, fault } = ended;
        match (self.runs.remove(&id), proof) {
            (Some(Worker { unknown: true, unit: Some((stage, offer)), .. }), Ok(evidence)) => {
                Came::Late(stage, offer, evidence)
            }
            _ => Came::Event(Event::Ended { run: id, proof, fault }),
        }
    }
}

fn written(run: RunId, signal: ModelSignal) -> Event {
    match signal {
        ModelSignal::Text(text) => Event::Wrote { run, text },
        ModelSignal::ToolCall(call) => Event::Wanted { run, call },
        ModelSignal::Finished { finish, usage } => Event::Finished { run, finish, usage },
    }
}

fn sounded(run: RunId, signal: TtsSignal) -> Event {
    match signal {
        TtsSignal::Audio { phrase, pcm } => Event::Sounded { run, phrase, samples: pcm.samples },
        TtsSignal::PhraseDone { phrase, words } => Event::PhraseSounded { run, phrase, words },
    }
}
