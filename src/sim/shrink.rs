//! The shortest script that still fails: parts are left out one at a time, as long as the same kind
//! of problem stays.

use toml::{Table, Value};

/// Scripts that are tried at most.
const TRIES_MAX: u32 = 4_000;

/// What kind of problem this is: what is left of its sentence without times, names and words.
pub fn kind_of(problem: &str) -> String {
    let mut quoted = false;
    let unquoted = problem.chars().filter(|c| {
        quoted ^= *c == '"';
        !quoted
    });
    unquoted.filter(|c| !c.is_ascii_digit()).collect()
}

/// Leaves out what can be left out. `fails` runs a script and gives what came of it, if that is the
/// same kind of failure. `None` when not even the whole script fails.
pub fn shortest<T>(script: &str, fails: impl Fn(&str) -> Option<T>) -> Option<(String, T)> {
    let mut best: Table = script.parse().ok()?;
    let mut outcome = fails(&best.to_string())?;
    let mut tries = 0;
    loop {
        let before = best.clone();
        // From the end: what comes late is the most likely not to matter.
        for part in parts_of(&before).into_iter().rev() {
            let mut shorter = best.clone();
            if !leave_out(&mut shorter, &part) {
                continue;
            }
            tries += 1;
            if tries > TRIES_MAX {
                return Some((best.to_string(), outcome));
            }
            if let Some(failed) = fails(&shorter.to_string()) {
                (best, outcome) = (shorter, failed);
            }
        }
        if best == before {
            return Some((best.to_string(), outcome));
        }
    }
}

/// Where a part of a script stands.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    Key(String),
    Entry(usize),
    /// A list of one value a run: its entry becomes no value.
    NoValue(usize),
}

/// Every part, the whole before its own parts.
fn parts_of(table: &Table) -> Vec<Vec<Step>> {
    let mut parts = Vec::new();
    for (key, value) in table {
        if key == "about" || key == "ends_by" {
            continue;
        }
        walk(value, vec![Step::Key(key.clone())], &mut parts);
    }
    parts
}

fn walk(value: &Value, path: Vec<Step>, parts: &mut Vec<Vec<Step>>) {
    let below = |step: Step| [path.clone(), vec![step]].concat();
    parts.push(path.clone());
    match value {
        Value::Table(table) => {
            for (key, value) in table {
                walk(value, below(Step::Key(key.clone())), parts);
            }
        }
        Value::Array(entries) => {
            for (at, entry) in entries.iter().enumerate() {
                match entry {
                    Value::Table(_) => walk(entry, below(Step::Entry(at)), parts),
                    Value::String(word) if word == "none" => {}
                    _ => parts.push(below(Step::NoValue(at))),
                }
            }
        }
        _ => {}
    }
}

/// False when the part is gone already.
fn leave_out(table: &mut Table, path: &[Step]) -> bool {
    let [Step::Key(first), rest @ ..] = path else { return false };
    if rest.is_empty() {
        return table.remove(first).is_some();
    }
    table.get_mut(first).is_some_and(|value| leave_out_below(value, rest))
}

fn leave_out_below(value: &mut Value, path: &[Step]) -> bool {
    match (value, path) {
        (Value::Table(table), path) => leave_out(table, path),
        (Value::Array(all), [Step::Entry(at)]) if *at < all.len() => {
            all.remove(*at);
            true
        }
        (Value::Array(all), [Step::Entry(at), rest @ ..]) => {
            all.get_mut(*at).is_some_and(|entry| leave_out_below(entry, rest))
        }
        (Value::Array(all), [Step::NoValue(at)]) if *at < all.len() => {
            let none = Value::String("none".to_owned());
            std::mem::replace(&mut all[*at], none.clone()) != none
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_failure_needs_is_left() {
        let script = "about = \"x\"\n[llm]\nfail = [\"none\", \"429\", \"500\"]\nreply = \"a\"\n\
                      [tts]\nrate_x = 2\n[[caller]]\nat = \"1s\"\n[[caller]]\nat = \"2s\"\n";
        let needs = |script: &str| {
            (script.contains("500") && script.contains("\"2s\"")).then_some(script.len())
        };
        let (shortest, _) = shortest(script, needs).expect("it fails");
        let left: Table = shortest.parse().expect("what is left is TOML");
        assert_eq!(left["caller"].as_array().map(Vec::len), Some(1), "{shortest}");
        assert!(!left.contains_key("tts") && !shortest.contains("reply"), "{shortest}");
        assert!(!shortest.contains("429"), "{shortest}");
    }

    #[test]
    fn a_kind_of_problem_has_no_times_and_no_words() {
        let kind = kind_of("at 12 ms: a request holds words never said: \"a b\"");
        assert_eq!(kind, kind_of("at 9 ms: a request holds words never said: \"c\""));
        assert_ne!(kind, kind_of("at 9 ms: dead air since 4 ms"));
    }
}
