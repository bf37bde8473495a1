//! The Realtime leg: over a socket made of queues, and over a real one.

use std::task::Poll;

use axum::extract::ws::Message;
use floorkeeper::dialogue::Usage;
use floorkeeper::id::{ItemId, ResponseId};
use floorkeeper::leg::{FromCaller, HangUp, Modality, ResponseEnd, ResponseHead, ToCaller};
use floorkeeper::transport::realtime::RealtimeLeg;
use floorkeeper::transport::{Leg, LegLost};
use futures_util::{SinkExt, StreamExt};

use crate::fake_socket::{FakeSocket, flush, part, recv};
use crate::order;
use crate::script::defaults;

/// A leg whose first words are through.
fn begun() -> (FakeSocket, RealtimeLeg<FakeSocket>) {
    let socket = FakeSocket::default();
    let mut leg = RealtimeLeg::new(socket.clone(), defaults());
    assert!(matches!(recv(&mut leg), Poll::Ready(FromCaller::Configure(_))));
    assert_eq!(flush(&mut leg), Poll::Ready(Ok(())));
    assert_eq!(socket.sent(), ["session.created"]);
    (socket, leg)
}

#[test]
fn what_the_protocol_answers_by_itself_goes_out_with_the_receiving() {
    let (socket, mut leg) = begun();
    socket.arrives(Message::Text(r#"{"type":"nonsense"}"#.into()));
    socket.arrives(Message::Binary(vec![1, 2, 3].into()));
    socket.arrives(Message::Text(r#"{"type":"input_audio_buffer.clear"}"#.into()));
    assert_eq!(recv(&mut leg), Poll::Ready(FromCaller::ClearAudio));
    assert_eq!(socket.sent(), ["error", "error"]);
    assert_eq!(recv(&mut leg), Poll::Pending);
    assert_eq!(leg.name(), "realtime");
}

#[test]
fn much_sound_in_one_message_comes_in_slices_of_200_ms() {
    use base64::Engine as _;
    let (socket, mut leg) = begun();
    // 5.1 s at 24 kHz.
    let sound = base64::engine::general_purpose::STANDARD.encode(vec![0u8; 244_800]);
    let text = format!(r#"{{"type":"input_audio_buffer.append","audio":"{sound}"}}"#);
    socket.arrives(Message::Text(text.into()));
    let mut total = 0;
    while let Poll::Ready(FromCaller::Audio(samples)) = recv(&mut leg) {
        assert!(samples.len() <= 3_200, "{} samples", samples.len());
        total += samples.len();
    }
    assert_eq!(total, 81_600);
}

#[test]
fn each_end_of_a_call_has_its_close_code_behind_the_last_event() {
    for (why, frames) in [
        (HangUp::Goodbye, vec!["close 1000 goodbye"]),
        (HangUp::CallerGone, vec!["close 1000 caller_gone"]),
        (HangUp::TooLong, vec!["error", "close 1000 too_long"]),
        (HangUp::Drained, vec!["error", "close 1012 drained"]),
        (HangUp::Misbehaved, vec!["error", "close 1008 misbehaved"]),
        (HangUp::Broken, vec!["error", "close 1011 broken"]),
    ] {
        let (socket, mut leg) = begun();
        leg.send(ToCaller::HangUp { why }).unwrap();
        // Nothing follows a hang-up, and nothing before it is lost for what would.
        assert_eq!(leg.send(ToCaller::AudioCleared), Ok(()));
        // The client has not noticed yet: what it says is not heard any more.
        socket.arrives(Message::Text(r#"{"type":"response.create"}"#.into()));
        assert_eq!(recv(&mut leg), Poll::Pending);
        assert_eq!(flush(&mut leg), Poll::Ready(Ok(())));
        assert_eq!(socket.sent(), frames);
        socket.arrives(Message::Close(None));
        assert_eq!(recv(&mut leg), Poll::Ready(FromCaller::Gone { how: "closed" }));
    }
}

#[test]
fn the_end_of_a_connection_is_told_apart() {
    let (socket, mut leg) = begun();
    socket.arrives(Message::Close(None));
    assert_eq!(recv(&mut leg), Poll::Ready(FromCaller::Gone { how: "closed" }));
    assert_eq!(leg.send(ToCaller::AudioCleared), Err(LegLost));

    let (socket, mut leg) = begun();
    socket.wire(|wire| wire.ended = true);
    assert_eq!(recv(&mut leg), Poll::Ready(FromCaller::Gone { how: "reset" }));
    // Asking again is no mistake.
    assert_eq!(recv(&mut leg), Poll::Ready(FromCaller::Gone { how: "reset" }));

    let (socket, mut leg) = begun();
    let broken = axum::Error::new(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
    socket.wire(|wire| wire.incoming.push_back(Err(broken)));
    assert_eq!(recv(&mut leg), Poll::Ready(FromCaller::Gone { how: "reset" }));
}

#[test]
fn what_was_heard_before_the_end_comes_before_the_end() {
    let (socket, mut leg) = begun();
    socket.arrives(Message::Text(r#"{"type":"response.create"}"#.into()));
    socket.arrives(Message::Close(None));
    assert!(matches!(recv(&mut leg), Poll::Ready(FromCaller::Respond { .. })));
    assert_eq!(recv(&mut leg), Poll::Ready(FromCaller::Gone { how: "closed" }));
}

#[test]
fn a_ping_is_answered_without_a_word_to_the_call() {
    let (socket, mut leg) = begun();
    let before = socket.wire(|wire| wire.flushes);
    socket.arrives(Message::Ping(vec![1].into()));
    assert_eq!(recv(&mut leg), Poll::Pending);
    assert!(socket.wire(|wire| wire.flushes) > before, "the pong is flushed");
}

/// A close frame that could not be written at once is written while the leg parts.
#[test]
fn who_broke_the_protocol_is_told_and_read_to_its_end() {
    use tokio_tungstenite::tungstenite::error::{CapacityError, Error};
    let (socket, mut leg) = begun();
    let too_long = CapacityError::MessageTooLong { size: 70_000, max_size: 65_536 };
    socket.wire(|wire| {
        wire.incoming.push_back(Err(axum::Error::new(Error::Capacity(too_long))));
        wire.blocked = true;
    });
    assert_eq!(recv(&mut leg), Poll::Ready(FromCaller::Gone { how: "protocol" }));
    assert_eq!(part(&mut leg), Poll::Pending);
    socket.wire(|wire| (wire.blocked, wire.ended) = (false, true));
    let before = socket.wire(|wire| wire.flushes);
    assert_eq!(part(&mut leg), Poll::Ready(()));
    assert!(socket.wire(|wire| wire.flushes) > before, "it was flushed");
    assert_eq!(socket.sent(), ["close 1009"]);
}

#[test]
fn a_peer_that_does_not_read_is_lost_and_holds_little() {
    let (socket, mut leg) = begun();
    socket.wire(|wire| wire.blocked = true);
    let said = |n: u32| ToCaller::Rejected {
        code: "invalid_value",
        message: format!("{n} {}", "x".repeat(1_000)),
        param: None,
        tag: None,
    };
    let lost_after = (0..10_000).find(|&n| leg.send(said(n)).is_err());
    assert!(matches!(lost_after, Some(100..300)), "{lost_after:?}");
    assert_eq!(recv(&mut leg), Poll::Ready(FromCaller::Gone { how: "unread" }));
}

#[test]
fn a_client_that_asks_and_does_not_read_is_lost_too() {
    let (socket, mut leg) = begun();
    socket.wire(|wire| wire.blocked = true);
    for _ in 0..2_000 {
        socket.arrives(Message::Text(r#"{"type":"nonsense"}"#.into()));
    }
    assert_eq!(recv(&mut leg), Poll::Ready(FromCaller::Gone { how: "unread" }));
    assert!(socket.wire(|wire| wire.incoming.len()) > 0, "the rest was not even read");
}

#[test]
fn one_event_may_be_larger_than_the_bound() {
    let (socket, mut leg) = begun();
    let text = format!(
        r#"{{"type":"session.update","session":{{"type":"realtime","instructions":"{}"}}}}"#,
        "x".repeat(1_000_000)
    );
    socket.arrives(Message::Text(text.into()));
    assert!(matches!(recv(&mut leg), Poll::Ready(FromCaller::Configure(_))));
    assert_eq!(socket.sent(), ["session.updated"]);
}

/// Answers each `response.create` in writing until the caller has gone; says how.
async fn answer_in_writing<L: Leg>(mut leg: L) -> &'static str {
    let mut answers = 0;
    loop {
        let heard = std::future::poll_fn(|cx| leg.poll_recv(cx)).await;
        match heard {
            FromCaller::Gone { how } => return how,
            FromCaller::AddItem { item, .. } => {
                leg.send(ToCaller::ItemAdded { item, after: None }).unwrap();
            }
            FromCaller::Respond { request, .. } => {
                answers += 1;
                say_hello(&mut leg, ResponseId(answers), request.metadata);
            }
            FromCaller::Cancel { .. } => {
                leg.send(ToCaller::HangUp { why: HangUp::Drained }).unwrap();
            }
            _ => {}
        }
        if std::future::poll_fn(|cx| leg.poll_flush(cx)).await.is_err() {
            return "lost";
        }
    }
}

fn say_hello<L: Leg>(leg: &mut L, response: ResponseId, metadata: Option<serde_json::Value>) {
    let item = ItemId::new(&format!("item_a{}", response.0));
    let modality = Modality::Text;
    let head = ResponseHead {
        response,
        out_of_band: false,
        modality,
        voice: None,
        max_tokens: None,
        metadata,
    };
    let text = "Hello.".to_owned();
    for what in [
        ToCaller::ResponseStarted(head),
        ToCaller::MessageStarted { response, item: item.clone(), after: None, modality },
        ToCaller::Text { response, item: item.clone(), delta: text.clone() },
        ToCaller::MessageEnded { response, item, completed: true, text },
        ToCaller::ResponseEnded { response, end: ResponseEnd::Completed, usage: Usage::default() },
    ] {
        leg.send(what).unwrap();
    }
}

mod real {
    use super::*;
    use axum::extract::WebSocketUpgrade;
    use axum::routing::get;
    use tokio_tungstenite::tungstenite::Message as Sent;

    type Client = tokio_tungstenite::WebSocketStream<
        tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>,
    >;

    /// A server on loopback with one leg a connection; how each ended comes out of the receiver.
    async fn connect() -> (Client, tokio::sync::mpsc::Receiver<&'static str>) {
        let (ended, ends) = tokio::sync::mpsc::channel(4);
        let upgrade = move |upgrade: WebSocketUpgrade| async move {
            upgrade.protocols(["realtime"]).max_message_size(64 * 1024).on_upgrade(
                |socket| async move {
                    let how = answer_in_writing(RealtimeLeg::new(socket, defaults())).await;
                    let _ = ended.send(how).await;
                },
            )
        };
        let app = axum::Router::new().route("/v1/realtime", get(upgrade));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = hyper_server(listener, app);
        tokio::spawn(server);
        let url = format!("ws://{address}/v1/realtime?model=m");
        let (client, _) = tokio_tungstenite::connect_async(url).await.unwrap();
        (client, ends)
    }

    /// axum's own `serve` needs more of its features than we use.
    async fn hyper_server(listener: tokio::net::TcpListener, app: axum::Router) {
        while let Ok((stream, _)) = listener.accept().await {
            let service = hyper_util::service::TowerToHyperService::new(app.clone());
            tokio::spawn(async move {
                let io = hyper_util::rt::TokioIo::new(stream);
                let http = hyper::server::conn::http1::Builder::new();
                let _ = http.serve_connection(io, service).with_upgrades().await;
            });
        }
    }

    async fn next(client: &mut Client) -> Sent {
        let waited = tokio::time::timeout(std::time::Duration::from_secs(20), client.next()).await;
        waited.expect("an answer in time").expect("a message").expect("a good one")
    }

    async fn events(client: &mut Client, until: &str) -> Vec<serde_json::Value> {
        let mut events = Vec::new();
        loop {
            let event: serde_json::Value =
                serde_json::from_str(next(client).await.to_text().unwrap()).unwrap();
            let last = event["type"] == until;
            events.push(event);
            if last {
                return events;
            }
        }
    }

    #[tokio::test]
    async fn a_written_turn_over_a_socket() {
        let (mut client, mut ends) = connect().await;
        let mut seen = events(&mut client, "session.created").await;
        client.send(Sent::Ping(vec![7].into())).await.unwrap();
        assert_eq!(next(&mut client).await, Sent::Pong(vec![7].into()));
        client.send(Sent::Binary(vec![1, 2].into())).await.unwrap();
        client.send(Sent::text("{")).await.unwrap();
        seen.extend(events(&mut client, "error").await);
        seen.extend(events(&mut client, "error").await);
        let item = r#"{"type":"conversation.item.create","item":{"type":"message","role":"user",
            "content":[{"type":"input_text","text":"Hi"}]}}"#;
        client.send(Sent::text(item)).await.unwrap();
        let create = r#"{"type":"response.create","response":{"metadata":{"a":"b"}}}"#;
        client.send(Sent::text(create)).await.unwrap();
        seen.extend(events(&mut client, "response.done").await);
        let mut checker = order::OrderChecker::default();
        for event in &seen {
            checker.see(event).unwrap();
        }
        checker.finish().unwrap();
        assert_eq!(seen.last().unwrap()["response"]["metadata"]["a"], "b");
        client.close(None).await.unwrap();
        assert_eq!(ends.recv().await, Some("closed"));
    }

    #[tokio::test]
    async fn a_message_above_the_bound_is_closed_with_1009() {
        let (mut client, mut ends) = connect().await;
        events(&mut client, "session.created").await;
        client.send(Sent::text("x".repeat(70_000))).await.unwrap();
        let Sent::Close(Some(close)) = next(&mut client).await else { panic!("no close frame") };
        assert_eq!(u16::from(close.code), 1009);
        assert_eq!(ends.recv().await, Some("protocol"));
    }

    #[tokio::test]
    async fn a_hang_up_is_a_close_frame_and_waits_for_the_peers() {
        let (mut client, mut ends) = connect().await;
        events(&mut client, "session.created").await;
        client.send(Sent::text(r#"{"type":"response.cancel"}"#)).await.unwrap();
        events(&mut client, "error").await;
        let Sent::Close(Some(close)) = next(&mut client).await else { panic!("no close frame") };
        assert_eq!((u16::from(close.code), close.reason.as_str()), (1012, "drained"));
        assert!(client.next().await.is_none(), "the answer to the close is sent by the library");
        assert_eq!(ends.recv().await, Some("closed"));
    }

    #[tokio::test]
    async fn a_client_that_vanishes_is_a_reset() {
        let (client, mut ends) = connect().await;
        drop(client);
        assert_eq!(ends.recv().await, Some("reset"));
    }
}
