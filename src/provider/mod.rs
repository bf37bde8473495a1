//! The ports to the speech and language world: ears, recognisers, models, synthesisers, tools.
//!
//! A provider knows nothing of calls, turns, generations or admission. It is asked for one run at a
//! time, reports through a bounded channel, and says at the end what its end *proves* ([`Ended`]).
//! The runtime stamps whose run it is; lateness is then a comparison somewhere else, never a race
//! here.
//!
//! A plug-in is one file and one line in its folder's table.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::evidence::{Evidence, Unknown};
use crate::fault::Fault;

pub mod asr;
pub mod ear;
pub mod keys;
pub mod llm;
pub mod models;
pub mod onnx;
pub mod openai;
pub mod scripted;
mod table;
pub mod tls;
pub mod tool;
pub mod tts;

/// A request to stop. Stopping is thrift: whatever still comes is suppressed elsewhere.
pub type Cancel = CancellationToken;

/// One run of a provider. The future ends when the provider's resource is free or can say no more.
pub type Run = Pin<Box<dyn Future<Output = Ended> + Send>>;

/// How a run ended, and what that proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Proof that the resource is free, or why nothing is known of it.
    pub proof: Result<Evidence, Unknown>,
    /// What went wrong, where something did.
    pub fault: Option<Fault>,
}

impl Ended {
    /// It ran to its own end.
    pub fn completed() -> Ended {
        Ended { proof: Ok(Evidence::Completed), fault: None }
    }

    /// It ended on request, with this proof.
    pub fn stopped(evidence: Evidence) -> Ended {
        Ended { proof: Ok(evidence), fault: None }
    }

    /// It failed; the proof says whether its resource is known to be free.
    pub fn failed(fault: Fault, proof: Result<Evidence, Unknown>) -> Ended {
        Ended { proof, fault: Some(fault) }
    }
}

/// What a provider's builder is given beside its own table of the configuration.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Where fetched models lie (`models.dir`).
    pub models_dir: PathBuf,
    /// Voice and language of the default agent, as hints.
    pub language: String,
}

/// A line of a plug-in table: the only place where the plug-in's name exists.
pub struct Entry<T: ?Sized> {
    /// What the configuration calls it.
    pub name: &'static str,
    /// What it is, in a few words, for `floorkeeper check` and the docs.
    pub about: &'static str,
    /// Makes it from its own table; may block (it may load a model).
    pub build: fn(&toml::Table, &Surroundings) -> Result<Arc<T>, BuildError>,
}

/// Why a provider cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// A key of its table is wrong.
    #[error("{key}: {problem}; {right}")]
    Config {
        /// The key within the provider's table.
        key: String,
        /// What is wrong.
        problem: String,
        /// What would be right.
        right: String,
    },
    /// Something it needs is not on this machine (a model, a library, a program).
    #[error("{what} is missing: {detail}")]
    Missing {
        /// What.
        what: String,
        /// Why, and how to get it.
        detail: String,
    },
}

/// The entry of this name, or a message with the names there are.
pub fn find<T: ?Sized>(
    table: &'static [Entry<T>],
    key: &str,
    name: &str,
) -> Result<&'static Entry<T>, BuildError> {
    table.iter().find(|entry| entry.name == name).ok_or_else(|| BuildError::Config {
        key: key.to_owned(),
        problem: format!("there is no provider \"{name}\""),
        right: format!(
            "one of: {}",
            table.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ")
        ),
    })
}
