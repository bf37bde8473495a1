//! Further offers for a call: its peer's network has changed, or they are not its peer's at all.

use crate::bad_input::{no_more_files_than, open_files};
use crate::http;
use crate::peer::{MOMENT, Peer, now, post_at};
use crate::rig::Rig;

const SDP: &str = "application/sdp";

#[tokio::test]
async fn a_call_goes_on_from_another_socket_after_an_ice_restart() {
    let rig = Rig::start(&[]).await;
    let mut peer = Peer::call(&rig).await;
    peer.ask("Are you there?");
    peer.until("output_audio_buffer.stopped").await;
    for _ in 0..2 {
        let (_, answer) = peer.restart(&rig).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.header("content-type"), Some(SDP));
        let restarted = now();
        peer.ask("Are you still there?");
        peer.until("output_audio_buffer.stopped").await;
        assert!(peer.loud_since(restarted) >= 20, "{:?}", peer.heard);
    }
    peer.speak(600);
    peer.until("input_audio_buffer.speech_started").await;
    peer.until("output_audio_buffer.stopped").await;
    // RFC 8445, section 9: a restart changes the name and the password, on either side.
    for line in ["a=ice-ufrag:", "a=ice-pwd:"] {
        let of = |sdp: &String| sdp.lines().find(|l| l.starts_with(line)).map(str::to_owned);
        let mut all: Vec<String> = peer.answers.iter().filter_map(of).collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 3, "{all:?}");
    }
    assert_eq!(rig.serving.port_stats().map(|stats| stats.seats), Some(1));
    peer.close().await;
    rig.quiet().await;
}

/// Asks while the peer's own end goes on.
async fn refused(rig: &Rig, peer: &mut Peer, body: &str) -> (u16, String) {
    let path = peer.location.clone();
    let answer = tokio::select! {
        answer = post_at(rig, &path, SDP, body) => answer,
        () = peer.until_closed() => panic!("the call is over"),
    };
    (answer.status, answer.code())
}

#[tokio::test]
async fn an_offer_that_is_not_the_peers_own_changes_nothing() {
    let rig = Rig::start(&[]).await;
    let (mut peer, offer) = Peer::calling(&rig).await;
    let (_, others) = Peer::offering().await;
    let moved = offer.replace(" 111", " 112").replace(":111", ":112");
    let cases = [
        (others, "offer_of_another_peer"),
        (moved, "payload_type_changed"),
        (offer.replace("a=ice-ufrag", "a=x"), "invalid_offer"),
        (offer.replace("opus/48000", "speex/8000"), "no_common_codec"),
        ("hello".to_owned(), "invalid_offer"),
    ];
    for (body, code) in cases {
        assert_eq!(refused(&rig, &mut peer, &body).await, (400, code.to_owned()));
        peer.ask("Are you still there?");
        peer.until("output_audio_buffer.stopped").await;
    }
    let (_, answer) = peer.restart(&rig).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    peer.ask("And now?");
    peer.until("output_audio_buffer.stopped").await;
    peer.close().await;
    rig.quiet().await;
}

#[tokio::test]
async fn offers_for_calls_that_are_over_leave_nothing_behind() {
    let rig = Rig::start(&[]).await;
    let (mut peer, offer) = Peer::calling(&rig).await;
    peer.close().await;
    rig.quiet().await;
    let before = open_files();
    for _ in 0..100 {
        let again = (0..10).map(|_| post_at(&rig, &peer.location, SDP, &offer));
        for answer in futures_util::future::join_all(again).await {
            assert_eq!((answer.status, answer.code().as_str()), (410, "call_is_over"));
        }
    }
    let unknown = post_at(&rig, "/v1/realtime/calls/call-99", SDP, &offer).await;
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "unknown_call"));
    let bad = http::ask(rig.serving.address, "POST", &peer.location, &[], "").await;
    assert_eq!((bad.status, bad.code().as_str()), (415, "unsupported_media_type"));
    peer.listen(MOMENT).await;
    rig.quiet().await;
    assert_eq!(rig.serving.port_stats().map(|stats| stats.seats), Some(0));
    no_more_files_than(before).await;
}
