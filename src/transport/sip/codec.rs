//! The codecs that are spoken, and what a session description calls them.

use crate::codec::{g711, g722, opus};

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// RFC 7587.
    Opus,
    /// 16 kHz in what G.711 needs for 8.
    G722,
    /// G.711: North America and Japan.
    Pcmu,
    /// G.711: elsewhere.
    Pcma,
}

impl Codec {
    /// Each of them, the one that sounds best first.
    pub const ALL: [Codec; 4] = [Codec::Opus, Codec::G722, Codec::Pcmu, Codec::Pcma];

    /// What the configuration calls it.
    pub fn word(self) -> &'static str {
        match self {
            Codec::Opus => "opus",
            Codec::G722 => "g722",
            Codec::Pcmu => "pcmu",
            Codec::Pcma => "pcma",
        }
    }

    /// What a description calls it, with the rate that its timestamps count and Opus's channels.
    pub(super) fn name(self) -> &'static str {
        match self {
            Codec::Opus => "opus/48000/2",
            Codec::G722 => "G722/8000",
            Codec::Pcmu => "PCMU/8000",
            Codec::Pcma => "PCMA/8000",
        }
    }

    /// The one that a description calls so.
    pub(super) fn named(name: &str) -> Option<Codec> {
        let name = name.strip_suffix("/1").unwrap_or(name);
        Codec::ALL.into_iter().find(|codec| codec.name().eq_ignore_ascii_case(name))
    }

    /// The payload type of those that have one of their own (RFC 3551, 6).
    pub(super) fn payload_type(self) -> Option<u8> {
        match self {
            Codec::Opus => None,
            Codec::G722 => Some(9),
            Codec::Pcmu => Some(0),
            Codec::Pcma => Some(8),
        }
    }

    /// The one with this payload type of its own.
    pub(super) fn of_payload_type(payload_type: u8) -> Option<Codec> {
        Codec::ALL.into_iter().find(|codec| codec.payload_type() == Some(payload_type))
    }

    /// What its timestamps count; G.722's count half of its samples (RFC 3551, 4.5.2).
    pub(super) fn clock_hz(self) -> u32 {
        match self {
            Codec::Opus => opus::CLOCK_HZ,
            Codec::G722 | Codec::Pcmu | Codec::Pcma => g711::RATE_HZ,
        }
    }

    /// Rate of the sound that it encodes.
    pub(super) fn encoded_hz(self) -> u32 {
        match self {
            Codec::Opus => opus::ENCODED_RATE_HZ,
            Codec::G722 => g722::RATE_HZ,
            Codec::Pcmu | Codec::Pcma => g711::RATE_HZ,
        }
    }
}

/// Those that are spoken here, the one we like best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codecs([Option<Codec>; Codec::ALL.len()]);

impl Default for Codecs {
    fn default() -> Codecs {
        Codecs(Codec::ALL.map(Some))
    }
}

impl Codecs {
    /// `None`: there are none, or one twice.
    pub fn new(codecs: &[Codec]) -> Option<Codecs> {
        let is_twice = |at: usize| codecs[..at].contains(&codecs[at]);
        let right = !codecs.is_empty() && !(0..codecs.len()).any(is_twice);
        right.then(|| Codecs(std::array::from_fn(|at| codecs.get(at).copied())))
    }

    pub(super) fn allow(self, codec: Codec) -> bool {
        self.0.contains(&Some(codec))
    }

    pub(super) fn iter(self) -> impl Iterator<Item = Codec> {
        self.0.into_iter().flatten()
    }

    /// As a person is told of them: `opus, G722, PCMU`.
    pub(super) fn told(self) -> String {
        let name = |codec: Codec| codec.name().split('/').next().unwrap_or_default();
        self.iter().map(name).collect::<Vec<_>>().join(", ")
    }
}

/// How sound is spoken to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spoken {
    pub codec: Codec,
    /// What they call it.
    pub payload_type: u8,
    /// Bits a second that they want at most (RFC 7587, `maxaveragebitrate`).
    pub bits_max: Option<u32>,
}
