//! Who may connect: `listen`, `[public]`, `[auth]`.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use url::Url;

use super::error::ConfigError;
use super::raw::Origin;
use super::reader::Reader;
use super::sections::Paths;

/// `[auth]`: who may connect.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Auth {
    /// The file the keys were read from.
    pub keys_file: Option<PathBuf>,
    /// The keys; `None` accepts any (only on a loopback address).
    pub keys: Option<Vec<Key>>,
    /// Web origins that may connect beside our own page's, such as `https://shop.example`.
    pub origins: Vec<String>,
}

/// A key and who pays for what it opens.
#[derive(Clone, PartialEq)]
pub struct Key {
    /// The secret itself.
    pub secret: String,
    /// The tenant; `None` is no tenant.
    pub tenant: Option<String>,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

/// `listen`, and the rule that a public address needs keys.
pub(super) fn listen(reader: &mut Reader<'_>, auth: &Auth) -> SocketAddr {
    let text = reader.text("listen", "127.0.0.1:8080");
    let fallback = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
    let right = "write \"127.0.0.1:8080\", \"[::1]:8080\" or \"0.0.0.0:8080\"";
    let Some(address) = reader.address("listen", &text, right) else { return fallback };
    if !address.ip().is_loopback() && auth.keys.is_none() {
        let problem = format!("{address} can be reached from other machines and no key is needed");
        let right = "name a file of keys in auth.keys_file, or listen on 127.0.0.1";
        reader.refuse("listen", problem, right);
    }
    address
}

/// `public.url`: what the outside world calls us.
pub(super) fn public_url(reader: &mut Reader<'_>) -> Option<Url> {
    let text = reader.text("public.url", "");
    if text.is_empty() {
        return None;
    }
    match Url::parse(&text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Some(url),
        _ => {
            let right = "write \"https://voice.example.com\"";
            reader.refuse("public.url", format!("\"{text}\" is no web address"), right);
            None
        }
    }
}

/// `[auth]`.
pub(super) fn read(reader: &mut Reader<'_>, paths: &Paths) -> Auth {
    let file = reader.text("auth.keys_file", "");
    let keys_file = paths.beside(reader, "auth.keys_file", file);
    let keys = keys_file.as_ref().map(|file| keys(reader, file));
    let origins = reader.list("auth.origins", &[]);
    for origin in &origins {
        let same = |url: Url| url.origin().ascii_serialization() == *origin;
        if !Url::parse(origin).is_ok_and(same) {
            let problem = format!("\"{origin}\" is no web origin");
            reader.refuse("auth.origins", problem, "write \"https://shop.example\", no path");
        }
    }
    Auth { keys_file, keys, origins }
}

fn keys(reader: &mut Reader<'_>, file: &Path) -> Vec<Key> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => {
            let problem = format!("{} cannot be read: {error}", file.display());
            reader.refuse("auth.keys_file", problem, "name a file with one key a line");
            return Vec::new();
        }
    };
    let (keys, errors) = parse_keys(&text, file);
    if keys.is_empty() && errors.is_empty() {
        let problem = format!("{} holds no key", file.display());
        reader.refuse("auth.keys_file", problem, "write one key a line, its tenant after it");
    }
    reader.errors.extend(errors);
    keys
}

/// One key a line, optionally its tenant after it; `#` begins a comment line.
fn parse_keys(text: &str, file: &Path) -> (Vec<Key>, Vec<ConfigError>) {
    let mut keys: Vec<Key> = Vec::new();
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, line) in text.lines().enumerate() {
        let mut words = line.split_whitespace();
        let Some(secret) = words.next().filter(|word| !word.starts_with('#')) else { continue };
        let tenant = words.next().map(str::to_owned);
        let origin = Origin {
            source: super::Source::Config,
            file: file.display().to_string().into(),
            line: Some(index + 1),
        };
        // The key itself is never shown.
        if words.next().is_some() {
            let right = "write a key and at most one tenant, without blanks in them";
            errors.push(ConfigError::at(&origin, "", "more than two words in the line", right));
        } else if !seen.insert(secret) {
            let problem = "this key stands in an earlier line as well";
            errors.push(ConfigError::at(&origin, "", problem, "a key has one tenant"));
        } else {
            keys.push(Key { secret: secret.to_owned(), tenant });
        }
    }
    (keys, errors)
}
