//! What makes no sense over AudioSocket ends one call at most (issue 7, *Bad input*).

use std::time::Duration;

use crate::channel::GREETS;
use crate::rig::{Rig, eventually};
use crate::socket::{LISTENS, SLIN, Socket, UUID};

/// How often this was counted.
async fn dropped(rig: &Rig, why: &str) -> u64 {
    let page = rig.get("/metrics").await.text();
    let name = format!("floorkeeper_audiosocket_dropped_total{{why=\"{why}\"}} ");
    let line = page.lines().find_map(|line| line.strip_prefix(&name));
    line.unwrap_or_else(|| panic!("{why} is not served")).parse().unwrap()
}

async fn until_dropped(rig: &Rig, why: &str, count: u64) {
    // The connection is over before or behind it: the metric is what is waited for.
    for _ in 0..1_000 {
        if dropped(rig, why).await == count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{why} was not counted {count} times, but {}", dropped(rig, why).await);
}

/// Kinds that are new are counted and ignored; a little that is wrong is, too.
#[tokio::test]
async fn a_little_nonsense_changes_nothing_and_much_ends_its_own_call() {
    let rig = Rig::telling_stories(&[LISTENS, GREETS]).await;
    let mut good = Socket::call(&rig, SLIN, 320).await;
    let mut bad = Socket::call(&rig, SLIN, 320).await;
    let wrong: [(u8, &[u8]); 5] =
        [(UUID, &[0x11; 16]), (UUID, &[1]), (SLIN, &[1, 2, 3]), (SLIN, &[]), (0x03, b"no key")];
    for (kind, payload) in wrong {
        bad.send(kind, payload).await;
    }
    for kind in [0x02, 0x04, 0x0f, 0x19, 0xfe].repeat(40) {
        bad.send(kind, &[7; 100]).await;
    }
    bad.until("the greeting is heard", |socket| socket.played_ms() >= 700).await;
    assert_eq!(dropped(&rig, "unknown_kind").await, 200);
    assert_eq!(dropped(&rig, "malformed").await, 4);
    for (kind, payload) in wrong.iter().cycle().take(60) {
        bad.send(*kind, payload).await;
    }
    bad.until("it is hung up on", |socket| socket.hung_up).await;
    bad.until("the connection is over", |socket| socket.ended).await;
    let heard = good.played_ms();
    good.speak(900);
    good.until("the story is told", |socket| socket.played_ms() >= heard + 1_000).await;
    drop((good, bad));
    rig.quiet().await;
}

/// Before the call: no UUID, sound first, half a frame, rubbish, too long a frame.
#[tokio::test]
async fn what_does_not_begin_with_a_uuid_is_no_call() {
    let rig = Rig::start(&[LISTENS]).await;
    let long = [0x10, 0xff, 0xff];
    let rubbish = [0x47, 0x45, 0x54, 0x20, 0x2f];
    for (bytes, why, count) in [
        (&[0x10, 0, 2, 1, 2][..], "not_uuid", 1),
        (&[0x01, 0, 2, 1, 2], "not_uuid", 2),
        (&[0x00, 0, 0], "not_uuid", 3),
        (&long, "too_long", 1),
        (&rubbish, "too_long", 2),
    ] {
        let mut caller = Socket::connect(&rig, SLIN, 320).await;
        caller.is_mute = true;
        caller.send_bytes(bytes).await;
        caller.until("it is over", |socket| socket.ended).await;
        assert!(!caller.hung_up);
        until_dropped(&rig, why, count).await;
    }
    // In a call as well.
    let mut caller = Socket::call(&rig, SLIN, 320).await;
    caller.is_mute = true;
    caller.send_bytes(&[&[3, 0, 1, b'4'][..], &long].concat()).await;
    caller.until("it is hung up on", |socket| socket.hung_up).await;
    drop(caller);
    rig.quiet().await;
    assert_eq!(rig.ledger("call").await["offered"], 1, "only one was a call");
}

/// A frame that ends in its middle is a lost connection.
#[tokio::test]
async fn a_truncated_frame_is_a_lost_connection() {
    let rig = Rig::start(&[LISTENS, GREETS]).await;
    for bytes in [&[0x01, 0, 16, 1, 2][..], &[0x01], &[]] {
        let mut caller = Socket::connect(&rig, SLIN, 320).await;
        caller.send_bytes(bytes).await;
        drop(caller);
    }
    let mut caller = Socket::call(&rig, SLIN, 320).await;
    caller.until("the greeting is heard", |socket| socket.played_ms() >= 300).await;
    caller.send_bytes(&[0x10, 1, 0x40, 1, 2, 3]).await;
    drop(caller);
    rig.quiet().await;
}

/// A first frame that never comes: the connection does not stay.
#[tokio::test]
async fn who_says_nothing_is_let_go() {
    let rig = Rig::start(&[LISTENS]).await;
    let mut silent = Socket::connect(&rig, SLIN, 320).await;
    silent.is_mute = true;
    let mut half = Socket::connect(&rig, SLIN, 320).await;
    half.is_mute = true;
    half.send_bytes(&[UUID, 0, 16, 1, 2, 3]).await;
    silent.until("it is over", |socket| socket.ended).await;
    half.until("it is over", |socket| socket.ended).await;
    until_dropped(&rig, "nothing_said", 2).await;
    rig.quiet().await;
}

/// A caller's sound may come faster than real time, for a while.
#[tokio::test]
async fn sound_at_many_times_real_time_is_heard() {
    let rig = Rig::start(&[LISTENS]).await;
    let mut caller = Socket::call(&rig, SLIN, 320).await;
    let loud: Vec<u8> =
        (0..160).flat_map(|at: i16| if at % 16 < 8 { [0, 0x20] } else { [0, 0xe0] }).collect();
    for frame in 0..300 {
        caller.send(SLIN, if frame < 45 { &loud } else { &[0; 320] }).await;
    }
    caller.until("the answer is heard", |socket| socket.played_ms() >= 500).await;
    drop(caller);
    rig.quiet().await;
}

/// Connections are bounded, in all and by address, and so is who may connect.
#[tokio::test]
async fn connections_are_bounded_and_strangers_stay_outside() {
    let rig = Rig::start(&[LISTENS, "connections.per_address=2"]).await;
    let first = Socket::call(&rig, SLIN, 320).await;
    let second = Socket::call(&rig, SLIN, 320).await;
    eventually("both are here", || match rig.serving.service.registry.live_count() {
        2 => Ok(()),
        other => Err(format!("{other} calls")),
    })
    .await;
    let mut third = Socket::call(&rig, SLIN, 320).await;
    third.until("it is over", |socket| socket.ended).await;
    until_dropped(&rig, "no_room", 1).await;
    drop((first, third));
    eventually("a place is free", || match rig.serving.service.registry.live_count() {
        1 => Ok(()),
        other => Err(format!("{other} calls")),
    })
    .await;
    drop(second);
    rig.quiet().await;
    let peers = "asterisk.audiosocket_peers=[\"192.0.2.0/24\"]";
    let rig = Rig::start(&[LISTENS, peers]).await;
    let mut stranger = Socket::call(&rig, SLIN, 320).await;
    stranger.until("it is over", |socket| socket.ended).await;
    until_dropped(&rig, "stranger", 1).await;
    rig.quiet().await;
}
