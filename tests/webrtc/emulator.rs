//! A bad network between a peer and the server: a relay that loses, delays and disorders.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// What a network does to every datagram, either way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trouble {
    /// Of a hundred so many are lost.
    pub loss_percent: u32,
    /// Each takes something between nothing and this, so that they overtake each other.
    pub jitter: Duration,
}

/// What a network has done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    pub lost: u32,
    pub overtaken: u32,
}

/// The network; it is gone when it is dropped.
pub struct Network {
    /// What the peer takes for the server.
    pub address: SocketAddr,
    shared: Arc<Mutex<(Trouble, Done)>>,
    task: JoinHandle<()>,
}

/// Which way a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    ToServer,
    ToPeer,
}

struct Relay {
    /// One socket each side.
    front: UdpSocket,
    back: UdpSocket,
    server: SocketAddr,
    peer: Option<SocketAddr>,
    dice: StdRng,
    /// What is under way, by when it arrives; the number keeps two of one instant apart.
    under_way: BTreeMap<(Instant, u64), (Way, Vec<u8>)>,
    sent: u64,
    /// The newest that has arrived, each way.
    arrived: [u64; 2],
    shared: Arc<Mutex<(Trouble, Done)>>,
}

impl Network {
    /// A network without trouble; this seed decides what becomes of which datagram.
    pub async fn to(server: SocketAddr, seed: u64) -> Network {
        let front = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let back = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = front.local_addr().unwrap();
        let shared = Arc::<Mutex<(Trouble, Done)>>::default();
        let relay = Relay {
            front,
            back,
            server,
            peer: None,
            dice: StdRng::seed_from_u64(seed),
            under_way: BTreeMap::new(),
            sent: 0,
            arrived: [0; 2],
            shared: shared.clone(),
        };
        Network { address, shared, task: tokio::spawn(relay.run()) }
    }

    /// From here on it is as bad as this.
    pub fn make(&self, trouble: Trouble) {
        self.shared.lock().unwrap().0 = trouble;
    }

    /// What it has done so far.
    pub fn done(&self) -> Done {
        self.shared.lock().unwrap().1
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Relay {
    async fn run(mut self) {
        let (mut from_peer, mut from_server) = ([0; 2_048], [0; 2_048]);
        loop {
            let far = Instant::now() + Duration::from_secs(3_600);
            let due = self.under_way.first_key_value().map_or(far, |((due, _), _)| *due);
            tokio::select! {
                came = self.front.recv_from(&mut from_peer) => if let Ok((length, from)) = came {
                    self.peer = Some(from);
                    self.take(Way::ToServer, &from_peer[..length]);
                },
                came = self.back.recv_from(&mut from_server) => if let Ok((length, _)) = came {
                    self.take(Way::ToPeer, &from_server[..length]);
                },
                () = tokio::time::sleep_until(due) => self.deliver(),
            }
        }
    }

    fn take(&mut self, way: Way, datagram: &[u8]) {
        let (trouble, done) = &mut *self.shared.lock().unwrap();
        let is_lost = self.dice.random_range(0..100) < trouble.loss_percent;
        let delay = trouble.jitter.mul_f64(self.dice.random());
        if is_lost {
            done.lost += 1;
            return;
        }
        self.sent += 1;
        let due = (Instant::now() + delay, self.sent);
        self.under_way.insert(due, (way, datagram.to_vec()));
    }

    fn deliver(&mut self) {
        while let Some(first) = self.under_way.first_entry() {
            let (due, number) = *first.key();
            if due > Instant::now() {
                return;
            }
            let (way, datagram) = first.remove();
            let newest = &mut self.arrived[way as usize];
            if number < *newest {
                self.shared.lock().unwrap().1.overtaken += 1;
            }
            *newest = number.max(*newest);
            // What does not go out is lost, as on any network.
            let _ = match (way, self.peer) {
                (Way::ToServer, _) => self.back.try_send_to(&datagram, self.server),
                (Way::ToPeer, Some(peer)) => self.front.try_send_to(&datagram, peer),
                (Way::ToPeer, None) => Ok(0),
            };
        }
    }
}
