//! ONNX Runtime: the library is loaded once, from the model store, and never takes the process
//! down.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use ort::environment::Environment;
use ort::session::Session;
use ort::session::builder::GraphOptimizationLevel;

use crate::provider::BuildError;
use crate::provider::models::{self, MOONSHINE, RUNTIME_LIBRARY};

/// One per process; the library keeps process-wide state of its own.
static ENVIRONMENT: Mutex<Option<Environment>> = Mutex::new(None);

/// Opens a model for one thread of work at a time. Blocks while the model is read.
pub fn session(models_dir: &Path, model: &Path) -> Result<Session, BuildError> {
    let environment = environment(models_dir)?;
    guarded("this model", || {
        Session::builder(&environment)?
            .with_intra_threads(1)?
            .with_optimization_level(GraphOptimizationLevel::All)?
            .commit_from_file(model)
    })
    .map_err(|detail| missing(&model.display().to_string(), detail))
}

/// As [`session`], for a model that is already in memory.
pub fn session_from_bytes(
    models_dir: &Path,
    name: &str,
    model: &[u8],
) -> Result<Session, BuildError> {
    let environment = environment(models_dir)?;
    guarded("this model", || {
        Session::builder(&environment)?
            .with_intra_threads(1)?
            .with_optimization_level(GraphOptimizationLevel::All)?
            .commit_from_memory(model)
    })
    .map_err(|detail| missing(name, detail))
}

/// The runtime can be loaded from this store.
pub fn available(models_dir: &Path) -> Result<(), BuildError> {
    environment(models_dir).map(|_| ())
}

fn environment(models_dir: &Path) -> Result<Environment, BuildError> {
    let mut slot = lock(&ENVIRONMENT);
    if let Some(environment) = &*slot {
        return Ok(environment.clone());
    }
    let library = models::locate(models_dir, &MOONSHINE, RUNTIME_LIBRARY)?;
    let loaded = guarded("the library", || {
        let builder =
            ort::init_from(&library).map_err(|error| ort::Error::new(error.to_string()))?;
        builder.with_name("floorkeeper").with_telemetry(false).build()
    })
    .map_err(|detail| missing("ONNX Runtime", detail))?;
    *slot = Some(loaded.clone());
    Ok(loaded)
}

/// A wrong library makes the binding panic in places; here that is one more reason why it is
/// missing.
fn guarded<T>(what: &str, load: impl FnOnce() -> ort::Result<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(load)) {
        Ok(Ok(loaded)) => Ok(loaded),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("{what} does not fit the binding")),
    }
}

fn missing(what: &str, detail: String) -> BuildError {
    BuildError::Missing { what: what.to_owned(), detail }
}

/// A lock whose data stays valid whatever its last holder did: a session keeps no state between
/// runs.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A few sessions of one model, for callers that come at the same time. A session runs one request
/// at a time; a caller takes whichever is idle and waits only when all are busy.
pub struct Sessions {
    sessions: Vec<Mutex<Session>>,
    next: AtomicUsize,
}

impl Sessions {
    /// Opens the model `count` times, at least once.
    pub fn open(models_dir: &Path, model: &Path, count: usize) -> Result<Sessions, BuildError> {
        let sessions = (0..count.max(1))
            .map(|_| session(models_dir, model).map(Mutex::new))
            .collect::<Result<_, _>>()?;
        Ok(Sessions { sessions, next: AtomicUsize::new(0) })
    }

    /// Runs `work` with an idle session, or with the first that becomes idle of those it waits for.
    pub fn with<T>(&self, work: impl FnOnce(&mut Session) -> T) -> T {
        let count = self.sessions.len();
        let first = self.next.fetch_add(1, Ordering::Relaxed) % count;
        let idle =
            (0..count).find_map(|step| match self.sessions[(first + step) % count].try_lock() {
                Ok(session) => Some(session),
                Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            });
        let mut session = idle.unwrap_or_else(|| lock(&self.sessions[first]));
        work(&mut session)
    }
}
