//! A browser that comes back to its call over another peer connection.

use std::time::Instant;

use serde_json::json;

use crate::http;
use crate::peer::{MOMENT, Peer, now, post_at};
use crate::providers::last_words;
use crate::rig::{LIMIT, Rig, STORY, eventually};
use floorkeeper::id::Stage;

const SDP: &str = "application/sdp";
const KEPT: &str = "realtime.resume_ms=60000";

fn query(token: &serde_json::Value) -> String {
    format!("resume={}", token.as_str().unwrap())
}

/// What another peer's offer with this query is answered: its status and its code.
async fn refused(rig: &Rig, query: &str) -> (u16, String) {
    let (_, offer) = Peer::offering().await;
    let answer = post_at(rig, &format!("/v1/realtime/calls?{query}"), SDP, &offer).await;
    (answer.status, answer.code())
}

/// So many packets of sound.
async fn hears(peer: &mut Peer, since: Instant, packets: usize) {
    let limit = now() + LIMIT;
    while peer.loud_since(since) < packets {
        assert!(now() < limit, "{} packets", peer.loud_since(since));
        peer.listen(MOMENT).await;
    }
}

/// It vanished, and comes back before the server can know: the answer is cut where it was heard,
/// and the call goes on with sound both ways.
#[tokio::test]
async fn a_browser_whose_connection_broke_goes_on_with_the_same_call() {
    let rig = Rig::telling_stories(&[KEPT]).await;
    let (mut peer, ticket) = Peer::with_query(&rig, "resumable=true").await;
    let place = peer.location.clone();
    peer.ask("Tell me a story");
    peer.until("output_audio_buffer.started").await;
    let began = now();
    hears(&mut peer, began, 75).await;
    drop(peer);
    let (mut peer, next) = Peer::with_query(&rig, &query(&ticket["token"])).await;
    assert_eq!(peer.location, place);
    assert_eq!((&next["call_id"], &next["connection"]), (&ticket["call_id"], &json!(2)));
    let cut = peer.until("response.done").await;
    assert_eq!(cut["response"]["status"], "cancelled");
    let resumed = now();
    peer.ask("And then?");
    peer.until("output_audio_buffer.started").await;
    hears(&mut peer, resumed, 20).await;
    let request = rig.model.asked("And then?").expect("the model was asked");
    let heard = last_words(&request);
    assert!(STORY.starts_with(heard) && heard.len() > 10 && heard.len() < STORY.len(), "{heard}");
    peer.speak(600);
    peer.until("input_audio_buffer.speech_started").await;
    assert_eq!(rig.serving.port_stats().map(|stats| stats.seats), Some(1));
    assert_eq!(rig.counts(Stage::Call).active, 1);
    let used = refused(&rig, &query(&ticket["token"])).await;
    assert_eq!(used, (409, "resume_token_used".to_owned()));
    peer.close().await;
    rig.quiet().await;
}

/// Nobody is there any more, and the server has noticed; then it is hung up from outside.
#[tokio::test]
async fn a_browser_that_vanished_is_waited_for_until_somebody_hangs_up() {
    let rig = Rig::start(&[KEPT]).await;
    let (peer, ticket) = Peer::with_query(&rig, "resumable=true").await;
    let place = peer.location.clone();
    drop(peer);
    let floor = || rig.service().registry.find("call-1").unwrap().summary()["floor"].clone();
    eventually("it is known to be lost", || match floor() {
        floor if floor == "ringing" => Ok(()),
        other => Err(other.to_string()),
    })
    .await;
    // Nobody has the connection that a further offer would restart.
    let (_, offer) = Peer::offering().await;
    let restart = post_at(&rig, &place, SDP, &offer).await;
    assert_eq!((restart.status, restart.code().as_str()), (410, "call_is_over"));
    let (mut peer, ticket) = Peer::with_query(&rig, &query(&ticket["token"])).await;
    peer.ask("Are you there?");
    peer.until("output_audio_buffer.stopped").await;
    let path = format!("/v1/realtime?{}", query(&ticket["token"]));
    let mut other = http::knock_at(rig.serving.address, &path, &[]).await;
    let other = http::answer(&mut other).await;
    assert_eq!((other.status, other.code().as_str()), (409, "resume_other_transport"));
    drop(peer);
    // The channel on which the next token is told may never open: the answer has it as well.
    let (_, offer) = Peer::offering().await;
    let path = format!("/v1/realtime/calls?{}", query(&ticket["token"]));
    let answer = post_at(&rig, &path, SDP, &offer).await;
    assert_eq!((answer.status, answer.header("location")), (201, Some(place.as_str())));
    let token = json!(answer.header("x-floorkeeper-resume").expect("the next token"));
    let (peer, ticket) = Peer::with_query(&rig, &query(&token)).await;
    assert_eq!(ticket["connection"], 4);
    drop(peer);
    let hang_up = http::ask(rig.serving.address, "POST", &format!("{place}/hangup"), &[], "").await;
    assert_eq!(hang_up.status, 200);
    rig.quiet().await;
    let over = refused(&rig, &query(&ticket["token"])).await;
    assert_eq!(over, (410, "resume_call_over".to_owned()));
}

/// The way back is told on the events' channel, which never opened: nobody is waited for.
#[tokio::test]
async fn a_first_connection_that_never_opens_is_not_kept() {
    let rig = Rig::start(&[KEPT]).await;
    let (_, offer) = Peer::offering().await;
    let answer = post_at(&rig, "/v1/realtime/calls?resumable=true", SDP, &offer).await;
    assert_eq!(answer.status, 201);
    rig.quiet().await;
    let shown = rig.service().registry.find("call-1").unwrap().show();
    assert!(shown["trace"].to_string().contains("<- caller gone: unopened"), "{shown:#}");
}

/// A page that closes has hung up.
#[tokio::test]
async fn a_browser_that_closes_does_not_come_back() {
    let rig = Rig::start(&[KEPT]).await;
    let (mut peer, ticket) = Peer::with_query(&rig, "resumable=true").await;
    peer.close().await;
    rig.quiet().await;
    let over = refused(&rig, &query(&ticket["token"])).await;
    assert_eq!(over, (410, "resume_call_over".to_owned()));
    assert_eq!(refused(&rig, "resume=x.y.z.w").await, (403, "resume_token_invalid".to_owned()));
}
