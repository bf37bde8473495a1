//! What requests ask for beyond their method, and whether it can be given.

use std::time::Duration;

use super::message::{Request, Via, split_list};
use super::sdp::{BadSdp, Description};
use super::write::Answer;

/// The extensions that may be required of us.
const EXTENSIONS: [&str; 1] = ["timer"];
/// Shorter sessions are only chatter (RFC 4028, 4).
const REFRESH_MIN_S: u64 = 90;
/// Methods that are known and not done here.
const KNOWN: [&str; 6] = ["MESSAGE", "NOTIFY", "PRACK", "PUBLISH", "REFER", "SUBSCRIBE"];

/// Why a request is not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    status: u16,
    fields: Vec<(&'static str, String)>,
}

impl Refused {
    pub fn with(status: u16) -> Refused {
        Refused { status, fields: Vec::new() }
    }

    pub fn and(mut self, name: &'static str, value: impl Into<String>) -> Refused {
        self.fields.push((name, value.into()));
        self
    }

    pub fn answer<'a>(&self, tag: &'a str) -> Answer<'a> {
        Answer { fields: self.fields.clone(), ..Answer::of(self.status, tag) }
    }
}

/// What an INVITE or an UPDATE brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Checked {
    pub offer: Option<Description>,
    /// The peer will be heard from again within this time.
    pub refresh: Option<Duration>,
}

/// An INVITE that can be answered.
pub(super) fn invite(request: &Request) -> Result<Checked, Refused> {
    let accepts = || request.fields.list("accept").map(media_type);
    let understood = |kind: &str| matches!(kind, "application/sdp" | "application/*" | "*/*");
    if request.fields.get("accept").is_some() && !accepts().any(|kind| understood(&kind)) {
        return Err(Refused::with(406));
    }
    update(request)
}

/// An UPDATE that can be answered.
pub(super) fn update(request: &Request) -> Result<Checked, Refused> {
    extensions(request)?;
    let offer = match request.body.is_empty() {
        true => None,
        false => Some(offer(request)?),
    };
    Ok(Checked { offer, refresh: refresh(request)? })
}

/// Nothing is required that is not known here.
pub(super) fn extensions(request: &Request) -> Result<(), Refused> {
    let unknown: Vec<&str> = request
        .fields
        .list("require")
        .filter(|tag| !EXTENSIONS.iter().any(|known| tag.eq_ignore_ascii_case(known)))
        .collect();
    if unknown.is_empty() {
        return Ok(());
    }
    Err(Refused::with(420).and("Unsupported", unknown.join(", ")))
}

fn offer(request: &Request) -> Result<Description, Refused> {
    let encoded = request.fields.get("content-encoding").unwrap_or("identity");
    if !encoded.eq_ignore_ascii_case("identity") {
        return Err(Refused::with(415).and("Accept-Encoding", "identity"));
    }
    let kind = media_type(request.fields.get("content-type").unwrap_or_default());
    if kind != "application/sdp" {
        return Err(Refused::with(415).and("Accept", "application/sdp"));
    }
    Description::parse(&request.body).map_err(|bad: BadSdp| {
        let (status, warning) = bad.told();
        Refused::with(status).and("Warning", warning)
    })
}

fn media_type(value: &str) -> String {
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The peer's session timer, where it can be the peer that refreshes. Where it wants us to, we are
/// one that knows no session timers.
fn refresh(request: &Request) -> Result<Option<Duration>, Refused> {
    let fields = &request.fields;
    let knows = fields.lists("supported", "timer") || fields.lists("require", "timer");
    let Some(wanted) = fields.get("session-expires").filter(|_| knows) else { return Ok(None) };
    let seconds = wanted.split(';').next().unwrap_or_default();
    let seconds = seconds.trim().parse::<u32>().map_err(|_| Refused::with(400))?;
    if u64::from(seconds) < REFRESH_MIN_S {
        return Err(Refused::with(422).and("Min-SE", REFRESH_MIN_S.to_string()));
    }
    let ours = super::message::param(wanted, "refresher") == Some("uas");
    Ok((!ours).then(|| Duration::from_secs(seconds.into())))
}

/// The answer says that the peer's promise was heard.
pub(super) fn promised(answer: Answer<'_>, refresh: Option<Duration>) -> Answer<'_> {
    match refresh {
        None => answer,
        Some(every) => answer
            .with("Session-Expires", format!("{};refresher=uac", every.as_secs()))
            .with("Require", "timer"),
    }
}

/// The key that an INFO tells of.
pub(super) fn key(request: &Request) -> Option<char> {
    let kind = media_type(request.fields.get("content-type").unwrap_or_default());
    let body = std::str::from_utf8(&request.body).ok()?;
    let signal = match kind.as_str() {
        "application/dtmf" => body.trim(),
        "application/dtmf-relay" => body.lines().find_map(|line| {
            let (name, value) = line.split_once('=')?;
            name.trim().eq_ignore_ascii_case("signal").then(|| value.trim())
        })?,
        _ => return None,
    };
    match signal {
        "10" => Some('*'),
        "11" => Some('#'),
        _ => {
            let mut chars = signal.chars();
            let key = chars.next()?.to_ascii_uppercase();
            (chars.next().is_none() && "0123456789*#ABCD".contains(key)).then_some(key)
        }
    }
}

/// The status of a method that is not done here.
pub(super) fn status_of_method(method: &str) -> u16 {
    if KNOWN.contains(&method) { 405 } else { 501 }
}

/// What names the transaction: of everybody who follows RFC 3261.
pub(super) fn branch(request: &Request) -> Option<&str> {
    let via = request.fields.get("via").and_then(|vias| split_list(vias).next())?;
    Via::parse(via)?.branch
}
