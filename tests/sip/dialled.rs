//! Callbacks that the server dials: whom it rings is a telephone of ours (issue 7.3 and 7.5).

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use floorkeeper::id::Stage;
use floorkeeper::runtime::backends::Backends;
use floorkeeper::runtime::promises;
use serde_json::{Value, json};
use tokio::net::UdpSocket;

use crate::http::{self, Answer};
use crate::phone::{Heard, Phone, serve_with};
use crate::rig::{Rig, eventually};

const GREETS: &str = "outbound.greeting=\"Good morning, you asked us to ring you.\"";
/// Eight words: 800 ms.
const GREETING_MS: usize = 800;

/// A server that dials, and the telephone that it rings.
pub struct Dialling {
    pub rig: Rig,
    pub phone: Phone,
    folder: PathBuf,
    pub invite: Option<Heard>,
}

impl Drop for Dialling {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder); // the next build's folder is cleaned with it
    }
}

impl Dialling {
    /// `PORT` in the settings is the telephone's.
    pub async fn with(settings: &[&str]) -> Dialling {
        Dialling::with_providers(settings, |_| {}).await
    }

    /// The same with other providers.
    pub async fn with_providers(settings: &[&str], change: impl FnOnce(&mut Backends)) -> Dialling {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("dialled-{}-{number}", std::process::id());
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let port = socket.local_addr().unwrap().port().to_string();
        let usual = [
            format!("store.path={:?}", folder.join("callbacks.db")),
            "callback.dialler=\"sip\"".to_owned(),
            "callback.attempts_max=1".to_owned(),
            "outbound.from=\"+15550199\"".to_owned(),
            "outbound.allow=[\"sip:ada@127.0.0.1:PORT\", \"+1555\"]".to_owned(),
            GREETS.to_owned(),
        ];
        let settings = usual.into_iter().chain(settings.iter().map(|text| (*text).to_owned()));
        let settings: Vec<String> = settings.map(|text| text.replace("PORT", &port)).collect();
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let rig = serve_with(&settings, change).await;
        promises::open(&rig.serving.service).await.unwrap_or_else(|e| panic!("{e}"));
        let mut phone = Phone::new(&rig).await;
        phone.sip = socket;
        Dialling { rig, phone, folder, invite: None }
    }

    async fn ask(&self, destination: &str) -> Answer {
        let wanted = json!({
            "destination": destination,
            "why": "overloaded",
            "consent": {"asked": "Shall we ring you back?", "said": "Yes please."},
        });
        let to = self.rig.serving.address;
        http::ask(to, "POST", "/v1/callbacks", &[], &wanted.to_string()).await
    }

    /// A callback to the telephone, and its name.
    async fn wanted(&self) -> String {
        let port = self.phone.sip.local_addr().unwrap().port();
        self.wanted_at(&format!("sip:ada@127.0.0.1:{port}")).await
    }

    async fn wanted_at(&self, destination: &str) -> String {
        let answer = self.ask(destination).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    async fn record(&self, id: &str) -> Value {
        self.rig.get(&format!("/v1/callbacks/{id}")).await.json()
    }

    /// Waits until the record is so.
    async fn until(&self, id: &str, state: &str) -> Value {
        let promises = self.rig.service().promises().unwrap().clone();
        loop {
            let version = promises.version();
            let record = self.record(id).await;
            if record["state"] == state {
                return record;
            }
            let ended = ["connected", "no_answer", "voicemail", "failed", "expired"];
            let is_over = ended.iter().any(|one| record["state"] == *one);
            assert!(!is_over, "{record:#}");
            promises.wait_for_change(version, crate::rig::LIMIT).await;
            assert_ne!(promises.version(), version, "nothing changes: {record:#}");
        }
    }

    pub async fn rings(&mut self) -> Heard {
        let invite = self.phone.until_told("INVITE").await;
        self.invite = Some(invite.clone());
        invite
    }

    /// What the telephone says to the INVITE.
    pub async fn says(&self, status: u16, more: &str, body: &str) {
        let invite = self.invite.as_ref().expect("it rings");
        let field = |name: &str| invite.field(name).unwrap();
        let (via, from, to) = (field("Via"), field("From"), field("To"));
        let (call_id, cseq) = (field("Call-ID"), field("CSeq"));
        let text = format!(
            "SIP/2.0 {status} Whatever\r\nVia: {via}\r\nFrom: {from}\r\nTo: {to};tag=ada\r\n\
             Call-ID: {call_id}\r\nCSeq: {cseq}\r\nContact: {}\r\n{more}Content-Length: {}\r\n\r\n{body}",
            self.phone.contact(),
            body.len()
        );
        self.phone.send_text(&text).await;
    }

    /// Somebody takes the receiver.
    pub async fn answers(&mut self) {
        let offer = self.phone.offer("0", "sendrecv");
        self.says(200, "Content-Type: application/sdp\r\n", &offer).await;
        self.phone.until_told("ACK").await;
        let invite = self.invite.clone().expect("it rings");
        self.phone.call_id = invite.field("Call-ID").unwrap().to_owned();
        self.phone.from = format!("{};tag=ada", invite.field("To").unwrap());
        self.phone.to = invite.field("From").unwrap().to_owned();
        self.phone.uri = invite.field("Contact").unwrap().trim_matches(['<', '>']).to_owned();
        let port = invite.sound_port();
        self.phone.sound_to = Some((self.phone.server.ip(), port).into());
    }

    /// No unit of a call is held, and no dialog lives.
    pub async fn is_quiet(&self) {
        eventually("nothing is left", || {
            let calls = self.rig.counts(Stage::Call);
            let dialogs = self.rig.service().sip().expect("sip.listen").dialogs().0;
            match (calls.active, calls.quarantined, dialogs) {
                (0, 0, 0) => Ok(()),
                left => Err(format!("{left:?}")),
            }
        })
        .await;
    }

    /// The server hangs up, and is answered.
    pub async fn is_hung_up_on(&mut self) {
        self.invite = Some(self.phone.until_told("BYE").await);
        let bye = self.invite.clone().unwrap();
        assert!(bye.field("To").unwrap().contains("tag=ada"), "{}", bye.text);
        self.says(200, "", "").await;
    }
}

/// A person says hello, is on record as reached, and is spoken with as every caller.
#[tokio::test]
async fn who_answers_a_callback_is_spoken_with() {
    let mut it = Dialling::with(&[]).await;
    let id = it.wanted().await;
    let invite = it.rings().await;
    let port = it.phone.sip.local_addr().unwrap().port();
    assert!(invite.text.starts_with(&format!("INVITE sip:ada@127.0.0.1:{port} SIP/2.0\r\n")));
    assert!(invite.field("From").unwrap().starts_with("<sip:+15550199@"), "{}", invite.text);
    it.says(180, "", "").await;
    it.answers().await;
    it.phone.speak(400);
    it.phone.until("the greeting is heard", |phone| phone.heard_ms() >= GREETING_MS).await;
    let record = it.until(&id, "connected").await;
    assert_eq!((&record["attempts"], &record["detail"]), (&json!(1), &json!("sip")));
    it.phone.speak(900);
    it.phone.until("the answer is heard", |phone| phone.heard_ms() > GREETING_MS + 300).await;
    let calls = it.rig.get("/v1/calls").await.json();
    assert_eq!(calls["calls"][0]["transport"], "sip", "{calls:#}");
    it.phone.hang_up().await;
    it.is_quiet().await;
}

/// Issue 7.5: a mailbox is `voicemail`, never `connected`, and hears nothing.
#[tokio::test]
async fn a_mailbox_is_never_reached() {
    let mut it = Dialling::with(&[]).await;
    let id = it.wanted().await;
    it.rings().await;
    it.answers().await;
    it.phone.speak(4_000);
    let record = {
        let mut phone = std::mem::replace(&mut it.phone, Phone::new(&it.rig).await);
        let (record, ()) = tokio::join!(
            it.until(&id, "voicemail"),
            phone.until("it is hung up", |phone| phone.mouth_is_empty())
        );
        it.phone = phone;
        record
    };
    assert_eq!(record["shelf"], "dead", "it was promised and not done: {record:#}");
    assert_eq!(it.phone.heard_ms(), 0, "nothing is said to a machine");
    it.is_hung_up_on().await;
    it.is_quiet().await;
}

/// Busy, refused, and nobody there: each has its own word, and every unit comes back.
#[tokio::test]
async fn who_cannot_be_reached_is_on_record_as_that() {
    for (status, state, detail) in [
        (486, "no_answer", "busy"),
        (480, "no_answer", "it rang, and nobody came"),
        (603, "no_answer", "declined"),
        (404, "failed", "refused with SIP 404"),
    ] {
        let mut it = Dialling::with(&[]).await;
        let id = it.wanted().await;
        it.rings().await;
        it.says(status, "", "").await;
        it.phone.until_told("ACK").await;
        let record = it.until(&id, state).await;
        assert_eq!(record["detail"], detail);
        assert_eq!(it.rig.counts(Stage::Call).active, 0, "{status}");
        it.is_quiet().await;
    }
}

/// It rings for a bounded time, and is then taken back.
#[tokio::test]
async fn who_does_not_come_is_rung_for_a_bounded_time() {
    let mut it = Dialling::with(&["outbound.ring_ms=1000"]).await;
    let id = it.wanted().await;
    it.rings().await;
    it.says(180, "", "").await;
    let cancel = it.phone.until_told("CANCEL").await;
    assert_eq!(cancel.field("CSeq"), Some("1 CANCEL"));
    it.says(487, "", "").await;
    it.phone.until_told("ACK").await;
    it.until(&id, "no_answer").await;
    it.is_quiet().await;
}

/// A trunk asks for a password.
#[tokio::test]
async fn numbers_are_rung_through_the_trunk() {
    let trunk = ["sip.trunk=\"127.0.0.1:PORT\"", "sip.trunk_user=\"us\"", PASSWORD];
    let mut it = Dialling::with(&trunk).await;
    let id = it.wanted_at("+1 555 0100 200").await;
    let invite = it.rings().await;
    let port = it.phone.sip.local_addr().unwrap().port();
    let uri = format!("sip:+15550100200@127.0.0.1:{port};user=phone");
    assert!(invite.text.starts_with(&format!("INVITE {uri} ")), "{}", invite.text);
    let ask = "Proxy-Authenticate: Digest realm=\"trunk\", nonce=\"n\", qop=\"auth\"\r\n";
    it.says(407, ask, "").await;
    it.phone.until_told("ACK").await;
    let again = it.rings().await;
    let said = again.field("Proxy-Authorization").expect("a password").to_owned();
    assert!(said.starts_with("Digest username=\"us\", realm=\"trunk\", nonce=\"n\""), "{said}");
    it.says(486, "", "").await;
    it.phone.until_told("ACK").await;
    it.until(&id, "no_answer").await;
    it.is_quiet().await;
}

/// A variable that every test process has.
const PASSWORD: &str = "sip.trunk_password_env=\"CARGO_MANIFEST_DIR\"";

/// Issue 7.5: nothing is dialled that the configuration does not allow, and nothing of that kind is
/// promised.
#[tokio::test]
async fn what_may_not_be_dialled_is_not_promised() {
    let it = Dialling::with(&["outbound.deny=[\"+15556\"]"]).await;
    for (destination, why) in [
        ("+33123456789", "number_not_allowed"),
        ("sip:bob@127.0.0.1:5060", "number_not_allowed"),
        ("+15556660100", "number_denied"),
        ("+19005550100", "premium_number"),
        ("sip:911@127.0.0.1", "emergency_number"),
    ] {
        let answer = it.ask(destination).await;
        assert!(answer.status >= 400, "{destination}: {answer:?}");
        assert!(answer.text().contains(why), "{destination}: {answer:?}");
    }
    assert_eq!(it.rig.counts(Stage::Callback).active, 0);
    it.is_quiet().await;
}

/// An hour has room for so many dials; the next one waits.
#[tokio::test]
async fn dials_of_an_hour_are_bounded() {
    let mut it = Dialling::with(&["outbound.per_hour=1"]).await;
    let first = it.wanted().await;
    it.rings().await;
    it.says(486, "", "").await;
    it.phone.until_told("ACK").await;
    it.until(&first, "no_answer").await;
    let second = it.wanted().await;
    let record = loop {
        let version = it.rig.service().promises().unwrap().version();
        let record = it.record(&second).await;
        if record["detail"] == "dials_per_hour" {
            break record;
        }
        it.rig.service().promises().unwrap().wait_for_change(version, crate::rig::LIMIT).await;
    };
    assert_eq!((&record["state"], &record["attempts"]), (&json!("accepted"), &json!(0)));
    let waits_ms = record["due_ms"].as_u64().unwrap() - record["changed_ms"].as_u64().unwrap();
    assert!((3_500_000..=3_600_000).contains(&waits_ms), "{record:#}");
}
