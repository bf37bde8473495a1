//! `fixture run --vary … --repeat N --export DIR`: a fixture many times, with keys varied and the
//! rest drawn around what the script says; its metrics with their intervals.
//!
//! [`plan`] is what is run, [`summary`] what came of it, [`export`] the folder with everything.

mod export;
mod files;
mod interval;
mod plan;
mod summary;
mod textgrid;
mod vary;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, value_parser};
use serde_json::json;

use self::export::Export;
use self::files::RunName;
use self::plan::Plan;
use self::summary::{Measured, Row, Sheet};
use self::vary::RUNS_MAX;
use super::live::voice;
use crate::config::Script as FallbackScript;
use crate::sim::drawn::{SPREAD_PCT, SPREAD_PCT_MAX, drawn};
use crate::sim::expect;
use crate::sim::facts::Fact;
use crate::sim::metrics::{Call, METRICS};
use crate::sim::script::{Deed, Script, When};
use crate::sim::sound::Bank;
use crate::sim::tracks::Staging;
use crate::sim::world::{self, Outcome};

/// What makes a run of fixtures a study.
#[derive(Debug, Args)]
#[command(next_help_heading = "Studies")]
pub struct StudyArgs {
    /// Run with each of these values: KEY=A..B:STEP or KEY=a,b,c. More than one --vary: every
    /// combination.
    #[arg(long, value_name = "KEY=VALUES")]
    vary: Vec<String>,
    /// Run each variant so often: as written, then drawn around that.
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=RUNS_MAX as u64))]
    repeat: Option<u64>,
    /// Seed of the first run.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// How far from the script's values later runs are drawn, in percent (20).
    #[arg(long, value_name = "PCT", value_parser = value_parser!(u32).range(0..=SPREAD_PCT_MAX))]
    spread_pct: Option<u32>,
    /// Write events, sound, TextGrids, metrics and a manifest into this folder.
    #[arg(long, value_name = "DIR")]
    export: Option<PathBuf>,
}

impl StudyArgs {
    /// The option that asks for a study.
    pub(super) fn wanted(&self) -> Option<&'static str> {
        [
            (!self.vary.is_empty(), "--vary"),
            (self.repeat.is_some(), "--repeat"),
            (self.seed.is_some(), "--seed"),
            (self.spread_pct.is_some(), "--spread-pct"),
            (self.export.is_some(), "--export"),
        ]
        .into_iter()
        .find_map(|(given, name)| given.then_some(name))
    }
}

/// Runs a study: exit code 0 when it could be run, 1 when an invariant broke, 2 when something was
/// wrong with what was given. An expectation that is not met is a result.
pub(super) fn run(paths: &[PathBuf], args: &StudyArgs, json: bool) -> ExitCode {
    match study(paths, args, json) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("floorkeeper: {problem}");
            ExitCode::from(2)
        }
    }
}

/// How many runs broke an invariant.
fn study(paths: &[PathBuf], args: &StudyArgs, json: bool) -> Result<usize, String> {
    let repeat = args.repeat.unwrap_or(1);
    if args.spread_pct.is_some() && repeat == 1 {
        return Err("--spread-pct: a single run is the script as written; --repeat 20 draws \
                    others around it"
            .to_owned());
    }
    let spread_pct = args.spread_pct.unwrap_or(SPREAD_PCT);
    let plan = Plan::new(paths, &args.vary, repeat, args.seed.unwrap_or(0), spread_pct)?;
    let fallback = FallbackScript::read(None).map_err(|e| e.to_string())?;
    let fallback = Arc::new(fallback);
    plan.check(&fallback)?;
    let export = args.export.as_ref().map(|dir| Export::open(dir, &plan)).transpose()?;
    let mut study = Study { plan: &plan, fallback, export, done: 0 };
    let sheets = study.sheets()?;
    if let Some(export) = &study.export {
        export.finish(&sheets)?;
    }
    let runs = sheets.iter().flat_map(|sheet| &sheet.rows).flat_map(|row| &row.runs);
    let broken = runs.filter(|run| !run.broken.is_empty()).count();
    match json {
        true => {
            let (schema, seed) = (files::SCHEMA, plan.seed);
            let fixtures: Vec<_> = sheets.iter().map(Sheet::json).collect();
            let shown = json!({
                "schema": schema, "seed": seed, "fixtures": fixtures, "broken": broken,
            });
            println!("{shown}");
        }
        false => {
            sheets.iter().for_each(tell);
            println!("{} runs, {broken} broken", plan.runs());
        }
    }
    Ok(broken)
}

fn tell(sheet: &Sheet) {
    println!("{}: {}", sheet.fixture, sheet.about);
    print!("{}", sheet.table());
    sheet.remarks().iter().for_each(|remark| println!("{remark}"));
    println!();
}

struct Study<'a> {
    plan: &'a Plan,
    fallback: Arc<FallbackScript>,
    export: Option<Export>,
    done: u64,
}

impl Study<'_> {
    fn sheets(&mut self) -> Result<Vec<Sheet>, String> {
        let mut sheets = Vec::new();
        for (f, fixture) in self.plan.fixtures.iter().enumerate() {
            let mut rows = Vec::new();
            for (v, variant) in self.plan.variants.iter().enumerate() {
                let script = fixture.variant(variant)?;
                // Spoken once for all runs: a drawn script says the same words.
                let (bank, _) = voice::for_virtual_time(&script, &fixture.path)?;
                let runs = self.plan.seeds().map(|(run, seed)| {
                    let name =
                        RunName { fixture: &fixture.name, variant: &variant.name, run, seed };
                    self.one((f, v), name, &script, &bank)
                });
                let runs = runs.collect::<Result<Vec<Measured>, String>>()?;
                rows.push(Row { variant: variant.clone(), runs });
            }
            let about = fixture.script.about.clone();
            sheets.push(Sheet { fixture: fixture.name.clone(), about, rows });
        }
        Ok(sheets)
    }

    fn one(
        &mut self,
        place: (usize, usize),
        name: RunName<'_>,
        script: &Script,
        bank: &Bank,
    ) -> Result<Measured, String> {
        let wrong =
            |e: String| format!("{}, {}, seed {}: {e}", name.fixture, name.variant, name.seed);
        let staged = match name.run {
            0 => script.clone(),
            _ => drawn(script, name.seed, &self.plan.spread),
        };
        let record = self.export.is_some();
        let staging = Staging { seed: name.seed, record, bank: Some(bank) };
        let (outcome, unmet) = watched(&staged, self.fallback.clone(), staging).map_err(wrong)?;
        let call = Call::of(&staged, &outcome);
        if let Some(export) = &self.export {
            let dir = export.run_dir(place.0, place.1, name.seed);
            files::write(&dir, name, &outcome, call.heard())
                .map_err(|e| format!("{}: {e}", dir.display()))?;
        }
        self.progress();
        let samples = METRICS.iter().map(|metric| metric.of(&call)).collect();
        let (run, seed) = (name.run, name.seed);
        Ok(Measured { run, seed, samples, unmet, broken: outcome.problems })
    }

    /// Ten lines for a long study, none for a short one.
    fn progress(&mut self) {
        self.done += 1;
        let all = self.plan.runs();
        if all >= 100 && self.done.is_multiple_of(all.div_ceil(10)) {
            eprintln!("study: {} of {all} runs", self.done);
        }
    }
}

/// Runs a script whose expectations are judged apart: what is left among the outcome's problems is
/// a broken invariant.
fn watched(
    script: &Script,
    fallback: Arc<FallbackScript>,
    staging: Staging<'_>,
) -> Result<(Outcome, Vec<String>), String> {
    let mut bare = script.clone();
    bare.expect.clear();
    bare.caller.iter_mut().for_each(|deed| deed.maybe = true);
    let outcome = world::stage(&bare, fallback, staging).map_err(|e| e.to_string())?;
    let mut unmet = undone(&script.caller, &outcome.facts);
    unmet.extend(expect::check(&script.expect, &outcome.facts, &outcome.heard, &outcome.asked));
    Ok((outcome, unmet))
}

/// Deeds that waited for what never came.
fn undone(caller: &[Deed], facts: &[Fact]) -> Vec<String> {
    let waited = caller.iter().enumerate().filter(|(_, deed)| !deed.maybe);
    waited
        .filter_map(|(at, deed)| {
            let When::After { fact, nth, .. } = &deed.when else { return None };
            let came = facts.iter().filter(|one| one.fits(fact)).count();
            (came < *nth as usize).then(|| expect::never_happened(at, fact, *nth))
        })
        .collect()
}
