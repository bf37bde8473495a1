//! The call gate: before the stream's upgrade, and before the webhook's answer.

use std::time::Duration;

use floorkeeper::id::Stage;
use serde_json::json;

use crate::conversation::GREETS;
use crate::double::Double;
use crate::http::{self, Answer};
use crate::rig::{Rig, enabled, eventually};

const RING: &str = "CallSid=CA1&From=%2B15550100&To=%2B15550199&Caller=%2B15550100";

pub async fn ring(rig: &Rig, query: &str, headers: &[(&str, &str)]) -> Answer {
    let path = format!("/v1/twilio/voice{query}");
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    let headers: Vec<_> = headers.iter().copied().chain([form]).collect();
    http::ask(rig.serving.address, "POST", &path, &headers, RING).await
}

/// The address of the stream that a webhook's answer asks for.
pub fn stream_of(answer: &Answer) -> String {
    let text = answer.text();
    assert_eq!(answer.status, 200, "{text}");
    let address = text.split_once("<Stream url=\"").expect("a stream").1;
    address.split_once('"').unwrap().0.to_owned()
}

fn line_taken(rig: &Rig) -> u64 {
    rig.counts(Stage::Call).active
}

/// no room is told before the upgrade.
#[tokio::test]
async fn a_full_gate_refuses_the_stream_before_its_upgrade() {
    let rig = Rig::start(&["limits.call.slots=1", "limits.call.queue=0"]).await;
    let mut caller = Double::call(&rig, json!({})).await;
    let mut second = http::knock_at(rig.serving.address, "/v1/twilio", &[]).await;
    let refused = http::answer(&mut second).await;
    assert_eq!((refused.status, refused.code().as_str()), (429, "admission_capacity"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    rig.put("/v1/drain", &enabled(true)).await;
    let mut third = http::knock_at(rig.serving.address, "/v1/telnyx", &[]).await;
    let refused = http::answer(&mut third).await;
    assert_eq!((refused.status, refused.code().as_str()), (503, "draining"));
    caller.stop().await;
    rig.quiet().await;
}

/// Issue 7, *The calling experience of refusal*: the true prompt, in the agent's language.
#[tokio::test]
async fn a_full_gate_tells_the_caller_the_truth() {
    let german = "agent.amt.language=\"de\"";
    let settings = ["limits.call.slots=1", "limits.call.queue=0", german];
    let rig = Rig::start(&settings).await;
    let mut caller = Double::call(&rig, json!({})).await;
    let told = ring(&rig, "", &[]).await;
    assert_eq!((told.status, told.header("content-type")), (200, Some("text/xml; charset=utf-8")));
    let busy = "<Response><Say language=\"en\">All our lines are busy. Please call later.</Say>\
                <Hangup/></Response>";
    assert!(told.text().ends_with(busy), "{}", told.text());
    let told = ring(&rig, "?agent=amt", &[]).await.text();
    assert!(told.contains("<Say language=\"de\">"), "{told}");
    rig.put("/v1/drain", &enabled(true)).await;
    let told = ring(&rig, "", &[]).await.text();
    assert!(told.contains("We are not taking new calls. Please call later."), "{told}");
    caller.stop().await;
    rig.quiet().await;
}

/// Issue 7.1: who asks for it has the call rejected, which costs the caller nothing.
#[tokio::test]
async fn a_full_gate_rejects_the_call_where_that_is_wanted() {
    let settings = ["limits.call.slots=1", "limits.call.queue=0", "twilio.refuse=\"reject\""];
    let rig = Rig::start(&settings).await;
    let mut caller = Double::call(&rig, json!({})).await;
    let told = ring(&rig, "", &[]).await.text();
    assert!(told.ends_with("<Response><Reject reason=\"busy\"/></Response>"), "{told}");
    caller.stop().await;
    rig.quiet().await;
}

/// The webhook takes the line, the stream uses it: nobody is promised a stream that is refused.
#[tokio::test]
async fn the_webhook_takes_the_line_for_its_stream() {
    let shop = "agent.shop.greeting=\"This is the shop.\"";
    let settings = ["limits.call.slots=1", "limits.call.queue=0", GREETS, shop];
    let rig = Rig::start(&settings).await;
    let answer = ring(&rig, "?agent=shop&town=Ulm", &[]).await;
    let stream = stream_of(&answer);
    assert!(stream.starts_with(&format!("ws://{}/v1/twilio/seat/", rig.serving.address)));
    for (name, value) in [("agent", "shop"), ("town", "Ulm"), ("From", "+15550100")] {
        let parameter = format!("<Parameter name=\"{name}\" value=\"{value}\"/>");
        assert!(answer.text().contains(&parameter), "{}", answer.text());
    }
    assert_eq!(line_taken(&rig), 1);
    assert!(ring(&rig, "", &[]).await.text().contains("<Hangup/>"), "the only line is taken");
    // Its parameters come with its start, as the provider sends them.
    let mut caller = Double::at(&stream, json!({"From": "+15550100", "To": "+15550199"})).await;
    caller.until("the shop's greeting is heard", |double| double.played_ms() >= 400).await;
    assert_eq!((line_taken(&rig), caller.played_ms()), (1, 400));
    let path = stream.split_once("/v1").unwrap().1;
    let mut again = http::knock_at(rig.serving.address, &format!("/v1{path}"), &[]).await;
    assert_eq!(http::answer(&mut again).await.code(), "unknown_seat", "a seat is taken once");
    caller.stop().await;
    rig.quiet().await;
}

/// A stream that never comes gives its line back.
#[tokio::test]
async fn a_line_is_kept_for_a_bounded_time() {
    let rig = Rig::start(&["twilio.stream_within_ms=1000", "limits.call.slots=1"]).await;
    stream_of(&ring(&rig, "", &[]).await);
    assert_eq!(line_taken(&rig), 1);
    rig.quiet().await;
    let gate = rig.ledger("call").await;
    assert_eq!(gate["offered"], 1, "{gate:#}");
}

/// The webhook waits in the gate's queue, the caller hears it ringing; then the line is theirs.
#[tokio::test]
async fn a_webhook_waits_for_a_line_that_becomes_free() {
    let rig = Rig::start(&["limits.call.slots=1", "limits.call.queue=1"]).await;
    let mut first = Double::call(&rig, json!({})).await;
    eventually("the first has its line", || match line_taken(&rig) {
        1 => Ok(()),
        other => Err(format!("{other} taken")),
    })
    .await;
    let hang_up = async {
        eventually("the second waits", || match rig.counts(Stage::Call).queued {
            1 => Ok(()),
            other => Err(format!("{other} wait")),
        })
        .await;
        first.stop().await;
    };
    let (answer, ()) = tokio::join!(ring(&rig, "", &[]), hang_up);
    let mut second = Double::at(&stream_of(&answer), json!({})).await;
    second.until("it is connected", |double| double.came.is_empty()).await;
    second.stop().await;
    rig.quiet().await;
}

/// A stream that is opened and never says its start gives its line back.
#[tokio::test]
async fn a_stream_without_a_start_is_no_call() {
    let rig = Rig::start(&[]).await;
    let mut silent = Double::connected(&format!("ws://{}/v1/twilio", rig.serving.address)).await;
    for _ in 0..20 {
        silent.send_sound(&[0xff; 160]).await;
    }
    assert_eq!(silent.until_closed().await, 1002);
    rig.quiet().await;
    assert_eq!(rig.get("/v1/calls").await.json()["calls"].as_array().map(Vec::len), Some(0));
    tokio::time::timeout(Duration::from_secs(20), rig.quiet()).await.unwrap();
}
