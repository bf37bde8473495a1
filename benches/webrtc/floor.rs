//! The floor: a bare WebRTC server on the same `rtc` core that decodes each packet of Opus, encodes
//! it again, sends it back, and no more.
//!
//! ICE, DTLS, SRTP, RTCP reports and the encoder are set up as the real server sets up its own. A
//! call has its own socket here, so that nothing has to find out whose a datagram is.

use std::net::SocketAddr;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::IntoResponse;
use bytes::{Bytes, BytesMut};
use floorkeeper::codec::opus::{ENCODED_RATE_HZ, Encoder};
use ropus::{Channels, DecodeMode, Decoder};
use rtc::interceptor::Registry;
use rtc::media_stream::MediaStreamTrack;
use rtc::peer_connection::configuration::RTCConfigurationBuilder;
use rtc::peer_connection::configuration::interceptor_registry::configure_rtcp_reports;
use rtc::peer_connection::configuration::media_engine::{MIME_TYPE_OPUS, MediaEngine};
use rtc::peer_connection::configuration::setting_engine::{
    SctpMaxMessageSize, SettingEngineBuilder,
};
use rtc::peer_connection::event::RTCPeerConnectionEvent;
use rtc::peer_connection::message::{RTCMessage, TaggedRTCMessage};
use rtc::peer_connection::sdp::RTCSessionDescription;
use rtc::peer_connection::state::RTCPeerConnectionState;
use rtc::peer_connection::{RTCPeerConnection, RTCPeerConnectionBuilder};
use rtc::rtp::{Header, Packet};
use rtc::rtp_transceiver::RTCRtpSenderId;
use rtc::rtp_transceiver::rtp_sender::{
    RTCRtpCodec, RTCRtpCodecParameters, RTCRtpCodingParameters, RTCRtpEncodingParameters,
    RtpCodecKind,
};
use rtc::sansio::Protocol;
use rtc::shared::TaggedBytesMut;
use rtc::shared::error::Error as RtcError;
use tokio::net::UdpSocket;

use crate::bare::{self, Echo, Floor};
use crate::browser::{between, gather};
use crate::callers::now;
use crate::sound::{CYCLE_FRAMES, SPEECH_FRAMES};

pub const FLOOR: Floor = Floor { variable: "FLOORKEEPER_WEBRTC_FLOOR", share: "speech" };
const PAYLOAD_TYPE: u8 = 111;
const SSRC: u32 = 11;
const FRAME_TICKS: u32 = 960;
const SECOND: Duration = Duration::from_secs(1);
/// Longest packet there is, in samples.
const DECODED_MAX: usize = ENCODED_RATE_HZ as usize * 120 / 1_000;

/// Serves as long as the benchmark runs. What the agent says is as much as the caller's speech.
pub fn serve(echo: Echo) {
    bare::serve(async |listener| {
        let answer = move |offer: String| async move {
            match Call::answer(offer, echo).await {
                Ok((call, sdp)) => {
                    tokio::spawn(call.converse());
                    (StatusCode::CREATED, sdp).into_response()
                }
                Err(fault) => (StatusCode::BAD_REQUEST, fault.to_string()).into_response(),
            }
        };
        let calls = axum::routing::post(answer);
        let site = axum::Router::new().route("/v1/realtime/calls", calls);
        axum::serve(listener, site).await.expect("it listens");
    });
}

struct Call {
    pc: RTCPeerConnection,
    socket: UdpSocket,
    local: SocketAddr,
    sender: RTCRtpSenderId,
    decoder: Decoder,
    encoder: Encoder,
    samples: Vec<i16>,
    sequence: u16,
    echo: Echo,
}

impl Call {
    async fn answer(offer: String, echo: Echo) -> Result<(Call, String), RtcError> {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a free port");
        let local = socket.local_addr().expect("bound");
        let mut media = MediaEngine::default();
        let codec = opus();
        media.register_codec(codec.clone(), RtpCodecKind::Audio)?;
        let settings = SettingEngineBuilder::new()
            .with_include_loopback_candidate(true)
            .with_ice_timeouts(Some(4 * SECOND), Some(4 * SECOND), Some(SECOND))
            .with_ice_connection_attempts(Some(SECOND / 50), Some(100))
            .with_sctp_max_message_size(SctpMaxMessageSize::Bounded(256 * 1024))
            .with_sctp_max_receive_buffer_size(512 * 1024)
            .build();
        let mut pc = RTCPeerConnectionBuilder::new()
            .with_configuration(RTCConfigurationBuilder::new().build())
            .with_setting_engine(settings)
            .with_media_engine(media)
            .with_interceptor_registry(configure_rtcp_reports(Registry::new()))
            .build(now())?;
        let sender = pc.add_track(track(codec.rtp_codec))?;
        pc.set_remote_description(now(), RTCSessionDescription::offer(offer)?)?;
        gather(&mut pc, local);
        let answer = pc.create_answer(None)?;
        pc.set_local_description(now(), answer)?;
        let sdp = pc.local_description().map(|described| described.sdp).unwrap_or_default();
        let call = Call {
            pc,
            socket,
            local,
            sender,
            decoder: Decoder::new(ENCODED_RATE_HZ, Channels::Mono).expect("a decoder"),
            encoder: Encoder::new().expect("an encoder"),
            samples: vec![0; DECODED_MAX],
            sequence: 0,
            echo,
        };
        Ok((call, sdp))
    }

    /// Until the caller has gone.
    async fn converse(mut self) {
        let mut buffer = [0; 2_048];
        while !self.is_over() {
            while let Some(TaggedRTCMessage { message, .. }) = self.pc.poll_read() {
                if let RTCMessage::RtpPacket(_, packet) = message {
                    self.hear(&packet);
                }
            }
            while let Some(sent) = self.pc.poll_write() {
                // What does not go out is lost, as on any network.
                let _ = self.socket.try_send_to(&sent.message, sent.transport.peer_addr);
            }
            let due = self.pc.poll_timeout().unwrap_or(now() + SECOND);
            tokio::select! {
                came = self.socket.recv_from(&mut buffer) => {
                    let Ok((length, from)) = came else { continue };
                    let transport = between(self.local, from);
                    let message = BytesMut::from(&buffer[..length]);
                    let _ = self.pc.handle_read(TaggedBytesMut { now: now(), transport, message });
                }
                () = tokio::time::sleep_until(due.into()) => {
                    let _ = self.pc.handle_timeout(now());
                }
            }
        }
    }

    fn is_over(&mut self) -> bool {
        let mut over = false;
        while let Some(event) = self.pc.poll_event() {
            if let RTCPeerConnectionEvent::OnConnectionStateChangeEvent(state) = event {
                over |= [RTCPeerConnectionState::Failed, RTCPeerConnectionState::Closed]
                    .contains(&state);
            }
        }
        over
    }

    fn hear(&mut self, packet: &Packet) {
        let decoded = self.decoder.decode(&packet.payload, &mut self.samples, DecodeMode::Normal);
        let Ok(length) = decoded else { return };
        // A caller's timestamps count from the beginning of a cycle.
        let position = (packet.header.timestamp / FRAME_TICKS) as usize % CYCLE_FRAMES;
        if self.echo == Echo::AgentShare && position >= SPEECH_FRAMES {
            return;
        }
        let Ok(Some(encoded)) = self.encoder.encode(&self.samples[..length]) else { return };
        let header = Header {
            version: 2,
            payload_type: PAYLOAD_TYPE,
            sequence_number: self.sequence,
            timestamp: packet.header.timestamp,
            ssrc: SSRC,
            ..Header::default()
        };
        let payload = Bytes::copy_from_slice(encoded);
        self.sequence = self.sequence.wrapping_add(1);
        if let Some(mut sender) = self.pc.rtp_sender(self.sender) {
            let _ = sender.write_rtp(now(), Packet { header, payload });
        }
    }
}

fn opus() -> RTCRtpCodecParameters {
    RTCRtpCodecParameters {
        rtp_codec: RTCRtpCodec {
            mime_type: MIME_TYPE_OPUS.to_owned(),
            clock_rate: 48_000,
            channels: 2,
            sdp_fmtp_line: "minptime=10;useinbandfec=1;usedtx=1".to_owned(),
            rtcp_feedback: Vec::new(),
        },
        payload_type: PAYLOAD_TYPE,
    }
}

fn track(codec: RTCRtpCodec) -> MediaStreamTrack {
    let coding = RTCRtpCodingParameters { ssrc: Some(SSRC), ..Default::default() };
    let encoding =
        RTCRtpEncodingParameters { rtp_coding_parameters: coding, codec, ..Default::default() };
    let name = || "echo".to_owned();
    MediaStreamTrack::new(name(), name(), name(), RtpCodecKind::Audio, vec![encoding])
}
