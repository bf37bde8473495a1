//! A call over Asterisk's WebSocket channel: greeted, heard, answered, interrupted, ended.

use futures_util::SinkExt;
use futures_util::future::join_all;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::double::{Came, Channel, Dialled, JSON, TEXT};
use crate::providers::last_words;
use crate::rig::{REPLY, Rig, STORY};

/// Seven words: 700 ms.
pub const GREETING: &str = "Good morning, how can I help you?";
pub const GREETS: &str = "agent.default.greeting=\"Good morning, how can I help you?\"";

/// Issue 7, point 4: greeted, one spoken turn, one answer, in both ways of writing control.
#[tokio::test]
async fn a_caller_is_greeted_heard_and_answered() {
    let rig = Rig::start(&[GREETS]).await;
    join_all([TEXT, JSON].map(|dialled| talk(&rig, dialled))).await;
    assert_eq!(rig.model.times_asked(), 2);
    let request = rig.model.asked("What happened then?").expect("a spoken turn");
    assert_eq!(last_words(&request), GREETING, "the greeting was heard to its end");
    rig.quiet().await;
}

async fn talk(rig: &Rig, dialled: Dialled) {
    let mut caller = Channel::dial(rig, dialled).await;
    caller.until("the greeting is heard", |channel| channel.played_ms() >= 700).await;
    let answered = Came::Command("ANSWER".into(), String::new());
    assert_eq!(caller.came[0], answered, "{dialled:?}");
    assert!(matches!(caller.came[1], Came::Sound(_)), "{:?}", caller.came[1]);
    caller.speak(900);
    let all = 700 + REPLY.split(' ').count() * 100;
    caller.until("the answer is heard", |channel| channel.played_ms() >= all).await;
    assert_eq!((caller.played_ms(), caller.queued()), (all, 0));
    caller.hang_up().await;
}

/// DESIGN 4, *Barge-in* and *Heard*: the queue is flushed, the marks in it never come back, and
/// history is what was played.
#[tokio::test]
async fn a_barge_in_flushes_and_history_is_what_was_heard() {
    let rig = Rig::telling_stories(&[]).await;
    let mut caller = Channel::dial(&rig, TEXT).await;
    caller.press('7').await;
    caller.press('#').await;
    caller.until("two seconds are heard", |channel| channel.played_ms() >= 2_000).await;
    assert_eq!(caller.told("FLUSH_MEDIA"), 0);
    caller.speak(1_200);
    caller.until("it is flushed", |channel| channel.told("FLUSH_MEDIA") > 0).await;
    let heard_ms = caller.played_ms();
    assert!(heard_ms < 3_000, "flushed {heard_ms} ms into the story");
    caller.until("the next answer begins", |channel| channel.played_ms() >= heard_ms + 400).await;
    let request = rig.model.asked("What happened then?").expect("a second turn");
    let words = last_words(&request);
    assert!(STORY.starts_with(words), "{words}");
    let words_ms = words.split(' ').count() * 100;
    assert!(
        words_ms <= heard_ms + 100 && words_ms + 400 >= heard_ms,
        "{words_ms} ms of words, {heard_ms} ms heard"
    );
    caller.hang_up().await;
    rig.quiet().await;
}

/// A cough: the queue is flushed at once, and the story goes on where it was heard.
#[tokio::test]
async fn a_rejected_barge_in_goes_on_from_what_was_heard() {
    let greeting = "agent.default.greeting=\"One two three four five six seven eight nine ten \
                    eleven twelve thirteen fourteen fifteen sixteen.\"";
    let rig = Rig::start(&["asr.text=\"mm-hmm\"", greeting]).await;
    let mut caller = Channel::dial(&rig, TEXT).await;
    caller.until("some is heard", |channel| channel.played_ms() >= 500).await;
    caller.speak(200);
    caller.until("it is silent", |channel| channel.told("FLUSH_MEDIA") > 0).await;
    // The server goes by its clock between two marks; a busy machine plays a tick later.
    let all = |channel: &Channel| channel.played_ms() + 20 >= 1_600 && channel.queued() == 0;
    caller.until("all of it is heard", all).await;
    assert_eq!(caller.told("FLUSH_MEDIA"), 1, "nothing was flushed for good");
    assert!(caller.played_ms() <= 1_700, "{} ms of 1600 were heard", caller.played_ms());
    caller.hang_up().await;
    rig.quiet().await;
}

/// Issue 7, point 6: a key interrupts, and the keys are a turn.
#[tokio::test]
async fn a_key_takes_the_floor_and_is_a_turn() {
    let rig = Rig::telling_stories(&[]).await;
    let mut caller = Channel::dial(&rig, JSON).await;
    caller.speak(900);
    caller.until("a second is heard", |channel| channel.played_ms() >= 1_000).await;
    caller.press('4').await;
    caller.until("it is flushed", |channel| channel.told("FLUSH_MEDIA") > 0).await;
    let heard_ms = caller.played_ms();
    caller.press('#').await;
    caller.until("the next answer begins", |channel| channel.played_ms() >= heard_ms + 400).await;
    assert!(rig.model.asked("Keys pressed: 4#").is_some());
    caller.hang_up().await;
    rig.quiet().await;
}

/// MEDIA_XOFF: nothing is sent until MEDIA_XON, and nothing is lost meanwhile.
#[tokio::test]
async fn a_full_queue_is_sent_nothing_until_it_has_room() {
    let rig = Rig::start(&[GREETS]).await;
    let mut caller = Channel::connect(&rig, TEXT).await;
    caller.levels = (6, 3);
    caller.is_stalled = true;
    let start = caller.start(json!({}));
    caller.say(start).await;
    caller.until("it is full", |channel| channel.queued() >= 6).await;
    // What crossed the XOFF on its way is no more than the lead, and some for a busy machine.
    let told = caller.event("STATUS", "queue_length", "6");
    caller.say(told).await;
    rig_settles(&mut caller).await;
    let crossed = caller.beyond;
    assert!(crossed < 25 * 160, "{crossed} bytes came to a full queue");
    rig_settles(&mut caller).await;
    assert_eq!(caller.beyond, crossed, "it was still sent something");
    caller.is_stalled = false;
    caller.levels.0 = usize::MAX;
    caller.until("all of it is heard", |channel| channel.played_ms() >= 700).await;
    assert_eq!(caller.played_ms(), 700);
    caller.hang_up().await;
    rig.quiet().await;
}

/// So long that the whole greeting would have been sent.
async fn rig_settles(caller: &mut Channel) {
    let began = tokio::time::Instant::now();
    caller.until("a second passes", |_| began.elapsed().as_millis() >= 1_000).await;
}

/// Issue 7, point 5: variables and parameters of the dialplan choose the agent and are known to it.
#[tokio::test]
async fn the_dialplan_chooses_the_agent_and_tells_it_who_calls() {
    let shop = [
        "agent.shop.greeting=\"This is the shop of {{call.param.town}}.\"",
        "agent.shop.instructions=\"You talk to {{call.from}}, who rang {{call.to}}.\"",
        "agent.shop.metadata.channel=\"{{call.param.channel_id}}\"",
        GREETS,
    ];
    let by_variables =
        (JSON, json!({"agent": "shop", "town": "Ulm", "from": "+15550100", "to": "+15550199"}));
    let query = "?agent=shop&town=Ulm&from=%2B15550100&to=%2B15550199";
    let by_address = (Dialled { query, ..TEXT }, json!({}));
    let by_number = "?to=shop&town=Ulm&from=%2B15550100";
    let by_number = (Dialled { query: by_number, ..JSON }, json!({"agent": "nobody"}));
    for (dialled, variables) in [by_variables, by_address, by_number] {
        let rig = Rig::start(&shop).await;
        let mut caller = Channel::connect(&rig, dialled).await;
        let start = caller.start(variables);
        caller.say(start).await;
        let greeted = |_: &Channel| {
            let call = rig.service().registry.find("call-1").map(|call| call.show().to_string());
            call.is_some_and(|call| call.contains("-> heard "))
        };
        caller.until("the shop's greeting is heard", greeted).await;
        caller.press('4').await;
        caller.press('#').await;
        caller.until("it is answered", |_| rig.model.asked("Keys pressed: 4#").is_some()).await;
        let request = rig.model.asked("Keys pressed: 4#").unwrap();
        assert_eq!(last_words(&request), "This is the shop of Ulm.");
        let number = if dialled.query.contains("to=shop") { "shop" } else { "+15550199" };
        let told = format!("You talk to +15550100, who rang {number}.");
        assert_eq!(request.instructions, told);
        let shown = rig.get("/v1/calls/call-1").await.json();
        assert_eq!((&shown["agent"], &shown["transport"]), (&json!("shop"), &json!("asterisk")));
        assert_eq!(shown["metadata"]["channel"], "1796010721.2", "{shown:#}");
        caller.hang_up().await;
        rig.quiet().await;
    }
}

/// A drain ends the call behind its goodbye: Asterisk is closed on, and hangs up.
#[tokio::test]
async fn the_last_words_are_heard_before_the_close() {
    let rig = Rig::start(&[GREETS]).await;
    let mut caller = Channel::dial(&rig, TEXT).await;
    caller.until("the greeting is heard", |channel| channel.played_ms() >= 700).await;
    let drained = rig.serving.drain(std::time::Duration::ZERO, std::future::pending());
    let (code, ()) = tokio::join!(caller.until_closed(), drained);
    assert_eq!((code, caller.queued()), (1012, 0));
    rig.quiet().await;
}

/// Who hangs up, or vanishes, in mid-answer: every unit comes back.
#[tokio::test]
async fn a_caller_who_hangs_up_in_mid_answer_ends_the_call() {
    let rig = Rig::telling_stories(&[]).await;
    join_all([false, true].map(|vanishes| leave(&rig, vanishes))).await;
    rig.quiet().await;
}

async fn leave(rig: &Rig, vanishes: bool) {
    let mut caller = Channel::dial(rig, TEXT).await;
    caller.speak(900);
    caller.until("the story is heard", |channel| channel.played_ms() >= 500).await;
    if !vanishes {
        caller.hang_up().await;
    }
}

/// Issue 7, *Bad input*: a little of it changes nothing, much of it ends its own call only.
#[tokio::test]
async fn what_makes_no_sense_ends_one_call_at_most() {
    let rig = Rig::telling_stories(&[GREETS]).await;
    let mut good = Channel::dial(&rig, JSON).await;
    join_all([TEXT, JSON].map(|dialled| make_no_sense(&rig, dialled))).await;
    good.speak(900);
    good.until("the story is told", |channel| channel.played_ms() >= 1_500).await;
    good.hang_up().await;
    rig.quiet().await;
}

async fn make_no_sense(rig: &Rig, dialled: Dialled) {
    let mut bad = Channel::dial(rig, dialled).await;
    let second_start = bad.start(json!({}));
    let nonsense = ["", "hello there", "{\"event\": 5}", "[]", &second_start, "DTMF_END digit:55"];
    for text in nonsense {
        bad.say(text.to_owned()).await;
    }
    let unknown = bad.event("WEATHER_CHANGED", "to", "rain");
    for _ in 0..100 {
        bad.say(unknown.clone()).await;
        // Half a sample, and nothing at all.
        bad.send_sound(vec![0; 1]).await;
        bad.send_sound(Vec::new()).await;
    }
    bad.until("the greeting is heard", |channel| channel.played_ms() >= 700).await;
    for text in nonsense.iter().cycle().take(60) {
        // The server may have ended it before the last one.
        if bad.socket.send(Message::text(*text)).await.is_err() {
            break;
        }
    }
    assert_eq!(bad.until_closed().await, 1008);
}

/// Sound before the start is nobody's; a start that never comes, or cannot be spoken, is no call.
#[tokio::test]
async fn a_call_that_cannot_begin_is_told_why() {
    let rig = Rig::start(&[GREETS]).await;
    let mut early = Channel::connect(&rig, TEXT).await;
    early.send_sound(vec![0; 160]).await;
    let start = early.start(json!({}));
    early.say(start).await;
    early.until("the greeting is heard", |channel| channel.played_ms() >= 700).await;
    early.hang_up().await;

    let mut endless = Channel::connect(&rig, TEXT).await;
    for _ in 0..16 {
        endless.send_sound(vec![0; 160]).await;
    }
    assert_eq!(endless.until_closed().await, 1002);

    for dialled in [
        Dialled { format: "opus", ..TEXT },
        Dialled { format: "slin192", ..JSON },
        Dialled { frame_bytes: 240, ..TEXT },
    ] {
        let mut refused = Channel::dial(&rig, dialled).await;
        assert_eq!(refused.until_closed().await, 1003, "{dialled:?}");
        assert_eq!(refused.told("HANGUP"), 1, "{:?}", refused.came);
        assert_eq!(refused.told("ANSWER"), 0, "{:?}", refused.came);
    }
    rig.quiet().await;
}

/// A message that no telephone sends.
#[tokio::test]
async fn an_oversize_message_ends_its_call() {
    let rig = Rig::start(&[GREETS]).await;
    let mut caller = Channel::dial(&rig, TEXT).await;
    caller.send_sound(vec![0; 70_000]).await;
    assert_eq!(caller.until_closed().await, 1009);
    rig.quiet().await;
}
