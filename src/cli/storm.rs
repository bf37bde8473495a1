//! `floorkeeper storm`: seeded random calls in virtual time against the invariants.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use clap::Args;
use serde_json::json;

use crate::config::Script as FallbackScript;
use crate::sim::storm::{self, Storm};

/// Seeds between two lines of progress.
const PROGRESS_EVERY: u64 = 1_000;
/// Failed seeds that are shortened; the others are only named.
const SHORTENED_MAX: usize = 3;

/// What `storm` is given.
#[derive(Debug, Args)]
pub struct StormArgs {
    /// Seeds: `A..B`, or one.
    #[arg(long, default_value = "0..1000", value_parser = seeds)]
    seeds: Range<u64>,
    /// Print the story of every seed.
    #[arg(long)]
    trace: bool,
    /// Print the script of every seed, as a fixture.
    #[arg(long)]
    script: bool,
    /// Seeds at once; as many as there are processors, where it is not said.
    #[arg(long, value_name = "N")]
    jobs: Option<NonZero<usize>>,
    /// Put the shortest script of each failed seed into this folder.
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    keep: PathBuf,
    /// Print what came of it as JSON.
    #[arg(long)]
    json: bool,
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
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
    let told = FallbackScript::read(None)
        .map_err(|problem| problem.to_string())
        .and_then(|fallback| run_all(args, &Arc::new(fallback)));
    match told {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("floorkeeper: {problem}");
            ExitCode::from(2)
        }
    }
}

/// Gives how many failed. Every seed is a world of its own: they run side by side, and what came of
/// them is told in order.
fn run_all(args: &StormArgs, fallback: &Arc<FallbackScript>) -> Result<usize, String> {
    let jobs = args.jobs.or_else(|| std::thread::available_parallelism().ok());
    let next = AtomicU64::new(args.seeds.start);
    let mut telling = Telling { args, fallback, failures: Vec::new(), told: 0 };
    std::thread::scope(|threads| {
        let (results, came) = mpsc::channel();
        for _ in 0..jobs.map_or(1, NonZero::get) {
            let (results, next) = (results.clone(), &next);
            threads.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= args.seeds.end {
                        return;
                    }
                    let storm = storm::run(seed, fallback.clone());
                    // Nobody listens any more: another seed's script cannot be run.
                    if results.send((seed, storm)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(results);
        let mut early = BTreeMap::new();
        let mut due = args.seeds.start;
        for (seed, storm) in came {
            early.insert(seed, storm);
            while let Some(storm) = early.remove(&due) {
                telling.tell(due, storm?);
                due += 1;
            }
        }
        Ok::<(), String>(())
    })?;
    Ok(telling.end())
}

/// What is said of seeds, one behind the other.
struct Telling<'a> {
    args: &'a StormArgs,
    fallback: &'a Arc<FallbackScript>,
    failures: Vec<serde_json::Value>,
    told: u64,
}

impl Telling<'_> {
    fn tell(&mut self, seed: u64, storm: Storm) {
        if self.args.script && !self.args.json {
            println!("{}", storm.script);
        }
        if self.args.trace && !self.args.json {
            print!("{}", storm.outcome.trace);
        }
        if !storm.outcome.problems.is_empty() {
            self.failed(seed, &storm);
        }
        self.told += 1;
        let all = self.args.seeds.end - self.args.seeds.start;
        if self.told.is_multiple_of(PROGRESS_EVERY) && self.told < all {
            eprintln!("{} of {all} storms, {} failed", self.told, self.failures.len());
        }
    }

    fn failed(&mut self, seed: u64, storm: &Storm) {
        let again = format!("floorkeeper storm --seeds {seed} --trace --script");
        let problems = &storm.outcome.problems;
        let mut failure = json!({"seed": seed, "problems": problems, "again": again});
        if !self.args.json {
            println!("seed {seed} FAILED; again: {again}");
            problems.iter().for_each(|problem| println!("     {problem}"));
        }
        if self.failures.len() < SHORTENED_MAX {
            let shortest = storm::shortest(storm, self.fallback);
            let file = self.args.keep.join(format!("storm-{seed}.toml"));
            let again = match std::fs::write(&file, &shortest.script) {
                Ok(()) => format!("floorkeeper fixture run {} --trace", file.display()),
                Err(problem) => format!("({}: {problem})", file.display()),
            };
            if !self.args.json {
                println!("-- the shortest script that fails like this; again: {again}");
                println!("{}", shortest.script);
                print!("-- its story:\n{}", shortest.outcome.trace);
                shortest.outcome.problems.iter().for_each(|problem| println!("     {problem}"));
            }
            failure["shortest"] = json!({
                "script": shortest.script, "trace": shortest.outcome.trace,
                "problems": shortest.outcome.problems, "again": again,
            });
        }
        self.failures.push(failure);
    }

    fn end(self) -> usize {
        let failed = self.failures.len();
        match self.args.json {
            true => println!("{}", json!({"storms": self.told, "failures": self.failures})),
            false => println!("{} storms, {failed} failed", self.told),
        }
        failed
    }
}
