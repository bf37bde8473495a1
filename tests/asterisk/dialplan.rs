//! A caller who wants a human goes on in Asterisk's dialplan, which finds a variable of their call
//! (issue 7.1).

use std::path::PathBuf;
use std::sync::Arc;

use floorkeeper::id::Stage;
use floorkeeper::runtime::promises;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::double::{Channel, Dialled, TEXT};
use crate::rig::{Rig, eventually};
use crate::socket::{LISTENS, SLIN, Socket};

const SETTINGS: [&str; 9] = [
    LISTENS,
    "agent.default.greeting=\"\"",
    "limits.model.slots=0",
    "callback.offer=never",
    "handoff.offer=always",
    "handoff.dialplan=human",
    "asterisk.ari_user=floorkeeper",
    // A variable that every test process has.
    "asterisk.ari_password_env=CARGO_PKG_NAME",
    "asr.text=[\"What is for dinner?\", \"Hello?\", \"Hello?\", \"Yes please\"]",
];

/// `floorkeeper:floorkeeper`, in Base64.
const AUTHORIZATION: &str = "authorization: Basic Zmxvb3JrZWVwZXI6Zmxvb3JrZWVwZXI=";

/// A server, and a double of Asterisk's REST interface, which answers all with one status.
struct Exchange {
    rig: Rig,
    asked: Arc<watch::Sender<Vec<String>>>,
    folder: PathBuf,
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder); // the next build's folder is cleaned with it
    }
}

impl Exchange {
    async fn answering(name: &str, status: u16) -> Exchange {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(watch::Sender::new(Vec::new()));
        tokio::spawn(answer(listener, status, asked.clone()));
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("dialplan-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let url = format!("asterisk.ari_url=\"http://{address}/ari\"");
        let store = format!("store.path={:?}", folder.join("callbacks.db"));
        let settings: Vec<&str> = SETTINGS.into_iter().chain([&*url, &*store]).collect();
        let rig = Rig::start(&settings).await;
        promises::open(&rig.serving.service).await.unwrap_or_else(|e| panic!("{e}"));
        Exchange { rig, asked, folder }
    }

    /// What the caller was told, one after the other.
    fn prompts(&self) -> Vec<String> {
        let record = self.rig.service().registry.find("call-1");
        let Some(record) = record.map(|record| record.show()) else { return Vec::new() };
        let lines = record["trace"].as_array().unwrap().iter().filter_map(Value::as_str);
        let prompts = lines.filter(|line| line.contains("-> prompt "));
        prompts.filter_map(|line| line.rsplit(' ').next().map(str::to_owned)).collect()
    }

    fn asked(&self) -> Vec<String> {
        self.asked.borrow().clone()
    }

    /// No unit of a call is held.
    async fn is_quiet(&self) {
        eventually("no call is left", || match self.rig.counts(Stage::Call).active {
            0 => Ok(()),
            left => Err(left.to_string()),
        })
        .await;
    }

    async fn handoff(&self) -> Value {
        self.rig.get("/v1/handoffs").await.json()["handoffs"][0].clone()
    }
}

async fn answer(listener: TcpListener, status: u16, asked: Arc<watch::Sender<Vec<String>>>) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        assert!(head.contains(AUTHORIZATION), "{head}");
        let line = head.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
        asked.send_modify(|lines| lines.push(line));
        let text = format!("HTTP/1.1 {status} Whatever\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(text.as_bytes()).await.unwrap();
    }
}

/// The caller says four times what they want; the fourth is a yes to a human.
macro_rules! wants_a_human {
    ($it:expr, $phone:expr) => {
        for number in 1..=4 {
            $phone.speak(900);
            let told = |_: &_| $it.prompts().len() >= number;
            $phone.until("the next words", told).await;
        }
    };
}

fn set(call: &str, value: &str) -> String {
    format!("POST /ari/asterisk/variable?variable=FLOORKEEPER_{call}&value={value}")
}

const CALLED: Dialled = Dialled { query: "?call=1796010721.2", ..TEXT };

/// The variable is set before the call's media ends, with which the dialplan goes on.
#[tokio::test]
async fn a_caller_goes_on_in_the_dialplan() {
    tokio::join!(over_the_channel(), over_audiosocket(), who_cannot_go_on_is_told());
}

async fn over_the_channel() {
    let it = Exchange::answering("channel", 204).await;
    let mut phone = Channel::dial(&it.rig, CALLED).await;
    wants_a_human!(it, phone);
    phone.until_closed().await;
    assert_eq!(it.asked(), [set("1796010721.2", "human")]);
    let handoff = it.handoff().await;
    assert_eq!((&handoff["state"], &handoff["target"]), (&"connected".into(), &"human".into()));
    it.is_quiet().await;
}

async fn over_audiosocket() {
    let it = Exchange::answering("audiosocket", 204).await;
    let mut phone = Socket::call(&it.rig, SLIN, 320).await;
    wants_a_human!(it, phone);
    phone.until("it is hung up", |socket| socket.hung_up).await;
    assert_eq!(it.asked(), [set("7f7f7f7f-7f7f-7f7f-7f7f-7f7f7f7f7f7f", "human")]);
    assert_eq!(it.handoff().await["state"], "connected");
    it.is_quiet().await;
}

/// Asterisk does not take it: the words are true, the agent has the caller, and the dialplan is not
/// told to go on when the call ends otherwise.
async fn who_cannot_go_on_is_told() {
    let it = Exchange::answering("refused", 500).await;
    let mut phone = Channel::dial(&it.rig, CALLED).await;
    wants_a_human!(it, phone);
    let told = |_: &Channel| it.prompts().contains(&"handoff_declined".to_owned());
    phone.until("they are told", told).await;
    assert_eq!(it.asked(), [set("1796010721.2", "human"), set("1796010721.2", "")]);
    assert_eq!(it.handoff().await["state"], "declined");
    phone.hang_up().await;
    it.is_quiet().await;
}
