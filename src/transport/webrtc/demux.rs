//! Whose datagram is this? One port, many calls.
//!
//! An address belongs to a call once that call has sent something back for a connectivity check
//! from it, which proves that its sender knows the call's ICE password. Checks are told apart by
//! the name they carry, so that an address may go over to another call. Everything else from an
//! address that belongs to nobody is rubbish: dropped and counted, never answered.

use std::collections::HashMap;
use std::net::SocketAddr;

/// Addresses that one call may be reached from; the oldest goes first.
const ADDRESSES_MAX: usize = 8;

/// A call's number at this port.
pub(super) type SeatId = u64;

/// The calls at one port.
#[derive(Debug)]
pub(super) struct Demux<R> {
    seats: HashMap<SeatId, Seated<R>>,
    by_name: HashMap<String, SeatId>,
    by_address: HashMap<SocketAddr, SeatId>,
    next: SeatId,
}

#[derive(Debug)]
struct Seated<R> {
    route: R,
    name: String,
    addresses: Vec<SocketAddr>,
}

impl<R> Default for Demux<R> {
    fn default() -> Self {
        Demux {
            seats: HashMap::new(),
            by_name: HashMap::new(),
            by_address: HashMap::new(),
            next: 0,
        }
    }
}

impl<R> Demux<R> {
    /// A call whose ICE name (username fragment) is this.
    pub fn join(&mut self, name: &str, route: R) -> SeatId {
        self.next += 1;
        let seated = Seated { route, name: name.to_owned(), addresses: Vec::new() };
        self.seats.insert(self.next, seated);
        self.by_name.insert(name.to_owned(), self.next);
        self.next
    }

    /// A call has another name from here on.
    pub fn rename(&mut self, seat: SeatId, name: &str) {
        let Some(seated) = self.seats.get_mut(&seat) else { return };
        self.by_name.remove(&seated.name);
        name.clone_into(&mut seated.name);
        self.by_name.insert(name.to_owned(), seat);
    }

    /// A call is over.
    pub fn leave(&mut self, seat: SeatId) {
        let Some(seated) = self.seats.remove(&seat) else { return };
        self.by_name.remove(&seated.name);
        for address in seated.addresses {
            if self.by_address.get(&address) == Some(&seat) {
                self.by_address.remove(&address);
            }
        }
    }

    /// A call has answered a check from this address.
    pub fn prove(&mut self, seat: SeatId, address: SocketAddr) {
        let Some(seated) = self.seats.get_mut(&seat) else { return };
        if self.by_address.insert(address, seat) == Some(seat) {
            return;
        }
        seated.addresses.retain(|known| *known != address);
        seated.addresses.push(address);
        if seated.addresses.len() > ADDRESSES_MAX {
            let oldest = seated.addresses.remove(0);
            if self.by_address.get(&oldest) == Some(&seat) {
                self.by_address.remove(&oldest);
            }
        }
    }

    /// The call that this datagram is for.
    pub fn route(&self, from: SocketAddr, datagram: &[u8]) -> Option<&R> {
        let named = check_name(datagram).and_then(|name| self.by_name.get(name));
        let seat = named.or_else(|| self.by_address.get(&from))?;
        self.seats.get(seat).map(|seated| &seated.route)
    }

    /// How many calls there are.
    pub fn len(&self) -> usize {
        self.seats.len()
    }
}

const MAGIC_COOKIE: [u8; 4] = [0x21, 0x12, 0xa4, 0x42];
const BINDING_REQUEST: [u8; 2] = [0, 1];
const USERNAME: [u8; 2] = [0, 6];
const HEADER_BYTES: usize = 20;

/// Our own part of the user name in a connectivity check (RFC 8445, 7.2.2).
pub(super) fn check_name(datagram: &[u8]) -> Option<&str> {
    let header = datagram.get(..HEADER_BYTES)?;
    if header[..2] != BINDING_REQUEST || header[4..8] != MAGIC_COOKIE {
        return None;
    }
    let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let mut rest = datagram.get(HEADER_BYTES..HEADER_BYTES + length)?;
    while let [a, b, c, d, after @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*c, *d]));
        let value = after.get(..length)?;
        if [*a, *b] == USERNAME {
            let (ours, _) = std::str::from_utf8(value).ok()?.split_once(':')?;
            return Some(ours);
        }
        rest = after.get(length.next_multiple_of(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str) -> Vec<u8> {
        let mut attributes = vec![0x80, 0x22, 0, 3, b'a', b'b', b'c', 0, 0, 6, 0, name.len() as u8];
        attributes.extend_from_slice(name.as_bytes());
        attributes.resize(attributes.len().next_multiple_of(4), 0);
        let mut datagram = vec![0, 1, 0, attributes.len() as u8, 0x21, 0x12, 0xa4, 0x42];
        datagram.extend_from_slice(&[7; 12]);
        datagram.extend(attributes);
        datagram
    }

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn an_address_is_a_calls_once_it_has_proven_itself() {
        let mut demux = Demux::default();
        let (one, two) = (demux.join("one", 1), demux.join("two", 2));
        let media = [0x80, 111, 0, 1];
        assert_eq!(demux.route(address(5), &media), None);
        assert_eq!(demux.route(address(5), &check("nobody:x")), None);
        assert_eq!(demux.route(address(5), &check("one:x")), Some(&1));
        assert_eq!(demux.route(address(5), &media), None, "asked is not proven");
        demux.prove(one, address(5));
        assert_eq!(demux.route(address(5), &media), Some(&1));
        assert_eq!(demux.route(address(5), &check("two:x")), Some(&2));
        demux.prove(two, address(5));
        assert_eq!(demux.route(address(5), &media), Some(&2), "it has gone over");
        demux.leave(one);
        assert_eq!(demux.route(address(5), &media), Some(&2));
        demux.leave(two);
        assert_eq!((demux.route(address(5), &media), demux.len()), (None, 0));
        assert!(demux.by_address.is_empty() && demux.by_name.is_empty());
    }

    #[test]
    fn a_call_with_another_name_keeps_its_addresses() {
        let mut demux = Demux::default();
        let seat = demux.join("one", 1);
        demux.prove(seat, address(5));
        demux.rename(seat, "two");
        assert_eq!(demux.route(address(6), &check("one:x")), None);
        assert_eq!(demux.route(address(6), &check("two:x")), Some(&1));
        assert_eq!(demux.route(address(5), &[0x80, 111, 0, 1]), Some(&1));
        demux.leave(seat);
        assert!(demux.by_address.is_empty() && demux.by_name.is_empty());
    }

    #[test]
    fn a_call_has_few_addresses() {
        let mut demux = Demux::default();
        let seat = demux.join("one", 1);
        for port in 1..=100 {
            demux.prove(seat, address(port));
            demux.prove(seat, address(100));
        }
        assert_eq!(demux.by_address.len(), ADDRESSES_MAX);
        assert_eq!(demux.route(address(100), &[128]), Some(&1));
        assert_eq!(demux.route(address(1), &[128]), None);
    }

    #[test]
    fn rubbish_has_no_name() {
        let whole = check("one:x");
        assert_eq!(check_name(&whole), Some("one"));
        for length in 0..whole.len() {
            assert_eq!(check_name(&whole[..length]), None, "{length} bytes");
        }
        for at in 0..whole.len() {
            let mut broken = whole.clone();
            broken[at] ^= 0xff;
            let _ = check_name(&broken);
        }
        assert_eq!(check_name(&check("nocolon")), None);
    }
}
