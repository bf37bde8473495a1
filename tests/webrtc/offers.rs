//! Offers that cannot be answered, pages that may not ask, and packets that are nobody's.

use floorkeeper::id::Stage;
use serde_json::json;
use tokio::net::UdpSocket;

use crate::http;
use crate::peer::{Peer, post};
use crate::rig::{Rig, eventually};

const SDP: &str = "application/sdp";

#[tokio::test]
async fn a_bad_offer_is_told_what_is_wrong_and_takes_no_slot() {
    let rig = Rig::start(&[]).await;
    let (_, offer) = Peer::offering().await;
    let candidate = "a=candidate:1 1 udp 1 127.0.0.1 9 typ host\r\n";
    let cases = [
        (SDP, "v=0".to_owned(), "offer_without_audio"),
        (SDP, "hello".to_owned(), "invalid_offer"),
        (SDP, offer.replace("m=audio", "m=video"), "offer_without_audio"),
        (SDP, offer.replace("m=application", "m=text"), "offer_without_data_channel"),
        (SDP, offer.replace("opus/48000", "speex/8000"), "no_common_codec"),
        (SDP, offer.replacen(" 111", " 111 200", 1), "invalid_payload_type"),
        (SDP, offer.clone() + &candidate.repeat(1_000), "too_many_candidates"),
        (SDP, offer.replace("a=ice-ufrag", "a=x"), "invalid_offer"),
        (SDP, offer.replace("a=fingerprint", "a=x"), "invalid_offer"),
        (SDP, offer.replace("a=mid", "a=x"), "invalid_offer"),
        ("text/plain", offer.clone(), "unsupported_media_type"),
        ("multipart/form-data; boundary=x", "--x".to_owned(), "invalid_body"),
    ];
    for (kind, body, code) in cases {
        let answer = post(&rig, kind, &body).await;
        assert!((400..500).contains(&answer.status), "{code}: {}", answer.text());
        assert_eq!(answer.code(), code, "{}", answer.text());
    }
    let large = post(&rig, SDP, &(offer + &"a=x:y\r\n".repeat(20_000))).await;
    assert_eq!((large.status, large.code().as_str()), (413, "body_too_large"));
    assert_eq!(rig.counts(Stage::Call).active, 0);
    rig.quiet().await;
}

/// Offers that are bad, and offers whose clients never come: nothing of either is left.
#[tokio::test]
async fn offers_that_come_to_nothing_leave_nothing_behind() {
    let rig = Rig::start(&["limits.call.slots=1000"]).await;
    let (_, offer) = Peer::offering().await;
    let wrong = offer.replace("opus/48000", "speex/8000");
    for _ in 0..50 {
        let bad = (0..10).map(|_| post(&rig, SDP, &wrong));
        for answer in futures_util::future::join_all(bad).await {
            assert_eq!(answer.code(), "no_common_codec");
        }
    }
    let seats = || rig.serving.port_stats().map(|stats| stats.seats);
    let mut calls = Vec::new();
    for batch in 0..20 {
        let good = (0..10).map(|_| post(&rig, SDP, &offer));
        calls.extend(futures_util::future::join_all(good).await);
        // Where the machine is slow the first of them are given up before the last are made.
        assert!(seats() >= Some(10), "batch {batch}: {:?}", seats());
    }
    assert!(calls.iter().all(|answer| answer.status == 201));
    for call in &calls[..100] {
        let hang_up = format!("{}/hangup", call.header("location").unwrap());
        let answer = http::ask(rig.serving.address, "POST", &hang_up, &[], "").await;
        assert!([200, 404].contains(&answer.status), "{}", answer.text());
    }
    // The others' clients never come: they are given up.
    rig.quiet().await;
    assert_eq!(seats(), Some(0));
}

#[tokio::test]
async fn a_full_house_refuses_before_anything_is_set_up() {
    let rig = Rig::start(&["limits.call.slots=1", "limits.call.queue=0"]).await;
    let mut first = Peer::call(&rig).await;
    let (_, offer) = Peer::offering().await;
    let refused = post(&rig, SDP, &offer).await;
    assert_eq!((refused.status, refused.code().as_str()), (429, "admission_capacity"));
    first.close().await;
    rig.quiet().await;
    let mut next = Peer::call(&rig).await;
    next.close().await;
    rig.quiet().await;
}

#[tokio::test]
async fn a_key_for_a_browser_begins_its_session() {
    let rig = Rig::start(&[]).await;
    let wanted = json!({"session": {"type": "realtime", "instructions": "Be brief."}}).to_string();
    let minted = http::ask(
        rig.serving.address,
        "POST",
        "/v1/realtime/client_secrets",
        &[("Content-Type", "application/json")],
        &wanted,
    );
    let key = format!("Bearer {}", minted.await.json()["value"].as_str().unwrap());
    let (_, offer) = Peer::offering().await;
    let headers = [("Content-Type", SDP), ("Authorization", key.as_str())];
    let path = "/v1/realtime/calls";
    let answer = http::ask(rig.serving.address, "POST", path, &headers, &offer).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let hang_up = format!("{}/hangup", answer.header("location").unwrap());
    http::ask(rig.serving.address, "POST", &hang_up, &[], "").await;
    rig.quiet().await;
}

#[tokio::test]
async fn pages_of_allowed_origins_may_ask_and_others_not() {
    let rig = Rig::start(&["auth.origins=[\"https://shop.example\"]"]).await;
    let path = "/v1/realtime/calls";
    let ask = |method, origin, body: String| {
        let address = rig.serving.address;
        async move {
            let headers = [
                ("Origin", origin),
                ("Content-Type", SDP),
                ("Access-Control-Request-Method", "POST"),
                ("Access-Control-Request-Headers", "authorization,x-openai-agents-sdk"),
            ];
            http::ask(address, method, path, &headers, &body).await
        }
    };
    let allowed = ask("OPTIONS", "https://shop.example", String::new()).await;
    assert_eq!(allowed.status, 204);
    assert_eq!(allowed.header("access-control-allow-origin"), Some("https://shop.example"));
    let headers = allowed.header("access-control-allow-headers").unwrap();
    assert!(headers.contains("x-openai-agents-sdk"), "{headers}");
    let refused = ask("OPTIONS", "https://evil.example", String::new()).await;
    assert_eq!((refused.status, refused.code().as_str()), (403, "origin_not_allowed"));
    let wrong = ask("POST", "https://shop.example", "hello".to_owned()).await;
    assert_eq!(wrong.status, 400, "its page may read why");
    assert_eq!(wrong.header("access-control-allow-origin"), Some("https://shop.example"));
    assert!(wrong.header("access-control-expose-headers").unwrap().contains("Location"));
    rig.quiet().await;
}

#[tokio::test]
async fn rubbish_is_dropped_and_the_call_goes_on() {
    let rig = Rig::start(&[]).await;
    let mut peer = Peer::call(&rig).await;
    let port = peer.server;
    let stranger = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut sent = 0;
    for seed in 0..500_u32 {
        // STUN, DTLS, RTP and nothing at all, by their first byte.
        let first = [0, 22, 128, 255][seed as usize % 4];
        let noise = (0..seed % 300).map(|at| (seed.wrapping_mul(at | 1) >> 2) as u8);
        let datagram: Vec<u8> = std::iter::once(first).chain(noise).collect();
        stranger.send_to(&datagram, port).await.unwrap();
        // The same from the peer's own address: it is the call's, and is no better.
        peer.socket.send_to(&datagram, port).await.unwrap();
        sent += 1;
        if seed % 50 == 0 {
            peer.listen(std::time::Duration::from_millis(20)).await;
        }
    }
    let counted = || rig.serving.port_stats().expect("a port").nobodys;
    eventually("the stranger's are counted", || match counted() {
        nobodys if nobodys >= sent * 9 / 10 => Ok(()),
        nobodys => Err(format!("{nobodys} of {sent}")),
    })
    .await;
    peer.ask("Hello?");
    peer.until("output_audio_buffer.stopped").await;
    peer.close().await;
    rig.quiet().await;
    assert_eq!(rig.serving.port_stats().map(|stats| stats.seats), Some(0));
}
