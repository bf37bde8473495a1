//! `floorkeeper call`: a softphone in the terminal over the Realtime protocol.

pub(crate) mod connect;
pub(crate) mod mouth;
mod playback;
mod report;
mod socket;
mod story;
mod talk;
pub(crate) mod wire;

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use self::connect::Target;
use self::mouth::{Interruption, Mouth};
use self::report::Report;
use self::talk::Talk;
use self::wire::WIRE_RATE_HZ;
use super::wav::{self, Recording};
use crate::audio::{Pcm, duration_to_samples};

/// Nobody talks in the very moment the line opens, and no detector hears a word's beginning then.
const LEAD_IN: Duration = Duration::from_millis(500);
/// Longest call this command makes, in seconds.
const MAX_SECONDS: f64 = 7_200.0;

/// Calls an agent, plays recordings to it and writes down what a caller would hear.
#[derive(Clone, Debug, clap::Args)]
pub struct CallArgs {
    /// The server, as in ws://127.0.0.1:8080/v1/realtime
    pub url: String,
    /// What the caller says: a WAV recording of any rate, mono or stereo
    #[arg(long, value_name = "IN.WAV")]
    pub play: PathBuf,
    /// Write what the caller hears to this WAV file (24 kHz mono)
    #[arg(long, value_name = "OUT.WAV")]
    pub record: Option<PathBuf>,
    /// Say FILE this long after the agent's first audio, as in 2.5s=second.wav; may be repeated
    #[arg(long, value_name = "TIME=FILE")]
    pub barge: Vec<Barge>,
    /// Which agent answers
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Key for servers that ask for one
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Hang up after this many seconds; without it when the agent has been quiet for 3 s
    #[arg(long, value_name = "N")]
    pub seconds: Option<f64>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// `TIME=FILE`: a recording to interrupt with.
#[derive(Clone, Debug, PartialEq)]
pub struct Barge {
    /// Counted from the agent's first audio.
    pub after: Duration,
    /// The recording.
    pub file: PathBuf,
}

impl FromStr for Barge {
    type Err = String;

    fn from_str(text: &str) -> Result<Barge, String> {
        let right = "a time, `=` and a WAV file are right, as in 2.5s=second.wav or 800ms=no.wav";
        let (time, file) =
            text.split_once('=').ok_or_else(|| format!("`{text}` has no `=`; {right}"))?;
        if file.is_empty() {
            return Err(format!("`{text}` names no file; {right}"));
        }
        let seconds = match time.strip_suffix("ms") {
            Some(number) => number.parse::<f64>().map(|ms| ms / 1_000.0),
            None => time.strip_suffix('s').unwrap_or(time).parse::<f64>(),
        };
        match seconds {
            Ok(seconds) if (0.0..=MAX_SECONDS).contains(&seconds) => {
                Ok(Barge { after: Duration::from_secs_f64(seconds), file: file.into() })
            }
            Ok(_) | Err(_) => Err(format!("`{time}` is no time from 0 s to 2 h; {right}")),
        }
    }
}

/// Makes the call. Exit code 0: it went well; 1: it failed; 2: the arguments were wrong.
pub async fn run(args: CallArgs) -> ExitCode {
    let prepared = match prepare(&args) {
        Ok(prepared) => prepared,
        Err(reason) => {
            eprintln!("error: {reason}");
            return ExitCode::from(2);
        }
    };
    let report = hold(prepared, &args).await;
    if args.json {
        match serde_json::to_string_pretty(&report) {
            Ok(json) => println!("{json}"),
            Err(error) => eprintln!("error: the report cannot be written as JSON: {error}"),
        }
    } else {
        println!("{report}");
    }
    if report.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Prepared {
    target: Target,
    mouth: Mouth,
    limit: Option<Duration>,
}

/// Everything that can be wrong with the arguments is found here, before anybody is called.
fn prepare(args: &CallArgs) -> Result<Prepared, String> {
    let target = Target::new(&args.url, args.agent.as_deref(), args.key.clone())?;
    let limit = match args.seconds {
        Some(seconds) if seconds > 0.0 && seconds <= MAX_SECONDS => {
            Some(Duration::from_secs_f64(seconds))
        }
        Some(seconds) => {
            return Err(format!("--seconds {seconds}: more than 0 and at most 7200 is right"));
        }
        None => None,
    };
    let mut input = load("--play", &args.play)?;
    let lead_in = duration_to_samples(LEAD_IN, WIRE_RATE_HZ);
    input.samples.splice(..0, std::iter::repeat_n(0, lead_in));
    let mut interruptions = Vec::with_capacity(args.barge.len());
    for barge in &args.barge {
        let sound = load("--barge", &barge.file)?;
        interruptions.push(Interruption { after_first_audio: barge.after, sound });
    }
    if let Some(path) = &args.record {
        // Found out now rather than after the call.
        wav::write(path, &Pcm { rate_hz: WIRE_RATE_HZ, samples: Vec::new() })
            .map_err(|error| format!("--record {error}"))?;
    }
    Ok(Prepared { target, mouth: Mouth::new(input, interruptions), limit })
}

fn load(option: &str, path: &std::path::Path) -> Result<Pcm, String> {
    let recording: Recording =
        wav::read(path, WIRE_RATE_HZ).map_err(|error| format!("{option} {error}"))?;
    if let Some(conversion) = recording.conversion() {
        eprintln!("{}: converted, {conversion}", path.display());
    }
    Ok(recording.pcm)
}

async fn hold(prepared: Prepared, args: &CallArgs) -> Report {
    let Prepared { target, mouth, limit } = prepared;
    let mut report = Report {
        url: target.url.to_string(),
        ok: false,
        failure: None,
        seconds: 0.0,
        turns: Vec::new(),
        late_frames: 0,
        suppressed: Default::default(),
        functions_called: Vec::new(),
        errors: Vec::new(),
        barges_not_played: mouth.interruptions_waiting(),
        recorded: None,
    };
    eprintln!("calling {}", target.url);
    let mut complaints = Vec::new();
    let line = match target.dial(|what| complaints.push(what.to_owned())).await {
        Ok(line) => line,
        Err(reason) => {
            report.failure = Some(reason);
            return report;
        }
    };
    let mut talk = Talk::new(line, mouth, true);
    let ended = talk.run(limit).await;
    complaints.append(&mut talk.errors);
    report.errors = complaints;
    report.seconds = talk.recording.len() as f64 / f64::from(WIRE_RATE_HZ);
    report.barges_not_played = talk.barges_not_played;
    report.suppressed = std::mem::take(&mut talk.suppressed);
    report.functions_called = std::mem::take(&mut talk.functions_called);
    let recording = Pcm { rate_hz: WIRE_RATE_HZ, samples: std::mem::take(&mut talk.recording) };
    report.turns = std::mem::take(&mut talk.story).into_turns();
    report.late_frames = report.turns.iter().map(|turn| turn.late_frames).sum();
    report.failure = ended.err().or_else(|| shortcoming(&report, talk.agent_spoke));
    talk.hang_up().await;
    if let Some(path) = &args.record {
        match wav::write(path, &recording) {
            Ok(()) => report.recorded = Some(path.display().to_string()),
            Err(error) => report.failure = Some(format!("--record {error}")),
        }
    }
    report.ok = report.failure.is_none();
    report
}

/// What makes a call that came to its end a failed one.
fn shortcoming(report: &Report, agent_spoke: bool) -> Option<String> {
    if report.late_frames > 0 {
        return Some(format!("{} frames of cleared answers came", report.late_frames));
    }
    if !agent_spoke {
        return Some("the agent was not heard".to_owned());
    }
    (report.barges_not_played > 0)
        .then(|| format!("{} interruptions were not played", report.barges_not_played))
}

#[cfg(test)]
mod mock;
#[cfg(test)]
mod mock_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn barge_times_are_read_in_seconds_and_milliseconds() {
        let barge: Barge = "2.5s=second.wav".parse().unwrap();
        assert_eq!(barge, Barge { after: Duration::from_millis(2_500), file: "second.wav".into() });
        assert_eq!("800ms=a=b.wav".parse::<Barge>().unwrap().file, PathBuf::from("a=b.wav"));
        assert_eq!("3=x.wav".parse::<Barge>().unwrap().after, Duration::from_secs(3));
    }

    #[test]
    fn a_wrong_barge_says_what_would_be_right() {
        for wrong in ["second.wav", "2.5s=", "soon=second.wav", "-1s=second.wav", "NaN=x.wav"] {
            let error = wrong.parse::<Barge>().unwrap_err();
            assert!(error.contains("2.5s=second.wav"), "{error}");
        }
    }
}
