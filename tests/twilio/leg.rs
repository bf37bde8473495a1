//! The leg of a media stream, over a socket made of queues.

use std::collections::BTreeMap;
use std::task::Poll;
use std::time::Duration;

use axum::extract::ws::Message;
use floorkeeper::audio::Pcm;
use floorkeeper::codec::g711::Law;
use floorkeeper::id::{Generation, ItemId, ResponseId};
use floorkeeper::leg::{FromCaller, HangUp, PlayoutState, ToCaller};
use floorkeeper::transport::twilio::{DIALECTS, Encoding, Start, StreamLeg};
use floorkeeper::transport::{Leg, LegLost};

use crate::fake_socket::{FakeSocket, flush, named, part, recv};

/// A stream of this dialect that has begun.
fn begun(name: &str, encoding: Encoding) -> (FakeSocket, StreamLeg<FakeSocket>) {
    let dialect = *DIALECTS.iter().find(|dialect| dialect.name() == name).expect("a dialect");
    let start = Start {
        stream: "MZ1".to_owned(),
        call: "CA1".to_owned(),
        from: String::new(),
        to: String::new(),
        params: BTreeMap::new(),
        encoding,
    };
    let socket = FakeSocket::default();
    (socket.clone(), StreamLeg::new(socket, dialect, start))
}

fn twilio() -> (FakeSocket, StreamLeg<FakeSocket>) {
    begun("twilio", Encoding::G711(Law::Mu))
}

/// A close frame that could not be written at once is written while the leg parts; what the peer
/// says meanwhile is read and is nobody's.
#[test]
fn who_broke_the_protocol_is_told_and_read_to_its_end() {
    let (socket, mut leg) = twilio();
    socket.wire(|wire| wire.blocked = true);
    for _ in 0..1_000 {
        socket.arrives(Message::Text("nonsense".into()));
    }
    assert_eq!(recv(&mut leg), Poll::Ready(FromCaller::Gone { how: "protocol" }));
    assert_eq!(socket.wire(|wire| wire.incoming.len()), 1_000 - 51, "the rest was not read");
    assert_eq!(part(&mut leg), Poll::Pending);
    assert_eq!(socket.wire(|wire| wire.incoming.len()), 0, "unread, it would reset the connection");
    socket.wire(|wire| (wire.blocked, wire.ended) = (false, true));
    let before = socket.wire(|wire| wire.flushes);
    assert_eq!(part(&mut leg), Poll::Ready(()));
    assert!(socket.wire(|wire| wire.flushes) > before, "it was flushed");
    let sent = socket.wire(|wire| wire.sent.drain(..).map(|m| named(&m)).collect::<Vec<_>>());
    assert_eq!(sent, ["close 1008 protocol"]);
}

/// So much of the agent's sound.
fn sound(item: &str, rate_hz: u32, length_ms: u32) -> ToCaller {
    let samples = vec![1_000; (rate_hz * length_ms / 1_000) as usize];
    let pcm = Pcm { rate_hz, samples };
    ToCaller::Audio { response: None, item: ItemId::new(item), generation: Generation(0), pcm }
}

/// The call is over and its goodbye still plays: sound that comes then is thrown away undecoded
/// (what is no base64 would end the stream), however much, and the stream is closed in time.
#[tokio::test(start_paused = true)]
async fn a_leg_that_waits_for_its_goodbye_decodes_nothing_and_ends_in_time() {
    let media = r#"{"event":"media","streamSid":"MZ1","media":{"payload":"%%%"}}"#;
    let good = r#"{"event":"media","streamSid":"MZ1","media":{"payload":"/38="}}"#;
    let key = r#"{"event":"dtmf","streamSid":"MZ1","dtmf":{"digit":"5"}}"#;
    let (socket, mut leg) = twilio();
    leg.send(sound("item_1", 8_000, 20)).unwrap();
    leg.send(ToCaller::HangUp { why: HangUp::Drained }).unwrap();
    let began = tokio::time::Instant::now();
    for _ in 0..10_000 {
        for text in [media, good, key] {
            socket.arrives(Message::Text(text.into()));
        }
    }
    assert_eq!(flush(&mut leg), Poll::Pending, "the goodbye is waited for");
    assert_eq!(socket.wire(|wire| wire.incoming.len()), 0);
    assert_eq!(recv(&mut leg), Poll::Pending, "nothing of it is the call's");
    std::future::poll_fn(|cx| leg.poll_flush(cx)).await.unwrap();
    assert_eq!(began.elapsed().as_millis() / 10, 150);
    let last = socket.wire(|wire| wire.sent.last().map(named));
    assert_eq!(last.as_deref(), Some("close 1012 drained"));
}

/// Its mark came back: the goodbye was heard, and is waited for no longer.
#[tokio::test(start_paused = true)]
async fn a_goodbye_that_was_heard_is_not_waited_for() {
    let (socket, mut leg) = twilio();
    leg.send(sound("item_1", 8_000, 20)).unwrap();
    leg.send(ToCaller::HangUp { why: HangUp::Goodbye }).unwrap();
    assert_eq!(flush(&mut leg), Poll::Pending);
    let mark = socket.wire(|wire| wire.sent.last().cloned()).expect("a mark");
    let began = tokio::time::Instant::now();
    socket.arrives(mark);
    std::future::poll_fn(|cx| leg.poll_flush(cx)).await.unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO);
    let last = socket.wire(|wire| wire.sent.last().map(named));
    assert_eq!(last.as_deref(), Some("close 1000 goodbye"));
    let item = ItemId::new("item_1");
    let played = Duration::from_millis(20);
    assert_eq!(recv(&mut leg), Poll::Ready(FromCaller::Heard { item, played }));
}

/// Samples that were sent as binary messages, message by message.
fn frames(socket: &FakeSocket) -> Vec<Vec<i16>> {
    let samples = |bytes: &[u8]| {
        bytes.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect()
    };
    let sent = socket.wire(|wire| wire.sent.drain(..).collect::<Vec<_>>());
    let binary = sent.iter().filter_map(|message| match message {
        Message::Binary(bytes) => Some(samples(bytes)),
        _ => None,
    });
    binary.collect()
}

/// A far end that plays whole frames is sent whole frames: a resume in the middle of one stretches
/// nothing and loses nothing, and only an answer's end is filled up.
#[test]
fn frames_are_whole_behind_a_resume_in_the_middle_of_one() {
    let (socket, mut leg) = begun("vonage", Encoding::Linear(16_000));
    let item = ItemId::new("item_1");
    let mut told = Vec::new();
    let mut say = |leg: &mut StreamLeg<FakeSocket>, samples: usize| {
        let from = told.len();
        let pcm =
            Pcm { rate_hz: 16_000, samples: (from..from + samples).map(|n| n as i16).collect() };
        told.extend_from_slice(&pcm.samples);
        let (item, generation) = (item.clone(), Generation(0));
        leg.send(ToCaller::Audio { response: None, item, generation, pcm }).unwrap();
        assert_eq!(flush(leg), Poll::Ready(Ok(())));
        told.clone()
    };
    for _ in 0..5 {
        say(&mut leg, 320);
    }
    assert_eq!(frames(&socket).len(), 5);
    for (state, played_ms) in [(PlayoutState::Paused, 70), (PlayoutState::Resumed, 70)] {
        let played = Duration::from_millis(played_ms);
        leg.send(ToCaller::Playout { state, item: item.clone(), played }).unwrap();
    }
    say(&mut leg, 320);
    let told = say(&mut leg, 100);
    let ended = ToCaller::MessageEnded {
        response: ResponseId(1),
        item: item.clone(),
        completed: true,
        text: String::new(),
    };
    let frames_so_far = frames(&socket);
    leg.send(ended).unwrap();
    assert_eq!(flush(&mut leg), Poll::Ready(Ok(())));
    let all: Vec<Vec<i16>> = frames_so_far.into_iter().chain(frames(&socket)).collect();
    assert!(all.iter().all(|frame| frame.len() == 320), "{:?}", all.iter().map(Vec::len));
    let heard = all.concat();
    let sounds = told.len() - 1_120;
    assert_eq!(heard[..sounds], told[1_120..], "from 70 ms on, without a gap");
    assert!(heard.len() - sounds < 320 && heard[sounds..].iter().all(|&sample| sample == 0));
}

/// Ten seconds of sound may wait for a peer that does not read, however it is encoded and written.
#[test]
fn a_peer_that_does_not_read_is_lost_after_ten_seconds_of_sound() {
    for (name, encoding) in [
        ("twilio", Encoding::G711(Law::Mu)),
        ("exotel", Encoding::Linear(8_000)),
        ("plivo", Encoding::Linear(16_000)),
        ("telnyx", Encoding::Linear(24_000)),
        ("vonage", Encoding::Linear(16_000)),
    ] {
        let (socket, mut leg) = begun(name, encoding);
        socket.wire(|wire| wire.blocked = true);
        let mut say = || leg.send(sound("item_1", encoding.rate_hz(), 20));
        let lost_at = (0..1_000).find(|_| say() == Err(LegLost));
        // A few of them are marks.
        assert!(matches!(lost_at, Some(450..=500)), "{name}: {lost_at:?}");
        assert_eq!(recv(&mut leg), Poll::Ready(FromCaller::Gone { how: "protocol" }));
    }
}
