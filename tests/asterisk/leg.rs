//! The leg of an AudioSocket connection, polled by hand.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use floorkeeper::audio::Pcm;
use floorkeeper::id::{Generation, ItemId};
use floorkeeper::leg::{FromCaller, HangUp, PlayoutState, ToCaller};
use floorkeeper::runtime::clock::Clock;
use floorkeeper::transport::asterisk::audiosocket::{AudioSocketLeg, arrive};
use floorkeeper::transport::{Leg, LegLost};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

/// A call over a pipe that holds so much, and Asterisk's end of it.
async fn begun(holds: usize) -> (DuplexStream, AudioSocketLeg<DuplexStream>) {
    let (mut asterisk, ours) = duplex(holds);
    let arriving = tokio::spawn(arrive(ours, Arc::default()));
    asterisk.write_all(&[&[1, 0, 16][..], &[7; 16]].concat()).await.unwrap();
    let arrived = arriving.await.unwrap().unwrap();
    (asterisk, arrived.answer(Arc::new(Clock::start())))
}

fn sound(item: &str, level: i16, length_ms: usize) -> ToCaller {
    ToCaller::Audio {
        response: None,
        item: ItemId::new(item),
        generation: Generation(1),
        pcm: Pcm { rate_hz: 8_000, samples: vec![level; length_ms * 8] },
    }
}

fn flush(leg: &mut impl Leg) -> Poll<Result<(), LegLost>> {
    leg.poll_flush(&mut Context::from_waker(Waker::noop()))
}

/// Frames that Asterisk has been sent: kind and first sample.
async fn frames(asterisk: &mut DuplexStream, count: usize) -> Vec<(u8, i16)> {
    let mut frames = Vec::new();
    while frames.len() < count {
        let mut head = [0; 3];
        asterisk.read_exact(&mut head).await.unwrap();
        let mut payload = vec![0; usize::from(u16::from_be_bytes([head[1], head[2]]))];
        asterisk.read_exact(&mut payload).await.unwrap();
        let first = payload.first_chunk::<2>().map_or(0, |bytes| i16::from_le_bytes(*bytes));
        frames.push((head[0], first));
    }
    frames
}

/// Ten seconds of sound may wait for an Asterisk that does not read; then the call is lost.
#[tokio::test]
async fn an_asterisk_that_does_not_read_is_lost_after_ten_seconds_of_sound() {
    let (_asterisk, mut leg) = begun(64).await;
    let lost_at = (0..1_000).find(|_| {
        let _ = flush(&mut leg);
        leg.send(sound("item_1", 1, 20)) == Err(LegLost)
    });
    assert!(matches!(lost_at, Some(490..=500)), "{lost_at:?}");
    let gone = leg.poll_recv(&mut Context::from_waker(Waker::noop()));
    assert_eq!(gone, Poll::Ready(FromCaller::Gone { how: "protocol" }));
    assert_eq!(leg.send(sound("item_1", 1, 20)), Err(LegLost));
}

/// What was not written when the agent is interrupted never is; what was begun is ended: the frames
/// behind it can still be read.
#[tokio::test]
async fn a_clear_takes_back_what_was_not_written_and_cuts_no_frame() {
    let (mut asterisk, mut leg) = begun(400).await;
    assert_eq!(leg.lead_max(), Some(Duration::from_millis(40)), "no more can be on its way");
    for _ in 0..5 {
        leg.send(sound("item_1", 1, 20)).unwrap();
    }
    // 323 bytes of the first frame and 77 of the second.
    assert_eq!(flush(&mut leg), Poll::Pending);
    let (item, played) = (ItemId::new("item_1"), Duration::ZERO);
    let cleared = ToCaller::Playout { state: PlayoutState::Cleared, item, played };
    leg.send(cleared).unwrap();
    leg.send(sound("item_2", 2, 20)).unwrap();
    let (heard, flushed) =
        tokio::join!(frames(&mut asterisk, 3), std::future::poll_fn(|cx| leg.poll_flush(cx)));
    assert_eq!((heard, flushed), (vec![(0x10, 1), (0x10, 1), (0x10, 2)], Ok(())));
}

/// Half a frame at an item's end is filled up with silence; a pause drops nothing; a hang-up is the
/// last that is said.
#[tokio::test]
async fn an_item_ends_in_a_whole_frame_and_the_call_in_a_hang_up() {
    let (mut asterisk, mut leg) = begun(64 * 1_024).await;
    leg.send(sound("item_1", 1, 30)).unwrap();
    let (item, played) = (ItemId::new("item_1"), Duration::ZERO);
    for state in [PlayoutState::Paused, PlayoutState::Resumed] {
        leg.send(ToCaller::Playout { state, item: item.clone(), played }).unwrap();
    }
    leg.send(sound("item_2", 2, 20)).unwrap();
    leg.send(ToCaller::HangUp { why: HangUp::Goodbye }).unwrap();
    leg.send(sound("item_3", 3, 20)).unwrap();
    assert_eq!(std::future::poll_fn(|cx| leg.poll_flush(cx)).await, Ok(()));
    let said = frames(&mut asterisk, 4).await;
    assert_eq!(said, [(0x10, 1), (0x10, 1), (0x10, 2), (0x00, 0)]);
    drop(asterisk);
    std::future::poll_fn(|cx| leg.poll_part(cx)).await;
}
