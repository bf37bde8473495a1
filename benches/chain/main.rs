//! The whole chain on real recordings: each is played in a call of its own to the embedded default
//! agent.
//!
//! `cargo bench --bench chain` starts the server, plays every recording of
//! `fixtures/speech/recordings.tsv` that is installed here (Debian packages `pocketsphinx-testdata`
//! and `asterisk-core-sounds-en-wav`), and prints the word error rate and the time from the end of
//! speech to the first audible answer. `-- --most N` plays only the first N. Words and ratios are
//! judged, times only reported.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use floorkeeper::cli::wer::word_errors;
use serde_json::Value;

const RECORDINGS: &str = include_str!("../../fixtures/speech/recordings.tsv");
const SERVER: &str = env!("CARGO_BIN_EXE_floorkeeper");
/// Recordings that a run must have to mean something.
const LEAST: usize = 25;
/// Word error rate that a run must stay below, in per cent.
const WER_MAX: f64 = 10.0;

struct Recording {
    file: PathBuf,
    words: String,
}

/// One recording's call.
struct Heard {
    words: String,
    first_audio_ms: Option<u64>,
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // A server that has already gone needs no stopping.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let most = arguments.iter().position(|a| a == "--most").and_then(|at| arguments.get(at + 1));
    let most = most.and_then(|n| n.parse().ok()).unwrap_or(usize::MAX);
    let recordings: Vec<Recording> = installed().into_iter().take(most).collect();
    if recordings.len() < LEAST.min(most) {
        println!(
            "SKIP: {} recordings are installed, {LEAST} are needed: apt-get install \
             pocketsphinx-testdata asterisk-core-sounds-en-wav",
            recordings.len()
        );
        return ExitCode::SUCCESS;
    }
    let Some((_server, url)) = start() else {
        println!("the server did not become ready");
        return ExitCode::FAILURE;
    };
    let (mut errors, mut words) = (0, 0);
    let mut first_audio = Vec::new();
    for recording in &recordings {
        let heard = call(&url, recording);
        let (wrong, of) = word_errors(&recording.words, &heard.words);
        errors += wrong;
        words += of;
        first_audio.extend(heard.first_audio_ms);
        let ms = heard.first_audio_ms.map_or("-".to_owned(), |ms| ms.to_string());
        println!("{wrong:>2} of {of:>2} wrong  {ms:>5} ms  {}", heard.words);
    }
    report(recordings.len(), errors, words, first_audio)
}

fn report(calls: usize, errors: usize, words: usize, mut first_audio: Vec<u64>) -> ExitCode {
    first_audio.sort_unstable();
    let at = |percent: usize| {
        first_audio
            .get((first_audio.len() * percent / 100).min(first_audio.len().saturating_sub(1)))
    };
    let rate = 100.0 * errors as f64 / words.max(1) as f64;
    println!("{calls} recordings, {words} words: word error rate {rate:.1} %");
    println!(
        "end of speech to first audible answer: median {} ms, p95 {} ms over {} answers",
        at(50).copied().unwrap_or(0),
        at(95).copied().unwrap_or(0),
        first_audio.len()
    );
    if rate < WER_MAX { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn installed() -> Vec<Recording> {
    let folder = |package: &str| match package {
        "pocketsphinx" => Some("/usr/share/pocketsphinx/test/data"),
        "asterisk" => Some("/usr/share/asterisk/sounds/en_US_f_Allison"),
        _ => None,
    };
    RECORDINGS
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .filter_map(|line| {
            let mut columns = line.split('\t');
            let (package, file, words) = (columns.next()?, columns.next()?, columns.next()?);
            let file = PathBuf::from(folder(package)?).join(file);
            // Raw recordings are for tests that read them themselves; a call plays WAV files.
            let playable = file.extension().is_some_and(|kind| kind == "wav") && file.exists();
            playable.then(|| Recording { file, words: words.to_owned() })
        })
        .collect()
}

/// Starts the server with the embedded default and waits until it is ready.
fn start() -> Option<(Server, String)> {
    let child = Command::new(SERVER)
        .args(["serve", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut server = Server(child);
    let lines = BufReader::new(server.0.stdout.take()?).lines();
    for line in lines.map_while(Result::ok) {
        if let Some(at) = line.find("http://") {
            let address = line[at + "http://".len()..].trim_end_matches('/').to_owned();
            return Some((server, format!("ws://{address}/v1/realtime")));
        }
    }
    None
}

fn call(url: &str, recording: &Recording) -> Heard {
    let output = Command::new(SERVER)
        .args(["call", url, "--json", "--play"])
        .arg(&recording.file)
        .args(["--seconds", "30"])
        .stderr(Stdio::null())
        .output();
    let report: Value = output
        .ok()
        .and_then(|output| serde_json::from_slice(&output.stdout).ok())
        .unwrap_or(Value::Null);
    let turns = report["turns"].as_array().cloned().unwrap_or_default();
    let words: Vec<&str> = turns.iter().filter_map(|turn| turn["caller"].as_str()).collect();
    // The last turn's answer is the one that followed the end of the recording.
    let last = turns.last().map(|turn| turn["first_audio_ms"].clone()).unwrap_or_default();
    let first_audio_ms = last.as_f64().map(|ms| Duration::from_secs_f64(ms / 1_000.0));
    Heard {
        words: words.join(" "),
        first_audio_ms: first_audio_ms.map(|span| span.as_millis() as u64),
    }
}
