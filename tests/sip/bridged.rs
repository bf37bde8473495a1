//! A human is rung for a caller, told of them, and joined with them by a key (issue 7.3: words and
//! record match each time; A-128: nothing is said of a human before one has said yes).

mod handing;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use floorkeeper::id::Stage;
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio::time::{Duration, MissedTickBehavior, interval};

use crate::client::Client;
use crate::http;
use crate::phone::Phone;
use crate::refer::{agrees, handoff, prompts};
use handing::{
    CALLER, CONNECTING, Handing, LEFT, NOT_REACHED, OFFER, QUESTION, heard, keys, nothing_is_left,
    pitch, pitch_of, press,
};

#[tokio::test]
async fn who_takes_the_caller_is_joined_with_them() {
    let all = Barrier::new(5);
    tokio::join!(
        they_speak(&all),
        the_caller_hangs_up(&all),
        the_server_ends(&all),
        a_browser_is_joined(&all),
        somebody_at_the_page_is_faster(&all),
    );
}

/// Issue 7.3: a warm handoff. The human hears who it is before the caller is joined; then each
/// hears the other, and neither model, recogniser nor synthesiser is held.
async fn they_speak(all: &Barrier) {
    let mut it = Handing::rings(all, &[]).await;
    it.answers().await;
    it.asked().await;
    let told = it.voiced.lock().unwrap().join(" ");
    assert!(
        told.contains("1 5 5 5 0 1 0 0") && told.contains("What is for dinner tonight"),
        "{told}"
    );
    assert_eq!(heard(&it.caller, CONNECTING), 0, "nobody has said yes");
    let before = heard(&it.it.phone, CALLER);
    assert!(before >= 300, "{before} ms of who it is");
    it.presses(1).await;
    it.until("the caller is told", |caller, _| heard(caller, CONNECTING) >= 300).await;
    let record = handoff(&it.it, "connected").await;
    assert_eq!(record["by"], record["target"]);
    it.caller.packets.clear();
    it.it.phone.packets.clear();
    it.caller.sing(800.0, 600);
    it.it.phone.sing(1_000.0, 600);
    it.until("each hears the other", |caller, desk| {
        heard(caller, 1_000) >= 500 && heard(desk, 800) >= 500
    })
    .await;
    assert_eq!((heard(&it.caller, 800), heard(&it.it.phone, 1_000)), (0, 0), "no echo");
    press(&mut it.caller, 5).await;
    press(&mut it.it.phone, 11).await;
    it.until("each hears the other's key", |caller, desk| {
        keys(caller) == [11; 7] && keys(desk) == [5; 7]
    })
    .await;
    for stage in [Stage::Recognition, Stage::Model, Stage::Synthesis, Stage::Handoff] {
        assert_eq!(it.it.rig.counts(stage).active, 0, "{stage}");
    }
    assert_eq!(it.it.rig.counts(Stage::Call).active, 1);
    assert_eq!(it.record().await.1["floor"], "bridged");
    it.it.phone.hang_up().await;
    let bye = it.caller.until_told("BYE").await;
    agrees(&it.caller, &bye, 200).await;
    it.nothing_is_left().await;
    let (trace, record) = it.record().await;
    assert_eq!(record["ended_why"], "handed_over");
    for line in
        ["the desk is rung", "the desk answers", "the desk takes", "joined", "the human hung up"]
    {
        assert!(trace.iter().any(|known| known.contains(line)), "{line}: {trace:#?}");
    }
}

/// A caller who has been joined hangs up: so does the desk.
async fn the_caller_hangs_up(all: &Barrier) {
    let mut it = Handing::rings(all, &[]).await;
    it.joined().await;
    it.until("the caller's silence is heard", |_, desk| desk.packets.len() > 100).await;
    it.caller.hang_up().await;
    it.it.is_hung_up_on().await;
    it.nothing_is_left().await;
    let (trace, _) = it.record().await;
    assert!(trace.iter().any(|line| line.contains("the caller hung up")), "{trace:#?}");
}

/// The drain's window closes over two who speak.
async fn the_server_ends(all: &Barrier) {
    let mut it = Handing::rings(all, &[]).await;
    it.joined().await;
    it.until("the caller's silence is heard", |_, desk| desk.packets.len() > 100).await;
    it.it.rig.service().end_calls();
    it.it.is_hung_up_on().await;
    let bye = it.caller.until_told("BYE").await;
    agrees(&it.caller, &bye, 200).await;
    it.nothing_is_left().await;
}

/// Whoever takes the caller at the operator page has them; the desk stops ringing.
async fn somebody_at_the_page_is_faster(all: &Barrier) {
    let it = Handing::rings(all, &[]).await;
    let list = it.it.rig.get("/v1/handoffs").await.json();
    let id = list["handoffs"][0]["id"].as_str().unwrap().to_owned();
    let to = it.it.rig.serving.address;
    for (step, body) in [("acknowledge", "{\"by\": \"Grace\"}"), ("connected", "")] {
        let path = format!("/v1/handoffs/{id}/{step}");
        assert_eq!(http::ask(to, "POST", &path, &[], body).await.status, 200, "{step}");
    }
    it.it.phone.until_told("CANCEL").await;
    it.it.says(487, "", "").await;
    it.it.phone.until_told("ACK").await;
    let bye = it.caller.until_told("BYE").await;
    agrees(&it.caller, &bye, 200).await;
    assert_eq!(handoff(&it.it, "connected").await["by"], "Grace");
    it.nothing_is_left().await;
}

/// A caller who has no telephone is joined with one.
async fn a_browser_is_joined(all: &Barrier) {
    let (mut it, _) = Handing::serve(all, &[]).await;
    let mut caller = Client::connect(&it.rig).await;
    caller.speak(600).await;
    caller.until("response.done").await;
    caller.speak(600).await;
    it.rings().await;
    it.answers().await;
    it.phone.until("the desk is asked", |desk| heard(desk, QUESTION) >= 300).await;
    press(&mut it.phone, 1).await;
    handoff(&it, "connected").await;
    let mut ticks = interval(Duration::from_millis(20));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut frame = 0;
    while heard(&it.phone, 800) < 400 {
        ticks.tick().await;
        caller.send(sung(800.0, frame)).await;
        it.phone.say_frame().await;
        it.phone.listen();
        frame += 1;
    }
    let hears = async {
        let mut sung = 0;
        while sung < 20 {
            let delta = caller.until("response.output_audio.delta").await;
            sung += u32::from(is_sung(1_000.0, &delta));
        }
    };
    it.phone.sing(1_000.0, 15_000);
    tokio::select! {
        () = hears => {}
        () = it.phone.until("the desk has sung", Phone::mouth_is_empty) => panic!("unheard"),
    }
    it.phone.hang_up().await;
    caller.close_code().await;
    nothing_is_left(&it).await;
}

/// 20 ms of a tone, as a browser sends it.
fn sung(hz: f32, frame: usize) -> Value {
    let wave = |at: usize| (std::f32::consts::TAU * hz * at as f32 / 24_000.0).sin();
    let samples = (frame * 480..(frame + 1) * 480).map(|at| (10_000.0 * wave(at)) as i16);
    let pcm: Vec<u8> = samples.flat_map(i16::to_le_bytes).collect();
    json!({"type": "input_audio_buffer.append", "audio": BASE64.encode(pcm)})
}

/// Sound that is this tone.
fn is_sung(hz: f32, delta: &Value) -> bool {
    let pcm = BASE64.decode(delta["delta"].as_str().unwrap()).unwrap();
    let samples = pcm.chunks(2).map(|pair| i16::from_le_bytes(pair.try_into().unwrap()));
    pitch_of(&samples.collect::<Vec<i16>>(), 24_000.0).is_some_and(|it| (it - hz).abs() < 30.0)
}

/// Issue 7.3: busy, no answer, a machine, declined by key or by hanging up, no key; the caller
/// leaves first: words and record are those of what happened, and nothing is left.
#[tokio::test]
async fn words_and_record_are_what_happened() {
    let all = Barrier::new(12);
    tokio::join!(
        declines(&all),
        hangs_up(&all),
        presses_nothing(&all),
        leaves_while_it_rings(&all),
        leaves_while_they_are_told(&all),
        leaves_while_it_is_heard_who_answers(&all),
        finds_no_dial_left(&all),
        refuses(&all, 486, "busy"),
        refuses(&all, 480, "no_answer"),
        refuses(&all, 603, "declined"),
        does_not_come(&all),
        answers_as_a_machine(&all),
    );
}

async fn refuses(all: &Barrier, status: u16, state: &str) {
    let mut it = Handing::rings(all, &[]).await;
    it.it.says(status, "", "").await;
    it.it.phone.until_told("ACK").await;
    it.came_to(state).await;
}

async fn does_not_come(all: &Barrier) {
    let mut it = Handing::rings(all, &["handoff.ring_ms=1000"]).await;
    it.it.phone.until_told("CANCEL").await;
    it.it.says(487, "", "").await;
    it.it.phone.until_told("ACK").await;
    it.came_to("no_answer").await;
}

/// A mailbox hears nothing, and takes nobody.
async fn answers_as_a_machine(all: &Barrier) {
    let mut it = Handing::rings(all, &["outbound.machine_ms=6000"]).await;
    it.answers().await;
    it.it.phone.sing(1_000.0, 600);
    it.until("the beep is over", |_, desk| desk.mouth_is_empty()).await;
    it.it.is_hung_up_on().await;
    assert_eq!(it.it.phone.packets.iter().filter_map(pitch).count(), 0);
    it.came_to("voicemail").await;
}

async fn declines(all: &Barrier) {
    let mut it = Handing::rings(all, &[]).await;
    it.answers().await;
    it.asked().await;
    it.presses(5).await;
    it.presses(2).await;
    it.it.is_hung_up_on().await;
    it.came_to("declined").await;
}

async fn hangs_up(all: &Barrier) {
    let mut it = Handing::rings(all, &[]).await;
    it.answers().await;
    it.until("it hears of a caller", |_, desk| heard(desk, CALLER) >= 100).await;
    it.it.phone.hang_up().await;
    it.came_to("declined").await;
}

async fn presses_nothing(all: &Barrier) {
    let mut it = Handing::rings(all, &[]).await;
    it.answers().await;
    it.until("it is asked twice", |_, desk| heard(desk, QUESTION) >= 700).await;
    it.it.is_hung_up_on().await;
    it.came_to("timeout").await;
}

async fn leaves_while_it_rings(all: &Barrier) {
    let mut it = Handing::rings(all, &[]).await;
    it.caller.hang_up().await;
    it.it.phone.until_told("CANCEL").await;
    it.it.says(487, "", "").await;
    it.it.phone.until_told("ACK").await;
    handoff(&it.it, "caller_left").await;
    it.nothing_is_left().await;
}

async fn leaves_while_they_are_told(all: &Barrier) {
    let mut it = Handing::rings(all, &[]).await;
    it.answers().await;
    it.until("it hears of a caller", |_, desk| heard(desk, CALLER) >= 100).await;
    it.caller.hang_up().await;
    it.until("it hears that they left", |_, desk| heard(desk, LEFT) >= 300).await;
    it.it.is_hung_up_on().await;
    handoff(&it.it, "caller_left").await;
    it.nothing_is_left().await;
}

async fn leaves_while_it_is_heard_who_answers(all: &Barrier) {
    let mut it = Handing::rings(all, &["outbound.machine_ms=20000"]).await;
    it.answers().await;
    while !it.record().await.0.iter().any(|line| line.contains("the desk answers")) {
        it.until("a moment passes", |_, _| true).await;
    }
    it.caller.hang_up().await;
    it.until("it hears that they left", |_, desk| heard(desk, LEFT) >= 300).await;
    it.it.is_hung_up_on().await;
    handoff(&it.it, "caller_left").await;
    it.nothing_is_left().await;
}

/// Issue 7.5: an hour has room for so many dials, whoever they are for.
async fn finds_no_dial_left(all: &Barrier) {
    let mut it = Handing::begin(all, &["outbound.per_hour=0"]).await;
    it.caller.speak(600);
    it.caller.until("a human is offered", |caller| heard(caller, OFFER) >= 300).await;
    it.caller.speak(600);
    it.caller.until("it cannot be", |caller| heard(caller, NOT_REACHED) >= 300).await;
    assert!(prompts(&it.it).await.contains(&"handoff_refused".to_owned()));
    let list = it.it.rig.get("/v1/handoffs").await.json();
    assert_eq!(list["handoffs"], json!([]), "nobody was asked");
    assert!(it.it.phone.told_now().is_none(), "nobody was rung");
    it.caller.hang_up().await;
    it.nothing_is_left().await;
}
