//! Offer and answer (RFC 3264) about one stream of sound, with telephone events beside it.

mod ours;
mod section;

use std::net::{IpAddr, SocketAddr};

use super::codec::{Codecs, Spoken};
use super::crypto::{Keys, SECURE, Secrecy};
use section::{Section, host_of};

pub(super) use ours::Ours;

/// Streams that one description may have.
const SECTIONS_MAX: usize = 16;
/// Lines that one description may have.
const LINES_MAX: usize = 512;

/// What both ends have agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Media {
    /// Where they want to hear; `None` while they do not.
    pub remote: Option<SocketAddr>,
    pub spoken: Spoken,
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
    /// It has more streams than are looked at.
    TooMany,
    /// Nothing in it can be spoken here, but this.
    NothingCommon(Codecs),
    /// It is plain where it must not be, or has no key that fits.
    Keys,
    /// Sound is to be sent where it must not go.
    Address,
}

impl BadSdp {
    /// The status, and what its `Warning` says (RFC 3261, 20.43).
    pub fn told(self) -> (u16, String) {
        let (status, code, text) = match self {
            BadSdp::NotSdp => (400, 399, "the body is no session description".to_owned()),
            BadSdp::TooMany => (488, 399, format!("more than {SECTIONS_MAX} streams")),
            BadSdp::NothingCommon(codecs) => {
                (488, 305, format!("spoken over RTP/AVP: {}", codecs.told()))
            }
            BadSdp::Keys => {
                let right = "RTP/SAVP and a key for AES_CM_128_HMAC_SHA1_80 or _32";
                (488, 399, right.to_owned())
            }
            BadSdp::Address => (488, 301, "no address that sound is sent to".to_owned()),
        };
        (status, format!("{code} floorkeeper \"{text}\""))
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
                return Err(BadSdp::TooMany);
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
        codecs: Codecs,
    ) -> Result<Media, BadSdp> {
        let find =
            |profile: &str, secure| Some(&self.sections[self.chosen(profile, secure, codecs)?]);
        let chosen = secrecy.choose(find, |section| section.line.clone());
        let (section, keys) = chosen.ok_or_else(|| self.lacks(secrecy, codecs))?;
        let spoken = section.spoken(codecs);
        let spoken = spoken.ok_or(BadSdp::NothingCommon(codecs))?;
        let (remote, silent) = section.remote(ours, peer)?;
        let (sends, hears) = match section.direction {
            Direction::Both => (true, true),
            Direction::SendOnly => (false, true),
            Direction::ReceiveOnly => (true, false),
            Direction::Neither => (false, false),
        };
        let (sends, hears) = (sends && !silent, hears && !silent);
        let events = section.events(spoken.codec.clock_hz());
        Ok(Media { remote, spoken, events, sends, hears, keys })
    }

    /// Why there is no stream that can be spoken over.
    fn lacks(&self, secrecy: Secrecy<'_>, codecs: Codecs) -> BadSdp {
        let is_secure =
            |section: &Section| section.protocol == SECURE && section.spoken(codecs).is_some();
        match secrecy.needs_keys() || self.sections.iter().any(is_secure) {
            true => BadSdp::Keys,
            false => BadSdp::NothingCommon(codecs),
        }
    }

    fn chosen(&self, profile: &str, secure: bool, codecs: Codecs) -> Option<usize> {
        let speaks = |section: &Section| {
            section.kind == "audio"
                && section.protocol == profile
                && section.port != 0
                && section.spoken(codecs).is_some()
                && (!secure || section.line.is_some())
        };
        self.sections.iter().position(speaks)
    }
}

#[cfg(test)]
mod tests;
