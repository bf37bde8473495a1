//! Whole calls of the softphone to the mock server.

use super::mock::{Manners, serve};
use super::report::Report;
use super::*;

/// A recording of `ms` of sound that counts as speech.
fn speech(name: &str, ms: usize) -> PathBuf {
    let path = std::env::temp_dir().join(format!("floorkeeper-{}-{name}.wav", std::process::id()));
    let samples = (0..24 * ms).map(|n| if n / 60 % 2 == 0 { 8_000 } else { -8_000 }).collect();
    wav::write(&path, &Pcm { rate_hz: WIRE_RATE_HZ, samples }).unwrap();
    path
}

async fn call(name: &str, manners: Manners, barge: &[&str]) -> Report {
    let args = CallArgs {
        url: serve(manners).await,
        play: speech(name, 300),
        record: Some(std::env::temp_dir().join(format!("fk-{}-{name}.wav", std::process::id()))),
        barge: barge
            .iter()
            .map(|after| {
                format!("{after}={}", speech(&format!("{name}-barge"), 200).display())
                    .parse()
                    .unwrap()
            })
            .collect(),
        agent: None,
        key: None,
        seconds: None,
        json: false,
    };
    let report = hold(prepare(&args).unwrap(), &args).await;
    std::fs::remove_file(&args.play).unwrap();
    report
}

#[tokio::test]
async fn an_interruption_is_heard_as_one() {
    let report = call("barge", Manners::default(), &["0.4s"]).await;
    let [first, second] = &report.turns[..] else { panic!("{:#?}", report.turns) };
    assert_eq!((first.caller.as_str(), second.caller.as_str()), ("question 1", "question 2"));
    assert!(first.cut && first.first_audio_ms.is_some() && first.heard == "There was");
    let stop = &first.stops[0];
    assert!(stop.pause_ms < stop.clear_ms && stop.pause_ms.is_some() && !stop.resumed);
    assert_eq!((report.late_frames, report.barges_not_played), (0, 0));
    assert_eq!(second.heard, "There was a king.");
    assert!(report.ok, "{report}");
    let heard = wav::read(report.recorded.as_ref().unwrap().as_ref(), WIRE_RATE_HZ).unwrap();
    let sound = heard.pcm.samples.iter().filter(|&&sample| sample != 0).count() / 480;
    assert!((85..120).contains(&sound), "{sound} frames: all of one answer, a part of another");
}

#[tokio::test]
async fn frames_after_the_clear_fail_the_call() {
    let report = call("late", Manners { late_frames: 3, ..Manners::default() }, &["0.4s"]).await;
    assert_eq!((report.late_frames, report.turns[0].late_frames), (3, 3));
    assert!(!report.ok && report.failure.unwrap().contains("3 frames of cleared answers"));
}

#[tokio::test]
async fn a_refusal_and_its_prompt_are_in_the_table() {
    let report = call("refused", Manners { refuses: true, ..Manners::default() }, &[]).await;
    let table = report.to_string();
    assert!(table.contains("refused      model closed{no_capacity}"), "{table}");
    assert!(table.contains("fallback     goodbye established: model_closed"), "{table}");
    assert!(report.ok, "a truthful refusal that is heard is a good call");
}

#[tokio::test]
async fn a_broken_connection_fails_the_call_and_keeps_what_was_heard() {
    let report = call("broken", Manners { breaks: true, ..Manners::default() }, &[]).await;
    assert!(!report.ok && report.failure.is_some() && report.turns.len() == 1);
    assert!(report.recorded.is_some());
}

#[tokio::test]
async fn nobody_there_is_said() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let target = Target::new(&format!("ws://{address}"), None, None).unwrap();
    let reason = target.dial(|_| {}).await.err().unwrap();
    assert!(reason.contains("is `floorkeeper serve` running?"), "{reason}");
}
