//! The sockets that SIP is spoken over.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener, UdpSocket as StdSocket};

use tokio::net::{TcpListener, UdpSocket};

/// All calls' signalling comes by one socket: what comes while a machine stands still has to fit.
const RECEIVE_BUFFER: usize = 4 << 20;

/// A port cannot be had.
#[derive(Debug)]
pub struct NoPort {
    /// The key that names it.
    pub key: &'static str,
    /// Which.
    pub at: SocketAddr,
    /// Why.
    pub problem: io::Error,
}

/// UDP and TCP at one port; where the port is drawn, both have to be free.
pub(super) fn plain(at: SocketAddr) -> Result<(UdpSocket, TcpListener), NoPort> {
    const TRIES: u32 = 32;
    let refused = |problem| NoPort { key: "sip.listen", at, problem };
    let mut tried = 0;
    loop {
        tried += 1;
        let socket = StdSocket::bind(at).map_err(refused)?;
        // A system that gives less gives less.
        let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(RECEIVE_BUFFER);
        socket.set_nonblocking(true).map_err(refused)?;
        match socket.local_addr().and_then(listener) {
            Ok(listener) => return Ok((UdpSocket::from_std(socket).map_err(refused)?, listener)),
            Err(_) if at.port() == 0 && tried < TRIES => {}
            Err(problem) => return Err(refused(problem)),
        }
    }
}

/// TCP for TLS.
pub(super) fn secure(at: SocketAddr) -> Result<TcpListener, NoPort> {
    listener(at).map_err(|problem| NoPort { key: "sip.tls_listen", at, problem })
}

fn listener(at: SocketAddr) -> io::Result<TcpListener> {
    let listener = StdListener::bind(at)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}
