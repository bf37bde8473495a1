//! `floorkeeper load`: many calls on a schedule of their own, and what became of them.

mod arrivals;
mod caller;
mod lateness;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

pub use self::arrivals::Arrivals;
use self::caller::{Question, Script};
use self::report::Report;
use super::call::connect::Target;
use super::call::mouth::speech_frames;
use super::call::wire::{self, WIRE_FRAME_SAMPLES, WIRE_RATE_HZ};
use super::wav;

const MAX_CALLS: usize = 2_000;
const MAX_RATE: f64 = 1_000.0;
const MAX_RUN: Duration = Duration::from_secs(900);

/// Offers calls to a server on this machine on a fixed schedule and measures how they fare.
#[derive(Clone, Debug, clap::Args)]
pub struct LoadArgs {
    /// The server, on a loopback address, as in ws://127.0.0.1:8080/v1/realtime
    pub url: String,
    /// How many calls (at most 2000)
    #[arg(long, value_name = "N")]
    pub calls: usize,
    /// When they come
    #[arg(long, value_enum, default_value = "poisson")]
    pub arrivals: Arrivals,
    /// Calls a second, on average (not for a burst)
    #[arg(long, value_name = "R", default_value_t = 10.0)]
    pub rate: f64,
    /// How long each call stays, in seconds
    #[arg(long, value_name = "S", default_value_t = 20.0)]
    pub seconds: f64,
    /// What callers ask: a WAV recording; without it they ask in writing
    #[arg(long, value_name = "IN.WAV")]
    pub play: Option<PathBuf>,
    /// What callers ask in writing
    #[arg(long, value_name = "TEXT", default_value = "When are you open?")]
    pub say: String,
    /// Which agent answers
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Key for servers that ask for one
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Fixes the random arrivals
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the load. Exit code 0: no call broke; 1: some did or none was taken; 2: wrong arguments.
pub async fn run(args: LoadArgs) -> ExitCode {
    let (script, due) = match prepare(&args) {
        Ok(prepared) => prepared,
        Err(reason) => {
            eprintln!("error: {reason}");
            return ExitCode::from(2);
        }
    };
    let url = script.target.url.to_string();
    let last = due.last().copied().unwrap_or_default();
    let most = (last + script.stay).as_secs_f64();
    eprintln!("{} calls to {url}; this takes about {most:.0} s", due.len());
    let script = Arc::new(script);
    // A moment to create the tasks, so that the first arrivals are not late for that reason.
    let start = Instant::now() + Duration::from_millis(50);
    let calls: Vec<_> = due
        .iter()
        .map(|&due| tokio::spawn(caller::place(Arc::clone(&script), start, due)))
        .collect();
    let mut outcomes = Vec::with_capacity(calls.len());
    for call in calls {
        match call.await {
            Ok(outcome) => outcomes.push(outcome),
            Err(error) => {
                eprintln!("error: a caller of the load generator failed: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    let report = Report::new(url, &due, &outcomes);
    if args.json {
        match serde_json::to_string_pretty(&report) {
            Ok(json) => println!("{json}"),
            Err(error) => eprintln!("error: the report cannot be written as JSON: {error}"),
        }
    } else {
        print!("{report}");
    }
    if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn prepare(args: &LoadArgs) -> Result<(Script, Vec<Duration>), String> {
    let target = Target::new(&args.url, args.agent.as_deref(), args.key.clone())?;
    if !target.is_loopback() {
        return Err(format!(
            "`{}` is not on this machine; load goes to loopback addresses only, such as 127.0.0.1",
            args.url
        ));
    }
    if !(1..=MAX_CALLS).contains(&args.calls) {
        return Err(format!("--calls {}: 1 to {MAX_CALLS} is right", args.calls));
    }
    if !(args.rate > 0.0 && args.rate <= MAX_RATE) {
        return Err(format!("--rate {}: above 0 and at most {MAX_RATE} is right", args.rate));
    }
    if !(args.seconds > 0.0 && args.seconds <= MAX_RUN.as_secs_f64()) {
        return Err(format!("--seconds {}: above 0 and at most 900 is right", args.seconds));
    }
    let due = arrivals::schedule(args.arrivals, args.calls, args.rate, args.seed);
    let stay = Duration::from_secs_f64(args.seconds);
    let last = due.last().copied().unwrap_or_default();
    if last + stay > MAX_RUN {
        return Err(format!(
            "{} calls at {} a second that stay {} s take {:.0} s; 900 s is the most",
            args.calls,
            args.rate,
            args.seconds,
            (last + stay).as_secs_f64()
        ));
    }
    let question = match &args.play {
        None => Question::Written(args.say.clone()),
        Some(path) => spoken(path)?,
    };
    Ok((Script { target, stay, question }, due))
}

fn spoken(path: &std::path::Path) -> Result<Question, String> {
    let recording = wav::read(path, WIRE_RATE_HZ).map_err(|error| format!("--play {error}"))?;
    if let Some(conversion) = recording.conversion() {
        eprintln!("{}: converted, {conversion}", path.display());
    }
    let mut samples = recording.pcm.samples;
    samples.resize(samples.len().next_multiple_of(WIRE_FRAME_SAMPLES), 0);
    let speech = speech_frames(&samples);
    let last_speech = speech.iter().rposition(|&speech| speech).ok_or_else(|| {
        format!("--play {}: nobody speaks in it (all below -50 dBFS)", path.display())
    })?;
    let messages = samples.chunks(WIRE_FRAME_SAMPLES).map(wire::append).collect();
    Ok(Question::Spoken { messages, last_speech })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> LoadArgs {
        LoadArgs {
            url: "ws://127.0.0.1:1/v1/realtime".into(),
            calls: 10,
            arrivals: Arrivals::Steady,
            rate: 10.0,
            seconds: 5.0,
            play: None,
            say: "hello".into(),
            agent: None,
            key: None,
            seed: 1,
            json: false,
        }
    }

    fn refusal(args: LoadArgs) -> String {
        prepare(&args).map(|_| ()).unwrap_err()
    }

    #[test]
    fn only_this_machine_is_loaded() {
        let there = LoadArgs { url: "ws://192.0.2.7/v1/realtime".into(), ..args() };
        assert!(refusal(there).contains("loopback addresses only"));
        assert!(prepare(&args()).is_ok());
    }

    #[test]
    fn count_rate_and_time_are_bounded() {
        assert!(refusal(LoadArgs { calls: 0, ..args() }).contains("1 to 2000"));
        assert!(refusal(LoadArgs { calls: 2_001, ..args() }).contains("1 to 2000"));
        assert!(refusal(LoadArgs { rate: f64::NAN, ..args() }).contains("--rate NaN"));
        assert!(refusal(LoadArgs { calls: 2_000, rate: 1.0, ..args() }).contains("900 s"));
    }
}
