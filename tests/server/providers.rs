//! Providers that tests look into, or that break.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use floorkeeper::audio::level_dbfs;
use floorkeeper::dialogue::{Effect, Message, ModelRequest, Role};
use floorkeeper::provider::asr::{Asr, AsrInput, AsrOptions, AsrSignal};
use floorkeeper::provider::ear::{Detector, Listening};
use floorkeeper::provider::llm::{Llm, ModelSignal};
use floorkeeper::provider::tool::{Tool, ToolRun};
use floorkeeper::provider::tts::{Phrase, Tts, TtsOptions, TtsSignal};
use floorkeeper::provider::{Cancel, Run};
use serde_json::Value;
use tokio::sync::mpsc;

/// A model that remembers what it was asked.
pub struct Recorded {
    inner: Arc<dyn Llm>,
    requests: Mutex<Vec<ModelRequest>>,
}

impl Recorded {
    pub fn over(inner: Arc<dyn Llm>) -> Arc<Recorded> {
        Arc::new(Recorded { inner, requests: Mutex::default() })
    }

    /// The request whose last question this was.
    pub fn asked(&self, question: &str) -> Option<ModelRequest> {
        let is_it = |request: &&ModelRequest| {
            let last = request.history.iter().rev().find_map(|message| match message {
                Message::Said { role: Role::User, text } => Some(text.as_str()),
                _ => None,
            });
            last == Some(question)
        };
        self.requests.lock().unwrap().iter().find(is_it).cloned()
    }

    /// How often it was asked.
    #[allow(dead_code, reason = "of some of the test binaries")]
    pub fn times_asked(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    /// The agent's last words in the newest request.
    #[allow(dead_code, reason = "of some of the test binaries")]
    pub fn last_words_of_newest(&self) -> String {
        self.requests
            .lock()
            .unwrap()
            .last()
            .map(|last| last_words(last).to_owned())
            .unwrap_or_default()
    }
}

impl Llm for Recorded {
    fn run(
        self: Arc<Self>,
        request: ModelRequest,
        out: mpsc::Sender<ModelSignal>,
        cancel: Cancel,
    ) -> Run {
        self.requests.lock().unwrap().push(request.clone());
        self.inner.clone().run(request, out, cancel)
    }
}

/// The agent's last words in a request.
pub fn last_words(request: &ModelRequest) -> &str {
    let said = request.history.iter().rev().find_map(|message| match message {
        Message::Said { role: Role::Assistant, text } => Some(text.as_str()),
        _ => None,
    });
    said.unwrap_or_default()
}

/// Takes everything loud for speech.
pub struct Loud;

impl Detector for Loud {
    fn listen(&self) -> Box<dyn Listening> {
        Box::new(Loud)
    }
}

impl Listening for Loud {
    fn window(&self) -> usize {
        512
    }

    fn hear(&mut self, window: &[i16]) -> f32 {
        if level_dbfs(window) > -30.0 { 1.0 } else { 0.0 }
    }

    fn skip(&mut self, _samples: usize) {}
}

/// Breaks at the first sound: inside the call's own task.
pub struct BrokenEar;

impl Detector for BrokenEar {
    fn listen(&self) -> Box<dyn Listening> {
        Box::new(BrokenEar)
    }
}

impl Listening for BrokenEar {
    fn window(&self) -> usize {
        512
    }

    fn hear(&mut self, _window: &[i16]) -> f32 {
        panic!("the ear breaks, as this test wants")
    }

    fn skip(&mut self, _samples: usize) {}
}

/// Where a provider breaks in its first run; later runs are whole.
#[derive(Clone, Copy)]
pub enum Breaks {
    AtOnce,
    WhileItRuns,
}

/// A provider that counts how often it was begun, and breaks the first time where it is to.
pub struct Counted<T: ?Sized> {
    inner: Arc<T>,
    breaks: Option<Breaks>,
    runs: Arc<AtomicU32>,
}

impl<T: ?Sized> Counted<T> {
    /// Breaks once.
    pub fn breaking(inner: Arc<T>, breaks: Breaks) -> Arc<Counted<T>> {
        Arc::new(Counted { inner, breaks: Some(breaks), runs: Arc::default() })
    }

    /// Stays whole.
    pub fn whole(inner: Arc<T>, runs: &Arc<AtomicU32>) -> Arc<Counted<T>> {
        Arc::new(Counted { inner, breaks: None, runs: runs.clone() })
    }

    fn begun(&self, run: impl FnOnce(Arc<T>) -> Run) -> Run {
        let is_first = self.runs.fetch_add(1, Ordering::SeqCst) == 0;
        match self.breaks.filter(|_| is_first) {
            None => run(self.inner.clone()),
            Some(Breaks::AtOnce) => panic!("the provider breaks at once, as this test wants"),
            Some(Breaks::WhileItRuns) => Box::pin(async {
                tokio::task::yield_now().await;
                panic!("the provider breaks while it runs, as this test wants")
            }),
        }
    }
}

impl Llm for Counted<dyn Llm> {
    fn run(
        self: Arc<Self>,
        request: ModelRequest,
        out: mpsc::Sender<ModelSignal>,
        cancel: Cancel,
    ) -> Run {
        self.begun(|inner| inner.run(request, out, cancel))
    }
}

impl Tts for Counted<dyn Tts> {
    fn run(
        self: Arc<Self>,
        options: TtsOptions,
        input: mpsc::Receiver<Phrase>,
        out: mpsc::Sender<TtsSignal>,
        cancel: Cancel,
    ) -> Run {
        self.begun(|inner| inner.run(options, input, out, cancel))
    }
}

impl Asr for Counted<dyn Asr> {
    fn run(
        self: Arc<Self>,
        options: AsrOptions,
        input: mpsc::Receiver<AsrInput>,
        out: mpsc::Sender<AsrSignal>,
        cancel: Cancel,
    ) -> Run {
        self.begun(|inner| inner.run(options, input, out, cancel))
    }

    fn gives_partials(&self) -> bool {
        self.breaks.is_none() && self.inner.gives_partials()
    }
}

impl Tool for Counted<dyn Tool> {
    fn description(&self) -> String {
        self.inner.description()
    }

    fn parameters(&self) -> Value {
        self.inner.parameters()
    }

    fn effect(&self) -> Effect {
        self.inner.effect()
    }

    fn run(self: Arc<Self>, arguments: String, idempotency_key: String, cancel: Cancel) -> ToolRun {
        assert!(self.breaks.is_none(), "no test breaks a tool");
        self.runs.fetch_add(1, Ordering::SeqCst);
        self.inner.clone().run(arguments, idempotency_key, cancel)
    }
}
