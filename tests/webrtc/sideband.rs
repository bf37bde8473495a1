//! A server of the tenant's beside a browser's call: it sees the events and says some of its own.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpSocket;
use tokio_tungstenite::MaybeTlsStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::client::Client;
use crate::http;
use crate::peer::{Peer, post};
use crate::rig::Rig;

fn name_of(peer: &Peer) -> &str {
    peer.location.rsplit('/').next().unwrap()
}

fn path_of(name: &str) -> String {
    format!("/v1/realtime?call_id={name}")
}

fn url_of(rig: &Rig, peer: &Peer) -> String {
    format!("ws://{}{}", rig.serving.address, path_of(name_of(peer)))
}

/// Attaches while the peer's own end goes on.
async fn beside(rig: &Rig, peer: &mut Peer) -> Client {
    let url = url_of(rig, peer);
    tokio::select! {
        client = Client::at(&url) => client,
        () = peer.until_closed() => panic!("the call is over"),
    }
}

/// What refuses to attach, with this key.
async fn refused(rig: &Rig, name: &str, key: &str) -> (u16, String) {
    let key = format!("Bearer {key}");
    let headers = [("Authorization", key.as_str())];
    let mut stream = http::knock_at(rig.serving.address, &path_of(name), &headers).await;
    let answer = http::answer(&mut stream).await;
    (answer.status, answer.code())
}

fn ids(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["event_id"].as_str()).collect()
}

#[tokio::test]
async fn a_sideband_sees_every_event_and_answers_the_functions() {
    let tool = "llm.tool={ name = \"get_weather\", arguments = { city = \"Paris\" } }";
    let rig = Rig::start(&[tool]).await;
    let mut peer = Peer::call(&rig).await;
    let seen = peer.events.len();
    let mut client = beside(&rig, &mut peer).await;
    let weather =
        json!({"type": "function", "name": "get_weather", "parameters": {"type": "object"}});
    let session = json!({"type": "realtime", "tools": [weather]});
    client.send(json!({"type": "session.update", "session": session})).await;
    client.ask("What is the weather?").await;
    let asked = client.until("response.function_call_arguments.done");
    let (call, _) = tokio::join!(asked, peer.until("response.done"));
    let output =
        json!({"type": "function_call_output", "call_id": call["call_id"], "output": "sun"});
    client.send(json!({"type": "conversation.item.create", "item": output})).await;
    client.send(json!({"type": "response.create"})).await;
    let stopped = "output_audio_buffer.stopped";
    tokio::join!(client.until(stopped), peer.until(stopped));
    assert_eq!(ids(&client.events[1..]), ids(&peer.events[seen..]), "the same, in one order");
    assert!(peer.of("session.updated").count() == 1 && peer.loud_since_start() > 10);
    // The call goes on without it.
    client.hang_up().await;
    peer.ask("What is the weather now?");
    peer.until("response.done").await;
    peer.close().await;
    rig.quiet().await;
}

#[tokio::test]
async fn what_a_sideband_does_wrong_is_told_to_it_alone() {
    let rig = Rig::start(&[]).await;
    let mut peer = Peer::call(&rig).await;
    let mut client = beside(&rig, &mut peer).await;
    client.send(json!({"type": "no.such.event", "event_id": "mine"})).await;
    let (error, ()) = tokio::join!(client.until("error"), peer.listen(crate::peer::MOMENT));
    assert_eq!(error["error"]["event_id"], "mine");
    peer.send(json!({"type": "session.update",
        "session": {"type": "realtime", "instructions": "Be brief."}}));
    let updated = "session.updated";
    let (seen, _) = tokio::join!(client.until(updated), peer.until(updated));
    assert_eq!(seen["session"]["instructions"], "Be brief.");
    assert_eq!(peer.of("error").count(), 0);
    // Whoever comes later is told of the session as it is.
    let later = beside(&rig, &mut peer).await;
    assert_eq!(later.events[0]["session"]["instructions"], "Be brief.");
    peer.close().await;
    let mut client = client;
    assert_eq!(client.close_code().await, 1000, "the call is over");
    drop((client, later));
    rig.quiet().await;
}

/// It was faster than the browser: what it said waits until that is connected.
#[tokio::test]
async fn what_a_sideband_says_before_the_peer_is_connected_is_heard() {
    let rig = Rig::start(&[]).await;
    let (mut peer, offer) = Peer::offering().await;
    let answer = post(&rig, "application/sdp", &offer).await;
    let url = format!(
        "ws://{}{}",
        rig.serving.address,
        path_of(answer.header("location").unwrap().rsplit('/').next().unwrap())
    );
    let (mut early, _) = tokio_tungstenite::connect_async(&url).await.unwrap();
    let session = json!({"type": "realtime", "instructions": "Be brief."});
    let update = json!({"type": "session.update", "session": session}).to_string();
    early.send(Message::text(update)).await.unwrap();
    // The pong follows when the message before it was passed on.
    early.send(Message::Ping(Default::default())).await.unwrap();
    assert!(matches!(early.next().await, Some(Ok(Message::Pong(_)))));
    peer.take_answer(&answer);
    let updated = peer.until("session.updated").await;
    assert_eq!(updated["session"]["instructions"], "Be brief.");
    peer.close().await;
    drop(early);
    rig.quiet().await;
}

/// The browser's key to its call is the browser's own, on every connection.
#[tokio::test]
async fn a_sideband_is_not_told_how_to_come_back() {
    let rig = Rig::start(&["realtime.resume_ms=60000"]).await;
    let (mut peer, ticket) = Peer::with_query(&rig, "resumable=true").await;
    let mut client = beside(&rig, &mut peer).await;
    drop(peer);
    let token = format!("resume={}", ticket["token"].as_str().unwrap());
    let (mut peer, _) = Peer::with_query(&rig, &token).await;
    peer.ask("Are you there?");
    tokio::join!(client.until("response.done"), peer.until("response.done"));
    assert_eq!(client.of("floorkeeper.resume").count(), 0);
    assert_eq!(client.of("session.created").count(), 1, "it knows the session");
    peer.close().await;
    drop(client);
    rig.quiet().await;
}

#[tokio::test]
async fn a_sideband_that_stops_reading_is_cut_off_and_the_call_lives() {
    let rig = Rig::start(&[]).await;
    let mut peer = Peer::call(&rig).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let stream = socket.connect(rig.serving.address).await.unwrap();
    let request = url_of(&rig, &peer).into_client_request().unwrap();
    let stream = MaybeTlsStream::Plain(stream);
    let (socket, _) = tokio_tungstenite::client_async(request, stream).await.unwrap();
    let mut stuck = Client { socket, events: Vec::new() };
    let content = json!([{"type": "input_text", "text": "x".repeat(50_000)}]);
    let item = json!({"id": "large", "type": "message", "role": "user", "content": content});
    peer.send(json!({"type": "conversation.item.create", "item": item}));
    peer.until("conversation.item.done").await;
    for _ in 0..120 {
        peer.send(json!({"type": "conversation.item.retrieve", "item_id": "large"}));
        peer.until("conversation.item.retrieved").await;
    }
    // What was on its way is still read; then it is over, although the call is not.
    let end = loop {
        match stuck.message().await {
            Some(Ok(Message::Close(Some(frame)))) => break u16::from(frame.code),
            Some(Ok(_)) => {}
            Some(Err(_)) | None => break 0,
        }
    };
    assert!([0, 1008].contains(&end), "{end}");
    peer.ask("Hello?");
    peer.until("output_audio_buffer.stopped").await;
    peer.close().await;
    drop(stuck);
    rig.quiet().await;
}

#[tokio::test]
async fn who_may_not_attach_is_told_why() {
    let file = std::env::temp_dir().join(format!("floorkeeper-aside-{}", std::process::id()));
    std::fs::write(&file, "key-of-ada ada\nkey-of-bob bob\n").unwrap();
    let rig = Rig::start(&[&format!("auth.keys_file=\"{}\"", file.display())]).await;
    std::fs::remove_file(&file).unwrap();
    let (ada, bob) = ("key-of-ada", "key-of-bob");
    let mut peer = Peer::call_as(&rig, ada).await;
    let name = name_of(&peer).to_owned();
    let unknown = (404, "unknown_call".to_owned());
    assert_eq!(refused(&rig, "call-99", ada).await, unknown);
    assert_eq!(refused(&rig, &name, bob).await, unknown, "another tenant's is as good as none");
    assert_eq!(refused(&rig, &name, "wrong").await, (401, "invalid_api_key".to_owned()));
    let bearer = [("Authorization", "Bearer key-of-ada")];
    let secrets = "/v1/realtime/client_secrets";
    let minted = http::ask(rig.serving.address, "POST", secrets, &bearer, "").await.json();
    let secret = minted["value"].as_str().unwrap();
    assert_eq!(refused(&rig, &name, secret).await, (403, "client_secret".to_owned()));
    let path = path_of(&name);
    let mut all = Vec::new();
    for _ in 0..4 {
        all.push(http::knock_at(rig.serving.address, &path, &bearer).await);
        peer.listen(crate::peer::MOMENT).await;
    }
    assert_eq!(refused(&rig, &name, ada).await, (409, "too_many_sidebands".to_owned()));
    drop(all);
    let hang_up = format!("{}/hangup", peer.location);
    let foreign = [("Authorization", "Bearer key-of-bob")];
    let answer = http::ask(rig.serving.address, "POST", &hang_up, &foreign, "").await;
    assert_eq!((answer.status, answer.code().as_str()), (404, "unknown_call"));
    peer.ask("Hello?");
    peer.until("output_audio_buffer.stopped").await;
    peer.close().await;
    rig.quiet().await;
    assert_eq!(refused(&rig, &name, ada).await, (410, "call_is_over".to_owned()));
    assert_eq!(refused(&rig, &name, bob).await, unknown);
}
