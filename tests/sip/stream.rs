//! SIP over TCP: messages in pieces and in one, and a stream that has lost its frame.

use floorkeeper::transport::sip::Count;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::bad_input::until_counted;
use crate::conversation::GREETS;
use crate::phone::{Heard, Phone, branch, serve};
use crate::rig::LIMIT;

/// The next message that is this.
pub async fn told(stream: &mut (impl AsyncRead + Unpin), kept: &mut String, what: &str) -> Heard {
    loop {
        while let Some((head, rest)) = kept.split_once("\r\n\r\n") {
            let mut heard = Heard { text: format!("{head}\r\n\r\n") };
            let length: usize = heard.field("Content-Length").unwrap().parse().unwrap();
            if rest.len() < length {
                break;
            }
            let (body, rest) = rest.split_at(length);
            heard.text += body;
            *kept = rest.to_owned();
            if heard.what() == what {
                return heard;
            }
        }
        let mut buffer = [0; 4_096];
        let read = timeout(LIMIT, stream.read(&mut buffer)).await.expect("in time").unwrap();
        assert!(read > 0, "closed before {what}: {kept}");
        kept.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
    }
}

#[tokio::test]
async fn a_call_over_tcp_is_a_call() {
    let rig = serve(&[GREETS]).await;
    let mut phone = Phone::new(&rig).await;
    let mut stream = TcpStream::connect(phone.server).await.unwrap();
    let mut kept = String::new();
    let tcp = |text: String| text.replace("SIP/2.0/UDP", "SIP/2.0/TCP");
    phone.cseq = 1;
    let offer = phone.offer("0", "sendrecv");
    let invite =
        tcp(phone.write("INVITE", 1, &branch(), &["Content-Type: application/sdp"], &offer));
    let options =
        tcp(phone.write("OPTIONS", 2, &branch(), &[], "")).replace(&phone.call_id, "other");
    let (first, rest) = invite.split_at(invite.len() - 40);
    stream.write_all(format!("\r\n\r\n{first}").as_bytes()).await.unwrap();
    stream.write_all(format!("{rest}{options}").as_bytes()).await.unwrap();
    let mut pong = [0; 2];
    timeout(LIMIT, stream.read_exact(&mut pong)).await.unwrap().unwrap();
    assert_eq!(&pong, b"\r\n", "kept open (RFC 5626)");
    let able = told(&mut stream, &mut kept, "100").await;
    assert_eq!(able.field("CSeq"), Some("1 INVITE"));
    let mut answer = told(&mut stream, &mut kept, "200").await;
    if answer.field("CSeq") == Some("2 OPTIONS") {
        answer = told(&mut stream, &mut kept, "200").await;
    }
    assert_eq!(answer.field("CSeq"), Some("1 INVITE"));
    assert!(answer.field("Contact").unwrap().contains("transport=tcp"));
    phone.to = answer.field("To").unwrap().to_owned();
    phone.sound_to = Some(std::net::SocketAddr::new(phone.server.ip(), answer.sound_port()));
    let ack = tcp(phone.write("ACK", 1, &branch(), &[], ""));
    stream.write_all(ack.as_bytes()).await.unwrap();
    phone.until("the greeting is heard", |phone| phone.heard_ms() >= 700).await;
    let bye = tcp(phone.write("BYE", 3, &branch(), &[], ""));
    stream.write_all(bye.as_bytes()).await.unwrap();
    while told(&mut stream, &mut kept, "200").await.field("CSeq") != Some("3 BYE") {}
    drop(stream);
    rig.quiet().await;
}

/// Who only knows the call's name, as a proxy that forks it does, is answered where they are, and
/// takes nothing of the call away.
#[tokio::test]
async fn a_forked_copy_by_tcp_is_answered_there_and_the_call_where_it_was() {
    let rig = serve(&["sip.t1_ms=50", "agent.default.greeting=\"\""]).await;
    let mut phone = Phone::new(&rig).await;
    let offer = phone.offer("0", "sendrecv");
    let invite = phone.invite(&offer, &[]).await;
    let answer = phone.final_answer().await;
    phone.take_answer(&answer);
    let mut stream = TcpStream::connect(phone.server).await.unwrap();
    let fork = invite.replace(&phone.branch, &branch()).replace("SIP/2.0/UDP", "SIP/2.0/TCP");
    stream.write_all(fork.as_bytes()).await.unwrap();
    told(&mut stream, &mut String::new(), "482").await;
    while phone.sip.try_recv_from(&mut [0; 4_096]).is_ok() {}
    assert_eq!(phone.next().await.text, answer.text, "said until it is acknowledged");
    phone.ack("").await;
    phone.hang_up().await;
    drop(stream);
    rig.quiet().await;
}

/// Reliability D, 65: where the next message begins nobody knows, so it is said and closed.
#[tokio::test]
async fn a_stream_that_has_lost_its_frame_is_closed() {
    let rig = serve(&[]).await;
    let phone = Phone::new(&rig).await;
    for (right, wrong) in [
        ("Content-Length: 0", "Content-Length: -1"),
        ("Content-Length: 0", "Content-Length: 0\r\nContent-Length: 3"),
    ] {
        let text = phone.write("OPTIONS", 1, &branch(), &[], "").replace(right, wrong);
        let mut stream = TcpStream::connect(phone.server).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut said = String::new();
        timeout(LIMIT, stream.read_to_string(&mut said)).await.expect("closed").unwrap();
        assert!(said.starts_with("SIP/2.0 400 Bad Request"), "{said}");
    }
    rig.quiet().await;
}

/// The connection is closed without a word.
pub async fn is_turned_away(mut stream: TcpStream) {
    let read = timeout(LIMIT, stream.read(&mut [0])).await.expect("closed");
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
}

/// Who may not ring takes no place that others need.
#[tokio::test]
async fn who_is_no_peer_has_no_connection() {
    let rig = serve(&["sip.peers=[\"192.0.2.0/24\"]"]).await;
    let phone = Phone::new(&rig).await;
    is_turned_away(TcpStream::connect(phone.server).await.unwrap()).await;
    until_counted(&rig, Count::Strangers, 1).await;
    rig.quiet().await;
}

/// One address has so many connections and no more; those it has are served.
#[tokio::test]
async fn one_address_does_not_take_every_connection() {
    let rig = serve(&["connections.per_address=2"]).await;
    let phone = Phone::new(&rig).await;
    let options = phone.write("OPTIONS", 1, &branch(), &[], "");
    let mut streams = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(phone.server).await.unwrap();
        stream.write_all(options.as_bytes()).await.unwrap();
        told(&mut stream, &mut String::new(), "200").await;
        streams.push(stream);
    }
    is_turned_away(TcpStream::connect(phone.server).await.unwrap()).await;
    until_counted(&rig, Count::Flood, 1).await;
    for stream in &mut streams {
        stream.write_all(options.as_bytes()).await.unwrap();
        told(stream, &mut String::new(), "200").await;
    }
    drop(streams);
    rig.quiet().await;
}
