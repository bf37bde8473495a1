//! Peers that do not read, and peers that vanish: they lose their call, nobody else notices.

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;
use tokio_tungstenite::tungstenite::Message;

use crate::client::Client;
use crate::http;
use crate::rig::{Rig, eventually};

/// A masked text frame of less than 64 KiB.
fn text(event: &serde_json::Value) -> Vec<u8> {
    let payload = event.to_string();
    let mut bytes = vec![0x81, 0x80 | 126];
    bytes.extend(u16::try_from(payload.len()).unwrap().to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(payload.as_bytes());
    bytes
}

/// A reader that never reads is lost once its bounded buffers are full, with all that it held.
#[tokio::test]
async fn a_reader_that_never_reads_loses_its_call() {
    let rig = Rig::telling_stories(&["tts.words_per_s=20"]).await;
    let mut beside = Client::connect(&rig).await;
    beside.ask("Tell me a story.").await;
    beside.until("response.output_audio.delta").await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut deaf = socket.connect(rig.serving.address).await.unwrap();
    let mut head = format!("GET /v1/realtime HTTP/1.1\r\nHost: {}\r\n", rig.serving.address);
    for (name, value) in http::HANDSHAKE {
        head += &format!("{name}: {value}\r\n");
    }
    deaf.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
    assert_eq!(http::answer(&mut deaf).await.status, 101);
    deaf.write_all(&text(&json!({"type": "response.create", "padding": " ".repeat(200)})))
        .await
        .unwrap();
    // Each of these is echoed twice, whole; what nobody reads fills the buffers.
    let content = json!([{"type": "input_text", "text": "x".repeat(50_000)}]);
    let item = json!({"type": "message", "role": "user", "content": content});
    let event = text(&json!({"type": "conversation.item.create", "item": item}));
    let service = rig.service();
    let mut written = 0;
    while service.registry.live_count() > 1 && written < 2_000 {
        let write = tokio::time::timeout(crate::rig::LIMIT, deaf.write_all(&event)).await;
        if write.expect("the server reads on, or hangs up").is_err() {
            break;
        }
        written += 1;
    }
    eventually("the call is lost", || match service.registry.live_count() {
        1 => Ok(()),
        other => Err(format!("{other} calls are live")),
    })
    .await;
    assert_eq!(beside.answered().await["status"], "completed", "nobody else notices");
    beside.hang_up().await;
    drop(deaf);
    rig.quiet().await;
}

/// A peer that is quiet is pinged; one that answers is kept, one that does not has lost its call.
#[tokio::test]
async fn a_peer_that_vanishes_is_noticed() {
    let rig = Rig::start(&["realtime.ping_ms=100", "realtime.dead_after_ms=400"]).await;
    // This one never reads or writes again, and its kernel acknowledges all the same.
    let mut vanished = http::knock(rig.serving.address, &[]).await;
    assert_eq!(http::answer(&mut vanished).await.status, 101);
    let mut quiet = Client::connect(&rig).await;
    let pings = async {
        for _ in 0..8 {
            let ping = quiet.message().await;
            assert!(matches!(ping, Some(Ok(m)) if m.is_ping()), "only pings are heard");
        }
    };
    pings.await;
    let service = rig.service();
    eventually("it is lost", || match service.registry.live_count() {
        1 => Ok(()),
        other => Err(format!("{other} calls are live")),
    })
    .await;
    quiet.ask("Are you still there?").await;
    assert_eq!(quiet.answered().await["status"], "completed");
    quiet.hang_up().await;
    drop(vanished);
    rig.quiet().await;
}

/// Sixteen clients announce four MiB each and send nothing of it: small messages pass, and a large
/// one waits until those clients are lost (DESIGN 7: 64 MiB of large messages in the process).
#[tokio::test]
async fn room_that_is_announced_and_never_used_comes_back() {
    let deadlines = ["realtime.ping_ms=500", "realtime.dead_after_ms=2000"];
    let rig = Rig::start(&deadlines).await;
    let mut announced = vec![0x81, 0x80 | 127];
    announced.extend((4_u64 << 20).to_be_bytes());
    announced.extend([0; 4]);
    announced.push(b'{');
    let mut hoarders = Vec::new();
    for _ in 0..16 {
        let mut hoarder = http::knock(rig.serving.address, &[]).await;
        assert_eq!(http::answer(&mut hoarder).await.status, 101);
        hoarder.write_all(&announced).await.unwrap();
        hoarders.push(hoarder);
    }
    let mut small = Client::connect(&rig).await;
    // A ping says that time has passed for the hoarders too: the client that comes now outlives
    // them.
    while !matches!(small.message().await, Some(Ok(Message::Ping(_)))) {}
    let mut large = Client::connect(&rig).await;
    let sends = large.send(json!({"type": "nonsense", "padding": "x".repeat(3 << 20)}));
    let asks = async {
        small.ask("Are you there?").await;
        small.answered().await
    };
    let ((), answer) = tokio::join!(sends, asks);
    assert_eq!(answer["status"], "completed", "small messages need no room");
    let error = large.until("error").await;
    assert_eq!(error["error"]["param"], "type", "the large one came through: {error:#}");
    let live = rig.service().registry.live_count();
    assert!(live < 18, "{live} calls are live: it came through before there was room");
    small.hang_up().await;
    large.hang_up().await;
    drop(hoarders);
    rig.quiet().await;
}
