//! Sound in time, in both directions.

use super::*;
use crate::audio::level_dbfs;

const SPOKEN: Spoken = Spoken { law: Law::A, payload_type: 8 };

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
            50..75 => ear.push(now, &packet(n, 1, &loud), Law::A),
            100..125 => ear.push(now, &packet(n * 7, 2, &loud), Law::A),
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
        ear.push(now, &packet(n, n % 2, &loud), Law::A);
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
            ear.push(now, &packet(n, 1, &loud), Law::A);
        }
        heard.extend(ear.play(now));
    }
    assert!(heard[2_000..9_000].chunks(320).all(|frame| level_dbfs(frame) > -25.0));
    assert!(level_dbfs(&heard[heard.len() - 3_200..]) < -60.0);
    assert_eq!(ear.tally().lost, 1);
}

#[test]
fn a_pause_is_a_new_spurt_and_time_goes_on_in_it() {
    let mut mouth = SoundOut::new(at(0), (65_535, u32::MAX - 100, 5));
    let pcm = |samples: usize| Pcm { rate_hz: 8_000, samples: vec![1_000; samples] };
    let mut sent = Vec::new();
    mouth.say(at(0), &pcm(250), SPOKEN, &mut sent);
    mouth.finish(at(10), SPOKEN, &mut sent);
    mouth.say(at(1_000), &pcm(160), SPOKEN, &mut sent);
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
    mouth.keep_alive(at(16_000), SPOKEN, &mut sent);
    assert_eq!((sent.len(), mouth.keep_alive_due()), (4, at(31_000)));
}
