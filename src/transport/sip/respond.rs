//! What is said to those who ask us for a password (RFC 7616, and RFC 2069 for the oldest).

use md5::Md5;
use sha2::{Digest, Sha256};

use super::message::{param, split_list};
use crate::id::hex;

/// Our name and password at a trunk. Shown, it keeps the password to itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Our name.
    pub user: String,
    /// The password.
    pub password: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Credentials").field(&self.user).finish()
    }
}

/// The answer to a challenge; none to one that nobody can answer here.
pub fn respond(
    challenge: &str,
    credentials: &Credentials,
    method: &str,
    uri: &str,
    cnonce: &str,
) -> Option<String> {
    let (scheme, rest) = challenge.trim().split_once(' ')?;
    // Its parameters have commas where others have semicolons.
    let params: Vec<&str> = split_list(rest).collect();
    let of = |name: &str| {
        let value = params.iter().find_map(|one| param(one, name))?;
        Some(value.trim_matches('"'))
    };
    let algorithm = of("algorithm").unwrap_or("MD5");
    let hash: fn(&str) -> String = match algorithm.to_ascii_uppercase().as_str() {
        _ if !scheme.eq_ignore_ascii_case("digest") => return None,
        "MD5" => |text| hex(&Md5::digest(text.as_bytes())),
        "SHA-256" => |text| hex(&Sha256::digest(text.as_bytes())),
        _ => return None,
    };
    let (realm, nonce) = (of("realm")?, of("nonce")?);
    let Credentials { user, password } = credentials;
    let who = hash(&format!("{user}:{realm}:{password}"));
    let what = hash(&format!("{method}:{uri}"));
    let has_auth = |qop: &str| qop.split(',').any(|word| word.trim().eq_ignore_ascii_case("auth"));
    let (response, qop) = match of("qop") {
        None => (hash(&format!("{who}:{nonce}:{what}")), String::new()),
        Some(qop) if has_auth(qop) => (
            hash(&format!("{who}:{nonce}:00000001:{cnonce}:auth:{what}")),
            format!(", qop=auth, nc=00000001, cnonce=\"{cnonce}\""),
        ),
        Some(_) => return None,
    };
    let opaque = of("opaque").map(|opaque| format!(", opaque=\"{opaque}\"")).unwrap_or_default();
    Some(format!(
        "Digest username=\"{user}\", realm=\"{realm}\", nonce=\"{nonce}\", uri=\"{uri}\", \
         response=\"{response}\", algorithm={algorithm}{qop}{opaque}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mufasa(challenge: &str) -> Option<String> {
        let credentials =
            Credentials { user: "Mufasa".to_owned(), password: "Circle of Life".to_owned() };
        let cnonce = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";
        respond(challenge, &credentials, "GET", "/dir/index.html", cnonce)
    }

    /// RFC 7616, 3.9.1: both of its answers.
    #[test]
    fn the_answers_are_those_of_the_rfc() {
        let rest = "realm=\"http-auth@example.org\", qop=\"auth, auth-int\", \
             nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", \
             opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\"";
        for (algorithm, response) in [
            ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
            ("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
        ] {
            let answer = mufasa(&format!("Digest algorithm={algorithm}, {rest}")).unwrap();
            assert!(answer.contains(&format!("response=\"{response}\"")), "{answer}");
            assert!(answer.contains("opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\""));
        }
    }

    #[test]
    fn what_cannot_be_answered_is_not() {
        for challenge in [
            "",
            "Basic realm=\"a\"",
            "Digest realm=\"a\"",
            "Digest realm=\"a\", nonce=\"b\", algorithm=SHA-512-256",
            "Digest realm=\"a\", nonce=\"b\", qop=\"auth-int\"",
        ] {
            assert_eq!(mufasa(challenge), None, "{challenge}");
        }
        let oldest = mufasa("Digest realm=\"a\", nonce=\"b\"").unwrap();
        assert!(!oldest.contains("qop"), "{oldest}");
    }
}
