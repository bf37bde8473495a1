//! A client that comes back to its call: the same call goes on, for who has the token, once.

use futures_util::SinkExt;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::tungstenite::{Error, Message, client::IntoClientRequest};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::client::Client;
use crate::http;
use crate::providers::last_words;
use crate::rig::{LIMIT, Rig, STORY, enabled, eventually};
use floorkeeper::id::Stage;

/// Longer than any test here.
const KEPT: &str = "realtime.resume_ms=60000";

/// A client whose call is kept, and its ticket.
async fn kept(rig: &Rig) -> (Client, Value) {
    let mut client = Client::at(&format!("{}?resumable=true", rig.url())).await;
    let ticket = client.until("floorkeeper.resume").await;
    let session = json!({"type": "realtime", "floorkeeper": {"events": true}});
    client.send(json!({"type": "session.update", "session": session})).await;
    client.until("session.updated").await;
    (client, ticket)
}

fn place(rig: &Rig, token: &Value) -> String {
    format!("{}?resume={}", rig.url(), token.as_str().unwrap())
}

/// Comes back with this ticket, and is told the next.
async fn resumed(rig: &Rig, ticket: &Value) -> (Client, Value) {
    let mut client = Client::at(&place(rig, &ticket["token"])).await;
    let next = client.until("floorkeeper.resume").await;
    (client, next)
}

/// Breaks the connection as a network does: nobody says goodbye.
async fn broken(rig: &Rig, client: Client, ticket: &Value) {
    drop(client.socket);
    stands(rig, ticket, "ringing").await;
}

/// The call is known to be in this state.
async fn stands(rig: &Rig, ticket: &Value, floor: &str) {
    let name = ticket["call_id"].as_str().unwrap();
    eventually(&format!("the call is {floor}"), || {
        let shown = rig.service().registry.find(name).expect("the call").summary();
        if shown["floor"] == floor { Ok(()) } else { Err(format!("{shown:#}")) }
    })
    .await;
}

fn trace(rig: &Rig, ticket: &Value) -> Vec<String> {
    let shown = rig.service().registry.find(ticket["call_id"].as_str().unwrap()).unwrap().show();
    let lines = shown["trace"].as_array().unwrap().iter();
    lines.map(|line| line.as_str().unwrap()[10..].to_owned()).collect()
}

async fn ended(rig: &Rig, ticket: &Value) -> Value {
    let name = ticket["call_id"].as_str().unwrap();
    eventually("the call is over", || {
        let shown = rig.service().registry.find(name).expect("the call").summary();
        if shown["ended_why"].is_null() { Err(format!("{shown:#}")) } else { Ok(shown) }
    })
    .await
}

/// What a handshake for this call is answered: its status and its code.
async fn refusal(rig: &Rig, token: &str, key: Option<&str>) -> (u16, String) {
    let path = format!("/v1/realtime?resume={token}");
    let key = key.map(|key| format!("Bearer {key}"));
    let headers: Vec<(&str, &str)> = key.iter().map(|key| ("Authorization", &**key)).collect();
    let mut stream = http::knock_at(rig.serving.address, &path, &headers).await;
    let answer = http::answer(&mut stream).await;
    (answer.status, answer.code())
}

/// The same call goes on: its name, its session, its unit, its record, and what was heard of the
/// answer that the loss has cut, under the next generation.
#[tokio::test]
async fn a_client_that_comes_back_goes_on_with_the_same_call() {
    let rig = Rig::telling_stories(&[KEPT]).await;
    let (mut client, ticket) = kept(&rig).await;
    assert_eq!((&ticket["connection"], &ticket["kept_ms"]), (&json!(1), &json!(60_000)));
    client.ask("Tell me a story").await;
    let answer = client.until("response.created").await["response"]["id"].clone();
    while client.audio_ms(&answer) < 1_500 {
        client.until("response.output_audio.delta").await;
    }
    // A sign of the client's: what was sent until now counts as heard.
    client.send(json!({"type": "input_audio_buffer.clear"})).await;
    client.until("input_audio_buffer.cleared").await;
    let session = client.of("session.created").next().unwrap()["session"]["id"].clone();
    let generation = rig.service().registry.find("call-1").unwrap().summary()["generation"].clone();
    broken(&rig, client, &ticket).await;
    assert_eq!(rig.counts(Stage::Call).active, 1, "it keeps its unit");

    let (mut client, next) = resumed(&rig, &ticket).await;
    assert_eq!((&next["call_id"], &next["connection"]), (&ticket["call_id"], &json!(2)));
    let shown = client.of("session.created").next().unwrap()["session"].clone();
    assert_eq!((&shown["id"], &shown["floorkeeper"]["events"]), (&session, &json!(true)));
    let cut = client.answered().await;
    assert_eq!((&cut["id"], &cut["status"]), (&answer, &json!("cancelled")));
    client.ask("And then?").await;
    let done = client.answered().await;
    assert_eq!(done["status"], "completed");
    let request = rig.model.asked("And then?").expect("the model was asked");
    assert_eq!(request.history.len(), 3, "{:#?}", request.history);
    let heard = last_words(&request);
    assert!(STORY.starts_with(heard) && heard.len() > 10 && heard.len() < STORY.len(), "{heard}");

    let shown = rig.get("/v1/calls").await.json();
    assert_eq!(shown["calls"].as_array().unwrap().len(), 1);
    assert!(shown["calls"][0]["generation"].as_u64() > generation.as_u64());
    let lines = trace(&rig, &ticket);
    let at = |what: &str| lines.iter().position(|line| line.starts_with(what));
    assert!(at("<- connection lost: reset") < at("<- caller is back"), "{lines:#?}");
    assert!(at("<- caller is back").is_some(), "{lines:#?}");
    client.hang_up().await;
    rig.quiet().await;
}

/// Nothing had come from the client for as long as it was spoken to: it need not have heard a word.
#[tokio::test]
async fn what_was_sent_to_a_client_that_gave_no_sign_was_not_heard() {
    let rig = Rig::telling_stories(&[KEPT]).await;
    let (mut client, ticket) = kept(&rig).await;
    client.ask("Tell me a story").await;
    let answer = client.until("response.created").await["response"]["id"].clone();
    while client.audio_ms(&answer) < 1_500 {
        client.until("response.output_audio.delta").await;
    }
    broken(&rig, client, &ticket).await;
    let (mut client, _) = resumed(&rig, &ticket).await;
    client.ask("And then?").await;
    client.until("response.output_audio.delta").await;
    let request = rig.model.asked("And then?").expect("the model was asked");
    assert_eq!(request.history.len(), 2, "{:#?}", request.history);
    client.hang_up().await;
    rig.quiet().await;
}

/// Nothing of an answer that was cut is heard on the next connection.
#[tokio::test]
async fn no_sound_of_the_lost_answer_follows_its_caller() {
    let rig = Rig::telling_stories(&[KEPT]).await;
    let (mut client, ticket) = kept(&rig).await;
    client.ask("Tell me a story").await;
    client.until("response.output_audio.delta").await;
    broken(&rig, client, &ticket).await;
    let (mut client, _) = resumed(&rig, &ticket).await;
    client.ask("And then?").await;
    let done = client.answered().await;
    assert_eq!(done["status"], "cancelled", "the lost one's end comes first");
    client.until("response.created").await;
    let sounds = client.of("response.output_audio.delta").count();
    assert_eq!(sounds, 0);
    client.hang_up().await;
    rig.quiet().await;
}

/// Its network stops while there is much to tell it: what nobody reads is the first sign of it.
#[tokio::test]
async fn a_client_that_stops_reading_may_come_back() {
    let rig = Rig::start(&[KEPT]).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let stream = MaybeTlsStream::Plain(socket.connect(rig.serving.address).await.unwrap());
    let url = format!("{}?resumable=true", rig.url());
    let (socket, _) = tokio_tungstenite::client_async(&url, stream).await.unwrap();
    let mut client = Client { socket, events: Vec::new() };
    let ticket = client.until("floorkeeper.resume").await;
    // Each of these is echoed twice, whole.
    let content = json!([{"type": "input_text", "text": "x".repeat(50_000)}]);
    let item = json!({"type": "message", "role": "user", "content": content});
    let event = json!({"type": "conversation.item.create", "item": item}).to_string();
    let fill = async {
        while client.socket.send(Message::text(event.as_str())).await.is_ok() {}
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = fill => {}
        () = stands(&rig, &ticket, "ringing") => {}
    }
    let lines = trace(&rig, &ticket);
    assert!(lines.contains(&"<- connection lost: unread".to_owned()), "{lines:#?}");
    let (client, next) = resumed(&rig, &ticket).await;
    assert_eq!(next["connection"], 2);
    client.hang_up().await;
    rig.quiet().await;
}

/// It gave no sign of itself, and is there all the same: it learns that nobody serves it any more,
/// and may come back.
#[tokio::test]
async fn a_client_that_was_silent_and_lives_is_told_that_it_is_lost() {
    let rig = Rig::start(&[KEPT, "realtime.ping_ms=100", "realtime.dead_after_ms=400"]).await;
    let path = "/v1/realtime?resumable=true";
    let mut silent = http::knock_at(rig.serving.address, path, &[]).await;
    assert_eq!(http::answer(&mut silent).await.status, 101);
    let ticket = json!({"call_id": "call-1"});
    stands(&rig, &ticket, "ringing").await;
    let mut heard = Vec::new();
    let reads = tokio::time::timeout(LIMIT, silent.read_to_end(&mut heard));
    reads.await.expect("its connection is closed").unwrap();
    assert!(heard.ends_with(&[0x88, 2, 0x03, 0xe9]), "a close frame of 1001: {heard:?}");
    let lines = trace(&rig, &ticket);
    assert!(lines.contains(&"<- connection lost: reset".to_owned()), "{lines:#?}");
    rig.service().end_calls();
    rig.quiet().await;
}

/// A lost connection takes no place from the one that its client comes back with, and that one has
/// a place of its own.
#[tokio::test]
async fn a_place_is_held_by_the_connection_and_not_by_its_call() {
    let rig = Rig::start(&[KEPT, "connections.per_address=1"]).await;
    let (client, ticket) = kept(&rig).await;
    broken(&rig, client, &ticket).await;
    let (mut client, next) = resumed(&rig, &ticket).await;
    assert_eq!(next["connection"], 2);
    client.send(json!({"type": "input_audio_buffer.clear"})).await;
    client.until("input_audio_buffer.cleared").await;
    let mut second = TcpStream::connect(rig.serving.address).await.unwrap();
    assert_eq!(http::answer(&mut second).await.code(), "too_many_connections");
    client.hang_up().await;
    rig.quiet().await;
}

/// An SDK's client, or one of a server that keeps no calls, has lost its call with its connection.
#[tokio::test]
async fn who_did_not_ask_for_it_has_lost_the_call_with_the_connection() {
    let rig = Rig::start(&[KEPT]).await;
    let client = Client::connect(&rig).await;
    assert_eq!(client.of("floorkeeper.resume").count(), 0);
    drop(client.socket);
    rig.quiet().await;

    let rig = Rig::start(&["realtime.resume_ms=0"]).await;
    let mut client = Client::at(&format!("{}?resumable=true", rig.url())).await;
    client.send(json!({"type": "session.update", "session": {"type": "realtime"}})).await;
    client.until("session.updated").await;
    assert_eq!(client.of("floorkeeper.resume").count(), 0);
    drop(client.socket);
    rig.quiet().await;
}

/// A client that says goodbye, or breaks the protocol, does not come back.
#[tokio::test]
async fn a_client_that_closes_has_hung_up() {
    let rig = Rig::start(&[KEPT]).await;
    let (client, ticket) = kept(&rig).await;
    client.hang_up().await;
    let shown = ended(&rig, &ticket).await;
    assert_eq!(shown["ended_why"], "caller_gone");
    let token = ticket["token"].as_str().unwrap();
    assert_eq!(refusal(&rig, token, None).await, (410, "resume_call_over".to_owned()));
    rig.quiet().await;
}

#[tokio::test]
async fn a_lost_call_is_kept_no_longer_than_configured() {
    let rig = Rig::start(&["realtime.resume_ms=100"]).await;
    let (client, ticket) = kept(&rig).await;
    assert_eq!(ticket["kept_ms"], 100);
    drop(client.socket);
    let shown = ended(&rig, &ticket).await;
    assert_eq!(shown["ended_why"], "caller_gone");
    let lines = trace(&rig, &ticket);
    assert!(lines.contains(&"<- caller gone: not_resumed".to_owned()), "{lines:#?}");
    let token = ticket["token"].as_str().unwrap();
    assert_eq!(refusal(&rig, token, None).await, (410, "resume_call_over".to_owned()));
    rig.quiet().await;
    let page = rig.get("/metrics").await.text();
    for count in ["lost\"} 1", "expired\"} 1", "resumed\"} 0", "refused\"} 1"] {
        let line = format!("floorkeeper_resumptions_total{{outcome=\"{count}");
        assert!(page.contains(&line), "{line} in {page}");
    }
}

#[tokio::test]
async fn a_token_is_good_once() {
    let rig = Rig::start(&[KEPT]).await;
    let (client, first) = kept(&rig).await;
    broken(&rig, client, &first).await;
    let (mut client, second) = resumed(&rig, &first).await;
    let used = (409, "resume_token_used".to_owned());
    assert_eq!(refusal(&rig, first["token"].as_str().unwrap(), None).await, used);
    stands(&rig, &second, "listening").await;
    client.send(json!({"type": "input_audio_buffer.clear"})).await;
    client.until("input_audio_buffer.cleared").await;
    broken(&rig, client, &second).await;
    assert_eq!(refusal(&rig, first["token"].as_str().unwrap(), None).await, used);
    let (client, third) = resumed(&rig, &second).await;
    assert_eq!(third["connection"], 3);
    client.hang_up().await;
    rig.quiet().await;
}

/// The next token is told on a connection that breaks before anybody reads it.
#[tokio::test]
async fn a_token_is_good_again_where_its_connection_came_to_nothing() {
    let rig = Rig::start(&[KEPT]).await;
    let (client, ticket) = kept(&rig).await;
    broken(&rig, client, &ticket).await;
    for _ in 0..2 {
        let (unread, _) = connect_async(place(&rig, &ticket["token"])).await.unwrap();
        stands(&rig, &ticket, "listening").await;
        drop(unread);
        stands(&rig, &ticket, "ringing").await;
    }
    let (mut client, next) = resumed(&rig, &ticket).await;
    assert_eq!(next["connection"], 4);
    client.ask("Are you there?").await;
    assert_eq!(client.answered().await["status"], "completed");
    broken(&rig, client, &next).await;
    let used = (409, "resume_token_used".to_owned());
    assert_eq!(refusal(&rig, ticket["token"].as_str().unwrap(), None).await, used);
    let (client, _) = resumed(&rig, &next).await;
    client.hang_up().await;
    rig.quiet().await;
}

#[tokio::test]
async fn a_token_that_is_not_this_servers_is_refused() {
    let rig = Rig::start(&[KEPT]).await;
    let (client, ticket) = kept(&rig).await;
    let token = ticket["token"].as_str().unwrap();
    let forged = |token: &str| (token.to_owned(), (403, "resume_token_invalid".to_owned()));
    let mac = token.rsplit_once('.').unwrap().1;
    let cases = [
        forged("nonsense"),
        forged("a.b.c.d"),
        forged(&format!("{token}.1")),
        forged(&token.replace(".1.1.", ".1.2.")),
        forged(&token.replace(".1.1.", ".2.1.")),
        forged(&token.replace(mac, &mac[1..])),
        (format!("before{token}"), (410, "resume_other_process".to_owned())),
    ];
    for (token, expected) in cases {
        assert_eq!(refusal(&rig, &token, None).await, expected, "{token}");
    }
    client.hang_up().await;
    rig.quiet().await;
}

/// A key of another tenant's does not open the call, and the tenant's own still does.
#[tokio::test]
async fn a_call_goes_on_for_its_own_tenant() {
    let file = std::env::temp_dir().join(format!("floorkeeper-resume-{}", std::process::id()));
    std::fs::write(&file, "key-of-ada ada\nkey-of-bob bob\n").unwrap();
    let keys = format!("auth.keys_file=\"{}\"", file.display());
    let rig = Rig::start(&[KEPT, &keys]).await;
    std::fs::remove_file(&file).unwrap();
    let mut client = opened(&format!("{}?resumable=true", rig.url()), "key-of-ada").await.unwrap();
    let ticket = client.until("floorkeeper.resume").await;
    let token = ticket["token"].as_str().unwrap().to_owned();
    broken(&rig, client, &ticket).await;
    let other = refusal(&rig, &token, Some("key-of-bob")).await;
    assert_eq!(other, (403, "resume_other_tenant".to_owned()));
    assert_eq!(refusal(&rig, &token, None).await.0, 401);
    let mut client = opened(&place(&rig, &ticket["token"]), "key-of-ada").await.unwrap();
    client.until("floorkeeper.resume").await;
    client.hang_up().await;
    ended(&rig, &ticket).await;
}

async fn opened(url: &str, key: &str) -> Result<Client, Error> {
    let mut request = url.into_client_request()?;
    let key = format!("Bearer {key}").parse().expect("a header");
    request.headers_mut().insert("Authorization", key);
    let (socket, _): (WebSocketStream<MaybeTlsStream<TcpStream>>, _) =
        connect_async(request).await?;
    Ok(Client { socket, events: Vec::new() })
}

/// Whoever of them is first, one has the call, and the others know that they do not.
#[tokio::test]
async fn of_many_that_come_back_at_once_one_gets_the_call() {
    let rig = Rig::start(&[KEPT]).await;
    let (client, ticket) = kept(&rig).await;
    broken(&rig, client, &ticket).await;
    let url = place(&rig, &ticket["token"]);
    let tries = (0..8).map(|_| async {
        let (socket, _) = match connect_async(&url).await {
            Ok(opened) => opened,
            Err(Error::Http(answer)) => {
                assert_eq!(answer.status(), 409);
                return None;
            }
            Err(other) => panic!("{other}"),
        };
        let mut client = Client { socket, events: Vec::new() };
        let first = client.next().await;
        if first["type"] == "session.created" {
            return Some(client);
        }
        assert_eq!(first["error"]["code"], "resume_token_used", "{first:#}");
        assert_eq!(client.close_code().await, 1008);
        None
    });
    let mut winners: Vec<Client> =
        futures_util::future::join_all(tries).await.into_iter().flatten().collect();
    assert_eq!(winners.len(), 1);
    let mut client = winners.remove(0);
    client.ask("Are you there?").await;
    assert_eq!(client.answered().await["status"], "completed");
    client.hang_up().await;
    rig.quiet().await;
}

/// The server has not noticed yet: who comes with the token has the call, and the connection before
/// is closed.
#[tokio::test]
async fn the_new_connection_takes_the_call_from_one_that_is_still_up() {
    let rig = Rig::telling_stories(&[KEPT]).await;
    let (mut old, ticket) = kept(&rig).await;
    old.ask("Tell me a story").await;
    old.until("response.output_audio.delta").await;
    let (mut client, _) = resumed(&rig, &ticket).await;
    assert_eq!(old.close_code().await, 1000);
    assert_eq!(client.answered().await["status"], "cancelled");
    client.ask("And then?").await;
    assert_eq!(client.answered().await["status"], "completed");
    let lines = trace(&rig, &ticket);
    assert!(lines.contains(&"<- connection lost: taken_over".to_owned()), "{lines:#?}");
    client.hang_up().await;
    rig.quiet().await;
}

/// From outside, over HTTP, also while nobody is connected.
#[tokio::test]
async fn a_kept_call_is_hung_up_like_any_other() {
    let rig = Rig::start(&[KEPT]).await;
    let hang_up = |ticket: &Value| {
        let path = format!("/v1/realtime/calls/{}/hangup", ticket["call_id"].as_str().unwrap());
        let address = rig.serving.address;
        async move { http::ask(address, "POST", &path, &[], "").await.status }
    };
    let (client, lost) = kept(&rig).await;
    broken(&rig, client, &lost).await;
    assert_eq!(hang_up(&lost).await, 200);
    assert_eq!(ended(&rig, &lost).await["ended_why"], "caller_gone");
    let over = (410, "resume_call_over".to_owned());
    assert_eq!(refusal(&rig, lost["token"].as_str().unwrap(), None).await, over);

    let (mut client, up) = kept(&rig).await;
    assert_eq!(hang_up(&up).await, 200);
    assert_eq!(client.close_code().await, 1000);
    drop(client);
    assert_eq!(ended(&rig, &up).await["ended_why"], "caller_gone");
    assert_eq!(hang_up(&up).await, 404);
    rig.quiet().await;
}

/// A drain knows of it, lets it come back, and ends it with its window.
#[tokio::test]
async fn a_drain_waits_for_a_kept_call_and_ends_it_with_its_window() {
    let rig = Rig::start(&[KEPT]).await;
    let (client, ticket) = kept(&rig).await;
    broken(&rig, client, &ticket).await;
    let shown = rig.put("/v1/drain", &enabled(true)).await.json();
    assert_eq!((&shown["refusing_new"], &shown["in_flight"]), (&json!(true), &json!(1)));
    let (mut client, next) = resumed(&rig, &ticket).await;
    client.ask("Are you there?").await;
    assert_eq!(client.answered().await["status"], "completed");
    stands(&rig, &next, "listening").await;
    broken(&rig, client, &next).await;
    rig.service().end_calls();
    assert_eq!(ended(&rig, &next).await["ended_why"], "drained");
    rig.quiet().await;
}
