//! One operation trace on a gate: names in, the reference's answers out.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::admission::gate::Taken;
use crate::admission::limits::{CloseMode, Intake, Limits, Slots, Tombstones};
use crate::admission::{
    Answer, Cancelled, Closed, Gate, Lease, Offer, OfferId, OwnerId, Place, RefusalReason, Release,
    Settled, Terminal,
};
use crate::evidence::Evidence;
use crate::id::{ClassId, Generation, Stage, TenantId};
use crate::time::Timestamp;

/// Longest name of an offer or an owner, in bytes.
const NAME_MAX: usize = 256;
/// Time zero of a trace, so that times before it can be told apart; one tick is a nanosecond.
const EPOCH_TICKS: i128 = 1 << 62;
/// A span longer than any trace, as `Duration` and `Timestamp` can both hold it.
const FOREVER_MS: u64 = u64::MAX / 1_000;

/// The answer to what no operation can be asked.
pub(super) fn error() -> Value {
    json!({"error": true})
}

/// The order of leases means nothing; every other order does.
pub(super) fn same(want: &Value, got: &Value) -> bool {
    let sorted = |value: &Value| {
        let mut value = value.clone();
        if let Some(leases) = value.get_mut("leases").and_then(Value::as_array_mut) {
            leases.sort_by_key(Value::to_string);
        }
        value
    };
    want == got || sorted(want) == sorted(got)
}

/// An argument no operation can have: the answer is an error, as in the reference.
struct BadArgument;

/// One trace: a gate, and the names its numbers stand for.
pub(super) struct Trace {
    gate: Gate,
    max_age_ticks: u64,
    names: Vec<String>,
    offers: BTreeMap<String, OfferId>,
    owners: BTreeMap<String, OwnerId>,
    leases: BTreeMap<String, Lease>,
}

impl Trace {
    pub(super) fn new(limits: &Value) -> Result<Self, String> {
        let whole = |key: &str| {
            let value = limits.get(key).unwrap_or(&Value::Null);
            let number = value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|&n| n > 0);
            let right = "it must be a whole number from 1 to 4294967295";
            number.ok_or_else(|| format!("limits.{key} is {value}; {right}"))
        };
        let max_age = limits.get("max_age_ms").unwrap_or(&Value::Null);
        let max_age_ticks = ticks(max_age).and_then(|ticks| u64::try_from(ticks).ok());
        let right = "it must be a number of milliseconds, 0 or more";
        let max_age_ticks =
            max_age_ticks.ok_or_else(|| format!("limits.max_age_ms is {max_age}; {right}"))?;
        let limits = Limits {
            slots: Slots::Units(whole("slots")?),
            queue: whole("waiting")?,
            queue_bytes: u64::MAX,
            max_wait_ms: FOREVER_MS,
            tombstones: Tombstones { count: usize::MAX, age_ms: FOREVER_MS },
            intake: Intake::QueueFirst,
            ..Limits::default()
        };
        Ok(Trace {
            gate: Gate::new(Stage::Model, limits),
            max_age_ticks,
            names: Vec::new(),
            offers: BTreeMap::new(),
            owners: BTreeMap::new(),
            leases: BTreeMap::new(),
        })
    }

    /// The answer to one operation; an error is about the file, not the operation.
    pub(super) fn operate(&mut self, op: &str, args: &Value) -> Result<Value, String> {
        let answer = match op {
            "offer" => self.offer(args),
            "take" => self.take(args),
            "release" => self.release(args),
            "rotate" => self.rotate(args),
            "close" => {
                let now = self.gate.now();
                let mode = CloseMode::FinishQueue;
                self.gate.close(now, Closed::Maintenance, mode, &mut Vec::new());
                Ok(json!("ok"))
            }
            "open" => {
                self.gate.open();
                Ok(json!("ok"))
            }
            "snapshot" => Ok(self.snapshot()),
            other => {
                let known = "offer, take, release, rotate, close, open or snapshot";
                return Err(format!("unknown op `{other}`; an operation is {known}"));
            }
        };
        Ok(answer.unwrap_or_else(|BadArgument| error()))
    }

    fn offer(&mut self, args: &Value) -> Result<Value, BadArgument> {
        let name = name(args, "id")?;
        let owner = name_of(&mut self.owners, self::name(args, "owner")?, OwnerId);
        let generation = generation(args)?;
        let (born, now) = (time(args, "born_ms")?, time(args, "now_ms")?);
        let id = name_of(&mut self.offers, name, OfferId);
        if self.names.len() <= id.0 as usize {
            self.names.push(name.to_owned());
        }
        let offer = Offer {
            id,
            owner,
            generation,
            born,
            deadline: Timestamp::from_micros(born.as_micros().saturating_add(self.max_age_ticks)),
            tenant: TenantId(0),
            class: ClassId(0),
            cost: 1,
            bytes: 0,
            retry_of: None,
            supersedes: None,
        };
        offer.check(now).map_err(|_| BadArgument)?;
        let word = match self.gate.offer(now, offer, &mut Vec::new()) {
            Answer::Queued(_) => "queued",
            Answer::Admitted(lease) => {
                self.leases.insert(name.to_owned(), lease);
                "admitted"
            }
            Answer::Refused(refusal) => match refusal.reason {
                RefusalReason::Duplicate => return Err(BadArgument),
                RefusalReason::OutOfOrder => "out-of-order",
                reason => reason.disposition().label,
            },
        };
        Ok(json!(word))
    }

    fn take(&mut self, args: &Value) -> Result<Value, BadArgument> {
        let now = time(args, "now_ms")?;
        Ok(match self.gate.take(now) {
            Taken::Empty => json!(["empty", null]),
            Taken::Closed => json!(["closed", null]),
            Taken::Busy => json!(["busy", null]),
            Taken::Expired(offer) => json!(["expired", self.named(offer)]),
            Taken::Admitted(lease) => {
                let name = self.named(lease.offer).to_owned();
                let answer = json!(["admitted", name]);
                self.leases.insert(name, lease);
                answer
            }
            Taken::BeforeBirth(_) => return Err(BadArgument),
        })
    }

    fn release(&mut self, args: &Value) -> Result<Value, BadArgument> {
        let lease = self.leases.remove(name(args, "id")?).ok_or(BadArgument)?;
        let now = self.gate.now();
        let release = Release::Completed(Evidence::Completed);
        match self.gate.settle(now, lease, release, &mut Vec::new()) {
            Settled::Released(terminal) => Ok(json!(state(terminal))),
            Settled::Quarantined | Settled::AlreadyReleased => Err(BadArgument),
        }
    }

    fn rotate(&mut self, args: &Value) -> Result<Value, BadArgument> {
        let name = name(args, "owner")?;
        let generation = generation(args)?;
        let owner = name_of(&mut self.owners, name, OwnerId);
        let now = self.gate.now();
        let why = Cancelled::BargeIn;
        match self.gate.rotate(now, owner, generation, why, &mut Vec::new()) {
            Ok(_) => Ok(json!("ok")),
            Err(_) => Err(BadArgument),
        }
    }

    fn snapshot(&self) -> Value {
        let mut queued = Vec::new();
        let mut leases = Vec::new();
        let mut states = serde_json::Map::new();
        for held in self.gate.inventory() {
            let name = self.named(held.offer);
            let state = match held.place {
                Place::Queued => {
                    queued.push(name);
                    "queued"
                }
                Place::Active | Place::Quarantined(_) => {
                    leases.push(name);
                    if held.cancelled.is_some() { "cancelled" } else { "active" }
                }
                Place::Ended(terminal) => state(terminal),
            };
            states.insert(name.to_owned(), json!(state));
        }
        leases.sort_unstable();
        json!({"queued": queued, "leases": leases, "states": states})
    }

    fn named(&self, offer: OfferId) -> &str {
        &self.names[offer.0 as usize]
    }
}

fn state(terminal: Terminal) -> &'static str {
    terminal.disposition().label
}

fn name_of<Id: Copy>(names: &mut BTreeMap<String, Id>, name: &str, number: fn(u64) -> Id) -> Id {
    if let Some(&id) = names.get(name) {
        return id;
    }
    let id = number(names.len() as u64);
    names.insert(name.to_owned(), id);
    id
}

fn name<'a>(args: &'a Value, key: &str) -> Result<&'a str, BadArgument> {
    let name = args.get(key).and_then(Value::as_str);
    name.filter(|name| (1..=NAME_MAX).contains(&name.len())).ok_or(BadArgument)
}

fn generation(args: &Value) -> Result<Generation, BadArgument> {
    args.get("generation").and_then(Value::as_u64).map(Generation).ok_or(BadArgument)
}

fn time(args: &Value, key: &str) -> Result<Timestamp, BadArgument> {
    let ticks = args.get(key).and_then(ticks).ok_or(BadArgument)?;
    let since_epoch = u64::try_from(ticks + EPOCH_TICKS).map_err(|_| BadArgument)?;
    Ok(Timestamp::from_micros(since_epoch))
}

/// Milliseconds, whole or not, as ticks; `None` for what is no finite number.
fn ticks(ms: &Value) -> Option<i128> {
    const PER_MS: i128 = 1_000_000;
    if let Some(whole) = ms.as_i64() {
        return Some(i128::from(whole) * PER_MS);
    }
    let ticks = ms.as_f64()? * PER_MS as f64;
    ticks.is_finite().then_some(ticks.round() as i128)
}
