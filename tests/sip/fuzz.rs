//! Nearly right input at a port that takes calls: nobody else notices, and nothing of it is left.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use floorkeeper::transport::sip::Count;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream, UdpSocket};
use tokio::time::Instant;

use crate::conversation::GREETS;
use crate::mutate::{Dice, corpus, mutated};
use crate::phone::{PCMU, Phone, rtp, serve};
use crate::rig::Rig;

/// In all tests of every change; `FLOORKEEPER_FUZZ_S` says otherwise.
const USUAL_S: u64 = 8;
/// Messages between two frames of a caller's.
const BURST: usize = 20;
/// And between two bursts.
const PAUSE: Duration = Duration::from_millis(5);
/// A call that all of it is about does not live long.
const MESSAGES_EACH: u64 = 4_000;
/// Who was not answered by then rings anew.
const AGAIN: Duration = Duration::from_millis(500);
/// Dialogs of one address.
const DIALOGS_MAX: usize = 64;

/// Not the address of those whose calls are to be served.
const FOOLS: &str = "127.0.0.2:0";

/// Messages of the corpus that say they are of this call.
fn of_call(seeds: &[Vec<u8>], phone: &Phone) -> Vec<Vec<u8>> {
    let tag = |field: &str| field.rsplit_once("tag=").map_or("", |(_, tag)| tag).to_owned();
    let words = [
        ("c1@192.0.2.7".to_owned(), phone.call_id.clone()),
        (";tag=ours".to_owned(), format!(";tag={}", tag(&phone.to))),
        (";tag=a".to_owned(), format!(";tag={}", tag(&phone.from))),
    ];
    let text = |seed: &Vec<u8>| {
        let text = String::from_utf8_lossy(seed).into_owned();
        words.iter().fold(text, |text, (from, to)| text.replace(from, to)).into_bytes()
    };
    seeds.iter().map(text).collect()
}

/// Panics of any task of this process.
fn panics() -> Arc<AtomicU64> {
    let (count, usual) = (Arc::new(AtomicU64::new(0)), std::panic::take_hook());
    let counted = count.clone();
    std::panic::set_hook(Box::new(move |what| {
        counted.fetch_add(1, Ordering::Relaxed);
        usual(what);
    }));
    count
}

/// Who sends all that.
struct Fool {
    dice: Dice,
    seeds: Vec<Vec<u8>>,
    /// The same as messages of a call that is there.
    of_call: Vec<Vec<u8>>,
    udp: UdpSocket,
    tcp: Option<TcpStream>,
    sent: u64,
}

impl Fool {
    async fn say(&mut self, phone: &Phone) {
        for _ in 0..BURST {
            self.sent += 1;
            let seeds = if self.dice.below(2) == 0 { &self.seeds } else { &self.of_call };
            let bytes = mutated(&mut self.dice, seeds);
            // What is longer than a datagram does not go out.
            match self.dice.below(4) {
                0 => self.say_by_tcp(phone, &bytes).await,
                _ => drop(self.udp.try_send_to(&bytes, phone.server)),
            }
        }
        let mut buffer = [0; 2_048];
        while self.udp.try_recv_from(&mut buffer).is_ok() {}
        self.be_heard(phone);
    }

    async fn say_by_tcp(&mut self, phone: &Phone, bytes: &[u8]) {
        if self.tcp.is_none() {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(FOOLS.parse().unwrap()).unwrap();
            self.tcp = socket.connect(phone.server).await.ok();
        }
        let Some(stream) = &mut self.tcp else { return };
        // A server that has closed it, or does not read on, is met anew.
        let limit = Duration::from_millis(20);
        let wrote = tokio::time::timeout(limit, stream.write_all(bytes)).await;
        if !matches!(wrote, Ok(Ok(()))) || self.dice.below(10) == 0 {
            self.tcp = None;
        }
    }

    /// Broken sound and keys of the call's own.
    fn be_heard(&mut self, phone: &Phone) {
        let Some(to) = phone.sound_to else { return };
        let draw = self.dice.draw();
        let kind = *self.dice.one_of(&[PCMU, 8, 121, 101, 13, 72, 127]);
        let payload = vec![draw as u8; self.dice.below(1_800)];
        let mut bytes = rtp(kind, draw as u16, (draw >> 16) as u32, 7, &payload);
        for _ in 0..self.dice.below(4) {
            let at = self.dice.below(bytes.len());
            bytes[at] = self.dice.draw() as u8;
        }
        bytes.truncate(1 + self.dice.below(bytes.len()));
        let _ = phone.rtp.try_send_to(&bytes, to);
    }
}

/// A call that is there, however much of it is lost in front of a port that others flood.
async fn another(rig: &Rig) -> Phone {
    loop {
        let mut phone = Phone::new(rig).await;
        let offer = phone.offer("0 8", "sendrecv");
        phone.invite(&offer, &[]).await;
        if let Ok(answer) = tokio::time::timeout(AGAIN, phone.final_answer()).await {
            phone.take_answer(&answer);
            phone.ack("").await;
            return phone;
        }
    }
}

async fn is_served(rig: &Rig) {
    let mut phone = Phone::call(rig).await;
    phone.until("the greeting is heard", |phone| phone.heard_ms() >= 700).await;
    phone.speak(900);
    phone.until("the answer is heard", |phone| phone.heard_ms() >= 1_200).await;
    phone.hang_up().await;
}

/// Issue 7: no crash under a mutation fuzzer; dialogs stay bounded, nothing of it is left, and a
/// good call is served behind it.
#[tokio::test]
async fn a_port_outlives_whatever_comes() {
    let number = |name: &str, usual| {
        std::env::var(name).map_or(usual, |number| number.parse().expect("a number"))
    };
    let span = Duration::from_secs(number("FLOORKEEPER_FUZZ_S", USUAL_S));
    let panics = panics();
    let most = format!("connections.per_address={DIALOGS_MAX}");
    let rig = serve(&[GREETS, &most, "call.idle_s=3", "sip.media_timeout_s=1"]).await;
    let mut phone = Phone::call(&rig).await;
    let seeds = corpus();
    let mut fool = Fool {
        dice: Dice::of(number("FLOORKEEPER_FUZZ_SEED", 1), 0),
        of_call: of_call(&seeds, &phone),
        seeds,
        udp: UdpSocket::bind(FOOLS).await.unwrap(),
        tcp: None,
        sent: 0,
    };
    let (began, mut pace) = (Instant::now(), tokio::time::interval(PAUSE));
    while began.elapsed() < span {
        pace.tick().await;
        fool.say(&phone).await;
        let shared = rig.service().sip().unwrap();
        assert!(shared.dialogs().0 <= 2 * DIALOGS_MAX, "{:?}", shared.dialogs());
        assert_eq!(panics.load(Ordering::Relaxed), 0);
        if fool.sent % MESSAGES_EACH < BURST as u64 {
            phone = another(&rig).await;
            fool.of_call = of_call(&fool.seeds, &phone);
        }
    }
    drop((phone, fool.tcp, fool.udp));
    rig.quiet().await;
    is_served(&rig).await;
    rig.quiet().await;
    let shared = rig.service().sip().unwrap();
    let counts = Count::ALL.map(|what| format!("{} {}", shared.counts().of(what), what.label()));
    println!("{} messages: {}", fool.sent, counts.join(", "));
    assert_eq!((panics.load(Ordering::Relaxed), shared.counts().of(Count::Broken)), (0, 0));
    assert_eq!(shared.dialogs(), (0, 0));
}
