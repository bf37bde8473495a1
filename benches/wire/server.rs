//! The two servers: the floor, and the real one as it is set up for a part of the benchmark.

use std::path::Path;

use crate::child::Server;
use crate::floor::{self, Echo};

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

/// The floor in a process of its own.
pub fn bare(echo: Echo) -> Result<Server, String> {
    Server::floor(floor::MODE, echo.name())
}

/// `binary serve` with this detection.
pub fn real(binary: &Path, detection: Detection) -> Result<Server, String> {
    let name = format!("floorkeeper, detection {}", detection.name());
    Server::real(binary, name, &[detection.setting().to_owned()])
}
