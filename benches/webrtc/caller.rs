//! One caller: offers, speaks a packet every 20 ms in ten seconds' cycles, and hears.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use rtc::peer_connection::event::{RTCDataChannelEvent, RTCPeerConnectionEvent};
use rtc::peer_connection::message::{RTCMessage, TaggedRTCMessage};
use rtc::peer_connection::sdp::RTCSessionDescription;
use rtc::rtp::Packet;
use rtc::sansio::Protocol;
use rtc::shared::TaggedBytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use crate::browser::{self, Offering};
use crate::callers::{Shared, now};
use crate::percentiles::us;
use crate::sound::{CYCLE_FRAMES, SPEECH_FRAMES, first_position};
use crate::stretch::Stretch;
use crate::turns;

const FRAME: Duration = Duration::from_millis(20);
const FRAME_TICKS: u32 = 960;
const CLOCK_HZ: u64 = 48_000;

pub struct Caller {
    offering: Offering,
    socket: UdpSocket,
    local: SocketAddr,
    turns: bool,
    packets: Rc<[Bytes]>,
    shared: Rc<Shared>,
    asked_at: Instant,
    state: State,
    index: usize,
    position: usize,
    /// The caller's turn was heard from its beginning: a call may begin in the middle of one.
    turn_is_whole: bool,
    mic_due: Instant,
    sequence: u16,
    timestamp: u32,
    stretch: Stretch,
    /// The first timestamp of the stretch.
    stretch_from: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Connecting,
    Open,
    Speaking,
    Gone,
}

impl Caller {
    pub async fn new(
        index: usize,
        turns: bool,
        packets: Rc<[Bytes]>,
        shared: Rc<Shared>,
    ) -> Result<Caller, String> {
        let socket = UdpSocket::bind("127.0.0.1:0").await.map_err(|error| error.to_string())?;
        let local = socket.local_addr().map_err(|error| error.to_string())?;
        let offering = browser::offer(now(), local, "oai-events");
        let position = first_position(index);
        Ok(Caller {
            offering,
            socket,
            local,
            turns,
            packets,
            shared,
            asked_at: now(),
            state: State::Connecting,
            index,
            position,
            turn_is_whole: false,
            mic_due: now(),
            sequence: 0,
            timestamp: position as u32 * FRAME_TICKS,
            stretch: Stretch::default(),
            stretch_from: 0,
        })
    }

    /// The whole call.
    pub async fn call(mut self, port: u16) {
        self.asked_at = now();
        match ask(port, &self.offering.sdp).await {
            Ok(sdp) => self.answered(sdp),
            Err(problem) => self.lose(&problem),
        }
        let mut buffer = [0; 2_048];
        while self.state != State::Gone && !self.shared.is_over.get() {
            self.step(&mut buffer).await;
        }
        self.close_stretch();
        // Whatever cannot be closed any more is closed.
        let _ = self.offering.pc.close();
        self.write();
    }

    fn answered(&mut self, sdp: String) {
        let described = RTCSessionDescription::answer(sdp);
        let pc = &mut self.offering.pc;
        if let Err(problem) = described.and_then(|sdp| pc.set_remote_description(now(), sdp)) {
            self.lose(&problem.to_string());
        }
    }

    async fn step(&mut self, buffer: &mut [u8]) {
        self.read();
        self.speak();
        self.write();
        let most = now() + FRAME;
        let due = self.offering.pc.poll_timeout().unwrap_or(most).min(most);
        let due = if self.state == State::Speaking { due.min(self.mic_due) } else { due };
        tokio::select! {
            readable = self.socket.readable() => if readable.is_ok() {
                while let Ok((length, from)) = self.socket.try_recv_from(buffer) {
                    let transport = browser::between(self.local, from);
                    let message = BytesMut::from(&buffer[..length]);
                    let came = TaggedBytesMut { now: now(), transport, message };
                    let _ = self.offering.pc.handle_read(came);
                }
            },
            () = tokio::time::sleep_until(due.into()) => {}
        }
        if self.offering.pc.poll_timeout().is_some_and(|due| due <= now()) {
            let _ = self.offering.pc.handle_timeout(now());
        }
    }

    fn write(&mut self) {
        while let Some(sent) = self.offering.pc.poll_write() {
            // What does not go out is lost, as on any network.
            let _ = self.socket.try_send_to(&sent.message, sent.transport.peer_addr);
        }
    }

    fn read(&mut self) {
        while let Some(event) = self.offering.pc.poll_event() {
            match event {
                RTCPeerConnectionEvent::OnDataChannel(RTCDataChannelEvent::OnOpen(_)) => {
                    self.opened();
                }
                RTCPeerConnectionEvent::OnDataChannel(RTCDataChannelEvent::OnClose(_)) => {
                    self.lose("the server closed the call");
                }
                _ => {}
            }
        }
        while let Some(TaggedRTCMessage { message, .. }) = self.offering.pc.poll_read() {
            match message {
                RTCMessage::DataChannelMessage(_, message) => self.told(&message.data),
                RTCMessage::RtpPacket(_, packet) => self.hear(&packet),
                _ => {}
            }
        }
    }

    fn opened(&mut self) {
        if self.state == State::Connecting {
            self.state = State::Open;
            self.shared.setup_us.borrow_mut().push(us(self.asked_at.elapsed()));
            if self.turns {
                self.say(turns::MANUAL);
            }
        }
    }

    fn say(&mut self, event: &str) {
        let sent = self
            .offering
            .pc
            .data_channel(self.offering.events_channel)
            .map(|mut channel| channel.send_text(now(), event));
        if !matches!(sent, Some(Ok(()))) {
            self.shared.complain("an event could not be sent");
        }
    }

    fn told(&mut self, event: &[u8]) {
        let text = std::str::from_utf8(event).unwrap_or_default();
        if text.starts_with(r#"{"type":"error""#) {
            self.shared.complain(text);
        } else if text.starts_with(r#"{"type":"response.done""#) && self.shared.is_measuring() {
            self.shared.stats.borrow_mut().counts.answers += 1;
            if !text.contains(r#""status":"completed""#) {
                self.shared.complain("an answer did not end well");
            }
        }
    }

    fn speak(&mut self) {
        if self.state == State::Open
            && let Some(from) = self.shared.speak_from.get()
        {
            self.state = State::Speaking;
            // Each call has its own millisecond of the twenty.
            self.mic_due = from + FRAME + Duration::from_millis(self.index as u64 % 20);
        }
        while self.state == State::Speaking && self.mic_due <= now() {
            let late = self.mic_due.elapsed();
            self.mic_due += FRAME;
            self.send_frame();
            if self.shared.is_measuring() {
                let mut stats = self.shared.stats.borrow_mut();
                stats.sent += 1;
                stats.counts.send_late_us.push(us(late));
            }
        }
    }

    fn send_frame(&mut self) {
        let position = self.position;
        self.position = (position + 1) % CYCLE_FRAMES;
        if self.turns && position == 0 {
            self.say(turns::BEGINS);
            self.turn_is_whole = true;
        }
        let header = browser::header(self.sequence, self.timestamp);
        let payload = self.packets[position].clone();
        self.sequence = self.sequence.wrapping_add(1);
        self.timestamp = self.timestamp.wrapping_add(FRAME_TICKS);
        if let Some(mut sender) = self.offering.pc.rtp_sender(self.offering.sender) {
            let _ = sender.write_rtp(now(), Packet { header, payload });
        }
        if self.turns && position + 1 == SPEECH_FRAMES && self.turn_is_whole {
            turns::OVER.iter().for_each(|event| self.say(event));
        }
    }

    fn hear(&mut self, packet: &Packet) {
        let now = self.shared.start.elapsed();
        if !self.stretch.goes_on(now) {
            self.close_stretch();
            self.stretch_from = packet.header.timestamp;
        }
        let ticks = packet.header.timestamp.wrapping_sub(self.stretch_from);
        let position = Duration::from_micros(u64::from(ticks) * 1_000_000 / CLOCK_HZ);
        self.stretch.push(now, position);
        if self.shared.is_measuring() {
            let mut stats = self.shared.stats.borrow_mut();
            stats.received += 1;
            stats.received_bytes += packet.payload.len() as u64;
        }
    }

    fn close_stretch(&mut self) {
        let stretch = std::mem::take(&mut self.stretch);
        if let Some(from) = self.shared.measured_from.get() {
            self.shared.stats.borrow_mut().counts.judge(stretch, from);
        }
    }

    fn lose(&mut self, why: &str) {
        if self.state != State::Gone {
            self.state = State::Gone;
            self.shared.stats.borrow_mut().counts.broken += 1;
            self.shared.complain(why);
        }
    }
}

/// Posts an offer and gives the answer.
async fn ask(port: u16, offer: &str) -> Result<String, String> {
    let refuse = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.map_err(refuse)?;
    let request = format!(
        "POST /v1/realtime/calls HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\
         Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{offer}",
        offer.len()
    );
    stream.write_all(request.as_bytes()).await.map_err(refuse)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.map_err(refuse)?;
    match answer.split_once("\r\n\r\n") {
        Some((head, sdp)) if head.starts_with("HTTP/1.1 201") => Ok(sdp.to_owned()),
        _ => Err(answer),
    }
}
