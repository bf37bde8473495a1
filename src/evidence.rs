//! What proves that a resource is free again, and what proves that a promise may be spoken.
//!
//! A lease returns its unit only on [`Evidence`] (A-003, A-113…A-120). A timer, a dropped guard or
//! a client that hung up is no evidence: it makes the lease [`Unknown`].

use std::fmt;

use crate::id::{CallbackId, HandoffId};

/// Proof that the operation which held a unit no longer uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Evidence {
    /// The operation ran to its own end.
    Completed,
    /// The backend acknowledged an abort by this request's name.
    AbortAcknowledged,
    /// After a cancel the backend closed the stream: end of file or reset seen by us.
    StreamClosedByBackend,
    /// Nothing was ever sent to the backend.
    NeverStarted,
    /// The worker that ran it was replaced and the old one cannot act any more.
    WorkerReplaced,
    /// An operator said so.
    Operator,
    /// Weak: we closed the connection and the backend's documentation says that this aborts.
    /// Counted apart.
    DocumentedAbort,
}

impl Evidence {
    /// Every kind, for tables and tests.
    pub const ALL: [Evidence; 7] = [
        Evidence::Completed,
        Evidence::AbortAcknowledged,
        Evidence::StreamClosedByBackend,
        Evidence::NeverStarted,
        Evidence::WorkerReplaced,
        Evidence::Operator,
        Evidence::DocumentedAbort,
    ];

    /// The stable label of metrics, traces and the API.
    pub fn label(self) -> &'static str {
        match self {
            Evidence::Completed => "completed",
            Evidence::AbortAcknowledged => "abort_acknowledged",
            Evidence::StreamClosedByBackend => "stream_closed_by_backend",
            Evidence::NeverStarted => "never_started",
            Evidence::WorkerReplaced => "worker_replaced",
            Evidence::Operator => "operator",
            Evidence::DocumentedAbort => "documented_abort",
        }
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// Why nothing is known of a lease's resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unknown {
    /// No evidence came within `evidence_ms` after the cancel.
    CancelTimeout,
    /// The connection broke on our side before the backend could say anything.
    ConnectionLost,
    /// The task that held the lease panicked or forgot it.
    Dropped,
}

impl Unknown {
    /// Every cause, for tables and tests.
    pub const ALL: [Unknown; 3] =
        [Unknown::CancelTimeout, Unknown::ConnectionLost, Unknown::Dropped];

    /// The stable label of metrics, traces and the API.
    pub fn label(self) -> &'static str {
        match self {
            Unknown::CancelTimeout => "cancel_timeout",
            Unknown::ConnectionLost => "connection_lost",
            Unknown::Dropped => "dropped",
        }
    }
}

/// How a provider stops a running operation, and what that proves (DESIGN section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelEvidence {
    /// Shut our write half, read and discard; end of file or reset is the evidence.
    HalfClose,
    /// Let it run out and discard what comes.
    Drain,
    /// Ask the backend what it is doing.
    Reconcile,
    /// Close, and trust the documentation (weak).
    DocumentedAbort,
}

/// Proof that a callback is on record: its commit has completed, durably (C-008). Only `store/` and
/// `sim/` can make one, so "we will call you back" cannot be said without it.
#[derive(Debug, PartialEq, Eq)]
pub struct CallbackReceipt {
    id: CallbackId,
}

impl CallbackReceipt {
    /// To be called behind a completed commit only.
    pub(crate) fn committed(id: CallbackId) -> CallbackReceipt {
        CallbackReceipt { id }
    }

    /// The callback on record.
    pub fn id(&self) -> CallbackId {
        self.id
    }
}

/// Proof that somebody has said that they take the caller, and that this is on record.
#[derive(Debug, PartialEq, Eq)]
pub struct HandoffAck {
    id: HandoffId,
}

impl HandoffAck {
    /// To be called behind a received and recorded acknowledgement only.
    pub(crate) fn received(id: HandoffId) -> HandoffAck {
        HandoffAck { id }
    }

    /// The handoff that was acknowledged.
    pub fn id(&self) -> HandoffId {
        self.id
    }
}
