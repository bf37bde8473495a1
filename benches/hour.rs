//! An hour of one call in virtual time: `cargo bench --bench hour`.
//!
//! The caller says something every twenty seconds and interrupts every third answer; the whole
//! story is told, and every invariant held against every event, as in fixtures and storms.

#[path = "load/command.rs"]
mod command;

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use floorkeeper::config;
use floorkeeper::sim::script::Script;
use floorkeeper::sim::world;
use tokio::time::Instant;

const HOUR: Duration = Duration::from_secs(3_600);
/// Real time that it may take.
const GOAL: Duration = Duration::from_millis(100);
const EVERY: Duration = Duration::from_secs(20);
/// Runs of which the median is told.
const RUNS: usize = 9;

fn main() -> ExitCode {
    let asked = std::env::args().any(|argument| argument == "--bench");
    command::run("hour", asked, measure)
}

fn script() -> String {
    let reply = "There was a king who had three sons and a garden full of pears. Every night one \
                 pear was gone, and nobody knew who took it.";
    let mut text = format!(
        "about = \"an hour of a call\"\nends_by = \"{}s\"\n[llm]\nreply = {reply:?}\n",
        HOUR.as_secs()
    );
    for turn in 0..HOUR.as_secs() / EVERY.as_secs() {
        let at = turn * EVERY.as_secs();
        // Writing into a string does not fail.
        let _ =
            write!(text, "[[caller]]\nat = \"{at}s\"\nsays = \"Tell me more of that please\"\n");
        if turn % 3 == 2 {
            let at = at + 7;
            let _ = write!(text, "[[caller]]\nat = \"{at}s\"\nsays = \"Wait, what was that\"\n");
        }
    }
    text
}

fn measure() -> Result<bool, String> {
    let script = Script::parse("an hour", &script()).map_err(|error| error.to_string())?;
    let fallback = config::Script::read(None).map_err(|error| error.to_string())?;
    let fallback = Arc::new(fallback);
    let (mut took, mut facts, mut lines) = (Vec::new(), 0, 0);
    for _ in 0..RUNS {
        let start = Instant::now();
        let outcome = world::run(&script, fallback.clone()).map_err(|error| error.to_string())?;
        took.push(start.elapsed());
        if let Some(problem) = outcome.problems.first() {
            return Err(problem.clone());
        }
        (facts, lines) = (outcome.facts.len(), outcome.trace.lines().count());
    }
    took.sort_unstable();
    let median = took[RUNS / 2];
    let ratio = HOUR.as_secs_f64() / median.as_secs_f64();
    let word = if median <= GOAL { "met" } else { "MISSED" };
    println!("an hour of a call: {facts} facts, {lines} lines of its story");
    println!(
        "real time, median of {RUNS}: {:.1} ms (fastest {:.1}), {ratio:.0} times as fast; goal {} ms   \
         {word}",
        median.as_secs_f64() * 1_000.0,
        took[0].as_secs_f64() * 1_000.0,
        GOAL.as_millis()
    );
    Ok(true)
}
