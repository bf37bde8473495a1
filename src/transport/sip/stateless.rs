//! Answers to what is for no dialog. They are the same however often they are asked for, and
//! nothing is remembered of them.

use super::message::{Address, Request, param};
use super::require;
use super::write::{ALLOW, Answer};

/// The longest time for which a phone may think it is registered.
const EXPIRES_MAX_S: u32 = 3_600;
/// Addresses of one phone that are told back to it.
const CONTACTS_MAX: usize = 10;

/// The answer; an ACK has none.
pub(super) fn answer<'a>(request: &Request, tag: &'a str) -> Option<Answer<'a>> {
    let in_dialog = request.fields.tag("to").is_some();
    Some(match request.method.as_str() {
        "ACK" => return None,
        _ if in_dialog => Answer::of(481, tag),
        "OPTIONS" | "REGISTER" => match require::extensions(request) {
            Err(refused) => refused.answer(tag),
            Ok(()) if request.method == "OPTIONS" => able(tag),
            Ok(()) => registered(request, tag),
        },
        // Of no dialog, or of one whose answer is out.
        "BYE" | "CANCEL" | "INFO" | "UPDATE" | "PRACK" => Answer::of(481, tag),
        method => {
            let status = require::status_of_method(method);
            Answer::of(status, tag).with("Allow", ALLOW)
        }
    })
}

/// The answer to a request that is wrong, where it can be told at all.
pub(super) fn wrong<'a>(request: &Request, status: u16, tag: &'a str) -> Option<Answer<'a>> {
    let tells = ["via", "cseq"].iter().all(|name| request.fields.get(name).is_some());
    (tells && request.method != "ACK").then(|| Answer::of(status, tag))
}

fn able(tag: &str) -> Answer<'_> {
    let answer = Answer::of(200, tag).with("Allow", ALLOW).with("Accept", "application/sdp");
    answer.with("Supported", "timer")
}

/// Phones that will not call before they are registered are told that they are. Nobody is ever
/// rung here.
fn registered<'a>(request: &Request, tag: &'a str) -> Answer<'a> {
    let fields = &request.fields;
    let seconds = |text: &str| text.trim().parse::<u32>().ok().map(|s| s.min(EXPIRES_MAX_S));
    let all = fields.get("expires").and_then(seconds).unwrap_or(EXPIRES_MAX_S);
    let mut answer = Answer::of(200, tag);
    for contact in fields.list("contact").take(CONTACTS_MAX) {
        let Some(address) = Address::parse(contact).filter(|a| a.uri != "*") else { continue };
        let own = param(address.params, "expires").and_then(seconds).unwrap_or(all);
        if own > 0 {
            answer = answer.with("Contact", format!("<{}>;expires={own}", address.uri));
        }
    }
    answer.with("Expires", all.to_string())
}
