//! SIP over TLS: the certificate that HTTP shows, bounded as TCP is.

use std::net::SocketAddr;
use std::time::Duration;

use floorkeeper::transport::sip::Count;
use rustls::pki_types::CertificateDer;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use crate::bad_input::until_counted;
use crate::certificates::{Files, connect};
use crate::conversation::GREETS;
use crate::phone::{Phone, branch, serve};
use crate::rig::{LIMIT, Rig};
use crate::stream::{is_turned_away, told};

pub async fn serve_tls(files: &Files, settings: &[&str]) -> (Rig, SocketAddr) {
    let [cert, key] = files.settings();
    let usual = [cert.as_str(), &key, "sip.tls_listen=\"127.0.0.1:0\""];
    let rig = serve(&usual.iter().chain(settings).copied().collect::<Vec<_>>()).await;
    let at = rig.service().sip().unwrap().tls_address().expect("sip.tls_listen");
    (rig, at)
}

/// A telephone that speaks over one connection of TLS.
struct Line {
    phone: Phone,
    stream: TlsStream<TcpStream>,
    kept: String,
}

impl Line {
    async fn open(rig: &Rig, to: SocketAddr, trusted: &CertificateDer<'static>) -> Line {
        let phone = Phone::new(rig).await;
        let stream = connect(to, trusted).await.unwrap();
        Line { phone, stream, kept: String::new() }
    }

    async fn say(&mut self, method: &str, more: &[&str], body: &str) {
        if method != "ACK" {
            self.phone.cseq += 1;
        }
        let text = self.phone.write(method, self.phone.cseq, &branch(), more, body);
        let text = text.replace("SIP/2.0/UDP", "SIP/2.0/TLS");
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    async fn told(&mut self, what: &str) -> crate::phone::Heard {
        told(&mut self.stream, &mut self.kept, what).await
    }

    /// Rings, and is answered.
    async fn call(&mut self) -> crate::phone::Heard {
        let offer = self.phone.offer("0", "sendrecv");
        self.say("INVITE", &["Content-Type: application/sdp"], &offer).await;
        let answer = self.told("200").await;
        self.phone.to = answer.field("To").unwrap().to_owned();
        self.phone.take_answer(&answer);
        self.say("ACK", &[], "").await;
        answer
    }

    async fn hang_up(mut self) {
        self.say("BYE", &[], "").await;
        let cseq = format!("{} BYE", self.phone.cseq);
        while self.told("200").await.field("CSeq") != Some(&cseq) {}
    }
}

/// Issue 7.2: SIP over TLS, where a call is a call.
#[tokio::test]
async fn a_call_over_tls_is_a_call() {
    let (files, certificate) = Files::new("sip-call");
    let (rig, at) = serve_tls(&files, &[GREETS]).await;
    let mut line = Line::open(&rig, at, &certificate).await;
    line.say("OPTIONS", &[], "").await;
    line.told("200").await;
    let answer = line.call().await;
    assert!(answer.field("Via").unwrap().starts_with("SIP/2.0/TLS "), "{}", answer.text);
    assert_eq!(answer.field("Contact"), Some(format!("<sip:{at};transport=tls>").as_str()));
    line.phone.until("the greeting is heard", |phone| phone.heard_ms() >= 700).await;
    line.phone.speak(900);
    line.phone.until("the answer is heard", |phone| phone.heard_ms() >= 1_200).await;
    line.hang_up().await;
    rig.quiet().await;
}

/// Who rings `sips:` is told to ask by TLS alone; the server's BYE goes by the connection.
#[tokio::test]
async fn who_rings_sips_is_answered_so_and_told_goodbye() {
    let (files, certificate) = Files::new("sip-sips");
    let (rig, at) = serve_tls(&files, &["agent.default.greeting=\"\""]).await;
    let mut line = Line::open(&rig, at, &certificate).await;
    line.phone.uri = format!("sips:agent@{at}");
    let answer = line.call().await;
    assert_eq!(answer.field("Contact"), Some(format!("<sips:{at}>").as_str()));
    line.phone.until("it is heard", |phone| phone.timestamp > 1_600).await;
    rig.service().end_calls();
    let bye = line.told("BYE").await;
    let via = format!("SIP/2.0/TLS {at};");
    assert!(bye.field("Via").unwrap().starts_with(&via), "{}", bye.text);
    drop(line);
    rig.quiet().await;
}

/// Issue 7.2: a renewed certificate is shown here as it is to browsers; calls go on.
#[tokio::test]
async fn a_renewed_certificate_is_shown_to_telephones() {
    let (files, before) = Files::new("sip-renewed");
    let (rig, at) = serve_tls(&files, &[GREETS]).await;
    let mut line = Line::open(&rig, at, &before).await;
    line.call().await;
    let after = files.renew();
    let renewed = async {
        while connect(at, &after).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LIMIT, renewed).await.expect("the new certificate is shown in time");
    assert!(connect(at, &before).await.is_err(), "the one before is shown no more");
    line.hang_up().await;
    rig.quiet().await;
}

/// Bad input: what is no TLS is closed, counted, and holds no place.
#[tokio::test]
async fn who_speaks_no_tls_is_closed_and_holds_nothing() {
    let (files, certificate) = Files::new("sip-plain");
    let (rig, at) = serve_tls(&files, &["connections.per_address=1"]).await;
    let phone = Phone::new(&rig).await;
    let plain = phone.write("OPTIONS", 1, &branch(), &[], "").into_bytes();
    let begun = [22, 3, 1, 2, 0, 1, 0, 1, 252, 3];
    for (count, said) in [(1, plain), (2, vec![22, 3, 1, 0, 5, 9, 9, 9, 9, 9]), (3, begun.into())] {
        let mut stream = TcpStream::connect(at).await.unwrap();
        stream.write_all(&said).await.unwrap();
        stream.shutdown().await.unwrap();
        until_counted(&rig, Count::NoTls, count).await;
    }
    let mut line = Line::open(&rig, at, &certificate).await;
    line.say("OPTIONS", &[], "").await;
    line.told("200").await;
    is_turned_away(TcpStream::connect(at).await.unwrap()).await;
    until_counted(&rig, Count::Flood, 1).await;
    drop(line);
    rig.quiet().await;
}

/// Who may not ring has no handshake either.
#[tokio::test]
async fn who_is_no_peer_has_no_handshake() {
    let (files, certificate) = Files::new("sip-stranger");
    let (rig, at) = serve_tls(&files, &["sip.peers=[\"192.0.2.0/24\"]"]).await;
    assert!(connect(at, &certificate).await.is_err());
    until_counted(&rig, Count::Strangers, 1).await;
    rig.quiet().await;
}

/// TLS may be all that is spoken.
#[tokio::test]
async fn a_port_may_speak_tls_alone() {
    let (files, certificate) = Files::new("sip-alone");
    let (rig, at) = serve_tls(&files, &["sip.listen=\"\"", GREETS]).await;
    assert_eq!(rig.service().sip().unwrap().address(), at);
    let mut line = Line::open(&rig, at, &certificate).await;
    line.call().await;
    line.phone.until("the greeting is heard", |phone| phone.heard_ms() >= 700).await;
    line.hang_up().await;
    rig.quiet().await;
}
