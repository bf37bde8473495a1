//! A browser's peer connection, as the tests and the benchmark call with it. No I/O.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rtc::data_channel::RTCDataChannelId;
use rtc::interceptor::Registry;
use rtc::media_stream::MediaStreamTrack;
use rtc::peer_connection::configuration::RTCConfigurationBuilder;
use rtc::peer_connection::configuration::media_engine::{MIME_TYPE_OPUS, MediaEngine};
use rtc::peer_connection::configuration::setting_engine::{
    SctpMaxMessageSize, SettingEngineBuilder,
};
use rtc::peer_connection::transport::{CandidateConfig, CandidateHostConfig, RTCIceCandidate};
use rtc::peer_connection::{RTCPeerConnection, RTCPeerConnectionBuilder};
use rtc::rtp::Header;
use rtc::rtp_transceiver::RTCRtpSenderId;
use rtc::rtp_transceiver::rtp_sender::{
    RTCRtpCodec, RTCRtpCodecParameters, RTCRtpCodingParameters, RTCRtpEncodingParameters,
    RtpCodecKind,
};
use rtc::shared::{TransportContext, TransportProtocol};

/// What this peer calls Opus.
const PAYLOAD_TYPE: u8 = 111;
const SSRC: u32 = 7;
/// Longest message, as Chromium has it.
const MESSAGE_MAX: u32 = 262_144;
/// Connectivity is checked this often.
const CHECK_EVERY: Duration = Duration::from_millis(20);

/// A connection that has offered.
pub struct Offering {
    pub pc: RTCPeerConnection,
    pub sender: RTCRtpSenderId,
    pub events_channel: RTCDataChannelId,
    /// The offer, without candidates, as browsers send it.
    pub sdp: String,
}

/// Offers a microphone and a channel of this label, from this address.
pub fn offer(now: Instant, local: SocketAddr, label: &str) -> Offering {
    let mut media = MediaEngine::default();
    let codec = RTCRtpCodec {
        mime_type: MIME_TYPE_OPUS.to_owned(),
        clock_rate: 48_000,
        channels: 2,
        sdp_fmtp_line: "minptime=10;useinbandfec=1".to_owned(),
        rtcp_feedback: Vec::new(),
    };
    let parameters = RTCRtpCodecParameters { rtp_codec: codec.clone(), payload_type: PAYLOAD_TYPE };
    media.register_codec(parameters, RtpCodecKind::Audio).unwrap();
    let settings = SettingEngineBuilder::new()
        .with_include_loopback_candidate(true)
        .with_sctp_max_message_size(SctpMaxMessageSize::Bounded(MESSAGE_MAX))
        .with_ice_connection_attempts(Some(CHECK_EVERY), Some(100))
        .build();
    let mut pc = RTCPeerConnectionBuilder::new()
        .with_configuration(RTCConfigurationBuilder::new().build())
        .with_setting_engine(settings)
        .with_media_engine(media)
        .with_interceptor_registry(Registry::new())
        .build(now)
        .unwrap();
    let coding = RTCRtpCodingParameters { ssrc: Some(SSRC), ..Default::default() };
    let encoding =
        RTCRtpEncodingParameters { rtp_coding_parameters: coding, codec, ..Default::default() };
    let name = || "microphone".to_owned();
    let track = MediaStreamTrack::new(name(), name(), name(), RtpCodecKind::Audio, vec![encoding]);
    let sender = pc.add_track(track).unwrap();
    let events_channel = pc.create_data_channel(label, None).unwrap().id();
    let offer = pc.create_offer(None).unwrap();
    let sdp = offer.sdp.clone();
    pc.set_local_description(now, offer).unwrap();
    gather(&mut pc, local);
    Offering { pc, sender, events_channel, sdp }
}

/// An address of its own, which the peer does not put into its offer.
pub fn gather(pc: &mut RTCPeerConnection, local: SocketAddr) {
    let base_config = CandidateConfig {
        network: "udp".to_owned(),
        address: local.ip().to_string(),
        port: local.port(),
        component: 1,
        ..Default::default()
    };
    let host = CandidateHostConfig { base_config, ..Default::default() };
    let candidate = RTCIceCandidate::from(&host.new_candidate_host().unwrap());
    pc.add_local_candidate(candidate.to_json().unwrap()).unwrap();
}

/// The header of a packet of the microphone's.
pub fn header(sequence: u16, timestamp: u32) -> Header {
    Header {
        version: 2,
        payload_type: PAYLOAD_TYPE,
        sequence_number: sequence,
        timestamp,
        ssrc: SSRC,
        ..Header::default()
    }
}

/// Between this address and that one.
pub fn between(local_addr: SocketAddr, peer_addr: SocketAddr) -> TransportContext {
    TransportContext {
        local_addr,
        peer_addr,
        ecn: None,
        transport_protocol: TransportProtocol::UDP,
    }
}
