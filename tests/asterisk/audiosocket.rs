//! A call over AudioSocket: greeted, heard, answered, interrupted, ended.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::Instant;

use crate::channel::{GREETING, GREETS};
use crate::providers::last_words;
use crate::rig::{REPLY, Rig, STORY, enabled};
use crate::socket::{LISTENS, SLIN, SLIN16, Socket};

/// Issue 7, point 4: greeted, one spoken turn, one answer, in the kind that the caller has: rates
/// that the agent speaks at, and others.
#[tokio::test]
async fn a_caller_is_greeted_heard_and_answered_in_their_own_kind() {
    let rig = Rig::start(&[LISTENS, GREETS]).await;
    let kinds = [(SLIN16, 640), (0x11, 480), (0x15, 1_764)];
    join_all(kinds.map(|(kind, frame_bytes)| talk(&rig, kind, frame_bytes))).await;
    assert_eq!(rig.model.times_asked(), kinds.len());
    let request = rig.model.asked("What happened then?").expect("a spoken turn");
    assert_eq!(last_words(&request), GREETING, "the greeting was heard to its end");
    let shown = rig.get("/v1/calls/call-1").await.json();
    assert_eq!(shown["transport"], "audiosocket", "{shown:#}");
    rig.quiet().await;
}

async fn talk(rig: &Rig, kind: u8, frame_bytes: usize) {
    let mut caller = Socket::call(rig, kind, frame_bytes).await;
    caller.until("the greeting is heard", |socket| socket.played_ms() >= 700).await;
    assert!(caller.loudest() > 1_000, "{}", caller.loudest());
    caller.speak(900);
    let all = 700 + REPLY.split(' ').count() * 100;
    caller.until("the answer is heard", |socket| socket.played_ms() >= all).await;
}

/// Nothing is buffered at the far end, and nothing can be taken back: DESIGN 4, *Pacing*. However
/// slow this machine is, the story of six seconds never comes faster than it is spoken.
#[tokio::test]
async fn sound_is_sent_at_its_own_pace() {
    let rig = Rig::telling_stories(&[LISTENS]).await;
    let mut caller = Socket::call(&rig, SLIN, 320).await;
    caller.speak(900);
    let began = Instant::now();
    let at_its_pace = |socket: &Socket| {
        let sent_ms = socket.played_ms() + socket.ahead_ms();
        assert!(sent_ms as u128 <= began.elapsed().as_millis() + 60, "{sent_ms} ms were sent");
        socket.played_ms() >= 2_000
    };
    caller.until("two seconds are heard", at_its_pace).await;
    drop(caller);
    rig.quiet().await;
}

/// DESIGN 4, *Barge-in*: to stop sending is to be silent, and history is what was heard.
#[tokio::test]
async fn a_barge_in_stops_and_history_is_what_was_heard() {
    let rig = Rig::telling_stories(&[LISTENS]).await;
    let mut caller = Socket::call(&rig, SLIN16, 640).await;
    caller.press('7').await;
    caller.press('#').await;
    caller.until("two seconds are heard", |socket| socket.played_ms() >= 2_000).await;
    caller.speak(1_200);
    let asked = |_: &Socket| rig.model.asked("What happened then?").is_some();
    caller.until("the next question is asked", asked).await;
    let heard_ms = caller.played_ms() + caller.ahead_ms();
    let words =
        rig.model.asked("What happened then?").map(|it| last_words(&it).to_owned()).unwrap();
    assert!(STORY.starts_with(&words), "{words}");
    let words_ms = words.split(' ').count() * 100;
    // What came of the next answer meanwhile is not of these words.
    assert!(
        words_ms <= heard_ms + 100 && words_ms + 500 >= heard_ms,
        "{words_ms} ms of words, {heard_ms} ms heard"
    );
    caller.until("the next answer begins", |it| it.played_ms() >= heard_ms + 400).await;
    drop(caller);
    rig.quiet().await;
}

/// Issue 7, point 6: keys are a turn; point 5: the dialplan's own name of the call is known.
#[tokio::test]
async fn keys_are_a_turn_and_the_uuid_is_known() {
    let rig = Rig::start(&[
        LISTENS,
        "agent.default.instructions=\"This is {{call.param.uuid}} over {{call.transport}}.\"",
    ])
    .await;
    let mut caller = Socket::call(&rig, SLIN, 320).await;
    caller.press('4').await;
    caller.press('#').await;
    caller.until("the answer is heard", |socket| socket.played_ms() >= 500).await;
    let request = rig.model.asked("Keys pressed: 4#").expect("a turn of keys");
    let uuid = "7f7f7f7f-7f7f-7f7f-7f7f-7f7f7f7f7f7f";
    assert_eq!(request.instructions, format!("This is {uuid} over audiosocket."));
    drop(caller);
    rig.quiet().await;
}

/// A caller whose telephone sends nothing while they are silent is greeted, heard and answered.
#[tokio::test]
async fn a_caller_who_sends_nothing_is_spoken_to_all_the_same() {
    let rig = Rig::start(&[LISTENS, GREETS]).await;
    let mut caller = Socket::call(&rig, SLIN, 320).await;
    caller.is_mute = true;
    caller.until("the greeting is heard", |socket| socket.played_ms() >= 700).await;
    caller.speak(900);
    caller.until("the answer is heard", |socket| socket.played_ms() >= 1_200).await;
    drop(caller);
    rig.quiet().await;
}

/// The kind may change in a call: what is said follows it.
#[tokio::test]
async fn a_kind_that_changes_is_followed() {
    let rig = Rig::telling_stories(&[LISTENS]).await;
    let mut caller = Socket::call(&rig, SLIN, 320).await;
    caller.speak(900);
    caller.until("the story is heard", |socket| socket.played_ms() >= 500).await;
    caller.change_to(SLIN16, 640).await;
    let heard_ms = caller.played_ms();
    caller.until("the story goes on", |socket| socket.played_ms() >= heard_ms + 500).await;
    drop(caller);
    rig.quiet().await;
}

/// We end it: the goodbye is sent to its end, then the hang-up, and nothing else behind it.
#[tokio::test]
async fn a_drain_ends_the_call_with_a_hang_up() {
    let rig = Rig::start(&[LISTENS, GREETS]).await;
    let mut caller = Socket::call(&rig, SLIN, 320).await;
    caller.until("the greeting is heard", |socket| socket.played_ms() >= 700).await;
    let drained = rig.serving.drain(Duration::ZERO, std::future::pending());
    let ((), ()) = tokio::join!(caller.until("it is hung up on", |it| it.hung_up), drained);
    caller.until("the connection is over", |socket| socket.ended).await;
    assert_eq!(caller.ahead_ms() % 20, 0);
    drop(caller);
    rig.quiet().await;
}

/// Who hangs up is gone at once, however Asterisk tells.
#[tokio::test]
async fn a_caller_who_hangs_up_in_mid_answer_ends_the_call() {
    let rig = Rig::telling_stories(&[LISTENS]).await;
    let ways = [None, Some((0x00, &[][..])), Some((0xff, &[1])), Some((0xff, &[4]))];
    join_all(ways.map(|told| hang_up(&rig, told))).await;
    rig.quiet().await;
}

async fn hang_up(rig: &Rig, told: Option<(u8, &[u8])>) {
    let mut caller = Socket::call(rig, SLIN, 320).await;
    caller.speak(900);
    caller.until("the story is heard", |socket| socket.played_ms() >= 300).await;
    if let Some((kind, payload)) = told {
        caller.send(kind, payload).await;
        caller.until("the connection is over", |socket| socket.ended).await;
    }
}

/// Issue 7, *The calling experience of refusal*: the caller was answered by Asterisk, and hears the
/// truth before the hang-up.
#[tokio::test]
async fn a_full_gate_tells_the_caller_the_truth() {
    let rig = Rig::start(&[LISTENS, "limits.call.slots=1", "limits.call.queue=0"]).await;
    let mut caller = Socket::call(&rig, SLIN, 320).await;
    caller.press('4').await;
    caller.press('#').await;
    caller.until("the answer is heard", |socket| socket.played_ms() >= 500).await;
    let (mut narrow, mut wide) =
        (Socket::call(&rig, SLIN, 320).await, Socket::call(&rig, 0x15, 1_764).await);
    tokio::join!(told_and_hung_up_on(&mut narrow), told_and_hung_up_on(&mut wide));
    rig.put("/v1/drain", &enabled(true)).await;
    told_and_hung_up_on(&mut Socket::call(&rig, SLIN, 320).await).await;
    drop((narrow, wide));
    let page = rig.get("/metrics").await.text();
    assert!(
        page.contains("floorkeeper_calls_refused_total{code=\"admission_capacity\"} 2"),
        "{page}"
    );
    drop(caller);
    rig.quiet().await;
}

async fn told_and_hung_up_on(caller: &mut Socket) {
    caller.until("it is hung up on", |socket| socket.hung_up).await;
    let told_ms = caller.played_ms() + caller.ahead_ms();
    assert!((1_000..8_000).contains(&told_ms), "{told_ms} ms of truth");
    caller.until("all is heard", |socket| socket.ahead_ms() == 0).await;
    assert!(caller.loudest() > 1_000, "{}", caller.loudest());
}

/// A queued caller waits in silence, and whoever leaves the queue leaves no place in it.
#[tokio::test]
async fn a_caller_waits_for_a_line_and_may_leave_the_queue() {
    let rig = Rig::start(&[LISTENS, GREETS, "limits.call.slots=1", "limits.call.queue=1"]).await;
    let mut first = Socket::call(&rig, SLIN, 320).await;
    first.until("the greeting is heard", |socket| socket.played_ms() >= 700).await;
    let queued = |count: u32| {
        let rig = &rig;
        move |_: &Socket| rig.counts(floorkeeper::id::Stage::Call).queued == count
    };
    let mut leaves = Socket::call(&rig, SLIN, 320).await;
    leaves.until("it waits", queued(1)).await;
    drop(leaves);
    first.until("nobody waits", queued(0)).await;
    let mut waits = Socket::call(&rig, SLIN, 320).await;
    waits.until("it waits", queued(1)).await;
    assert_eq!(waits.played_ms(), 0);
    drop(first);
    waits.until("the greeting is heard", |socket| socket.played_ms() >= 700).await;
    drop(waits);
    rig.quiet().await;
    assert_eq!(rig.ledger("call").await["offered"], json!(3));
}
