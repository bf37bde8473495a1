//! Where an endpoint is and how long we wait for it, from its table of the configuration.

use std::time::Duration;

use http::HeaderValue;
use toml::Value;
use url::Url;

use crate::evidence::CancelEvidence;
use crate::provider::BuildError;
use crate::provider::keys::{self, Keys, Wrong};

/// Keys that every OpenAI-compatible provider takes.
pub const ENDPOINT_KEYS: &[&str] = &[
    "base_url",
    "model",
    "api_key_env",
    "ca_file",
    "connect_ms",
    "first_byte_ms",
    "total_ms",
    "idle_ms",
    "max_bytes",
    "cancel_evidence",
    "extra",
];

/// An endpoint as it is meant: complete and valid.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// `http` or `https`, host, port and the path that all requests begin with.
    pub base: Url,
    /// The model's name there.
    pub model: String,
    /// `Authorization`, where a key was given; marked sensitive.
    pub authorization: Option<HeaderValue>,
    /// A file of PEM certificates to trust instead of the built-in ones.
    pub ca_file: Option<String>,
    /// How long we wait.
    pub times: Times,
    /// Most bytes of one answer.
    pub max_bytes: u64,
    /// How a running request is stopped.
    pub cancel: CancelEvidence,
    /// Keys to add to every request's body.
    pub extra: serde_json::Map<String, serde_json::Value>,
}

/// How long we wait.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// For name resolution, TCP and TLS together.
    pub connect: Duration,
    /// For the first useful byte of the answer.
    pub first_byte: Duration,
    /// For all of it.
    pub total: Duration,
    /// How long an idle connection is kept.
    pub idle: Duration,
}

impl Endpoint {
    /// Reads the shared keys; `first_byte` and `total` are this kind of provider's defaults.
    pub fn from_keys(
        keys: &Keys<'_>,
        times: Times,
        max_bytes: u64,
    ) -> Result<Endpoint, BuildError> {
        let required =
            |key: &str, right: &str| keys::error(key, ("it is missing".into(), right.into()));
        let base = keys
            .one("base_url", base_url)?
            .ok_or_else(|| required("base_url", "for example \"http://127.0.0.1:8000/v1\""))?;
        let model = keys
            .one("model", keys::text)?
            .ok_or_else(|| required("model", "the model's name at that endpoint"))?;
        let modes = [
            ("half_close", CancelEvidence::HalfClose),
            ("drain", CancelEvidence::Drain),
            ("documented_abort", CancelEvidence::DocumentedAbort),
            ("reconcile", CancelEvidence::Reconcile),
        ];
        let cancel = keys.one("cancel_evidence", |value| keys::word(value, &modes))?;
        Ok(Endpoint {
            base,
            model,
            authorization: keys.one("api_key_env", keys::text)?.map(api_key).transpose()?,
            ca_file: keys.one("ca_file", keys::text)?,
            times: Times {
                connect: keys.one("connect_ms", keys::millis)?.unwrap_or(times.connect),
                first_byte: keys.one("first_byte_ms", keys::millis)?.unwrap_or(times.first_byte),
                total: keys.one("total_ms", keys::millis)?.unwrap_or(times.total),
                idle: keys.one("idle_ms", keys::millis)?.unwrap_or(times.idle),
            },
            max_bytes: keys.one("max_bytes", bytes)?.unwrap_or(max_bytes),
            cancel: cancel.unwrap_or(CancelEvidence::HalfClose),
            extra: keys.one("extra", extra)?.unwrap_or_default(),
        })
    }
}

impl Times {
    /// Defaults: 1 s to connect, idle connections kept for 4 s (common servers close theirs after
    /// 5).
    pub const fn with(first_byte_ms: u64, total_ms: u64) -> Times {
        Times {
            connect: Duration::from_millis(1_000),
            first_byte: Duration::from_millis(first_byte_ms),
            total: Duration::from_millis(total_ms),
            idle: Duration::from_millis(4_000),
        }
    }
}

fn base_url(value: &Value) -> Result<Url, Wrong> {
    let right = || "an address like \"http://127.0.0.1:8000/v1\"".to_owned();
    let given = keys::text(value)?;
    let mut url = Url::parse(&given).map_err(|e| (format!("\"{given}\": {e}"), right()))?;
    let problem = if !["http", "https"].contains(&url.scheme()) {
        "it is neither http nor https"
    } else if url.host_str().is_none_or(str::is_empty) {
        "it has no host"
    } else if !url.username().is_empty() || url.password().is_some() {
        "it carries a name or password (use api_key_env)"
    } else if url.query().is_some() || url.fragment().is_some() {
        "it has a query or fragment"
    } else {
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        return Ok(url);
    };
    Err((problem.into(), right()))
}

fn api_key(variable: String) -> Result<HeaderValue, BuildError> {
    let what = format!("the environment variable {variable}");
    let missing = |detail: &str| BuildError::Missing { what: what.clone(), detail: detail.into() };
    let key = std::env::var(&variable)
        .map_err(|_| missing("api_key_env names it; set it to the endpoint's key"))?;
    let mut header = HeaderValue::from_str(&format!("Bearer {}", key.trim()))
        .map_err(|_| missing("its value has characters that no key has"))?;
    header.set_sensitive(true);
    Ok(header)
}

fn bytes(value: &Value) -> Result<u64, Wrong> {
    let given = value.as_integer().and_then(|n| u64::try_from(n).ok()).filter(|&n| n >= 1_024);
    given.ok_or_else(|| {
        (format!("{value} is of no use here"), "a number of bytes, 1024 or more".into())
    })
}

fn extra(value: &Value) -> Result<serde_json::Map<String, serde_json::Value>, Wrong> {
    const OURS: [&str; 6] = ["messages", "stream", "model", "input", "tools", "file"];
    let serde_json::Value::Object(map) = keys::to_json(value) else {
        return Err((format!("{value} is no table"), "a table of keys for the request".into()));
    };
    match map.keys().find(|key| OURS.contains(&key.as_str())) {
        Some(ours) => Err((format!("it sets \"{ours}\""), "only keys that we do not set".into())),
        None => Ok(map),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(table: &toml::Table) -> Result<Endpoint, String> {
        let keys = Keys::new(table, &[ENDPOINT_KEYS]).map_err(|e| e.to_string())?;
        Endpoint::from_keys(&keys, Times::with(1, 2), 4_096).map_err(|e| e.to_string())
    }

    #[test]
    fn a_plain_endpoint_needs_an_address_and_a_model() {
        let table = toml::toml! { base_url = "http://127.0.0.1:8000/v1/" model = "m" };
        let endpoint = read(&table).unwrap();
        assert_eq!(endpoint.base.as_str(), "http://127.0.0.1:8000/v1");
        assert_eq!(endpoint.cancel, CancelEvidence::HalfClose);
        let wrong = read(&toml::toml! { base_url = "http://127.0.0.1:8000/v1" }).unwrap_err();
        assert!(wrong.starts_with("model: it is missing"), "{wrong}");
    }

    #[test]
    fn addresses_that_are_none_are_refused() {
        let wrong =
            ["ftp://h/", "unix:/x", "http://u:p@h/v1", "http://h/v1?x=1", "h:80", "file:///x"];
        for address in wrong {
            let mut table = toml::toml! { model = "m" };
            table.insert("base_url".into(), address.into());
            let error = read(&table).unwrap_err();
            assert!(error.starts_with("base_url: "), "{address}: {error}");
        }
    }

    #[test]
    fn a_missing_key_names_the_variable() {
        let table = toml::toml! {
            base_url = "http://h/v1" model = "m" api_key_env = "FLOORKEEPER_NO_SUCH_KEY"
        };
        assert!(read(&table).unwrap_err().contains("FLOORKEEPER_NO_SUCH_KEY"));
    }

    #[test]
    fn extra_keys_cannot_replace_ours() {
        let table = toml::toml! { base_url = "http://h/v1" model = "m" extra = { stream = false } };
        assert!(read(&table).unwrap_err().contains("it sets \"stream\""));
    }
}
