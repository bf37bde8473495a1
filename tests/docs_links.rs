//! The documents point at what exists: files, headings, tests, and keys of the fixture language.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use floorkeeper::config::{Config, Script as Fallback};
use floorkeeper::sim::script::Script;
use floorkeeper::sim::world;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn documents() -> Vec<PathBuf> {
    let mut found = vec![root().join("README.md")];
    let mut open = vec![root().join("docs")];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of documents") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The text without fenced code.
fn prose(text: &str) -> String {
    let mut inside = false;
    let mut kept = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if !inside {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// Targets of `[…](target)` and `![…](target)`.
fn links(text: &str) -> Vec<String> {
    let behind = text.split("](").skip(1);
    behind.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.to_owned()).collect()
}

/// What a heading's link is called.
fn anchor(heading: &str) -> String {
    let lower = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = lower.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    prose(text).lines().filter(|line| line.starts_with('#')).map(anchor).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for document in documents() {
        let text = read(&document);
        for link in links(&prose(&text)) {
            if link.starts_with("http") {
                continue;
            }
            count += 1;
            let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = match file {
                "" => document.clone(),
                file => document.parent().expect("a folder").join(file),
            };
            if !target.exists() {
                wrong.push(format!("{}: {link} does not exist", document.display()));
            } else if !heading.is_empty() && !anchors(&read(&target)).contains(heading) {
                wrong.push(format!("{}: {link} has no such heading", document.display()));
            }
        }
    }
    assert!(count > 20, "only {count} links were seen");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `tests/file.rs::name` and `src/file.rs::name` in backquotes name a function in that file.
#[test]
fn every_test_that_is_named_exists() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for document in documents() {
        for quoted in prose(&read(&document)).split('`').skip(1).step_by(2) {
            let Some((file, name)) = quoted.split_once(".rs::") else { continue };
            count += 1;
            let path = root().join(format!("{file}.rs"));
            let text = fs::read_to_string(&path).unwrap_or_default();
            if !text.contains(&format!("fn {name}(")) {
                wrong.push(format!("{}: `{quoted}` does not exist", document.display()));
            }
        }
    }
    assert!(count > 10, "only {count} tests are named");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A-163…A-182: twenty questions; what the last one asks no test can show.
#[test]
fn every_question_is_answered_with_a_test() {
    let text = read(&root().join("docs/questions.md"));
    let answers: Vec<&str> = text.split("\n### ").skip(1).collect();
    assert_eq!(answers.len(), 20);
    let untested: Vec<_> =
        answers[..19].iter().filter(|answer| !answer.contains(".rs::")).collect();
    assert!(untested.is_empty(), "{untested:?}");
}

/// The reference tells every key that a fixture may have.
#[test]
fn the_reference_knows_the_whole_fixture_language() {
    let guide = read(&root().join("docs/reference/fixtures.md"));
    let source = read(&root().join("src/sim/reading.rs"));
    let mut keys = vec!["about".to_owned(), "ends_by".to_owned()];
    for part in source.split("struct Raw").skip(1) {
        let body = part.split_once('{').expect("fields").1;
        let body = body.split_once('}').expect("an end").0;
        let mut renamed = None;
        for line in body.lines().map(str::trim) {
            if let Some(rest) = line.strip_prefix("#[serde(rename = \"") {
                renamed = rest.split_once('"').map(|(name, _)| name.to_owned());
            } else if let Some((name, _)) = line.split_once(": ") {
                keys.push(renamed.take().unwrap_or_else(|| name.to_owned()));
            }
        }
    }
    assert!(keys.len() > 20, "only {} keys were found: {keys:?}", keys.len());
    let told =
        |key: &str| guide.contains(&format!("`{key}")) || guide.contains(&format!("{key} ="));
    let missing: Vec<_> = keys.iter().filter(|key| !told(key)).collect();
    assert!(missing.is_empty(), "docs/reference/fixtures.md does not tell {missing:?}");
}

/// Every disposition's prompt that is named in the table is a prompt that exists.
#[test]
fn the_prompts_of_the_dispositions_exist() {
    let prompts = read(&root().join("fallback/prompts/en.toml"));
    for reason in floorkeeper::admission::disposition::REASONS {
        let prompt = reason.disposition().prompt;
        let known = prompt.is_empty() || prompts.contains(prompt);
        assert!(known, "{}: {prompt} is not in en.toml", reason.disposition());
    }
}

/// What stands between ```` ```<kind> ```` and the closing fence.
fn blocks(text: &str, kind: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<String> = None;
    for line in text.lines() {
        match &mut open {
            None if line == format!("```{kind}") => open = Some(String::new()),
            None => {}
            Some(_) if line == "```" => found.extend(open.take()),
            Some(block) => {
                block.push_str(line);
                block.push('\n');
            }
        }
    }
    found
}

#[test]
fn every_configuration_that_is_shown_is_one() {
    let mut count = 0;
    for document in documents() {
        let name = document.display().to_string();
        for block in blocks(&read(&document), "toml") {
            count += 1;
            let parsed = Config::parse(&name, &block, &[], std::iter::empty());
            assert!(parsed.is_ok(), "{:?}\n{block}", parsed.err());
        }
    }
    assert!(count >= 3, "only {count} configurations were seen");
}

#[test]
fn every_fixture_that_is_shown_holds() {
    let mut count = 0;
    for document in documents() {
        let name = document.display().to_string();
        for block in blocks(&read(&document), "toml fixture") {
            count += 1;
            let script = Script::parse(&name, &block).expect("a fixture");
            let fallback = Arc::new(Fallback::read(None).expect("the built-in prompts"));
            let outcome = world::run(&script, fallback).expect("it can be run");
            assert_eq!(outcome.problems, Vec::<String>::new(), "{name}: {}", script.about);
        }
    }
    assert!(count >= 2, "only {count} fixtures were seen");
}

/// Every story that is shown is in the golden trace, line by line, with gaps where `…` stands.
#[test]
fn every_trace_that_is_shown_is_the_golden_one() {
    let mut count = 0;
    for document in documents() {
        for block in blocks(&read(&document), "console") {
            let (command, story) = block.split_once('\n').expect("a command");
            let Some((_, rest)) = command.split_once("fixture run ") else { continue };
            let fixture = rest.split_whitespace().next().expect("a fixture");
            let golden = read(&root().join(fixture).with_extension("trace"));
            let mut lines = golden.lines();
            for line in story.lines().filter(|line| *line != "…") {
                count += 1;
                let found = lines.any(|golden| golden == line);
                assert!(found, "{}: not in {fixture}'s trace: {line}", document.display());
            }
        }
    }
    assert!(count >= 10, "only {count} lines were seen");
}
