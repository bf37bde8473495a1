//! Answers and requests as they are written (RFC 3261, 8.1.1, 8.2.6 and 18.2.2).

use std::fmt::Write as _;
use std::net::SocketAddr;

use bytes::Bytes;

use super::message::{Request, Via, split_list};

/// What we are asked to do and do; all else is 405 or 501.
pub(super) const ALLOW: &str = "INVITE, ACK, BYE, CANCEL, OPTIONS, INFO, UPDATE, NOTIFY, REGISTER";
const SERVER: &str = concat!("floorkeeper/", env!("CARGO_PKG_VERSION"));

/// An answer to be written.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer<'a> {
    pub status: u16,
    /// Ours in `To`, where there is none yet.
    pub tag: &'a str,
    /// Further fields.
    pub fields: Vec<(&'static str, String)>,
    /// A session description.
    pub sdp: Option<String>,
}

impl<'a> Answer<'a> {
    pub fn of(status: u16, tag: &'a str) -> Answer<'a> {
        Answer { status, tag, ..Answer::default() }
    }

    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Answer<'a> {
        self.fields.push((name, value.into()));
        self
    }

    /// The answer to this request, which came from there.
    pub fn write(&self, request: &Request, from: SocketAddr) -> Bytes {
        let mut out = format!("SIP/2.0 {} {}\r\n", self.status, phrase(self.status));
        let vias = request.fields.all("via").flat_map(split_list);
        for (at, via) in vias.enumerate() {
            match at {
                0 => field(&mut out, "Via", &received(via, from)),
                _ => field(&mut out, "Via", via),
            }
        }
        for (name, known) in [("From", "from"), ("To", "to"), ("Call-ID", "call-id")] {
            let Some(value) = request.fields.get(known) else { continue };
            let tag = Some(self.tag).filter(|tag| !tag.is_empty() && self.status > 100);
            match tag.filter(|_| known == "to" && request.fields.tag("to").is_none()) {
                Some(tag) => field(&mut out, name, &format!("{value};tag={tag}")),
                None => field(&mut out, name, value),
            }
        }
        field(&mut out, "CSeq", request.fields.get("cseq").unwrap_or_default());
        for route in request.fields.all("record-route") {
            field(&mut out, "Record-Route", route);
        }
        for (name, value) in &self.fields {
            field(&mut out, name, value);
        }
        field(&mut out, "Server", SERVER);
        body(&mut out, self.sdp.as_deref());
        Bytes::from(out)
    }
}

/// A request of ours within a dialog.
#[derive(Clone, Debug)]
pub(super) struct Ask<'a> {
    pub method: &'static str,
    pub uri: &'a str,
    pub transport: &'static str,
    pub at: SocketAddr,
    pub branch: &'a str,
    pub from: &'a str,
    pub to: &'a str,
    pub call_id: &'a str,
    pub cseq: u32,
    pub routes: &'a [String],
    /// Further fields.
    pub fields: &'a [(&'static str, String)],
    /// A session description.
    pub sdp: Option<&'a str>,
}

impl Ask<'_> {
    pub fn write(&self) -> Bytes {
        let Ask { method, uri, transport, at, branch, from, to, call_id, cseq, .. } = self;
        let mut out = format!("{method} {uri} SIP/2.0\r\n");
        field(&mut out, "Via", &format!("SIP/2.0/{transport} {at};branch={branch};rport"));
        field(&mut out, "Max-Forwards", "70");
        for route in self.routes {
            field(&mut out, "Route", route);
        }
        field(&mut out, "From", from);
        field(&mut out, "To", to);
        field(&mut out, "Call-ID", call_id);
        field(&mut out, "CSeq", &format!("{cseq} {method}"));
        for (name, value) in self.fields {
            field(&mut out, name, value);
        }
        field(&mut out, "User-Agent", SERVER);
        body(&mut out, self.sdp);
        Bytes::from(out)
    }
}

fn field(out: &mut String, name: &str, value: &str) {
    let _ = write!(out, "{name}: {value}\r\n");
}

fn body(out: &mut String, sdp: Option<&str>) {
    if sdp.is_some() {
        field(out, "Content-Type", "application/sdp");
    }
    let sdp = sdp.unwrap_or_default();
    let _ = write!(out, "Content-Length: {}\r\n\r\n{sdp}", sdp.len());
}

/// The topmost `Via`, with where it really came from (RFC 3261, 18.2.1; RFC 3581).
fn received(via: &str, from: SocketAddr) -> String {
    let Some(known) = Via::parse(via) else { return via.to_owned() };
    let mut out = String::new();
    for (at, part) in via.split(';').enumerate() {
        let name = part.split('=').next().unwrap_or_default().trim().to_ascii_lowercase();
        match name.as_str() {
            "received" if at > 0 => continue,
            "rport" if at > 0 => {
                let _ = write!(out, ";rport={}", from.port());
            }
            _ if at > 0 => {
                let _ = write!(out, ";{}", part.trim());
            }
            _ => out.push_str(part.trim()),
        }
    }
    let ip = from.ip().to_string();
    if known.rport || known.host.trim_matches(['[', ']']) != ip {
        let _ = write!(out, ";received={ip}");
    }
    out
}

/// Where an answer over UDP goes.
pub(super) fn back_to(request: &Request, from: SocketAddr) -> SocketAddr {
    let via = request.fields.get("via").and_then(|vias| split_list(vias).next());
    match via.and_then(Via::parse) {
        Some(via) if !via.rport => SocketAddr::new(from.ip(), via.port.unwrap_or(5060)),
        Some(_) | None => from,
    }
}

fn phrase(status: u16) -> &'static str {
    match status {
        100 => "Trying",
        180 => "Ringing",
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        413 => "Request Entity Too Large",
        415 => "Unsupported Media Type",
        416 => "Unsupported URI Scheme",
        420 => "Bad Extension",
        422 => "Session Interval Too Small",
        480 => "Temporarily Unavailable",
        481 => "Call/Transaction Does Not Exist",
        482 => "Loop Detected",
        486 => "Busy Here",
        487 => "Request Terminated",
        488 => "Not Acceptable Here",
        489 => "Bad Event",
        491 => "Request Pending",
        500 => "Server Internal Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        505 => "Version Not Supported",
        513 => "Message Too Large",
        _ => "Refused",
    }
}
