//! Offer and answer (RFC 3264) about one stream of G.711, with telephone events beside it.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use super::crypto::{Keys, Line, PLAIN, SECURE, Secrecy};
use crate::codec::g711::Law;

/// Streams that one description may have.
const SECTIONS_MAX: usize = 16;
/// Lines that one description may have.
const LINES_MAX: usize = 512;
/// Ports below are those of other services.
const PORT_MIN: u16 = 1_024;
/// What our own offer calls telephone events.
const OUR_EVENTS: u8 = 101;

/// What both ends have agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Media {
    /// Where they want to hear; `None` while they do not.
    pub remote: Option<SocketAddr>,
    pub law: Law,
    pub payload_type: u8,
    /// What they call telephone events.
    pub events: Option<u8>,
    /// They hear us.
    pub sends: bool,
    /// We hear them.
    pub hears: bool,
    /// With what it is encrypted.
    pub keys: Option<Keys>,
}

/// Why a description cannot be agreed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadSdp {
    /// It is none.
    NotSdp,
    /// Nothing in it can be spoken here.
    NothingCommon,
    /// It is plain where it must not be, or has no key that fits.
    Keys,
    /// Sound is to be sent where it must not go.
    Address,
}

impl BadSdp {
    /// The status, and what its `Warning` says (RFC 3261, 20.43).
    pub fn told(self) -> (u16, &'static str) {
        match self {
            BadSdp::NotSdp => (400, "399 floorkeeper \"the body is no session description\""),
            BadSdp::NothingCommon => (488, "305 floorkeeper \"PCMU and PCMA over RTP/AVP\""),
            BadSdp::Keys => {
                (488, "399 floorkeeper \"RTP/SAVP and a key for AES_CM_128_HMAC_SHA1_80 or _32\"")
            }
            BadSdp::Address => (488, "301 floorkeeper \"no address that sound is sent to\""),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Both,
    SendOnly,
    ReceiveOnly,
    Neither,
}

impl Direction {
    fn named(word: &str) -> Option<Direction> {
        Some(match word {
            "sendrecv" => Direction::Both,
            "sendonly" => Direction::SendOnly,
            "recvonly" => Direction::ReceiveOnly,
            "inactive" => Direction::Neither,
            _ => return None,
        })
    }

    fn word_of_answer(self) -> &'static str {
        match self {
            Direction::Both => "sendrecv",
            Direction::SendOnly => "recvonly",
            Direction::ReceiveOnly => "sendonly",
            Direction::Neither => "inactive",
        }
    }
}

/// A description as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Description {
    sections: Vec<Section>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Section {
    kind: String,
    port: u16,
    protocol: String,
    formats: Vec<String>,
    host: Option<String>,
    direction: Direction,
    /// What payload types are called: `PCMU/8000`.
    names: Vec<(String, String)>,
    mux: bool,
    /// The first key that can be spoken with.
    line: Option<Line>,
}

impl Description {
    pub fn parse(body: &[u8]) -> Result<Description, BadSdp> {
        let text = std::str::from_utf8(body).map_err(|_| BadSdp::NotSdp)?;
        let mut lines = text.split('\n').map(|line| line.trim_end()).filter(|l| !l.is_empty());
        if lines.next() != Some("v=0") || text.split('\n').count() > LINES_MAX {
            return Err(BadSdp::NotSdp);
        }
        let (mut host, mut direction) = (None, Direction::Both);
        let mut sections = Vec::<Section>::new();
        for line in lines {
            let (kind, value) = line.split_once('=').ok_or(BadSdp::NotSdp)?;
            if kind == "m" && sections.len() == SECTIONS_MAX {
                return Err(BadSdp::NothingCommon);
            }
            match (kind, sections.last_mut()) {
                ("m", _) => {
                    let section = Section::begun(value, host.clone(), direction);
                    sections.push(section.ok_or(BadSdp::NotSdp)?);
                }
                ("c", None) => host = Some(host_of(value).ok_or(BadSdp::NotSdp)?),
                ("c", Some(section)) => {
                    section.host = Some(host_of(value).ok_or(BadSdp::NotSdp)?);
                }
                ("a", None) => direction = Direction::named(value).unwrap_or(direction),
                ("a", Some(section)) => section.attribute(value),
                _ => {}
            }
        }
        Ok(Description { sections })
    }

    /// The stream that is spoken over, with what is agreed about it. Sound goes to no address that
    /// the peer at `peer` could not be at.
    pub fn agree(
        &self,
        ours: SocketAddr,
        peer: IpAddr,
        secrecy: Secrecy<'_>,
    ) -> Result<Media, BadSdp> {
        let find = |profile: &str, secure| Some(&self.sections[self.chosen(profile, secure)?]);
        let chosen = secrecy.choose(find, |section| section.line.clone());
        let (section, keys) = chosen.ok_or_else(|| self.lacks(secrecy))?;
        let (law, payload_type) = section.law().ok_or(BadSdp::NothingCommon)?;
        let (remote, silent) = section.remote(ours, peer)?;
        let (sends, hears) = match section.direction {
            Direction::Both => (true, true),
            Direction::SendOnly => (false, true),
            Direction::ReceiveOnly => (true, false),
            Direction::Neither => (false, false),
        };
        let (sends, hears) = (sends && !silent, hears && !silent);
        Ok(Media { remote, law, payload_type, events: section.events(), sends, hears, keys })
    }

    /// Why there is no stream that can be spoken over.
    fn lacks(&self, secrecy: Secrecy<'_>) -> BadSdp {
        let is_secure = |section: &Section| section.protocol == SECURE && section.law().is_some();
        match secrecy.needs_keys() || self.sections.iter().any(is_secure) {
            true => BadSdp::Keys,
            false => BadSdp::NothingCommon,
        }
    }

    fn chosen(&self, profile: &str, secure: bool) -> Option<usize> {
        let speaks = |section: &Section| {
            section.kind == "audio"
                && section.protocol == profile
                && section.port != 0
                && section.law().is_some()
                && (!secure || section.line.is_some())
        };
        self.sections.iter().position(speaks)
    }
}

impl Section {
    fn begun(value: &str, host: Option<String>, direction: Direction) -> Option<Section> {
        let mut words = value.split_ascii_whitespace();
        let kind = words.next()?.to_owned();
        let port = words.next()?.split('/').next()?.parse().ok()?;
        let protocol = words.next()?.to_owned();
        let formats: Vec<String> = words.map(str::to_owned).collect();
        let (names, mux, line) = (Vec::new(), false, None);
        (!formats.is_empty()).then_some(Section {
            kind,
            port,
            protocol,
            formats,
            host,
            direction,
            names,
            mux,
            line,
        })
    }

    fn attribute(&mut self, value: &str) {
        if let Some(named) = Direction::named(value) {
            self.direction = named;
        } else if value == "rtcp-mux" {
            self.mux = true;
        } else if let Some(crypto) = value.strip_prefix("crypto:") {
            self.line = self.line.take().or_else(|| Line::parse(crypto));
        } else if let Some(map) = value.strip_prefix("rtpmap:")
            && let Some((format, name)) = map.trim().split_once(' ')
        {
            self.names.push((format.to_owned(), name.trim().to_ascii_uppercase()));
        }
    }

    /// What a format is called, with its rate; 0 and 8 need not say it (RFC 3551).
    fn name(&self, format: &str) -> Option<&str> {
        let said = self.names.iter().find(|(of, _)| of == format);
        said.map(|(_, name)| name.as_str()).or(match format {
            "0" => Some("PCMU/8000"),
            "8" => Some("PCMA/8000"),
            _ => None,
        })
    }

    /// The first that is spoken here: the offer's order is its wish.
    fn law(&self) -> Option<(Law, u8)> {
        self.formats.iter().find_map(|format| {
            let law = match self.name(format)?.trim_end_matches("/1") {
                "PCMU/8000" => Law::Mu,
                "PCMA/8000" => Law::A,
                _ => return None,
            };
            Some((law, payload_type(format)?))
        })
    }

    /// Telephone events that count as the sound does; some phones offer others before them.
    fn events(&self) -> Option<u8> {
        let is_it = |format: &&String| self.name(format) == Some("TELEPHONE-EVENT/8000");
        self.formats.iter().find(is_it).and_then(|format| payload_type(format))
    }

    /// Where they want to hear; the address of nobody is how some put a call on hold (RFC 3264,
    /// 8.4).
    fn remote(&self, ours: SocketAddr, peer: IpAddr) -> Result<(Option<SocketAddr>, bool), BadSdp> {
        let host = self.host.as_deref().ok_or(BadSdp::NotSdp)?;
        // A name is not looked up: who is called so is heard from soon enough.
        let ip = host.parse().map_or(peer, |ip: IpAddr| ip.to_canonical());
        if ip.is_unspecified() {
            return Ok((None, true));
        }
        let remote = SocketAddr::new(ip, self.port);
        let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
        let astray = ip.is_multicast()
            || broadcast
            || ip.is_loopback() && !peer.is_loopback()
            || ip.is_ipv4() != ours.is_ipv4()
            || self.port < PORT_MIN
            || remote == ours;
        if astray { Err(BadSdp::Address) } else { Ok((Some(remote), false)) }
    }
}

fn host_of(value: &str) -> Option<String> {
    let mut words = value.split_ascii_whitespace();
    let (net, kind) = (words.next()?, words.next()?);
    let host = words.next()?.split('/').next()?;
    (net == "IN" && matches!(kind, "IP4" | "IP6")).then(|| host.to_owned())
}

/// RTP has seven bits for it, some of which RTCP needs (RFC 5761).
fn payload_type(format: &str) -> Option<u8> {
    format.parse().ok().filter(|n| *n < 64 || (96..128).contains(n))
}

/// What we write: the same session, a version further whenever it says something else.
#[derive(Clone, Debug)]
pub(super) struct Ours {
    at: SocketAddr,
    id: u64,
    version: u64,
    said: String,
    /// The key of our newest offer.
    offered: Option<Line>,
}

impl Ours {
    /// Where we hear, under this session's number.
    pub fn new(at: SocketAddr, id: u64) -> Ours {
        Ours { at, id, version: 0, said: String::new(), offered: None }
    }

    /// Where we hear.
    pub fn at(&self) -> SocketAddr {
        self.at
    }

    /// What their answer to our offer is read by.
    pub fn answered(&self) -> Secrecy<'_> {
        Secrecy::Answer(self.offered.as_ref())
    }

    /// The answer to an offer that was agreed to.
    pub fn answer(&mut self, offer: &Description, media: &Media) -> String {
        let profile = media.keys.as_ref().map_or(PLAIN, |keys| keys.profile);
        let chosen = offer.chosen(profile, media.keys.is_some());
        let mut streams = String::new();
        for (at, section) in offer.sections.iter().enumerate() {
            let Section { kind, protocol, formats, .. } = section;
            if Some(at) != chosen {
                let _ = write!(streams, "m={kind} 0 {protocol} {}\r\n", formats.join(" "));
                continue;
            }
            let laws = [(media.payload_type, media.law)];
            let direction = section.direction.word_of_answer();
            stream(&mut streams, (self.at.port(), profile), &laws, media.events, direction);
            streams.extend(media.keys.iter().map(|keys| keys.line().write()));
            if section.mux {
                streams.push_str("a=rtcp-mux\r\n");
            }
        }
        self.write(streams)
    }

    /// Our own offer, to who made none; with a key, where it is to be encrypted.
    pub fn offer(&mut self, line: Option<Line>) -> String {
        let mut streams = String::new();
        let laws = [(0, Law::Mu), (8, Law::A)];
        let profile = if line.is_some() { SECURE } else { PLAIN };
        let at = (self.at.port(), profile);
        stream(&mut streams, at, &laws, Some(OUR_EVENTS), "sendrecv");
        streams.extend(line.iter().map(Line::write));
        self.offered = line;
        self.write(streams)
    }

    fn write(&mut self, streams: String) -> String {
        if self.said != streams {
            self.version += 1;
            self.said = streams;
        }
        let Ours { at, id, version, said, .. } = self;
        let kind = if at.is_ipv4() { "IP4" } else { "IP6" };
        let ip = at.ip();
        format!(
            "v=0\r\no=- {id} {version} IN {kind} {ip}\r\ns=-\r\nc=IN {kind} {ip}\r\nt=0 0\r\n{said}"
        )
    }
}

fn stream(
    out: &mut String,
    (port, profile): (u16, &str),
    laws: &[(u8, Law)],
    events: Option<u8>,
    direction: &'static str,
) {
    let _ = write!(out, "m=audio {port} {profile}");
    for (payload_type, _) in laws {
        let _ = write!(out, " {payload_type}");
    }
    if let Some(events) = events {
        let _ = write!(out, " {events}");
    }
    out.push_str("\r\n");
    for (payload_type, law) in laws {
        let name = if *law == Law::Mu { "PCMU" } else { "PCMA" };
        let _ = write!(out, "a=rtpmap:{payload_type} {name}/8000\r\n");
    }
    if let Some(events) = events {
        let _ = write!(out, "a=rtpmap:{events} telephone-event/8000\r\na=fmtp:{events} 0-15\r\n");
    }
    let _ = write!(out, "a=ptime:20\r\na={direction}\r\n");
}

#[cfg(test)]
#[path = "sdp_tests.rs"]
mod tests;
