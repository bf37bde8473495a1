//! The rules of the source tree (DESIGN 2), read from the source: layers, purity, sizes, words.
//!
//! A rule is a function from one file to its violations. Every rule has a bad sample below that it
//! must find, so that a rule which no longer sees anything fails as well.

mod source;

use source::{Source, Violation, line_of, tree};

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
    (
        "config",
        &["admission", "turn", "fallback", "call", "provider", "transport", "codec", "store"],
    ),
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
const ALLOWED: [(&str, &str, &str); 2] = [
    ("src/admission/mutant.rs", "purity", "chosen from outside, in builds with `mutants` only"),
    ("src/admission/records.rs", "purity", "looked up by key, never walked; its hash has no seed"),
];

/// What makes a proof that a promise may be spoken, and who may: a lie does not compile elsewhere.
const PROOFS: [(&str, &[&str]); 2] = [
    ("CallbackReceipt::committed", &["store", "sim"]),
    ("HandoffAck::received", &["store", "sim"]),
];

type Rule = fn(&Source) -> Vec<Violation>;
const RULES: [Rule; 9] =
    [imports, purity, first_line, file_size, fn_size, width, banned_words, file_name, proofs];

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
    let module = source.module();
    if !module.first().is_some_and(|top| PURE.contains(top) || WORDS.contains(top)) {
        return Vec::new();
    }
    let serde_json = ("serde_json", "what is decided needs no JSON");
    let layer_1 = ["admission", "turn", "fallback"].contains(&module[0]);
    let words = IMPURE.iter().copied().chain(layer_1.then_some(serde_json));
    named(source, "purity", words)
}

/// A-124, A-128: only who has seen the commit or the acknowledgement says that there was one.
fn proofs(source: &Source) -> Vec<Violation> {
    let module = source.module();
    let elsewhere =
        PROOFS.iter().filter(|(_, makers)| !makers.iter().any(|m| module.first() == Some(m)));
    named(source, "proof", elsewhere.map(|(word, _)| (*word, "made in store/ and sim/ only")))
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

/// A literal may overhang, as what it says cannot be broken without changing it, and so may a row
/// of a table in a comment.
fn width(source: &Source) -> Vec<Violation> {
    let mut wrong = Vec::new();
    for (at, (line, code)) in source.text.lines().zip(source.code.lines()).enumerate() {
        let columns = line.chars().count();
        let overhangs = match line.trim_start().strip_prefix("//") {
            Some(comment) => comment.trim_start_matches(['/', '!', ' ']).starts_with('|'),
            None => code.chars().nth(COLUMNS_MAX - 1).is_some_and(|c| c == ' '),
        };
        if columns > COLUMNS_MAX && !overhangs {
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
    let samples: [(&str, &str, &str); 16] = [
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
        ("proof", "src/runtime/x.rs", "//! A.\nfn f() { CallbackReceipt::committed(id) }\n"),
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
