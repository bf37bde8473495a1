//! `--export DIR`: the folder, its manifest, and where every run goes. What is not ours there is
//! never touched.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};

use super::files::{RUN_FILES, SCHEMA};
use super::plan::{Plan, Studied};
use super::summary::{self, Sheet};
use super::vary::Variant;
use crate::provider::models::PACKS;
use crate::sim::metrics::METRICS;

/// What an export says of itself in its manifest.
const FORMAT: &str = "floorkeeper study";
const MANIFEST: &str = "manifest.json";
/// What lies in the export's own folder, beside the runs.
const TOP_FILES: [&str; 4] = ["metrics.csv", "summary.csv", "summary.json", MANIFEST];
/// Longest name of a folder.
const NAME_MAX: usize = 120;

/// Where an export goes.
#[derive(Debug)]
pub struct Export {
    dir: PathBuf,
    fixtures: Vec<String>,
    variants: Vec<String>,
}

impl Export {
    /// Takes a folder that is new, empty, or an earlier export, and writes the manifest there.
    pub fn open(dir: &Path, plan: &Plan) -> Result<Export, String> {
        take(dir)?;
        let export = Export {
            dir: dir.to_owned(),
            fixtures: folders(plan.fixtures.iter().map(|fixture| fixture.name.as_str())),
            variants: folders(plan.variants.iter().map(|variant| variant.name.as_str())),
        };
        export.write(MANIFEST, &format!("{:#}\n", export.manifest(plan)))?;
        Ok(export)
    }

    /// A run's folder, by the places of its fixture and its variant in the plan.
    pub fn run_dir(&self, fixture: usize, variant: usize, seed: u64) -> PathBuf {
        self.dir.join(self.run_folder(fixture, variant, seed))
    }

    /// Writes the results.
    pub fn finish(&self, sheets: &[Sheet]) -> Result<(), String> {
        self.write("metrics.csv", &summary::metrics_csv(sheets))?;
        self.write("summary.csv", &summary::summary_csv(sheets))?;
        let fixtures: Vec<Value> = sheets.iter().map(Sheet::json).collect();
        let summary = json!({"schema": SCHEMA, "fixtures": fixtures});
        self.write("summary.json", &format!("{summary:#}\n"))
    }

    fn write(&self, name: &str, text: &str) -> Result<(), String> {
        let path = self.dir.join(name);
        fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
    }

    fn run_folder(&self, fixture: usize, variant: usize, seed: u64) -> String {
        format!("{}/{}/run_{seed}", self.fixtures[fixture], self.variants[variant])
    }

    fn manifest(&self, plan: &Plan) -> Value {
        let mut runs = Vec::new();
        for (f, fixture) in plan.fixtures.iter().enumerate() {
            for (v, variant) in plan.variants.iter().enumerate() {
                runs.extend(plan.seeds().map(|(run, seed)| {
                    json!({
                        "fixture": fixture.name, "variant": variant.name, "run": run, "seed": seed,
                        "folder": self.run_folder(f, v, seed),
                    })
                }));
            }
        }
        let fixtures: Vec<Value> = plan.fixtures.iter().map(told).collect();
        let variants: Vec<Value> = plan.variants.iter().map(set).collect();
        let metrics: Vec<Value> =
            METRICS.iter().map(|m| json!({"name": m.name, "means": m.means})).collect();
        json!({
            "format": FORMAT,
            "schema": SCHEMA,
            "floorkeeper": env!("CARGO_PKG_VERSION"),
            "time": "virtual",
            "seed": plan.seed,
            "repeat": plan.repeat,
            "spread": {
                "pct": plan.spread.pct,
                "means": "run 0 is the script as written; in every later one delays and rates of \
                          providers differ by up to so many percent, lengths of speech by half as \
                          much, the caller's times by five milliseconds a percent. Varied keys \
                          are not drawn",
            },
            "fixtures": fixtures,
            "variants": variants,
            "runs": runs,
            "metrics": metrics,
            "intervals": "95 %: Student's t over the runs' values for means, Wilson's over all \
                          cases for shares",
            "models": {
                "used": [],
                "why": "in virtual time every provider and the detector are scripted",
                "pinned": pinned(),
            },
        })
    }
}

fn told(fixture: &Studied) -> Value {
    json!({
        "name": fixture.name, "path": fixture.path, "about": fixture.script.about,
        "sha256": fixture.sha256(), "text": fixture.text, "configuration": fixture.configuration(),
    })
}

fn set(variant: &Variant) -> Value {
    let set: serde_json::Map<String, Value> =
        variant.set.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    json!({"name": variant.name, "set": set})
}

/// The embedded models of this version.
fn pinned() -> Vec<Value> {
    let files = |files: &[crate::provider::models::PackFile]| -> Vec<Value> {
        files.iter().map(|file| json!({"file": file.name, "sha256": file.sha256})).collect()
    };
    let packs = PACKS.iter();
    packs
        .map(|pack| json!({"name": pack.name, "version": pack.version, "files": files(pack.files)}))
        .collect()
}

/// Names that every file system takes, each one once.
fn folders<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut taken = BTreeSet::new();
    names
        .map(|name| {
            let kept = |c: char| c.is_ascii_alphanumeric() || "._=,-".contains(c);
            let name = name.chars().map(|c| if kept(c) { c } else { '_' });
            let plain: String = name.take(NAME_MAX).collect();
            let plain = if plain.starts_with('.') { format!("_{plain}") } else { plain };
            let numbered = (2..).map(|nth| format!("{plain}-{nth}"));
            let mut all = std::iter::once(plain.clone()).chain(numbered);
            // Names go on for ever: one of them is free.
            all.find(|name| taken.insert(name.to_lowercase())).unwrap_or(plain)
        })
        .collect()
}

/// Makes the folder, or takes an earlier export out of it.
fn take(dir: &Path) -> Result<(), String> {
    let wrong = |problem: String| {
        let right = "a new folder, an empty one, or an earlier export is right";
        Err(format!("--export {}: {problem}; {right}", dir.display()))
    };
    if dir.exists() && !dir.is_dir() {
        return wrong("this is a file".to_owned());
    }
    if let Err(e) = fs::create_dir_all(dir) {
        return wrong(e.to_string());
    }
    let is_empty = match fs::read_dir(dir) {
        Ok(mut entries) => entries.next().is_none(),
        Err(e) => return wrong(e.to_string()),
    };
    if is_empty {
        return Ok(());
    }
    match earlier(dir) {
        Some(runs) => {
            forget(dir, &runs);
            Ok(())
        }
        None => wrong("it holds something else".to_owned()),
    }
}

/// The run folders of an earlier export.
fn earlier(dir: &Path) -> Option<Vec<PathBuf>> {
    let text = fs::read_to_string(dir.join(MANIFEST)).ok()?;
    let manifest: Value = serde_json::from_str(&text).ok()?;
    let runs = manifest["runs"].as_array().filter(|_| manifest["format"] == FORMAT)?;
    let folders = runs.iter().filter_map(|run| run["folder"].as_str()).map(PathBuf::from);
    let inside =
        |path: &PathBuf| path.components().all(|part| matches!(part, Component::Normal(_)));
    Some(folders.filter(inside).collect())
}

/// Removes our own files; a folder goes only when nothing else is in it.
fn forget(dir: &Path, runs: &[PathBuf]) {
    for run in runs {
        for name in RUN_FILES {
            let _ = fs::remove_file(dir.join(run).join(name));
        }
        for folder in run.ancestors().filter(|folder| !folder.as_os_str().is_empty()) {
            let _ = fs::remove_dir(dir.join(folder));
        }
    }
    for name in TOP_FILES {
        let _ = fs::remove_file(dir.join(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_plain_and_each_one_is_there_once() {
        let names = ["a=1,b=x", "words=\"mm hm\"", "words=\"mm/hm\"", "../..", "A=1,b=X"];
        let found = folders(names.into_iter());
        assert_eq!(found, ["a=1,b=x", "words=_mm_hm_", "words=_mm_hm_-2", "_.._..", "A=1,b=X-2"]);
    }
}
