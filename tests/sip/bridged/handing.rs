//! A server that rings a desk for a caller, and both of their telephones. Prompts are tones here,
//! each of its own pitch, so that who hears what is heard.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use floorkeeper::audio::level_dbfs;
use floorkeeper::codec::g711::Law;
use floorkeeper::config::Fallback;
use floorkeeper::id::Stage;
use floorkeeper::provider::tts::{Phrase, Tts, TtsOptions, TtsSignal};
use floorkeeper::provider::{Cancel, Run};
use serde_json::Value;
use tokio::sync::{Barrier, mpsc};
use tokio::time::{Duration, MissedTickBehavior, interval};

use crate::dialled::Dialling;
use crate::phone::{EVENTS, Packet, Phone};
use crate::refer::{handoff, prompts};
use crate::rig::{LIMIT, eventually};

const SETTINGS: [&str; 9] = [
    "agent.default.greeting=\"\"",
    "limits.model.slots=0",
    "callback.offer=never",
    "handoff.offer=always",
    "handoff.bridge_to=\"sip:ada@127.0.0.1:PORT\"",
    "handoff.decide_ms=1000",
    "outbound.machine_ms=0",
    "tts.words_per_s=40",
    "asr.text=[\"What is for dinner tonight?\", \"Yes please\"]",
];

/// 20 ms of G.711.
const FRAME: usize = 160;

/// Pitches of what the desk hears.
pub const CALLER: u32 = 500;
pub const QUESTION: u32 = 700;
pub const LEFT: u32 = 900;
/// And of what the caller hears.
pub const OFFER: u32 = 600;
pub const TRYING: u32 = 1_100;
pub const CONNECTING: u32 = 1_300;
pub const NOT_REACHED: u32 = 1_500;

/// A caller who wants a human, and the desk that is rung for them.
pub struct Handing {
    pub it: Dialling,
    pub caller: Phone,
    /// What was said in the agent's voice.
    pub voiced: Arc<Mutex<Vec<String>>>,
}

/// A synthesiser that remembers what it was given.
struct Noted(Arc<dyn Tts>, Arc<Mutex<Vec<String>>>);

impl Tts for Noted {
    fn run(
        self: Arc<Self>,
        options: TtsOptions,
        mut input: mpsc::Receiver<Phrase>,
        out: mpsc::Sender<TtsSignal>,
        cancel: Cancel,
    ) -> Run {
        let (pass, passed) = mpsc::channel(64);
        let run = self.0.clone().run(options, passed, out, cancel);
        Box::pin(async move {
            let noting = async {
                while let Some(phrase) = input.recv().await {
                    self.1.lock().unwrap().push(phrase.text.clone());
                    let _ = pass.send(phrase).await;
                }
                drop(pass);
            };
            tokio::join!(noting, run).1
        })
    }
}

/// Every prompt a tone, and a human offered first: read once, as that takes a while.
fn script() -> Fallback {
    static SCRIPT: OnceLock<Fallback> = OnceLock::new();
    SCRIPT.get_or_init(write_script).clone()
}

fn write_script() -> Fallback {
    let name = format!("bridged-{}", std::process::id());
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(dir.join("audio/en")).unwrap();
    let ladder = include_str!("../../../fallback/ladder.toml");
    let of_model = "causes = [\"overloaded\", \"closed\"";
    let rule = ladder.find(of_model).unwrap();
    let retry = rule + ladder[rule..].find("  { rung = \"retry\"").unwrap();
    let line = retry + ladder[retry..].find('\n').unwrap();
    std::fs::write(dir.join("ladder.toml"), format!("{}{}", &ladder[..retry], &ladder[line..]))
        .unwrap();
    for (prompt, hz) in [
        ("desk_caller", CALLER),
        ("desk_question", QUESTION),
        ("desk_caller_left", LEFT),
        ("offer_handoff", OFFER),
        ("handoff_trying", TRYING),
        ("handoff_acknowledged", CONNECTING),
        ("handoff_busy", NOT_REACHED),
        ("handoff_no_answer", NOT_REACHED),
        ("handoff_declined", NOT_REACHED),
        ("handoff_voicemail", NOT_REACHED),
        ("handoff_timeout", NOT_REACHED),
        ("handoff_refused", NOT_REACHED),
    ] {
        let spec = hound::WavSpec {
            channels: 1,
            sample_rate: 16_000,
            bits_per_sample: 16,
            sample_format: hound::SampleFormat::Int,
        };
        let file = dir.join(format!("audio/en/{prompt}.wav"));
        let mut wav = hound::WavWriter::create(file, spec).unwrap();
        for at in 0..6_400 {
            let phase = std::f32::consts::TAU * hz as f32 * at as f32 / 16_000.0;
            wav.write_sample((8_000.0 * phase.sin()) as i16).unwrap();
        }
        wav.finalize().unwrap();
    }
    let script = Fallback::load(Some(&dir)).unwrap_or_else(|wrong| panic!("{wrong}"));
    let _ = std::fs::remove_dir_all(&dir); // the next build's folder is cleaned with it
    script
}

/// The pitch of a packet in Hz; none where it is silent.
pub fn pitch(packet: &Packet) -> Option<f32> {
    *packet.pitch.get_or_init(|| {
        let mut sound = Vec::new();
        Law::Mu.decode(&packet.payload, &mut sound);
        (packet.payload.len() == FRAME).then(|| pitch_of(&sound, 8_000.0)).flatten()
    })
}

pub fn pitch_of(sound: &[i16], rate_hz: f32) -> Option<f32> {
    if level_dbfs(sound) < -30.0 {
        return None;
    }
    let rises = sound.windows(2).enumerate().filter(|(_, pair)| pair[0] < 0 && pair[1] >= 0);
    let rises: Vec<f32> = rises
        .map(|(at, pair)| at as f32 + f32::from(pair[0]) / f32::from(pair[0] - pair[1]))
        .collect();
    let (first, last) = (rises.first()?, rises.last()?);
    Some(rate_hz * (rises.len() - 1) as f32 / (last - first))
}

/// So much of this pitch was heard, in milliseconds.
pub fn heard(phone: &Phone, hz: u32) -> usize {
    let near = |packet: &&Packet| pitch(packet).is_some_and(|it| (it - hz as f32).abs() < 30.0);
    phone.packets.iter().filter(near).count() * 20
}

impl Handing {
    /// The caller has asked for a human, and the desk rings.
    pub async fn rings(all: &Barrier, settings: &[&str]) -> Handing {
        let mut handing = Handing::begin(all, settings).await;
        let (caller, it) = (&mut handing.caller, &mut handing.it);
        caller.speak(600);
        caller.until("a human is offered", |caller| heard(caller, OFFER) >= 300).await;
        caller.speak(600);
        let mut invite = None;
        caller
            .until("the desk rings", |_| {
                invite = it.phone.told_now();
                invite.is_some()
            })
            .await;
        let invite = invite.unwrap();
        assert_eq!(invite.what(), "INVITE", "{}", invite.text);
        it.invite = Some(invite);
        it.says(180, "", "").await;
        handing
    }

    pub async fn begin(all: &Barrier, settings: &[&str]) -> Handing {
        let (it, voiced) = Handing::serve(all, settings).await;
        let caller = Phone::call(&it.rig).await;
        Handing { it, caller, voiced }
    }

    /// A server. Nobody speaks before all of them are there: to make one takes so long that those
    /// who speak meanwhile would stutter.
    pub async fn serve(all: &Barrier, settings: &[&str]) -> (Dialling, Arc<Mutex<Vec<String>>>) {
        let settings: Vec<&str> = SETTINGS.iter().chain(settings).copied().collect();
        let voiced = Arc::new(Mutex::default());
        let noted = voiced.clone();
        let it = Dialling::with_providers(&settings, move |backends| {
            backends.tts = Some(Arc::new(Noted(backends.tts.take().unwrap(), noted)));
        });
        let it = it.await;
        it.rig.service().prompts.take(script());
        all.wait().await;
        (it, voiced)
    }

    /// The desk answers.
    pub async fn answers(&mut self) {
        self.it.answers().await;
        self.caller.packets.clear();
    }

    /// Both speak and listen until this is so.
    pub async fn until(&mut self, what: &str, mut is_so: impl FnMut(&Phone, &Phone) -> bool) {
        let mut ticks = interval(Duration::from_millis(20));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let (caller, desk) = (&mut self.caller, &mut self.it.phone);
        for _ in 0..LIMIT.as_millis() / 20 {
            ticks.tick().await;
            for phone in [&mut *caller, &mut *desk] {
                phone.say_frame().await;
                phone.listen();
            }
            if is_so(caller, desk) {
                return;
            }
        }
        let pitches = |phone: &Phone| phone.packets.iter().filter_map(pitch).collect::<Vec<_>>();
        panic!("not in time: {what}: caller {:?}, desk {:?}", pitches(caller), pitches(desk));
    }

    pub async fn asked(&mut self) {
        self.until("the desk is asked", |_, desk| heard(desk, QUESTION) >= 300).await;
    }

    /// The desk presses a key.
    pub async fn presses(&mut self, event: u8) {
        press(&mut self.it.phone, event).await;
    }

    /// What came of it is on record, and the caller hears it in its own words.
    pub async fn came_to(&mut self, state: &str) {
        handoff(&self.it, state).await;
        self.until("the caller is told", |caller, _| heard(caller, NOT_REACHED) >= 300).await;
        let prompts = prompts(&self.it).await;
        assert!(prompts.contains(&format!("handoff_{state}")), "{prompts:?}");
        assert!(!prompts.contains(&"handoff_acknowledged".to_owned()), "nobody was there");
        self.caller.hang_up().await;
        self.nothing_is_left().await;
    }

    pub async fn nothing_is_left(&self) {
        nothing_is_left(&self.it).await;
    }

    /// The call's trace, and where it stands.
    pub async fn record(&self) -> (Vec<String>, Value) {
        let calls = self.it.rig.get("/v1/calls").await.json();
        let id = calls["calls"][0]["id"].as_str().unwrap().to_owned();
        let record = self.it.rig.get(&format!("/v1/calls/{id}")).await.json();
        let trace = record["trace"].as_array().unwrap();
        let lines = trace.iter().map(|line| line.as_str().unwrap().to_owned()).collect();
        (lines, record)
    }

    /// The desk says yes, the caller hears so, and both are joined.
    pub async fn joined(&mut self) {
        self.answers().await;
        self.asked().await;
        self.presses(1).await;
        self.until("the caller is told", |caller, _| heard(caller, CONNECTING) >= 300).await;
        handoff(&self.it, "connected").await;
    }
}

/// No call, no dialog, no unit.
pub async fn nothing_is_left(it: &Dialling) {
    it.is_quiet().await;
    eventually("no unit is held", || {
        let held = |stage: &Stage| {
            let counts = it.rig.counts(*stage);
            counts.active > 0 || counts.queued > 0 || counts.quarantined > 0
        };
        let busy: Vec<Stage> = it.rig.service().gates.stages().filter(held).collect();
        if busy.is_empty() { Ok(()) } else { Err(format!("{busy:?}")) }
    })
    .await;
}

/// The telephone events that were heard.
pub fn keys(phone: &Phone) -> Vec<u8> {
    let events = phone.packets.iter().filter(|packet| packet.payload_type == EVENTS);
    events.map(|packet| packet.payload[0]).collect()
}

/// One key's packets (RFC 4733, 2.5).
pub async fn press(phone: &mut Phone, event: u8) {
    let timestamp = phone.timestamp;
    for (ends, duration) in [(0, 160), (0, 320), (0x80, 480), (0x80, 480), (0x80, 480)] {
        let [high, low] = u16::to_be_bytes(duration);
        phone.send_rtp(EVENTS, timestamp, &[event, ends | 10, high, low]).await;
    }
    phone.timestamp = timestamp.wrapping_add(480);
}
