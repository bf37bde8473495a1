//! `floorkeeper call` and `floorkeeper load` as commands: what they print and how they exit.

use std::path::PathBuf;
use std::process::{Command, Output};

use crate::rig::{Server, spoken};
use floorkeeper::audio::Pcm;
use floorkeeper::cli::wav;
use serde_json::Value;

fn floorkeeper(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_floorkeeper")).args(args).output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Somebody saying `words` as a WAV file.
fn file(words: &str) -> PathBuf {
    let samples = spoken(words)
        .concat()
        .chunks_exact(2)
        .map(|pair| i16::from_le_bytes([pair[0], pair[1]]))
        .collect();
    let name = format!("floorkeeper-cli-{}-{}.wav", std::process::id(), words.len());
    let path = std::env::temp_dir().join(name);
    wav::write(&path, &Pcm { rate_hz: 24_000, samples }).unwrap();
    path
}

#[test]
fn wrong_arguments_exit_2_and_say_what_would_be_right() {
    let there = file("Hello there.");
    let there = there.to_str().unwrap();
    let url = "ws://127.0.0.1:9/v1/realtime";
    let cases: [(&[&str], &str); 6] = [
        (&["call", url, "--play", "/no/such.wav"], "no such file"),
        (&["call", "http://127.0.0.1:9", "--play", there], "ws://127.0.0.1:8080/v1/realtime"),
        (&["call", url, "--play", there, "--barge", "soon=x.wav"], "2.5s=second.wav"),
        (&["call", url, "--play", there, "--record", "/no/such/dir/out.wav"], "--record"),
        (&["load", "ws://192.0.2.1/", "--calls", "1"], "loopback addresses only"),
        (&["load", url, "--calls", "99999"], "1 to 2000"),
    ];
    for (args, wanted) in cases {
        let output = floorkeeper(args);
        assert_eq!(code(&output), 2, "{args:?}: {output:?}");
        assert!(said(&output).contains(wanted), "{args:?}: {}", said(&output));
        assert!(output.stdout.is_empty(), "results only go to stdout: {output:?}");
    }
}

#[test]
fn a_server_that_is_not_there_fails_the_call() {
    let play = file("Is anybody there?");
    let args = ["call", "ws://127.0.0.1:9/v1/realtime", "--play", play.to_str().unwrap(), "--json"];
    let output = floorkeeper(&args);
    assert_eq!(code(&output), 1);
    let report = json(&output);
    assert_eq!(report["ok"], false);
    assert!(report["failure"].as_str().unwrap().contains("is `floorkeeper serve` running?"));
}

#[test]
fn a_call_that_is_not_taken_tells_the_gates_reason() {
    let server = Server::start(&["limits.call.slots=0"]);
    let play = file("Is there room for one more?");
    let output = floorkeeper(&["call", &server.url(), "--play", play.to_str().unwrap()]);
    assert_eq!(code(&output), 1);
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("HTTP 503"), "{table}");
    assert!(table.contains("admission_no_capacity: The call gate refused"), "{table}");
}

/// Issue 2: the turn table of a call with an interruption, and the recording of what was heard.
#[test]
fn a_call_with_an_interruption_is_written_down() {
    let server = Server::start(&[]);
    let play = file("Tell me a story about a king.");
    let barge = file("Wait, stop please, that is quite enough.");
    let record = play.with_extension("out.wav");
    let barge = format!("1.5s={}", barge.display());
    let output = floorkeeper(&[
        "call",
        &server.url(),
        "--play",
        play.to_str().unwrap(),
        "--record",
        record.to_str().unwrap(),
        "--barge",
        &barge,
        "--json",
    ]);
    let report = json(&output);
    assert_eq!(code(&output), 0, "{report:#}\n{}\n{}", said(&output), server.log());
    let turns = report["turns"].as_array().unwrap();
    assert_eq!(turns.len(), 2, "{report:#}");
    let first = &turns[0];
    assert_eq!(first["cut"], true, "{first:#}");
    assert!(first["heard"].as_str().unwrap().starts_with("There was"), "{first:#}");
    assert!(first["first_audio_ms"].is_u64(), "{first:#}");
    let stop = &first["stops"][0];
    assert!(stop["pause_ms"].is_u64() && stop["clear_ms"].is_u64(), "{first:#}");
    let gates: Vec<&str> =
        first["stages"].as_array().unwrap().iter().filter_map(|s| s["gate"].as_str()).collect();
    for gate in ["recognition", "model", "synthesis"] {
        assert!(gates.contains(&gate), "no {gate} in {first:#}");
    }
    assert_eq!(report["late_frames"], 0);
    let heard = wav::read(&record, 24_000).unwrap();
    assert!(heard.pcm.samples.iter().any(|&sample| sample != 0));
    server.assert_quiescent();
}

#[test]
fn a_small_load_is_offered_on_schedule_and_answered() {
    let server = Server::start(&["llm.reply=\"Good day.\""]);
    let args = ["load", &server.url(), "--calls", "8", "--arrivals", "steady", "--rate", "8"];
    let output = floorkeeper(&[&args[..], &["--seconds", "5", "--json"]].concat());
    let report = json(&output);
    assert_eq!(code(&output), 0, "{report:#}\n{}\n{}", said(&output), server.log());
    assert_eq!((&report["taken"], &report["stayed"]), (&Value::from(8), &Value::from(8)));
    assert!(report["first_audio_ms"]["count"].as_u64().unwrap() >= 8, "{report:#}");
    server.assert_quiescent();
}
