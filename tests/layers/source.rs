//! A source file as the rules see it: its text, its code without comments and literals, its place.

use std::fs;
use std::path::{Path, PathBuf};

/// One source file.
pub struct Source {
    /// Below the repository, with `/`.
    pub path: String,
    pub text: String,
    /// The text with comments and the inside of literals blanked; same lines, same columns.
    pub code: String,
}

/// One broken rule.
#[derive(Debug)]
pub struct Violation {
    pub path: String,
    pub line: usize,
    pub rule: &'static str,
    pub says: String,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Source {
        Source { path: path.to_owned(), text: text.to_owned(), code: blank(text) }
    }

    pub fn violation(&self, line: usize, rule: &'static str, says: String) -> Violation {
        Violation { path: self.path.clone(), line, rule, says }
    }

    /// `src/turn/speech.rs` is `[turn, speech]`; empty outside `src/` and at its top.
    pub fn module(&self) -> Vec<&str> {
        let Some(inner) = self.path.strip_prefix("src/") else { return Vec::new() };
        let inner = inner.trim_end_matches(".rs");
        inner.split('/').filter(|part| !["mod", "lib", "main"].contains(part)).collect()
    }
}

pub fn line_of(text: &str, at: usize) -> usize {
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
pub fn tree(folders: &[&str]) -> Vec<Source> {
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
