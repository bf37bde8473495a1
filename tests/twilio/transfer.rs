//! A caller whom Twilio brings and who wants a human is handed to one whom Twilio rings (issue 7.1;
//! nothing is said of a human before one is there).

use serde_json::{Value, json};

use crate::api::{PUBLIC, Placed};
use crate::double::Double;
use crate::outgoing::Dialling;

const DESK: &str = "+15550100300";
const CALLER: &str = "CA1";
const SETTINGS: [&str; 7] = [
    "agent.default.greeting=\"\"",
    "limits.model.slots=0",
    "callback.dialler=\"none\"",
    "callback.offer=never",
    "handoff.offer=always",
    "handoff.twilio_to=\"+15550100300\"",
    "asr.text=[\"What is for dinner?\", \"Hello?\", \"Hello?\", \"Yes please\", \"No thanks\"]",
];

/// A caller for whom there is no model, who has said that they want to speak to a human, and a desk
/// that rings.
struct Waiting {
    it: Dialling,
    phone: Double,
    desk: Placed,
}

async fn waiting() -> Waiting {
    let it = Dialling::with(&SETTINGS).await;
    let twiml = it.twilio.brings(it.rig.serving.address, CALLER).await;
    let mut phone = it.telephone(&twiml).await;
    // They are asked to try again before a human is offered, and let nobody finish.
    for number in 1..=3 {
        phone.speak(900);
        let is_heard = |phone: &Double| prompts(&it).len() >= number && phone.buffered() > 0;
        phone.until("it is said", is_heard).await;
    }
    phone.speak(900);
    let (desk, ()) = tokio::join!(it.twilio.placed(1), said_something(&mut phone));
    assert_eq!((desk.field("To"), desk.field("From")), (DESK, "+15550199"));
    it.tells(&desk, "ringing", &[]).await;
    Waiting { it, phone, desk }
}

/// What the caller was told, one after the other.
fn prompts(it: &Dialling) -> Vec<String> {
    let record = it.rig.service().registry.find("call-1");
    let Some(record) = record.map(|record| record.show()) else { return Vec::new() };
    let lines = record["trace"].as_array().unwrap().iter().filter_map(Value::as_str);
    let prompts = lines.filter(|line| line.contains("-> prompt "));
    prompts.filter_map(|line| line.rsplit(' ').next().map(str::to_owned)).collect()
}

/// Waits until something was said and is over.
async fn said_something(phone: &mut Double) {
    let (begun, mut heard, mut still) = (phone.played_ms(), 0, 0);
    phone
        .until("something was said", |phone| {
            still = if phone.played_ms() == heard { still + 1 } else { 0 };
            heard = phone.played_ms();
            heard > begun && still >= 30
        })
        .await;
}

impl Waiting {
    async fn handoff(&self, state: &str) -> Value {
        let promises = self.it.rig.service().promises().unwrap().clone();
        loop {
            let version = promises.version();
            let list = self.it.rig.get("/v1/handoffs").await.json();
            let handoff = list["handoffs"][0].clone();
            if handoff["state"] == state {
                return handoff;
            }
            let is_open = ["offered", "acknowledged"].iter().any(|open| handoff["state"] == *open);
            assert!(is_open, "{list:#}");
            promises.wait_for_change(version, crate::rig::LIMIT).await;
            assert_ne!(promises.version(), version, "nothing changes: {list:#}");
        }
    }

    /// Somebody answers at the desk; gives what the caller's call is told then.
    async fn answers(&self) -> (String, Vec<(String, String)>) {
        assert!(!prompts(&self.it).contains(&"handoff_acknowledged".to_owned()));
        let told = self.it.answers(&self.desk, &[]).await;
        (told, self.change_of(CALLER, 0).await)
    }

    async fn change_of(&self, sid: &str, number: usize) -> Vec<(String, String)> {
        let change = |calls: &[Placed], _: &[String]| {
            let call = calls.iter().find(|call| call.sid == sid)?;
            call.changes.get(number).cloned()
        };
        self.it.twilio.until("a call is changed", change).await
    }

    async fn is_hung_up_on(&self) {
        let change = self.change_of(&self.desk.sid, 0).await;
        assert_eq!(change, [("Status".to_owned(), "completed".to_owned())]);
    }
}

/// All at once: what takes its time are the words that the callers hear.
#[tokio::test]
async fn callers_are_handed_over_or_told_what_is_true() {
    tokio::join!(
        a_caller_meets_the_desk(),
        a_desk_does_not_take_the_caller("busy", &[], "busy"),
        a_desk_does_not_take_the_caller("no-answer", &[], "no_answer"),
        a_desk_does_not_take_the_caller("failed", &[("SipResponseCode", "603")], "declined"),
        a_caller_leaves_first(),
        a_caller_wants_nobody_any_more(),
        a_desk_has_gone_before_the_caller_comes(),
    );
}

async fn a_caller_meets_the_desk() {
    let mut call = waiting().await;
    let (told, change) = call.answers().await;
    let room = told.split_once("<Conference").expect("a room").1;
    let (key, twiml) = &change[0];
    assert_eq!((key.as_str(), change.len()), ("Twiml", 1));
    assert_eq!(twiml.split_once("<Conference").expect("a room").1, room, "the same one");
    // The stream ends with that, and the caller has not hung up.
    call.phone.stop().await;
    assert_eq!(call.phone.until_closed().await, 1000);
    assert_eq!(call.handoff("offered").await["by"], "", "nobody says yet that they speak");
    call.it.twilio.joins(call.it.rig.serving.address, &call.desk, CALLER).await;
    let handoff = call.handoff("connected").await;
    assert_eq!((&handoff["target"], &handoff["by"]), (&json!(DESK), &json!(DESK)));
    call.it.is_quiet().await;
    let changes = call.it.twilio.placed(1).await.changes;
    assert!(changes.is_empty(), "nobody hangs up on the desk: {changes:?}");
}

/// The words are those of what happened, and the agent has the caller all the time.
async fn a_desk_does_not_take_the_caller(status: &str, more: &[(&str, &str)], state: &str) {
    let mut call = waiting().await;
    call.it.tells(&call.desk, status, more).await;
    call.handoff(state).await;
    let told = format!("handoff_{state}");
    call.phone.until(&told, |_| prompts(&call.it).contains(&told)).await;
    call.phone.stop().await;
    call.it.is_quiet().await;
    assert!(call.it.twilio.placed(0).await.changes.is_empty(), "they never left their stream");
}

async fn a_caller_leaves_first() {
    let mut call = waiting().await;
    call.phone.stop().await;
    call.handoff("caller_left").await;
    call.is_hung_up_on().await;
    call.it.is_quiet().await;
}

async fn a_caller_wants_nobody_any_more() {
    let Waiting { it, mut phone, desk } = waiting().await;
    phone.speak(600);
    let hung_up = it.twilio.until("the desk is hung up on", |calls, _| {
        calls.iter().find(|one| one.sid == desk.sid)?.changes.first().cloned()
    });
    tokio::select! {
        _ = hung_up => {}
        () = phone.until("something else", |_| false) => {}
    }
    phone.stop().await;
    it.is_quiet().await;
}

/// The caller is on their way, and nobody is there any more: they are sent to us again.
async fn a_desk_has_gone_before_the_caller_comes() {
    let mut call = waiting().await;
    call.answers().await;
    call.phone.stop().await;
    call.it.tells(&call.desk, "completed", &[]).await;
    let back = call.change_of(CALLER, 1).await;
    assert_eq!(back[0], ("Url".to_owned(), format!("{PUBLIC}/v1/twilio/voice")));
    call.handoff("caller_left").await;
    call.it.is_quiet().await;
}
