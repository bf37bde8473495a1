//! `--vary KEY=VALUES`: which keys of the configuration take which values, and all combinations.

use std::collections::BTreeSet;

use toml::Value;

use crate::config::word;

/// Most runs of one study; more is a slip in a range.
pub const RUNS_MAX: usize = 10_000;
/// Tables whose keys are the provider's own, or the script's: whoever builds it judges them.
const OPEN: [&str; 6] = ["llm.", "asr.", "tts.", "vad.", "tool.", "sound."];
/// Digits behind the point that a range keeps.
const DIGITS: u32 = 6;

/// A key and its values, as given.
#[derive(Clone, Debug, PartialEq)]
pub struct Varied {
    /// The key as given.
    pub key: String,
    /// Its values, in order.
    pub values: Vec<Value>,
}

/// One combination.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// `key=value,key=value`, or `as_written`.
    pub name: String,
    /// The keys and what they are set to.
    pub set: Vec<(String, Value)>,
}

/// Reads `KEY=A..B:STEP`, the end included, or `KEY=a,b,c`.
pub fn parse(text: &str) -> Result<Varied, String> {
    let right = "KEY=A..B:STEP or KEY=a,b,c is right";
    let wrong = |problem: &str| format!("--vary {text}: {problem}; {right}");
    let Some((key, values)) = text.split_once('=') else {
        return Err(wrong("there are no values"));
    };
    let (key, values) = (key.trim().to_owned(), values.trim());
    if key.is_empty() {
        return Err(wrong("there is no key"));
    }
    let numeric = |from: &str| from.trim().starts_with(|c: char| c.is_ascii_digit() || c == '-');
    let values = match values.split_once("..").filter(|(from, _)| numeric(from)) {
        Some((from, rest)) => range(from, rest).map_err(|problem| wrong(&problem))?,
        None => list(values).map_err(|problem| wrong(&problem))?,
    };
    let mut seen = BTreeSet::new();
    match values.iter().find(|value| !seen.insert(value.to_string())) {
        Some(twice) => Err(wrong(&format!("{} is there twice", shown(twice)))),
        None => Ok(Varied { key, values }),
    }
}

fn range(from: &str, rest: &str) -> Result<Vec<Value>, String> {
    let Some((to, step)) = rest.split_once(':') else {
        return Err("the range has no step".to_owned());
    };
    let whole = ![from, to, step].iter().any(|text| text.contains('.'));
    let (from, to, step) = (scaled(from)?, scaled(to)?, scaled(step)?);
    match step.signum() {
        0 => return Err("the step is 0".to_owned()),
        1 if to < from => {
            return Err("the range is empty, as its end is below its start".to_owned());
        }
        -1 if to > from => return Err("the step leads away from the range's end".to_owned()),
        _ => {}
    }
    let count = ((to - from) / step) as usize + 1;
    if count > RUNS_MAX {
        return Err(format!("the range has {count} values, and at most {RUNS_MAX} are run"));
    }
    let value = |at: usize| {
        let scaled = from + step * at as i64;
        let unit = 10_i64.pow(DIGITS);
        match whole {
            true => Value::Integer(scaled / unit),
            false => Value::Float(scaled as f64 / unit as f64),
        }
    };
    Ok((0..count).map(value).collect())
}

/// A decimal number in millionths, so that steps add up.
fn scaled(text: &str) -> Result<i64, String> {
    let text = text.trim();
    let wrong = || format!("\"{text}\" is no number with at most {DIGITS} digits behind its point");
    let (minus, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let only_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let fits = whole.len() <= 9 && part.len() <= DIGITS as usize && !whole.is_empty();
    if !fits || !only_digits(whole) || !only_digits(part) {
        return Err(wrong());
    }
    let padded = format!("{whole}{part:0<width$}", width = DIGITS as usize);
    padded.parse::<i64>().map(|number| minus * number).map_err(|_| wrong())
}

/// Values between commas that stand in no brackets and no quotes.
fn list(text: &str) -> Result<Vec<Value>, String> {
    let (mut depth, mut quoted, mut parts) = (0_i32, false, vec![String::new()]);
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            '[' | '{' if !quoted => depth += 1,
            ']' | '}' if !quoted => depth -= 1,
            _ => {}
        }
        match parts.last_mut() {
            Some(part) if c != ',' || quoted || depth > 0 => part.push(c),
            _ => parts.push(String::new()),
        }
    }
    parts
        .iter()
        .map(|part| match part.trim() {
            "" => Err("there is an empty value".to_owned()),
            part => Ok(word(part)),
        })
        .collect()
}

/// The value as it stands in a variant's name.
pub fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The full name of a key: itself, or the one key that ends with it.
pub fn resolve(key: &str, known: &BTreeSet<String>) -> Result<String, String> {
    if known.contains(key) {
        return Ok(key.to_owned());
    }
    let inside = format!("{key}.");
    if let Some(one) = known.iter().find(|full| full.starts_with(&inside)) {
        return Err(format!("--vary {key}: this is a table of keys, no key; write one, as {one}"));
    }
    let tail = format!(".{key}");
    let ends: Vec<&str> =
        known.iter().filter(|full| full.ends_with(&tail)).map(String::as_str).collect();
    match ends[..] {
        [only] => Ok(only.to_owned()),
        [] if OPEN.iter().any(|table| key.starts_with(table)) => Ok(key.to_owned()),
        [] => Err(match nearest(key, known) {
            Some(near) => format!("--vary {key}: there is no such key; did you mean {near}?"),
            None => format!(
                "--vary {key}: there is no such key; docs/reference/floorkeeper.toml has them all"
            ),
        }),
        [first, second, ..] => Err(format!(
            "--vary {key}: {} keys end with this; write which one, as {first} or {second}",
            ends.len()
        )),
    }
}

/// The key that is most like it, as a whole or by its last parts.
fn nearest<'k>(key: &str, known: &'k BTreeSet<String>) -> Option<&'k str> {
    let parts = key.split('.').count();
    let likeness = |full: &str| {
        let cut = full.rmatch_indices('.').nth(parts - 1).map_or(0, |(at, _)| at + 1);
        strsim::jaro_winkler(key, full).max(strsim::jaro_winkler(key, &full[cut..]))
    };
    let scored = known.iter().map(|full| (likeness(full), full.as_str()));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(a.1)));
    best.filter(|(likeness, _)| *likeness > 0.8).map(|(_, full)| full)
}

/// Every combination, the last key going fastest; `None` when there are too many.
pub fn product(varied: &[Varied]) -> Option<Vec<Variant>> {
    let count = varied.iter().try_fold(1_usize, |count, one| count.checked_mul(one.values.len()));
    count.filter(|count| *count <= RUNS_MAX)?;
    let mut sets: Vec<Vec<(String, Value)>> = vec![Vec::new()];
    for one in varied {
        let with = |set: &Vec<(String, Value)>, value: &Value| {
            let mut set = set.clone();
            set.push((one.key.clone(), value.clone()));
            set
        };
        sets = sets
            .iter()
            .flat_map(|set| one.values.iter().map(|value| with(set, value)).collect::<Vec<_>>())
            .collect();
    }
    let name = |set: &[(String, Value)]| {
        let parts: Vec<String> =
            set.iter().map(|(key, value)| format!("{key}={}", shown(value))).collect();
        if parts.is_empty() { "as_written".to_owned() } else { parts.join(",") }
    };
    Some(sets.into_iter().map(|set| Variant { name: name(&set), set }).collect())
}

/// Writes a key into a fixture; `false` where something that is no table is in its way.
pub fn put(table: &mut toml::Table, key: &str, value: &Value) -> bool {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value.clone());
            true
        }
        Some((first, rest)) => {
            let inner = table.entry(first).or_insert_with(|| toml::Table::new().into());
            inner.as_table_mut().is_some_and(|inner| put(inner, rest, value))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<String> {
        parse(text).unwrap().values.iter().map(shown).collect()
    }

    #[test]
    fn ranges_hold_their_end_and_lists_their_words() {
        assert_eq!(values("a=120..240:40"), ["120", "160", "200", "240"]);
        assert_eq!(values("a=120..250:100"), ["120", "220"]);
        assert_eq!(values("a=0.1..0.4:0.1"), ["0.1", "0.2", "0.3", "0.4"]);
        assert_eq!(values("a=3..-1:-2"), ["3", "1", "-1"]);
        assert_eq!(values("a=5..5:1"), ["5"]);
        assert_eq!(values("a=silence, 7 ,true"), ["silence", "7", "true"]);
        assert_eq!(values("a=[\"x, y\", \"z\"],[]"), ["[\"x, y\", \"z\"]", "[]"]);
        assert_eq!(parse("a=7,true").unwrap().values, [Value::Integer(7), Value::Boolean(true)]);
    }

    #[test]
    fn what_is_wrong_with_a_range_is_told() {
        for (text, problem) in [
            ("a", "there are no values"),
            ("=1,2", "there is no key"),
            ("a=", "there is an empty value"),
            ("a=1,,2", "there is an empty value"),
            ("a=1,1", "1 is there twice"),
            ("a=1..5", "the range has no step"),
            ("a=1..5:0", "the step is 0"),
            ("a=5..1:1", "the range is empty, as its end is below its start"),
            ("a=1..5:-1", "the step leads away from the range's end"),
            ("a=1..x:1", "\"x\" is no number"),
            ("a=0..1000000:1", "the range has 1000001 values, and at most 10000 are run"),
        ] {
            let told = parse(text).unwrap_err();
            assert!(told.contains(problem), "{told}");
            assert!(told.starts_with("--vary ") && told.ends_with("is right"), "{told}");
        }
    }

    #[test]
    fn a_bare_key_is_the_one_that_ends_with_it() {
        let known: BTreeSet<String> =
            ["turn.barge_in.confirm_ms", "limits.model.slots", "limits.call.slots"]
                .map(str::to_owned)
                .into();
        let full = "turn.barge_in.confirm_ms";
        for key in ["turn.barge_in.confirm_ms", "barge_in.confirm_ms", "confirm_ms"] {
            assert_eq!(resolve(key, &known).as_deref(), Ok(full));
        }
        assert_eq!(resolve("tts.rate_x", &known).as_deref(), Ok("tts.rate_x"));
        let told = |key: &str| resolve(key, &known).unwrap_err();
        assert!(told("barge_in.confrim_ms").ends_with("did you mean turn.barge_in.confirm_ms?"));
        assert!(told("slots").contains("2 keys end with this"), "{}", told("slots"));
        assert!(told("turn.barge_in").contains("a table of keys"));
        assert!(told("zebra").contains("docs/reference/floorkeeper.toml"));
    }

    #[test]
    fn the_last_key_goes_fastest() {
        let varied = [parse("a=1,2").unwrap(), parse("b=x,y").unwrap()];
        let names: Vec<String> = product(&varied).unwrap().into_iter().map(|v| v.name).collect();
        assert_eq!(names, ["a=1,b=x", "a=1,b=y", "a=2,b=x", "a=2,b=y"]);
        assert_eq!(product(&[]).unwrap()[0].name, "as_written");
        let many = parse("a=1..10000:1").unwrap();
        assert_eq!(product(&[many.clone(), many]), None);
    }
}
