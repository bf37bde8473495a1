//! The caller takes the floor: by voice, by a key, or not at all.

use std::time::Duration;

use serde_json::json;

use crate::double::{Came, Double};
use crate::providers::last_words;
use crate::rig::{Rig, STORY};

/// The double plays so much at a time.
const TICK_MS: usize = 20;

/// The caller interrupts at about two seconds of the story; gives what was heard, in milliseconds.
async fn interrupt(caller: &mut Double) -> usize {
    caller.press('7').await;
    caller.press('#').await;
    caller.until("two seconds are heard", |double| double.played_ms() >= 2_000).await;
    assert_eq!(caller.last_clear(), None);
    caller.speak(1_200);
    caller.until("the far end is cleared", |double| double.last_clear().is_some()).await;
    caller.played_ms()
}

/// Nothing of an answer follows the clear that ended it: the next sound is followed by the mark of
/// another item, as the first frame of every item is.
fn assert_fenced(caller: &Double) {
    let clear = caller.last_clear().expect("a clear");
    let item = |name: &str| name.split('.').next().unwrap().to_owned();
    let old = caller.came[..clear].iter().rev().find_map(|came| match came {
        Came::Mark(name) => Some(item(name)),
        _ => None,
    });
    let behind = &caller.came[clear + 1..];
    let Some(first) = behind.iter().position(|came| matches!(came, Came::Sound(_))) else {
        panic!("nothing was answered: {behind:?}");
    };
    match &behind[first + 1] {
        Came::Mark(name) => assert_ne!(Some(item(name)), old, "{behind:?}"),
        other => panic!("{other:?} behind the first frame of an item"),
    }
}

/// The history of the next request holds what was heard: whole words of 100 ms each.
fn assert_heard(rig: &Rig, question: &str, heard_ms: usize) {
    let request = rig.model.asked(question).unwrap_or_else(|| panic!("{question} was not asked"));
    let words = last_words(&request);
    assert!(STORY.starts_with(words), "{words}");
    let words = words.split(' ').count();
    assert!(
        words * 100 <= heard_ms + 100 && words * 100 + 400 >= heard_ms,
        "{words} words of {heard_ms} ms"
    );
}

/// DESIGN 4, *Barge-in*: cleared at the pause, fenced at the confirmation, history as heard.
#[tokio::test]
async fn a_barge_in_clears_the_far_end_and_history_is_what_was_heard() {
    let rig = Rig::telling_stories(&[]).await;
    let mut caller = Double::call(&rig, json!({})).await;
    let heard_ms = interrupt(&mut caller).await;
    caller.until("the next answer begins", |double| double.played_ms() >= heard_ms + 400).await;
    assert_fenced(&caller);
    assert!(heard_ms < 2_000 + 1_000, "cleared {heard_ms} ms into the story");
    assert_heard(&rig, "What happened then?", heard_ms);
    caller.stop().await;
    rig.quiet().await;
}

/// The far end is 300 ms away: what is still on the way when the caller speaks was not heard, and
/// marks returned by the clear are no evidence that it was.
#[tokio::test]
async fn a_far_end_that_lags_does_not_make_words_heard() {
    let rig = Rig::telling_stories(&[]).await;
    let mut caller = Double::call(&rig, json!({})).await;
    caller.way = Duration::from_millis(300);
    let heard_ms = interrupt(&mut caller).await;
    caller.until("the next answer begins", |double| double.played_ms() >= heard_ms + 700).await;
    let request = rig.model.asked("What happened then?").expect("a second turn");
    let count = last_words(&request).split(' ').count();
    assert!(count * 100 <= heard_ms + 100, "{count} words of {heard_ms} ms");
    caller.stop().await;
    rig.quiet().await;
}

/// "mm-hmm": the far end is silent at once, and the story goes on where it was heard, without a gap
/// and without a word twice.
async fn goes_on(interrupted_at_ms: usize) {
    let settings = ["asr.text=\"mm-hmm\"", "llm.reply=\"One two three four five six.\""];
    let greeting = "agent.default.greeting=\"One two three four five six seven eight nine ten \
                    eleven twelve thirteen fourteen fifteen sixteen.\"";
    let rig = Rig::start(&[settings[0], settings[1], greeting]).await;
    let mut caller = Double::call(&rig, json!({})).await;
    caller.until("some is heard", |double| double.played_ms() >= interrupted_at_ms).await;
    caller.speak(200);
    caller.until("the far end is silent", |double| double.last_clear().is_some()).await;
    let paused_at = caller.played_ms();
    assert!(paused_at < 1_600, "{paused_at} ms were heard before the pause");
    // The server goes by its clock between two marks; a busy machine plays a tick later.
    let all = |double: &Double| double.played_ms() + TICK_MS >= 1_600 && double.unheard() == 0;
    caller.until("all of it is heard", all).await;
    let clears = caller.came.iter().filter(|came| **came == Came::Clear).count();
    assert_eq!(clears, 1, "nothing was cleared for good");
    let bytes =
        caller.came.iter().map(|came| if let Came::Sound(bytes) = came { *bytes } else { 0 });
    // What was sent again is what had not been heard: at most the lead and the double's ticks.
    let again = bytes.sum::<usize>() / 8 - 1_600;
    assert!((20..=260).contains(&again), "{again} ms were sent again");
    let heard_ms = caller.played_ms() + caller.unheard() / 8;
    assert!(heard_ms <= 1_600 + 100, "{heard_ms} ms of 1600 were heard");
    caller.stop().await;
    rig.quiet().await;
}

#[tokio::test]
async fn a_rejected_barge_in_goes_on_from_what_was_heard() {
    goes_on(500).await;
}

/// All of it was sent already: what the pause has thrown away at the far end still comes.
#[tokio::test]
async fn a_rejected_barge_in_into_the_last_words_loses_none_of_them() {
    goes_on(1_420).await;
}

/// Issue 7, point 6: a key interrupts, and the keys are a turn.
#[tokio::test]
async fn a_key_takes_the_floor_and_is_a_turn() {
    let rig = Rig::telling_stories(&[]).await;
    let mut caller = Double::call(&rig, json!({})).await;
    caller.speak(900);
    caller.until("a second is heard", |double| double.played_ms() >= 1_000).await;
    caller.press('4').await;
    caller.until("the far end is cleared", |double| double.last_clear().is_some()).await;
    let heard_ms = caller.played_ms();
    caller.press('#').await;
    caller.until("the next answer begins", |double| double.played_ms() >= heard_ms + 400).await;
    assert_fenced(&caller);
    assert_heard(&rig, "Keys pressed: 4#", heard_ms);
    caller.stop().await;
    rig.quiet().await;
}
