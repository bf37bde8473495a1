//! `floorkeeper fixture run`: scripts in virtual time against their expectations and golden traces,
//! or, with `--live`, in real time against a server.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use serde_json::json;

use super::live::{self, Live};
use super::report::{self, Shown};
use super::study::{self, StudyArgs};
use crate::config::{self, Script as FallbackScript};
use crate::sim::ending;
use crate::sim::script::Script;
use crate::sim::tracks::Staging;
use crate::sim::world::Outcome;

/// What `fixture run` is given.
#[derive(Debug, Args)]
pub struct FixtureArgs {
    /// Fixtures (.toml), or folders of them.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Write the golden traces anew.
    #[arg(long)]
    bless: bool,
    /// In real time: against our own server with the script's providers, or against this one, as in
    /// ws://127.0.0.1:8080/v1/realtime.
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = "")]
    live: Option<String>,
    /// Key for a server that asks for one.
    #[arg(long, value_name = "KEY", requires = "live")]
    key: Option<String>,
    /// Draw every call as a picture on one page.
    #[arg(long, value_name = "OUT.html")]
    report: Option<PathBuf>,
    /// Print each trace.
    #[arg(long)]
    trace: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    study: StudyArgs,
}

impl FixtureArgs {
    /// Why these fixtures are not run as a study, which `option` asks for.
    fn no_study(&self, option: &str) -> Option<String> {
        let (other, why) = [
            (
                self.live.is_some(),
                "--live",
                "studies run in virtual time, where a seed is a call; run it without --live",
            ),
            (
                self.bless,
                "--bless",
                "golden traces are of the script as written; bless it without the study",
            ),
            (
                self.report.is_some(),
                "--report",
                "a page shows calls one by one; --export writes every call of a study",
            ),
            (
                self.trace,
                "--trace",
                "a study prints metrics; --export writes what happened in every call",
            ),
        ]
        .into_iter()
        .find_map(|(given, name, why)| given.then_some((name, why)))?;
        Some(format!("{other} with {option}: {why}"))
    }
}

/// One fixture's result.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The file.
    pub path: PathBuf,
    /// What it shows.
    pub about: String,
    /// What happened.
    pub outcome: Outcome,
    /// What of it could not be done or seen, in live runs.
    pub notes: Vec<String>,
    /// Where a live run ran.
    pub setting: Option<String>,
}

impl Ran {
    /// A live run, whose file and sentence are still to be told.
    pub(super) fn live(outcome: Outcome, notes: Vec<String>, setting: String) -> Ran {
        let (path, about) = (PathBuf::new(), String::new());
        Ran { path, about, outcome, notes, setting: Some(setting) }
    }
}

/// Runs fixtures: exit code 0 when all pass, 1 when one fails, 2 when one cannot be read or run.
pub async fn run(args: &FixtureArgs) -> ExitCode {
    let ran = match args.study.wanted() {
        None => run_all(args).await,
        Some(option) => match args.no_study(option) {
            None => return study::run(&args.paths, &args.study, args.json),
            Some(problem) => Err(problem),
        },
    };
    match ran {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("floorkeeper: {problem}");
            ExitCode::from(2)
        }
    }
}

/// How many failed, or what was wrong with what was given.
async fn run_all(args: &FixtureArgs) -> Result<usize, String> {
    let paths = find(&args.paths)?;
    let live = match &args.live {
        Some(_) if args.bless => {
            return Err("--bless with --live: golden traces are of virtual time, and no two live \
                        runs tell the same milliseconds; run it without --live"
                .to_owned());
        }
        Some(address) => Some(Live::new(address, args.key.clone())?),
        None => None,
    };
    let mut failed = 0;
    let mut results = Vec::new();
    let mut drawn = Vec::new();
    let mut setting = None;
    for path in &paths {
        let ran = match &live {
            Some(live) => live.run_file(path).await?,
            None => run_file(path, args.bless)?,
        };
        if ran.setting != setting {
            setting.clone_from(&ran.setting);
            eprintln!("live: {}; {}", ran.setting.as_deref().unwrap_or(""), live::tolerance());
        }
        failed += usize::from(!ran.outcome.problems.is_empty());
        match args.json {
            true => results.push(shown(&ran)),
            false => tell(&ran, args.trace),
        }
        if args.report.is_some() {
            drawn.push(ran);
        }
    }
    if let Some(report) = &args.report {
        write_report(report, &drawn).map_err(|e| format!("{}: {e}", report.display()))?;
    }
    if args.json {
        println!("{}", json!({"fixtures": results, "failed": failed}));
    } else {
        println!("{} passed, {failed} failed", paths.len() - failed);
    }
    Ok(failed)
}

fn shown(ran: &Ran) -> serde_json::Value {
    let mut shown = json!({
        "fixture": ran.path, "about": ran.about, "passed": ran.outcome.problems.is_empty(),
        "problems": ran.outcome.problems,
    });
    if let Some(setting) = &ran.setting {
        shown["live"] = json!(setting);
        shown["tolerance_ms"] = json!(live::TOLERANCE.as_millis() as u64);
        shown["notes"] = json!(ran.notes);
    }
    shown
}

fn tell(ran: &Ran, trace: bool) {
    let verdict = if ran.outcome.problems.is_empty() { "ok  " } else { "FAIL" };
    println!("{verdict} {}: {}", ran.path.display(), ran.about);
    ran.outcome.problems.iter().for_each(|problem| println!("     {problem}"));
    ran.notes.iter().for_each(|note| println!("     ({note})"));
    if trace {
        print!("{}", ran.outcome.trace);
    }
}

fn write_report(report: &Path, drawn: &[Ran]) -> std::io::Result<()> {
    let names: Vec<String> = drawn.iter().map(|ran| ran.path.display().to_string()).collect();
    let calls: Vec<Shown<'_>> = drawn
        .iter()
        .zip(&names)
        .map(|(ran, name)| Shown {
            name,
            about: &ran.about,
            trace: &ran.outcome.trace,
            problems: &ran.outcome.problems,
        })
        .collect();
    std::fs::write(report, report::page(&calls))
}

/// A fixture, as it is written and as it is understood.
pub fn read(path: &Path) -> Result<(String, Script), String> {
    let name = path.display().to_string();
    let text = config::text_of(path).map_err(|wrong| format!("{name} {wrong}"))?;
    let script = Script::parse(&name, &text).map_err(|wrong| wrong.to_string())?;
    Ok((text, script))
}

/// Runs one fixture and compares its trace with the golden one beside it.
pub fn run_file(path: &Path, bless: bool) -> Result<Ran, String> {
    let (_, script) = read(path)?;
    let name = path.display();
    let fallback = FallbackScript::read(None).map_err(|e| e.to_string())?;
    let (bank, notes) = live::voice::for_virtual_time(&script, path)?;
    let staging = Staging { bank: Some(&bank), ..Staging::default() };
    let mut outcome = ending::run_twice(&script, Arc::new(fallback), staging)
        .map_err(|e| format!("{name}: {e}"))?;
    let golden = path.with_extension("trace");
    if bless {
        std::fs::write(&golden, &outcome.trace)
            .map_err(|e| format!("{}: {e}", golden.display()))?;
    } else {
        let wanted = std::fs::read_to_string(&golden).unwrap_or_default();
        outcome.problems.extend(first_difference(&wanted, &outcome.trace));
    }
    let (path, about) = (path.to_owned(), script.about);
    Ok(Ran { path, about, outcome, notes, setting: None })
}

fn first_difference(wanted: &str, got: &str) -> Option<String> {
    if wanted.is_empty() {
        return Some("there is no golden trace; --bless writes it".into());
    }
    let (mut want, mut have) = (wanted.lines(), got.lines());
    for line in 1.. {
        match (want.next(), have.next()) {
            (None, None) => return None,
            (wanted, got) if wanted == got => {}
            (wanted, got) => {
                let (wanted, got) = (wanted.unwrap_or("(end)"), got.unwrap_or("(end)"));
                return Some(format!("trace line {line}: wanted \"{wanted}\", got \"{got}\""));
            }
        }
    }
    None
}

/// The fixtures named, and those in the folders named, in a fixed order.
pub fn find(paths: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let mut all = Vec::new();
    for path in paths {
        if path.is_file() {
            all.push(path.clone());
            continue;
        }
        let wrong = |e| format!("{}: {e}; a fixture (.toml) or a folder is right", path.display());
        let entries = std::fs::read_dir(path).map_err(wrong)?;
        let mut found: Vec<PathBuf> = entries
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.extension().is_some_and(|e| e == "toml") && path.is_file())
            .collect();
        found.sort();
        all.extend(found);
    }
    match all.is_empty() {
        true => Err("there is no fixture (.toml) there".into()),
        false => Ok(all),
    }
}
