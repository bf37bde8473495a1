//! The one UDP port of all calls: reads datagrams and hands each to the call it is for.

use std::io;
use std::net::{SocketAddr, UdpSocket as StdSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio_util::sync::CancellationToken;

use super::demux::{Demux, SeatId};
use super::overlong;

/// Datagrams that may wait for a call's task: five seconds of sound.
const WAITING_MAX: usize = 256;
/// What the socket is to keep while we are not there to read: a second of a hundred calls' sound.
/// Linux gives twice what `net.core.rmem_max` allows at most.
const RECEIVE_BUFFER: usize = 4 << 20;
/// Largest datagram that means anything; Ethernet's is 1,500.
const DATAGRAM_MAX: usize = 2_048;

/// What came, and from where.
#[derive(Debug)]
pub(super) struct Datagram {
    pub from: SocketAddr,
    pub bytes: BytesMut,
}

/// The port.
#[derive(Debug)]
pub struct Port {
    socket: UdpSocket,
    /// Where clients are told to send to.
    candidates: Vec<SocketAddr>,
    demux: Mutex<Demux<mpsc::Sender<Datagram>>>,
    nobodys: AtomicU64,
    overrun: AtomicU64,
}

/// What a port has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortStats {
    /// Calls that have a seat now.
    pub seats: usize,
    /// Datagrams that were for no call.
    pub nobodys: u64,
    /// Datagrams whose call did not keep up.
    pub overrun: u64,
    /// Datagrams that came while the socket was full; 0 where the system does not say.
    pub unread: u64,
}

impl Port {
    /// Binds; must be called within the runtime. Clients are told `public` addresses, or the bound
    /// one when there are none; a public address with port 0 has the bound port.
    pub fn bind(listen: SocketAddr, public: &[SocketAddr]) -> io::Result<Port> {
        if !overlong::notice() {
            tracing::warn!("clients are not told of events that are too long: log has a reader");
        }
        let socket = StdSocket::bind(listen)?;
        socket.set_nonblocking(true)?;
        // A system that gives less gives less.
        let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(RECEIVE_BUFFER);
        let socket = UdpSocket::from_std(socket)?;
        let bound = socket.local_addr()?;
        let port_of = |address: SocketAddr| match address.port() {
            0 => SocketAddr::new(address.ip(), bound.port()),
            _ => address,
        };
        let candidates = match public {
            [] => vec![bound],
            public => public.iter().copied().map(port_of).collect(),
        };
        Ok(Port {
            socket,
            candidates,
            demux: Mutex::default(),
            nobodys: AtomicU64::new(0),
            overrun: AtomicU64::new(0),
        })
    }

    /// Where clients are told to send to.
    pub fn candidates(&self) -> &[SocketAddr] {
        &self.candidates
    }

    /// What was counted so far.
    pub fn stats(&self) -> PortStats {
        PortStats {
            seats: self.demux().len(),
            nobodys: self.nobodys.load(Ordering::Relaxed),
            overrun: self.overrun.load(Ordering::Relaxed),
            unread: unread(&self.socket),
        }
    }

    /// Reads for as long as the process lives.
    pub async fn run(self: Arc<Self>) {
        let mut buffer = vec![0; DATAGRAM_MAX];
        loop {
            // An error is one peer's (its port is closed) and passes.
            let Ok((length, from)) = self.socket.recv_from(&mut buffer).await else {
                tokio::task::yield_now().await;
                continue;
            };
            self.pass_on(from, &buffer[..length]);
        }
    }

    fn pass_on(&self, from: SocketAddr, datagram: &[u8]) {
        let demux = self.demux();
        let Some(route) = demux.route(from, datagram) else {
            self.nobodys.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let bytes = BytesMut::from(datagram);
        if let Err(TrySendError::Full(_)) = route.try_send(Datagram { from, bytes }) {
            self.overrun.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A call's place, which goes with it. `name` is its ICE name.
    pub fn seat(self: &Arc<Self>, name: &str) -> Seat {
        let (route, datagrams) = mpsc::channel(WAITING_MAX);
        let id = self.demux().join(name, route);
        Seat { id, port: self.clone(), datagrams, hang_up: CancellationToken::new() }
    }

    fn demux(&self) -> MutexGuard<'_, Demux<mpsc::Sender<Datagram>>> {
        self.demux.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Datagrams that the socket had no room for.
#[cfg(target_os = "linux")]
fn unread(socket: &UdpSocket) -> u64 {
    use std::os::fd::AsRawFd;
    // Behind the socket's memory stands how many datagrams it has dropped (SK_MEMINFO_DROPS).
    const DROPS: usize = 8;
    let mut memory = [0_u32; DROPS + 1];
    let mut bytes = size_of_val(&memory) as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed, and at most `bytes` bytes are written
    // into `memory`, which has as many.
    let told = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            memory.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    if told == 0 { u64::from(memory[DROPS]) } else { 0 }
}

#[cfg(not(target_os = "linux"))]
fn unread(_: &UdpSocket) -> u64 {
    0
}

/// One call's place at the port.
#[derive(Debug)]
pub struct Seat {
    id: SeatId,
    port: Arc<Port>,
    pub(super) datagrams: mpsc::Receiver<Datagram>,
    hang_up: CancellationToken,
}

impl Seat {
    /// Cancelling it hangs up.
    pub fn hang_up(&self) -> CancellationToken {
        self.hang_up.clone()
    }

    /// The call has another ICE name from here on.
    pub(super) fn rename(&self, name: &str) {
        self.port.demux().rename(self.id, name);
    }

    /// This address has proven to be the call's.
    pub(super) fn prove(&self, address: SocketAddr) {
        self.port.demux().prove(self.id, address);
    }

    /// Sends now or never: what does not fit into the socket's buffer is lost, as on any network.
    pub(super) fn send(&self, to: SocketAddr, datagram: &[u8]) {
        let _ = self.port.socket.try_send_to(datagram, to);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.port.demux().leave(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn what_the_socket_had_no_room_for_is_counted() {
        let port = Port::bind("127.0.0.1:0".parse().unwrap(), &[]).unwrap();
        let sender = StdSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(port.stats().unread, 0);
        for _ in 0..20_000 {
            sender.send_to(&[0; 1_000], port.candidates()[0]).unwrap();
        }
        assert!(port.stats().unread > 0);
    }
}
