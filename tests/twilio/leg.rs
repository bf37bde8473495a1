//! The leg of a media stream, over a socket made of queues.

use std::collections::BTreeMap;
use std::task::Poll;

use axum::extract::ws::Message;
use floorkeeper::codec::g711::Law;
use floorkeeper::leg::FromCaller;
use floorkeeper::transport::twilio::{DIALECTS, Encoding, Start, StreamLeg};

use crate::fake_socket::{FakeSocket, named, part, recv};

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
