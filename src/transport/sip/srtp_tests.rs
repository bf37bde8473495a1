//! Packets under the right key, the wrong one and the next.

use super::super::crypto::{Line, SECURE};
use super::super::rtp;
use super::*;

fn key(n: u8) -> Key {
    use base64::Engine;
    let key = base64::engine::general_purpose::STANDARD.encode([n; 30]);
    Line::parse(&format!("1 AES_CM_128_HMAC_SHA1_80 inline:{key}")).expect("a key").key
}

fn keys(suite: Suite, theirs: u8, ours: u8) -> Keys {
    Keys { profile: SECURE, tag: 1, suite, theirs: key(theirs), ours: key(ours) }
}

/// We and a telephone.
fn both(suite: Suite) -> (Guard, Guard) {
    (Guard::new(keys(suite, 1, 2)), Guard::new(keys(suite, 2, 1)))
}

fn packet(sequence: u16, ssrc: u32) -> Vec<u8> {
    rtp::write(0, false, sequence, u32::from(sequence) * 160, ssrc, &[0x55; 160])
}

#[test]
fn what_is_sealed_is_opened_and_the_number_may_come_round() {
    for (suite, longer) in [(Suite::Tag80, 10), (Suite::Tag32, 4)] {
        let (mut us, mut phone) = both(suite);
        for n in 0..70_000_u32 {
            let plain = packet((32_000 + n) as u16, 7);
            let sealed = phone.seal(&plain).unwrap();
            assert_eq!(sealed.len(), plain.len() + longer);
            assert_ne!(sealed[12..172], plain[12..]);
            // One in a hundred is lost.
            if n % 100 != 99 {
                assert_eq!(us.open(&sealed).unwrap(), plain, "{n}");
            }
        }
        assert_eq!(phone.open(&us.seal(&packet(1, 9)).unwrap()).unwrap(), packet(1, 9));
    }
}

#[test]
fn nothing_counts_twice_and_nothing_of_strangers_counts() {
    let (mut us, mut phone) = both(Suite::Tag80);
    let mut stranger = Guard::new(keys(Suite::Tag80, 2, 3));
    let first = phone.seal(&packet(5, 7)).unwrap();
    let second = phone.seal(&packet(6, 7)).unwrap();
    assert!(us.open(&second).is_ok() && us.open(&first).is_ok(), "in any order");
    for again in [&first, &second] {
        assert_eq!(us.open(again), Err(Count::RtpReplayed));
    }
    assert_eq!(us.open(&stranger.seal(&packet(7, 7)).unwrap()), Err(Count::RtpUnproven));
    assert_eq!(us.open(&packet(7, 7)), Err(Count::RtpUnproven), "plain");
    let mut changed = phone.seal(&packet(7, 7)).unwrap();
    changed[20] ^= 1;
    assert_eq!(us.open(&changed), Err(Count::RtpUnproven));
    changed[20] ^= 1;
    assert!(us.open(&changed).is_ok(), "what was forged takes no number away");
    for broken in [&[][..], &[0x80], &[0x80; 11], &[0x80; 12], &[0xff; 13], &[0x9f; 40]] {
        assert!(us.open(broken).is_err());
    }
}

/// Whoever names many streams takes no memory, and no stream of the telephone's.
#[test]
fn streams_are_bounded_and_only_proven_ones_count() {
    let (mut us, mut phone) = both(Suite::Tag80);
    let mut stranger = Guard::new(keys(Suite::Tag80, 2, 3));
    for ssrc in 0..1_000 {
        let forged = stranger.seal(&packet(1, ssrc)).unwrap();
        assert_eq!(us.open(&forged), Err(Count::RtpUnproven));
        assert!(us.theirs.unproven < UNPROVEN_MAX);
    }
    for ssrc in 0..STREAMS_MAX as u32 {
        assert!(us.open(&phone.seal(&packet(1, ssrc)).unwrap()).is_ok());
    }
    assert_eq!(us.open(&phone.seal(&packet(1, 99)).unwrap()), Err(Count::RtpUnproven));
    assert_eq!(us.theirs.proven.len(), STREAMS_MAX);
    assert!(us.open(&phone.seal(&packet(2, 0)).unwrap()).is_ok(), "what was known goes on");
}

/// A new key: what was sent before our answer arrived is still heard, until the new one is.
#[test]
fn a_new_key_takes_over_when_it_is_heard() {
    let (us, mut phone) = both(Suite::Tag80);
    let mut guard = Some(us);
    let early = phone.seal(&packet(1, 7)).unwrap();
    let late = phone.seal(&packet(2, 7)).unwrap();
    Guard::follow(&mut guard, Some(&keys(Suite::Tag80, 4, 5)));
    let us = guard.as_mut().unwrap();
    assert!(us.open(&early).is_ok());
    let mut anew = Guard::new(keys(Suite::Tag80, 5, 4));
    assert!(us.open(&anew.seal(&packet(3, 7)).unwrap()).is_ok());
    assert_eq!(us.open(&late), Err(Count::RtpUnproven));
    assert!(anew.open(&us.seal(&packet(9, 1)).unwrap()).is_ok());
    // The same keys again: what has come does not count again.
    let again = anew.seal(&packet(4, 7)).unwrap();
    assert!(us.open(&again).is_ok());
    Guard::follow(&mut guard, Some(&keys(Suite::Tag80, 4, 5)));
    assert_eq!(guard.as_mut().unwrap().open(&again), Err(Count::RtpReplayed));
    Guard::follow(&mut guard, None);
    assert!(guard.is_none());
}
