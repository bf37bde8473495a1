//! A caller who wants a human is sent to one by REFER (issue 7.3; A-128: nothing is said of a human
//! before one is there).

use serde_json::Value;

use crate::dialled::Dialling;
use crate::phone::{Heard, Phone, branch};

const SETTINGS: [&str; 6] = [
    "agent.default.greeting=\"\"",
    "limits.model.slots=0",
    "callback.offer=never",
    "handoff.offer=always",
    "handoff.refer_to=\"sip:desk@192.0.2.9\"",
    "asr.text=[\"What is for dinner?\", \"Hello?\", \"Hello?\", \"Yes please\"]",
];

/// A caller for whom there is no model, who has said that they want to speak to a human, and whose
/// telephone has been asked to ring one.
async fn sent_away() -> (Dialling, Phone, Heard) {
    let it = Dialling::with(&SETTINGS).await;
    let mut phone = Phone::call(&it.rig).await;
    // They are asked to try again before a human is offered.
    for _ in 0..3 {
        phone.speak(600);
        said_something(&mut phone).await;
    }
    phone.speak(600);
    let mut refer = None;
    phone
        .until("it is asked to ring the desk", |phone| {
            refer = phone.told_now().filter(|heard| heard.what() == "REFER");
            refer.is_some()
        })
        .await;
    (it, phone, refer.unwrap())
}

/// Waits until something was said and is over.
pub async fn said_something(phone: &mut Phone) {
    let (begun, mut heard, mut still) = (phone.heard_ms(), 0, 0);
    phone
        .until("something was said", |phone| {
            still = if phone.heard_ms() == heard { still + 1 } else { 0 };
            heard = phone.heard_ms();
            heard > begun && still >= 30
        })
        .await;
}

/// How far the telephone has come with the desk.
async fn notify(phone: &mut Phone, status: &str, state: &str) {
    let fragment = format!("SIP/2.0 {status}\r\n");
    let state = format!("Subscription-State: {state}");
    let fields = ["Event: refer", &state, "Content-Type: message/sipfrag;version=2.0"];
    phone.cseq += 1;
    let text = phone.write("NOTIFY", phone.cseq, &branch(), &fields, &fragment);
    phone.send_text(&text).await;
    let cseq = format!("{} NOTIFY", phone.cseq);
    while phone.until_told("200").await.field("CSeq") != Some(&cseq) {}
}

pub async fn agrees(phone: &Phone, refer: &Heard, status: u16) {
    let field = |name: &str| refer.field(name).unwrap();
    let (via, from, to) = (field("Via"), field("From"), field("To"));
    let (call_id, cseq) = (field("Call-ID"), field("CSeq"));
    let text = format!(
        "SIP/2.0 {status} Whatever\r\nVia: {via}\r\nFrom: {from}\r\nTo: {to}\r\n\
         Call-ID: {call_id}\r\nCSeq: {cseq}\r\nContent-Length: 0\r\n\r\n"
    );
    phone.send_text(&text).await;
}

pub async fn handoff(it: &Dialling, state: &str) -> Value {
    let promises = it.rig.service().promises().unwrap().clone();
    loop {
        let version = promises.version();
        let list = it.rig.get("/v1/handoffs").await.json();
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

pub async fn prompts(it: &Dialling) -> Vec<String> {
    let call = it.rig.get("/v1/calls").await.json()["calls"][0]["id"].as_str().unwrap().to_owned();
    let trace = it.rig.get(&format!("/v1/calls/{call}")).await.json()["trace"].clone();
    let lines = trace.as_array().unwrap().iter().filter_map(Value::as_str);
    let prompts = lines.filter(|line| line.contains("-> prompt "));
    prompts.filter_map(|line| line.rsplit(' ').next().map(str::to_owned)).collect()
}

#[tokio::test]
async fn a_caller_is_sent_to_the_desk() {
    let (it, mut phone, refer) = sent_away().await;
    assert_eq!(refer.field("Refer-To"), Some("<sip:desk@192.0.2.9>"));
    assert!(refer.field("Referred-By").is_some(), "{}", refer.text);
    agrees(&phone, &refer, 202).await;
    notify(&mut phone, "100 Trying", "active;expires=60").await;
    notify(&mut phone, "180 Ringing", "active;expires=59").await;
    assert!(!prompts(&it).await.contains(&"handoff_acknowledged".to_owned()), "nobody is there");
    notify(&mut phone, "200 OK", "terminated;reason=noresource").await;
    let handoff = handoff(&it, "connected").await;
    assert_eq!((&handoff["target"], &handoff["by"]), (&handoff["by"], &handoff["target"]));
    let bye = phone.until_told("BYE").await;
    agrees(&phone, &bye, 200).await;
    it.is_quiet().await;
}

/// The words are those of what happened, and the agent has the caller again.
#[tokio::test]
async fn a_desk_that_does_not_take_the_caller_is_told() {
    tokio::join!(
        is_told(202, "486 Busy Here", "busy"),
        is_told(202, "480 Temporarily Unavailable", "no_answer"),
        is_told(202, "603 Decline", "declined"),
        is_told(405, "", "declined"),
    );
}

/// The telephone agrees to ring the desk or not, and it came to this.
async fn is_told(agreed: u16, fragment: &str, state: &str) {
    let (it, mut phone, refer) = sent_away().await;
    agrees(&phone, &refer, agreed).await;
    if !fragment.is_empty() {
        notify(&mut phone, fragment, "terminated;reason=noresource").await;
    }
    handoff(&it, state).await;
    said_something(&mut phone).await;
    let prompts = prompts(&it).await;
    assert!(prompts.contains(&format!("handoff_{state}")), "{prompts:?}");
    phone.hang_up().await;
    it.is_quiet().await;
}

#[tokio::test]
async fn a_caller_who_leaves_first_is_on_record_as_that() {
    let (it, mut phone, refer) = sent_away().await;
    agrees(&phone, &refer, 202).await;
    phone.hang_up().await;
    handoff(&it, "caller_left").await;
    it.is_quiet().await;
}
