//! `[outbound]`: what may be dialled, as whom, and who then speaks.

use std::time::Duration;

use url::Url;

use super::promises::DialledBy;
use super::reader::Reader;
use super::{CALL_VARIABLES, Sip, Template, Twilio};
use crate::fallback::outbound::{Pattern, Policy};

/// A number has more digits than this.
const DIGITS_MIN: usize = 6;

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
    /// `handoff.refer_to`: where callers at telephones are sent; `None`: people at the operator
    /// page take them.
    pub refer_to: Option<String>,
    /// `handoff.twilio_to`: whom Twilio rings for callers whom it brings.
    pub twilio_to: Option<String>,
}

/// Who dials, and with what.
pub(super) struct Dials<'a> {
    pub by: DialledBy,
    pub sip: &'a Sip,
    pub twilio: &'a Twilio,
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
            refer_to: address(reader, "handoff.refer_to"),
            twilio_to: address_or_number(reader, "handoff.twilio_to"),
        };
        match dials.by {
            DialledBy::Workers | DialledBy::Stub => {}
            DialledBy::Sip => check_sip(reader, &outbound, dials.sip),
            DialledBy::Twilio => {
                dials.twilio.check_api(reader, "callback.dialler", public);
                check_number(reader, &outbound);
            }
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
        Pattern::Number(number) => number.len() > DIGITS_MIN,
    };
    if Pattern::parse(&text).filter(is_one).is_none() {
        let problem = format!("\"{text}\" is no SIP address and no number");
        let right = "write \"+15550100\" or \"sip:desk@192.0.2.9\", or \"\" for people at /ops";
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
fn check_sip(reader: &mut Reader<'_>, outbound: &Outbound, sip: &Sip) {
    if sip.listen.is_none() {
        let problem = "\"sip\" dials, and no SIP is spoken here";
        reader.refuse("callback.dialler", problem, "say in sip.listen where it is");
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
