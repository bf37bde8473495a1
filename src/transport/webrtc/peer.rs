//! One peer connection: datagrams and timers in; events, sound and datagrams out. No I/O.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use rtc::data_channel::RTCDataChannelId;
use rtc::interceptor::Registry;
use rtc::media_stream::MediaStreamTrack;
use rtc::peer_connection::configuration::RTCConfigurationBuilder;
use rtc::peer_connection::configuration::interceptor_registry::configure_rtcp_reports;
use rtc::peer_connection::configuration::media_engine::{MIME_TYPE_OPUS, MediaEngine};
use rtc::peer_connection::configuration::setting_engine::{
    SctpMaxMessageSize, SettingEngine, SettingEngineBuilder,
};
use rtc::peer_connection::event::{RTCDataChannelEvent, RTCPeerConnectionEvent};
use rtc::peer_connection::message::{RTCMessage, TaggedRTCMessage};
use rtc::peer_connection::sdp::RTCSessionDescription;
use rtc::peer_connection::state::RTCPeerConnectionState;
use rtc::peer_connection::transport::{CandidateConfig, CandidateHostConfig, RTCIceCandidate};
use rtc::peer_connection::{RTCPeerConnection, RTCPeerConnectionBuilder};
use rtc::rtp::{Header, Packet};
use rtc::rtp_transceiver::RTCRtpSenderId;
use rtc::rtp_transceiver::rtp_sender::{
    RTCRtpCodec, RTCRtpCodecParameters, RTCRtpCodingParameters, RTCRtpEncodingParameters,
    RtpCodecKind,
};
use rtc::sansio::Protocol as _;
use rtc::shared::error::Error as RtcError;
use rtc::shared::{TaggedBytesMut, TransportContext, TransportProtocol};

use super::EVENTS_LABEL;
use super::offer::{BadOffer, Offer};
use super::overlong;
use super::sound::Sent;
use super::unread::Unread;
use crate::codec::opus::CLOCK_HZ;

/// Without a sign of life for so long the peer is missing, and after as long again gone: together
/// less than the ten seconds that are promised.
const MISSING_AFTER: Duration = Duration::from_secs(4);
const GONE_AFTER: Duration = Duration::from_secs(4);
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// Connectivity is checked this often; the library's 200 ms are most of a set-up's time.
const CHECK_EVERY: Duration = Duration::from_millis(20);
const CHECKS_MAX: u16 = 100;
/// Largest event, either way: what Chromium takes, and the most that the library can.
pub(super) const MESSAGE_MAX: u32 = 256 * 1024;
/// Bytes of data that the peer may send ahead of our reading.
const RECEIVE_BUFFER: u32 = 512 * 1024;

/// What a peer does.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// The channel of the events is open.
    Opened,
    /// One event.
    Event(String),
    /// A message that is no text.
    Binary,
    /// A message that was longer than is taken. It is gone.
    Overlong,
    /// So much of a message that has no end that no more of it is kept.
    Endless,
    /// A channel that is not the events' was opened.
    OtherChannel { id: RTCDataChannelId, label: String },
    /// A packet of sound.
    Sound { sequence: u16, timestamp: u32, payload: Bytes },
    /// The peer is gone, in a word.
    Gone(&'static str),
}

/// One peer.
pub(super) struct Peer {
    pc: RTCPeerConnection,
    candidates: Vec<SocketAddr>,
    sender: RTCRtpSenderId,
    ssrc: u32,
    payload_type: u8,
    fingerprint: String,
    /// Longest event that the client takes, …
    message_max: usize,
    /// … and that is taken from it.
    heard_max: u32,
    unread: Unread,
    events: Option<RTCDataChannelId>,
    said: VecDeque<Said>,
}

/// What a client is answered.
pub(super) struct Answer {
    pub sdp: String,
    /// Our name in the connectivity checks.
    pub name: String,
}

impl Peer {
    /// A peer that has been answered, and the answer. Events of at most `heard_max` bytes are taken
    /// from it; the answer says so.
    pub fn answer(
        now: Instant,
        offer: &Offer,
        candidates: &[SocketAddr],
        heard_max: u32,
    ) -> Result<(Peer, Answer), BadOffer> {
        let refused = |fault: RtcError| BadOffer::NotSdp(fault.to_string());
        let mut media = MediaEngine::default();
        let codec = opus(offer.payload_type);
        media.register_codec(codec.clone(), RtpCodecKind::Audio).map_err(refused)?;
        let mut pc = RTCPeerConnectionBuilder::new()
            .with_configuration(RTCConfigurationBuilder::new().build())
            .with_setting_engine(settings(heard_max))
            .with_media_engine(media)
            .with_interceptor_registry(configure_rtcp_reports(Registry::new()))
            .build(now)
            .map_err(refused)?;
        let ssrc = rand::random();
        let sender = pc.add_track(track(ssrc, codec.rtp_codec)).map_err(refused)?;
        let described = described(offer, heard_max).map_err(refused)?;
        pc.set_remote_description(now, described).map_err(refused)?;
        for address in candidates {
            pc.add_local_candidate(candidate(*address).map_err(refused)?).map_err(refused)?;
        }
        let answer = pc.create_answer(None).map_err(refused)?;
        pc.set_local_description(now, answer).map_err(refused)?;
        let answer = pc
            .local_description()
            .ok_or_else(|| BadOffer::NotSdp("there is nothing in it to answer".to_owned()))?;
        let peer = Peer {
            pc,
            candidates: candidates.to_vec(),
            sender,
            ssrc,
            payload_type: offer.payload_type,
            fingerprint: offer.fingerprint().to_owned(),
            message_max: offer.message_max,
            heard_max,
            unread: Unread::new(now),
            events: None,
            said: VecDeque::new(),
        };
        Ok((peer, Answer::of(answer.sdp)))
    }

    /// The same peer offers again, as its network is another now. Where its name and password have
    /// changed, so have ours (RFC 8445, 9).
    pub fn restart(&mut self, now: Instant, offer: &Offer) -> Result<Answer, BadOffer> {
        if offer.fingerprint() != self.fingerprint {
            return Err(BadOffer::OtherPeer);
        }
        if offer.payload_type != self.payload_type {
            return Err(BadOffer::OtherPayloadType(offer.payload_type, self.payload_type));
        }
        let answered = self.answer_again(now, offer);
        if answered.is_ok() {
            self.message_max = offer.message_max;
        } else {
            // As it was before; where it is so already there is nothing to be undone.
            let undo = RTCSessionDescription::rollback(None);
            let _ = undo.and_then(|undo| self.pc.set_remote_description(now, undo));
        }
        answered.map_err(|fault| BadOffer::NotSdp(fault.to_string()))
    }

    fn answer_again(&mut self, now: Instant, offer: &Offer) -> Result<Answer, RtcError> {
        self.pc.set_remote_description(now, described(offer, self.heard_max)?)?;
        let answer = self.pc.create_answer(None)?;
        let sdp = answer.sdp.clone();
        self.pc.set_local_description(now, answer)?;
        let described = self.pc.local_description();
        Ok(Answer::of(described.map_or(sdp, |described| described.sdp)))
    }

    /// The longest event that can be said: what the client takes, and what the library can for what
    /// we take.
    pub fn message_max(&self) -> usize {
        self.message_max.min(self.heard_max())
    }

    /// The longest event that is taken.
    pub fn heard_max(&self) -> usize {
        self.heard_max as usize
    }

    /// A datagram came.
    pub fn receive(&mut self, now: Instant, from: SocketAddr, message: BytesMut) {
        // Which of our addresses it was sent to is not known; the peer's kind of address tells
        // which it can have been.
        let same = |own: &&SocketAddr| own.is_ipv4() == from.is_ipv4();
        let own = self.candidates.iter().find(same).or(self.candidates.first());
        let Some(local_addr) = own.copied() else { return };
        let transport = TransportContext {
            local_addr,
            peer_addr: from,
            ecn: None,
            transport_protocol: TransportProtocol::UDP,
        };
        self.unread.add(now, &message);
        let datagram = TaggedBytesMut { now, transport, message };
        // What it is not, it does not become by our complaining.
        let dropped = overlong::dropped(|| {
            let _ = self.pc.handle_read(datagram);
        });
        if dropped > 0 {
            // What was said before it comes before it.
            self.collect(now);
            self.note_dropped(dropped);
        }
    }

    fn note_dropped(&mut self, messages: usize) {
        for _ in 0..messages {
            // It had more.
            self.unread.take(self.heard_max());
            self.said.push_back(Said::Overlong);
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Instant) {
        if self.due().is_some_and(|due| due <= now) {
            self.pass(now);
        }
    }

    fn pass(&mut self, now: Instant) {
        if self.pc.handle_timeout(now).is_err() {
            self.said.push_back(Said::Gone("protocol"));
        }
    }

    /// When time matters next.
    pub fn due(&mut self) -> Option<Instant> {
        self.pc.poll_timeout()
    }

    /// What the peer did next.
    pub fn poll(&mut self, now: Instant) -> Option<Said> {
        self.collect(now);
        let endless = self.unread.is_too_much().then_some(Said::Endless);
        self.said.pop_front().or(endless)
    }

    fn collect(&mut self, now: Instant) {
        while let Some(event) = self.pc.poll_event() {
            self.note(now, event);
        }
        let mut read = None;
        loop {
            let dropped = overlong::dropped(|| read = self.pc.poll_read());
            self.note_dropped(dropped);
            let Some(TaggedRTCMessage { message, .. }) = read.take() else { break };
            self.hear(message);
        }
        while let Some(event) = self.pc.poll_event() {
            self.note(now, event);
        }
    }

    /// The next datagram to send.
    pub fn poll_send(&mut self) -> Option<(SocketAddr, BytesMut)> {
        self.pc.poll_write().map(|sent| (sent.transport.peer_addr, sent.message))
    }

    /// Says one event. `false`: it cannot be sent.
    pub fn say_event(&mut self, now: Instant, event: &str) -> bool {
        self.events.is_some_and(|id| self.say_on(now, id, event))
    }

    /// Says something on any channel. `false`: it cannot be sent.
    pub fn say_on(&mut self, now: Instant, id: RTCDataChannelId, text: &str) -> bool {
        let channel = self.pc.data_channel(id);
        channel.is_some_and(|mut channel| channel.send_text(now, text).is_ok())
    }

    /// Bytes of events that the peer has not confirmed yet.
    pub fn unconfirmed(&mut self) -> usize {
        let channel = self.events.and_then(|id| self.pc.data_channel(id));
        channel.map_or(0, |channel| channel.outstanding_bytes())
    }

    /// Sends one packet of sound; before the connection is there it goes nowhere.
    pub fn say_sound(&mut self, now: Instant, sent: Sent) {
        let header = Header {
            version: 2,
            marker: sent.marker,
            payload_type: self.payload_type,
            sequence_number: sent.sequence,
            timestamp: sent.timestamp,
            ssrc: self.ssrc,
            ..Header::default()
        };
        if let Some(mut sender) = self.pc.rtp_sender(self.sender) {
            let _ = sender.write_rtp(now, Packet { header, payload: sent.payload });
        }
    }

    /// Closes; the last datagrams still have to be sent.
    pub fn close(&mut self) {
        // Whatever cannot be closed any more is closed.
        let _ = self.pc.close();
    }

    fn note(&mut self, now: Instant, event: RTCPeerConnectionEvent) {
        match event {
            // With ICE the library begins DTLS, whose first message goes out when time passes, and
            // nothing else is due before the next check.
            RTCPeerConnectionEvent::OnIceConnectionStateChangeEvent(_) => self.pass(now),
            RTCPeerConnectionEvent::OnDataChannel(RTCDataChannelEvent::OnOpen(id)) => {
                let channel = self.pc.data_channel(id);
                let Some(label) = channel.map(|channel| channel.label().to_owned()) else { return };
                if self.events.is_none() && label == EVENTS_LABEL {
                    self.events = Some(id);
                    self.said.push_back(Said::Opened);
                } else {
                    self.said.push_back(Said::OtherChannel { id, label });
                }
            }
            RTCPeerConnectionEvent::OnDataChannel(RTCDataChannelEvent::OnClose(id))
                if self.events == Some(id) =>
            {
                self.said.push_back(Said::Gone("closed"));
            }
            RTCPeerConnectionEvent::OnConnectionStateChangeEvent(state) => match state {
                RTCPeerConnectionState::Failed => self.said.push_back(Said::Gone("timeout")),
                RTCPeerConnectionState::Closed => self.said.push_back(Said::Gone("closed")),
                _ => {}
            },
            _ => {}
        }
    }

    fn hear(&mut self, message: RTCMessage) {
        if let RTCMessage::DataChannelMessage(_, message) = &message {
            self.unread.take(message.data.len());
        }
        match message {
            RTCMessage::DataChannelMessage(id, message) if self.events == Some(id) => {
                let text = String::from_utf8(message.data.to_vec());
                self.said.push_back(match text {
                    Ok(text) if message.is_string => Said::Event(text),
                    _ => Said::Binary,
                });
            }
            RTCMessage::RtpPacket(_, packet) if packet.header.payload_type == self.payload_type => {
                self.said.push_back(Said::Sound {
                    sequence: packet.header.sequence_number,
                    timestamp: packet.header.timestamp,
                    payload: packet.payload,
                });
            }
            _ => {}
        }
    }
}

impl Answer {
    fn of(sdp: String) -> Answer {
        let name = sdp.lines().find_map(|line| line.strip_prefix("a=ice-ufrag:"));
        Answer { name: name.unwrap_or_default().trim_end().to_owned(), sdp }
    }
}

fn described(offer: &Offer, heard_max: u32) -> Result<RTCSessionDescription, RtcError> {
    RTCSessionDescription::offer(offer.with_message_max(heard_max))
}

fn settings(heard_max: u32) -> SettingEngine {
    SettingEngineBuilder::new()
        .with_ice_timeouts(Some(MISSING_AFTER), Some(GONE_AFTER), Some(KEEP_ALIVE))
        .with_ice_connection_attempts(Some(CHECK_EVERY), Some(CHECKS_MAX))
        .with_include_loopback_candidate(true)
        .with_sctp_max_message_size(SctpMaxMessageSize::Bounded(heard_max))
        .with_sctp_max_receive_buffer_size(RECEIVE_BUFFER)
        .build()
}

fn opus(payload_type: u8) -> RTCRtpCodecParameters {
    RTCRtpCodecParameters {
        rtp_codec: RTCRtpCodec {
            mime_type: MIME_TYPE_OPUS.to_owned(),
            clock_rate: CLOCK_HZ,
            channels: 2,
            sdp_fmtp_line: "minptime=10;useinbandfec=1;usedtx=1".to_owned(),
            rtcp_feedback: Vec::new(),
        },
        payload_type,
    }
}

fn track(ssrc: u32, codec: RTCRtpCodec) -> MediaStreamTrack {
    let coding = RTCRtpCodingParameters { ssrc: Some(ssrc), ..Default::default() };
    let encoding =
        RTCRtpEncodingParameters { rtp_coding_parameters: coding, codec, ..Default::default() };
    let name = || "agent".to_owned();
    MediaStreamTrack::new(name(), name(), name(), RtpCodecKind::Audio, vec![encoding])
}

fn candidate(
    address: SocketAddr,
) -> Result<rtc::peer_connection::transport::RTCIceCandidateInit, RtcError> {
    let base_config = CandidateConfig {
        network: "udp".to_owned(),
        address: address.ip().to_string(),
        port: address.port(),
        component: 1,
        ..CandidateConfig::default()
    };
    let host = CandidateHostConfig { base_config, ..CandidateHostConfig::default() };
    RTCIceCandidate::from(&host.new_candidate_host()?).to_json()
}
