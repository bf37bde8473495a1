//! A port of its own for each call's sound.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket as StdSocket};
use std::ops::RangeInclusive;

use tokio::net::UdpSocket;

/// Where calls' sound is heard.
#[derive(Clone, Debug)]
pub struct RtpPorts {
    /// On this interface.
    pub ip: IpAddr,
    /// On an even one of these ports; `None`: on any that is free.
    pub range: Option<RangeInclusive<u16>>,
}

/// Takes a port; must be called within the runtime.
pub(super) fn bind(ports: &RtpPorts) -> io::Result<UdpSocket> {
    let Some(range) = &ports.range else { return bound(SocketAddr::new(ports.ip, 0)) };
    let (first, last) = (range.start().next_multiple_of(2), *range.end());
    let count = u32::from(last.saturating_sub(first) / 2) + 1;
    // Where one begins to look is drawn, so that a port is not used again at once.
    let from = rand::random::<u32>() % count;
    let mut problem = io::Error::from(io::ErrorKind::AddrInUse);
    for step in 0..count {
        let port = first + ((from + step) % count) as u16 * 2;
        match bound(SocketAddr::new(ports.ip, port)) {
            Ok(socket) => return Ok(socket),
            Err(error) => problem = error,
        }
    }
    Err(problem)
}

fn bound(at: SocketAddr) -> io::Result<UdpSocket> {
    let socket = StdSocket::bind(at)?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}
