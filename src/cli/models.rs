//! `floorkeeper models fetch`: fills the model store, here or for a machine without a network.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::provider::models::{self, Models};

/// The store that is used when neither the command line nor `models.dir` names one.
pub fn default_dir() -> PathBuf {
    models::default_dir()
}

/// Fetches what the store lacks. The result goes to standard output, progress to standard error.
/// Exit code 0 when everything is there, 1 when a pack is missing.
pub fn fetch(dir: Option<&Path>, json: bool) -> ExitCode {
    let dir = dir.map_or_else(default_dir, Path::to_owned);
    match models::ensure(&dir, &mut |line| eprintln!("{line}")) {
        Ok(models) => {
            if json {
                println!("{}", as_json(&models));
            } else {
                print_plain(&models);
            }
            if models.complete() { ExitCode::SUCCESS } else { ExitCode::from(1) }
        }
        Err(error) => {
            if json {
                println!("{}", serde_json::json!({ "error": error.to_string() }));
            }
            eprintln!("the model store cannot be written: {error}");
            ExitCode::from(1)
        }
    }
}

fn print_plain(models: &Models) {
    println!("models in {}", models.dir.display());
    for (pack, state) in &models.packs {
        match state {
            Ok(()) => println!("  {} {}: ready", pack.name, pack.version),
            Err(error) => {
                println!("  {} {}: missing: {error}", pack.name, pack.version);
                println!("    without it: {}", pack.without);
            }
        }
    }
}

fn as_json(models: &Models) -> serde_json::Value {
    let packs: Vec<_> = models
        .packs
        .iter()
        .map(|(pack, state)| {
            serde_json::json!({
                "name": pack.name,
                "version": pack.version,
                "package": pack.package,
                "ready": state.is_ok(),
                "error": state.as_ref().err().map(ToString::to_string),
                "without": state.as_ref().err().map(|_| pack.without),
            })
        })
        .collect();
    serde_json::json!({
        "dir": models.dir.display().to_string(),
        "complete": models.complete(),
        "packs": packs,
    })
}
