//! Why the caller cannot have what they asked for.

use crate::admission::disposition::REASONS;
use crate::admission::{Closed, Overload, RefusalReason};
use crate::fault::Fault;
use crate::id::{Stage, ToolId};

/// Why the caller cannot have what they asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A gate said no.
    Refusal {
        /// Which.
        stage: Stage,
        /// Why.
        reason: RefusalReason,
    },
    /// A provider failed.
    Fault {
        /// At which stage.
        stage: Stage,
        /// [`Fault::label`].
        label: &'static str,
    },
    /// The turn waited past its deadline.
    TurnExpired {
        /// At which stage.
        stage: Stage,
    },
    /// It still waits at a gate, and the caller has to be told something now.
    StillQueued {
        /// At which.
        stage: Stage,
    },
    /// Nothing audible came within the turn's budget.
    BudgetSpent,
    /// A human was asked and does not take the caller.
    NotReached(NotReached),
    /// The call itself comes to its end.
    CallEnds(CallEnd),
}

/// How a handoff failed: each is told in words of its own (B93).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NotReached {
    /// Everybody is occupied.
    Busy,
    /// Nobody answered.
    NoAnswer,
    /// Who was asked said no.
    Declined,
    /// A machine answered.
    Voicemail,
    /// Nobody acknowledged in time.
    Timeout,
}

impl NotReached {
    /// Every way.
    pub const ALL: [NotReached; 5] = [
        NotReached::Busy,
        NotReached::NoAnswer,
        NotReached::Declined,
        NotReached::Voicemail,
        NotReached::Timeout,
    ];

    /// The stable label of API, records and metrics.
    pub fn label(self) -> &'static str {
        match self {
            NotReached::Busy => "busy",
            NotReached::NoAnswer => "no_answer",
            NotReached::Declined => "declined",
            NotReached::Voicemail => "voicemail",
            NotReached::Timeout => "timeout",
        }
    }
}

/// Why a call comes to its end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallEnd {
    /// It has lasted as long as a call may.
    TimeOver,
    /// Nobody has spoken for long.
    Idle,
    /// The server's drain window closes.
    Drained,
    /// Something broke on our side.
    Broken,
}

impl Cause {
    /// The stage that it happened at, where there is one.
    pub fn stage(&self) -> Option<Stage> {
        match *self {
            Cause::Refusal { stage, .. }
            | Cause::Fault { stage, .. }
            | Cause::TurnExpired { stage }
            | Cause::StillQueued { stage } => Some(stage),
            Cause::NotReached(_) => Some(Stage::Handoff),
            Cause::BudgetSpent | Cause::CallEnds(_) => None,
        }
    }

    /// The stable dotted label of ladder, traces and records: `overloaded.no_queue`, `fault.slow`,
    /// …
    pub fn label(&self) -> &'static str {
        match self {
            Cause::Refusal { reason, .. } => refusal_label(*reason),
            Cause::Fault { label, .. } => fault_label(label),
            Cause::TurnExpired { .. } => "turn_expired",
            Cause::StillQueued { .. } => "queued",
            Cause::BudgetSpent => "budget_spent",
            Cause::NotReached(NotReached::Busy) => "handoff.busy",
            Cause::NotReached(NotReached::NoAnswer) => "handoff.no_answer",
            Cause::NotReached(NotReached::Declined) => "handoff.declined",
            Cause::NotReached(NotReached::Voicemail) => "handoff.voicemail",
            Cause::NotReached(NotReached::Timeout) => "handoff.timeout",
            Cause::CallEnds(CallEnd::TimeOver) => "ends.time_over",
            Cause::CallEnds(CallEnd::Idle) => "ends.idle",
            Cause::CallEnds(CallEnd::Drained) => "ends.drained",
            Cause::CallEnds(CallEnd::Broken) => "ends.broken",
        }
    }

    /// The label is the pattern or lies below it: `overloaded` stands for `overloaded.no_queue` as
    /// well.
    pub fn is(&self, pattern: &str) -> bool {
        lies_below(self.label(), pattern)
    }

    /// One cause of every kind: what tables, tests and the lint go through.
    pub fn all() -> Vec<Cause> {
        let stages = [
            Stage::Call,
            Stage::Recognition,
            Stage::Model,
            Stage::Synthesis,
            Stage::Tool(ToolId(0)),
            Stage::Callback,
            Stage::Handoff,
        ];
        let ends = [CallEnd::TimeOver, CallEnd::Idle, CallEnd::Drained, CallEnd::Broken];
        let mut all = vec![Cause::BudgetSpent];
        all.extend(ends.map(Cause::CallEnds));
        all.extend(NotReached::ALL.map(Cause::NotReached));
        for stage in stages {
            all.extend(REASONS.map(|reason| Cause::Refusal { stage, reason }));
            all.extend(faults().map(|fault| Cause::Fault { stage, label: fault.label() }));
            all.push(Cause::TurnExpired { stage });
            all.push(Cause::StillQueued { stage });
        }
        all
    }
}

fn faults() -> [Fault; 5] {
    [
        Fault::Slow { deadline: "total" },
        Fault::Lost { detail: String::new() },
        Fault::Rejected { status: 500, retry_after_ms: None },
        Fault::Garbled { detail: String::new() },
        Fault::Empty,
    ]
}

fn refusal_label(reason: RefusalReason) -> &'static str {
    match reason {
        RefusalReason::Overloaded(Overload::NoQueue) => "overloaded.no_queue",
        RefusalReason::Overloaded(Overload::QueueFull) => "overloaded.queue_full",
        RefusalReason::Overloaded(Overload::Bytes) => "overloaded.bytes",
        RefusalReason::Overloaded(Overload::TenantShare) => "overloaded.tenant_share",
        RefusalReason::Overloaded(Overload::UpstreamPressure) => "overloaded.upstream_pressure",
        RefusalReason::Expired => "expired",
        RefusalReason::Stale => "stale",
        RefusalReason::OutOfOrder => "out_of_order",
        RefusalReason::Closed(Closed::Draining) => "closed.draining",
        RefusalReason::Closed(Closed::Maintenance) => "closed.maintenance",
        RefusalReason::Closed(Closed::NotReady) => "closed.not_ready",
        RefusalReason::Closed(Closed::NoCapacity) => "closed.no_capacity",
        RefusalReason::Duplicate => "duplicate",
    }
}

fn fault_label(label: &str) -> &'static str {
    match label {
        "slow" => "fault.slow",
        "lost" => "fault.lost",
        "rejected" => "fault.rejected",
        "garbled" => "fault.garbled",
        "empty" => "fault.empty",
        _ => "fault",
    }
}

/// `overloaded.no_queue` lies below `overloaded`, below itself, and below `*`.
pub(super) fn lies_below(label: &str, pattern: &str) -> bool {
    let below = label.strip_prefix(pattern);
    pattern == "*" || below.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
