//! Packets of RTP (RFC 3550), and whose they are.

use std::net::{IpAddr, SocketAddr};

use super::count::{Count, Counts};

/// Longest payload that is taken: 200 ms of G.711.
pub(super) const PAYLOAD_MAX: usize = 1_600;
const HEADER: usize = 12;

/// A packet as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet<'a> {
    pub payload_type: u8,
    pub sequence: u16,
    pub timestamp: u32,
    pub ssrc: u32,
    pub payload: &'a [u8],
}

/// Reads a packet; `None` is none.
pub(super) fn parse(bytes: &[u8]) -> Option<Packet<'_>> {
    let head: &[u8; HEADER] = bytes.first_chunk()?;
    let (first, second) = (head[0], head[1]);
    if first >> 6 != 2 {
        return None;
    }
    let mut rest = bytes[HEADER..].get(usize::from(first & 15) * 4..)?;
    if first & 0x10 != 0 {
        let extension: &[u8; 4] = rest.first_chunk()?;
        let words = u16::from_be_bytes([extension[2], extension[3]]);
        rest = rest[4..].get(usize::from(words) * 4..)?;
    }
    if first & 0x20 != 0 {
        let padding = usize::from(*rest.last()?);
        rest = rest.get(..rest.len().checked_sub(padding).filter(|_| padding > 0)?)?;
    }
    Some(Packet {
        payload_type: second & 0x7f,
        sequence: u16::from_be_bytes([head[2], head[3]]),
        timestamp: u32::from_be_bytes([head[4], head[5], head[6], head[7]]),
        ssrc: u32::from_be_bytes([head[8], head[9], head[10], head[11]]),
        payload: rest,
    })
}

/// RTCP comes to the same port from those who were told that it may (RFC 5761).
pub(super) fn is_rtcp(bytes: &[u8]) -> bool {
    bytes.get(1).is_some_and(|kind| (192..224).contains(kind))
}

/// A packet as it is sent.
pub(super) fn write(
    payload_type: u8,
    marker: bool,
    sequence: u16,
    timestamp: u32,
    ssrc: u32,
    payload: &[u8],
) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + payload.len());
    out.extend([0x80, payload_type | if marker { 0x80 } else { 0 }]);
    out.extend(sequence.to_be_bytes());
    out.extend(timestamp.to_be_bytes());
    out.extend(ssrc.to_be_bytes());
    out.extend(payload);
    out
}

/// Where the caller's sound comes from, and where ours goes.
///
/// What was agreed on holds. Behind a NAT it is another port, or another of the peer's addresses:
/// whoever is first from there is believed, until somebody speaks from the very place that was
/// agreed on. Nobody else is heard, and nobody is answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    agreed: Option<SocketAddr>,
    peer: IpAddr,
    believed: Option<SocketAddr>,
}

impl Source {
    /// Nothing is agreed on with this peer yet.
    pub fn of(peer: IpAddr) -> Source {
        Source { agreed: None, peer, believed: None }
    }

    /// Sound goes there from now on; where that is nowhere, those who were heard still are.
    pub fn agree(&mut self, remote: Option<SocketAddr>) {
        if remote.is_some() && remote != self.agreed {
            (self.agreed, self.believed) = (remote, None);
        }
    }

    /// Somebody sends: whether they are the caller.
    pub fn hears(&mut self, from: SocketAddr, counts: &Counts) -> bool {
        let exact = self.agreed == Some(from);
        let may_be =
            from.ip() == self.peer || self.agreed.is_some_and(|agreed| agreed.ip() == from.ip());
        let known = self.believed == Some(from);
        if exact || known || self.believed.is_none() && may_be {
            self.believed = if known { self.believed } else { Some(from) };
            return true;
        }
        counts.add(Count::RtpOfStrangers);
        false
    }

    /// Where ours goes.
    pub fn to(&self) -> Option<SocketAddr> {
        self.believed.or(self.agreed)
    }
}

#[cfg(test)]
#[path = "rtp_tests.rs"]
mod tests;
