//! `fixture run --vary --repeat --export`: what is written is the same for the same seed, what is
//! measured is right, and what is asked for wrongly is answered with what would be right.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use floorkeeper::config::Script as Fallback;
use floorkeeper::sim::drawn::{Spread, drawn};
use floorkeeper::sim::metrics::METRICS;
use floorkeeper::sim::script::Script;
use floorkeeper::sim::world;
use serde_json::Value;

const BARGE_IN: &str = "fixtures/calls/barge_in_while_speaking.toml";
const COUGH: &str = "fixtures/calls/cough_resumes.toml";

/// A folder of a test's own, gone at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let name = format!("floorkeeper-study-{}-{name}", std::process::id());
        Scratch(std::env::temp_dir().join(name))
    }

    fn text(&self) -> &str {
        self.0.to_str().expect("a path in UTF-8")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn run(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_floorkeeper"));
    command.args(["fixture", "run"]).args(args).output().expect("floorkeeper runs")
}

fn good(args: &[&str]) -> String {
    let output = run(args);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{told}");
    String::from_utf8(output.stdout).expect("text")
}

fn refused(args: &[&str]) -> String {
    let output = run(args);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {told}");
    told
}

/// Every file below a folder.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            match entry.path() {
                path if path.is_dir() => open.push(path),
                path => {
                    let name = path.strip_prefix(dir).expect("inside").display().to_string();
                    found.insert(name, fs::read(&path).expect("a file"));
                }
            }
        }
    }
    found
}

fn text_of(files: &BTreeMap<String, Vec<u8>>, name: &str) -> String {
    String::from_utf8(files[name].clone()).expect("text")
}

fn json_of(files: &BTreeMap<String, Vec<u8>>, name: &str) -> Value {
    serde_json::from_slice(&files[name]).expect("JSON")
}

/// Rows of a CSV file without quoted line ends, by the names in its first line.
fn rows(text: &str) -> Vec<BTreeMap<String, String>> {
    let split = |line: &str| {
        let (mut parts, mut quoted) = (vec![String::new()], false);
        for c in line.chars() {
            match c {
                '"' => quoted = !quoted,
                ',' if !quoted => parts.push(String::new()),
                c => parts.last_mut().expect("one").push(c),
            }
        }
        parts
    };
    let mut lines = text.lines();
    let head = split(lines.next().expect("a first line"));
    lines
        .map(|line| {
            let parts = split(line);
            assert_eq!(parts.len(), head.len(), "{line}");
            head.iter().cloned().zip(parts).collect()
        })
        .collect()
}

/// What happened, and when.
fn told(events: &[u8]) -> Vec<(Value, Value)> {
    let events = std::str::from_utf8(events).expect("text");
    let event = |line: &str| serde_json::from_str::<Value>(line).expect("an event");
    let all = events.lines().map(event).map(|event| (event["t_ms"].clone(), event["name"].clone()));
    let all: Vec<_> = all.collect();
    assert!(all.len() > 10, "{events}");
    all
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_one_others() {
    let (one, two, other) = (Scratch::new("one"), Scratch::new("two"), Scratch::new("other"));
    let study = |dir: &Scratch, seed: &str| {
        let vary = ["--vary", "barge_in.confirm_ms=200,240", "--repeat", "3", "--seed", seed];
        let fixtures = [BARGE_IN, COUGH];
        good(&[&fixtures[..], &vary, &["--export", dir.text()]].concat())
    };
    assert_eq!(study(&one, "7"), study(&two, "7"));
    let (first, second) = (files(&one.0), files(&two.0));
    assert_eq!(first, second);
    let events = "barge_in_while_speaking/turn.barge_in.confirm_ms=240/run_8/events.jsonl";
    let as_written = "barge_in_while_speaking/turn.barge_in.confirm_ms=240/run_7/events.jsonl";
    assert_ne!(first[events], first[as_written]);
    study(&other, "8");
    // A seed is one story, whichever study it stands in, and no other seed's.
    let drawn = "barge_in_while_speaking/turn.barge_in.confirm_ms=240/run_9/events.jsonl";
    let others = files(&other.0);
    assert_eq!(told(&first[drawn]), told(&others[drawn]));
    assert_ne!(told(&first[drawn]), told(&first[events]));
    let runs = first.keys().filter(|name| name.ends_with("call.TextGrid")).count();
    assert_eq!(runs, 2 * 2 * 3);
}

#[test]
fn a_manifest_names_what_made_the_export_and_every_run_is_there() {
    let dir = Scratch::new("manifest");
    good(&[BARGE_IN, "--vary", "confirm_ms=240..280:40", "--repeat", "2", "--export", dir.text()]);
    let found = files(&dir.0);
    let manifest = json_of(&found, "manifest.json");
    assert_eq!(manifest["floorkeeper"], env!("CARGO_PKG_VERSION"));
    assert_eq!((&manifest["schema"], &manifest["seed"]), (&1.into(), &0.into()));
    let fixture = &manifest["fixtures"][0];
    assert_eq!(fixture["text"], fs::read_to_string(BARGE_IN).expect("the fixture"));
    assert_eq!(fixture["sha256"].as_str().expect("a hash").len(), 64);
    assert_eq!(fixture["configuration"]["turn.barge_in.confirm_ms"], 240);
    assert_eq!(manifest["variants"][1]["set"]["turn.barge_in.confirm_ms"], 280);
    assert!(manifest["models"]["pinned"][0]["files"][0]["sha256"].is_string());
    let runs = manifest["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 4);
    for run in runs {
        let folder = run["folder"].as_str().expect("a folder");
        let (mut last, mut count) = (0.0, 0);
        for line in text_of(&found, &format!("{folder}/events.jsonl")).lines() {
            let event: Value = serde_json::from_str(line).expect("a line of JSON");
            for key in ["schema", "fixture", "variant", "run", "seed", "t_ms", "name", "details"] {
                assert!(!event[key].is_null(), "{key} in {line}");
            }
            assert_eq!((&event["seed"], &event["variant"]), (&run["seed"], &run["variant"]));
            let at = event["t_ms"].as_f64().expect("a time");
            assert!(at >= last, "{line}");
            (last, count) = (at, count + 1);
        }
        assert_eq!(rows(&text_of(&found, &format!("{folder}/events.csv"))).len(), count);
    }
    assert_eq!(rows(&text_of(&found, "metrics.csv")).len(), 4);
}

/// The clear follows the partial behind `confirm_ms`: what is added to the one is added to the
/// other.
#[test]
fn the_clear_moves_by_exactly_what_confirm_ms_is_varied() {
    let json = good(&[BARGE_IN, "--vary", "confirm_ms=240..400:40", "--repeat", "4", "--json"]);
    let study: Value = serde_json::from_str(&json).expect("JSON");
    let variants = study["fixtures"][0]["variants"].as_array().expect("variants");
    let clear = |variant: &Value| variant["metrics"]["stop_clear_ms"]["mean"].as_f64();
    let clears: Vec<f64> = variants.iter().map(|variant| clear(variant).expect("stops")).collect();
    assert_eq!(clears, [220.0, 260.0, 300.0, 340.0, 380.0]);
    for variant in variants {
        let metrics = &variant["metrics"];
        assert_eq!(metrics["stop_pause_ms"]["mean"], 40.0);
        assert_eq!(metrics["words_heard_after_fence"]["max"], 0.0);
        assert_eq!(
            (&metrics["missed_interruptions"]["hits"], &variant["runs"]),
            (&0.into(), &4.into())
        );
    }
}

/// Means, t intervals and Wilson intervals, worked out from the runs' own rows.
#[test]
fn intervals_are_those_of_the_runs() {
    let dir = Scratch::new("intervals");
    let files_of = |args: &[&str]| {
        good(args);
        files(&dir.0)
    };
    let found = files_of(&[COUGH, "--repeat", "5", "--export", dir.text()]);
    let runs = rows(&text_of(&found, "metrics.csv"));
    let gaps: Vec<f64> = runs.iter().map(|run| run["gap_ms"].parse().expect("a gap")).collect();
    let mean = gaps.iter().sum::<f64>() / 5.0;
    let squares: f64 = gaps.iter().map(|gap| (gap - mean).powi(2)).sum();
    // Student's 97.5 % quantile with four degrees of freedom.
    let half = 2.776_445 * (squares / 4.0).sqrt() / 5.0_f64.sqrt();
    assert!(half > 1.0, "the runs differ");
    let summary = rows(&text_of(&found, "summary.csv"));
    let row = |metric: &str| summary.iter().find(|row| row["metric"] == metric).expect("a row");
    let number = |metric: &str, column: &str| row(metric)[column].parse::<f64>().expect("a number");
    let near = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-6, "{found} {wanted}");
    near(number("gap_ms", "mean"), mean);
    near(number("gap_ms", "ci95_low"), mean - half);
    near(number("gap_ms", "ci95_high"), mean + half);
    // Two coughs a run and no stop: 0 of 10, whose Wilson interval ends at z²/(n + z²).
    assert_eq!(
        (number("false_interruptions", "n"), number("false_interruptions", "mean")),
        (10.0, 0.0)
    );
    let z2 = 1.959_963_985_f64.powi(2);
    near(number("false_interruptions", "ci95_high"), z2 / (10.0 + z2));
}

#[test]
fn no_fixture_lets_words_be_heard_behind_a_fence_whatever_is_drawn() {
    let json = good(&["fixtures/calls", "--repeat", "2", "--json"]);
    let study: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(study["broken"], 0);
    for fixture in study["fixtures"].as_array().expect("fixtures") {
        let words = &fixture["variants"][0]["metrics"]["words_heard_after_fence"];
        assert_eq!(words["max"], 0.0, "{}", fixture["fixture"]);
    }
}

/// What is drawn without being written is drawn around the providers' own defaults: without a
/// spread nothing changes.
#[test]
fn a_spread_of_nothing_is_every_fixture_as_it_is_written() {
    let fallback = Arc::new(Fallback::read(None).expect("the built-in prompts"));
    let still = Spread { pct: 0, held: Vec::new() };
    for path in floorkeeper::cli::fixture::find(&["fixtures/calls".into()]).expect("fixtures") {
        let name = path.display().to_string();
        let script = Script::parse(&name, &fs::read_to_string(&path).expect("a file"));
        let script = script.expect("a fixture");
        let story = |script: &Script| world::run(script, fallback.clone()).expect("a run").trace;
        assert_eq!(story(&script), story(&drawn(&script, 5, &still)), "{name}");
    }
}

#[test]
fn an_unmet_expectation_is_a_result_and_no_failure() {
    let dir = Scratch::new("unmet");
    fs::create_dir_all(&dir.0).expect("a folder");
    let path = dir.0.join("hopes.toml");
    let text = "about = \"it hopes for a tool\"\nends_by = \"9s\"\n[[caller]]\nat = \"1s\"\n\
                says = \"hello there\"\n[[caller]]\nafter = \"tool.start\"\nhangs_up = true\n\
                [[expect]]\norder = [\"tool.start\"]\n";
    fs::write(&path, text).expect("a file");
    let told = good(&[path.to_str().expect("UTF-8"), "--repeat", "2"]);
    assert!(told.contains("0/2 0–66%"), "{told}");
    assert!(told.contains("in 2 of 2 runs, which is a result; first as_written, seed 0"), "{told}");
    assert!(told.contains("caller[2]: \"tool.start\" never happened"), "{told}");
    assert!(told.ends_with("2 runs, 0 broken\n"), "{told}");
}

#[test]
fn what_is_asked_for_wrongly_is_answered_with_what_is_right() {
    for (args, problem) in [
        (&["--vary", "barge_in.confrim_ms=1,2"][..], "did you mean turn.barge_in.confirm_ms?"),
        (&["--vary", "slots=1,2"], "keys end with this; write which one, as limits."),
        (&["--vary", "confirm_ms=400..120:40"], "the range is empty"),
        (&["--vary", "confirm_ms=120..400:0"], "the step is 0"),
        (&["--vary", "confirm_ms=120..400:-40"], "the step leads away from the range's end"),
        (&["--vary", "confirm_ms=120..400"], "KEY=A..B:STEP or KEY=a,b,c is right"),
        (&["--vary", "confirm_ms=soon"], "--vary turn.barge_in.confirm_ms=soon: fixtures/calls/"),
        (&["--vary", "tts.frist_audio_ms=1,2"], "frist_audio_ms: this key is not known here"),
        (&["--vary", "confirm_ms=1,2", "--vary", "turn.barge_in.confirm_ms=3"], "varied twice"),
        (
            &["--vary", "confirm_ms=100..600:1", "--repeat", "20"],
            "1 fixtures × 501 variants × 20 runs are more than 10000 runs",
        ),
        (&["--repeat", "0"], "0 is not in 1..=10000"),
        (&["--repeat", "2", "--spread-pct", "91"], "91 is not in 0..=90"),
        (&["--spread-pct", "10"], "--repeat 20 draws others around it"),
        (&["--seed", "18446744073709551615", "--repeat", "2"], "beyond the last seed"),
        (&["--repeat", "2", "--bless"], "--bless with --repeat: golden traces are"),
        (&["--vary", "a=1", "--report", "x.html"], "--report with --vary: a page shows"),
        (&["--export", "x", "--trace"], "--trace with --export: a study prints metrics"),
        (&["--export", BARGE_IN], "this is a file; a new folder, an empty one, or an earlier"),
        (&["--export", "fixtures"], "it holds something else; a new folder"),
        (&["--repeat", "2", "--live"], "--live with --repeat: studies run in virtual time"),
    ] {
        let told = refused(&[&[BARGE_IN], args].concat());
        assert!(told.contains(problem), "{args:?}: {told}");
    }
}

#[test]
fn an_export_takes_an_earlier_ones_place_and_leaves_what_is_not_its_own() {
    let dir = Scratch::new("again");
    let study = |repeat: &str| good(&[COUGH, "--repeat", repeat, "--export", dir.text()]);
    study("3");
    let notes = dir.0.join("cough_resumes/as_written/run_2/notes.txt");
    fs::write(&notes, "mine").expect("a file");
    study("2");
    let found = files(&dir.0);
    let runs: Vec<&str> =
        found.keys().filter_map(|name| name.strip_prefix("cough_resumes/as_written/")).collect();
    assert!(runs.contains(&"run_1/events.csv") && runs.contains(&"run_2/notes.txt"), "{runs:?}");
    assert!(!runs.contains(&"run_2/events.csv"), "{runs:?}");
    // A folder that only looks like one is nobody's to clear.
    fs::write(dir.0.join("manifest.json"), "{\"runs\": []}").expect("a file");
    let told = refused(&[COUGH, "--export", dir.text()]);
    assert!(told.contains("it holds something else"), "{told}");
    assert_eq!(fs::read_to_string(&notes).expect("it is there"), "mine");
}

/// The page says of every metric what the code, and with it every manifest, says.
#[test]
fn the_reference_defines_every_metric_as_the_code_does() {
    let page = fs::read_to_string("docs/reference/study.md").expect("the page");
    for metric in METRICS {
        let row = format!("| `{}` | {} |", metric.name, metric.means);
        assert!(page.contains(&row), "docs/reference/study.md lacks: {row}");
    }
}

/// The example's output is what the command prints now; FLOORKEEPER_BLESS=1 writes it anew.
#[test]
fn the_example_of_the_reference_is_what_it_prints() {
    let path = "docs/reference/study.md";
    let page = fs::read_to_string(path).expect("the page");
    let (before, example) = page.split_once("$ floorkeeper fixture run ").expect("an example");
    let (command, rest) = example.split_once('\n').expect("its output");
    let (shown, after) = rest.split_once("```").expect("its end");
    let asked = command.split(" --export").next().expect("options");
    let printed = good(&asked.split(' ').collect::<Vec<_>>());
    if std::env::var_os("FLOORKEEPER_BLESS").is_some() {
        let anew = format!("{before}$ floorkeeper fixture run {command}\n{printed}```{after}");
        fs::write(path, anew).expect("the page can be written");
        return;
    }
    assert_eq!(shown, printed, "FLOORKEEPER_BLESS=1 cargo test --test fixtures_study blesses it");
}

/// A tier of a TextGrid: its name, and its stretches or its points.
type Tier = (String, Vec<(f64, f64, String)>);

/// Reads a TextGrid in Praat's long format: a value a line, in the order that Praat writes.
fn read_text_grid(text: &str) -> (f64, Vec<Tier>) {
    let mut values = text.lines().skip(2).filter_map(|line| {
        let (key, value) = line.trim().split_once('=').unwrap_or((line.trim(), ""));
        (!key.is_empty() && !key.ends_with(':')).then(|| (key.trim(), value.trim()))
    });
    let mut next = |wanted: &str| {
        let (key, value) = values.next().unwrap_or_else(|| panic!("{wanted} is missing"));
        assert!(key == wanted || key.ends_with(wanted), "{key} stands where {wanted} should");
        value.to_owned()
    };
    let number = |text: String| text.parse::<f64>().expect("a number");
    let label = |text: String| {
        let inner = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')).expect("quotes");
        assert!(!inner.replace("\"\"", "").contains('"'), "{text}");
        inner.replace("\"\"", "\"")
    };
    assert_eq!(text.lines().next(), Some("File type = \"ooTextFile\""));
    assert_eq!(text.lines().nth(1), Some("Object class = \"TextGrid\""));
    assert_eq!(number(next("xmin")), 0.0);
    let end = number(next("xmax"));
    assert_eq!(next("tiers? <exists>"), "");
    let size = number(next("size")) as usize;
    let mut tiers = Vec::new();
    for _ in 0..size {
        let class = label(next("class"));
        let name = label(next("name"));
        assert_eq!((number(next("xmin")), number(next("xmax"))), (0.0, end));
        let count = number(next("size")) as usize;
        let entries = (0..count).map(|_| match class.as_str() {
            "IntervalTier" => (number(next("xmin")), number(next("xmax")), label(next("text"))),
            _ => {
                let at = number(next("number"));
                (at, at, label(next("mark")))
            }
        });
        tiers.push((name, entries.collect()));
    }
    (end, tiers)
}

#[test]
fn a_text_grid_reads_back_as_the_call() {
    let dir = Scratch::new("grid");
    good(&[BARGE_IN, "--export", dir.text()]);
    let found = files(&dir.0);
    let grid = text_of(&found, "barge_in_while_speaking/as_written/run_0/call.TextGrid");
    let (end, tiers) = read_text_grid(&grid);
    let names: Vec<&str> = tiers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["caller", "agent", "generation", "floor", "events", "gates"]);
    for (name, stretches) in &tiers[..4] {
        let ends = stretches.iter().map(|stretch| stretch.1);
        let begins = stretches.iter().map(|stretch| stretch.0).skip(1).chain([end]);
        assert!(ends.eq(begins), "{name} has gaps or overlaps");
    }
    for (name, points) in &tiers[4..] {
        assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0), "{name}: two at an instant");
    }
    let labelled = |at: usize| -> Vec<(f64, f64, &str)> {
        let stretches = tiers[at].1.iter().filter(|stretch| !stretch.2.is_empty());
        stretches.map(|(from, until, label)| (*from, *until, label.as_str())).collect()
    };
    assert_eq!(labelled(0)[1], (5.53, 7.13, "Wait, stop that now"));
    let king = "There was a king who had three sons and a garden full of pears.";
    assert_eq!(labelled(1)[0], (3.53, 5.75, king));
    let both: Vec<_> = labelled(3).into_iter().filter(|stretch| stretch.2 == "both").collect();
    assert_eq!(both, [(5.53, 5.75, "both")]);
    assert_eq!(labelled(2)[2].2, "2");
    assert!(tiers[4].1.iter().any(|(at, _, mark)| *at == 5.57 && mark.ends_with("agent.paused")));
}
