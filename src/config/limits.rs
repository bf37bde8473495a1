//! The limits of each stage's gate: `[limits.call]`, `[limits.model]`, `[limits.tools.book]`, …

use std::collections::BTreeMap;
use std::time::Duration;

use toml::Value;

use super::classes::Classes;
use super::reader::{Ask, Choice, Reader, told, whole};
use crate::admission::limits::ClassRule;

/// Everything that is said of one gate.
pub const LIMIT_KEYS: [&str; 14] = [
    "mode",
    "slots",
    "queue",
    "queue_bytes",
    "max_wait_ms",
    "overflow",
    "fairness",
    "tenant_share_pct",
    "adaptive",
    "ttft_target_ms",
    "telemetry_stale_ms",
    "warmup_ms",
    "evidence_ms",
    "aging_ms",
];
/// Most units a ceiling may have.
pub const SLOTS_MAX: u64 = 100_000;
/// Most offers a queue may hold.
pub const QUEUE_MAX: u64 = 65_536;
/// Longest time of any limit, in milliseconds.
pub const LIMIT_MS_MAX: u64 = 3_600_000;
/// Most bytes a queue may hold.
const QUEUE_BYTES_MAX: u64 = 64 * 1024 * 1024 * 1024;

/// Every gate's limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Whole conversations.
    pub call: GateLimits,
    /// Speech to text, a unit an utterance.
    pub recognition: GateLimits,
    /// The language model, a unit a run.
    pub model: GateLimits,
    /// Text to speech, a unit a turn.
    pub synthesis: GateLimits,
    /// What holds for every tool that says nothing else.
    pub tools: GateLimits,
    /// Each tool's own, complete: what it does not say is taken from `tools`.
    pub tool: BTreeMap<String, GateLimits>,
    /// Durable promises to ring back.
    pub callback: GateLimits,
    /// Callers given to a human.
    pub handoff: GateLimits,
}

/// What one gate is allowed.
#[derive(Clone, Debug, PartialEq)]
pub struct GateLimits {
    /// Whether the gate decides.
    pub mode: Mode,
    /// Units there are.
    pub slots: Slots,
    /// Offers that may wait; 0 refuses at once.
    pub queue: u32,
    /// Bytes that what waits may keep.
    pub queue_bytes: u64,
    /// How long an offer may wait.
    pub max_wait: Duration,
    /// What happens when a newer offer meets a queued one.
    pub overflow: Overflow,
    /// Who goes first.
    pub fairness: Fairness,
    /// Share of units and of the queue that one tenant may have, 1 to 100.
    pub tenant_share_pct: u8,
    /// The ceiling moves with what the backend reports.
    pub adaptive: bool,
    /// Time to first token above which the ceiling is cut; zero leaves it out.
    pub ttft_target: Duration,
    /// Reports older than this move nothing.
    pub telemetry_stale: Duration,
    /// Time over which a returning endpoint's ceiling rises to its full height.
    pub warmup: Duration,
    /// How long after a cancel evidence may take before the lease is unknown.
    pub evidence: Duration,
    /// Who has waited longer than this goes before every order of classes; zero is never.
    pub aging: Duration,
    /// What classes are promised here.
    pub classes: Vec<ClassRule>,
}

/// Whether a gate decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It admits everything and only exports its state.
    Off,
    /// It decides and counts, admits everything, and says what enforcing would have done.
    Observe,
    /// It decides.
    Enforce,
}

/// How many units there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slots {
    /// This many; none closes the gate (`no_capacity`, X-17).
    Limited(u32),
    /// As many as are asked for.
    Unlimited,
}

/// What happens when a newer offer meets a queued one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// A full queue refuses the newer one.
    Reject,
    /// The newer one takes the place of a queued one with the same supersession key.
    Replace,
    /// What is past its deadline or superseded is dropped.
    Shed,
}

/// Who goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fairness {
    /// Whoever came first.
    Fifo,
    /// As `Fifo`, and no tenant above its share, also when the rest is idle.
    HardCap,
    /// Every tenant gets the same slot-seconds, none are wasted.
    Fair,
}

impl Choice for Mode {
    const ALL: &'static [(&'static str, Mode)] =
        &[("off", Mode::Off), ("observe", Mode::Observe), ("enforce", Mode::Enforce)];
}

impl Choice for Overflow {
    const ALL: &'static [(&'static str, Overflow)] =
        &[("reject", Overflow::Reject), ("replace", Overflow::Replace), ("shed", Overflow::Shed)];
}

impl Choice for Fairness {
    const ALL: &'static [(&'static str, Fairness)] =
        &[("fifo", Fairness::Fifo), ("hard_cap", Fairness::HardCap), ("fair", Fairness::Fair)];
}

impl Limits {
    /// The limits of a tool.
    pub fn of_tool(&self, name: &str) -> &GateLimits {
        self.tool.get(name).unwrap_or(&self.tools)
    }

    /// What is legal and has no effect.
    pub(super) fn warnings(&self) -> Vec<String> {
        let fixed = [
            ("call", &self.call),
            ("recognition", &self.recognition),
            ("model", &self.model),
            ("synthesis", &self.synthesis),
            ("tools", &self.tools),
            ("callback", &self.callback),
            ("handoff", &self.handoff),
        ];
        let mut said = Vec::new();
        for (name, gate) in fixed {
            if gate.adaptive && gate.slots == Slots::Unlimited {
                said.push(format!("limits.{name}.adaptive moves nothing: slots are unlimited"));
            }
            if gate.tenant_share_pct < 100 && gate.fairness != Fairness::HardCap {
                said.push(format!(
                    "limits.{name}.tenant_share_pct has no effect without fairness = \"hard_cap\""
                ));
            }
        }
        said
    }

    /// Reads every gate. The slots are a judgement for a two-core laptop with the embedded chain:
    /// what it holds without the caller hearing it, not what it could be made to queue.
    pub(super) fn read(reader: &mut Reader<'_>, tools: &[String], classes: &Classes) -> Limits {
        let mut limits = Limits {
            call: gate(reader, &["call"], 200, 16),
            recognition: gate(reader, &["recognition"], 32, 0),
            model: gate(reader, &["model"], 64, 0),
            synthesis: gate(reader, &["synthesis"], 64, 0),
            tools: gate(reader, &["tools"], TOOL_SLOTS, 0),
            callback: gate(reader, &["callback"], 1_000, 0),
            handoff: gate(reader, &["handoff"], 4, 0),
            tool: tools.iter().map(|tool| (tool.clone(), tool_gate(reader, tool))).collect(),
        };
        let fixed = [
            ("call", &mut limits.call),
            ("recognition", &mut limits.recognition),
            ("model", &mut limits.model),
            ("synthesis", &mut limits.synthesis),
            ("tools", &mut limits.tools),
            ("callback", &mut limits.callback),
            ("handoff", &mut limits.handoff),
        ];
        let of_tools = limits.tool.values_mut().map(|gate| ("tools", gate));
        for (name, gate) in fixed.into_iter().chain(of_tools) {
            gate.classes = classes.rules(name);
            classes.check(reader, name, gate);
        }
        limits
    }
}

const TOOL_SLOTS: u64 = 16;

fn tool_gate(reader: &mut Reader<'_>, tool: &str) -> GateLimits {
    gate(reader, &[&format!("tools.{tool}"), "tools"], TOOL_SLOTS, 0)
}

/// Reads one gate's table; the tables behind the first speak for what it does not say.
fn gate(reader: &mut Reader<'_>, tables: &[&str], slots: u64, queue: u64) -> GateLimits {
    let ask = |key: &str| Ask {
        keys: tables.iter().map(|table| format!("limits.{table}.{key}")).collect(),
        inherit_word: true,
    };
    let limits = GateLimits {
        mode: reader.choice(ask("mode"), "enforce"),
        slots: read_slots(reader, ask("slots"), slots),
        queue: reader.number(ask("queue"), queue, 0..=QUEUE_MAX, "a number of offers") as u32,
        queue_bytes: reader.bytes(ask("queue_bytes"), 4 << 20, 0..=QUEUE_BYTES_MAX),
        max_wait: reader.ms(ask("max_wait_ms"), 5_000, 0..=LIMIT_MS_MAX),
        overflow: reader.choice(ask("overflow"), "reject"),
        fairness: reader.choice(ask("fairness"), "fifo"),
        tenant_share_pct: reader.number(ask("tenant_share_pct"), 100, 1..=100, "a share") as u8,
        adaptive: reader.flag(ask("adaptive"), false),
        ttft_target: reader.ms(ask("ttft_target_ms"), 0, 0..=LIMIT_MS_MAX),
        telemetry_stale: reader.ms(ask("telemetry_stale_ms"), 30_000, 1..=LIMIT_MS_MAX),
        warmup: reader.ms(ask("warmup_ms"), 0, 0..=LIMIT_MS_MAX),
        evidence: reader.ms(ask("evidence_ms"), 2_000, 1..=LIMIT_MS_MAX),
        aging: reader.ms(ask("aging_ms"), 0, 0..=LIMIT_MS_MAX),
        classes: Vec::new(),
    };
    if limits.queue > 0 && limits.max_wait.is_zero() {
        let key = format!("limits.{}.max_wait_ms", tables[0]);
        let problem = format!("a queue of {} needs a time to wait, and this is 0", limits.queue);
        reader.refuse(&key, problem, "write at least 1, or queue = 0 to refuse at once");
    }
    limits
}

fn read_slots(reader: &mut Reader<'_>, ask: Ask, default: u64) -> Slots {
    let right = format!(
        "write a number from 0 (closed) to {SLOTS_MAX}, \"unlimited\", or \"inherit\" to leave it \
         to the environment or the default"
    );
    let parse = |value: &Value| match value.as_str() {
        Some("unlimited") => Ok(Slots::Unlimited),
        Some(_) => Err(format!("{} is no number of slots", told(value))),
        None => whole(value, &(0..=SLOTS_MAX)).map(|slots| Slots::Limited(slots as u32)),
    };
    reader.value(ask, Slots::Limited(default as u32), &right, parse, |slots| match slots {
        Slots::Limited(slots) => Value::Integer(i64::from(*slots)),
        Slots::Unlimited => Value::String("unlimited".to_owned()),
    })
}
