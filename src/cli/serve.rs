//! `floorkeeper serve`: from a configuration to a server that stops well.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;

use crate::cli::check::environment;
use crate::cli::prompts;
use crate::config::{Config, Fallback, LogFormat};
use crate::provider::models;
use crate::provider::tts::{Tts, TtsOptions};
use crate::runtime::service::Service;
use crate::runtime::serving::Serving;
use crate::runtime::start;
use crate::runtime::{http, promises as callbacks};
use crate::store::OpenError;
use crate::transport::LEG_RATES_HZ;

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
    let listening = match listening.secured(config.tls.as_ref()) {
        Ok(listening) => listening,
        Err(problem) => {
            eprintln!("floorkeeper: {problem}");
            return ExitCode::from(2);
        }
    };
    serve(config, fallback, listening).await
}

async fn serve(config: Config, fallback: Fallback, listening: http::Listening) -> ExitCode {
    raise_descriptor_limit();
    let window = config.drain.window;
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let serving = match Serving::begin(config, fallback, listening) {
        Ok(serving) => serving,
        Err(problem) => {
            eprintln!("floorkeeper: {problem}");
            return ExitCode::FAILURE;
        }
    };
    let address = serving.address;
    tracing::info!("listening on {scheme}://{address}, loading the models");
    if let Err(code) = load(&serving.service).await {
        return code;
    }
    if let Err(problem) = callbacks::open(&serving.service).await {
        if matches!(problem, OpenError::Config { .. }) {
            eprintln!("floorkeeper: {problem}");
            return ExitCode::from(2);
        }
        tracing::warn!("no callback and no handoff is offered: {problem}");
    }
    println!("Ready. Talk to the agent at {scheme}://{address}/");
    wait_for_signal().await;
    serving.drain(window, wait_for_signal()).await;
    serving.stop().await;
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
            prepare_prompts(service, backends.tts.clone()).await;
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

/// Makes sure that every agent's callers can be told everything in their language, and at once.
async fn prepare_prompts(service: &Service, tts: Option<Arc<dyn Tts>>) {
    let config = &service.config;
    for agent in config.agents.values() {
        let mut fallback = service.prompts.copy();
        let locale = fallback.script.prompts.locale_for(&agent.language).to_owned();
        if let Some(tts) = tts.clone()
            && !fallback.silent(&locale).is_empty()
        {
            let (voice, language) = (agent.voice.clone(), agent.language.clone());
            let options = TtsOptions { voice, language, speed: 1.0 };
            let dir = config.models.dir.join("prompts");
            match prompts::complete(&mut fallback, tts, &options, &dir, &agent.language).await {
                Ok(()) => service.prompts.take(fallback),
                Err(problem) => tracing::warn!(
                    "prompts of {locale}: {problem}; its callers hear the default locale's"
                ),
            }
        }
        service.prompts.warm(&agent.language, &LEG_RATES_HZ);
    }
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
