//! What a request must have before anybody looks at what it wants (RFC 3261, 8.1.1 and 8.2).

use super::message::{Address, Request, Via, find_outside, host_and_port, is_token, split_list};

/// Fields that stand in a request once (RFC 3261, 20).
const ONCE: [&str; 9] = [
    "call-id",
    "content-length",
    "content-type",
    "cseq",
    "date",
    "expires",
    "from",
    "max-forwards",
    "to",
];
/// Fields with addresses in them.
const ADDRESSES: [&str; 6] = ["from", "to", "contact", "route", "record-route", "reply-to"];
/// The largest of the protocol's numbers.
const NUMBER_MAX: u64 = u32::MAX as u64;

/// The status that tells what is wrong with a request; none when nothing is.
pub(super) fn fault(request: &Request) -> Option<u16> {
    let fields = &request.fields;
    let required = ["call-id", "cseq", "from", "to", "via"];
    if required.iter().any(|name| fields.get(name).is_none_or(str::is_empty)) {
        return Some(400);
    }
    if ONCE.iter().any(|name| fields.all(name).count() > 1) {
        return Some(400);
    }
    match fields.cseq() {
        Some((_, method)) if method == request.method => {}
        _ => return Some(400),
    }
    let number_is_wrong = |name: &&str, most: u64| {
        fields.get(name).is_some() && fields.number(name).is_none_or(|number| number > most)
    };
    if number_is_wrong(&"max-forwards", 255) || number_is_wrong(&"expires", NUMBER_MAX) {
        return Some(400);
    }
    if fields.all("via").flat_map(split_list).any(|via| Via::parse(via).is_none()) {
        return Some(400);
    }
    for name in ADDRESSES {
        let mut values = fields.all(name).flat_map(split_list);
        let star = |value: &str| name == "contact" && value == "*";
        if values.any(|value| !star(value) && !is_address(value)) {
            return Some(400);
        }
    }
    if fields.get("date").is_some_and(|date| !date.ends_with(" GMT")) {
        return Some(400);
    }
    uri_fault(&request.uri)
}

fn is_address(value: &str) -> bool {
    let Some(address) = Address::parse(value) else { return false };
    let named = address.name.is_empty() || is_name(address.name);
    let bare = find_outside(value, b'<').is_none();
    let params = address.params.is_empty() || address.params.starts_with(';');
    // Without brackets nobody can tell whose a question mark or a comma would be.
    let plain = !bare || !address.uri.contains(['?', ',']);
    let whole = !address.uri.contains([' ', '\t', '<', '"'])
        && address.uri.split_once(':').is_some_and(|(_, rest)| !rest.is_empty());
    named && params && plain && whole && !address.params.contains(";;")
}

/// Quoted, or words of letters (RFC 3261, 25.1, `display-name`).
fn is_name(name: &str) -> bool {
    if let Some(quoted) = name.strip_prefix('"') {
        let mut escaped = false;
        let end = quoted.char_indices().find(|(_, c)| {
            let ends = *c == '"' && !escaped;
            escaped = *c == '\\' && !escaped;
            ends
        });
        return end.is_some_and(|(at, _)| at + 1 == quoted.len());
    }
    name.split_whitespace().all(|word| word.bytes().all(|b| is_token(b) || !b.is_ascii()))
}

/// The address asked for is one, and of a kind that is answered here.
fn uri_fault(uri: &str) -> Option<u16> {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    };
    if uri.contains([' ', '\t', '<', '>', '"']) {
        return Some(400);
    }
    let Some((scheme, rest)) = uri.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) else {
        return Some(400);
    };
    match scheme.to_ascii_lowercase().as_str() {
        "sip" | "sips" => {}
        "tel" => return None,
        _ => return Some(416),
    }
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    // Fields inside of an address are for links, not for requests.
    let links = host.contains('?');
    let host = host.split([';', '?']).next().unwrap_or_default();
    (links || host_and_port(host).is_none()).then_some(400)
}
