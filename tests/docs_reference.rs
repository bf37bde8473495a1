//! The reference pages that are made from the code: they are what the code says, or this fails.
//!
//! `FLOORKEEPER_BLESS=1 cargo test --test docs_reference` writes them anew.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use floorkeeper::admission::disposition::{
    ADMITTED, Disposition, QUEUED, REASONS, RetryAfter, TERMINALS,
};
use serde_json::Value;

/// Holds a page against what it should be.
fn page(name: &str, wanted: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/reference").join(name);
    if std::env::var_os("FLOORKEEPER_BLESS").is_some() {
        fs::write(&path, wanted).expect("the page can be written");
        return;
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    let at = found.lines().zip(wanted.lines()).position(|(found, wanted)| found != wanted);
    let hint = "FLOORKEEPER_BLESS=1 cargo test --test docs_reference writes it anew";
    if let Some(at) = at {
        let line = |text: &str| text.lines().nth(at).unwrap_or_default().to_owned();
        panic!(
            "docs/reference/{name}:{}:\n  is   {}\n  want {}\n{hint}",
            at + 1,
            line(&found),
            line(wanted)
        );
    }
    assert_eq!(found.len(), wanted.len(), "docs/reference/{name} is too short or too long; {hint}");
}

fn code(word: &str) -> String {
    if word.is_empty() { "—".to_owned() } else { format!("`{word}`") }
}

fn row(disposition: &Disposition) -> String {
    let retry = match disposition.retry {
        RetryAfter::Never => "—",
        RetryAfter::OneSecond => "1 s",
        RetryAfter::MeanWait => "mean wait, 1 to 30 s",
        RetryAfter::Drain => "5 s",
    };
    format!(
        "| `{disposition}` | {} | {} | {} | {} | {retry} | {} |",
        disposition.http_status,
        code(disposition.http_code),
        disposition.ws_close,
        disposition.sip_status,
        code(disposition.prompt),
    )
}

const DISPOSITIONS: &str = "# Dispositions

<!-- Made by tests/docs_reference.rs from src/admission/disposition.rs. -->

What can become of an offer to a gate, and what each outcome is on every wire. The HTTP status holds
before a WebSocket upgrade, the close code after it; the code stands in the JSON body (`error.code`)
and in `response.done` (`status_details.error.code`). A refusal consumes nothing. The prompt is the
one that the built-in ladder begins with; *docs/guide.md* tells how to write others.
";

const HEAD: &str = "| disposition | HTTP | code | WebSocket | SIP | `Retry-After` | prompt |
|---|---|---|---|---|---|---|
";

#[test]
fn the_dispositions() {
    let mut text = DISPOSITIONS.to_owned();
    let parts: [(&str, Vec<&Disposition>); 3] = [
        ("Not refused", vec![&ADMITTED, &QUEUED]),
        ("Refused", REASONS.iter().map(|reason| reason.disposition()).collect()),
        ("How work that was let in ends", TERMINALS.iter().map(|end| end.disposition()).collect()),
    ];
    for (title, rows) in parts {
        let rows: Vec<String> = rows.into_iter().map(row).collect();
        write!(text, "\n## {title}\n\n{HEAD}{}\n", rows.join("\n")).expect("a string takes all");
    }
    page("dispositions.md", &text);
}

const HTTP: &str = "# HTTP

<!-- Made by tests/docs_reference.rs from src/runtime/http/openapi.json. -->

The server gives the same description to machines at `/openapi.json`. Errors are JSON,
`{\"error\": {\"message\", \"type\", \"param\", \"code\"}}`, with a stable `code`. With `auth.keys_file`
what can answer 401 needs `Authorization: Bearer KEY`; the talk page has a field for it.
";

#[test]
fn the_http_surface() {
    let api: Value = serde_json::from_str(include_str!("../src/runtime/http/openapi.json"))
        .expect("openapi.json is JSON");
    let mut text = HTTP.to_owned();
    text.push_str("\n| request | what | answers |\n|---|---|---|\n");
    let paths = api["paths"].as_object().expect("paths");
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().expect("methods") {
            let answers: Vec<String> = operation["responses"]
                .as_object()
                .expect("responses")
                .iter()
                .map(|(status, answer)| {
                    format!("{status} {}", answer["description"].as_str().unwrap_or_default())
                })
                .collect();
            let what = operation["summary"].as_str().expect("a summary");
            let answers = answers.join("; ");
            let method = method.to_uppercase();
            writeln!(text, "| `{method} {path}` | {what} | {answers} |").expect("a string");
        }
    }
    text.push_str("\n# Shapes\n\nFields marked * are always there; others may be added.\n");
    for (name, schema) in api["components"]["schemas"].as_object().expect("schemas") {
        write!(text, "\n## {name}\n\n{}", fields(schema, "")).expect("a string");
    }
    page("http.md", &text);
}

/// The fields of a schema as a nested list.
fn fields(schema: &Value, indent: &str) -> String {
    let Some(properties) = schema["properties"].as_object() else { return String::new() };
    let required: Vec<&str> = schema["required"]
        .as_array()
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let mut text = String::new();
    for (name, field) in properties {
        let star = if required.contains(&&**name) { "*" } else { "" };
        writeln!(text, "{indent}- `{name}`{star}: {}", kind(field)).expect("a string");
        text.push_str(&fields(field, &format!("{indent}  ")));
        text.push_str(&fields(&field["items"], &format!("{indent}  ")));
        text.push_str(&fields(&field["additionalProperties"], &format!("{indent}  ")));
    }
    text
}

fn kind(field: &Value) -> String {
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if let Some(target) = field["$ref"].as_str() {
        let name = target.rsplit('/').next().unwrap_or(target);
        return format!("[{name}](#{})", name.to_lowercase());
    }
    let list = |key: &str| field[key].as_array();
    let mut said = match (&field["const"], list("enum"), list("oneOf"), &field["type"]) {
        (Value::Null, None, None, Value::Array(types)) => {
            types.iter().map(word).collect::<Vec<_>>().join(" or ")
        }
        (Value::Null, None, None, kind) => word(kind),
        (Value::Null, None, Some(kinds), _) => {
            kinds.iter().map(kind).collect::<Vec<_>>().join(" or ")
        }
        (Value::Null, Some(words), ..) => {
            words.iter().map(|w| format!("`{}`", word(w))).collect::<Vec<_>>().join(", ")
        }
        (fixed, ..) => format!("`{}`", word(fixed)),
    };
    if field["items"].is_object() && field["items"]["properties"].is_null() {
        write!(said, " of {}", kind(&field["items"])).expect("a string");
    }
    if let Some(what) = field["description"].as_str() {
        write!(said, ", {what}").expect("a string");
    }
    said
}
