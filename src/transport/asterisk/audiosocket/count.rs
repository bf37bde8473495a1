//! What came and went no further, by why.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why something was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// A frame of a kind that is not known here.
    UnknownKind,
    /// A frame whose content is none of its kind's.
    Malformed,
    /// A frame longer than any sound of 20 ms by far: its connection is over.
    TooLong,
    /// A connection that did not begin with a UUID.
    NotUuid,
    /// A connection that said nothing in time.
    NothingSaid,
    /// A connection from an address that may not call.
    Stranger,
    /// A connection beyond those that there is room for.
    NoRoom,
}

impl Count {
    /// Each of them.
    pub const ALL: [Count; 7] = [
        Count::UnknownKind,
        Count::Malformed,
        Count::TooLong,
        Count::NotUuid,
        Count::NothingSaid,
        Count::Stranger,
        Count::NoRoom,
    ];

    /// The stable label of the metrics.
    pub fn label(self) -> &'static str {
        match self {
            Count::UnknownKind => "unknown_kind",
            Count::Malformed => "malformed",
            Count::TooLong => "too_long",
            Count::NotUuid => "not_uuid",
            Count::NothingSaid => "nothing_said",
            Count::Stranger => "stranger",
            Count::NoRoom => "no_room",
        }
    }
}

/// How often each happened.
#[derive(Debug, Default)]
pub struct Counts([AtomicU64; Count::ALL.len()]);

impl Counts {
    /// It happened once more.
    pub fn add(&self, what: Count) {
        self.0[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How often this did.
    pub fn of(&self, what: Count) -> u64 {
        self.0[what as usize].load(Ordering::Relaxed)
    }
}
