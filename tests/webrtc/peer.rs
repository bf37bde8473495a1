//! A browser's half of a call: an offer, a microphone, a loudspeaker, and every event.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use floorkeeper::codec::opus::{Decoder, ENCODED_FRAME_SAMPLES, Encoder};
use rtc::data_channel::RTCDataChannelId;
use rtc::peer_connection::RTCPeerConnection;
use rtc::peer_connection::configuration::RTCOfferOptions;
use rtc::peer_connection::event::{RTCDataChannelEvent, RTCPeerConnectionEvent};
use rtc::peer_connection::message::{RTCMessage, TaggedRTCMessage};
use rtc::peer_connection::sdp::RTCSessionDescription;
use rtc::rtp::Packet;
use rtc::rtp_transceiver::RTCRtpSenderId;
use rtc::sansio::Protocol;
use rtc::shared::TaggedBytesMut;
use serde_json::{Value, json};
use tokio::net::UdpSocket;

use crate::browser::{self, Offering};
use crate::emulator::Network;
use crate::http::{self, Answer};
use crate::rig::{LIMIT, Rig};

/// Long enough for what is on its way over loopback.
pub const MOMENT: Duration = Duration::from_millis(100);
const FRAME: Duration = Duration::from_millis(20);

pub struct Peer {
    pc: RTCPeerConnection,
    pub socket: UdpSocket,
    local: SocketAddr,
    events_channel: RTCDataChannelId,
    sender: RTCRtpSenderId,
    encoder: Encoder,
    decoder: Decoder,
    /// Frames that the microphone will hear; behind them it hears silence.
    mic: VecDeque<i16>,
    mic_due: Instant,
    sequence: u16,
    timestamp: u32,
    pub is_open: bool,
    pub is_closed: bool,
    unread: VecDeque<Value>,
    /// Every event so far.
    pub events: Vec<Value>,
    /// When each packet came, and how loud it was.
    pub heard: Vec<(Instant, f32)>,
    /// Every answer to an offer.
    pub answers: Vec<String>,
    /// Where the call lives.
    pub location: String,
    /// Where the server takes packets.
    pub server: SocketAddr,
    /// Of so many packets, either way, one is lost; 0: none.
    pub loses_one_in: u32,
    passed: u32,
}

pub fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

impl Peer {
    /// Calls, and waits for the first event.
    pub async fn call(rig: &Rig) -> Peer {
        let mut peer = Peer::answered(rig, "application/sdp", |offer| offer.to_owned()).await;
        peer.until("session.created").await;
        peer
    }

    /// Calls over a network that can be made bad.
    pub async fn call_over(rig: &Rig, seed: u64) -> (Peer, Network) {
        let (mut peer, offer) = Peer::offering().await;
        let mut answer = post(rig, "application/sdp", &offer).await;
        let server = candidate_of(&answer.text());
        let network = Network::to(server, seed).await;
        let (from, to) = (server.port().to_string(), network.address.port().to_string());
        answer.body = answer.text().replace(&from, &to).into_bytes();
        peer.take_answer(&answer);
        peer.until("session.created").await;
        (peer, network)
    }

    /// Calls, and keeps the offer.
    pub async fn calling(rig: &Rig) -> (Peer, String) {
        let (mut peer, offer) = Peer::offering().await;
        peer.take_answer(&post(rig, "application/sdp", &offer).await);
        peer.until("session.created").await;
        (peer, offer)
    }

    /// Calls with a key.
    pub async fn call_as(rig: &Rig, key: &str) -> Peer {
        let bearer = format!("Bearer {key}");
        let headers = [("Content-Type", "application/sdp"), ("Authorization", bearer.as_str())];
        let (mut peer, offer) = Peer::offering().await;
        let path = "/v1/realtime/calls";
        peer.take_answer(&http::ask(rig.serving.address, "POST", path, &headers, &offer).await);
        peer.until("session.created").await;
        peer
    }

    /// Calls with this query, and waits for the ticket behind the first event.
    pub async fn with_query(rig: &Rig, query: &str) -> (Peer, Value) {
        let (mut peer, offer) = Peer::offering().await;
        let path = format!("/v1/realtime/calls?{query}");
        peer.take_answer(&post_at(rig, &path, "application/sdp", &offer).await);
        peer.until("session.created").await;
        let ticket = peer.until("floorkeeper.resume").await;
        (peer, ticket)
    }

    /// Goes on from another socket: offers again with ICE restarted, as a page does whose network
    /// has changed. Gives the offer and what was answered to it.
    pub async fn restart(&mut self, rig: &Rig) -> (String, Answer) {
        let options = RTCOfferOptions { ice_restart: true };
        let offer = self.pc.create_offer(Some(options)).unwrap();
        let sdp = offer.sdp.clone();
        self.pc.set_local_description(now(), offer).unwrap();
        self.socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        self.local = self.socket.local_addr().unwrap();
        browser::gather(&mut self.pc, self.local);
        let answer = post_at(rig, &self.location, "application/sdp", &sdp).await;
        if answer.status == 200 {
            self.take_sdp(answer.text());
        }
        (sdp, answer)
    }

    /// Calls with a session.
    pub async fn with_session(rig: &Rig, session: &Value) -> Peer {
        let form = |offer: &str| {
            format!(
                "--x\r\nContent-Disposition: form-data; name=\"sdp\"\r\n\
                 Content-Type: application/sdp\r\n\r\n{offer}\r\n--x\r\n\
                 Content-Disposition: form-data; name=\"session\"\r\n\r\n{session}\r\n--x--\r\n"
            )
        };
        let mut peer = Peer::answered(rig, "multipart/form-data; boundary=x", form).await;
        peer.until("session.created").await;
        peer
    }

    /// Offers, and takes the answer.
    pub async fn answered(rig: &Rig, kind: &str, body: impl Fn(&str) -> String) -> Peer {
        let (mut peer, offer) = Peer::offering().await;
        peer.take_answer(&post(rig, kind, &body(&offer)).await);
        peer
    }

    pub fn take_answer(&mut self, answer: &Answer) {
        assert_eq!(answer.status, 201, "{}", answer.text());
        assert_eq!(answer.header("content-type"), Some("application/sdp"));
        self.location = answer.header("location").unwrap().to_owned();
        self.take_sdp(answer.text());
    }

    fn take_sdp(&mut self, sdp: String) {
        self.server = candidate_of(&sdp);
        self.answers.push(sdp.clone());
        let described = RTCSessionDescription::answer(sdp).unwrap();
        self.pc.set_remote_description(now(), described).unwrap();
    }

    /// A peer and its offer, which has no candidates, as browsers send it.
    pub async fn offering() -> (Peer, String) {
        Peer::offering_on("oai-events").await
    }

    /// The same with a channel of this label.
    pub async fn offering_on(label: &str) -> (Peer, String) {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let local = socket.local_addr().unwrap();
        let Offering { pc, sender, events_channel, sdp } = browser::offer(now(), local, label);
        let peer = Peer {
            pc,
            socket,
            local,
            events_channel,
            sender,
            encoder: Encoder::new().unwrap(),
            decoder: Decoder::new().unwrap(),
            mic: VecDeque::new(),
            mic_due: now(),
            sequence: 0,
            timestamp: 0,
            is_open: false,
            is_closed: false,
            unread: VecDeque::new(),
            events: Vec::new(),
            heard: Vec::new(),
            answers: Vec::new(),
            location: String::new(),
            server: local,
            loses_one_in: 0,
            passed: 0,
        };
        (peer, sdp)
    }

    pub fn send(&mut self, event: Value) {
        let mut channel = self.pc.data_channel(self.events_channel).unwrap();
        channel.send_text(now(), event.to_string()).unwrap();
    }

    /// Something that is no event.
    pub fn send_binary(&mut self, bytes: &[u8]) {
        let mut channel = self.pc.data_channel(self.events_channel).unwrap();
        channel.send(now(), BytesMut::from(bytes)).unwrap();
    }

    /// A written question that is to be answered aloud.
    pub fn ask(&mut self, text: &str) {
        let content = json!([{"type": "input_text", "text": text}]);
        let item = json!({"type": "message", "role": "user", "content": content});
        self.send(json!({"type": "conversation.item.create", "item": item}));
        self.send(json!({"type": "response.create"}));
    }

    /// Will speak for so long.
    pub fn speak(&mut self, speech_ms: usize) {
        let buzz = |at: usize| if at % 100 < 50 { 9_000 } else { -9_000 };
        self.mic.extend((0..speech_ms * 24).map(buzz));
    }

    /// The next event of this type; all in between are remembered.
    pub async fn until(&mut self, kind: &str) -> Value {
        let limit = now() + LIMIT;
        loop {
            while let Some(event) = self.unread.pop_front() {
                self.events.push(event.clone());
                assert!(event["type"] != "error" || kind == "error", "{event:#}");
                if event["type"] == kind {
                    return event;
                }
            }
            let seen: Vec<&str> = self.events.iter().filter_map(|e| e["type"].as_str()).collect();
            assert!(!self.is_closed, "closed before {kind}, behind {seen:?}");
            assert!(now() < limit, "no {kind} behind {seen:?}");
            self.step(FRAME).await;
        }
    }

    /// Goes on for so long.
    pub async fn listen(&mut self, span: Duration) {
        let until = now() + span;
        while now() < until && !self.is_closed {
            self.step(FRAME.min(until.saturating_duration_since(now()))).await;
        }
    }

    /// Waits until the server has closed.
    pub async fn until_closed(&mut self) {
        let limit = now() + LIMIT;
        while !self.is_closed {
            assert!(now() < limit, "the server did not close");
            self.step(FRAME).await;
        }
        self.events.extend(self.unread.drain(..));
    }

    /// Closes, as a page that is left.
    pub async fn close(&mut self) {
        self.pc.close().unwrap();
        self.write().await;
    }

    pub fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.events.iter().filter(move |event| event["type"] == kind)
    }

    /// The types of all events so far, in order.
    pub fn kinds(&self) -> Vec<&str> {
        self.events.iter().filter_map(|event| event["type"].as_str()).collect()
    }

    /// Frames in which there was something to hear, since then.
    pub fn loud_since(&self, since: Instant) -> usize {
        self.heard.iter().filter(|(at, level)| *at >= since && *level > -45.0).count()
    }

    /// Frames in which there was something to hear, ever.
    pub fn loud_since_start(&self) -> usize {
        self.heard.iter().filter(|(_, level)| *level > -45.0).count()
    }

    /// Everything that is due, and what comes within this time.
    async fn step(&mut self, most: Duration) {
        self.write().await;
        self.read();
        let due = self.pc.poll_timeout().unwrap_or(now() + most);
        let due = if self.is_open { due.min(self.mic_due) } else { due };
        let wait = due.saturating_duration_since(now()).min(most);
        let mut buffer = [0; 2_048];
        if let Ok(Ok((length, from))) =
            tokio::time::timeout(wait, self.socket.recv_from(&mut buffer)).await
        {
            self.take(from, &buffer[..length]);
            while let Ok((length, from)) = self.socket.try_recv_from(&mut buffer) {
                self.take(from, &buffer[..length]);
            }
        }
        if self.pc.poll_timeout().is_some_and(|due| due <= now()) {
            self.pc.handle_timeout(now()).unwrap();
        }
        self.read();
        while self.is_open && self.mic_due <= now() {
            self.mic_due += FRAME;
            self.send_frame();
        }
        self.write().await;
    }

    /// The network loses this packet.
    fn is_lost(&mut self) -> bool {
        self.passed += 1;
        self.loses_one_in > 0 && self.passed.is_multiple_of(self.loses_one_in)
    }

    fn take(&mut self, from: SocketAddr, datagram: &[u8]) {
        if self.is_lost() {
            return;
        }
        let transport = browser::between(self.local, from);
        let message = BytesMut::from(datagram);
        self.pc.handle_read(TaggedBytesMut { now: now(), transport, message }).unwrap();
    }

    async fn write(&mut self) {
        while let Some(sent) = self.pc.poll_write() {
            if self.is_lost() {
                continue;
            }
            self.socket.send_to(&sent.message, sent.transport.peer_addr).await.unwrap();
        }
    }

    fn read(&mut self) {
        loop {
            let mut quiet = true;
            while let Some(event) = self.pc.poll_event() {
                quiet = false;
                match event {
                    RTCPeerConnectionEvent::OnDataChannel(RTCDataChannelEvent::OnOpen(_)) => {
                        (self.is_open, self.mic_due) = (true, now());
                    }
                    RTCPeerConnectionEvent::OnDataChannel(RTCDataChannelEvent::OnClose(_)) => {
                        self.is_closed = true;
                    }
                    _ => {}
                }
            }
            while let Some(TaggedRTCMessage { message, .. }) = self.pc.poll_read() {
                quiet = false;
                match message {
                    RTCMessage::DataChannelMessage(_, message) => {
                        assert!(message.is_string);
                        self.unread.push_back(serde_json::from_slice(&message.data).unwrap());
                    }
                    RTCMessage::RtpPacket(_, packet) => self.hear(&packet.payload),
                    _ => {}
                }
            }
            if quiet {
                return;
            }
        }
    }

    fn hear(&mut self, payload: &[u8]) {
        let level = self.decoder.decode(payload).map(floorkeeper::audio::level_dbfs);
        self.heard.push((now(), level.unwrap_or(f32::NEG_INFINITY)));
    }

    fn send_frame(&mut self) {
        let mut frame = [0; ENCODED_FRAME_SAMPLES];
        for sample in &mut frame {
            *sample = self.mic.pop_front().unwrap_or(0);
        }
        match self.encoder.encode(&frame).unwrap().map(Bytes::copy_from_slice) {
            Some(packet) => self.send_packet(packet),
            None => self.timestamp = self.timestamp.wrapping_add(960),
        }
    }

    /// Twenty milliseconds of sound, or what is said to be that.
    pub fn send_packet(&mut self, payload: Bytes) {
        let header = browser::header(self.sequence, self.timestamp);
        self.sequence = self.sequence.wrapping_add(1);
        self.timestamp = self.timestamp.wrapping_add(960);
        if let Some(mut sender) = self.pc.rtp_sender(self.sender) {
            let _ = sender.write_rtp(now(), Packet { header, payload });
        }
    }
}

/// The address in an answer's first candidate.
fn candidate_of(sdp: &str) -> SocketAddr {
    let line = sdp.lines().find(|line| line.starts_with("a=candidate:")).expect("a candidate");
    let fields: Vec<&str> = line.split(' ').collect();
    format!("{}:{}", fields[4], fields[5]).parse().unwrap()
}

/// Posts an offer for a call that there is.
pub async fn post_at(rig: &Rig, path: &str, kind: &str, body: &str) -> Answer {
    http::ask(rig.serving.address, "POST", path, &[("Content-Type", kind)], body).await
}

/// Posts an offer, of whatever kind.
pub async fn post(rig: &Rig, kind: &str, body: &str) -> Answer {
    let headers = [("Content-Type", kind)];
    http::ask(rig.serving.address, "POST", "/v1/realtime/calls", &headers, body).await
}
