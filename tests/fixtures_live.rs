//! `fixture run --live`: the same scripts in real time, against our own server and against one that
//! already serves.
//!
//! Times are not judged here (a loaded machine is late): expectations `within` a span are left out.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// An empty home has no fetched models: the detector is the one inside the program.
fn floorkeeper(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_floorkeeper"));
    command.args(args).env("HOME", folder()).env_remove("XDG_CACHE_HOME");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn told(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// A fixture of the repository without its spans, and with this at its end.
fn copy(name: &str, more: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/calls");
    let text = std::fs::read_to_string(folder.join(name).with_extension("toml")).unwrap();
    let timeless: Vec<&str> =
        text.split("[[expect]]\n").filter(|part| !part.starts_with("within")).collect();
    scratch(&format!("{name}{}", more.len()), &format!("{}{more}", timeless.join("[[expect]]\n")))
}

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fixtures-live");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn scratch(name: &str, text: &str) -> PathBuf {
    let path = folder().join(name).with_extension("toml");
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn fixtures_hold_live_against_our_own_server() {
    let names = [
        "plain_turn",
        "barge_in_while_speaking",
        "cough_resumes",
        "model_refused",
        "turn_expired_in_queue",
        "hang_up_in_mid_answer",
        "drain_while_thinking",
        "tool_and_its_answer",
        "outcome_known_after_all",
        "push_to_talk",
        "written_answer",
    ];
    let running: Vec<(&str, Child)> = names
        .map(|name| {
            let path = copy(name, "");
            let args = ["fixture", "run", path.to_str().unwrap(), "--live", "--json"];
            (name, floorkeeper(&args).spawn().unwrap())
        })
        .into();
    for (name, child) in running {
        let output = child.wait_with_output().unwrap();
        let shown = json(&output);
        assert_eq!(output.status.code(), Some(0), "{name}: {shown:#}");
        let fixture = &shown["fixtures"][0];
        assert_eq!(fixture["passed"], true, "{name}: {shown:#}");
        // Our own server hides nothing: every expectation is judged.
        assert_eq!(fixture["notes"], serde_json::json!([]), "{name}");
        let setting = fixture["live"].as_str().unwrap();
        assert!(setting.contains("detector earshot (silero is not on this machine)"), "{setting}");
    }
}

#[test]
fn an_expectation_that_does_not_hold_fails_and_the_call_is_drawn() {
    let path = copy("commit_of_nothing", "[[expect]]\nnever = \"caller.commits\"\n");
    let page = path.with_extension("html");
    let page_name = page.to_str().unwrap();
    let args = ["fixture", "run", path.to_str().unwrap(), "--live", "--report", page_name];
    let output = floorkeeper(&args).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let printed = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(printed.starts_with("FAIL "), "{printed}");
    assert!(printed.contains("     never caller.commits: caller.commits came at "), "{printed}");
    assert!(printed.ends_with("0 passed, 1 failed\n"), "{printed}");
    assert!(told(&output).contains("times may be 250 ms later"), "{}", told(&output));
    let drawn = std::fs::read_to_string(page).unwrap();
    assert!(drawn.contains("<svg ") && drawn.contains("rejected: input_audio_buffer_commit_empty"));
}

/// A server somebody started: with these words in its model, and nothing else of any fixture.
fn serve() -> (Child, String) {
    let sets = [
        "llm.provider=scripted",
        "llm.reply=\"There was a king who had three sons.\"",
        "asr.provider=scripted",
        "asr.text=\"Tell me a story please\"",
        "tts.provider=scripted",
        "vad.detector=earshot",
        "turn.end=silence",
        "models.fetch=false",
    ];
    let mut command = floorkeeper(&["serve", "--listen", "127.0.0.1:0"]);
    for set in sets {
        command.args(["--set", set]);
    }
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim_end().rsplit("http://").next().unwrap().trim_end_matches('/');
    let url = format!("ws://{address}/v1/realtime");
    (child, url)
}

#[test]
fn against_another_server_what_cannot_be_given_or_seen_is_listed() {
    let (mut server, url) = serve();
    let path = copy("plain_turn", "[[gate]]\ngate = \"model\"\nhold = 1\nfrom = \"30s\"\n");
    let args = ["fixture", "run", path.to_str().unwrap(), "--live", &url, "--json"];
    let output = floorkeeper(&args).output().unwrap();
    // HTTP addresses name the same server.
    let http = url.replace("ws://", "http://");
    let quick = copy("commit_of_nothing", "");
    let second =
        floorkeeper(&["fixture", "run", quick.to_str().unwrap(), "--live", &http]).output();
    server.kill().unwrap();
    server.wait().unwrap();
    let shown = json(&output);
    assert_eq!(output.status.code(), Some(0), "{shown:#}");
    let notes: Vec<&str> = shown["fixtures"][0]["notes"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let unseen = "not observable: fence(1), model.start, synthesis.start";
    assert_eq!(notes, ["not applied: [[gate]], [llm]", unseen]);
    assert_eq!(second.unwrap().status.code(), Some(0));
}

/// Somebody who answers every connection with these bytes.
fn stranger(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4_096]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    format!("ws://{address}/v1/realtime")
}

#[test]
fn what_cannot_be_run_exits_2_with_one_message() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = format!("ws://{}/", listener.local_addr().unwrap());
    drop(listener);
    let locked = stranger(
        "HTTP/1.1 401 Unauthorized\r\nContent-Length: 68\r\nConnection: close\r\n\r\n\
         {\"error\":{\"code\":\"invalid_api_key\",\"message\":\"Incorrect key given.\"}}",
    );
    let page = stranger("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi");
    let noise = stranger("220 mail.example ESMTP\r\n");
    // A server without TLS, called with it.
    let plain = stranger("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    let plain = plain.replacen("ws://", "https://", 1);
    let cases: [(&[&str], &[&str]); 9] = [
        (&["--live", "--bless"], &["--bless with --live", "virtual time"]),
        (&["--live", "nonsense"], &["`nonsense` is no address", "goes behind the paths"]),
        (&["--live", "ftp://127.0.0.1/"], &["begins with ftp://", "is right"]),
        (&["--live", &plain], &["no TLS could be agreed on", "ws:// is right"]),
        (&["--live", &nobody], &["cannot reach", "is `floorkeeper serve` running?"]),
        (&["--live", &locked], &["401", "invalid_api_key: Incorrect key given."]),
        (&["--live", &page], &["200"]),
        (&["--live", &noise], &["is no Realtime server"]),
        (&["--live", "--key", "secret"], &["--key", "--live URL"]),
    ];
    for (args, wanted) in cases {
        let all = ["fixture", "run", "fixtures/calls/plain_turn.toml"];
        let all: Vec<&str> = all.iter().chain(args).copied().collect();
        let output = floorkeeper(&all).output().unwrap();
        let told = told(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        assert!(wanted.iter().all(|part| told.contains(part)), "{args:?}: {told}");
        assert_eq!(told.trim_end().lines().count(), 1, "{args:?}: {told}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}
