//! A client's SDP offer, looked at before anything is made for it.
//!
//! What is answered is one audio section with Opus, and a data channel for the events. Candidates
//! are left out: the client's checks come to our port, so that nobody can have us send packets to
//! an address of their choice.

/// Sections of media that one offer may have; Chromium offers two.
const SECTIONS_MAX: usize = 8;
/// Candidates that one offer may have; a browser on a laptop gathers a dozen.
pub const CANDIDATES_MAX: usize = 64;
/// Longest message of a client that says nothing of it (RFC 8841, 6.1).
const MESSAGE_MAX_UNSAID: usize = 65_536;
const MESSAGE_MAX: &str = "a=max-message-size:";
/// RTP has seven bits for it.
const PAYLOAD_TYPE_MAX: u32 = 127;

/// An offer that can be answered, as far as can be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The offer without its candidates, and without what it says of the longest message.
    pub(super) sdp: String,
    /// The longest message that the client takes.
    pub(super) message_max: usize,
    /// What the client calls Opus.
    pub(super) payload_type: u8,
}

/// Why an offer is not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadOffer {
    /// It is no session description.
    #[error("The offer is not SDP: {0}.")]
    NotSdp(String),
    /// No section with sound.
    #[error("The offer has no audio section; add a microphone track or an audio transceiver.")]
    NoAudio,
    /// No section for data channels.
    #[error(
        "The offer has no data channel, which the events need; create one with the label \
         'oai-events' before the offer."
    )]
    NoDataChannel,
    /// No Opus in the audio section.
    #[error("The offer's audio section does not have opus/48000/2, which is the one codec here.")]
    NoCommonCodec,
    /// A payload type that RTP cannot carry.
    #[error("The offer has payload type '{0}'; RTP carries 0 to {PAYLOAD_TYPE_MAX}.")]
    PayloadType(String),
    /// More candidates than anybody has.
    #[error("The offer has {0} candidates; {CANDIDATES_MAX} are the most.")]
    TooManyCandidates(usize),
    /// A further offer of another peer.
    #[error(
        "The offer has another fingerprint than the call's first: it is another peer's. Offer \
         again from the same connection, with ICE restarted, or begin a new call."
    )]
    OtherPeer,
    /// A further offer with other names for the same.
    #[error("The offer has payload type {0} for Opus, which was {1} in the call's first offer.")]
    OtherPayloadType(u8, u8),
    /// More sections than anybody needs.
    #[error("The offer has {0} media sections; {SECTIONS_MAX} are the most.")]
    TooManySections(usize),
}

impl BadOffer {
    /// The stable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            BadOffer::NotSdp(_) => "invalid_offer",
            BadOffer::NoAudio => "offer_without_audio",
            BadOffer::NoDataChannel => "offer_without_data_channel",
            BadOffer::NoCommonCodec => "no_common_codec",
            BadOffer::PayloadType(_) => "invalid_payload_type",
            BadOffer::TooManyCandidates(_) => "too_many_candidates",
            BadOffer::OtherPeer => "offer_of_another_peer",
            BadOffer::OtherPayloadType(..) => "payload_type_changed",
            BadOffer::TooManySections(_) => "too_many_media_sections",
        }
    }
}

impl Offer {
    /// Reads an offer.
    pub fn parse(sdp: &str) -> Result<Offer, BadOffer> {
        let lines: Vec<&str> = sdp.lines().map(str::trim_end).filter(|l| !l.is_empty()).collect();
        if lines.first() != Some(&"v=0") {
            return Err(BadOffer::NotSdp("its first line has to be v=0".to_owned()));
        }
        let is_candidate = |line: &&&str| line.starts_with("a=candidate:");
        let candidates = lines.iter().filter(is_candidate).count();
        if candidates > CANDIDATES_MAX {
            return Err(BadOffer::TooManyCandidates(candidates));
        }
        let starts: Vec<usize> =
            (0..lines.len()).filter(|at| lines[*at].starts_with("m=")).collect();
        if starts.len() > SECTIONS_MAX {
            return Err(BadOffer::TooManySections(starts.len()));
        }
        let ends = starts.iter().skip(1).copied().chain([lines.len()]);
        let sections: Vec<&[&str]> =
            starts.iter().zip(ends).map(|(start, end)| &lines[*start..end]).collect();
        sections.iter().try_for_each(|section| check_payload_types(section))?;
        let audio = sections.iter().find(|section| is_of(section, "audio"));
        let payload_type = opus(audio.ok_or(BadOffer::NoAudio)?).ok_or(BadOffer::NoCommonCodec)?;
        let data = sections.iter().find(|section| is_of(section, "application"));
        let message_max = message_max(data.ok_or(BadOffer::NoDataChannel)?);
        let kept = |line: &&&str| {
            !is_candidate(line) && **line != "a=end-of-candidates" && !line.starts_with(MESSAGE_MAX)
        };
        let sdp = lines.iter().filter(kept).flat_map(|line| [*line, "\r\n"]).collect();
        Ok(Offer { sdp, message_max, payload_type })
    }

    /// The offer of a client that takes messages as long as this. The library takes what its peer
    /// takes for what it may send as well, and drops what is longer.
    pub(super) fn with_message_max(&self, most: u32) -> String {
        let lines = self.sdp.lines().flat_map(|line| {
            let data = line.starts_with("m=application");
            [line.to_owned(), if data { format!("{MESSAGE_MAX}{most}") } else { String::new() }]
        });
        lines.filter(|line| !line.is_empty()).flat_map(|line| [line, "\r\n".to_owned()]).collect()
    }

    /// The certificate of the peer, as far as it says.
    pub(super) fn fingerprint(&self) -> &str {
        self.sdp.lines().find(|line| line.starts_with("a=fingerprint:")).unwrap_or_default()
    }
}

/// The fields of a section's first line: kind, port, protocol, formats.
fn fields<'a>(section: &[&'a str]) -> Vec<&'a str> {
    section[0][2..].split_ascii_whitespace().collect()
}

/// What a section says of the longest message; 0 is without bounds.
fn message_max(section: &[&str]) -> usize {
    let said = section.iter().find_map(|line| line.strip_prefix(MESSAGE_MAX));
    match said.and_then(|said| said.trim().parse().ok()) {
        Some(0) => usize::MAX,
        Some(most) => most,
        None => MESSAGE_MAX_UNSAID,
    }
}

fn check_payload_types(section: &[&str]) -> Result<(), BadOffer> {
    let fields = fields(section);
    let is_rtp = fields.get(2).is_some_and(|protocol| protocol.contains("RTP/"));
    let wrong = fields
        .iter()
        .skip(3)
        .filter(|_| is_rtp)
        .find(|format| !format.parse::<u32>().is_ok_and(|number| number <= PAYLOAD_TYPE_MAX));
    wrong.map_or(Ok(()), |format| Err(BadOffer::PayloadType(format.chars().take(16).collect())))
}

/// A section of this kind that is not switched off.
fn is_of(section: &[&str], kind: &str) -> bool {
    let fields = fields(section);
    let is_on =
        fields.get(1).is_some_and(|port| *port != "0") || section.contains(&"a=bundle-only");
    fields.first() == Some(&kind) && is_on
}

/// The payload type of Opus, which the section has to offer as a format as well.
fn opus(section: &[&str]) -> Option<u8> {
    let offered = fields(section);
    section.iter().find_map(|line| {
        let (payload_type, codec) = line.strip_prefix("a=rtpmap:")?.split_once(' ')?;
        let is_opus = codec.trim().eq_ignore_ascii_case("opus/48000/2");
        let is_offered = offered.iter().skip(3).any(|format| *format == payload_type);
        (is_opus && is_offered).then(|| payload_type.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(audio: &str) -> String {
        let data = "m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\na=mid:1\r\n";
        format!("v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n{audio}{data}")
    }

    const AUDIO: &str = "m=audio 9 UDP/TLS/RTP/SAVPF 0 111\r\na=mid:0\r\na=rtpmap:0 PCMU/8000\r\n\
                         a=rtpmap:111 opus/48000/2\r\na=candidate:1 1 udp 1 10.0.0.1 9 typ host\r\n";

    #[test]
    fn an_offer_keeps_everything_but_its_candidates() {
        let parsed = Offer::parse(&offer(AUDIO)).unwrap();
        assert_eq!(parsed.payload_type, 111);
        assert!(!parsed.sdp.contains("candidate") && parsed.sdp.contains("opus/48000/2\r\nm=app"));
        assert_eq!(Offer::parse(&offer(AUDIO).replace("\r\n", "\n")).unwrap(), parsed);
    }

    #[test]
    fn the_longest_message_is_the_clients_own() {
        let of = |said: &str| Offer::parse(&(offer(AUDIO) + said)).unwrap();
        let cases = [
            ("", 65_536),
            ("a=max-message-size:1200\r\n", 1_200),
            ("a=max-message-size:0\r\n", usize::MAX),
            ("a=max-message-size:many\r\n", 65_536),
            ("a=max-message-size:1073741823\r\n", 1_073_741_823),
        ];
        for (said, most) in cases {
            let parsed = of(said);
            assert_eq!(parsed.message_max, most, "{said}");
            let sdp = parsed.with_message_max(7);
            assert!(sdp.contains("datachannel\r\na=max-message-size:7\r\na=mid:1\r\n"), "{sdp}");
            assert_eq!(sdp.matches("max-message-size").count(), 1, "{sdp}");
        }
    }

    #[test]
    fn what_cannot_be_answered_says_why() {
        let many =
            AUDIO.to_owned() + &"a=candidate:1 1 udp 1 10.0.0.1 9 typ host\r\n".repeat(1_000);
        let video = "m=video 9 UDP/TLS/RTP/SAVPF 96\r\na=mid:0\r\n";
        let cases = [
            ("hello".to_owned(), "invalid_offer"),
            (String::new(), "invalid_offer"),
            (offer(""), "offer_without_audio"),
            (offer(video), "offer_without_audio"),
            (offer(&AUDIO.replace("audio 9", "audio 0")), "offer_without_audio"),
            (offer(&AUDIO.replace("opus", "speex")), "no_common_codec"),
            (offer(&AUDIO.replace("0 111", "0")), "no_common_codec"),
            (offer(&AUDIO.replace("0 111", "0 111 128")), "invalid_payload_type"),
            (offer(&AUDIO.replace("0 111", "0 111 x")), "invalid_payload_type"),
            (offer(AUDIO).replace("m=application", "m=text"), "offer_without_data_channel"),
            (offer(&many), "too_many_candidates"),
            (offer(&AUDIO.repeat(9)), "too_many_media_sections"),
        ];
        for (sdp, code) in cases {
            let bad = Offer::parse(&sdp).unwrap_err();
            assert_eq!(bad.code(), code, "{sdp}");
            assert!(bad.to_string().ends_with('.'), "{bad}");
        }
    }
}
