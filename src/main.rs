//! Arguments to configuration to command; no decisions here.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = floorkeeper::cli::Cli::parse();
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(cli.run()),
        Err(problem) => {
            eprintln!("floorkeeper: the async runtime cannot be started: {problem}");
            ExitCode::FAILURE
        }
    }
}
