//! What we write.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use super::super::codec::{Codec, Codecs};
use super::super::crypto::{Line, PLAIN, SECURE, Secrecy};
use super::section::Section;
use super::{BadSdp, Description, Media};

/// What our own offer calls what has no payload type of its own.
const OUR_OPUS: u8 = 96;
const OUR_EVENTS: u8 = 101;
const OUR_OPUS_EVENTS: u8 = 97;
/// What Opus is spoken to us with (RFC 7587, 6.1).
const OPUS_PARAMS: &str = "useinbandfec=1";

/// What we write: the same session, a version further whenever it says something else.
#[derive(Clone, Debug)]
pub(in super::super) struct Ours {
    at: SocketAddr,
    id: u64,
    version: u64,
    said: String,
    codecs: Codecs,
    /// The key of our newest offer.
    offered: Option<Line>,
}

impl Ours {
    /// Where we hear, under this session's number.
    pub fn new(at: SocketAddr, id: u64, codecs: Codecs) -> Ours {
        Ours { at, id, version: 0, said: String::new(), codecs, offered: None }
    }

    /// Where we hear.
    pub fn at(&self) -> SocketAddr {
        self.at
    }

    /// Their answer to our offer.
    pub fn agree(&self, answer: &Description, peer: IpAddr) -> Result<Media, BadSdp> {
        answer.agree(self.at, peer, Secrecy::Answer(self.offered.as_ref()), self.codecs)
    }

    /// The answer to an offer that was agreed to.
    pub fn answer(&mut self, offer: &Description, media: &Media) -> String {
        let profile = media.keys.as_ref().map_or(PLAIN, |keys| keys.profile);
        let chosen = offer.chosen(profile, media.keys.is_some(), self.codecs);
        let mut streams = String::new();
        for (at, section) in offer.sections.iter().enumerate() {
            let Section { kind, protocol, formats, .. } = section;
            if Some(at) != chosen {
                let _ = write!(streams, "m={kind} 0 {protocol} {}\r\n", formats.join(" "));
                continue;
            }
            let codec = media.spoken.codec;
            let events = media.events.iter().map(|events| (*events, codec.clock_hz()));
            let codecs = vec![(media.spoken.payload_type, codec)];
            let formats = Formats { codecs, events: events.collect() };
            let direction = section.direction.word_of_answer();
            stream(&mut streams, (self.at.port(), profile), &formats, direction);
            streams.extend(media.keys.iter().map(|keys| keys.line().write()));
            if section.mux {
                streams.push_str("a=rtcp-mux\r\n");
            }
        }
        self.write(streams)
    }

    /// Our own offer, to who made none; with a key, where it is to be encrypted. What was agreed
    /// on before is called what it was called (RFC 3264, 8.3.2).
    pub fn offer(&mut self, line: Option<Line>, agreed: Option<&Media>) -> String {
        let formats = self.formats(agreed);
        let profile = if line.is_some() { SECURE } else { PLAIN };
        let mut streams = String::new();
        stream(&mut streams, (self.at.port(), profile), &formats, "sendrecv");
        streams.extend(line.iter().map(Line::write));
        self.offered = line;
        self.write(streams)
    }

    /// What our own offer calls each codec and the events of each clock.
    fn formats(&self, agreed: Option<&Media>) -> Formats {
        let spoken = agreed.map(|media| media.spoken);
        let mut taken: Vec<u8> = spoken.iter().map(|spoken| spoken.payload_type).collect();
        taken.extend(agreed.and_then(|media| media.events));
        let mut free = |wish: u8| {
            let number = (wish..128).chain(96..wish).find(|number| !taken.contains(number));
            taken.extend(number);
            number.unwrap_or(wish)
        };
        let is_same = |codec| spoken.filter(|spoken| spoken.codec == codec);
        let mut codecs = Vec::new();
        for codec in self.codecs.iter() {
            let known = is_same(codec).map(|spoken| spoken.payload_type);
            let number = known.or(codec.payload_type()).unwrap_or_else(|| free(OUR_OPUS));
            codecs.push((number, codec));
        }
        let mut clocks: Vec<u32> = codecs.iter().map(|(_, codec)| codec.clock_hz()).collect();
        clocks.sort_unstable();
        clocks.dedup();
        let mut events = Vec::new();
        for clock_hz in clocks {
            let before = agreed.filter(|media| media.spoken.codec.clock_hz() == clock_hz);
            let wish = match Codec::Opus.clock_hz() == clock_hz {
                true => OUR_OPUS_EVENTS,
                false => OUR_EVENTS,
            };
            let known = before.and_then(|media| media.events);
            events.push((known.unwrap_or_else(|| free(wish)), clock_hz));
        }
        Formats { codecs, events }
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

/// What is spoken over a stream, by its payload types.
struct Formats {
    codecs: Vec<(u8, Codec)>,
    /// Of each clock.
    events: Vec<(u8, u32)>,
}

fn stream(
    out: &mut String,
    (port, profile): (u16, &str),
    Formats { codecs, events }: &Formats,
    direction: &'static str,
) {
    let _ = write!(out, "m=audio {port} {profile}");
    let numbers = codecs.iter().map(|(number, _)| number);
    for number in numbers.chain(events.iter().map(|(number, _)| number)) {
        let _ = write!(out, " {number}");
    }
    out.push_str("\r\n");
    for (number, codec) in codecs {
        let _ = write!(out, "a=rtpmap:{number} {}\r\n", codec.name());
        if *codec == Codec::Opus {
            let _ = write!(out, "a=fmtp:{number} {OPUS_PARAMS}\r\n");
        }
    }
    for (number, clock_hz) in events {
        let _ = write!(out, "a=rtpmap:{number} telephone-event/{clock_hz}\r\n");
        let _ = write!(out, "a=fmtp:{number} 0-15\r\n");
    }
    let _ = write!(out, "a=ptime:20\r\na={direction}\r\n");
}
