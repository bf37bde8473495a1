//! The cost of a call beside the cost of moving its bytes: `cargo bench --bench wire`.
//!
//! N scripted callers send fifty frames a second each over WebSocket, first to a bare server that
//! parses, decodes, re-encodes and echoes (the floor), then to `floorkeeper serve` with scripted
//! providers: once with the client committing its turns, once with the server's own detection. CPU
//! and memory are the kernel's figures for each server's process; callers share the machine.

#[path = "../load/bare.rs"]
mod bare;
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
mod incoming;
mod messages;
#[path = "../load/percentiles.rs"]
mod percentiles;
#[path = "../load/process.rs"]
mod process;
mod report;
#[path = "../load/scripted.rs"]
mod scripted;
mod server;
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

use clap::Parser;

use self::bare::Echo;
use self::callers::Plan;
use self::child::Server;
use self::report::{Figures, Goal};
use self::server::Detection;

/// Measures floorkeeper beside a bare WebSocket server.
#[derive(Parser)]
struct Args {
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
    /// 40 calls and ten seconds in all: proves that it runs, measures little
    #[arg(long)]
    quick: bool,
    /// Calls without voice activity detection
    #[arg(long, default_value_t = 400)]
    calls: usize,
    /// Calls with it
    #[arg(long, default_value_t = 200)]
    vad_calls: usize,
    /// Seconds measured in each run
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// What callers say: a WAV recording
    #[arg(long)]
    speech: Option<PathBuf>,
    /// Measure the floor alone
    #[arg(long)]
    floor_only: bool,
    /// The server's binary; by default the one built with this benchmark
    #[arg(long)]
    server: Option<PathBuf>,
    /// Exit 1 when a goal is missed
    #[arg(long)]
    gate: bool,
    /// Only this part: `off` or `silero`
    #[arg(long)]
    only: Option<String>,
    /// Print every figure as JSON at the end
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    if let Some(echo) = floor::FLOOR.of_this_process() {
        floor::serve(echo);
        return ExitCode::SUCCESS;
    }
    let args = Args::parse();
    command::run("wire", args.bench, || measure(&args))
}

/// One part of the benchmark: a load, and what is asked of the real server under it.
struct Part {
    detection: Detection,
    calls: usize,
    goal: Goal,
}

fn measure(args: &Args) -> Result<bool, String> {
    let cycle = sound::cycle(args.speech.as_deref(), messages::RATE_HZ)?;
    let messages = messages::appends(&cycle.frames);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("callers say: {}", cycle.source);
    println!("machine: {cores} cores, shared by callers and servers");
    if cfg!(debug_assertions) {
        println!("NOT OPTIMISED: a debug build's figures mean nothing");
    }
    let few = |calls: usize| if args.quick { calls.min(40) } else { calls };
    // A quick run ends before every caller has had an answer.
    let audible = if args.quick { 0.15 } else { 0.36 };
    let goal = |cpu_ratio| Goal { cpu_ratio, kib_per_call: 200.0, late_p99_ms: 20.0, audible };
    let parts = [
        Part { detection: Detection::Off, calls: few(args.calls), goal: goal(2.5) },
        Part { detection: Detection::Silero, calls: few(args.vad_calls), goal: goal(4.0) },
    ];
    let mut all = Vec::new();
    let mut good = true;
    for part in parts {
        if args.only.as_deref().is_some_and(|only| only != part.detection.name()) {
            continue;
        }
        good &= measure_part(args, &messages, &part, &mut all)?;
    }
    if args.json {
        let json = serde_json::to_string_pretty(&all).map_err(|error| error.to_string())?;
        println!("{json}");
    }
    Ok(good)
}

fn measure_part(
    args: &Args,
    messages: &[Vec<u8>],
    part: &Part,
    all: &mut Vec<Figures>,
) -> Result<bool, String> {
    println!("\n== {} calls, detection {} ==", part.calls, part.detection.name());
    let floors = if args.quick { vec![Echo::All] } else { vec![Echo::All, Echo::AgentShare] };
    let first = all.len();
    for echo in floors {
        let server = floor::FLOOR.start(echo)?;
        all.push(measure_server(args, messages, part, &server, true)?);
    }
    let mut good = all[first..].iter().all(|floor| floor.run.is_sound());
    if args.floor_only {
        return Ok(good);
    }
    let server = server::real(args.server.as_ref(), part.detection)?;
    let measured = measure_server(args, messages, part, &server, false);
    let real = measured.map_err(|reason| format!("{reason}\n{}", server.log_tail()))?;
    good &= real.run.is_sound();
    for floor in &all[first..] {
        let met = real.compare(floor, &part.goal);
        good &= met || !args.gate;
    }
    all.push(real);
    Ok(good)
}

fn measure_server(
    args: &Args,
    messages: &[Vec<u8>],
    part: &Part,
    server: &Server,
    floor: bool,
) -> Result<Figures, String> {
    let plan = Plan {
        calls: part.calls,
        warm_up: warm_up(args, part.detection),
        measure: Duration::from_secs(if args.quick { 4 } else { args.seconds }),
        detection: part.detection,
        floor,
        messages,
    };
    let measured = callers::run(server.port, server.pid(), &plan)
        .map_err(|reason| format!("{}: {reason}", server.name))?;
    let figures = Figures::new(&server.name, measured);
    figures.print();
    Ok(figures)
}

/// A caller that takes its own turns has its first answer in its first whole cycle.
fn warm_up(args: &Args, detection: Detection) -> Duration {
    match detection {
        _ if args.quick => Duration::from_secs(1),
        Detection::Off => sound::CYCLE,
        Detection::Silero => Duration::from_secs(3),
    }
}
