//! A gate's decision log as JSON lines: written by the server, run again by `admission replay`.
//!
//! The first line is `{"decisions": STAGE, "limits": {…}}`, each other one an act with what was
//! said and told.

use serde_json::{Map, Value, json};

use crate::admission::disposition::{REASONS, TERMINALS};
use crate::admission::gate::Pressure;
use crate::admission::limits::{
    ClassRule, CloseMode, Fairness, Intake, Limits, Mode, Overflow, Slots, Tombstones,
};
use crate::admission::log::{Act, Line, Said, Told};
use crate::admission::{
    Cancelled, Closed, Offer, OfferId, OwnerId, RefusalReason, Release, Settled, Terminal,
};
use crate::evidence::{Evidence, Unknown};
use crate::id::{ClassId, Generation, Stage, TenantId};
use crate::time::Timestamp;

/// The line that opens a log.
pub fn opening(stage: Stage, limits: &Limits) -> Value {
    json!({"decisions": stage.to_string(), "limits": limits_json(limits)})
}

/// One line of a log.
pub fn line(line: &Line) -> Value {
    let mut object = act_json(&line.act);
    object.insert("seq".into(), json!(line.seq));
    object.insert("now_us".into(), json!(line.now.as_micros()));
    let (said, told) = outcome(line.said, &line.told);
    object.insert("said".into(), said);
    object.insert("told".into(), told);
    Value::Object(object)
}

/// What was said and told, as a line has them.
pub fn outcome(said: Said, told: &[Told]) -> (Value, Value) {
    let said = match said {
        Said::Admitted => json!("admitted"),
        Said::Queued => json!("queued"),
        Said::Refused(reason) => json!(format!("refused {}", reason.disposition())),
        Said::Settled(Settled::Released(terminal)) => json!(ended(terminal)),
        Said::Settled(Settled::Quarantined) => json!("quarantined"),
        Said::Settled(Settled::AlreadyReleased) => json!("already_released"),
        Said::Done(changed) => json!(changed),
        Said::Nothing => Value::Null,
    };
    let told = told.iter().map(|told| match told {
        Told::Granted(offer) => json!(["granted", offer.0]),
        Told::Ended(offer, terminal) => json!([ended(*terminal), offer.0]),
    });
    (said, told.collect())
}

fn ended(terminal: Terminal) -> String {
    match terminal {
        Terminal::Replaced { by } => format!("replaced{{{}}}", by.0),
        other => other.disposition().to_string(),
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn act_json(act: &Act) -> Map<String, Value> {
    object(match act {
        Act::Offer(offer) => offer_json("offer", offer),
        Act::Claim(offer) => offer_json("claim", offer),
        Act::Inherit(offer) => offer_json("inherit", offer),
        Act::HandOn(offer) => json!({"act": "hand_on", "id": offer.0}),
        Act::Confirm(offer) => json!({"act": "confirm", "id": offer.0}),
        Act::Withdraw(offer, why) => json!({"act": "withdraw", "id": offer.0, "why": cause(*why)}),
        Act::Extend(offer) => json!({"act": "extend", "id": offer.0}),
        Act::Cancel(offer, why) => json!({"act": "cancel", "id": offer.0, "why": cause(*why)}),
        Act::Settle(offer, release) => {
            let (ran, by) = match release {
                Release::Completed(evidence) => ("completed", evidence.label()),
                Release::Failed(evidence) => ("failed", evidence.label()),
                Release::Unknown(cause) => ("unknown", cause.label()),
            };
            json!({"act": "settle", "id": offer.0, "ran": ran, "by": by})
        }
        Act::Evidence(offer, by) => json!({"act": "evidence", "id": offer.0, "by": by.label()}),
        Act::Rotate(owner, generation, why) => json!({
            "act": "rotate", "owner": owner.0, "generation": generation.0, "why": cause(*why),
        }),
        Act::Forget(owner) => json!({"act": "forget", "owner": owner.0}),
        Act::Expire => json!({"act": "expire"}),
        Act::Close(why, mode) => json!({
            "act": "close",
            "why": RefusalReason::Closed(*why).disposition().reason,
            "end_queue": *mode == CloseMode::EndQueue,
        }),
        Act::Open => json!({"act": "open"}),
        Act::Limits(limits) => json!({"act": "limits", "limits": limits_json(limits)}),
        Act::Adaptive(ceiling) => json!({"act": "adaptive", "ceiling": ceiling}),
        Act::Pressure(pressure) => json!({"act": "pressure", "level": level(*pressure)}),
    })
}

fn offer_json(act: &str, offer: &Offer) -> Value {
    json!({
        "act": act,
        "id": offer.id.0,
        "owner": offer.owner.0,
        "generation": offer.generation.0,
        "born_us": offer.born.as_micros(),
        "deadline_us": offer.deadline.as_micros(),
        "tenant": offer.tenant.0,
        "class": offer.class.0,
        "cost": offer.cost,
        "bytes": offer.bytes,
        "retry_of": offer.retry_of.map(|earlier| earlier.0),
        "supersedes": offer.supersedes,
    })
}

fn cause(why: Cancelled) -> &'static str {
    Terminal::Cancelled(why).disposition().reason
}

fn level(pressure: Pressure) -> &'static str {
    match pressure {
        Pressure::Open => "open",
        Pressure::Queue => "queue",
        Pressure::Refuse => "refuse",
    }
}

fn limits_json(limits: &Limits) -> Value {
    let share = match limits.fairness {
        Fairness::HardCap { tenant_share_pct } => Some(tenant_share_pct),
        Fairness::Fifo | Fairness::Fair => None,
    };
    let classes: Vec<Value> = limits
        .classes
        .iter()
        .map(|c| json!({"class": c.class.0, "reserved": c.reserved, "rank": c.rank}))
        .collect();
    json!({
        "mode": limits.mode.label(),
        "slots": limits.slots.units().map_or(json!("unlimited"), |units| json!(units)),
        "queue": limits.queue,
        "queue_bytes": limits.queue_bytes,
        "max_wait_ms": limits.max_wait_ms,
        "overflow": limits.overflow.label(),
        "fairness": limits.fairness.label(),
        "tenant_share_pct": share,
        "adaptive": limits.adaptive,
        "classes": classes,
        "aging_ms": limits.aging_ms,
        "tombstones": {"count": limits.tombstones.count, "age_ms": limits.tombstones.age_ms},
    })
}

/// Reads limits as a log has them.
pub fn limits_of(value: &Value) -> Result<Limits, String> {
    let fields = Fields(value);
    let fairness = match fields.word("fairness", &["fifo", "hard_cap", "fair"])? {
        0 => Fairness::Fifo,
        1 => Fairness::HardCap { tenant_share_pct: fields.number("tenant_share_pct")? },
        _ => Fairness::Fair,
    };
    let slots = match value.get("slots") {
        Some(Value::String(word)) if word == "unlimited" => Slots::Unlimited,
        _ => Slots::Units(fields.number("slots")?),
    };
    let classes = value.get("classes").and_then(Value::as_array).into_iter().flatten();
    let classes = classes.map(|class| {
        let fields = Fields(class);
        let (class, reserved) = (ClassId(fields.number("class")?), fields.number("reserved")?);
        Ok(ClassRule { class, reserved, rank: fields.number("rank")? })
    });
    let tombstones = Fields(value.get("tombstones").unwrap_or(&Value::Null));
    Ok(Limits {
        mode: [Mode::Off, Mode::Observe, Mode::Enforce]
            [fields.word("mode", &["off", "observe", "enforce"])?],
        slots,
        queue: fields.number("queue")?,
        queue_bytes: fields.number("queue_bytes")?,
        max_wait_ms: fields.number("max_wait_ms")?,
        overflow: [Overflow::Reject, Overflow::Replace, Overflow::Shed]
            [fields.word("overflow", &["reject", "replace", "shed"])?],
        fairness,
        adaptive: fields.truth("adaptive")?,
        classes: classes.collect::<Result<_, String>>()?,
        aging_ms: fields.maybe("aging_ms")?,
        tombstones: Tombstones {
            count: tombstones.number("count")?,
            age_ms: tombstones.number("age_ms")?,
        },
        intake: Intake::AtOnce,
    })
}

/// Reads the act of a line and the time it was done at.
pub fn act_of(value: &Value) -> Result<(Timestamp, Act), String> {
    let fields = Fields(value);
    let now = Timestamp::from_micros(fields.number("now_us")?);
    let id = || fields.number("id").map(OfferId);
    let owner = || fields.number("owner").map(OwnerId);
    let act = match value.get("act").and_then(Value::as_str).unwrap_or_default() {
        "offer" => Act::Offer(offer_of(&fields)?),
        "claim" => Act::Claim(offer_of(&fields)?),
        "inherit" => Act::Inherit(offer_of(&fields)?),
        "hand_on" => Act::HandOn(id()?),
        "confirm" => Act::Confirm(id()?),
        "withdraw" => Act::Withdraw(id()?, fields.cause()?),
        "extend" => Act::Extend(id()?),
        "cancel" => Act::Cancel(id()?, fields.cause()?),
        "settle" => Act::Settle(id()?, fields.release()?),
        "evidence" => Act::Evidence(id()?, fields.evidence()?),
        "rotate" => {
            Act::Rotate(owner()?, Generation(fields.number("generation")?), fields.cause()?)
        }
        "forget" => Act::Forget(owner()?),
        "expire" => Act::Expire,
        "close" => {
            let modes = [CloseMode::FinishQueue, CloseMode::EndQueue];
            Act::Close(fields.closed()?, modes[usize::from(fields.truth("end_queue")?)])
        }
        "open" => Act::Open,
        "limits" => Act::Limits(limits_of(value.get("limits").unwrap_or(&Value::Null))?),
        "adaptive" => Act::Adaptive(fields.maybe("ceiling")?),
        "pressure" => Act::Pressure(
            [Pressure::Open, Pressure::Queue, Pressure::Refuse]
                [fields.word("level", &["open", "queue", "refuse"])?],
        ),
        other => return Err(format!("unknown act `{other}`; an act is one that a gate's log has")),
    };
    Ok((now, act))
}

fn offer_of(fields: &Fields<'_>) -> Result<Offer, String> {
    Ok(Offer {
        id: OfferId(fields.number("id")?),
        owner: OwnerId(fields.number("owner")?),
        generation: Generation(fields.number("generation")?),
        born: Timestamp::from_micros(fields.number("born_us")?),
        deadline: Timestamp::from_micros(fields.number("deadline_us")?),
        tenant: TenantId(fields.number("tenant")?),
        class: ClassId(fields.number("class")?),
        cost: fields.number("cost")?,
        bytes: fields.number("bytes")?,
        retry_of: fields.maybe("retry_of")?.map(OfferId),
        supersedes: fields.maybe("supersedes")?,
    })
}

/// The fields of one line.
struct Fields<'a>(&'a Value);

impl Fields<'_> {
    fn number<N: TryFrom<u64>>(&self, key: &str) -> Result<N, String> {
        let number = self.0.get(key).and_then(Value::as_u64).and_then(|n| N::try_from(n).ok());
        number.ok_or_else(|| self.wrong(key, "a whole number in its range"))
    }

    fn maybe<N: TryFrom<u64>>(&self, key: &str) -> Result<Option<N>, String> {
        match self.0.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(_) => self.number(key).map(Some),
        }
    }

    fn truth(&self, key: &str) -> Result<bool, String> {
        let truth = self.0.get(key).and_then(Value::as_bool);
        truth.ok_or_else(|| self.wrong(key, "true or false"))
    }

    /// Which of these words it is.
    fn word(&self, key: &str, words: &[&str]) -> Result<usize, String> {
        let word = self.0.get(key).and_then(Value::as_str);
        let place = words.iter().position(|known| Some(*known) == word);
        place.ok_or_else(|| self.wrong(key, &format!("one of {}", words.join(", "))))
    }

    fn cause(&self) -> Result<Cancelled, String> {
        let causes: Vec<Cancelled> = TERMINALS
            .into_iter()
            .filter_map(|terminal| match terminal {
                Terminal::Cancelled(why) => Some(why),
                _ => None,
            })
            .collect();
        let words: Vec<&str> = causes.iter().map(|why| cause(*why)).collect();
        Ok(causes[self.word("why", &words)?])
    }

    fn closed(&self) -> Result<Closed, String> {
        let (words, whys): (Vec<&str>, Vec<Closed>) = REASONS
            .into_iter()
            .filter_map(|reason| match reason {
                RefusalReason::Closed(why) => Some((reason.disposition().reason, why)),
                _ => None,
            })
            .unzip();
        Ok(whys[self.word("why", &words)?])
    }

    fn evidence(&self) -> Result<Evidence, String> {
        let words = Evidence::ALL.map(Evidence::label);
        Ok(Evidence::ALL[self.word("by", &words)?])
    }

    fn release(&self) -> Result<Release, String> {
        match self.word("ran", &["completed", "failed", "unknown"])? {
            0 => Ok(Release::Completed(self.evidence()?)),
            1 => Ok(Release::Failed(self.evidence()?)),
            _ => {
                let words = Unknown::ALL.map(Unknown::label);
                Ok(Release::Unknown(Unknown::ALL[self.word("by", &words)?]))
            }
        }
    }

    fn wrong(&self, key: &str, right: &str) -> String {
        let value = self.0.get(key).unwrap_or(&Value::Null);
        format!("`{key}` is {value}; it must be {right}")
    }
}
