//! How the world can fail us. A fault is no refusal (policy said no) and no bug (an invariant
//! broke).

use std::fmt;

/// Why a provider's run did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing came within the named deadline (`connect`, `first_byte`, `total`, …).
    Slow {
        /// Which deadline ran out.
        deadline: &'static str,
    },
    /// The connection could not be made or broke.
    Lost {
        /// What the operating system or the library said.
        detail: String,
    },
    /// The backend answered, and the answer was no.
    Rejected {
        /// Its HTTP status, or the nearest thing it has.
        status: u16,
        /// How long it asked us to wait, where it did.
        retry_after_ms: Option<u64>,
    },
    /// The backend answered something that is not its protocol, or an endless or oversized answer.
    Garbled {
        /// What was wrong with it.
        detail: String,
    },
    /// The backend finished well and delivered nothing.
    Empty,
}

impl Fault {
    /// A stable short label for metrics, traces and events.
    pub fn label(&self) -> &'static str {
        match self {
            Fault::Slow { .. } => "slow",
            Fault::Lost { .. } => "lost",
            Fault::Rejected { .. } => "rejected",
            Fault::Garbled { .. } => "garbled",
            Fault::Empty => "empty",
        }
    }

    /// The backend itself says that it is overloaded (429 or 503).
    pub fn is_overload(&self) -> bool {
        matches!(self, Fault::Rejected { status: 429 | 503, .. })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Slow { deadline } => write!(f, "slow: the {deadline} deadline ran out"),
            Fault::Lost { detail } => write!(f, "lost: {detail}"),
            Fault::Rejected { status, .. } => write!(f, "rejected with status {status}"),
            Fault::Garbled { detail } => write!(f, "garbled: {detail}"),
            Fault::Empty => f.write_str("empty: it finished and delivered nothing"),
        }
    }
}

impl std::error::Error for Fault {}
