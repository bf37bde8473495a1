//! Telephone calls under load: `cargo bench --bench sip`.
//!
//! A thousand short calls come over SIP at a hundred a second; then two hundred are held, each with
//! fifty packets of G.711 a second from a caller who speaks 40 % of the time, to an agent who is
//! audible 40 % of the time. They go to `floorkeeper serve` with scripted providers and without
//! voice activity detection, where a telephone's caller has no turns: what the agent says is its
//! greeting. The floor is a bare RTP echo that decodes and encodes the same G.711, once as much as
//! the agent says, once everything. Then two full gates refuse. CPU is the kernel's figure for each
//! server's process; callers share the machine. Where it is not ours alone, `chrt -r 5` before the
//! command gives all of it precedence.

#[path = "../load/bare.rs"]
mod bare;
#[path = "../load/child.rs"]
mod child;
#[path = "../load/command.rs"]
mod command;
#[path = "../load/dice.rs"]
mod dice;
#[path = "../load/figures.rs"]
mod figures;
mod floor;
mod held;
#[path = "../load/percentiles.rs"]
mod percentiles;
#[path = "../load/process.rs"]
mod process;
mod report;
#[path = "../load/scripted.rs"]
mod scripted;
mod server;
mod short;
#[path = "../load/sound.rs"]
mod sound;
#[path = "../load/stretch.rs"]
mod stretch;
#[path = "../load/table.rs"]
mod table;
mod trunk;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use floorkeeper::codec::g711::{Law, RATE_HZ};
use tokio::task::LocalSet;

use self::bare::Echo;
use self::floor::FLOOR;
use self::held::{Callee, Plan};
use self::process::Busy;
use self::report::Figures;
use self::server::{Left, Phones};
use self::trunk::Trunk;

/// G.711, 20 ms.
const FRAME: Duration = Duration::from_millis(20);
const FRAME_SAMPLES: usize = 160;
/// Of RTP.
const HEADER: usize = 12;
/// A short call speaks so many frames.
const SHORT_FRAMES: usize = 15;
/// What the scripted voice says in a second.
const WORDS_PER_S: f64 = 2.5;
/// Held calls are measured so long after the last was set up.
const WARM_UP: Duration = Duration::from_secs(1);
/// Lines of a gate that is to be full.
const LINES: usize = 20;

/// Measures telephone calls over SIP, beside a bare RTP echo.
#[derive(Parser)]
struct Args {
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
    /// 100 short calls, 20 held for ten seconds, 20 refused: proves that it runs, measures little
    #[arg(long)]
    quick: bool,
    /// Short calls
    #[arg(long, default_value_t = 1_000)]
    short: usize,
    /// Calls that are set up in a second
    #[arg(long, default_value_t = 100)]
    per_second: u32,
    /// Calls held at once
    #[arg(long, default_value_t = 200)]
    held: usize,
    /// Calls that each full gate refuses
    #[arg(long, default_value_t = 200)]
    refused: usize,
    /// Cycles of ten seconds that are measured of the held calls
    #[arg(long, default_value_t = 2)]
    cycles: u32,
    /// What callers say: a WAV recording
    #[arg(long)]
    speech: Option<PathBuf>,
    /// The server's binary; by default the one built with this benchmark
    #[arg(long)]
    server: Option<PathBuf>,
    /// Exit 1 when a goal is missed
    #[arg(long)]
    gate: bool,
    /// Print the figures of the held calls as JSON at the end
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    if let Some(echo) = FLOOR.of_this_process() {
        floor::serve(echo);
        return ExitCode::SUCCESS;
    }
    let mut args = Args::parse();
    if args.quick {
        (args.short, args.held, args.refused, args.cycles) = (100, 20, 20, 1);
    }
    command::run("sip", args.bench, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        LocalSet::new().block_on(&runtime.map_err(|error| error.to_string())?, measure(&args))
    })
}

async fn measure(args: &Args) -> Result<bool, String> {
    let cycle = sound::cycle(args.speech.as_deref(), RATE_HZ)?;
    let frames: Vec<Vec<u8>> = cycle.frames.iter().map(|frame| encoded(frame)).collect();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("callers say: {}", cycle.source);
    println!("machine: {cores} cores, shared by callers and servers");
    if cfg!(debug_assertions) {
        println!("NOT OPTIMISED: a debug build's figures mean nothing");
    }
    let plan = Plan {
        calls: args.held,
        every: every(args),
        warm_up: WARM_UP,
        measure: sound::CYCLE * args.cycles.max(1),
        frames: &frames,
    };
    let (mut figures, met) = below_the_gate(args, &plan).await?;
    let mut good = met;
    println!();
    let real = figures.remove(0);
    for floor in &figures {
        good &= real.compare(floor);
    }
    good &= refusals(args).await?;
    let sound = figures.iter().chain([&real]).all(|figures| figures.run.is_sound());
    if args.json {
        figures.push(real);
        let json = serde_json::to_string_pretty(&figures).map_err(|error| error.to_string())?;
        println!("{json}");
    }
    println!("\n{}", if good && sound { "every goal was met" } else { "NOT every goal was met" });
    Ok(sound && (good || !args.gate))
}

fn encoded(samples: &[i16]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(samples.len());
    Law::Mu.encode(samples, &mut bytes);
    bytes
}

fn every(args: &Args) -> Duration {
    Duration::from_secs(1) / args.per_second.max(1)
}

/// What is over is forgotten 64 of it later, and that is waited for.
fn t1(args: &Args) -> String {
    format!("sip.t1_ms={}", if args.quick { 30 } else { 100 })
}

/// Short calls and held ones; the real server's figures stand first.
async fn below_the_gate(args: &Args, plan: &Plan<'_>) -> Result<(Vec<Figures>, bool), String> {
    println!("\n== {} short calls, {} a second ==", args.short, args.per_second);
    let slots = format!("limits.call.slots={}", args.held.max(LINES));
    let t1 = t1(args);
    let name = "floorkeeper, no detection";
    let phones = server::start(
        args.server.as_ref(),
        name,
        &greeting(args),
        &[&slots, "limits.call.queue=0", &t1],
    )?;
    let measured = on_the_real_server(args, plan, &phones).await;
    let (real, met) =
        measured.map_err(|reason| format!("{reason}\n{}", phones.server.log_tail()))?;
    drop(phones);
    let mut all = vec![real];
    let floors: &[Echo] =
        if args.quick { &[Echo::AgentShare] } else { &[Echo::AgentShare, Echo::All] };
    for &echo in floors {
        let floor = FLOOR.start(echo)?;
        let callee = Callee::Floor { port: floor.port };
        let figures = Figures::new(&floor.name, held::hold(&callee, floor.pid(), plan).await?);
        figures.print();
        all.push(figures);
    }
    Ok((all, met))
}

async fn on_the_real_server(
    args: &Args,
    plan: &Plan<'_>,
    phones: &Phones,
) -> Result<(Figures, bool), String> {
    let trunk = Trunk::open(phones.address).await?;
    let (pid, before) = (phones.server.pid(), phones.look().await?);
    let busy = Busy::begin(pid)?;
    let mut outcome = short::ring(&trunk, args.short, plan.every, SHORT_FRAMES).await?;
    let cpu_ms = busy.spent()?.server.as_secs_f64() * 1_000.0 / args.short as f64;
    let mut good = report::answered("short calls", &mut outcome, 200);
    println!("  {:<40} {cpu_ms:>8.2}", "CPU of one whole call, ms");
    println!("  {:<40} {:>8}", "messages said again by callers", trunk.resent.get());
    good &= is_quiet(phones, before).await?;
    println!("\n== {} calls held, {} s measured ==", plan.calls, plan.measure.as_secs());
    let callee = Callee::Phone(trunk.clone());
    let measured = held::hold(&callee, pid, plan).await?;
    let figures = Figures::new(&phones.server.name, measured);
    figures.print();
    good &= is_quiet(phones, before).await?;
    good &= trunk.ended.get() == 0;
    Ok((figures, good))
}

/// What the calls have left behind.
async fn is_quiet(phones: &Phones, before: Left) -> Result<bool, String> {
    let (left, took) = phones.until_quiet(before).await?;
    let good = left.is_at_most(&before);
    let word = if good { "met" } else { "MISSED" };
    println!("  before  {}", before.line());
    println!("  left    {}, {:.1} s after the last call   {word}", left.line(), took.as_secs_f64());
    Ok(good)
}

/// The agent is to be audible two fifths of what is measured.
fn greeting(args: &Args) -> String {
    let set_up_s = args.held as f64 * every(args).as_secs_f64();
    let measured_s = (sound::CYCLE * args.cycles.max(1)).as_secs_f64();
    let audible_s = set_up_s / 2.0 + WARM_UP.as_secs_f64() + measured_s * 0.4;
    let words = ["There", "was", "once", "a", "king", "who", "had", "three", "brave", "sons"];
    let words = words.iter().cycle().take((audible_s * WORDS_PER_S).round() as usize);
    words.copied().collect::<Vec<_>>().join(" ") + "."
}

/// Full gates: of the line, of a tenant, of the whole node.
async fn refusals(args: &Args) -> Result<bool, String> {
    println!("\n== {} calls a full gate refuses, {} a second ==", args.refused, args.per_second);
    let slots = format!("limits.call.slots={LINES}");
    let t1 = t1(args);
    let line = [slots.as_str(), "limits.call.queue=0", t1.as_str()];
    let phones = server::start(args.server.as_ref(), "a full line", "", &line)?;
    let trunk = Trunk::open(phones.address).await?;
    let before = phones.look().await?;
    let lines = short::fill(&trunk, LINES).await?;
    let mut good = refused(args, &trunk, "no line is free", 480).await?;
    for line in lines {
        line.hang_up().await?;
    }
    good &= is_quiet(&phones, before).await?;
    drop(phones);
    let tenant =
        ["limits.call.fairness=hard_cap", "limits.call.tenant_share_pct=50", "sip.tenant=trunk"];
    let settings = [line.as_slice(), tenant.as_slice()].concat();
    let phones = server::start(args.server.as_ref(), "a full tenant", "", &settings)?;
    let trunk = Trunk::open(phones.address).await?;
    let _lines = short::fill(&trunk, LINES / 2).await?;
    good &= refused(args, &trunk, "the tenant has its share", 486).await?;
    phones.drain().await?;
    good &= refused(args, &trunk, "the node drains", 503).await?;
    Ok(good)
}

async fn refused(
    args: &Args,
    trunk: &std::rc::Rc<Trunk>,
    what: &str,
    status: u16,
) -> Result<bool, String> {
    let mut outcome = short::ring(trunk, args.refused, every(args), 0).await?;
    Ok(report::answered(what, &mut outcome, status))
}
