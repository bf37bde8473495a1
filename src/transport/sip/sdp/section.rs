//! One stream of a description, as its lines say it.

use std::net::{IpAddr, SocketAddr};

use super::super::codec::{Codec, Codecs, Spoken};
use super::super::crypto::Line;
use super::{BadSdp, Direction};

/// Ports below are those of other services.
const PORT_MIN: u16 = 1_024;
/// What Opus may be told to be bounded by (RFC 7587, 6.1).
const OPUS_BITS: std::ops::RangeInclusive<u32> = 6_000..=510_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub kind: String,
    pub port: u16,
    pub protocol: String,
    pub formats: Vec<String>,
    pub host: Option<String>,
    pub direction: Direction,
    /// What payload types are called: `PCMU/8000`.
    names: Vec<(String, String)>,
    /// Bits a second that a format is to have at most.
    bits: Vec<(String, u32)>,
    pub mux: bool,
    /// The first key that can be spoken with.
    pub line: Option<Line>,
}

impl Section {
    pub fn begun(value: &str, host: Option<String>, direction: Direction) -> Option<Section> {
        let mut words = value.split_ascii_whitespace();
        let kind = words.next()?.to_owned();
        let port = words.next()?.split('/').next()?.parse().ok()?;
        let protocol = words.next()?.to_owned();
        let formats: Vec<String> = words.map(str::to_owned).collect();
        let (names, bits, mux, line) = (Vec::new(), Vec::new(), false, None);
        (!formats.is_empty()).then_some(Section {
            kind,
            port,
            protocol,
            formats,
            host,
            direction,
            names,
            bits,
            mux,
            line,
        })
    }

    pub fn attribute(&mut self, value: &str) {
        if let Some(named) = Direction::named(value) {
            self.direction = named;
        } else if value == "rtcp-mux" {
            self.mux = true;
        } else if let Some(crypto) = value.strip_prefix("crypto:") {
            self.line = self.line.take().or_else(|| Line::parse(crypto));
        } else if let Some(map) = value.strip_prefix("rtpmap:")
            && let Some((format, name)) = map.trim().split_once(' ')
        {
            self.names.push((format.to_owned(), name.trim().to_owned()));
        } else if let Some(more) = value.strip_prefix("fmtp:")
            && let Some((format, params)) = more.trim().split_once(' ')
            && let Some(bits) = bits_of(params)
        {
            self.bits.push((format.to_owned(), bits));
        }
    }

    /// What a format is called, with its rate.
    fn name(&self, format: &str) -> Option<&str> {
        let said = self.names.iter().find(|(of, _)| of == format);
        said.map(|(_, name)| name.as_str())
    }

    /// A format's codec; those with a payload type of their own need not say it (RFC 3551).
    fn codec(&self, format: &str) -> Option<Codec> {
        match self.name(format) {
            Some(name) => Codec::named(name),
            None => Codec::of_payload_type(format.parse().ok()?),
        }
    }

    /// The first that is spoken here: the offer's order is its wish.
    pub fn spoken(&self, codecs: Codecs) -> Option<Spoken> {
        self.formats.iter().find_map(|format| {
            let codec = self.codec(format).filter(|codec| codecs.allow(*codec))?;
            let bits = self.bits.iter().find(|(of, _)| of == format);
            let bits_max = bits.filter(|_| codec == Codec::Opus).map(|(_, bits)| *bits);
            Some(Spoken { codec, payload_type: payload_type(format)?, bits_max })
        })
    }

    /// Telephone events that count as the sound does (RFC 4733, 2.1); some phones offer others
    /// before them.
    pub fn events(&self, clock_hz: u32) -> Option<u8> {
        let wanted = format!("telephone-event/{clock_hz}");
        let is_it = |format: &&String| {
            self.name(format).is_some_and(|name| name.eq_ignore_ascii_case(&wanted))
        };
        self.formats.iter().find(is_it).and_then(|format| payload_type(format))
    }

    /// Where they want to hear; the address of nobody is how some put a call on hold (RFC 3264,
    /// 8.4).
    pub fn remote(
        &self,
        ours: SocketAddr,
        peer: IpAddr,
    ) -> Result<(Option<SocketAddr>, bool), BadSdp> {
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

pub(super) fn host_of(value: &str) -> Option<String> {
    let mut words = value.split_ascii_whitespace();
    let (net, kind) = (words.next()?, words.next()?);
    let host = words.next()?.split('/').next()?;
    (net == "IN" && matches!(kind, "IP4" | "IP6")).then(|| host.to_owned())
}

/// What is said of Opus: `useinbandfec=1; maxaveragebitrate=20000`.
fn bits_of(params: &str) -> Option<u32> {
    let said = params.split(';').filter_map(|param| param.split_once('='));
    let mut bits = said.filter(|(name, _)| name.trim() == "maxaveragebitrate");
    bits.next()?.1.trim().parse().ok().filter(|bits| OPUS_BITS.contains(bits))
}

/// RTP has seven bits for it, some of which RTCP needs (RFC 5761).
fn payload_type(format: &str) -> Option<u8> {
    format.parse().ok().filter(|n| *n < 64 || (96..128).contains(n))
}
