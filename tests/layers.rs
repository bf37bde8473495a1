//! The rules of the source tree (DESIGN 2), read from the source: layers, purity, sizes, words.
//!
//! A rule is a function from one file to its violations. Every rule has a bad sample below that it
//! must find, so that a rule which no longer sees anything fails as well.

use std::fs;
use std::path::{Path, PathBuf};

/// Layer 0: the words. Everybody may import them.
const WORDS: [&str; 7] = ["time", "id", "audio", "fault", "evidence", "dialogue", "leg"];

/// What a module may import beside the words and itself. A module that is not here fails the test.
const MAY_IMPORT: [(&str, &[&str]); 12] = [
    // 1: pure deciders
    ("admission", &[]),
    ("turn", &[]),
    ("fallback", &["admission"]),
    // 2: the call
    ("call", &["admission", "turn", "fallback"]),
    // 3: ports; they know nothing of calls, turns or admission
    ("provider", &[]),
    ("transport", &["codec"]), // what a leg says is encoded where it leaves
    ("codec", &[]),
    ("store", &[]),
    // 4: worlds
    ("config", &["admission", "turn", "fallback", "call", "provider", "transport", "codec"]),
    ("sim", &["admission", "turn", "fallback", "call", "provider", "config"]),
    (
        "runtime",
        &[
            "admission",
            "turn",
            "fallback",
            "call",
            "provider",
            "transport",
            "codec",
            "store",
            "config",
        ],
    ),
    (
        "cli",
        &[
            "admission",
            "turn",
            "fallback",
            "call",
            "provider",
            "transport",
            "codec",
            "store",
            "config",
            "sim",
            "runtime",
        ],
    ),
];

/// Where time, randomness and I/O are arguments.
const PURE: [&str; 5] = ["admission", "turn", "fallback", "call", "sim"];

/// What a pure file may not name, and why.
const IMPURE: [(&str, &str); 22] = [
    ("async", "the machines decide, loops wait"),
    ("await", "the machines decide, loops wait"),
    ("tokio", "no runtime below layer 3"),
    ("Instant", "time is an argument: crate::time::Time"),
    ("SystemTime", "time is an argument"),
    ("std::thread", "one owner, no threads"),
    ("Mutex", "whoever owns the machine locks it"),
    ("RwLock", "whoever owns the machine locks it"),
    ("Condvar", "whoever owns the machine locks it"),
    ("OnceLock", "no hidden state"),
    ("LazyLock", "no hidden state"),
    ("static mut", "no hidden state"),
    ("thread_local", "no hidden state"),
    ("thread_rng", "randomness has a seed"),
    ("rand::rng", "randomness has a seed"),
    ("rand::random", "randomness has a seed"),
    ("HashMap", "its order differs from run to run: BTreeMap"),
    ("HashSet", "its order differs from run to run: BTreeSet"),
    ("std::fs", "no I/O"),
    ("std::net", "no I/O"),
    ("std::env", "no I/O"),
    ("std::process", "no I/O"),
];

const BANNED: [(&str, &str); 4] = [
    ("todo!", "say what does not work, with a typed error"),
    ("unimplemented!", "say what does not work, with a typed error"),
    ("dbg!", "tracing"),
    ("allow(dead_code)", "delete it"),
];

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 7] = ["utils", "util", "common", "manager", "helpers", "helper", "misc"];

const FILE_LINES_MAX: usize = 500;
const FN_LINES_MAX: usize = 70;
const COLUMNS_MAX: usize = 100;

/// Violations that stand for now: file, rule, reason. An entry that excuses nothing fails the test.
const ALLOWED: [(&str, &str, &str); 5] = [
    ("src/admission/mutant.rs", "purity", "chosen from outside, in builds with `mutants` only"),
    ("src/admission/records.rs", "purity", "looked up by key, never walked; its hash has no seed"),
    ("src/call/ear.rs", "file", "to be split: a turn's end, and the recogniser's run"),
    ("src/leg.rs", "file", "to be split: the session's settings in a file of their own"),
    ("src/sim/world.rs", "file", "to be split: the watcher of facts in a file of its own"),
];

/// One source file.
struct Source {
    /// Below the repository, with `/`.
    path: String,
    text: String,
    /// The text with comments and the inside of literals blanked; same lines, same columns.
    code: String,
}

/// One broken rule.
#[derive(Debug)]
struct Violation {
    path: String,
    line: usize,
    rule: &'static str,
    says: String,
}

impl Source {
    fn new(path: &str, text: &str) -> Source {
        Source { path: path.to_owned(), text: text.to_owned(), code: blank(text) }
    }

    fn violation(&self, line: usize, rule: &'static str, says: String) -> Violation {
        Violation { path: self.path.clone(), line, rule, says }
    }

    /// `src/turn/speech.rs` is `[turn, speech]`; empty outside `src/` and at its top.
    fn module(&self) -> Vec<&str> {
        let Some(inner) = self.path.strip_prefix("src/") else { return Vec::new() };
        let inner = inner.trim_end_matches(".rs");
        inner.split('/').filter(|part| !["mod", "lib", "main"].contains(part)).collect()
    }

    fn is_pure(&self) -> bool {
        let module = self.module();
        module.first().is_some_and(|top| PURE.contains(top) || WORDS.contains(top))
    }
}

type Rule = fn(&Source) -> Vec<Violation>;
const RULES: [Rule; 8] =
    [imports, purity, first_line, file_size, fn_size, width, banned_words, file_name];

fn imports(source: &Source) -> Vec<Violation> {
    let module = source.module();
    let Some(top) = module.first() else { return Vec::new() };
    let allowed: &[&str] = match MAY_IMPORT.iter().find(|(name, _)| name == top) {
        Some((_, allowed)) => allowed,
        None if WORDS.contains(top) => &[],
        None => return vec![source.violation(1, "layers", format!("{top} has no layer"))],
    };
    let mut wrong = Vec::new();
    for (line, target) in targets(source, module.len()) {
        let fine = target == *top || WORDS.contains(&&*target) || allowed.contains(&&*target);
        if !fine {
            wrong.push(source.violation(line, "layers", format!("{top} imports {target}")));
        }
    }
    wrong
}

/// Every top-level module named by a path that starts at the root, with its line.
fn targets(source: &Source, depth: usize) -> Vec<(usize, String)> {
    let known =
        |name: &str| WORDS.contains(&name) || MAY_IMPORT.iter().any(|(module, _)| *module == name);
    let mut found = Vec::new();
    for (at, _) in source.code.match_indices("crate::") {
        if source.code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
            continue; // `my_crate::`, and a macro's own
        }
        let line = line_of(&source.code, at);
        found.extend(heads(&source.code[at + 7..]).into_iter().map(|head| (line, head)));
    }
    let root = "super::".repeat(depth);
    for (at, _) in source.code.match_indices(&root) {
        let rest = &source.code[at + root.len()..];
        let line = line_of(&source.code, at);
        found.extend(heads(rest).into_iter().filter(|head| known(head)).map(|head| (line, head)));
    }
    found
}

/// The first names of what follows a path's root: `a::b` has `a`; `{a::{b, c}, d}` has `a` and `d`.
fn heads(rest: &str) -> Vec<String> {
    let word = |text: &str| -> String {
        text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let Some(group) = rest.strip_prefix('{') else { return vec![word(rest)] };
    let (mut depth, mut fresh, mut found) = (1, true, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => fresh = true,
            c if fresh && !c.is_whitespace() => {
                found.push(word(&group[at..]));
                fresh = false;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    found
}

fn purity(source: &Source) -> Vec<Violation> {
    if !source.is_pure() {
        return Vec::new();
    }
    let serde_json = ("serde_json", "what is decided needs no JSON");
    let layer_1 = ["admission", "turn", "fallback"].contains(&source.module()[0]);
    let words = IMPURE.iter().copied().chain(layer_1.then_some(serde_json));
    named(source, "purity", words)
}

fn banned_words(source: &Source) -> Vec<Violation> {
    named(source, "banned", BANNED.iter().copied())
}

/// Every line of code that has one of these as a word of its own.
fn named(
    source: &Source,
    rule: &'static str,
    words: impl Iterator<Item = (&'static str, &'static str)>,
) -> Vec<Violation> {
    let mut wrong = Vec::new();
    for (word, why) in words {
        for (at, _) in source.code.match_indices(word) {
            let inside = |c: char| c.is_alphanumeric() || c == '_';
            let before = source.code[..at].ends_with(inside);
            let after = source.code[at + word.len()..].starts_with(inside);
            if !before && !after {
                let line = line_of(&source.code, at);
                wrong.push(source.violation(line, rule, format!("{word}: {why}")));
            }
        }
    }
    wrong
}

fn first_line(source: &Source) -> Vec<Violation> {
    let good = source.text.starts_with("//! ");
    let says = || "begins with `//! one sentence`".to_owned();
    if good { Vec::new() } else { vec![source.violation(1, "first_line", says())] }
}

fn file_size(source: &Source) -> Vec<Violation> {
    let lines = source.text.lines().count();
    let says = || format!("{lines} lines, at most {FILE_LINES_MAX}: split it by topic");
    if lines <= FILE_LINES_MAX { Vec::new() } else { vec![source.violation(lines, "file", says())] }
}

/// A literal may overhang: what it says cannot be broken without changing it.
fn width(source: &Source) -> Vec<Violation> {
    let mut wrong = Vec::new();
    for (at, (line, code)) in source.text.lines().zip(source.code.lines()).enumerate() {
        let columns = line.chars().count();
        let comment = line.trim_start().starts_with("//");
        let overhang = code.chars().nth(COLUMNS_MAX - 1).is_some_and(|c| c == ' ') && !comment;
        if columns > COLUMNS_MAX && !overhang {
            let says = format!("{columns} columns, at most {COLUMNS_MAX}");
            wrong.push(source.violation(at + 1, "width", says));
        }
    }
    wrong
}

fn fn_size(source: &Source) -> Vec<Violation> {
    let mut wrong = Vec::new();
    for (at, _) in source.code.match_indices("fn ") {
        if source.code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let Some(length) = body_end(&source.code[at..]) else { continue };
        let lines = source.code[at..at + length].lines().count();
        if lines > FN_LINES_MAX {
            let name: String =
                source.code[at + 3..].chars().take_while(|c| !"(<".contains(*c)).collect();
            let says = format!("fn {name} has {lines} lines, at most {FN_LINES_MAX}");
            wrong.push(source.violation(line_of(&source.code, at), "fn", says));
        }
    }
    wrong
}

/// Where the body of the function that begins here ends; `None` for a function without one.
fn body_end(code: &str) -> Option<usize> {
    let (mut round, mut curly) = (0, 0);
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' if curly == 0 => round += 1,
            ')' | ']' if curly == 0 => round -= 1,
            ';' if curly == 0 && round == 0 => return None,
            '{' if round == 0 => curly += 1,
            '}' if round == 0 => {
                curly -= 1;
                if curly == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

fn file_name(source: &Source) -> Vec<Violation> {
    let mut parts = source.path.trim_end_matches(".rs").split('/');
    let empty = parts.find(|part| EMPTY_NAMES.contains(part));
    let says = |name| format!("`{name}` says nothing about what is inside");
    empty.map(|name| source.violation(1, "name", says(name))).into_iter().collect()
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// The text with comments and the inside of literals replaced by blanks, newlines kept.
fn blank(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after_word = out.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let taken = match c {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => block_comment(rest),
            '"' => quoted(rest),
            'r' | 'b' | 'c' if !after_word => raw(rest).unwrap_or(0),
            '\'' => character(rest).unwrap_or(0),
            _ => 0,
        };
        if taken == 0 {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        } else {
            out.extend(rest[..taken].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = &rest[taken..];
        }
    }
    out
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let here = &text.as_bytes()[at..];
        match () {
            () if here.starts_with(b"/*") => (depth, at) = (depth + 1, at + 2),
            () if here.starts_with(b"*/") => (depth, at) = (depth - 1, at + 2),
            () => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

fn quoted(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// `r"…"`, `r#"…"#`, `br"…"`, `b"…"`, `c"…"`; `None` when this is a plain word.
fn raw(text: &str) -> Option<usize> {
    let marks = text.trim_start_matches(['b', 'c']);
    let prefix = text.len() - marks.len();
    let Some(hashes) = marks.strip_prefix('r') else {
        return marks.starts_with('"').then(|| prefix + quoted(marks));
    };
    let open = hashes.trim_start_matches('#');
    let count = hashes.len() - open.len();
    let inside = open.strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(count));
    let before = text.len() - inside.len();
    Some(inside.find(&close).map_or(text.len(), |at| before + at + close.len()))
}

/// A character literal; `None` for a lifetime.
fn character(text: &str) -> Option<usize> {
    let inside = &text[1..];
    if inside.starts_with('\\') {
        return inside[2..].find('\'').map(|at| at + 4);
    }
    let c = inside.chars().next()?;
    inside[c.len_utf8()..].starts_with('\'').then(|| c.len_utf8() + 2)
}

/// Every Rust file below these folders of the repository.
fn tree(folders: &[&str]) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut open: Vec<PathBuf> = folders.iter().map(|folder| root.join(folder)).collect();
    let mut sources = Vec::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("a folder of the repository");
            open.extend(entries.map(|entry| entry.expect("an entry").path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source file");
            let below = path.strip_prefix(root).expect("below the root").to_string_lossy();
            sources.push(Source::new(&below.replace('\\', "/"), &text));
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    sources
}

#[test]
fn the_tree_keeps_its_rules() {
    let sources = tree(&["src", "tests", "benches"]);
    assert!(sources.len() > 100, "only {} files were found", sources.len());
    let mut used = [false; ALLOWED.len()];
    let mut wrong: Vec<String> = Vec::new();
    for violation in sources.iter().flat_map(|source| RULES.iter().flat_map(|rule| rule(source))) {
        let excuse = ALLOWED
            .iter()
            .position(|(path, rule, _)| *path == violation.path && *rule == violation.rule);
        match excuse {
            Some(at) => used[at] = true,
            None => wrong.push(format!(
                "{}:{}: {}: {}",
                violation.path, violation.line, violation.rule, violation.says
            )),
        }
    }
    for ((path, rule, _), used) in ALLOWED.iter().zip(used) {
        if !used {
            wrong.push(format!("{path}: nothing there breaks `{rule}` any more: strike it out"));
        }
    }
    assert!(wrong.is_empty(), "\n{}\n{} in all", wrong.join("\n"), wrong.len());
}

/// The rules that this text breaks at this path.
fn broken(path: &str, text: &str) -> Vec<&'static str> {
    let source = Source::new(path, text);
    RULES.iter().flat_map(|rule| rule(&source)).map(|violation| violation.rule).collect()
}

#[test]
fn every_rule_finds_its_bad_sample() {
    let long_fn = format!("//! A.\nfn f() {{\n{}}}\n", "    g();\n".repeat(FN_LINES_MAX));
    let samples: [(&str, &str, &str); 15] = [
        ("layers", "src/provider/x.rs", "//! A.\nuse crate::call::Call;\n"),
        ("layers", "src/turn/x.rs", "//! A.\nuse crate::{time::Time, call::{self, Floor}};\n"),
        ("layers", "src/admission/x.rs", "//! A.\nfn f() { crate::runtime::go() }\n"),
        ("layers", "src/codec/x.rs", "//! A.\nuse super::super::transport::Leg;\n"),
        ("layers", "src/gadget/mod.rs", "//! A.\n"),
        ("purity", "src/call/x.rs", "//! A.\nasync fn f() {}\n"),
        ("purity", "src/sim/x.rs", "//! A.\nuse std::collections::HashMap;\n"),
        ("purity", "src/turn/x.rs", "//! A.\nuse serde_json::Value;\n"),
        ("first_line", "src/turn/x.rs", "use crate::time::Time;\n"),
        ("file", "src/turn/x.rs", &format!("//! A.\n{}", "\n".repeat(FILE_LINES_MAX))),
        ("fn", "src/turn/x.rs", &long_fn),
        ("width", "src/turn/x.rs", &format!("//! {}\n", "a".repeat(COLUMNS_MAX))),
        ("banned", "src/cli/x.rs", "//! A.\nfn f() { todo!() }\n"),
        ("banned", "src/cli/x.rs", "//! A.\n#[allow(dead_code)]\nfn f() {}\n"),
        ("name", "src/turn/utils.rs", "//! A.\n"),
    ];
    for (rule, path, text) in samples {
        assert_eq!(broken(path, text), [rule], "{path}: {text}");
    }
}

#[test]
fn what_only_looks_bad_is_left_alone() {
    let text = r####"//! Says "todo!" and crate::call.
use crate::time::Time;
/* async /* nested */ HashMap */
const A: &str = "crate::runtime \" dbg!(";
const B: &str = r#"async fn "f""#;
const C: (char, u8) = ('"', b'\'');
fn asynchronous<'a>(hash_map: &'a str) -> [u8; 2] { [0; 2] }
"####;
    assert_eq!(broken("src/turn/x.rs", text), [""; 0]);
}
