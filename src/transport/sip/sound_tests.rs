//! Sound in time, in both directions.

use std::f32::consts::TAU;

use super::*;
use crate::audio::level_dbfs;

const SPOKEN: Spoken = Spoken { codec: Codec::Pcma, payload_type: 8, bits_max: None };

fn spoken(codec: Codec) -> Spoken {
    Spoken { codec, payload_type: codec.payload_type().unwrap_or(107), bits_max: None }
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn packet(n: u32, ssrc: u32, payload: &[u8]) -> rtp::Packet<'_> {
    let timestamp = (u32::MAX - 300).wrapping_add(n * 160);
    rtp::Packet {
        payload_type: 8,
        sequence: 65_530_u16.wrapping_add(n as u16),
        timestamp,
        ssrc,
        payload,
    }
}

fn loud() -> Vec<u8> {
    let wave: Vec<i16> = (0..160).map(|n| if n % 16 < 8 { 8_000 } else { -8_000 }).collect();
    let mut bytes = Vec::new();
    Law::A.encode(&wave, &mut bytes);
    bytes
}

/// The clock is ours: a second has 16,000 samples whether anything came, something, or from
/// another sender; and a silence of the sender is silence.
#[test]
fn time_goes_on_whatever_comes() {
    let mut ear = SoundIn::new(at(0));
    let (mut heard, loud) = (Vec::new(), loud());
    for n in 0..150_u32 {
        let now = at(u64::from(n) * 20);
        match n {
            50..75 => assert!(ear.push(now, &packet(n, 1, &loud), Codec::Pcma)),
            100..125 => assert!(ear.push(now, &packet(n * 7, 2, &loud), Codec::Pcma)),
            _ => {}
        }
        heard.extend(ear.play(now));
    }
    let seconds = heard.len() as f32 / 16_000.0;
    assert!((2.9..=3.0).contains(&seconds), "{seconds} s");
    assert_eq!(level_dbfs(&heard[..15_000]), f32::NEG_INFINITY);
    assert!(level_dbfs(&heard[18_000..22_000]) > -15.0);
    assert!(level_dbfs(&heard[28_000..31_000]) < -60.0);
    assert!(level_dbfs(&heard[34_500..38_000]) > -20.0);
}

/// Who changes the sender with every packet has no more of our time than others.
#[test]
fn two_senders_at_once_make_time_go_no_faster() {
    let mut ear = SoundIn::new(at(0));
    let (mut heard, loud) = (0, loud());
    for n in 0..1_000_u32 {
        let now = at(n.into());
        ear.push(now, &packet(n, n % 2, &loud), Codec::Pcma);
        heard += ear.play(now).len();
    }
    assert!((15_680..=16_320).contains(&heard), "{heard} samples of a second");
}

/// Numbers and timestamps wrap, and what is missing fades.
#[test]
fn a_missing_packet_is_made_up_and_fades() {
    let mut ear = SoundIn::new(at(0));
    let (mut heard, loud) = (Vec::new(), loud());
    for n in 0..60_u32 {
        let now = at(u64::from(n) * 20);
        if n < 30 && n != 12 {
            ear.push(now, &packet(n, 1, &loud), Codec::Pcma);
        }
        heard.extend(ear.play(now));
    }
    assert!(heard[2_000..9_000].chunks(320).all(|frame| level_dbfs(frame) > -25.0));
    assert!(level_dbfs(&heard[heard.len() - 3_200..]) < -60.0);
    assert_eq!(ear.tally().lost, 1);
}

#[test]
fn a_pause_is_a_new_spurt_and_time_goes_on_in_it() {
    let mut mouth = SoundOut::new(at(0), SPOKEN, (65_535, u32::MAX - 100, 5));
    let pcm = |samples: usize| Pcm { rate_hz: 8_000, samples: vec![1_000; samples] };
    let mut sent = Vec::new();
    mouth.say(at(0), &pcm(250), &mut sent);
    mouth.finish(at(10), &mut sent);
    mouth.say(at(1_000), &pcm(160), &mut sent);
    let packets: Vec<_> = sent.iter().map(|bytes| rtp::parse(bytes).unwrap()).collect();
    assert!(packets.iter().all(|p| (p.payload.len(), p.payload_type, p.ssrc) == (160, 8, 5)));
    let sequences: Vec<u16> = packets.iter().map(|packet| packet.sequence).collect();
    assert_eq!(sequences, [65_535, 0, 1]);
    let ahead: Vec<u32> =
        packets.iter().map(|p| p.timestamp.wrapping_sub(u32::MAX - 100)).collect();
    assert_eq!(ahead, [0, 160, 160 * 50], "a second later");
    let markers: Vec<bool> = sent.iter().map(|bytes| bytes[1] & 0x80 != 0).collect();
    assert_eq!(markers, [true, false, true]);
    assert_eq!(mouth.keep_alive_due(), at(16_000));
    mouth.keep_alive(at(16_000), &mut sent);
    assert_eq!((sent.len(), mouth.keep_alive_due()), (4, at(31_000)));
}

/// A tone of so many Hz, at 24 kHz, for so long; it swells, as what is steady is no voice.
fn tone(hz: f32, millis: usize) -> Pcm {
    let wave = |n: usize| {
        let second = n as f32 / 24_000.0;
        let swell = 0.7 + 0.3 * (second * 4.0 * TAU).sin();
        ((second * hz * TAU).sin() * swell * 9_000.0) as i16
    };
    Pcm { rate_hz: 24_000, samples: (0..millis * 24).map(wave).collect() }
}

/// How loud a tone of so many Hz is in this, beside all of it, in dB.
fn tone_db(heard: &[i16], hz: f32) -> f32 {
    let turn = |n: usize| n as f32 * hz * TAU / 16_000.0;
    let (mut cos, mut sin, mut all) = (0.0, 0.0, 1.0);
    for (n, sample) in heard.iter().map(|sample| f32::from(*sample)).enumerate() {
        (cos, sin) = (cos + sample * turn(n).cos(), sin + sample * turn(n).sin());
        all += sample * sample / 2.0;
    }
    10.0 * ((cos * cos + sin * sin) / (all * heard.len() as f32 + 1.0)).log10()
}

/// Packets as they come, each 20 ms behind the other; what is `lost` never does.
fn heard_of(sent: &[Vec<u8>], codec: Codec, lost: &[usize]) -> (Vec<i16>, Tally) {
    let (mut ear, mut heard) = (SoundIn::new(at(0)), Vec::new());
    for (n, bytes) in sent.iter().enumerate() {
        let now = at(n as u64 * 20);
        if !lost.contains(&n) {
            assert!(ear.push(now, &rtp::parse(bytes).unwrap(), codec));
        }
        heard.extend(ear.play(now));
    }
    (heard, ear.tally())
}

fn said(codec: Codec, pcm: &Pcm) -> Vec<Vec<u8>> {
    let mut mouth = SoundOut::new(at(0), spoken(codec), (65_530, u32::MAX - 2_000, 5));
    let mut sent = Vec::new();
    for (n, frame) in pcm.samples.chunks(480).enumerate() {
        let frame = Pcm { rate_hz: 24_000, samples: frame.to_vec() };
        mouth.say(at(n as u64 * 20), &frame, &mut sent);
    }
    sent
}

/// Issue 7.2: a tone is heard through each codec, one of 6 kHz through those of 16 kHz alone; a
/// frame is 20 ms of its own clock.
#[test]
fn each_codec_is_heard() {
    for codec in Codec::ALL {
        let wide = matches!(codec, Codec::Opus | Codec::G722);
        for hz in [600.0, 6_000.0] {
            let sent = said(codec, &tone(hz, 1_000));
            let packets: Vec<_> = sent.iter().map(|bytes| rtp::parse(bytes).unwrap()).collect();
            for two in packets.windows(2) {
                assert_eq!(two[1].sequence, two[0].sequence.wrapping_add(1), "{codec:?}");
                let ticks = two[1].timestamp.wrapping_sub(two[0].timestamp);
                assert_eq!(ticks, codec.clock_hz() / 50, "{codec:?}");
                assert_eq!(two[0].payload.len() == 160, codec != Codec::Opus, "{codec:?}");
            }
            let (heard, tally) = heard_of(&sent, codec, &[]);
            assert_eq!((heard.len(), tally.lost), ((sent.len() - 1) * 320, 0), "{codec:?}");
            let (level, clear) = (level_dbfs(&heard[4_000..]), tone_db(&heard[4_000..], hz));
            let is_heard = level > -25.0 && clear > -1.5;
            assert_eq!(is_heard, wide || hz < 4_000.0, "{codec:?}, {hz}: {level} {clear} dB");
        }
    }
}

/// RFC 7587: a lost packet of Opus is in the one behind it, several are made up.
#[test]
fn what_is_lost_of_opus_is_recovered_or_made_up() {
    let sent = said(Codec::Opus, &tone(600.0, 1_600));
    let (whole, _) = heard_of(&sent, Codec::Opus, &[]);
    for lost in [&[30][..], &[30, 31, 32]] {
        let (heard, tally) = heard_of(&sent, Codec::Opus, lost);
        assert_eq!(heard.len(), whole.len());
        assert!(tally.lost + tally.put_in > 0, "{lost:?}: {tally:?}");
        let gap = &heard[30 * 320..40 * 320];
        let quietest = gap.chunks(320).map(level_dbfs).fold(0.0, f32::min);
        assert!(quietest > -40.0, "{lost:?}: {quietest} dB where nothing came");
        assert!(tone_db(gap, 600.0) > -6.0, "{lost:?}: {}", tone_db(gap, 600.0));
    }
}

/// A re-INVITE changes the codec: what is said goes on. Timestamps that count the same go on as
/// well; where they do not it is another stream (RFC 7160, 4.2).
#[test]
fn a_codec_may_be_changed_in_the_middle() {
    let mut mouth = SoundOut::new(at(0), spoken(Codec::Pcmu), (10, 1_000, 5));
    let (mut ear, mut heard, mut streams) = (SoundIn::new(at(0)), Vec::new(), Vec::new());
    let order = [Codec::Pcmu, Codec::G722, Codec::Opus, Codec::Pcma];
    for (n, frame) in tone(600.0, 2_000).samples.chunks(480).enumerate() {
        let (now, codec) = (at(n as u64 * 20), order[n / 25]);
        let mut sent = Vec::new();
        mouth.turn_to(spoken(codec));
        mouth.say(now, &Pcm { rate_hz: 24_000, samples: frame.to_vec() }, &mut sent);
        for packet in sent.iter().map(|bytes| rtp::parse(bytes).unwrap()) {
            assert!(ear.push(now, &packet, codec));
            if streams.last().is_none_or(|(_, ssrc)| *ssrc != packet.ssrc) {
                streams.push((codec, packet.ssrc));
            }
        }
        heard.extend(ear.play(now));
    }
    let began: Vec<Codec> = streams.iter().map(|(codec, _)| *codec).collect();
    assert_eq!(began, [Codec::Pcmu, Codec::Opus, Codec::Pcma]);
    let seconds = heard.len() as f32 / 16_000.0;
    assert!((1.9..=2.0).contains(&seconds), "{seconds} s");
    for (codec, part) in order.iter().zip(heard.chunks(8_000)) {
        let clear = tone_db(&part[3_000..], 600.0);
        assert!(level_dbfs(&part[3_000..]) > -25.0 && clear > -1.5, "{codec:?}: {clear} dB");
    }
}

/// Opus: sound that stops half-way ends in silence, and what keeps the way open is sent though
/// there is nothing to hear.
#[test]
fn opus_is_silent_where_nothing_is_said() {
    let mut mouth = SoundOut::new(at(0), spoken(Codec::Opus), (1, 2, 3));
    let mut sent = Vec::new();
    mouth.say(at(0), &tone(600.0, 200), &mut sent);
    mouth.hush(at(200), &mut sent);
    mouth.hush(at(200), &mut sent);
    assert_eq!(sent.len(), 12, "ten frames and two of silence, once");
    mouth.keep_alive(mouth.keep_alive_due(), &mut sent);
    let last = rtp::parse(sent.last().unwrap()).unwrap();
    assert_eq!((sent.len(), last.payload), (13, &opus::NOTHING[..]));
    let (heard, _) = heard_of(&sent, Codec::Opus, &[]);
    assert!(level_dbfs(&heard[1_600..3_200]) > -25.0);
    let mut ear = SoundIn::new(at(0));
    for bytes in [&[0xff, 63][..], &[]] {
        assert!(!ear.push(at(0), &packet(0, 1, bytes), Codec::Opus), "{bytes:?} is no Opus");
    }
}
