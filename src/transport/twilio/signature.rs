//! `X-Twilio-Signature`: HMAC-SHA1 over the address and the form's fields, with the account's
//! token.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;

/// The signature is one of this request: of its address as Twilio called it, and of the fields of
/// its form. Compared in constant time.
pub fn is_signed(token: &str, url: &str, fields: &[(String, String)], signature: &str) -> bool {
    let Ok(signature) = BASE64.decode(signature.trim()) else { return false };
    mac(token, url, fields).is_some_and(|mac| mac.verify_slice(&signature).is_ok())
}

/// The signature itself, for those who have to make one.
pub fn sign(token: &str, url: &str, fields: &[(String, String)]) -> String {
    let signed = mac(token, url, fields).map(|mac| mac.finalize().into_bytes());
    signed.map(|bytes| BASE64.encode(bytes)).unwrap_or_default()
}

/// Fields go in the order of their names, name and value without anything between; a value that was
/// sent twice counts once.
fn mac(token: &str, url: &str, fields: &[(String, String)]) -> Option<Hmac<Sha1>> {
    let mut fields: Vec<&(String, String)> = fields.iter().collect();
    fields.sort();
    fields.dedup();
    // A key of any length is one.
    let mut mac = Hmac::<Sha1>::new_from_slice(token.as_bytes()).ok()?;
    mac.update(url.as_bytes());
    for (name, value) in fields {
        mac.update(name.as_bytes());
        mac.update(value.as_bytes());
    }
    Some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// What the Python and JavaScript libraries of the provider make of the same.
    #[test]
    fn signatures_are_those_of_the_providers_own_libraries() {
        let stream = "wss://example.com/twilio";
        assert_eq!(sign("12345", stream, &[]), "4qZsm0/0bGQYw36gQ+0YyAX07W0=");
        assert!(is_signed("12345", stream, &[], "4qZsm0/0bGQYw36gQ+0YyAX07W0="));
        assert!(!is_signed("12345", stream, &[], "4qZsm0/0bGQYw36gQ+0YyAX07W1="));
        assert!(!is_signed("12346", stream, &[], "4qZsm0/0bGQYw36gQ+0YyAX07W0="));
        assert!(!is_signed("12345", stream, &fields(&[("a", "b")]), "no base64"));
    }
}
