//! Twenty callers interrupt twenty long answers over the wire (issue 2).

use crate::rig::{Client, FRAME_BYTES, STORY, Server, audio_ms, spoken};
use serde_json::{Value, json};
use tokio::time::{Duration, MissedTickBehavior};

/// The scripted voice says two and a half words a second.
const WORD_MS: u64 = 400;

/// No frame of the old answer after the clear, and the item keeps what was heard and no word more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_interrupted_answers_end_where_the_callers_stopped_listening() {
    let gates = ["model", "synthesis", "recognition"];
    let slots: Vec<String> = gates.iter().map(|gate| format!("limits.{gate}.slots=40")).collect();
    let server = Server::start(&slots.iter().map(String::as_str).collect::<Vec<_>>());
    let words = spoken("Wait, stop please, that is enough.");
    let calls = (0..20_u64).map(|number| interrupt(&server, &words, 600 + 120 * number));
    futures_util::future::join_all(calls).await;
    server.assert_quiescent();
    let model = server.ledger("model");
    let anomalies = model["anomalies"].as_object().unwrap();
    assert!(anomalies.values().all(|count| *count == json!(0)), "{model:#}");
}

/// One call: an answer, an interruption once `listen_ms` of it has come, and the answer to that.
async fn interrupt(server: &Server, words: &[Vec<u8>], listen_ms: u64) {
    let mut client = Client::connect(server).await;
    client.ask("Tell me a story.").await;
    let first = client.until("response.created").await["response"]["id"].clone();
    speak(&mut client, words, listen_ms, &first).await;
    let clear = client
        .events
        .iter()
        .position(|event| event["type"] == "floorkeeper.playout" && event["state"] == "cleared")
        .expect("the answer was cleared");
    let late: Vec<&Value> = client.events[clear..]
        .iter()
        .filter(|e| e["type"] == "response.output_audio.delta" && e["response_id"] == first)
        .collect();
    assert!(late.is_empty(), "{} frames of the old answer after its clear", late.len());
    let item = client.events[clear]["item_id"].clone();
    let played_ms = client.events[clear]["played_ms"].as_u64().unwrap();
    let sent_ms: usize = client.of("response.output_audio.delta").map(audio_ms).sum();
    assert!(played_ms <= sent_ms as u64, "{played_ms} ms heard of {sent_ms} ms sent");
    client.send(json!({"type": "conversation.item.retrieve", "item_id": item})).await;
    let kept = client.until("conversation.item.retrieved").await;
    let kept = kept["item"]["content"][0]["transcript"].as_str().unwrap().trim().to_owned();
    assert!(STORY.starts_with(&kept), "`{kept}` is no beginning of the story");
    let count = kept.split_whitespace().count() as u64;
    let heard = played_ms.div_ceil(WORD_MS);
    assert!(count <= heard, "{count} words are kept; {played_ms} ms hold {heard} at most");
    assert!(count + 2 > played_ms / WORD_MS, "only {count} words kept of {played_ms} ms");
    client.hang_up().await;
}

/// Keeps the microphone open in real time: silence, then the words, then silence until the turn
/// that the interruption began is being answered.
async fn speak(client: &mut Client, words: &[Vec<u8>], listen_ms: u64, first: &Value) {
    let silence = vec![0; FRAME_BYTES];
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut to_say = words.iter();
    loop {
        tokio::select! {
            event = client.next() => {
                let another = event["response"]["id"] != *first;
                if event["type"] == "response.created" && another {
                    return;
                }
            }
            _ = ticks.tick() => {
                let listening = (client.audio_ms() as u64) < listen_ms;
                let frame = if listening { None } else { to_say.next() };
                client.append(frame.unwrap_or(&silence)).await;
            }
        }
    }
}
