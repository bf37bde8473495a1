//! Names of things: small, `Copy`, ordered. Text forms exist only at the edges.

use std::fmt::{self, Write as _};

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

number!(
    /// One live conversation over one transport, unique within an incarnation.
    CallId(u64), "call-"
);
number!(
    /// One committed caller utterance and the agent's answer to it; counts from 1 within a call.
    TurnId(u32), "turn-"
);
number!(
    /// Per-call counter, the only authority to speak or act. The greeting is 0.
    Generation(u64), ""
);
number!(
    /// One stretch of the caller's speech; counts from 1 within a call.
    UtteranceId(u32), "utterance-"
);
number!(
    /// One run of a provider for one call: what a signal from outside is stamped with.
    RunId(u32), "run-"
);
number!(
    /// One answer on a protocol's wire (`resp_…`); counts from 1 within a call.
    ResponseId(u32), "response-"
);
number!(
    /// An interned name of who pays: a tenant. 0 is "no tenant".
    TenantId(u32), "tenant-"
);
number!(
    /// An interned workload class. 0 is the default class.
    ClassId(u16), "class-"
);
number!(
    /// A tool, by its place in the process's tool table.
    ToolId(u16), "tool-"
);

macro_rules! durable {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u128);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{:032x}"), self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl $name {
            /// The one that prints so.
            pub fn parse(text: &str) -> Option<$name> {
                let digits = text.strip_prefix($prefix)?;
                let lower = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
                let whole = digits.len() == 32 && digits.bytes().all(lower);
                whole.then(|| u128::from_str_radix(digits, 16).ok().map($name))?
            }
        }
    };
}

durable!(
    /// A callback on record, unique for ever. Its order is the order of acceptance; who has not
    /// been told it cannot guess it.
    CallbackId, "cb_"
);
durable!(
    /// A handoff on record, unique for ever.
    HandoffId, "ho_"
);

impl Generation {
    /// The generation after this one.
    pub fn next(self) -> Generation {
        Generation(self.0 + 1)
    }
}

/// A conversation item's name, as the client or we chose it; kept verbatim.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemId(pub std::sync::Arc<str>);

impl ItemId {
    /// The item of this name.
    pub fn new(name: &str) -> Self {
        ItemId(name.into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A constrained resource with a gate of its own (DESIGN section 1, *stage*).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// The whole conversation; held from admission to proven teardown.
    Call,
    /// Speech to text, one offer an utterance; not touched by rotation.
    Recognition,
    /// The language model.
    Model,
    /// Text to speech, one offer a turn.
    Synthesis,
    /// One tool.
    Tool(ToolId),
    /// A durable promise to ring back.
    Callback,
    /// Giving the caller to a human.
    Handoff,
}

/// What only bytes name, as text: two digits of 16 each.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Stage {
    /// Work of this stage loses its authority when the call's generation rotates (DESIGN section 1,
    /// *generation*).
    pub fn rotates(self) -> bool {
        match self {
            Stage::Model | Stage::Synthesis | Stage::Tool(_) => true,
            Stage::Call | Stage::Recognition | Stage::Callback | Stage::Handoff => false,
        }
    }

    /// The stage's name without a tool's own name: `call`, `model`, `tool`, …
    pub fn kind(self) -> &'static str {
        match self {
            Stage::Call => "call",
            Stage::Recognition => "recognition",
            Stage::Model => "model",
            Stage::Synthesis => "synthesis",
            Stage::Tool(_) => "tool",
            Stage::Callback => "callback",
            Stage::Handoff => "handoff",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stage::Tool(tool) => write!(f, "tool:{}", tool.0),
            other => f.write_str(other.kind()),
        }
    }
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
