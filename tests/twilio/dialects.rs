//! What each provider writes and is written, word by word.

use axum::extract::ws::Message;
use floorkeeper::codec::g711::Law;
use floorkeeper::transport::LEG_RATES_HZ;
use floorkeeper::transport::realtime::PCM_RATE_HZ;
use floorkeeper::transport::twilio::{DIALECTS, Dialect, Encoding, Said, Start};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message as Wire;

use crate::conversation::GREETS;
use crate::rig::{LIMIT, Rig};

/// Binary sound of 16 kHz both ways, in a call.
#[tokio::test]
async fn a_call_over_binary_messages_is_greeted_and_answered() {
    let rig = Rig::start(&[GREETS]).await;
    let url = format!("ws://{}/v1/vonage", rig.serving.address);
    let (mut socket, _) = connect_async(url).await.unwrap();
    let start = json!({"event": "websocket:connected", "content-type": "audio/l16;rate=16000"});
    socket.send(Wire::text(start.to_string())).await.unwrap();
    // 700 ms of greeting, then a spoken turn, then 500 ms of answer.
    for (said, heard_ms) in [(false, 700), (true, 500)] {
        for frame in 0..if said { 100 } else { 0 } {
            let level = if frame < 45 { 8_000_i16 } else { 0 };
            let wave = (0..320_i16).map(|at| if at % 32 < 16 { level } else { -level });
            let sound: Vec<u8> = wave.flat_map(i16::to_le_bytes).collect();
            socket.send(Wire::binary(sound)).await.unwrap();
        }
        let mut bytes = 0;
        while bytes < heard_ms * 32 {
            let message = timeout(LIMIT, socket.next()).await.expect("sound in time");
            match message.unwrap().unwrap() {
                Wire::Binary(sound) => bytes += sound.len(),
                Wire::Text(text) => {
                    // A notify comes back as it went.
                    let action: Value = serde_json::from_str(&text).unwrap();
                    if action["action"] == "clear" {
                        // The caller speaks into what is still to be played of the greeting.
                        continue;
                    }
                    assert_eq!(action["action"], "notify", "{action}");
                    let back = json!({"event": "websocket:notify", "payload": action["payload"]});
                    socket.send(Wire::text(back.to_string())).await.unwrap();
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(bytes, heard_ms * 32);
    }
    assert!(rig.model.asked("What happened then?").is_some());
    socket.close(None).await.unwrap();
    rig.quiet().await;
}

fn dialect(name: &str) -> &'static dyn Dialect {
    *DIALECTS.iter().find(|dialect| dialect.name() == name).expect("a dialect")
}

fn text(value: &Value) -> Message {
    Message::Text(value.to_string().into())
}

fn started(name: &str, event: &Value) -> Start {
    match dialect(name).parse(&text(event)) {
        Some(Said::Start(start)) => *start,
        other => panic!("{name}: {other:?}"),
    }
}

fn written(message: &Message) -> Value {
    let Message::Text(text) = message else { panic!("{message:?}") };
    serde_json::from_str(text.as_str()).unwrap()
}

/// Media, mark and clear to this stream.
fn says(name: &str, to: &Start) -> [Value; 3] {
    let dialect = dialect(name);
    [dialect.media(to, &[0xff, 0x7f]), dialect.mark(to, "m"), dialect.clear(to)]
        .map(|message| written(&message))
}

#[test]
fn telnyx_is_twilio_in_snake_case() {
    let start = started(
        "telnyx",
        &json!({"event": "start", "sequence_number": "1", "stream_id": "s1", "start": {
            "user_id": "u", "call_control_id": "c1", "from": "+15550100", "to": "+15550199",
            "custom_parameters": {"agent": "shop"},
            "media_format": {"encoding": "PCMA", "sample_rate": 8000, "channels": 1}}}),
    );
    assert_eq!((start.call.as_str(), start.from.as_str()), ("c1", "+15550100"));
    assert_eq!(start.params["agent"], "shop");
    assert_eq!(start.encoding, Encoding::G711(Law::A));
    let media = json!({"event": "media", "sequence_number": "4", "stream_id": "s1",
        "media": {"track": "inbound", "chunk": "2", "timestamp": "5", "payload": "/38="}});
    let heard = dialect("telnyx").parse(&text(&media));
    let sound = vec![0xff, 0x7f];
    assert_eq!(heard, Some(Said::Media { stream: Some("s1".into()), chunk: Some(2), sound }));
    let key = json!({"event": "dtmf", "stream_id": "s1", "dtmf": {"digit": "#"}});
    assert_eq!(dialect("telnyx").parse(&text(&key)), Some(Said::Key('#')));
    assert_eq!(
        says("telnyx", &start),
        [
            json!({"event": "media", "media": {"payload": "/38="}}),
            json!({"event": "mark", "mark": {"name": "m"}}),
            json!({"event": "clear"}),
        ]
    );
}

#[test]
fn plivo_has_words_of_its_own() {
    let start = started(
        "plivo",
        &json!({"sequenceNumber": 0, "event": "start", "start": {
            "callId": "c1", "streamId": "s1", "accountId": "a", "tracks": ["inbound"],
            "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8000}},
            "extra_headers": "{agent=shop,From=+15550100}"}),
    );
    assert_eq!((start.stream.as_str(), start.call.as_str()), ("s1", "c1"));
    assert_eq!((start.from.as_str(), start.params["agent"].as_str()), ("+15550100", "shop"));
    let played = json!({"event": "playedStream", "streamId": "s1", "name": "m"});
    assert_eq!(dialect("plivo").parse(&text(&played)), Some(Said::Mark("m".into())));
    let cleared = json!({"event": "clearedAudio", "streamId": "s1"});
    assert_eq!(dialect("plivo").parse(&text(&cleared)), Some(Said::Nothing));
    let media = json!({"contentType": "audio/x-mulaw", "sampleRate": 8000, "payload": "/38="});
    assert_eq!(
        says("plivo", &start),
        [
            json!({"event": "playAudio", "media": media}),
            json!({"event": "checkpoint", "streamId": "s1", "name": "m"}),
            json!({"event": "clearAudio", "streamId": "s1"}),
        ]
    );
    let linear = json!({"event": "start", "start": {"streamId": "s1", "callId": "c",
        "mediaFormat": {"encoding": "audio/x-l16", "sampleRate": 16000}}});
    assert_eq!(started("plivo", &linear).encoding, Encoding::Linear(16_000));
}

#[test]
fn vonage_sends_sound_as_it_is() {
    let start = started(
        "vonage",
        &json!({"event": "websocket:connected", "content-type": "audio/l16;rate=16000",
            "agent": "shop", "from": "+15550100"}),
    );
    assert_eq!(start.encoding, Encoding::Linear(16_000));
    assert_eq!((start.from.as_str(), start.params["agent"].as_str()), ("+15550100", "shop"));
    let vonage = dialect("vonage");
    let sound = Message::Binary(vec![1, 2, 3, 4].into());
    let media = Said::Media { stream: None, chunk: None, sound: vec![1, 2, 3, 4] };
    assert_eq!(vonage.parse(&sound), Some(media));
    assert_eq!(vonage.media(&start, &[1, 2, 3, 4]), sound);
    let mark = written(&vonage.mark(&start, "m"));
    assert_eq!(mark, json!({"action": "notify", "payload": {"mark": "m"}}));
    let back = json!({"event": "websocket:notify", "payload": mark["payload"]});
    assert_eq!(vonage.parse(&text(&back)), Some(Said::Mark("m".into())));
    let key = json!({"event": "websocket:dtmf", "digit": "5", "duration": 260});
    assert_eq!(vonage.parse(&text(&key)), Some(Said::Key('5')));
    assert_eq!(written(&vonage.clear(&start)), json!({"action": "clear"}));
}

#[test]
fn exotel_sends_samples_in_json() {
    let start = started(
        "exotel",
        &json!({"event": "start", "stream_sid": "s1", "start": {"stream_sid": "s1",
            "call_sid": "c1", "from": "0555", "to": "0777", "custom_parameters": {"agent": "shop"},
            "media_format": {"encoding": "base64", "sample_rate": "8000"}}}),
    );
    assert_eq!((start.encoding, start.call.as_str()), (Encoding::Linear(8_000), "c1"));
    assert_eq!(
        says("exotel", &start),
        [
            json!({"event": "media", "stream_sid": "s1", "media": {"payload": "/38="}}),
            json!({"event": "mark", "stream_sid": "s1", "mark": {"name": "m"}}),
            json!({"event": "clear", "stream_sid": "s1"}),
        ]
    );
}

/// No rate can be agreed on for which prompts are not made ready before the first call.
#[test]
fn every_rate_of_a_stream_is_one_that_prompts_are_brought_to() {
    let taken = |rate_hz: &u32| Encoding::named("audio/l16", u64::from(*rate_hz)).is_some();
    let rates: Vec<u32> = (1..=96_000).filter(taken).collect();
    assert_eq!(rates, [8_000, 16_000, 24_000]);
    assert!(rates.iter().all(|rate_hz| LEG_RATES_HZ.contains(rate_hz)));
    assert!(LEG_RATES_HZ.contains(&PCM_RATE_HZ), "and of a Realtime session");
    assert_eq!(Encoding::named("audio/l16", (1 << 32) + 8_000), None);
}

/// Our own sound, sent back to us, is nothing that the caller said.
#[test]
fn the_agents_own_track_is_not_heard() {
    let media = json!({"event": "media", "streamSid": "MZ1", "media": {
        "track": "outbound", "chunk": "2", "timestamp": "5", "payload": "/38="}});
    assert_eq!(dialect("twilio").parse(&text(&media)), Some(Said::Nothing));
}
