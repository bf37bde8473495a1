//! The call gate: before anything is answered.

use floorkeeper::id::Stage;

use crate::conversation::GREETS;
use crate::phone::{Phone, serve};
use crate::rig::{Rig, enabled, eventually};

async fn ring(rig: &Rig) -> Phone {
    let mut phone = Phone::new(rig).await;
    let offer = phone.offer("0", "sendrecv");
    phone.invite(&offer, &[]).await;
    phone
}

async fn waits(rig: &Rig) {
    eventually("it waits", || match rig.counts(Stage::Call).queued {
        1 => Ok(()),
        other => Err(format!("{other} wait")),
    })
    .await;
}

/// no line for this call is 480, none for its tenant 486, none at all 503; each says when to
/// try again, and none of them is ever heard.
#[tokio::test]
async fn a_full_gate_refuses_before_anything_is_answered() {
    let rig = serve(&["limits.call.slots=1", "limits.call.queue=0"]).await;
    let mut first = Phone::call(&rig).await;
    let mut second = ring(&rig).await;
    assert_eq!(second.next().await.what(), "100");
    let refused = second.final_answer().await;
    assert_eq!((refused.what(), refused.field("Retry-After")), ("480", Some("1")));
    assert_eq!(second.until_told("480").await.text, refused.text, "said until it is acknowledged");
    second.ack_refusal().await;
    let offer = second.offer("0", "sendrecv");
    second.to = "<sip:agent@floorkeeper.example>".to_owned();
    second.invite(&offer, &[]).await;
    assert_eq!(second.final_answer().await.what(), "480", "who tries again is looked at again");
    second.ack_refusal().await;
    rig.put("/v1/drain", &enabled(true)).await;
    let mut third = ring(&rig).await;
    let refused = third.final_answer().await;
    assert_eq!((refused.what(), refused.field("Retry-After")), ("503", Some("5")));
    third.ack_refusal().await;
    first.hang_up().await;
    rig.quiet().await;
    let page = rig.get("/metrics").await.text();
    for line in [
        "floorkeeper_calls_refused_total{code=\"admission_capacity\"} 2",
        "floorkeeper_calls_refused_total{code=\"draining\"} 1",
        "floorkeeper_sip_dialogs{state=\"living\"} 0",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
}

/// where no call at all could be heard, the server is unavailable: 503, when to try again,
/// and it counts.
#[tokio::test]
async fn a_call_for_whose_sound_there_is_no_port_is_refused() {
    let (_taken, port) = loop {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        if port.is_multiple_of(2) {
            break (socket, port);
        }
    };
    let rig = serve(&[&format!("sip.rtp_ports=\"{port}-{port}\"")]).await;
    let mut phone = ring(&rig).await;
    let refused = phone.final_answer().await;
    assert_eq!((refused.what(), refused.field("Retry-After")), ("503", Some("5")));
    phone.ack_refusal().await;
    rig.quiet().await;
    let page = rig.get("/metrics").await.text();
    let counted = "floorkeeper_calls_refused_total{code=\"no_port\"} 1";
    assert!(page.contains(counted), "{page}");
}

/// A tenant at its share is busy; the node is not.
#[tokio::test]
async fn a_tenant_at_its_share_is_busy() {
    let rig = serve(&[
        "limits.call.slots=4",
        "limits.call.queue=0",
        "limits.call.fairness=hard_cap",
        "limits.call.tenant_share_pct=25",
        "sip.tenant=trunk",
    ])
    .await;
    let mut first = Phone::call(&rig).await;
    let mut second = ring(&rig).await;
    assert_eq!(second.final_answer().await.what(), "486");
    second.ack_refusal().await;
    first.hang_up().await;
    rig.quiet().await;
}

/// Who waits for a line hears it ringing, and has it as soon as it is free.
#[tokio::test]
async fn a_call_that_waits_rings_and_then_has_its_line() {
    let rig = serve(&["limits.call.slots=1", "limits.call.queue=1", GREETS]).await;
    let mut first = Phone::call(&rig).await;
    let mut second = ring(&rig).await;
    let ringing = second.until_told("180").await;
    assert!(ringing.field("To").unwrap().contains(";tag="));
    waits(&rig).await;
    first.hang_up().await;
    let answer = second.answered().await;
    assert_eq!(answer.field("To"), ringing.field("To"), "one tag in all that is told");
    second.until("the greeting is heard", |phone| phone.heard_ms() >= 700).await;
    second.hang_up().await;
    rig.quiet().await;
}

/// A caller who gives up while it rings: CANCEL is answered, the INVITE ends with 487, the place in
/// the queue is free.
#[tokio::test]
async fn a_caller_who_gives_up_leaves_no_place_behind() {
    let rig = serve(&["limits.call.slots=1", "limits.call.queue=1"]).await;
    let mut first = Phone::call(&rig).await;
    let mut second = ring(&rig).await;
    second.until_told("180").await;
    waits(&rig).await;
    second.cancel().await;
    let cancelled = second.until_told("200").await;
    assert_eq!(cancelled.field("CSeq"), Some("1 CANCEL"));
    let ended = second.final_answer().await;
    assert_eq!((ended.what(), ended.field("CSeq")), ("487", Some("1 INVITE")));
    second.ack_refusal().await;
    eventually("nobody waits", || match rig.counts(Stage::Call).queued {
        0 => Ok(()),
        other => Err(format!("{other} wait")),
    })
    .await;
    let mut third = ring(&rig).await;
    third.until_told("180").await;
    first.hang_up().await;
    third.answered().await;
    third.hang_up().await;
    rig.quiet().await;
}

/// OPTIONS and REGISTER are no calls: they pass no gate and are answered also when it is full.
#[tokio::test]
async fn what_is_no_call_is_answered_without_one() {
    let rig = serve(&["limits.call.slots=1", "limits.call.queue=0"]).await;
    let mut phone = Phone::new(&rig).await;
    phone.ask("OPTIONS", &[], "").await;
    let able = phone.next().await;
    assert_eq!((able.what(), able.field("Accept")), ("200", Some("application/sdp")));
    assert!(able.field("Allow").unwrap().contains("INVITE"));
    phone.ask("REGISTER", &["Expires: 600"], "").await;
    let registered = phone.next().await;
    assert_eq!((registered.what(), registered.field("Expires")), ("200", Some("600")));
    let contact = format!("{};expires=600", phone.contact());
    assert_eq!(registered.field("Contact"), Some(contact.as_str()));
    phone.ask("MESSAGE", &[], "").await;
    assert_eq!(phone.next().await.what(), "405");
    phone.ask("DANCE", &[], "").await;
    assert_eq!(phone.next().await.what(), "501");
    assert_eq!(rig.ledger("call").await["offered"], 0);
    rig.quiet().await;
}
