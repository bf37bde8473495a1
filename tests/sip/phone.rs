//! A telephone: two sockets, a caller who speaks and listens, and SIP as text.

use std::cell::OnceCell;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use floorkeeper::runtime::backends::Backends;
use rtc::srtp::context::Context;
use tokio::net::UdpSocket;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::rig::{LIMIT, Rig};
use crate::sealed::Sealed;
use crate::voice::{Said, Voice};

pub const PCMU: u8 = 0;
pub const PCMA: u8 = 8;
/// What this telephone calls telephone events.
pub const EVENTS: u8 = 121;

/// A message of the server's, cut into what tests look at.
#[derive(Clone, Debug)]
pub struct Heard {
    pub text: String,
}

impl Heard {
    /// The status, or the method.
    pub fn what(&self) -> &str {
        let mut words = self.text.split(' ');
        match words.next() {
            Some("SIP/2.0") => words.next().unwrap_or_default(),
            method => method.unwrap_or_default(),
        }
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        let is_it = |line: &&str| {
            line.split_once(':').is_some_and(|(known, _)| known.eq_ignore_ascii_case(name))
        };
        let head = self.text.split("\r\n\r\n").next().unwrap_or_default();
        head.lines().find(is_it).map(|line| line.split_once(':').unwrap().1.trim())
    }

    pub fn body(&self) -> &str {
        self.text.split_once("\r\n\r\n").map_or("", |(_, body)| body)
    }

    /// The port of the answer's sound.
    pub fn sound_port(&self) -> u16 {
        let line = self.body().lines().find(|line| line.starts_with("m=audio ")).expect("a stream");
        line.split(' ').nth(1).unwrap().parse().unwrap()
    }
}

/// A packet of the server's sound.
#[derive(Clone, Debug)]
pub struct Packet {
    pub payload_type: u8,
    pub marker: bool,
    pub sequence: u16,
    pub timestamp: u32,
    pub ssrc: u32,
    pub payload: Vec<u8>,
    /// Its pitch in Hz, where somebody has asked; none where it is silent.
    pub pitch: OnceCell<Option<f32>>,
}

pub struct Phone {
    pub sip: UdpSocket,
    pub rtp: UdpSocket,
    pub server: SocketAddr,
    /// Where the server hears.
    pub sound_to: Option<SocketAddr>,
    pub call_id: String,
    /// Our end with its tag, and theirs once it has one.
    pub from: String,
    pub to: String,
    pub uri: String,
    pub cseq: u32,
    /// The branch of the newest INVITE.
    pub branch: String,
    pub packets: Vec<Packet>,
    /// What it encodes with.
    pub voice: Voice,
    /// The caller speaks for so many frames; silence behind it.
    speaks_for: usize,
    /// It is no speech then, but a tone of this pitch.
    tone_hz: Option<f32>,
    /// It sends nothing at all while the caller is silent.
    pub dtx: bool,
    /// Every so many packets one is lost on the way.
    pub loses_every: Option<u16>,
    pub payload_type: u8,
    pub sequence: u16,
    pub timestamp: u32,
    pub ssrc: u32,
    /// Its sound is encrypted.
    pub sealed: Option<Sealed>,
    /// What the server encrypted with before.
    pub sealed_before: Option<Context>,
    /// The newest packet, as it was sent.
    pub last_sent: Vec<u8>,
}

static NAMES: AtomicU64 = AtomicU64::new(1);

fn name() -> u64 {
    NAMES.fetch_add(1, Ordering::Relaxed)
}

impl Phone {
    /// On the hook.
    pub async fn new(rig: &Rig) -> Phone {
        let server = rig.service().sip().expect("sip.listen").address();
        let sip = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let rtp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let (call, tag) = (name(), name());
        Phone {
            server,
            sound_to: None,
            call_id: format!("call{call}@phone.example"),
            from: format!("\"Ada\" <sip:+15550100@phone.example>;tag=t{tag}"),
            to: "<sip:agent@floorkeeper.example>".to_owned(),
            uri: format!("sip:agent@{server}"),
            cseq: 0,
            branch: String::new(),
            packets: Vec::new(),
            voice: Voice::G711,
            speaks_for: 0,
            tone_hz: None,
            dtx: false,
            loses_every: None,
            payload_type: PCMU,
            sequence: 65_530,
            timestamp: u32::MAX - 500,
            ssrc: 7,
            sealed: None,
            sealed_before: None,
            last_sent: Vec::new(),
            sip,
            rtp,
        }
    }

    /// A call that was answered and acknowledged.
    pub async fn call(rig: &Rig) -> Phone {
        let mut phone = Phone::new(rig).await;
        let offer = phone.offer("0 8", "sendrecv");
        phone.invite(&offer, &[]).await;
        phone.answered().await;
        phone
    }

    pub fn offer(&self, codecs: &str, direction: &str) -> String {
        let port = self.rtp.local_addr().unwrap().port();
        format!(
            "v=0\r\no=ada 1 1 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n\
             m=audio {port} RTP/AVP {codecs} 120 {EVENTS}\r\nc=IN IP4 127.0.0.1\r\n\
             a=rtpmap:120 telephone-event/16000\r\na=rtpmap:{EVENTS} telephone-event/8000\r\n\
             a={direction}\r\n"
        )
    }

    pub fn contact(&self) -> String {
        format!("<sip:ada@{}>", self.sip.local_addr().unwrap())
    }

    /// A request as this telephone writes it.
    pub fn write(
        &self,
        method: &str,
        cseq: u32,
        branch: &str,
        more: &[&str],
        body: &str,
    ) -> String {
        let at = self.sip.local_addr().unwrap();
        let mut text = format!("{method} {} SIP/2.0\r\n", self.uri);
        text += &format!("Via: SIP/2.0/UDP {at};rport;branch={branch}\r\nMax-Forwards: 70\r\n");
        text += &format!("From: {}\r\nTo: {}\r\n", self.from, self.to);
        text += &format!("Call-ID: {}\r\nCSeq: {cseq} {method}\r\n", self.call_id);
        text += &format!("Contact: {}\r\n", self.contact());
        for field in more {
            text += field;
            text += "\r\n";
        }
        text + &format!("Content-Length: {}\r\n\r\n{body}", body.len())
    }

    pub async fn send_text(&self, text: &str) {
        self.sip.send_to(text.as_bytes(), self.server).await.unwrap();
    }

    /// A new request in this call.
    pub async fn ask(&mut self, method: &str, more: &[&str], body: &str) -> String {
        self.cseq += 1;
        let text = self.write(method, self.cseq, &branch(), more, body);
        self.send_text(&text).await;
        text
    }

    pub async fn invite(&mut self, offer: &str, more: &[&str]) -> String {
        self.cseq += 1;
        self.branch = branch();
        let mut fields = more.to_vec();
        if !offer.is_empty() {
            fields.push("Content-Type: application/sdp");
        }
        let text = self.write("INVITE", self.cseq, &self.branch, &fields, offer);
        self.send_text(&text).await;
        text
    }

    pub async fn ack(&self, body: &str) {
        let kind: &[&str] = if body.is_empty() { &[] } else { &["Content-Type: application/sdp"] };
        self.send_text(&self.write("ACK", self.cseq, &branch(), kind, body)).await;
    }

    /// The ACK of a refusal is of the INVITE's own transaction.
    pub async fn ack_refusal(&self) {
        self.send_text(&self.write("ACK", self.cseq, &self.branch, &[], "")).await;
    }

    pub async fn cancel(&self) {
        self.send_text(&self.write("CANCEL", self.cseq, &self.branch, &[], "")).await;
    }

    /// The next message of the server's.
    pub async fn next(&self) -> Heard {
        let mut buffer = [0; 8_192];
        let (length, _) = timeout(LIMIT, self.sip.recv_from(&mut buffer))
            .await
            .expect("a message in time")
            .unwrap();
        Heard { text: String::from_utf8(buffer[..length].to_vec()).unwrap() }
    }

    /// What the server has said already, if anything.
    pub fn told_now(&self) -> Option<Heard> {
        let mut buffer = [0; 8_192];
        let (length, _) = self.sip.try_recv_from(&mut buffer).ok()?;
        Some(Heard { text: String::from_utf8(buffer[..length].to_vec()).unwrap() })
    }

    /// The next one that is this; what comes before is left out.
    pub async fn until_told(&self, what: &str) -> Heard {
        let mut others = Vec::new();
        for _ in 0..2_000 {
            let heard = self.next().await;
            if heard.what() == what {
                return heard;
            }
            others.push(heard.what().to_owned());
        }
        panic!("{what} never came, but {others:?}");
    }

    /// The final answer to the newest INVITE.
    pub async fn final_answer(&mut self) -> Heard {
        loop {
            let heard = self.next().await;
            let of_invite = heard.field("CSeq") == Some(&format!("{} INVITE", self.cseq));
            if of_invite && heard.what() >= "200" {
                self.to = heard.field("To").expect("To").to_owned();
                return heard;
            }
        }
    }

    /// Waits for the answer and acknowledges it.
    pub async fn answered(&mut self) -> Heard {
        let answer = self.final_answer().await;
        self.take_answer(&answer);
        self.ack("").await;
        answer
    }

    /// From now on it speaks to where the server says that it hears.
    pub fn take_answer(&mut self, answer: &Heard) {
        assert_eq!(answer.what(), "200", "{}", answer.text);
        self.uri = answer.field("Contact").unwrap().trim_matches(['<', '>']).to_owned();
        self.sound_to = Some(SocketAddr::new(self.server.ip(), answer.sound_port()));
    }

    /// Hangs up, and waits for the answer to that.
    pub async fn hang_up(&mut self) {
        self.ask("BYE", &[], "").await;
        let cseq = format!("{} BYE", self.cseq);
        while self.until_told("200").await.field("CSeq") != Some(&cseq) {}
    }

    /// The caller says something for so long.
    pub fn speak(&mut self, speech_ms: usize) {
        self.tone_hz = None;
        self.speaks_for += speech_ms / 20;
    }

    /// A tone of this pitch for so long.
    pub fn sing(&mut self, hz: f32, length_ms: usize) {
        self.tone_hz = Some(hz);
        self.speaks_for += length_ms / 20;
    }

    /// All of it was said.
    pub fn mouth_is_empty(&self) -> bool {
        self.speaks_for == 0
    }

    /// 20 ms of the caller.
    pub async fn say_frame(&mut self) {
        let speaks = self.speaks_for > 0;
        let said = match self.tone_hz {
            _ if !speaks => Said::Nothing,
            None => Said::Words,
            // Frames are numbered backwards: a tone goes on from one to the next all the same.
            Some(hz) => Said::Tone { hz, frames_left: self.speaks_for },
        };
        self.speaks_for = self.speaks_for.saturating_sub(1);
        let frame = self.voice.frame(said, self.payload_type);
        if speaks || !self.dtx {
            self.send_rtp(self.payload_type, self.timestamp, &frame).await;
        }
        self.timestamp = self.timestamp.wrapping_add(self.voice.ticks());
    }

    pub async fn send_rtp(&mut self, payload_type: u8, timestamp: u32, payload: &[u8]) {
        let mut packet = rtp(payload_type, self.sequence, timestamp, self.ssrc, payload);
        if let Some(sealed) = &mut self.sealed {
            packet = sealed.ours.encrypt_rtp(&packet).unwrap().to_vec();
        }
        self.sequence = self.sequence.wrapping_add(1);
        let is_lost = self.loses_every.is_some_and(|every| self.sequence.is_multiple_of(every));
        if let Some(to) = self.sound_to.filter(|_| !is_lost) {
            let _ = self.rtp.send_to(&packet, to).await;
            self.last_sent = packet;
        }
    }

    /// Takes what has come.
    pub fn listen(&mut self) {
        let mut buffer = [0; 2_048];
        while let Ok((length, _)) = self.rtp.try_recv_from(&mut buffer) {
            let opened = self.sealed.as_mut().map(|sealed| {
                let bytes = &buffer[..length];
                let before = || self.sealed_before.as_mut()?.decrypt_rtp(bytes).ok();
                sealed
                    .theirs
                    .decrypt_rtp(bytes)
                    .ok()
                    .or_else(before)
                    .expect("encrypted with its key")
            });
            let bytes = opened.as_deref().unwrap_or(&buffer[..length]);
            assert!(bytes.len() > 12 && bytes[0] == 0x80, "a plain header");
            self.packets.push(Packet {
                payload_type: bytes[1] & 0x7f,
                marker: bytes[1] & 0x80 != 0,
                sequence: u16::from_be_bytes([bytes[2], bytes[3]]),
                timestamp: u32::from_be_bytes(bytes[4..8].try_into().unwrap()),
                ssrc: u32::from_be_bytes(bytes[8..12].try_into().unwrap()),
                payload: bytes[12..].to_vec(),
                pitch: OnceCell::new(),
            });
        }
    }

    /// How much was heard, in milliseconds.
    pub fn heard_ms(&self) -> usize {
        self.packets.len() * 20
    }

    /// Where the server was silent for longest: how much was heard before it, in milliseconds, and
    /// how long it was.
    pub fn longest_silence(&self) -> (usize, usize) {
        let pairs = self.packets.windows(2).enumerate();
        let gap = |(at, p): (usize, &[Packet])| {
            (p[1].timestamp.wrapping_sub(p[0].timestamp) as usize / 8 - 20, (at + 1) * 20)
        };
        let (silent_ms, heard_ms) = pairs.map(gap).max().expect("two packets");
        (heard_ms, silent_ms)
    }

    /// Speaks and listens in real time until this is so.
    pub async fn until(&mut self, what: &str, mut is_so: impl FnMut(&Phone) -> bool) {
        let mut ticks = interval(Duration::from_millis(20));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        for _ in 0..LIMIT.as_millis() / 20 {
            ticks.tick().await;
            self.say_frame().await;
            self.listen();
            if is_so(self) {
                return;
            }
        }
        panic!("not in time: {what}: {} ms were heard", self.heard_ms());
    }
}

pub fn rtp(payload_type: u8, sequence: u16, timestamp: u32, ssrc: u32, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x80, payload_type];
    packet.extend(sequence.to_be_bytes());
    packet.extend(timestamp.to_be_bytes());
    packet.extend(ssrc.to_be_bytes());
    packet.extend(payload);
    packet
}

pub fn branch() -> String {
    format!("z9hG4bKphone{}", name())
}

/// A server that telephones can ring, whose signalling is over soon.
pub async fn serve(settings: &[&str]) -> Rig {
    serve_with(settings, |_| {}).await
}

/// The same with other providers.
pub async fn serve_with(settings: &[&str], change: impl FnOnce(&mut Backends)) -> Rig {
    let usual = ["sip.listen=\"127.0.0.1:0\"", "sip.t1_ms=25"];
    Rig::with(&usual.iter().chain(settings).copied().collect::<Vec<_>>(), change).await
}

/// The same with long answers.
pub async fn serve_stories(settings: &[&str]) -> Rig {
    let usual = ["sip.listen=\"127.0.0.1:0\"", "sip.t1_ms=25"];
    Rig::telling_stories(&usual.iter().chain(settings).copied().collect::<Vec<_>>()).await
}
