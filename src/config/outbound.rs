//! `[outbound]`: what may be dialled, as whom, and who then speaks.

use std::time::Duration;

use url::Url;

use super::promises::DialledBy;
use super::reader::Reader;
use super::{CALL_VARIABLES, Sip, Template, Twilio};
use crate::call::HANDOFF_MAX;
use crate::fallback::outbound::{Pattern, Policy};

/// The most that whoever was rung is told of a caller, with the question, twice.
const TOLD_MAX: Duration = Duration::from_secs(30);
/// A number has at least so many digits.
const MIN_DIGITS: usize = 6;

/// `[outbound]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Outbound {
    /// What may be dialled, and how often.
    pub policy: Policy,
    /// The number that is shown to whom we ring: one that is ours to show.
    pub from: String,
    /// So long it may ring.
    pub ring_max: Duration,
    /// So long it is listened whether a person or a machine has answered; `None` takes all for
    /// people.
    pub machine: Option<Duration>,
    /// What the agent who promised it says first; `None` waits for them to speak.
    pub greeting: Option<Template>,
    /// Who is rung for callers who want a person; `None`: people at the operator page take them.
    pub desk: Option<Desk>,
    /// So long it may ring there, where we ring.
    pub desk_ring_max: Duration,
    /// So long whoever is there may think, each time they are asked.
    pub desk_decides_max: Duration,
    /// `handoff.twilio_to`: whom Twilio rings for callers whom it brings.
    pub twilio_to: Option<String>,
}

/// Who dials, and with what.
pub(super) struct Dials<'a> {
    pub by: DialledBy,
    pub sip: &'a Sip,
    pub twilio: &'a Twilio,
}

/// Somebody who takes callers by telephone.
#[derive(Clone, Debug, PartialEq)]
pub enum Desk {
    /// `handoff.refer_to`: callers at telephones are sent to this address.
    Refer(String),
    /// `handoff.bridge_to`: this address or number is rung, and then joined with the caller.
    Bridge(String),
}

impl Outbound {
    pub(super) fn read(
        reader: &mut Reader<'_>,
        dials: &Dials<'_>,
        public: Option<&Url>,
    ) -> Outbound {
        let here = matches!(dials.by, DialledBy::Sip | DialledBy::Twilio);
        let allow = patterns(reader, "outbound.allow");
        let per_hour = "a number of dials (0 dials nothing)";
        let machine_ms = reader.number(
            "outbound.machine_ms",
            6_000,
            0..=20_000,
            "a number of milliseconds (0 takes all for people)",
        );
        let outbound = Outbound {
            policy: Policy {
                // Workers over HTTP have rules of their own, unless we have some.
                allow: (here || !allow.is_empty()).then_some(allow),
                deny: patterns(reader, "outbound.deny"),
                per_hour: reader.number("outbound.per_hour", 60, 0..=100_000, per_hour) as u32,
                tenant_per_hour: reader.number(
                    "outbound.tenant_per_hour",
                    30,
                    0..=100_000,
                    per_hour,
                ) as u32,
            },
            from: from(reader),
            ring_max: reader.ms("outbound.ring_ms", 30_000, 1_000..=90_000),
            machine: (machine_ms > 0).then(|| Duration::from_millis(machine_ms)),
            greeting: greeting(reader),
            desk: desk(reader),
            desk_ring_max: reader.ms("handoff.ring_ms", 20_000, 1_000..=60_000),
            desk_decides_max: reader.ms("handoff.decide_ms", 8_000, 1_000..=30_000),
            twilio_to: address_or_number(reader, "handoff.twilio_to"),
        };
        match dials.by {
            DialledBy::Workers | DialledBy::Stub => {}
            DialledBy::Sip => {
                check_sip(reader, "callback.dialler", "\"sip\" dials", &outbound, dials.sip);
            }
            DialledBy::Twilio => {
                dials.twilio.check_api(reader, "callback.dialler", public);
                check_number(reader, &outbound);
            }
        }
        if let Some(Desk::Bridge(to)) = &outbound.desk {
            if dials.by != DialledBy::Sip {
                check_sip(reader, "handoff.bridge_to", "somebody is rung", &outbound, dials.sip);
            }
            check_bridge(reader, &outbound, dials.sip, to);
        }
        if let Some(to) = &outbound.twilio_to {
            check_desk(reader, &outbound.policy, to);
            if dials.by != DialledBy::Twilio {
                dials.twilio.check_api(reader, "handoff.twilio_to", public);
                check_number(reader, &outbound);
            }
        }
        outbound
    }

    /// How long somebody may take to say that they take the caller.
    pub fn handoff_max(&self) -> Duration {
        match &self.desk {
            Some(Desk::Bridge(_)) => {
                let asked = self.machine.unwrap_or_default() + TOLD_MAX + 2 * self.desk_decides_max;
                // Callers whom Twilio or Asterisk hands over take their own time.
                HANDOFF_MAX.max(self.desk_ring_max + asked)
            }
            Some(Desk::Refer(_)) | None => HANDOFF_MAX,
        }
    }
}

fn desk(reader: &mut Reader<'_>) -> Option<Desk> {
    let refer_to = address(reader, "handoff.refer_to");
    let bridge_to = address_or_number(reader, "handoff.bridge_to");
    if refer_to.is_some() && bridge_to.is_some() {
        let problem = "callers are sent to handoff.refer_to already";
        reader.refuse("handoff.bridge_to", problem, "name one of the two");
    }
    bridge_to.map(Desk::Bridge).or(refer_to.map(Desk::Refer))
}

/// Whom we ring has to be somebody who may be rung.
fn check_bridge(reader: &mut Reader<'_>, outbound: &Outbound, sip: &Sip, to: &str) {
    let key = "handoff.bridge_to";
    if let Some(barred) = outbound.policy.bars(to) {
        let problem = format!("\"{to}\" may not be dialled ({})", barred.label());
        reader.refuse(key, problem, "name it in outbound.allow, and not in outbound.deny");
    }
    if to.starts_with('+') && sip.trunk.address.is_none() {
        let problem = "a number is rung through a trunk, and sip.trunk names none";
        reader.refuse(key, problem, "name a trunk, or write \"sip:desk@192.0.2.9\"");
    }
}

fn patterns(reader: &mut Reader<'_>, key: &str) -> Vec<Pattern> {
    let mut patterns = Vec::new();
    for text in reader.list(key, &[]) {
        match Pattern::parse(&text) {
            Some(pattern) => patterns.push(pattern),
            None => {
                let problem =
                    format!("\"{text}\" is neither the beginning of a number nor a SIP address");
                let right = "write [\"+1555\", \"sip:*@desk.example\", \"sip:ada@192.0.2.7:5060\"]";
                reader.refuse(key, problem, right);
            }
        }
    }
    patterns
}

/// A number, or a name that a telephone system knows.
fn from(reader: &mut Reader<'_>) -> String {
    let text = reader.text("outbound.from", "");
    let digits = text.strip_prefix('+').unwrap_or(&text);
    let whole = digits.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    if !whole {
        let problem = format!("\"{text}\" is no number and no name");
        reader.refuse(
            "outbound.from",
            problem,
            "write \"+15550100\", a number that is yours to show",
        );
    }
    text
}

fn greeting(reader: &mut Reader<'_>) -> Option<Template> {
    let default = "Hello, you asked us to ring you back. How can I help?";
    let text = reader.text("outbound.greeting", default);
    let template = Template::parse(&text);
    for name in template.variables().filter(|name| !is_known(name)) {
        let problem = format!("nothing is known as {{{{{name}}}}}");
        let right = "write {{call.to}}, {{call.from}}, {{call.param.Callback-Why}}";
        reader.refuse("outbound.greeting", problem, right);
    }
    (!text.trim().is_empty()).then_some(template)
}

fn is_known(name: &str) -> bool {
    CALL_VARIABLES.contains(&name) || name.starts_with("call.param.")
}

/// One SIP address, or none.
fn address(reader: &mut Reader<'_>, key: &str) -> Option<String> {
    let text = Some(reader.text(key, "")).filter(|text| !text.is_empty())?;
    let one =
        Pattern::parse(&text).filter(|one| matches!(one, Pattern::Address { user: Some(_), .. }));
    if one.is_none() {
        let problem = format!("\"{text}\" is no SIP address");
        reader.refuse(key, problem, "write \"sip:desk@192.0.2.9\", or \"\" for people at /ops");
    }
    Some(text)
}

/// One SIP address, or a whole number, or none.
fn address_or_number(reader: &mut Reader<'_>, key: &str) -> Option<String> {
    let text = Some(reader.text(key, "")).filter(|text| !text.is_empty())?;
    let is_one = |one: &Pattern| match one {
        Pattern::Address { user, .. } => user.is_some(),
        Pattern::Number(number) => number.len() > MIN_DIGITS,
    };
    if Pattern::parse(&text).filter(is_one).is_none() {
        let problem = format!("\"{text}\" is no SIP address and no number");
        let right = "write \"sip:desk@192.0.2.9\" or \"+15550100\", or \"\" for people at /ops";
        reader.refuse(key, problem, right);
    }
    Some(text)
}

/// Whom we have rung has to be somebody who may be.
fn check_desk(reader: &mut Reader<'_>, policy: &Policy, to: &str) {
    if let Some(barred) = policy.bars(to) {
        let problem = format!("\"{to}\" may not be dialled ({})", barred.label());
        let right = "name it in outbound.allow, and not in outbound.deny";
        reader.refuse("handoff.twilio_to", problem, right);
    }
}

/// Who dials has to be able to, and to say who they are.
fn check_sip(reader: &mut Reader<'_>, key: &str, deed: &str, outbound: &Outbound, sip: &Sip) {
    if sip.listen.is_none() {
        let problem = format!("{deed}, and no SIP is spoken here");
        reader.refuse(key, problem, "say in sip.listen where it is");
    }
    let (user, password) = (&sip.trunk.user, &sip.trunk.password_env);
    if user.is_some() != password.is_some() {
        let problem = "of the trunk's user and the password's variable one is missing";
        let right = "name both, or neither where our address is proof enough";
        reader.refuse("sip.trunk_user", problem, right);
    }
    if outbound.from.is_empty() {
        let problem = "whoever is rung sees no number";
        let right = "write the number that is yours to show, as in \"+15550100\"";
        reader.refuse("outbound.from", problem, right);
    }
}

/// Twilio shows no names, and no number that it has not given out or verified.
fn check_number(reader: &mut Reader<'_>, outbound: &Outbound) {
    let digits = outbound.from.strip_prefix('+').unwrap_or_default();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let problem = format!("\"{}\" is no number that Twilio rings from", outbound.from);
        let right = "write a number of the account's, as in \"+15550100\"";
        reader.refuse("outbound.from", problem, right);
    }
}
