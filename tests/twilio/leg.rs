//! The leg of a media stream, over a socket made of queues.

use std::collections::BTreeMap;
use std::task::Poll;
use std::time::Duration;

use axum::extract::ws::Message;
use floorkeeper::audio::Pcm;
use floorkeeper::codec::g711::Law;
use floorkeeper::id::{Generation, ItemId};
use floorkeeper::leg::{FromCaller, HangUp, ToCaller};
use floorkeeper::transport::Leg;
use floorkeeper::transport::twilio::{DIALECTS, Encoding, Start, StreamLeg};

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
