//! Bytes that are no WebSocket frames of a client: closed with the code that says why, nothing left
//! behind.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::http;
use crate::rig::{LIMIT, Rig};

const FIN_TEXT: u8 = 0x81;

/// A frame as a client has to send it: masked, here with zeros.
pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    assert!(payload.len() < 65_536);
    let mut bytes = vec![first];
    match payload.len() {
        short @ 0..=125 => bytes.push(0x80 | short as u8),
        long => {
            bytes.push(0x80 | 126);
            bytes.extend((long as u16).to_be_bytes());
        }
    }
    bytes.extend([0; 4]);
    bytes.extend(payload);
    bytes
}

/// A session by hand.
async fn session(rig: &Rig) -> TcpStream {
    let mut stream = http::knock(rig.serving.address, &[]).await;
    assert_eq!(http::answer(&mut stream).await.status, 101);
    stream
}

/// Reads the server's frames up to its close frame and gives its code.
pub async fn close_code(stream: &mut TcpStream) -> u16 {
    loop {
        let (first, payload) = timeout(LIMIT, next_frame(stream)).await.expect("frames in time");
        if first == 0x88 {
            return u16::from_be_bytes([payload[0], payload[1]]);
        }
    }
}

async fn next_frame(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let first = stream.read_u8().await.unwrap();
    let length = match stream.read_u8().await.unwrap() {
        126 => usize::from(stream.read_u16().await.unwrap()),
        127 => usize::try_from(stream.read_u64().await.unwrap()).unwrap(),
        short => usize::from(short),
    };
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).await.unwrap();
    (first, payload)
}

/// notes/reliability.md 2 A, rows 9 to 16.
#[tokio::test]
async fn wrong_frames_are_closed_with_the_code_that_says_why() {
    let rig = Rig::start(&["realtime.message_max=64KiB"]).await;
    let mut endless = vec![FIN_TEXT, 0x80 | 127];
    endless.extend((u64::MAX / 2).to_be_bytes());
    endless.extend([0; 4]);
    let mut over_fragments = frame(0x01, &[b' '; 40_000]);
    over_fragments.extend(frame(0x80, &[b' '; 40_000]));
    let mut nested = frame(0x01, b"{");
    nested.extend(frame(FIN_TEXT, b"{}"));
    let mut split_utf8 = frame(0x01, b"\"\xc3");
    split_utf8.extend(frame(0x80, b"\x28\""));
    let wrong = [
        ("unmasked", vec![FIN_TEXT, 2, b'{', b'}'], 1002),
        ("invalid UTF-8", frame(FIN_TEXT, b"\"\xff\xfe\""), 1007),
        ("invalid UTF-8 over two fragments", split_utf8, 1007),
        ("reserved bit", frame(0xc1, b"{}"), 1002),
        ("reserved opcode", frame(0x83, b"{}"), 1002),
        ("large control frame", frame(0x89, &[0; 126]), 1002),
        ("ping in fragments", frame(0x09, b"x"), 1002),
        ("continuation of nothing", frame(0x80, b"x"), 1002),
        ("a message inside a message", nested, 1002),
        ("endless length", endless, 1009),
        ("too long in fragments", over_fragments, 1009),
    ];
    for (what, bytes, code) in wrong {
        let mut stream = session(&rig).await;
        stream.write_all(&bytes).await.unwrap();
        assert_eq!(close_code(&mut stream).await, code, "{what}");
        http::closed(&mut stream).await;
    }
    rig.quiet().await;
}

/// A peer that sends all of a message that is too long is not reset while it does: it is read to
/// the end, and finds the close frame then.
#[tokio::test]
async fn whoever_sends_too_much_can_send_it_and_is_told() {
    let rig = Rig::start(&["realtime.message_max=64KiB"]).await;
    let length = 16 << 20;
    for path in ["/v1/realtime", "/v1/twilio"] {
        let mut stream = http::knock_at(rig.serving.address, path, &[]).await;
        assert_eq!(http::answer(&mut stream).await.status, 101);
        if path == "/v1/twilio" {
            let start = br#"{"event": "start", "streamSid": "MZ1", "start": {}}"#;
            stream.write_all(&frame(FIN_TEXT, start)).await.unwrap();
        }
        let mut bytes = vec![FIN_TEXT, 0x80 | 127];
        bytes.extend((length as u64).to_be_bytes());
        bytes.resize(bytes.len() + 4 + length, 0);
        let sent = timeout(LIMIT, stream.write_all(&bytes)).await.expect("it is read");
        sent.unwrap_or_else(|reset| panic!("{path}: {reset}"));
        assert_eq!(close_code(&mut stream).await, 1009, "{path}");
        stream.shutdown().await.unwrap();
        http::closed(&mut stream).await;
    }
    rig.quiet().await;
}

/// What comes behind a close frame is not looked at, and the socket is closed.
#[tokio::test]
async fn data_after_a_close_is_ignored() {
    let rig = Rig::start(&[]).await;
    let mut stream = session(&rig).await;
    let mut bytes = frame(0x88, &1000_u16.to_be_bytes());
    bytes.extend(frame(FIN_TEXT, b"{\"type\": \"response.create\"}"));
    stream.write_all(&bytes).await.unwrap();
    assert_eq!(close_code(&mut stream).await, 1000);
    http::closed(&mut stream).await;
    rig.quiet().await;
    assert_eq!(rig.ledger("model").await["offered"], 0, "nothing was asked");
}

/// A reset in the middle of an answer, a vanished half, a plain end: the call is over, its units
/// are back.
#[tokio::test]
async fn a_connection_that_breaks_in_mid_answer_gives_everything_back() {
    let rig = Rig::telling_stories(&[]).await;
    for way in ["reset", "end", "half"] {
        let mut stream = session(&rig).await;
        let question = br#"{"type": "response.create"}"#;
        stream.write_all(&frame(FIN_TEXT, question)).await.unwrap();
        loop {
            let (_, payload) = timeout(LIMIT, next_frame(&mut stream)).await.unwrap();
            if payload.windows(27).any(|w| w == b"response.output_audio.delta") {
                break;
            }
        }
        match way {
            "reset" => stream.set_zero_linger().unwrap(),
            "half" => stream.shutdown().await.unwrap(),
            _ => {}
        }
        if way != "half" {
            drop(stream);
            rig.quiet().await;
        } else {
            rig.quiet().await;
            drop(stream);
        }
    }
    assert_eq!(rig.ledger("model").await["offered"], 3);
}
