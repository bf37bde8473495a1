//! Who may ring only with a password.

use floorkeeper::transport::sip::{Count, Credentials, respond};

use crate::conversation::GREETS;
use crate::phone::{Phone, serve};

const USERS: &str =
    concat!("sip.users_file=\"", env!("CARGO_MANIFEST_DIR"), "/tests/data/sip-users.txt\"");

/// Rings, is asked, and answers so; what it is told then.
async fn ring(phone: &mut Phone, user: &str, password: &str) -> crate::phone::Heard {
    let offer = phone.offer("0", "sendrecv");
    let to = phone.to.clone();
    phone.invite(&offer, &[]).await;
    let asked = phone.final_answer().await;
    assert_eq!(asked.what(), "401", "{}", asked.text);
    phone.ack_refusal().await;
    phone.to = to;
    let challenge = asked.field("WWW-Authenticate").unwrap();
    let (user, password) = (user.to_owned(), password.to_owned());
    let credentials = Credentials { user, password };
    let answer = respond(challenge, &credentials, "INVITE", &phone.uri, "c").unwrap();
    phone.invite(&offer, &[&format!("Authorization: {answer}")]).await;
    phone.final_answer().await
}

/// Asked before there is any call; the right password is a call, a wrong one and a wrong name are
/// told the same.
#[tokio::test]
async fn a_password_is_asked_for_before_there_is_a_call() {
    let rig = serve(&[GREETS, USERS]).await;
    let mut phone = Phone::new(&rig).await;
    for (user, password) in [("ada", "wrong"), ("bob", "not-a-secret")] {
        let told = ring(&mut phone, user, password).await;
        assert_eq!(told.what(), "401");
        assert!(!told.field("WWW-Authenticate").unwrap().contains("stale"), "{}", told.text);
        phone.ack_refusal().await;
        phone.to = "<sip:agent@floorkeeper.example>".to_owned();
    }
    assert_eq!(rig.ledger("call").await["offered"], 0);
    let answer = ring(&mut phone, "ada", "not-a-secret").await;
    assert_eq!(answer.what(), "200", "{}", answer.text);
    phone.sound_to = Some(std::net::SocketAddr::new(phone.server.ip(), answer.sound_port()));
    phone.ack("").await;
    phone.until("the greeting is heard", |phone| phone.heard_ms() >= 700).await;
    // What is said within the call is not asked again.
    phone.hang_up().await;
    let counts = rig.service().sip().unwrap().counts();
    assert_eq!(counts.of(Count::Unproven), 5);
    rig.quiet().await;
}

/// A phone that registers is asked as well; OPTIONS is not, and peers are not.
#[tokio::test]
async fn peers_need_no_password_and_phones_do() {
    let rig = serve(&[USERS]).await;
    let mut phone = Phone::new(&rig).await;
    phone.ask("REGISTER", &[], "").await;
    assert_eq!(phone.next().await.what(), "401");
    phone.ask("OPTIONS", &[], "").await;
    assert_eq!(phone.next().await.what(), "200");
    rig.quiet().await;
    let rig = serve(&[USERS, "sip.peers=[\"127.0.0.0/8\"]"]).await;
    let mut phone = Phone::call(&rig).await;
    phone.hang_up().await;
    rig.quiet().await;
}
