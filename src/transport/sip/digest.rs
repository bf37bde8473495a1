//! Passwords by digest (RFC 7616 with MD5, which is what telephones speak).
//!
//! A challenge is made from the time and whom it is for, so that none has to be remembered; what
//! is remembered, for as long as a challenge is good, is how often each was answered, so that no
//! answer counts twice.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use md5::{Digest as _, Md5};
use sha2::Sha256;

use super::message::{Request, param};
use crate::id::hex;
use crate::time::{Timestamp, ms};

/// What telephones show when they ask for a password.
const REALM: &str = "floorkeeper";
/// So long a challenge may be answered.
const GOOD_FOR: Duration = ms(60_000);
/// Challenges whose answers are remembered.
const ANSWERED_MAX: usize = 8_192;

/// Who may ring with which password. Shown, it keeps them to itself.
#[derive(Clone, Default, PartialEq)]
pub struct Users(BTreeMap<String, String>);

impl std::fmt::Debug for Users {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Users {
    /// One more; `false` where there is one of this name.
    pub fn add(&mut self, name: &str, password: &str) -> bool {
        self.0.insert(name.to_owned(), password.to_owned()).is_none()
    }

    /// Nobody has a password.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What an answer to a challenge came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Known,
    /// To be asked with this challenge.
    Ask(String),
}

/// Asks for passwords and looks at them.
pub(super) struct Doorkeeper {
    users: Users,
    secret: [u8; 32],
    /// How often each challenge was answered, the oldest first.
    answered: Mutex<BTreeMap<String, u32>>,
}

impl Doorkeeper {
    pub fn new(users: Users, secret: [u8; 32]) -> Doorkeeper {
        Doorkeeper { users, secret, answered: Mutex::default() }
    }

    /// Whether the request has a right answer in it.
    pub fn look(&self, now: Timestamp, from: IpAddr, request: &Request) -> Verdict {
        let Some(said) = request.fields.get("authorization").and_then(Said::parse) else {
            return Verdict::Ask(self.challenge(now, from, false));
        };
        // Who is not known takes as long and is told the same.
        let known = self.users.0.get(&said.user);
        let expected = said.expected(&request.method, known.map_or("", String::as_str));
        let right = same(&expected, &said.response) && known.is_some() && said.uri == request.uri;
        if !right {
            return Verdict::Ask(self.challenge(now, from, false));
        }
        match self.is_fresh(now, from, &said) {
            true => Verdict::Known,
            false => Verdict::Ask(self.challenge(now, from, true)),
        }
    }

    fn challenge(&self, now: Timestamp, from: IpAddr, stale: bool) -> String {
        let nonce = self.nonce(now.as_millis(), from);
        let stale = if stale { ", stale=true" } else { "" };
        format!("Digest realm=\"{REALM}\", nonce=\"{nonce}\", algorithm=MD5, qop=\"auth\"{stale}")
    }

    fn nonce(&self, at_ms: u64, from: IpAddr) -> String {
        let mut made = format!("{at_ms:012x}");
        // A key of any length is one.
        if let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.secret) {
            mac.update(format!("{at_ms} {from}").as_bytes());
            made.push_str(&hex(&mac.finalize().into_bytes()[..16]));
        }
        made
    }

    /// The challenge is ours, not old, and this answer to it is one that has not been here.
    fn is_fresh(&self, now: Timestamp, from: IpAddr, said: &Said) -> bool {
        let at_ms = said.nonce.get(..12).and_then(|at| u64::from_str_radix(at, 16).ok());
        let Some(at_ms) = at_ms.filter(|at| same(&self.nonce(*at, from), &said.nonce)) else {
            return false;
        };
        let at = Timestamp::from_millis(at_ms);
        if at > now || now.since(at) > GOOD_FOR {
            return false;
        }
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = format!("{:012x}", (now - GOOD_FOR).as_millis());
        *answered = answered.split_off(&oldest);
        let last = answered.get(&said.nonce).copied().unwrap_or(0);
        if said.count <= last || answered.len() >= ANSWERED_MAX && last == 0 {
            return false;
        }
        answered.insert(said.nonce.clone(), said.count);
        true
    }
}

/// An answer to a challenge.
struct Said {
    user: String,
    nonce: String,
    uri: String,
    response: String,
    cnonce: String,
    nc: String,
    count: u32,
}

impl Said {
    fn parse(field: &str) -> Option<Said> {
        let (scheme, rest) = field.trim().split_once(' ')?;
        // Its parameters have commas where others have semicolons.
        let params: Vec<&str> = super::message::split_list(rest).collect();
        let of = |name: &str| {
            let value = params.iter().find_map(|one| param(one, name))?;
            Some(value.trim_matches('"').to_owned())
        };
        let is_ours = scheme.eq_ignore_ascii_case("digest")
            && of("realm")? == REALM
            && of("qop")?.eq_ignore_ascii_case("auth")
            && of("algorithm").is_none_or(|name| name.eq_ignore_ascii_case("md5"));
        let nc = of("nc")?;
        let said = Said {
            user: of("username")?,
            nonce: of("nonce")?,
            uri: of("uri")?,
            response: of("response")?.to_ascii_lowercase(),
            cnonce: of("cnonce")?,
            count: u32::from_str_radix(&nc, 16).ok()?,
            nc,
        };
        is_ours.then_some(said)
    }

    fn expected(&self, method: &str, password: &str) -> String {
        let Said { user, nonce, uri, cnonce, nc, .. } = self;
        let who = md5(&format!("{user}:{REALM}:{password}"));
        let what = md5(&format!("{method}:{uri}"));
        md5(&format!("{who}:{nonce}:{nc}:{cnonce}:auth:{what}"))
    }
}

fn md5(text: &str) -> String {
    hex(&Md5::digest(text.as_bytes()))
}

/// Compared in constant time.
fn same(one: &str, other: &str) -> bool {
    let differs = one.bytes().zip(other.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b));
    one.len() == other.len() && differs == 0
}

#[cfg(test)]
mod tests {
    use super::super::message::{Message, parse};
    use super::super::respond::{Credentials, respond};
    use super::*;

    const URI: &str = "sip:agent@192.0.2.1";

    fn asks(authorization: &str) -> Request {
        let text = format!(
            "INVITE {URI} SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bK1\r\nCall-ID: c\r\n\
             From: <sip:a@b>;tag=1\r\nTo: <sip:c@d>\r\nCSeq: 1 INVITE\r\n{authorization}\r\n"
        );
        match parse(text.as_bytes()) {
            Ok(Message::Request(request)) => request,
            other => panic!("{other:?}"),
        }
    }

    fn answer(challenge: &str, user: &str, password: &str, method: &str, uri: &str) -> String {
        let (user, password) = (user.to_owned(), password.to_owned());
        respond(challenge, &Credentials { user, password }, method, uri, "c").unwrap()
    }

    fn with(answer: &str) -> Request {
        asks(&format!("Authorization: {answer}\r\n"))
    }

    fn doorkeeper() -> Doorkeeper {
        let mut users = Users::default();
        assert!(users.add("ada", "secret") && !users.add("ada", "other"));
        users.add("ada", "secret");
        Doorkeeper::new(users, [7; 32])
    }

    fn asked(verdict: Verdict) -> String {
        match verdict {
            Verdict::Ask(challenge) => challenge,
            Verdict::Known => panic!("known"),
        }
    }

    /// RFC 7616, 3.4.1, computed by another implementation (Python's hashlib).
    #[test]
    fn the_digest_is_the_one_that_others_compute() {
        let said = Said {
            user: "ada".to_owned(),
            nonce: "n0".to_owned(),
            uri: URI.to_owned(),
            response: String::new(),
            cnonce: "c0".to_owned(),
            nc: "00000001".to_owned(),
            count: 1,
        };
        assert_eq!(said.expected("INVITE", "secret"), EXPECTED);
    }

    const EXPECTED: &str = "63d7472978565df9cae7fa07a9e6817c";

    #[test]
    fn who_has_the_password_is_let_in_once_for_each_answer() {
        let (door, ip) = (doorkeeper(), "192.0.2.7".parse().unwrap());
        let now = Timestamp::from_millis(5_000);
        let challenge = asked(door.look(now, ip, &asks("")));
        let right = answer(&challenge, "ada", "secret", "INVITE", URI);
        let elsewhere = "192.0.2.8".parse().unwrap();
        assert!(asked(door.look(now, elsewhere, &with(&right))).contains("stale=true"));
        assert_eq!(door.look(now, ip, &with(&right)), Verdict::Known);
        assert!(asked(door.look(now, ip, &with(&right))).contains("stale=true"), "replayed");
        let challenge = asked(door.look(now, ip, &asks("")));
        let late = now + GOOD_FOR + ms(1);
        let right = answer(&challenge, "ada", "secret", "INVITE", URI);
        assert!(asked(door.look(late, ip, &with(&right))).contains("stale=true"));
        let challenge = asked(door.look(late, ip, &asks("")));
        let right = answer(&challenge, "ada", "secret", "INVITE", URI);
        assert_eq!(door.look(late, ip, &with(&right)), Verdict::Known);
        assert_eq!(door.answered.lock().unwrap().len(), 1, "what is old is forgotten");
    }

    /// The same is said to a wrong name and to a wrong password (reliability D, 82).
    #[test]
    fn who_has_not_is_told_nothing() {
        let (door, ip) = (doorkeeper(), "192.0.2.7".parse().unwrap());
        let now = Timestamp::from_millis(5_000);
        let challenge = asked(door.look(now, ip, &asks("")));
        for answer in [
            answer(&challenge, "ada", "wrong", "INVITE", URI),
            answer(&challenge, "bob", "", "INVITE", URI),
            answer(&challenge, "ada", "secret", "REGISTER", URI),
            answer(&challenge, "ada", "secret", "INVITE", "sip:other@192.0.2.1"),
            "Digest".to_owned(),
            "Digest username=\"ada".to_owned(),
            "Basic YWRhOnNlY3JldA==".to_owned(),
        ] {
            assert_eq!(asked(door.look(now, ip, &with(&answer))), challenge, "{answer}");
        }
        let forged = "Digest realm=\"floorkeeper\", nonce=\"0000000013880000\", qop=\"auth\"";
        let forged = answer(forged, "ada", "secret", "INVITE", URI);
        assert!(asked(door.look(now, ip, &with(&forged))).contains("stale=true"));
    }
}
