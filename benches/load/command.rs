//! A benchmark as a command.

use std::process::ExitCode;

/// Measures if `cargo bench` has `asked` for it: `cargo test --benches` runs every benchmark as
/// well, and has no use for minutes of load. What was measured may still be no success.
pub fn run(name: &str, asked: bool, measure: impl FnOnce() -> Result<bool, String>) -> ExitCode {
    if !asked {
        println!("nothing measured; run `cargo bench --bench {name}`");
        return ExitCode::SUCCESS;
    }
    match measure() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
    }
}
