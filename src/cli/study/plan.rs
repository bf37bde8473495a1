//! What a study runs: fixtures × variants × seeds, checked before anything is run.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::vary::{self, RUNS_MAX, Variant};
use crate::cli::fixture;
use crate::cli::live::voice;
use crate::config::Script as FallbackScript;
use crate::id::hex;
use crate::sim::drawn::{self, Spread};
use crate::sim::script::Script;
use crate::sim::tracks::Staging;
use crate::sim::world;

/// A fixture of a study.
#[derive(Clone, Debug)]
pub struct Studied {
    /// Its name: the file's, numbered where it is there twice.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// What is in it.
    pub text: String,
    /// As it is written.
    pub script: Script,
}

/// All that is run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The fixtures.
    pub fixtures: Vec<Studied>,
    /// The variants.
    pub variants: Vec<Variant>,
    /// Runs a variant.
    pub repeat: u64,
    /// Seed of the first run.
    pub seed: u64,
    /// How later runs are drawn.
    pub spread: Spread,
}

impl Studied {
    /// Reads a fixture.
    fn read(path: PathBuf, taken: &mut BTreeSet<String>) -> Result<Studied, String> {
        let (text, script) = fixture::read(&path)?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let numbered = (2..).map(|nth| format!("{stem}-{nth}"));
        let mut names = std::iter::once(stem.clone()).chain(numbered);
        // Names go on for ever: one of them is free.
        let name = names.find(|name| taken.insert(name.clone())).unwrap_or(stem);
        Ok(Studied { name, path, text, script })
    }

    /// The fixture with a variant's keys set.
    pub fn variant(&self, variant: &Variant) -> Result<Script, String> {
        let file = self.path.display().to_string();
        let mut table: toml::Table = self.text.parse().map_err(|e| format!("{file}: {e}"))?;
        for (key, value) in &variant.set {
            if !vary::put(&mut table, key, value) {
                return Err(format!("--vary {key}: something in {file} is no table there"));
            }
        }
        let wrong = |what: String| match variant.set.is_empty() {
            true => what,
            false => format!("--vary {}: {what}", variant.name),
        };
        Script::parse(&file, &table.to_string()).map_err(|e| wrong(e.to_string()))
    }

    /// SHA-256 of the file.
    pub fn sha256(&self) -> String {
        hex(&Sha256::digest(self.text.as_bytes()))
    }

    /// Every key in force, without secrets.
    pub fn configuration(&self) -> Value {
        let shown = self.script.config.show(true);
        let Ok(Value::Object(keys)) = serde_json::from_str(&shown) else { return Value::Null };
        keys.into_iter().map(|(key, mut entry)| (key, entry["value"].take())).collect()
    }
}

impl Plan {
    /// Reads and checks everything.
    pub fn new(
        paths: &[PathBuf],
        vary: &[String],
        repeat: u64,
        seed: u64,
        spread_pct: u32,
    ) -> Result<Plan, String> {
        if seed.checked_add(repeat).is_none() {
            return Err(format!("--seed {seed}: with {repeat} runs it goes beyond the last seed"));
        }
        let mut taken = BTreeSet::new();
        let fixtures: Vec<Studied> = fixture::find(paths)?
            .into_iter()
            .map(|path| Studied::read(path, &mut taken))
            .collect::<Result<_, _>>()?;
        let mut varied =
            vary.iter().map(|text| vary::parse(text)).collect::<Result<Vec<_>, _>>()?;
        let known = known_keys(&fixtures);
        for at in 0..varied.len() {
            let key = vary::resolve(&varied[at].key, &known)?;
            if varied[..at].iter().any(|before| before.key == key) {
                return Err(format!("--vary {key}: this key is varied twice; once is right"));
            }
            varied[at].key = key;
        }
        let values = varied.iter().map(|one| one.values.len().to_string()).collect::<Vec<_>>();
        let variants = vary::product(&varied).filter(|variants| {
            let runs = (variants.len() as u64).saturating_mul(repeat);
            runs.saturating_mul(fixtures.len() as u64) <= RUNS_MAX as u64
        });
        let Some(variants) = variants else {
            let times = if values.is_empty() { "1".to_owned() } else { values.join(" × ") };
            return Err(format!(
                "{} fixtures × {times} variants × {repeat} runs are more than {RUNS_MAX} runs; \
                 fewer values, fixtures or repeats are right",
                fixtures.len()
            ));
        };
        let held = varied.into_iter().map(|one| one.key).collect();
        let spread = Spread { pct: spread_pct, held };
        Ok(Plan { fixtures, variants, repeat, seed, spread })
    }

    /// The runs of a variant: their numbers and seeds.
    pub fn seeds(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let seed = self.seed;
        (0..self.repeat).map(move |run| (run, seed + run))
    }

    /// How many runs there are.
    pub fn runs(&self) -> u64 {
        self.repeat * (self.fixtures.len() * self.variants.len()) as u64
    }

    /// Says what is wrong with a variant before the first one is run.
    pub fn check(&self, fallback: &Arc<FallbackScript>) -> Result<(), String> {
        for fixture in &self.fixtures {
            for variant in &self.variants {
                let mut script = fixture.variant(variant)?;
                // No time passes: only what makes the providers is done.
                script.ends_by = Duration::ZERO;
                let (bank, _) = voice::for_virtual_time(&script, &fixture.path)?;
                let staging = Staging { bank: Some(&bank), ..Staging::default() };
                world::stage(&script, fallback.clone(), staging)
                    .map_err(|e| format!("{}: {}: {e}", fixture.path.display(), variant.name))?;
            }
        }
        Ok(())
    }
}

/// Every key that a fixture has a value for, and those that are drawn without being written.
fn known_keys(fixtures: &[Studied]) -> BTreeSet<String> {
    let written = fixtures.iter().flat_map(|fixture| fixture.script.config.origins.keys());
    written.map(str::to_owned).chain(drawn::keys()).collect()
}
