//! Providers that tests look into, or that break.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use floorkeeper::audio::level_dbfs;
use floorkeeper::dialogue::{Message, ModelRequest, Role};
use floorkeeper::provider::asr::{Asr, AsrInput, AsrOptions, AsrSignal};
use floorkeeper::provider::ear::{Detector, Listening};
use floorkeeper::provider::llm::{Llm, ModelSignal};
use floorkeeper::provider::tts::{Phrase, Tts, TtsOptions, TtsSignal};
use floorkeeper::provider::{Cancel, Run};
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

/// A provider that breaks once.
pub struct Broken<T: ?Sized> {
    inner: Arc<T>,
    breaks: Breaks,
    runs: AtomicU32,
}

impl<T: ?Sized> Broken<T> {
    pub fn over(inner: Arc<T>, breaks: Breaks) -> Arc<Broken<T>> {
        Arc::new(Broken { inner, breaks, runs: AtomicU32::new(0) })
    }

    fn run_or_break(&self, run: impl FnOnce(Arc<T>) -> Run) -> Run {
        if self.runs.fetch_add(1, Ordering::SeqCst) > 0 {
            return run(self.inner.clone());
        }
        match self.breaks {
            Breaks::AtOnce => panic!("the provider breaks at once, as this test wants"),
            Breaks::WhileItRuns => Box::pin(async {
                tokio::task::yield_now().await;
                panic!("the provider breaks while it runs, as this test wants")
            }),
        }
    }
}

impl Llm for Broken<dyn Llm> {
    fn run(
        self: Arc<Self>,
        request: ModelRequest,
        out: mpsc::Sender<ModelSignal>,
        cancel: Cancel,
    ) -> Run {
        self.run_or_break(|inner| inner.run(request, out, cancel))
    }
}

impl Tts for Broken<dyn Tts> {
    fn run(
        self: Arc<Self>,
        options: TtsOptions,
        input: mpsc::Receiver<Phrase>,
        out: mpsc::Sender<TtsSignal>,
        cancel: Cancel,
    ) -> Run {
        self.run_or_break(|inner| inner.run(options, input, out, cancel))
    }
}

impl Asr for Broken<dyn Asr> {
    fn run(
        self: Arc<Self>,
        options: AsrOptions,
        input: mpsc::Receiver<AsrInput>,
        out: mpsc::Sender<AsrSignal>,
        cancel: Cancel,
    ) -> Run {
        self.run_or_break(|inner| inner.run(options, input, out, cancel))
    }

    fn gives_partials(&self) -> bool {
        false
    }
}
