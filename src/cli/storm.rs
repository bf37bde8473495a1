//! `floorkeeper storm`: seeded random calls in virtual time against the invariants.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;

use crate::config::Script as FallbackScript;
use crate::sim::storm;

/// What `storm` is given.
#[derive(Debug, Args)]
pub struct StormArgs {
    /// Seeds: `A..B`, or one.
    #[arg(long, default_value = "0..1000", value_parser = seeds)]
    seeds: std::ops::Range<u64>,
    /// Print the story of every seed.
    #[arg(long)]
    trace: bool,
    /// Print the script of every seed, as a fixture.
    #[arg(long)]
    script: bool,
}

fn seeds(text: &str) -> Result<std::ops::Range<u64>, String> {
    let number = |digits: &str| digits.trim().parse::<u64>().ok();
    let range = match text.split_once("..") {
        Some((from, to)) => number(from).zip(number(to)).map(|(from, to)| from..to),
        None => number(text).map(|seed| seed..seed + 1),
    };
    range
        .filter(|range| !range.is_empty())
        .ok_or_else(|| "seeds are A..B with A < B, or one number".into())
}

/// Runs storms: exit code 0 when every invariant held, 1 when one did not.
pub fn run(args: &StormArgs) -> ExitCode {
    let fallback = match FallbackScript::read(None) {
        Ok(fallback) => Arc::new(fallback),
        Err(problem) => {
            eprintln!("floorkeeper: {problem}");
            return ExitCode::from(2);
        }
    };
    let mut failed = 0_u64;
    for seed in args.seeds.clone() {
        let storm = match storm::run(seed, fallback.clone()) {
            Ok(storm) => storm,
            Err(problem) => {
                eprintln!("floorkeeper: {problem}");
                return ExitCode::from(2);
            }
        };
        let problems = &storm.outcome.problems;
        if args.script {
            println!("{}", storm.script);
        }
        if args.trace || (!problems.is_empty() && failed == 0) {
            print!("{}", storm.outcome.trace);
        }
        if !problems.is_empty() {
            failed += 1;
            println!(
                "seed {seed} FAILED; again: floorkeeper storm --seeds {seed} --trace --script"
            );
            problems.iter().for_each(|problem| println!("     {problem}"));
        }
    }
    println!("{} storms, {failed} failed", args.seeds.end - args.seeds.start);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
