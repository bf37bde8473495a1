//! Why a store says no, and why it cannot be opened: typed, with a stable code.

use super::handoffs::HandoffState;
use super::mutant;
use super::record::{State, UnixMs, words};
use crate::id::{CallbackId, HandoffId};

words! {
    /// What there is no room in.
    Place {
        /// As many callbacks are open as may be.
        Records = "records",
        /// The store is behind: as many requests wait for it as may.
        Inbox = "inbox",
    }
}

/// The store can promise nothing now. Reads go on where they can.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Sealed {
    /// No room on the disk. Ends by itself when there is room again.
    #[error("disk full")]
    DiskFull,
    /// Another program holds the file's write lock. Ends by itself.
    #[error("locked by another program")]
    Locked,
    /// The database is not reachable. Ends by itself when it is again.
    #[error("connection lost: {0}")]
    ConnectionLost(String),
    /// A write or a flush failed: what is on the disk is in doubt until a restart has read it.
    #[error("disk error: {0}; restart the server once the disk is sound")]
    Io(String),
    /// The store has ended.
    #[error("stopped")]
    Stopped,
}

impl Sealed {
    /// Its stable name.
    pub fn label(&self) -> &'static str {
        match self {
            Sealed::DiskFull => "disk_full",
            Sealed::Locked => "locked",
            Sealed::ConnectionLost(_) => "connection_lost",
            Sealed::Io(_) => "io",
            Sealed::Stopped => "stopped",
        }
    }

    /// It ends without a restart.
    pub fn may_end(&self) -> bool {
        matches!(self, Sealed::DiskFull | Sealed::Locked | Sealed::ConnectionLost(_))
            || mutant::is("flush_tried_again")
    }
}

/// Whether the store takes promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It does.
    Open,
    /// It does not.
    Sealed(Sealed),
}

/// Why a request changed nothing. A refusal consumes nothing: no quota, no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The request itself is wrong.
    #[error("{field}: {problem}")]
    Bad {
        /// Which part of it.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// There is no room for anybody.
    #[error("full: {0}")]
    Full(Place),
    /// There is no room in bytes.
    #[error("full: bytes")]
    Bytes,
    /// This tenant has as many open callbacks as it may.
    #[error("this tenant has as many open callbacks as it may")]
    TenantFull,
    /// This destination has as many open callbacks as it may, over all tenants.
    #[error("this destination has as many open callbacks as it may")]
    DestinationFull,
    /// This destination already has an open callback of this tenant.
    #[error("the destination already has an open callback, {existing}")]
    Duplicate {
        /// That one.
        existing: CallbackId,
    },
    /// The key was used for something else.
    #[error("the idempotency key was used for something else, {existing}")]
    KeyReused {
        /// That one.
        existing: CallbackId,
    },
    /// Its time has passed.
    #[error("expired at {at_ms}")]
    Expired {
        /// When.
        at_ms: UnixMs,
    },
    /// Somebody else has claimed it since.
    #[error("the claim is of an old epoch; now it is {current}")]
    StaleEpoch {
        /// The epoch in force.
        current: u64,
    },
    /// The claim's time has passed.
    #[error("the claim's lease lapsed at {at_ms}")]
    LeaseLapsed {
        /// When.
        at_ms: UnixMs,
    },
    /// It is not where this could be done.
    #[error("it is {state}")]
    WrongState {
        /// Where it is.
        state: State,
    },
    /// The handoff is not where this could be done.
    #[error("it is {state}")]
    HandoffIs {
        /// Where it is.
        state: HandoffState,
    },
    /// The call is already being handed over.
    #[error("the call is already being handed over, {existing}")]
    HandoffOpen {
        /// That one.
        existing: HandoffId,
    },
    /// There is none of this name.
    #[error("there is no such record")]
    NotFound,
    /// What is to be replayed is no dead letter, or no more.
    #[error("it is no dead letter")]
    NotDead,
    /// The store can promise nothing now.
    #[error("sealed: {0}")]
    Sealed(Sealed),
    /// The record could not be read.
    #[error("cannot be read: {0}")]
    Unreadable(String),
}

impl Refused {
    /// Every code there is, for tables and tests.
    pub const LABELS: [&'static str; 15] = [
        "bad_request",
        "full",
        "bytes",
        "tenant_full",
        "destination_full",
        "duplicate",
        "key_reused",
        "expired",
        "stale_epoch",
        "lease_lapsed",
        "wrong_state",
        "not_found",
        "not_dead",
        "sealed",
        "unreadable",
    ];

    /// Its stable code.
    pub fn label(&self) -> &'static str {
        match self {
            Refused::Bad { .. } => "bad_request",
            Refused::Full(_) => "full",
            Refused::Bytes => "bytes",
            Refused::TenantFull => "tenant_full",
            Refused::DestinationFull => "destination_full",
            Refused::Duplicate { .. } | Refused::HandoffOpen { .. } => "duplicate",
            Refused::KeyReused { .. } => "key_reused",
            Refused::Expired { .. } => "expired",
            Refused::StaleEpoch { .. } => "stale_epoch",
            Refused::LeaseLapsed { .. } => "lease_lapsed",
            Refused::WrongState { .. } | Refused::HandoffIs { .. } => "wrong_state",
            Refused::NotFound => "not_found",
            Refused::NotDead => "not_dead",
            Refused::Sealed(_) => "sealed",
            Refused::Unreadable(_) => "unreadable",
        }
    }

    /// Part of a request that is wrong.
    pub(crate) fn bad(field: &'static str, problem: impl Into<String>) -> Refused {
        Refused::Bad { field, problem: problem.into() }
    }
}

/// Why there is no store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// A key of the configuration is wrong.
    #[error("{key}: {problem}; {right}")]
    Config {
        /// The key, with its table: `store.path`.
        key: String,
        /// What is wrong.
        problem: String,
        /// What would be right.
        right: String,
    },
    /// Another process has it.
    #[error(
        "{place} is in use by another process{holder}; every server needs a store.path of its own"
    )]
    InUse {
        /// The file.
        place: String,
        /// ` (pid 12)`, where it is known.
        holder: String,
    },
    /// It was written by a later version.
    #[error(
        "{place} has schema {found} and this server knows up to {known}: it was written by a later \
         version, which is needed to read it; nothing was changed"
    )]
    Newer {
        /// The file or database.
        place: String,
        /// Its schema.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// It is not what it should be.
    #[error(
        "{place} is damaged or no callback store ({detail}); nothing was changed: restore it or move it away"
    )]
    Damaged {
        /// The file or database.
        place: String,
        /// What was found.
        detail: String,
    },
    /// It cannot be reached, made or written.
    #[error("{place} cannot be opened: {detail}")]
    Unreachable {
        /// The file or database.
        place: String,
        /// Why.
        detail: String,
    },
}
