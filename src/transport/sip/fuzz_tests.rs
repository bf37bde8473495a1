//! Nearly right input, by the million: whatever comes breaks nothing that reads it, answers it or
//! speaks for a call, and nothing grows with it.
//!
//! Case number n of a seed is always the same. For ten minutes:
//!
//! ```sh
//! FLOORKEEPER_FUZZ_S=600 cargo test --lib sip::fuzz -- --nocapture
//! ```
//!
//! `FLOORKEEPER_FUZZ_SEED` draws others, `FLOORKEEPER_FUZZ_FROM` begins at a case that failed. What
//! once broke something is kept in `tests/data/sip`, which every case is drawn from.

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::call::Order;
use super::codec::{Codec, Codecs};
use super::count::Counts;
use super::crypto::{Secrecy, Srtp};
use super::dialog::{Dialog, Hop, Setup};
use super::keys::Keys;
use super::message::{Message, Wrong, length_in_stream, parse};
use super::outgoing::{Outgoing, Wanted};
use super::respond::Credentials;
use super::rtp::{self, Source};
use super::sdp::{Description, Ours};
use super::sound::SoundIn;
use super::talk::Talk;
use super::{require, stateless};
use crate::audio::CALLER_RATE_HZ;
use crate::time::{Timestamp, ms};
use mutate::{Dice, corpus, mutated};

#[path = "../../../tests/sip/mutate.rs"]
mod mutate;

/// In all tests of every change.
const USUAL_S: u64 = 8;
/// What one message may make a call say, to the peer or to us.
const SAYS_MAX: usize = 8;

fn peer() -> SocketAddr {
    "192.0.2.7:5062".parse().unwrap()
}

fn us() -> SocketAddr {
    "192.0.2.1:5060".parse().unwrap()
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |number| number.parse().expect(name))
}

/// Issue 7: no crash under a mutation fuzzer.
#[test]
fn nothing_that_comes_breaks_anything() {
    let seeds = corpus();
    let seed = number("FLOORKEEPER_FUZZ_SEED", 1);
    let first = number("FLOORKEEPER_FUZZ_FROM", 0);
    let span = std::time::Duration::from_secs(number("FLOORKEEPER_FUZZ_S", USUAL_S));
    for whole in &seeds {
        read(whole);
    }
    let (began, mut counts, mut case) = (Instant::now(), [0_u64; 5], first);
    while began.elapsed() < span {
        let mut dice = Dice::of(seed, case);
        // A stream takes a hundred times as long as anything else.
        let what = if dice.below(100) == 0 { 4 } else { dice.below(4) };
        let ran = catch_unwind(AssertUnwindSafe(|| match what {
            0 => read(&mutated(&mut dice, &seeds)),
            1 => describe(&mut dice, &seeds),
            2 => be_rung(&mut dice, &seeds),
            3 => ring(&mut dice, &seeds),
            _ => hear(&mut dice),
        }));
        assert!(ran.is_ok(), "FLOORKEEPER_FUZZ_SEED={seed} FLOORKEEPER_FUZZ_FROM={case}");
        counts[what] += 1;
        case += 1;
    }
    let [messages, descriptions, rung, rang, streams] = counts;
    println!(
        "seed {seed}, cases {first} to {case}: {messages} messages, {descriptions} descriptions, \
         {streams} streams of RTP, {rung} calls that came in, {rang} that were placed"
    );
}

/// Reads a message as it comes, by datagram and by stream, and answers it without a call.
fn read(bytes: &[u8]) {
    if let Ok(Some(length)) = length_in_stream(bytes) {
        let _ = parse(&bytes[..length.min(bytes.len())]);
    }
    match parse(bytes) {
        Ok(Message::Request(request)) => {
            if let Some(answer) = stateless::answer(&request, "t") {
                is_written_well(&answer.write(&request, peer()));
            }
            if let Err(refused) = require::invite(&request) {
                is_written_well(&refused.answer("t").write(&request, peer()));
            }
            let _ = require::key(&request);
        }
        Err(Wrong::Request(request, status)) => {
            if let Some(answer) = stateless::wrong(&request, status, "t") {
                is_written_well(&answer.write(&request, peer()));
            }
        }
        Ok(Message::Response(_)) | Err(Wrong::Nothing) => {}
    }
}

/// No line of what we say is one that somebody else has put there.
fn is_written_well(bytes: &[u8]) {
    let text = std::str::from_utf8(bytes).expect("text");
    assert!(!text.replace("\r\n", "").contains(['\r', '\n', '\0']), "{text:?}");
    let (head, _) = text.split_once("\r\n\r\n").expect("a head");
    for line in head.lines().skip(1) {
        assert!(line.contains(':') && !line.starts_with([' ', '\t']), "{line:?} of {text:?}");
    }
}

/// Reads a session description and answers it.
fn describe(dice: &mut Dice, seeds: &[Vec<u8>]) {
    let bytes = mutated(dice, seeds);
    let from = bytes.windows(4).position(|four| four == b"v=0\r").unwrap_or_default();
    let Ok(offer) = Description::parse(&bytes[from..]) else { return };
    let codecs = Codecs::default();
    let Ok(media) = offer.agree(us(), peer().ip(), Secrecy::Offer(Srtp::Offered, None), codecs)
    else {
        return;
    };
    let answer = Ours::new(us(), 7, codecs).answer(&offer, &media);
    assert!(!answer.replace("\r\n", "").contains(['\r', '\n']), "{answer:?}");
    Description::parse(answer.as_bytes()).unwrap_or_else(|bad| panic!("{bad:?}: {answer}"));
}

/// A call's sound: packets that jump, repeat, come late, are cut and of others.
fn hear(dice: &mut Dice) {
    let (counts, mut source, mut keys) =
        (Counts::default(), Source::of(peer().ip()), Keys::default());
    let (mut now, mut heard) = (1_000, 0);
    let mut ear = SoundIn::new(Timestamp::from_millis(now));
    let (mut sequence, mut timestamp, mut ssrc) = (dice.draw() as u16, dice.draw() as u32, 7);
    source.agree(Some(peer()));
    for _ in 0..dice.below(300) {
        let payload = vec![dice.draw() as u8; *dice.one_of(&[0, 1, 4, 80, 160, 160, 160, 1_700])];
        let kind = *dice.one_of(&[0, 0, 0, 8, 101, 13, 72, 127]);
        let mut bytes = rtp::write(kind, false, sequence, timestamp, ssrc, &payload);
        for _ in 0..dice.below(3) {
            let at = dice.below(bytes.len());
            bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = dice.draw() as u8);
            bytes.truncate(at.max(12 * usize::from(dice.below(4) > 0)));
        }
        let from = if dice.below(8) == 0 { us() } else { peer() };
        let time = Timestamp::from_millis(now);
        if source.hears(from, &counts)
            && !rtp::is_rtcp(&bytes)
            && let Some(packet) = rtp::parse(&bytes).filter(|p| p.payload.len() <= rtp::PAYLOAD_MAX)
        {
            let _ = keys.hear(&packet);
            let codec = *dice.one_of(&[Codec::Pcmu, Codec::Pcma, Codec::G722, Codec::Opus]);
            ear.push(time, &packet, codec);
        }
        now += dice.below(60) as u64;
        heard += ear.play(Timestamp::from_millis(now)).len() as u64;
        match dice.below(40) {
            0 => sequence = dice.draw() as u16,
            1 => timestamp = dice.draw() as u32,
            2 => ssrc = dice.draw() as u32,
            3 => source.agree(Some(SocketAddr::new(peer().ip(), dice.draw() as u16))),
            _ => {}
        }
        sequence = sequence.wrapping_add(dice.below(3) as u16);
        timestamp = timestamp.wrapping_add(160 * dice.below(3) as u32);
    }
    // The clock is ours: nobody makes a call hear more than time has passed.
    let passed = (now - 1_000 + 1_000) * u64::from(CALLER_RATE_HZ) / 1_000;
    assert!(heard <= passed, "{heard} samples of at most {passed}");
}

fn setup() -> Setup {
    let tag = "ours".to_owned();
    let (transport, t1, srtp) = ("UDP", ms(100), Srtp::Offered);
    let codecs = Codecs::default();
    Setup { us: us(), secure: None, sips: false, transport, t1, srtp, codecs, tag, session: 7 }
}

/// A call that comes in.
fn be_rung(dice: &mut Dice, seeds: &[Vec<u8>]) {
    let invites: Vec<Vec<u8>> =
        seeds.iter().filter(|seed| seed.starts_with(b"INVITE")).cloned().collect();
    let bytes = match dice.below(3) {
        0 => mutated(dice, &invites),
        _ => dice.one_of(&invites).clone(),
    };
    let Ok(Message::Request(request)) = parse(&bytes) else { return };
    match Dialog::begin(Timestamp::from_millis(0), setup(), request, peer()) {
        Ok(mut dialog) => talk(&mut dialog, dice, seeds),
        Err(refusal) => is_written_well(&refusal),
    }
}

/// A call that we place.
fn ring(dice: &mut Dice, seeds: &[Vec<u8>]) {
    let wanted = Wanted {
        uri: "sip:+15550100@192.0.2.7".to_owned(),
        from: "<sip:+15550199@192.0.2.1>".to_owned(),
        call_id: "c1@192.0.2.7".to_owned(),
        peer: peer(),
        hears_at: "192.0.2.1:30000".parse().unwrap(),
        ring_max: ms(20_000),
        credentials: Some(Credentials { user: "us".to_owned(), password: "pw".to_owned() }),
    };
    talk(&mut Outgoing::begin(Timestamp::from_millis(0), setup(), wanted), dice, seeds);
}

/// Messages, decisions and time in any order; behind a hang-up it ends by itself.
fn talk(call: &mut dyn Talk, dice: &mut Dice, seeds: &[Vec<u8>]) {
    let mut now = Timestamp::from_millis(0);
    drain(call);
    for _ in 0..dice.below(40) {
        match dice.below(16) {
            0 => call.obey(now, Order::Ring),
            1 => call.obey(now, Order::Accept { at: us() }),
            2 => {
                let (status, retry_after_s) = (486, Some(1));
                call.obey(now, Order::Refuse { status, retry_after_s });
            }
            3 => call.refer(now, "sip:bob@192.0.2.9"),
            4 => {
                let (tell, _) = oneshot::channel();
                call.obey(now, Order::Refer { to: "tel:+15550177".to_owned(), tell });
            }
            5 => call.hang_up(now),
            6..9 => {
                now += ms(dice.below(2_000) as u64);
                call.tick(now);
            }
            _ => {
                let bytes = match dice.below(2) {
                    0 => mutated(dice, seeds),
                    _ => dice.one_of(seeds).clone(),
                };
                let from = if dice.below(8) == 0 { us() } else { peer() };
                if let Ok(message) = parse(&bytes) {
                    let transport = *dice.one_of(&["UDP", "UDP", "TCP"]);
                    call.receive(now, message, Hop { from, transport });
                }
            }
        }
        drain(call);
    }
    ends(call, now);
}

fn drain(call: &mut dyn Talk) {
    let mut sent = 0;
    while let Some((_, bytes)) = call.poll_send() {
        is_written_well(&bytes);
        sent += 1;
    }
    let said = std::iter::from_fn(|| call.poll_said()).count();
    assert!(sent <= SAYS_MAX && said <= SAYS_MAX, "{sent} messages, {said} news: {call:?}");
}

/// Nobody says anything any more: it is over within a bounded time, and bounded work.
fn ends(call: &mut dyn Talk, mut now: Timestamp) {
    const TICKS_MAX: usize = 100;
    call.hang_up(now);
    drain(call);
    for _ in 0..TICKS_MAX {
        if call.is_over(now) {
            return;
        }
        let due =
            call.due().unwrap_or_else(|| panic!("nothing is due, and it is not over: {call:?}"));
        now = now.max(due);
        call.tick(now);
        drain(call);
    }
    panic!("it never ends: {call:?}");
}
