//! What one gate is allowed to let through: limits as meant, which cannot contradict themselves.

use std::time::Duration;

use crate::id::ClassId;

/// Highest ceiling that may be configured (B-016).
pub const SLOTS_MAX: u32 = 100_000;
/// Deepest queue that may be configured (B-037).
pub const QUEUE_MAX: u32 = 65_536;
/// Longest time that may be configured, in milliseconds (B-038).
pub const TIME_MAX_MS: u64 = 3_600_000;
/// Most classes one gate tells apart.
pub const CLASSES_MAX: usize = 8;

/// Everything that is configured about one gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Whether the gate decides, only counts, or does neither (B-011…B-014).
    pub mode: Mode,
    /// How many units may execute.
    pub slots: Slots,
    /// How many offers may wait; 0 refuses at once.
    pub queue: u32,
    /// How many bytes the waiting offers may keep.
    pub queue_bytes: u64,
    /// How old an offer may get while it waits, counted from its birth.
    pub max_wait_ms: u64,
    /// What happens when a bound of the queue is met.
    pub overflow: Overflow,
    /// Who of the waiting goes next.
    pub fairness: Fairness,
    /// The ceiling in force follows the evidence of its backends (B-045).
    pub adaptive: bool,
    /// Workload classes with an order or capacity of their own; classes not named share the rest.
    pub classes: Vec<ClassRule>,
    /// A waiter older than this goes before every class order (C-036).
    pub aging_ms: Option<u64>,
    /// How long the ends of offers are remembered.
    pub tombstones: Tombstones,
    /// Whether an offer may be admitted at once.
    pub intake: Intake,
}

impl Default for Limits {
    /// Enforce, one unit, no queue: what a gate does that nobody configured.
    fn default() -> Self {
        Limits {
            mode: Mode::Enforce,
            slots: Slots::Units(1),
            queue: 0,
            queue_bytes: 4 * 1_024 * 1_024,
            max_wait_ms: 5_000,
            overflow: Overflow::Reject,
            fairness: Fairness::Fifo,
            adaptive: false,
            classes: Vec::new(),
            aging_ms: None,
            tombstones: Tombstones::default(),
            intake: Intake::AtOnce,
        }
    }
}

impl Limits {
    /// Enforced limits of `slots` units and `queue` waiters.
    pub fn of(slots: u32, queue: u32) -> Self {
        Limits { slots: Slots::Units(slots), queue, ..Limits::default() }
    }

    /// The age limit in the queue.
    pub fn max_wait(&self) -> Duration {
        Duration::from_millis(self.max_wait_ms)
    }

    /// Says what is impossible about these limits, by the key it is configured under.
    ///
    /// `queue > 0` with `max_wait_ms = 0` is legal here and refused by the configuration.
    pub fn check(&self) -> Result<(), LimitsError> {
        if let Slots::Units(slots) = self.slots {
            at_most("slots", slots.into(), SLOTS_MAX.into())?;
        }
        at_most("queue", self.queue.into(), QUEUE_MAX.into())?;
        at_most("max_wait_ms", self.max_wait_ms, TIME_MAX_MS)?;
        at_most("aging_ms", self.aging_ms.unwrap_or(0), TIME_MAX_MS)?;
        at_most("classes", self.classes.len() as u64, CLASSES_MAX as u64)?;
        if let Fairness::HardCap { tenant_share_pct } = self.fairness {
            between("tenant_share_pct", tenant_share_pct.into(), 1, 100)?;
        }
        let reserved: u64 = self.classes.iter().map(|rule| u64::from(rule.reserved)).sum();
        if let Slots::Units(slots) = self.slots {
            at_most("reserved", reserved, slots.into())?;
        }
        Ok(())
    }
}

fn at_most(field: &'static str, got: u64, max: u64) -> Result<(), LimitsError> {
    between(field, got, 0, max)
}

fn between(field: &'static str, got: u64, min: u64, max: u64) -> Result<(), LimitsError> {
    if (min..=max).contains(&got) { Ok(()) } else { Err(LimitsError { field, got, min, max }) }
}

/// A limit outside its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {got}; it must be between {min} and {max}")]
pub struct LimitsError {
    /// The key it is configured under.
    pub field: &'static str,
    /// What was asked for.
    pub got: u64,
    /// The least that is possible.
    pub min: u64,
    /// The most that is possible.
    pub max: u64,
}

/// Whether a gate decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Admit everything, count what runs.
    Off,
    /// Decide and count everything, admit everything.
    Observe,
    /// Decide.
    Enforce,
}

impl Mode {
    /// The word of configuration and API.
    pub fn label(self) -> &'static str {
        match self {
            Mode::Off => "off",
            Mode::Observe => "observe",
            Mode::Enforce => "enforce",
        }
    }
}

/// How many units may execute at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slots {
    /// As many as are offered.
    Unlimited,
    /// This many; 0 means that there is no capacity at all.
    Units(u32),
}

impl Slots {
    /// The number, where there is one.
    pub fn units(self) -> Option<u32> {
        match self {
            Slots::Unlimited => None,
            Slots::Units(units) => Some(units),
        }
    }
}

/// What happens when a bound of the queue is met (C-022).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// The newcomer is refused.
    Reject,
    /// A newer offer with the same supersession key takes the place of the waiting older one.
    Replace,
    /// Waiting offers that a newer one with the same key has superseded make room.
    Shed,
}

impl Overflow {
    /// The word of configuration and API.
    pub fn label(self) -> &'static str {
        match self {
            Overflow::Reject => "reject",
            Overflow::Replace => "replace",
            Overflow::Shed => "shed",
        }
    }
}

/// Who of the waiting goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fairness {
    /// The oldest arrival.
    Fifo,
    /// The oldest arrival whose tenant is under its share; the share binds even when units idle
    /// (B-060…B-067).
    HardCap {
        /// Share of the ceiling in force and of the queue, rounded up, at least one.
        tenant_share_pct: u8,
    },
    /// The tenant that has had the fewest slot-seconds; no unit idles while anybody waits.
    Fair,
}

impl Fairness {
    /// The word of configuration and API.
    pub fn label(self) -> &'static str {
        match self {
            Fairness::Fifo => "fifo",
            Fairness::HardCap { .. } => "hard_cap",
            Fairness::Fair => "fair",
        }
    }
}

/// `pct` per cent of `whole`, rounded up, at least one (B-060).
pub fn share_of(whole: u32, pct: u8) -> u32 {
    let share = (u64::from(whole) * u64::from(pct)).div_ceil(100);
    u32::try_from(share).unwrap_or(u32::MAX).max(1)
}

/// What one workload class is promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassRule {
    /// Which class.
    pub class: ClassId,
    /// Units that no other class may take.
    pub reserved: u32,
    /// Lower goes first among the waiting; classes without a rule have 100.
    pub rank: u8,
}

/// How long the ends of offers are remembered, so that late events get a typed answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tombstones {
    /// At most this many.
    pub count: usize,
    /// At most this long.
    pub age_ms: u64,
}

impl Default for Tombstones {
    fn default() -> Self {
        Tombstones { count: 4_096, age_ms: 60_000 }
    }
}

/// Whether an offer may be admitted at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intake {
    /// Admitted when a unit is free and nobody waits; releases wake waiters by themselves.
    AtOnce,
    /// Every offer waits until a `take`, and only a `take` expires: how operation traces are
    /// replayed.
    QueueFirst,
}

/// What becomes of the waiting when intake closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseMode {
    /// They keep their place and may still be admitted.
    FinishQueue,
    /// They end now, `cancelled{drain}`.
    EndQueue,
}
