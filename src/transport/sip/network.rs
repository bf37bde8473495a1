//! Networks of addresses: `192.0.2.0/24`; and addresses as sockets for both families tell them.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// An address with what of it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// It is no network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoNetwork;

impl FromStr for Network {
    type Err = NoNetwork;

    fn from_str(text: &str) -> Result<Network, NoNetwork> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NoNetwork)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| NoNetwork)?;
        if bits > most { Err(NoNetwork) } else { Ok(Network { address, bits }) }
    }
}

impl Network {
    /// This address is of it.
    pub fn has(&self, ip: IpAddr) -> bool {
        let above = |of: u32| of - u32::from(self.bits);
        match (self.address, ip.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(ip)) => {
                (ours.to_bits() ^ ip.to_bits()).checked_shr(above(32)).unwrap_or(0) == 0
            }
            (IpAddr::V6(ours), IpAddr::V6(ip)) => {
                (ours.to_bits() ^ ip.to_bits()).checked_shr(above(128)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

/// Who a socket says that it heard: IPv4 by its own address, also where it is one for both.
pub(super) fn heard(from: SocketAddr) -> SocketAddr {
    match from.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::from((ip, from.port())),
        IpAddr::V6(_) => from,
    }
}

/// Whom a socket that is bound to `bound` is told to send to.
pub(super) fn told(bound: IpAddr, to: SocketAddr) -> SocketAddr {
    match (bound, to.ip()) {
        (IpAddr::V6(_), IpAddr::V4(ip)) => SocketAddr::from((ip.to_ipv6_mapped(), to.port())),
        _ => to,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_a_network() {
        let has =
            |network: &str, ip: &str| network.parse::<Network>().unwrap().has(ip.parse().unwrap());
        assert!(has("192.0.2.0/24", "192.0.2.255") && !has("192.0.2.0/24", "192.0.3.0"));
        assert!(has("192.0.2.4", "192.0.2.4") && !has("192.0.2.4", "192.0.2.5"));
        assert!(has("192.0.2.4", "::ffff:192.0.2.4"), "as a socket of both kinds tells it");
        assert!(has("0.0.0.0/0", "203.0.113.9") && !has("0.0.0.0/0", "::1"));
        assert!(has("2001:db8::/32", "2001:db8:1::1") && !has("2001:db8::/32", "2001:db9::1"));
        for wrong in ["", "192.0.2.0/33", "192.0.2/24", "192.0.2.0/", "phones.example"] {
            assert_eq!(wrong.parse::<Network>(), Err(NoNetwork), "{wrong}");
        }
    }
}
