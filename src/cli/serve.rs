//! `floorkeeper serve`: from a configuration to a server that stops well.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::sync::watch;

use crate::admission::Closed;
use crate::admission::limits::CloseMode;
use crate::cli::check::environment;
use crate::config::{Config, Fallback, LogFormat};
use crate::id::Stage;
use crate::provider::models;
use crate::runtime::clock::Clock;
use crate::runtime::gates::Gates;
use crate::runtime::http::{self, Site};
use crate::runtime::prompts::PromptSounds;
use crate::runtime::service::Service;
use crate::runtime::start;

/// What `serve` is given.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// The configuration file; none uses the defaults and the environment.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where to listen, instead of `listen`.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Override a key, as `limits.model.slots=8`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
}

/// Serves until a signal, then drains.
pub async fn run(args: ServeArgs) -> ExitCode {
    let mut sets = args.sets;
    sets.extend(args.listen.map(|address| format!("listen=\"{address}\"")));
    let config = match Config::load(args.config.as_deref(), &sets, environment()) {
        Ok(config) => config,
        Err(errors) => {
            eprint!("{errors}");
            return ExitCode::from(2);
        }
    };
    log_to_stderr(&config);
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let fallback = match Fallback::load(config.fallback.dir.as_deref()) {
        Ok(fallback) => fallback,
        Err(errors) => {
            eprint!("{errors}");
            return ExitCode::from(2);
        }
    };
    let listening = match http::bind(config.listen).await {
        Ok(listening) => listening,
        Err(problem) => {
            eprintln!("floorkeeper: {problem}");
            return ExitCode::FAILURE;
        }
    };
    serve(config, fallback, listening).await
}

async fn serve(config: Config, fallback: Fallback, listening: http::Listening) -> ExitCode {
    raise_descriptor_limit();
    let clock = Clock::start();
    let gates = Gates::new(clock, config.gates());
    gates.close(Stage::Call, Closed::NotReady, CloseMode::FinishQueue);
    tokio::spawn(gates.clone().keep_time());
    let window = config.drain.window;
    let prompts = PromptSounds::new(fallback);
    let service = Arc::new(Service::new(config, gates, clock, prompts, incarnation()));
    let (stop, stopping) = watch::channel(false);
    let address = listening.address;
    let server = tokio::spawn(http::serve(listening, Site::new(service.clone()), stopping));
    tracing::info!("listening on http://{address}, loading the models");
    if let Err(code) = load(&service).await {
        return code;
    }
    println!("Ready. Talk to the agent at http://{address}/");
    wait_for_signal().await;
    drain(&service, window).await;
    // The server's task ends by itself once told; nobody else listens on this channel by then.
    let _ = stop.send(true);
    let _ = tokio::time::timeout(Duration::from_secs(2), server).await;
    ExitCode::SUCCESS
}

/// Fetches and loads what the configuration asks for.
async fn load(service: &Arc<Service>) -> Result<(), ExitCode> {
    let loading = service.clone();
    let built = tokio::task::spawn_blocking(move || {
        let config = &loading.config;
        if config.models.fetch && start::needs_models(config) {
            match models::ensure(&config.models.dir, &mut |line| eprintln!("{line}")) {
                Ok(found) => found.missing().iter().for_each(|what| tracing::warn!("{what}")),
                Err(problem) => tracing::warn!("models: {problem}"),
            }
        }
        start::build(config)
    });
    match built.await {
        Ok(Ok(backends)) => {
            start::open(service, backends);
            Ok(())
        }
        Ok(Err(problem)) => {
            eprintln!("floorkeeper: {problem}");
            Err(ExitCode::from(2))
        }
        Err(panicked) => {
            eprintln!("floorkeeper: loading the providers broke: {panicked}");
            Err(ExitCode::FAILURE)
        }
    }
}

/// Refuses new calls and lets the accepted ones end by themselves, until the window closes or a second
/// signal comes.
async fn drain(service: &Arc<Service>, window: Duration) {
    service.set_draining(true);
    service.gates.close(Stage::Call, Closed::Draining, CloseMode::EndQueue);
    let live = service.registry.live_count();
    if live > 0 {
        tracing::info!("draining: {live} calls; a second signal ends them now");
    }
    let emptied = async {
        while service.registry.live_count() > 0 {
            service.registry.changed().await;
        }
    };
    tokio::select! {
        () = emptied => return,
        () = tokio::time::sleep(window) => {}
        () = wait_for_signal() => {}
    }
    service.end_calls();
    let ended = async {
        while service.registry.live_count() > 0 {
            service.registry.changed().await;
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(5), ended).await;
}

async fn wait_for_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

fn log_to_stderr(config: &Config) {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_new(&config.log.level).unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_env_filter(filter);
    // Only the first start of a process sets the log; a second one in a test keeps it.
    let _ = match config.log.format {
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.with_ansi(false).try_init(),
    };
}

/// A short random name: a new process never continues another's counters.
fn incarnation() -> String {
    const LETTERS: &[u8] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let random: [u8; 8] = rand::random();
    random.iter().map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()])).collect()
}

/// Every call is a socket: takes as many descriptors as this user may have.
fn raise_descriptor_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls only read and write the struct they are given.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 && limit.rlim_cur < limit.rlim_max
        {
            limit.rlim_cur = limit.rlim_max;
            if libc::setrlimit(libc::RLIMIT_NOFILE, &limit) != 0 {
                tracing::warn!("the limit of open files stays at its soft value");
            }
        }
    }
}
