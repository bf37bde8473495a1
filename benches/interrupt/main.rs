//! Long answers interrupted on the running server, over the wire, with real speech: `cargo bench
//! --bench interrupt`.
//!
//! Starts `floorkeeper serve` with the embedded detector, end-of-turn model and recogniser; the
//! answers are scripted. Each call asks for a long answer, listens for a while and then says
//! something ([`sounds`]): words, which have to take the floor, or no words, which must not. Times
//! are taken here, at the client: from the sending of the first frame of its speech that is louder
//! than -45 dBFS to the arrival of the server's event. They are told beside the configured times;
//! what is judged with exit code 1 are frames of an old answer behind its clear, answers that were
//! lost and answers that are not complete.

mod caller;
#[path = "../load/child.rs"]
mod child;
#[path = "../load/command.rs"]
mod command;
#[path = "../load/dice.rs"]
mod dice;
#[path = "../load/percentiles.rs"]
mod percentiles;
#[path = "../load/process.rs"]
mod process;
mod report;
mod server;
mod sounds;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use futures_util::StreamExt;

use self::process::Busy;
use self::report::Report;
use self::sounds::{Kind, Sound};

/// Speech this long pauses our sending.
const DUCK_MS: u32 = 60;
/// At this much speech the newest words decide.
const CONFIRM_MS: u32 = 240;

/// Interrupts long answers and prints how soon they stop.
#[derive(Parser)]
struct Args {
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
    /// Six interruptions and one of each other sound: proves that it runs
    #[arg(long)]
    quick: bool,
    /// Interruptions with words
    #[arg(long, default_value_t = 100)]
    interruptions: usize,
    /// Of each sound that is no interruption
    #[arg(long, default_value_t = 6)]
    others: usize,
    /// Calls at once
    #[arg(long, default_value_t = 3)]
    calls: usize,
    /// What the agent speaks with: scripted or piper
    #[arg(long, default_value = "scripted")]
    voice: String,
    /// Write every sound into this folder, to listen to, and measure nothing
    #[arg(long, value_name = "DIR")]
    write: Option<PathBuf>,
    /// Print every call
    #[arg(long)]
    verbose: bool,
    /// Print the figures as JSON at the end
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    command::run("interrupt", args.bench, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|problem| problem.to_string())?.block_on(measure(&args))
    })
}

async fn measure(args: &Args) -> Result<bool, String> {
    let (words, others) = if args.quick { (6, 1) } else { (args.interruptions, args.others) };
    let said = match sounds::all().await {
        Ok(said) => said,
        Err(missing) => {
            println!("SKIP: {missing}");
            return Ok(true);
        }
    };
    if let Some(folder) = &args.write {
        return write_all(folder, &said);
    }
    let server = server::start(&args.voice)?;
    if cfg!(debug_assertions) {
        println!("NOT OPTIMISED: a debug build's figures mean nothing");
    }
    let plan = plan(&said, words, others);
    println!("{} calls, {} at once, {} sounds", plan.len(), args.calls, said.len());
    let busy = Busy::begin(server.pid())?;
    let calls = plan.iter().enumerate().map(|(nth, sound)| caller::call(&server, nth, sound));
    let mut calls = futures_util::stream::iter(calls).buffer_unordered(args.calls.max(1));
    let mut report = Report::default();
    while let Some(call) = calls.next().await {
        let call = call.map_err(|problem| format!("{problem}\n{}", server.log_tail()))?;
        if args.verbose {
            println!("{}", call.line());
        }
        report.add(call);
    }
    drop(calls);
    report.others_cores = busy.spent()?.others_cores();
    report.print();
    if let Ok(used) = process::usage(server.pid()) {
        let mib = used.resident_bytes >> 20;
        println!("the server used {:.0} s of CPU time and {mib} MiB", used.cpu.as_secs_f64());
    }
    if args.json {
        println!("{}", report.json());
    }
    Ok(report.is_sound())
}

/// Writes every sound, and tells when the detector alone has heard `duck_ms` of speech in it.
fn write_all(folder: &Path, said: &[Sound]) -> Result<bool, String> {
    let (usual, low) = (sounds::detected(said, 0.5)?, sounds::detected(said, 0.3)?);
    println!("    kind          heard at 0.5, at 0.3");
    let ms = |span: Option<Duration>| span.map_or("-".to_owned(), |s| s.as_millis().to_string());
    for (nth, sound) in said.iter().enumerate() {
        sound.write(&folder.join(format!("{nth:02}.wav")))?;
        let (usual, low) = (ms(usual[nth]), ms(low[nth]));
        println!("{nth:02}  {:<12} {usual:>5} ms {low:>5} ms  {}", sound.kind.name(), sound.name);
    }
    Ok(true)
}

/// Which sounds are made in which call: every kind in turn, so that they meet the same machine.
fn plan(said: &[Sound], words: usize, others: usize) -> Vec<&Sound> {
    let of = |kind: Kind| said.iter().filter(move |sound| sound.kind == kind);
    let interrupting: Vec<&Sound> = said.iter().filter(|sound| sound.kind.interrupts()).collect();
    let at = |nth: usize| meets_all(nth, interrupting.len());
    let mut plan: Vec<&Sound> = (0..words).map(|nth| interrupting[at(nth)]).collect();
    for kind in Kind::OTHERS {
        let between = plan.len() / others.max(1);
        for (nth, sound) in of(kind).cycle().take(others).enumerate() {
            plan.insert((nth * between + 1).min(plan.len()), sound);
        }
    }
    plan
}

/// A walk over `all` that meets every one before any comes again, far ones behind each other.
fn meets_all(nth: usize, all: usize) -> usize {
    let coprime =
        |step: &usize| (2..=*step).all(|by| !step.is_multiple_of(by) || !all.is_multiple_of(by));
    let step = (all * 5 / 13..).find(|step| *step > 0 && coprime(step)).unwrap_or(1);
    nth * step % all
}
