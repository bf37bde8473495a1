//! What may be dialled at all, and how much of it. Pure; the same for every way of dialling.
//!
//! Emergency and premium numbers are never dialled, whatever the configuration says; of the rest
//! only what it names (toll fraud is the costliest thing a telephone agent can be talked into).

use std::collections::{BTreeMap, VecDeque};

const HOUR_MS: u64 = 3_600_000;
/// Tenants whose dials are counted; the rest share one count.
const TENANTS_MAX: usize = 4_096;

/// Numbers of emergency services that a telephone system may know, also behind a SIP address.
const EMERGENCY: [&str; 17] = [
    "000", "08", "110", "111", "112", "113", "115", "117", "118", "119", "122", "190", "191",
    "192", "193", "911", "999",
];

/// Numbers whose callee is paid by the caller, or that lead to satellites and global networks
/// (ITU-T E.164 assignments and the national numbering plans).
const PREMIUM: [&str; 38] = [
    "+1900", "+1976", "+3089", "+3090", "+3190", "+32902", "+32903", "+32904", "+32905", "+32906",
    "+32907", "+32908", "+32909", "+3389", "+34803", "+34806", "+34807", "+34905", "+39199",
    "+3989", "+41900", "+41901", "+41906", "+4390", "+4393", "+44871", "+44872", "+44873", "+449",
    "+4690", "+4790", "+49137", "+49900", "+870", "+878", "+881", "+882", "+979",
];

/// What is named in the configuration: numbers that begin so, or SIP addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// `+1555`: every number that begins so.
    Number(String),
    /// `sip:ada@desk.example`, or `sip:*@desk.example` for everybody there.
    Address {
        /// Nobody in particular where it is everybody.
        user: Option<String>,
        /// The host, with its port where that is part of it, in lower case.
        host: String,
    },
}

impl Pattern {
    /// Reads one; none when it is none.
    pub fn parse(text: &str) -> Option<Pattern> {
        if let Some(digits) = text.strip_prefix('+') {
            let whole = (1..=15).contains(&digits.len()) && is_number(digits);
            return whole.then(|| Pattern::Number(text.to_owned()));
        }
        let (user, host) = text.strip_prefix("sip:")?.split_once('@')?;
        let whole = !user.is_empty()
            && user.chars().all(|c| c.is_ascii_alphanumeric() || "-_.!~*'()&=+$,%".contains(c))
            && !host.is_empty()
            && host.chars().all(|c| c.is_ascii_alphanumeric() || "-.:[]".contains(c));
        let user = (user != "*").then(|| user.to_owned());
        whole.then(|| Pattern::Address { user, host: host.to_ascii_lowercase() })
    }

    fn has(&self, destination: &str) -> bool {
        match self {
            Pattern::Number(prefix) => destination.starts_with(prefix.as_str()),
            Pattern::Address { user, host } => address(destination).is_some_and(|(of, at)| {
                at == host && user.as_deref().is_none_or(|user| user == of)
            }),
        }
    }
}

/// Why something is not dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barred {
    /// An emergency service.
    Emergency,
    /// Its callee would be paid for it.
    Premium,
    /// The configuration says no.
    Denied,
    /// The configuration does not say yes.
    NotAllowed,
}

impl Barred {
    /// Its stable word.
    pub fn label(self) -> &'static str {
        match self {
            Barred::Emergency => "emergency_number",
            Barred::Premium => "premium_number",
            Barred::Denied => "number_denied",
            Barred::NotAllowed => "number_not_allowed",
        }
    }
}

/// What may be dialled, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Only these; `None`: whoever dials is somebody else, who has rules of their own.
    pub allow: Option<Vec<Pattern>>,
    /// None of these.
    pub deny: Vec<Pattern>,
    /// Dials in any hour.
    pub per_hour: u32,
    /// Dials of one tenant in any hour.
    pub tenant_per_hour: u32,
}

impl Policy {
    /// Why this destination is not dialled; none when it may be.
    pub fn bars(&self, destination: &str) -> Option<Barred> {
        let user = address(destination).map(|(user, _)| user);
        let number = user.map_or_else(|| destination.to_owned(), international);
        let local = number.strip_prefix('+').unwrap_or(&number);
        if EMERGENCY.contains(&local) {
            return Some(Barred::Emergency);
        }
        if PREMIUM.iter().any(|prefix| number.starts_with(prefix)) {
            return Some(Barred::Premium);
        }
        if self.deny.iter().any(|pattern| pattern.has(destination)) {
            return Some(Barred::Denied);
        }
        let allowed = self
            .allow
            .as_ref()
            .is_none_or(|allow| allow.iter().any(|pattern| pattern.has(destination)));
        (!allowed).then_some(Barred::NotAllowed)
    }
}

/// What was dialled within the last hour.
#[derive(Clone, Debug, Default)]
pub struct Dialled {
    all: VecDeque<u64>,
    by_tenant: BTreeMap<String, VecDeque<u64>>,
}

impl Dialled {
    /// Counts one more dial; the error is when there is room for it again. Those of somebody else,
    /// who has rules of their own, are not counted.
    pub fn count(&mut self, policy: &Policy, tenant: &str, now_ms: u64) -> Result<(), u64> {
        match policy.allow {
            None => Ok(()),
            Some(_) => self.count_ours(policy, tenant, now_ms),
        }
    }

    /// Counts one more dial of ours.
    pub fn count_ours(&mut self, policy: &Policy, tenant: &str, now_ms: u64) -> Result<(), u64> {
        forget(&mut self.all, now_ms);
        self.by_tenant.retain(|_, times| {
            forget(times, now_ms);
            !times.is_empty()
        });
        let known = self.by_tenant.contains_key(tenant) || self.by_tenant.len() < TENANTS_MAX;
        let tenant = if known { tenant } else { "" };
        let theirs = self.by_tenant.entry(tenant.to_owned()).or_default();
        let full = [
            free_at(&self.all, policy.per_hour, now_ms),
            free_at(theirs, policy.tenant_per_hour, now_ms),
        ];
        if let Some(at_ms) = full.into_iter().flatten().max() {
            return Err(at_ms);
        }
        self.all.push_back(now_ms);
        theirs.push_back(now_ms);
        Ok(())
    }
}

/// What is older than an hour does not count.
fn forget(times: &mut VecDeque<u64>, now_ms: u64) {
    while times.front().is_some_and(|at_ms| at_ms.saturating_add(HOUR_MS) <= now_ms) {
        times.pop_front();
    }
}

/// When one more fits; none: now.
fn free_at(times: &VecDeque<u64>, most: u32, now_ms: u64) -> Option<u64> {
    let over = (times.len() + 1).checked_sub(most as usize).filter(|over| *over > 0)?;
    let oldest = times.get(over - 1).copied().unwrap_or(now_ms);
    Some(oldest.saturating_add(HOUR_MS))
}

/// User and host of a SIP address.
fn address(destination: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = destination.split_once(':')?;
    matches!(scheme, "sip" | "sips").then(|| rest.split_once('@'))?
}

/// What a telephone system makes of digits: `00` and `011` lead out of the country.
fn international(user: &str) -> String {
    let digits = user.strip_prefix('+').unwrap_or(user);
    match digits.strip_prefix("011").or_else(|| digits.strip_prefix("00")) {
        _ if !is_number(digits) => user.to_owned(),
        Some(abroad) if abroad.len() > 6 => format!("+{abroad}"),
        _ if digits.len() > 6 => format!("+{digits}"),
        _ => digits.to_owned(),
    }
}

fn is_number(digits: &str) -> bool {
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(allow: &[&str], deny: &[&str]) -> Policy {
        let read =
            |texts: &[&str]| texts.iter().map(|text| Pattern::parse(text).unwrap()).collect();
        Policy { allow: Some(read(allow)), deny: read(deny), per_hour: 3, tenant_per_hour: 2 }
    }

    /// Issue 7.5: nothing is dialled that the configuration does not allow.
    #[test]
    fn only_what_is_allowed_is_dialled() {
        let policy = policy(
            &["+1555", "+4930", "sip:*@desk.example", "sip:ada@10.0.0.7:5071"],
            &["+1555666"],
        );
        for (destination, barred) in [
            ("+15550100200", None),
            ("+493012345678", None),
            ("sip:anybody@desk.example", None),
            ("sip:ada@10.0.0.7:5071", None),
            ("+15556660000", Some(Barred::Denied)),
            ("+4930", None),
            ("+33123456789", Some(Barred::NotAllowed)),
            ("sip:bob@10.0.0.7:5071", Some(Barred::NotAllowed)),
            ("sip:ada@10.0.0.7", Some(Barred::NotAllowed)),
            ("sip:ada@desk.example.evil", Some(Barred::NotAllowed)),
            ("sip:911@desk.example", Some(Barred::Emergency)),
            ("sip:112@desk.example", Some(Barred::Emergency)),
            ("sips:+112@desk.example", Some(Barred::Emergency)),
            ("sip:+19005550100@desk.example", Some(Barred::Premium)),
            ("sip:0019005550100@desk.example", Some(Barred::Premium)),
            ("sip:011882123456789@desk.example", Some(Barred::Premium)),
            ("sip:100@desk.example", None),
            ("+19005550100", Some(Barred::Premium)),
            ("+4490912345678", Some(Barred::Premium)),
        ] {
            assert_eq!(policy.bars(destination), barred, "{destination}");
        }
        let nothing = Policy { allow: Some(Vec::new()), ..policy.clone() };
        assert_eq!(nothing.bars("+15550100200"), Some(Barred::NotAllowed));
        let all = Policy { allow: None, ..policy };
        assert_eq!(all.bars("+33123456789"), None);
        assert_eq!(all.bars("+979123456789"), Some(Barred::Premium), "whatever is allowed");
    }

    #[test]
    fn patterns_that_are_none() {
        for text in ["", "+", "1555", "+15x", "sip:", "sip:@a", "sip:a@", "sip:a@b c", "tel:+1"] {
            assert_eq!(Pattern::parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_hour_has_room_for_so_many() {
        let policy = policy(&[], &[]);
        let mut dialled = Dialled::default();
        assert_eq!(dialled.count(&policy, "a", 0), Ok(()));
        assert_eq!(dialled.count(&policy, "a", 1_000), Ok(()));
        assert_eq!(dialled.count(&policy, "a", 2_000), Err(HOUR_MS), "its own are spent");
        assert_eq!(dialled.count(&policy, "b", 3_000), Ok(()));
        assert_eq!(dialled.count(&policy, "c", 4_000), Err(HOUR_MS), "all are spent");
        assert_eq!(dialled.count(&policy, "c", HOUR_MS), Ok(()), "the first is an hour old");
        assert_eq!(dialled.count(&policy, "a", HOUR_MS + 500), Err(HOUR_MS + 1_000));
        let none = Policy { per_hour: 0, ..policy };
        assert!(dialled.count(&none, "d", 3 * HOUR_MS).is_err());
        let others = Policy { allow: None, ..none };
        assert_eq!(dialled.count(&others, "d", 3 * HOUR_MS), Ok(()));
    }
}
