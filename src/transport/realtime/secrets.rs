//! Ephemeral keys: minted for a browser, good for many sessions until they expire (protocols 1.10).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::fields::Fields;
use super::wrong::Wrong;
use crate::id::{TenantId, hex};

/// How long a key lives unless its request says otherwise, in seconds.
const DEFAULT_S: u64 = 600;
/// Shortest life of a key, in seconds.
const LEAST_S: u64 = 10;
/// Longest life of a key, in seconds.
const MOST_S: u64 = 7_200;
/// Largest `session` that a key may carry, as JSON text.
const SESSION_MAX_BYTES: usize = 64 * 1024;

/// What `POST /v1/realtime/client_secrets` asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct SecretRequest {
    /// How long the key is to live, in seconds.
    pub lives_s: u64,
    /// The `session` that sessions of this key begin with.
    pub session: Value,
}

impl SecretRequest {
    /// Reads the request's body; an empty one asks for the defaults.
    pub fn parse(body: &[u8]) -> Result<Self, Wrong> {
        let body: Value = if body.iter().all(u8::is_ascii_whitespace) {
            json!({})
        } else {
            serde_json::from_slice(body).map_err(|fault| {
                Wrong::whole("invalid_json", format!("The body is not valid JSON: {fault}."))
            })?
        };
        if !body.is_object() {
            return Err(Wrong::type_of("body", "an object", &body));
        }
        let fields = Fields::of(&body, "", false)?;
        let mut lives_s = DEFAULT_S;
        if let Some(after) = fields.object("expires_after")? {
            if let Some(other) = after.text("anchor")?.filter(|anchor| *anchor != "created_at") {
                return Err(Wrong::value(after.path("anchor"), other, "'created_at'"));
            }
            lives_s = after.whole("seconds", LEAST_S, MOST_S)?.unwrap_or(DEFAULT_S);
        }
        let session = match fields.get("session") {
            None => json!({"type": "realtime"}),
            Some(session @ Value::Object(_)) => session.clone(),
            Some(other) => return Err(Wrong::type_of("session", "an object", other)),
        };
        let bytes = session.to_string().len();
        if bytes > SESSION_MAX_BYTES {
            let message =
                format!("'session' may have {SESSION_MAX_BYTES} bytes as JSON, but has {bytes}.");
            return Err(Wrong::at("invalid_value", "session", message));
        }
        Ok(SecretRequest { lives_s, session })
    }
}

/// A key as it was minted. It is shown once and kept nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Minted {
    /// The key: `ek_…`.
    pub value: String,
    /// When it expires, in seconds since 1970.
    pub expires_at_s: u64,
}

impl Minted {
    /// The answer's body; `session` is the whole object ([`super::preview_session`]).
    pub fn body(&self, session: Value) -> Value {
        json!({"value": self.value, "expires_at": self.expires_at_s, "session": session})
    }
}

/// There are as many living keys as may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many ephemeral keys are alive; the next expires in {next_s} seconds")]
pub struct SecretsFull {
    /// When there is room again at the latest.
    pub next_s: u64,
}

/// What a key stands for.
#[derive(Clone, Debug, PartialEq)]
pub struct Secret {
    /// Who minted it and pays for its sessions.
    pub tenant: TenantId,
    /// The `session` to begin with.
    pub session: Value,
    expires_at_s: u64,
}

type Digest = [u8; 32];

/// The living keys, bounded in number. Only their digests are held.
#[derive(Debug)]
pub struct Secrets {
    most: usize,
    keys: BTreeMap<Digest, Secret>,
    /// The same by expiry, so that a full store makes room without looking at all of it.
    expiries: BTreeSet<(u64, Digest)>,
}

impl Secrets {
    /// A store of at most this many living keys.
    pub fn new(most: usize) -> Self {
        Secrets { most, keys: BTreeMap::new(), expiries: BTreeSet::new() }
    }

    /// Mints a key out of fresh random bytes.
    pub fn mint(
        &mut self,
        random: [u8; 32],
        now_s: u64,
        tenant: TenantId,
        request: SecretRequest,
    ) -> Result<Minted, SecretsFull> {
        self.forget_expired(now_s);
        if self.keys.len() >= self.most {
            let next = self.expiries.first().map_or(now_s, |(expiry, _)| *expiry);
            return Err(SecretsFull { next_s: next.saturating_sub(now_s) });
        }
        let value = format!("ek_{}", hex(&random));
        let expires_at_s = now_s + request.lives_s;
        let digest = digest(&value);
        self.keys.insert(digest, Secret { tenant, session: request.session, expires_at_s });
        self.expiries.insert((expires_at_s, digest));
        Ok(Minted { value, expires_at_s })
    }

    /// What a key stands for, while it lives. Its end does not end the sessions it began.
    pub fn find(&self, key: &str, now_s: u64) -> Option<&Secret> {
        self.keys.get(&digest(key)).filter(|secret| now_s < secret.expires_at_s)
    }

    /// How many keys are held.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// No key is held.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    fn forget_expired(&mut self, now_s: u64) {
        while let Some(&(expiry, digest)) = self.expiries.first()
            && expiry <= now_s
        {
            self.expiries.pop_first();
            self.keys.remove(&digest);
        }
    }
}

/// Looking a key up by its digest also takes the same time for every wrong key.
fn digest(key: &str) -> Digest {
    Sha256::digest(key.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(body: &str) -> SecretRequest {
        SecretRequest::parse(body.as_bytes()).expect("a good request")
    }

    #[test]
    fn a_key_lives_until_its_expiry_and_no_second_longer() {
        let mut secrets = Secrets::new(8);
        let wanted = request(r#"{"session":{"type":"realtime","instructions":"Hi"}}"#);
        let minted = secrets.mint([7; 32], 1_000, TenantId(3), wanted).unwrap();
        assert!(minted.value.starts_with("ek_07"), "{}", minted.value);
        assert_eq!(minted.expires_at_s, 1_600);
        for _ in 0..2 {
            let secret = secrets.find(&minted.value, 1_599).expect("good for many sessions");
            assert_eq!(
                (secret.tenant, &secret.session["instructions"]),
                (TenantId(3), &json!("Hi"))
            );
        }
        assert!(secrets.find(&minted.value, 1_600).is_none());
        assert!(secrets.find("ek_", 1_000).is_none());
        let body = minted.body(json!({"type": "realtime"}));
        assert_eq!(body["expires_at"], 1_600);
        assert_eq!(body["value"], json!(minted.value));
    }

    #[test]
    fn the_store_is_bounded_and_expiry_makes_room() {
        let mut secrets = Secrets::new(2);
        let lives = |s: u64| request(&format!(r#"{{"expires_after":{{"seconds":{s}}}}}"#));
        let long = secrets.mint([1; 32], 0, TenantId(0), lives(100)).unwrap();
        secrets.mint([2; 32], 0, TenantId(0), lives(20)).unwrap();
        let full = secrets.mint([3; 32], 5, TenantId(0), lives(100));
        assert_eq!(full, Err(SecretsFull { next_s: 15 }));
        secrets.mint([3; 32], 20, TenantId(0), lives(100)).unwrap();
        assert_eq!(secrets.len(), 2);
        assert!(secrets.find(&long.value, 20).is_some());
    }

    #[test]
    fn wrong_requests_are_told_what_is_wrong() {
        for (body, param) in [
            ("{", None),
            ("[]", Some("body")),
            (r#"{"expires_after":{"seconds":9}}"#, Some("expires_after.seconds")),
            (r#"{"expires_after":{"seconds":7201}}"#, Some("expires_after.seconds")),
            (r#"{"expires_after":{"anchor":"now"}}"#, Some("expires_after.anchor")),
            (r#"{"session":"x"}"#, Some("session")),
        ] {
            let wrong = SecretRequest::parse(body.as_bytes()).expect_err(body);
            assert_eq!(wrong.param.as_deref(), param, "{body}");
        }
        let large = format!(r#"{{"session":{{"instructions":"{}"}}}}"#, "x".repeat(70_000));
        assert!(SecretRequest::parse(large.as_bytes()).is_err());
        assert_eq!(request(" \n").lives_s, 600);
        assert_eq!(request("{}").session, json!({"type": "realtime"}));
    }
}
