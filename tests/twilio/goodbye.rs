//! Hang-up by the agent's side: what is said last is heard before the stream is closed.

use std::time::Duration;

use serde_json::json;

use crate::conversation::GREETS;
use crate::double::Double;
use crate::rig::Rig;

/// DESIGN 4, *Hang-up*: a goodbye that is still on its way to the telephone is waited for.
#[tokio::test]
async fn the_last_words_are_heard_before_the_stream_is_closed() {
    let rig = Rig::start(&[GREETS]).await;
    let mut caller = Double::call(&rig, json!({})).await;
    caller.way = Duration::from_millis(300);
    caller.until("the greeting is heard", |double| double.played_ms() >= 700).await;
    let drained = rig.serving.drain(Duration::ZERO, std::future::pending());
    let (code, ()) = tokio::join!(caller.until_closed(), drained);
    assert_eq!(code, 1012);
    assert!(caller.played_ms() > 1_500, "a goodbye of some length: {}", caller.played_ms());
    assert_eq!(caller.unheard(), 0, "bytes that the caller never heard");
    rig.quiet().await;
}

/// A far end that returns no marks is not waited for for ever.
#[tokio::test]
async fn a_goodbye_without_marks_ends_in_bounded_time() {
    let rig = Rig::start(&[GREETS]).await;
    let mut caller = Double::call(&rig, json!({})).await;
    caller.returns_marks = false;
    caller.until("the greeting is heard", |double| double.played_ms() >= 700).await;
    let drained = rig.serving.drain(Duration::ZERO, std::future::pending());
    let (code, ()) = tokio::join!(caller.until_closed(), drained);
    assert_eq!((code, caller.unheard()), (1012, 0));
    rig.quiet().await;
}
