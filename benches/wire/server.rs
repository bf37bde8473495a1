//! The real server as it is set up for a part of the benchmark.

use std::path::PathBuf;

use crate::child::Server;
use crate::scripted;

/// Who finds out that the caller has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detection {
    /// The client commits: no voice activity detection.
    Off,
    /// The server, with its own detector.
    Silero,
}

impl Detection {
    pub fn name(self) -> &'static str {
        match self {
            Detection::Off => "off",
            Detection::Silero => "silero",
        }
    }

    /// Where the client takes its own turns no detector listens, whichever is configured.
    fn setting(self) -> &'static str {
        match self {
            Detection::Off => "vad.detector=earshot",
            Detection::Silero => "vad.detector=silero",
        }
    }
}

/// `binary serve` with this detection.
pub fn real(binary: Option<&PathBuf>, detection: Detection) -> Result<Server, String> {
    let name = format!("floorkeeper, detection {}", detection.name());
    scripted::start(binary, &name, &[detection.setting()])
}
