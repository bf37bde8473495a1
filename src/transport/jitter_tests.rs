//! The jitter buffer against networks that lose, delay, double and reorder.

use super::*;

/// Packet `n` of a stream that began at a timestamp about to wrap.
fn packet(n: u32) -> Packet {
    Packet {
        sequence: (65_530_u16).wrapping_add(n as u16),
        timestamp: (u32::MAX - 3_000).wrapping_add(n * 960),
        ticks: 960,
        payload: Bytes::copy_from_slice(&n.to_be_bytes()),
    }
}

fn number(payload: &Bytes) -> u32 {
    u32::from_be_bytes(payload[..].try_into().unwrap())
}

/// What was heard: a packet's number, `-1` recovered, `-2` made up, `-3` silence, `-4` skipped.
fn heard(play: &Play) -> i64 {
    match play {
        Play::Packet(payload) => i64::from(number(payload)),
        Play::Recover(_) => -1,
        Play::Conceal => -2,
        Play::Silence => -3,
        Play::Skip(_) => -4,
    }
}

/// Packets at their times of arrival, in milliseconds, and what was heard until `end_ms`.
fn run(mut arrivals: Vec<(u64, u32)>, end_ms: u64) -> (Vec<i64>, JitterBuffer) {
    arrivals.sort();
    let mut buffer = JitterBuffer::default();
    let mut played = Vec::new();
    let mut next = arrivals.into_iter().peekable();
    for at in 0..end_ms {
        let now = Timestamp::from_millis(1_000 + at);
        while let Some((_, n)) = next.next_if(|(when, _)| *when <= at) {
            buffer.push(now, packet(n));
        }
        while let Some(play) = buffer.poll(now) {
            played.push(heard(&play));
        }
    }
    (played, buffer)
}

/// What was heard without the silence in front.
fn trimmed(played: &[i64]) -> Vec<i64> {
    played.iter().copied().skip_while(|&heard| heard == -3).collect()
}

#[test]
fn an_even_stream_is_played_as_it_is_after_forty_milliseconds() {
    let (played, buffer) = run((0..100).map(|n| (u64::from(n) * 20, n)).collect(), 2_000);
    assert_eq!(played[..2], [-3, -3]);
    assert_eq!(trimmed(&played), (0..98).collect::<Vec<i64>>());
    assert_eq!((buffer.delay(), buffer.tally()), (DELAY_MIN, Tally::default()));
}

#[test]
fn disorder_and_doubles_are_put_right() {
    let swapped = (0..100_u32).flat_map(|n| {
        let at = u64::from(n) * 20;
        let delay = if n % 3 == 0 { 25 } else { 0 };
        [(at + delay, n), (at + delay + 1, n)]
    });
    let (played, buffer) = run(swapped.collect(), 1_900);
    let played = trimmed(&played);
    let order: Vec<i64> = played.iter().copied().filter(|&heard| heard >= 0).collect();
    assert!(order.is_sorted() && order.len() > 85, "{played:?}");
    assert_eq!(buffer.tally().lost, 0);
}

#[test]
fn a_lost_packet_is_recovered_from_the_next_and_two_are_made_up() {
    let lost = [20, 40, 41];
    let kept = (0..60).filter(|n| !lost.contains(n)).map(|n| (u64::from(n) * 20, n));
    let (played, buffer) = run(kept.collect(), 1_200);
    let played = trimmed(&played);
    assert_eq!(played[19..22], [19, -1, 21]);
    assert_eq!(played[39..43], [39, -2, -1, 42]);
    assert_eq!(buffer.tally(), Tally { lost: 3, ..Tally::default() });
}

#[test]
fn a_pause_of_the_sender_is_silence_and_no_loss() {
    // Numbers go on, timestamps leave 300 ms out.
    let mut buffer = JitterBuffer::default();
    let mut played = Vec::new();
    for at in 0..1_400_u64 {
        let now = Timestamp::from_millis(at);
        let n = (at / 20) as u32;
        if at % 20 == 0 && !(30..45).contains(&n) {
            let sequence = if n < 30 { n } else { n - 15 } as u16;
            buffer.push(now, Packet { sequence, timestamp: n * 960, ..packet(n) });
        }
        while let Some(play) = buffer.poll(now) {
            played.push(heard(&play));
        }
    }
    assert_eq!((buffer.tally().lost, buffer.tally().late), (0, 0));
    let played = trimmed(&played);
    assert_eq!(played[29], 29);
    assert_eq!(played[30..35], [-2; 5], "nobody knows yet that it is a pause");
    assert!(played.contains(&45) && played.contains(&60), "{played:?}");
    assert_eq!(played.len(), 68, "sound goes on every 20 ms");
}

#[test]
fn the_delay_follows_the_jitter_up_and_down() {
    let jittery = |n: u32| u64::from(n) * 20 + u64::from(n.wrapping_mul(7_919) % 100);
    let (played, buffer) = run((0..500).map(|n| (jittery(n), n)).collect(), 10_000);
    assert!(buffer.delay() > ms(90), "{:?}", buffer.delay());
    let calm = &played[150..];
    let made_up = calm.iter().filter(|&&heard| heard < 0).count();
    assert!(made_up * 20 < calm.len(), "{made_up} of {}", calm.len());

    let calmed = |n: u32| if n < 250 { jittery(n) } else { u64::from(n) * 20 };
    let (played, buffer) = run((0..1_000).map(|n| (calmed(n), n)).collect(), 20_000);
    assert_eq!(buffer.delay(), DELAY_MIN);
    let last = played.iter().rposition(|&heard| heard >= 0).unwrap();
    let behind = 999 - played[last];
    assert!(behind <= 5, "still {behind} frames behind");
}

#[test]
fn catching_up_skips_packets_one_by_one_and_decodes_all_of_them() {
    // The first hundred packets come 200 ms late, from then on none does.
    let arrivals = (0..600_u32).map(|n| (u64::from(n) * 20 + if n < 100 { 200 } else { 0 }, n));
    let (played, buffer) = run(arrivals.collect(), 12_000);
    let skips: Vec<usize> = (0..played.len()).filter(|&at| played[at] == -4).collect();
    assert!((4..=9).contains(&skips.len()), "{skips:?}");
    assert!(skips.windows(2).all(|pair| pair[1] - pair[0] >= SURPLUS_FRAMES as usize));
    assert_eq!(buffer.tally(), Tally { skipped: skips.len() as u64, ..Tally::default() });
    for at in skips {
        let (before, behind) = (played[at - 1], played[at + 1]);
        assert_eq!(behind, before + 2, "the skipped one lies between them");
    }
    let real_time = played.iter().filter(|&&heard| heard != -4).count();
    assert_eq!(real_time, 590, "the first packet comes after 200 ms; a skipped one takes no time");
}

#[test]
fn a_caller_whose_sound_stood_still_for_a_second_is_soon_heard_in_time_again() {
    // A second and a half comes at once, as of a machine that was too busy to send.
    let arrivals =
        (0..400_u32).map(|n| (u64::from(if (100..175).contains(&n) { 175 } else { n }) * 20, n));
    let (played, buffer) = run(arrivals.collect(), 8_000);
    let behind_at = |ms: usize| {
        // Every entry but a skipped one takes 20 ms.
        let until = played.iter().scan(0, |at, heard| {
            *at += usize::from(*heard != -4);
            Some((*at, *heard))
        });
        let last =
            until.take_while(|(at, _)| at * 20 <= ms).filter(|(_, heard)| *heard >= 0).last();
        ms as i64 / 20 - last.expect("something was heard").1
    };
    assert!(behind_at(3_700) > 50, "it is all kept: {}", behind_at(3_700));
    assert!(behind_at(6_500) <= 20, "{} frames behind", behind_at(6_500));
    assert_eq!(buffer.tally().lost, 0);
}

#[test]
fn five_seconds_of_nothing_are_silence_and_then_it_goes_on() {
    let arrivals = (0..500).filter(|n| !(100..350).contains(n)).map(|n| (u64::from(n) * 20, n));
    let (played, buffer) = run(arrivals.collect(), 10_000);
    let silence = played.iter().filter(|&&heard| heard == -3).count();
    assert!((240..260).contains(&silence), "{silence}");
    assert!(played.contains(&350) && played.contains(&490));
    assert_eq!(played.len(), 500, "every 20 ms something");
    assert_eq!(buffer.tally().late, 0);
}

#[test]
fn a_stream_with_other_timestamps_begins_afresh_and_a_flood_is_bounded() {
    let mut buffer = JitterBuffer::default();
    let now = Timestamp::from_millis(5);
    for n in 0..1_000 {
        buffer.push(now, packet(n));
    }
    assert!(buffer.waiting.len() <= WAITING_MAX);
    buffer.push(now, Packet { timestamp: 2_000_000_000, ..packet(0) });
    assert_eq!(buffer.waiting.len(), 1);
}

/// The delay is that of sorting all the transit times that are remembered.
#[test]
fn the_delay_follows_the_newest_packets_alone() {
    let (mut transits, mut all) = (Transits::default(), Vec::new());
    let mut dice = 7_u32;
    assert_eq!((transits.late(), transits.least_us()), (None, None));
    for _ in 0..1_000 {
        dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // Many are the same.
        let transit_us = i64::from(dice >> 26) * 1_000 - 20_000;
        transits.push(transit_us);
        all.push(transit_us);
        let mut newest = all[all.len().saturating_sub(REMEMBERED)..].to_vec();
        newest.sort_unstable();
        let late_us = newest[(newest.len() * 19 / 20).min(newest.len() - 1)] - newest[0];
        assert_eq!(transits.late(), Some(Duration::from_micros(late_us as u64)));
        assert_eq!(transits.least_us(), Some(newest[0]));
    }
}

/// Whoever is awake when a packet comes hears the one before, up to a frame early; what is made up
/// is made up when it is due, no sooner.
#[test]
fn what_is_there_is_heard_up_to_a_frame_early_and_nothing_else_is() {
    let mut buffer = JitterBuffer::default();
    let at = |at_ms: u64| Timestamp::from_millis(1_000 + at_ms);
    let mut heard_at = Vec::new();
    let mut play = |buffer: &mut JitterBuffer, now_ms: u64| {
        while let Some(play) = buffer.poll(buffer.horizon(at(now_ms))) {
            heard_at.push((now_ms, heard(&play)));
        }
    };
    // Packet 5 is lost. It is asked only when a packet comes, 7 ms into the frame.
    for n in [0, 1, 2, 3, 4, 6] {
        let now_ms = u64::from(n) * 20 + if n == 0 { 0 } else { 7 };
        buffer.push(at(now_ms), packet(n));
        play(&mut buffer, now_ms);
    }
    play(&mut buffer, 139);
    play(&mut buffer, 140);
    play(&mut buffer, 141);
    let early = [(0, -3), (27, -3), (27, 0), (47, 1), (67, 2), (87, 3), (127, 4)];
    assert_eq!(heard_at, [&early[..], &[(140, -1), (141, 6)]].concat());
}
