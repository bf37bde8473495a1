//! A study's result: one row a run, one a variant and metric; as table, CSV and JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::files::{SCHEMA, field};
use super::interval::{self, Interval};
use super::vary::{Variant, shown};
use crate::sim::metrics::{METRICS, Sample};

/// What came of one run.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Its place among the variant's runs.
    pub run: u64,
    /// Its seed.
    pub seed: u64,
    /// In the order of [`METRICS`].
    pub samples: Vec<Sample>,
    /// What the script expects and did not come: a result.
    pub unmet: Vec<String>,
    /// Invariants that did not hold: a mistake in Floorkeeper.
    pub broken: Vec<String>,
}

/// All runs of a variant.
#[derive(Clone, Debug)]
pub struct Row {
    /// Which.
    pub variant: Variant,
    /// Its runs.
    pub runs: Vec<Measured>,
}

/// All variants of a fixture.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// The fixture's name.
    pub fixture: String,
    /// What it shows.
    pub about: String,
    /// Its variants.
    pub rows: Vec<Row>,
}

/// A metric over the runs of a variant.
struct Total {
    metric: &'static str,
    /// Runs with a value, or cases.
    n: usize,
    interval: Option<Interval>,
    kind: Kind,
}

enum Kind {
    Mean { deviation: f64, least: f64, most: f64 },
    Share { hits: u32 },
}

/// The share of runs in which everything came as the script expects.
const AS_EXPECTED: &str = "as_expected";

impl Row {
    fn totals(&self) -> Vec<Total> {
        let metrics = METRICS.iter().enumerate();
        let mut all: Vec<Total> =
            metrics.map(|(at, metric)| self.total(metric.name, |run| &run.samples[at])).collect();
        let met = self.runs.iter().filter(|run| run.unmet.is_empty()).count();
        all.push(share(AS_EXPECTED, met as u32, self.runs.len() as u32));
        all
    }

    fn total(&self, metric: &'static str, of: impl Fn(&Measured) -> &Sample) -> Total {
        let (mut values, mut hits, mut cases, mut is_share) = (Vec::new(), 0, 0, false);
        for run in &self.runs {
            match of(run) {
                Sample::Value(value) => values.extend(*value),
                Sample::Share { hits: more, of } => {
                    is_share = true;
                    hits += more;
                    cases += of;
                }
            }
        }
        if is_share {
            return share(metric, hits, cases);
        }
        let fold = |start: f64, pick: fn(f64, f64) -> f64| values.iter().copied().fold(start, pick);
        let kind = Kind::Mean {
            deviation: interval::deviation(&values),
            least: fold(f64::INFINITY, f64::min),
            most: fold(f64::NEG_INFINITY, f64::max),
        };
        Total { metric, n: values.len(), interval: interval::of_mean(&values), kind }
    }
}

fn share(metric: &'static str, hits: u32, of: u32) -> Total {
    let interval = interval::of_share(hits, of);
    Total { metric, n: of as usize, interval, kind: Kind::Share { hits } }
}

impl Total {
    /// `mean ±half (n)`, or `hits/n low–high%`.
    fn cell(&self) -> String {
        let Some(Interval { middle, ends }) = self.interval else { return "-".to_owned() };
        match (&self.kind, ends) {
            (Kind::Share { hits }, Some((low, high))) => {
                format!("{hits}/{} {:.0}–{:.0}%", self.n, 100.0 * low, 100.0 * high)
            }
            (Kind::Mean { .. }, Some((_, high))) => {
                format!("{} ±{} ({})", short(middle), short(high - middle), self.n)
            }
            (_, None) => format!("{} ({})", short(middle), self.n),
        }
    }

    fn json(&self) -> Value {
        let middle = self.interval.map(|interval| interval.middle);
        let ends = self.interval.and_then(|interval| interval.ends);
        let ends = ends.map(|(low, high)| json!([low, high]));
        match self.kind {
            Kind::Share { hits } => {
                json!({"n": self.n, "hits": hits, "share": middle, "ci95": ends})
            }
            Kind::Mean { .. } if middle.is_none() => {
                json!({"n": 0, "mean": null, "ci95": null, "sd": null, "min": null, "max": null})
            }
            Kind::Mean { deviation, least, most } => json!({
                "n": self.n, "mean": middle, "ci95": ends, "sd": deviation, "min": least,
                "max": most,
            }),
        }
    }

    fn csv(&self) -> String {
        let number = |number: Option<f64>| number.map_or_else(String::new, |n| n.to_string());
        let ends = self.interval.and_then(|interval| interval.ends);
        let spread = match self.kind {
            Kind::Mean { deviation, least, most } if self.n > 0 => {
                [deviation, least, most].map(Some)
            }
            Kind::Mean { .. } | Kind::Share { .. } => [None; 3],
        };
        let middle = self.interval.map(|interval| interval.middle);
        let numbers =
            [middle, ends.map(|e| e.0), ends.map(|e| e.1), spread[0], spread[1], spread[2]];
        format!("{},{},{}", self.metric, self.n, numbers.map(number).join(","))
    }
}

/// One digit behind the point, if it says anything.
fn short(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

impl Sheet {
    /// Variants × metrics, for people; what no run had is left out.
    pub fn table(&self) -> String {
        let mut lines: Vec<Vec<String>> = Vec::new();
        let totals: Vec<Vec<Total>> = self.rows.iter().map(Row::totals).collect();
        let columns = totals.first().map_or(0, Vec::len);
        let told: Vec<usize> =
            (0..columns).filter(|&at| totals.iter().any(|row| row[at].n > 0)).collect();
        let head = told.iter().map(|&at| totals[0][at].metric.to_owned());
        lines.push(std::iter::once("variant".to_owned()).chain(head).collect());
        for (row, totals) in self.rows.iter().zip(&totals) {
            let cells = told.iter().map(|&at| totals[at].cell());
            lines.push(std::iter::once(row.variant.name.clone()).chain(cells).collect());
        }
        let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max();
        let widths: Vec<usize> = (0..=told.len()).filter_map(width).collect();
        let mut text = String::new();
        for line in &lines {
            let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            let line = cells.collect::<Vec<_>>().join("  ");
            // Writing to a string does not fail, here and below.
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text
    }

    /// What is to be said below the table: expectations that were not met, invariants that broke.
    pub fn remarks(&self) -> Vec<String> {
        let runs = || self.rows.iter().flat_map(|row| row.runs.iter().map(move |run| (row, run)));
        let unmet = runs().filter(|(_, run)| !run.unmet.is_empty()).count();
        let first = runs().find_map(|(row, run)| Some((row, run, run.unmet.first()?)));
        let mut told: Vec<String> = Vec::new();
        if let Some((row, run, what)) = first {
            told.push(format!(
                "not as the script expects in {unmet} of {} runs, which is a result; first {}, \
                 seed {}: {what}",
                runs().count(),
                row.variant.name,
                run.seed
            ));
        }
        for (row, run) in runs() {
            let place = format!("BROKEN {}, seed {}", row.variant.name, run.seed);
            told.extend(run.broken.iter().map(|problem| format!("{place}: {problem}")));
        }
        told
    }

    /// The same for machines.
    pub fn json(&self) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(|row| row.json()).collect();
        json!({"fixture": self.fixture, "about": self.about, "variants": rows})
    }
}

impl Row {
    fn json(&self) -> Value {
        let totals = self.totals();
        let metrics: serde_json::Map<String, Value> =
            totals.iter().map(|total| (total.metric.to_owned(), total.json())).collect();
        let set: serde_json::Map<String, Value> =
            self.variant.set.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        let told = |what: fn(&Measured) -> &Vec<String>| -> Vec<Value> {
            let runs = self.runs.iter().filter(|run| !what(run).is_empty());
            runs.map(|run| json!({"seed": run.seed, "problems": what(run)})).collect()
        };
        json!({
            "variant": self.variant.name, "set": set, "runs": self.runs.len(), "metrics": metrics,
            "unmet": told(|run| &run.unmet), "broken": told(|run| &run.broken),
        })
    }
}

fn keys(sheets: &[Sheet]) -> Vec<String> {
    let set = sheets.first().and_then(|sheet| sheet.rows.first()).map(|row| &row.variant.set);
    set.into_iter().flatten().map(|(key, _)| key.clone()).collect()
}

/// `schema,fixture,variant`, then the varied keys.
fn place(fixture: &str, variant: &Variant) -> String {
    let mut parts = vec![SCHEMA.to_string(), field(fixture), field(&variant.name)];
    parts.extend(variant.set.iter().map(|(_, value)| field(&shown(value))));
    parts.join(",")
}

fn head(sheets: &[Sheet], rest: &[String]) -> String {
    let fixed = ["schema", "fixture", "variant"].map(str::to_owned).into_iter();
    let all: Vec<String> = fixed.chain(keys(sheets)).chain(rest.iter().cloned()).collect();
    format!("{}\n", all.iter().map(|name| field(name)).collect::<Vec<_>>().join(","))
}

/// One row a run.
pub fn metrics_csv(sheets: &[Sheet]) -> String {
    let mut columns = vec!["run".to_owned(), "seed".to_owned()];
    let samples = sheets.iter().flat_map(|sheet| &sheet.rows).flat_map(|row| &row.runs);
    let samples: &[Sample] = samples.map(|run| run.samples.as_slice()).next().unwrap_or_default();
    for (metric, sample) in METRICS.iter().zip(samples) {
        columns.push(metric.name.to_owned());
        if let Sample::Share { .. } = sample {
            columns.push(format!("{}_of", metric.name));
        }
    }
    columns.extend([AS_EXPECTED, "unmet", "broken"].map(str::to_owned));
    let mut text = head(sheets, &columns);
    for sheet in sheets {
        for row in &sheet.rows {
            let place = place(&sheet.fixture, &row.variant);
            for run in &row.runs {
                let values = run.samples.iter().map(|sample| match sample {
                    Sample::Value(value) => value.map_or_else(String::new, |n| n.to_string()),
                    Sample::Share { hits, of } => format!("{hits},{of}"),
                });
                let values: Vec<String> = values.collect();
                let (unmet, broken) = (run.unmet.join("; "), run.broken.join("; "));
                let _ = writeln!(
                    text,
                    "{place},{},{},{},{},{},{}",
                    run.run,
                    run.seed,
                    values.join(","),
                    run.unmet.is_empty(),
                    field(&unmet),
                    field(&broken)
                );
            }
        }
    }
    text
}

/// One row a variant and metric.
pub fn summary_csv(sheets: &[Sheet]) -> String {
    let columns = ["metric", "n", "mean", "ci95_low", "ci95_high", "sd", "min", "max"];
    let mut text = head(sheets, &columns.map(str::to_owned));
    for sheet in sheets {
        for row in &sheet.rows {
            let place = place(&sheet.fixture, &row.variant);
            for total in row.totals() {
                let _ = writeln!(text, "{place},{}", total.csv());
            }
        }
    }
    text
}
