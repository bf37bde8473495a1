//! A double of Asterisk's AudioSocket: a TCP client that says a UUID and then sends and plays a
//! frame every 20 ms.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use crate::rig::{LIMIT, Rig};

pub const HANG_UP: u8 = 0x00;
pub const UUID: u8 = 0x01;
pub const KEY: u8 = 0x03;
pub const SLIN: u8 = 0x10;
pub const SLIN16: u8 = 0x12;

/// The server, with a port for AudioSocket.
pub const LISTENS: &str = "asterisk.audiosocket_listen=\"127.0.0.1:0\"";

pub struct Socket {
    pub stream: TcpStream,
    inbox: BytesMut,
    /// The kind of sound that is spoken, and its frame.
    kind: u8,
    frame_bytes: usize,
    /// Frames that wait to be played: the telephone's own buffer.
    waiting: VecDeque<Vec<u8>>,
    pub played: Vec<Vec<u8>>,
    mouth: VecDeque<Vec<u8>>,
    pub hung_up: bool,
    pub ended: bool,
    /// Nothing is said unless the caller speaks.
    pub is_mute: bool,
}

impl Socket {
    /// A call that has said its name, in frames of this kind.
    pub async fn call(rig: &Rig, kind: u8, frame_bytes: usize) -> Socket {
        let mut socket = Socket::connect(rig, kind, frame_bytes).await;
        socket.send(UUID, &[0x7f; 16]).await;
        socket
    }

    /// A connection that has said nothing.
    pub async fn connect(rig: &Rig, kind: u8, frame_bytes: usize) -> Socket {
        let address = rig.serving.audiosocket.expect("a port for AudioSocket");
        Socket {
            stream: TcpStream::connect(address).await.unwrap(),
            inbox: BytesMut::new(),
            kind,
            frame_bytes,
            waiting: VecDeque::new(),
            played: Vec::new(),
            mouth: VecDeque::new(),
            hung_up: false,
            ended: false,
            is_mute: false,
        }
    }

    /// Whoever is gone does not get it.
    pub async fn send(&mut self, kind: u8, payload: &[u8]) {
        let mut frame = vec![kind];
        frame.extend((payload.len() as u16).to_be_bytes());
        frame.extend(payload);
        self.send_bytes(&frame).await;
    }

    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
    }

    pub async fn press(&mut self, key: char) {
        self.send(KEY, key.to_string().as_bytes()).await;
    }

    /// The caller says something for so long.
    pub fn speak(&mut self, speech_ms: usize) {
        let wave = |at: usize| if at % 16 < 8 { 8_000_i16 } else { -8_000 };
        let sound: Vec<u8> =
            (0..self.frame_bytes / 2).flat_map(|at| wave(at).to_le_bytes()).collect();
        self.mouth.extend((0..speech_ms / 20).map(|_| sound.clone()));
    }

    /// Speaks in this kind from now on; what still comes of the one before is left out.
    pub async fn change_to(&mut self, kind: u8, frame_bytes: usize) {
        (self.kind, self.frame_bytes) = (kind, frame_bytes);
        self.waiting.clear();
        self.send(kind, &vec![0; frame_bytes]).await;
        while self.inbox.first() != Some(&kind) {
            let whole = match self.inbox[..] {
                [_, high, low, ..] => 3 + usize::from(u16::from_be_bytes([high, low])),
                _ => usize::MAX,
            };
            if self.inbox.len() >= whole {
                self.inbox.advance(whole);
            } else {
                let read = timeout(LIMIT, self.stream.read_buf(&mut self.inbox)).await;
                assert_ne!(read.expect("in time").unwrap(), 0, "the connection is over");
            }
        }
    }

    /// Lets the call go on, in real time, until this is so.
    pub async fn until(&mut self, what: &str, mut is_so: impl FnMut(&Socket) -> bool) {
        let mut ticks = interval(Duration::from_millis(20));
        // A telephone never plays faster than real time, however busy this machine is.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let began = Instant::now();
        while !is_so(self) {
            assert!(began.elapsed() < LIMIT, "not in time: {what}: {} ms", self.played_ms());
            tokio::select! {
                read = self.stream.read_buf(&mut self.inbox), if !self.ended => {
                    self.ended = read.is_err() || matches!(read, Ok(0));
                    self.take();
                    if self.hung_up {
                        // Asterisk closes at once.
                        let _ = self.stream.shutdown().await;
                    }
                }
                _ = ticks.tick() => self.tick().await,
            }
        }
    }

    /// What Asterisk does not know makes it drop the call.
    fn take(&mut self) {
        while self.inbox.len() >= 3 {
            let length = usize::from(u16::from_be_bytes([self.inbox[1], self.inbox[2]]));
            if self.inbox.len() < 3 + length {
                return;
            }
            let kind = self.inbox[0];
            self.inbox.advance(3);
            let payload = self.inbox.split_to(length);
            assert!(!self.hung_up, "kind {kind:#x} behind the hang-up");
            if kind == HANG_UP {
                self.hung_up = true;
                continue;
            }
            assert_eq!((kind, length), (self.kind, self.frame_bytes), "answered in its own kind");
            self.waiting.push_back(payload.to_vec());
        }
    }

    async fn tick(&mut self) {
        let sound = self.mouth.pop_front();
        if !self.is_mute || sound.is_some() {
            let sound = sound.unwrap_or_else(|| vec![0; self.frame_bytes]);
            let kind = self.kind;
            self.send(kind, &sound).await;
        }
        self.played.extend(self.waiting.pop_front());
    }

    /// How much the caller has heard, in milliseconds.
    pub fn played_ms(&self) -> usize {
        self.played.len() * 20
    }

    /// How much was sent that has not been played.
    pub fn ahead_ms(&self) -> usize {
        self.waiting.len() * 20
    }

    /// How loud it was, of 32,768.
    pub fn loudest(&self) -> u16 {
        let samples = self.played.iter().flat_map(|frame| frame.chunks_exact(2));
        samples.map(|b| i16::from_le_bytes([b[0], b[1]]).unsigned_abs()).max().unwrap_or(0)
    }
}
