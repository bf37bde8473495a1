//! The cost of a WebRTC call beside a bare echo's: `cargo bench --bench webrtc`.
//!
//! N callers send fifty packets of Opus a second each, 40 % of the time speech, first to a bare
//! server on the same `rtc` core that decodes every packet and encodes the speech again (the
//! floor), then to `floorkeeper serve` with scripted providers, whose client takes its turns itself
//! and whose agent speaks as long as the caller does: both decode and encode the same number of
//! packets. CPU and memory are the kernel's figures for each server's process; callers share the
//! machine. Rounds of floor and server alternate, and a ratio is of one round. Where the machine is
//! not ours alone, `chrt -r 5` before the command gives all of it precedence.

#[path = "../load/bare.rs"]
mod bare;
#[path = "../../tests/webrtc/browser.rs"]
mod browser;
mod caller;
mod callers;
#[path = "../load/child.rs"]
mod child;
#[path = "../load/command.rs"]
mod command;
#[path = "../load/dice.rs"]
mod dice;
#[path = "../load/figures.rs"]
mod figures;
mod floor;
#[path = "../load/percentiles.rs"]
mod percentiles;
#[path = "../load/process.rs"]
mod process;
mod report;
#[path = "../load/scripted.rs"]
mod scripted;
#[path = "../load/sound.rs"]
mod sound;
#[path = "../load/stretch.rs"]
mod stretch;
#[path = "../load/table.rs"]
mod table;
#[path = "../load/turns.rs"]
mod turns;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use clap::Parser;
use ropus::{Application, Bitrate, Channels, InbandFec, Signal};

use self::bare::Echo;
use self::callers::Plan;
use self::child::Server;
use self::floor::FLOOR;
use self::report::Figures;

/// What browsers encode.
const RATE_HZ: u32 = 48_000;
/// The real server's CPU per call, times that of a floor that encodes as much.
const CPU_RATIO: f64 = 1.6;

/// Measures floorkeeper beside a bare WebRTC echo.
#[derive(Parser)]
struct Args {
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
    /// 20 calls and four seconds of one round: proves that it runs, measures little
    #[arg(long)]
    quick: bool,
    /// Calls at once
    #[arg(long, default_value_t = 100)]
    calls: usize,
    /// Seconds measured in each run: whole cycles of ten
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Rounds of floor and server
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Milliseconds from one call's offer to the next one's
    #[arg(long, default_value_t = 40)]
    setup_every_ms: u64,
    /// What callers say: a WAV recording
    #[arg(long)]
    speech: Option<PathBuf>,
    /// The server's binary; by default the one built with this benchmark
    #[arg(long)]
    server: Option<PathBuf>,
    /// Exit 1 when the goal is missed in the middle one of the rounds that are not void
    #[arg(long)]
    gate: bool,
    /// Print every figure as JSON at the end
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    if let Some(echo) = FLOOR.of_this_process() {
        floor::serve(echo);
        return ExitCode::SUCCESS;
    }
    let args = Args::parse();
    command::run("webrtc", args.bench, || measure(&args))
}

fn measure(args: &Args) -> Result<bool, String> {
    let cycle = sound::cycle(args.speech.as_deref(), RATE_HZ)?;
    let packets = encoded(&cycle.frames)?;
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("callers say: {}", cycle.source);
    println!("machine: {cores} cores, shared by callers and servers");
    if cfg!(debug_assertions) {
        println!("NOT OPTIMISED: a debug build's figures mean nothing");
    }
    let (mut rounds, mut ratios) = (Vec::new(), Vec::new());
    for round in 0..if args.quick { 1 } else { args.rounds.max(1) } {
        println!("\n== round {} ==", round + 1);
        let floor = run(args, &packets, &FLOOR.start(Echo::AgentShare)?, false)?;
        let name = "floorkeeper, the client takes its turns";
        let server = scripted::start(args.server.as_ref(), name, &["vad.detector=earshot"])?;
        let real = run(args, &packets, &server, true)
            .map_err(|reason| format!("{reason}\n{}", server.log_tail()))?;
        drop(server);
        ratios.extend(real.compare(&floor, Some(CPU_RATIO)));
        if !args.quick {
            let all = run(args, &packets, &FLOOR.start(Echo::All)?, false)?;
            real.compare(&all, None);
            rounds.push(all);
        }
        rounds.extend([floor, real]);
    }
    let good = rounds.iter().all(|figures| figures.run.is_sound());
    let met = judge(ratios);
    if args.json {
        let json = serde_json::to_string_pretty(&rounds).map_err(|error| error.to_string())?;
        println!("{json}");
    }
    Ok(good && (met || !args.gate))
}

/// Judges the middle one of the rounds that were not void; without any the goal is not met.
fn judge(mut ratios: Vec<f64>) -> bool {
    ratios.sort_unstable_by(f64::total_cmp);
    let Some(middle) = ratios.get(ratios.len() / 2) else {
        println!("\nno round judges anything");
        return false;
    };
    println!("\nof {} rounds, the middle one:", ratios.len());
    table::verdict("CPU per call, times the floor's", *middle, CPU_RATIO)
}

fn run(args: &Args, packets: &[Bytes], server: &Server, turns: bool) -> Result<Figures, String> {
    let plan = Plan {
        calls: if args.quick { args.calls.min(20) } else { args.calls },
        setup_every: Duration::from_millis(args.setup_every_ms.max(1)),
        // A caller that takes its own turns has its first answer in its first whole cycle.
        warm_up: sound::CYCLE,
        measure: Duration::from_secs(if args.quick { 4 } else { args.seconds.max(1) }),
        turns,
        packets,
    };
    let measured = callers::run(server.port, server.pid(), &plan)
        .map_err(|reason| format!("{}: {reason}", server.name))?;
    let figures = Figures::new(&server.name, measured);
    figures.print();
    Ok(figures)
}

/// The frames as a browser encodes them: full band, with error correction, nothing left out.
fn encoded(frames: &[Vec<i16>]) -> Result<Vec<Bytes>, String> {
    let fault = |fault: ropus::EncodeError| fault.to_string();
    let mut encoder = ropus::Encoder::builder(RATE_HZ, Channels::Mono, Application::Voip)
        .bitrate(Bitrate::Bits(32_000))
        .complexity(9)
        .signal(Signal::Voice)
        .inband_fec(InbandFec::Enabled)
        .build()
        .map_err(|fault| fault.to_string())?;
    let mut packet = vec![0; 1_275];
    let encode = |frame: &Vec<i16>| {
        let length = encoder.encode(frame, &mut packet).map_err(fault)?;
        Ok(Bytes::copy_from_slice(&packet[..length]))
    };
    frames.iter().map(encode).collect()
}
