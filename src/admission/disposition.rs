//! The one table of dispositions: what each is called, what it is on every wire (X-18, B-068…).

use super::{Cancelled, Closed, OfferId, Overload, RefusalReason, ShedRule, Terminal};

/// What one disposition is called and how it is told outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disposition {
    /// The word: `overloaded`, `expired`, `cancelled`, …
    pub label: &'static str,
    /// Which way of it: `no_queue`, `draining`, `barge_in`, …; empty where there is only one.
    pub reason: &'static str,
    /// HTTP status before an upgrade; 200 for what is no refusal.
    pub http_status: u16,
    /// `code` in the JSON body.
    pub http_code: &'static str,
    /// WebSocket close code after an upgrade.
    pub ws_close: u16,
    /// SIP status; 503 only where the whole node is unavailable.
    pub sip_status: u16,
    /// What `Retry-After` says.
    pub retry: RetryAfter,
    /// Key of the prompt that tells a caller; empty where nobody is told.
    pub prompt: &'static str,
}

/// The rule of `Retry-After` (B-068).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAfter {
    /// No header.
    Never,
    /// One second: a ceiling was met.
    OneSecond,
    /// The mean wait in the queue, between 1 and 30 seconds: the queue was full or the wait ran
    /// out.
    MeanWait,
    /// Five seconds: the server drains.
    Drain,
}

impl RetryAfter {
    /// The seconds, given the gate's mean wait.
    pub fn seconds(self, mean_wait_ms: u64) -> Option<u32> {
        match self {
            RetryAfter::Never => None,
            RetryAfter::OneSecond => Some(1),
            RetryAfter::MeanWait => Some(mean_wait_ms.div_ceil(1_000).clamp(1, 30) as u32),
            RetryAfter::Drain => Some(5),
        }
    }
}

/// Every reason of refusal, in the order of its counters.
pub const REASONS: [RefusalReason; 13] = [
    RefusalReason::Overloaded(Overload::NoQueue),
    RefusalReason::Overloaded(Overload::QueueFull),
    RefusalReason::Overloaded(Overload::Bytes),
    RefusalReason::Overloaded(Overload::TenantShare),
    RefusalReason::Overloaded(Overload::UpstreamPressure),
    RefusalReason::Expired,
    RefusalReason::Stale,
    RefusalReason::OutOfOrder,
    RefusalReason::Closed(Closed::Draining),
    RefusalReason::Closed(Closed::Maintenance),
    RefusalReason::Closed(Closed::NotReady),
    RefusalReason::Closed(Closed::NoCapacity),
    RefusalReason::Duplicate,
];

/// Every kind of end, in the order of its counters.
pub const TERMINALS: [Terminal; 11] = [
    Terminal::Completed,
    Terminal::Failed,
    Terminal::Cancelled(Cancelled::BargeIn),
    Terminal::Cancelled(Cancelled::Superseded),
    Terminal::Cancelled(Cancelled::Client),
    Terminal::Cancelled(Cancelled::HangUp),
    Terminal::Cancelled(Cancelled::Drain),
    Terminal::Expired,
    Terminal::Replaced { by: OfferId(0) },
    Terminal::Shed { rule: ShedRule::PastDeadline },
    Terminal::Shed { rule: ShedRule::Superseded },
];

impl RefusalReason {
    /// Its place in [`REASONS`].
    pub fn index(self) -> usize {
        match self {
            RefusalReason::Overloaded(overload) => overload as usize,
            RefusalReason::Expired => 5,
            RefusalReason::Stale => 6,
            RefusalReason::OutOfOrder => 7,
            RefusalReason::Closed(closed) => 8 + closed as usize,
            RefusalReason::Duplicate => 12,
        }
    }

    /// Its row.
    pub fn disposition(self) -> &'static Disposition {
        &REFUSED[self.index()]
    }
}

impl Terminal {
    /// Its place in [`TERMINALS`].
    pub fn index(self) -> usize {
        match self {
            Terminal::Completed => 0,
            Terminal::Failed => 1,
            Terminal::Cancelled(why) => 2 + why as usize,
            Terminal::Expired => 7,
            Terminal::Replaced { .. } => 8,
            Terminal::Shed { rule } => 9 + rule as usize,
        }
    }

    /// Its row.
    pub fn disposition(self) -> &'static Disposition {
        &ENDED[self.index()]
    }
}

impl std::fmt::Display for Disposition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.reason {
            "" => f.write_str(self.label),
            reason => write!(f, "{}{{{reason}}}", self.label),
        }
    }
}

/// The rows whose work has a place or units.
pub const QUEUED: Disposition =
    told("queued", "", 200, "", 1000, 182, RetryAfter::Never, "wait_queued");
/// See [`QUEUED`].
pub const ADMITTED: Disposition = told("admitted", "", 200, "", 1000, 200, RetryAfter::Never, "");

#[allow(clippy::too_many_arguments)] // a row of the table below, read by column
const fn told(
    label: &'static str,
    reason: &'static str,
    http_status: u16,
    http_code: &'static str,
    ws_close: u16,
    sip_status: u16,
    retry: RetryAfter,
    prompt: &'static str,
) -> Disposition {
    Disposition { label, reason, http_status, http_code, ws_close, sip_status, retry, prompt }
}

const CAPACITY: &str = "admission_capacity";
const TENANT: &str = "admission_tenant_share";
const NO_CAPACITY: &str = "admission_no_capacity";
const TIMEOUT: &str = "admission_queue_timeout";
const DRAINED: &str = "admission_drained";
const BUSY: &str = "retry_busy";
const AWAY: &str = "retry_unavailable";
const LATE: &str = "retry_expired";

use RetryAfter::{Drain, MeanWait, Never, OneSecond};

//    label, reason, HTTP status and code, WebSocket close, SIP, Retry-After, prompt
#[rustfmt::skip]
const REFUSED: [Disposition; REASONS.len()] = [
    told("overloaded", "no_queue", 429, CAPACITY, 1013, 480, OneSecond, BUSY),
    told("overloaded", "queue_full", 429, CAPACITY, 1013, 480, MeanWait, BUSY),
    told("overloaded", "bytes", 429, CAPACITY, 1013, 480, MeanWait, BUSY),
    told("overloaded", "tenant_share", 429, TENANT, 1013, 486, OneSecond, BUSY),
    told("overloaded", "upstream_pressure", 429, CAPACITY, 1013, 480, MeanWait, BUSY),
    told("expired", "", 504, TIMEOUT, 1013, 480, MeanWait, LATE),
    told("stale", "", 409, "admission_stale", 1000, 491, Never, ""),
    told("out_of_order", "", 409, "admission_out_of_order", 1000, 491, Never, ""),
    told("closed", "draining", 503, "draining", 1012, 503, Drain, AWAY),
    told("closed", "maintenance", 503, "draining", 1012, 503, Drain, AWAY),
    told("closed", "not_ready", 503, NO_CAPACITY, 1013, 503, Drain, AWAY),
    told("closed", "no_capacity", 503, NO_CAPACITY, 1013, 503, Drain, AWAY),
    told("duplicate", "", 409, "admission_duplicate", 1000, 482, Never, ""),
];

#[rustfmt::skip]
const ENDED: [Disposition; TERMINALS.len()] = [
    told("completed", "", 200, "", 1000, 200, Never, ""),
    told("failed", "", 502, "backend_failed", 1011, 500, Never, "retry_failed"),
    told("cancelled", "barge_in", 409, "cancelled", 1000, 487, Never, ""),
    told("cancelled", "superseded", 409, "cancelled", 1000, 487, Never, ""),
    told("cancelled", "client", 409, "cancelled", 1000, 487, Never, ""),
    told("cancelled", "hang_up", 409, "cancelled", 1000, 487, Never, ""),
    told("cancelled", "drain", 503, DRAINED, 1012, 503, Drain, AWAY),
    told("expired", "", 504, TIMEOUT, 1013, 480, MeanWait, LATE),
    told("replaced", "", 409, "admission_replaced", 1000, 487, Never, ""),
    told("shed", "past_deadline", 504, TIMEOUT, 1013, 480, MeanWait, LATE),
    told("shed", "superseded", 409, "admission_replaced", 1000, 487, Never, ""),
];
