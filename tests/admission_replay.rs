//! Operation traces against the gate: the reference's own, broken ones, and ones that are no
//! traces.

use std::path::Path;

use floorkeeper::cli::replay::{Report, Unreadable, replay};

const HEAD: &str = r#"{"trace":0,"limits":{"slots":1,"waiting":2,"max_age_ms":2000}}"#;

fn run(lines: &[&str]) -> Result<Report, Unreadable> {
    replay(lines.join("\n").as_bytes())
}

/// A-060…A-088, X-04, X-14.
#[test]
fn the_reference_trace_has_no_mismatch() {
    let path = Path::new("fixtures/admission/admission.jsonl");
    let report = replay(std::io::BufReader::new(std::fs::File::open(path).unwrap())).unwrap();
    assert_eq!(report.to_string(), "3616 operations, 0 mismatches");
}

/// Written by a second implementation of the reference: odd arguments, fractions, time that goes
/// back.
#[test]
fn the_trace_of_edges_has_no_mismatch() {
    let path = Path::new("fixtures/admission/edges.jsonl");
    let report = replay(std::io::BufReader::new(std::fs::File::open(path).unwrap())).unwrap();
    assert!(report.operations > 1_000 && report.mismatches.is_empty(), "{report}");
}

#[test]
fn a_wrong_answer_is_shown_with_its_line() {
    let take = r#"{"op":"take","args":{"now_ms":1},"want":["busy",null]}"#;
    let report = run(&[HEAD, "", take]).unwrap();
    let text = r#"line 3: take {"now_ms":1}: want ["busy",null], got ["empty",null]"#;
    assert_eq!(report.to_string(), format!("{text}\n1 operations, 1 mismatches"));
}

/// X-15.
#[test]
fn every_argument_error_is_the_error_of_the_reference() {
    let bad = [
        r#""id":"","owner":"a","generation":1,"born_ms":0,"now_ms":0"#,
        r#""id":"x","owner":"","generation":1,"born_ms":0,"now_ms":0"#,
        r#""id":7,"owner":"a","generation":1,"born_ms":0,"now_ms":0"#,
        r#""id":"x","owner":"a","generation":-1,"born_ms":0,"now_ms":0"#,
        r#""id":"x","owner":"a","generation":true,"born_ms":0,"now_ms":0"#,
        r#""id":"x","owner":"a","generation":1.0,"born_ms":0,"now_ms":0"#,
        r#""id":"x","owner":"a","generation":1,"born_ms":1,"now_ms":0"#,
        r#""id":"x","owner":"a","generation":1,"born_ms":NaN,"now_ms":0"#,
        r#""id":"x","owner":"a","generation":1,"born_ms":0,"now_ms":Infinity"#,
        r#""id":"x","owner":"a","generation":1,"born_ms":null,"now_ms":0"#,
        r#""id":"x","owner":"a","generation":1,"now_ms":0"#,
    ];
    let rotate = r#"{"op":"rotate","args":{"owner":"a","generation":1},"want":"ok"}"#;
    for args in bad {
        let offer = format!(r#"{{"op":"offer","args":{{{args}}},"want":{{"error":true}}}}"#);
        let snapshot =
            r#"{"op":"snapshot","args":{},"want":{"queued":[],"leases":[],"states":{}}}"#;
        let report = run(&[HEAD, rotate, &offer, snapshot]).unwrap();
        assert_eq!(report.to_string(), "3 operations, 0 mismatches", "{args}");
    }
}

#[test]
fn times_may_be_fractions_and_lie_before_zero() {
    let report = run(&[
        r#"{"trace":0,"limits":{"slots":1,"waiting":2,"max_age_ms":0.5}}"#,
        r#"{"op":"rotate","args":{"owner":"a","generation":0},"want":"ok"}"#,
        r#"{"op":"offer","args":{"id":"NaN","owner":"a","generation":0,"born_ms":-1.25,"now_ms":-1},"want":"queued"}"#,
        r#"{"op":"offer","args":{"id":"y","owner":"a","generation":0,"born_ms":-1.25,"now_ms":-1},"want":"queued"}"#,
        r#"{"op":"take","args":{"now_ms":-0.75},"want":["admitted","NaN"]}"#,
        r#"{"op":"take","args":{"now_ms":-0.749999},"want":["expired","y"]}"#,
        r#"{"op":"take","args":{"now_ms":-0.75},"want":["empty",null]}"#,
    ]);
    assert_eq!(report.unwrap().to_string(), "6 operations, 0 mismatches");
}

#[test]
fn a_take_before_the_heads_birth_is_an_error() {
    let report = run(&[
        HEAD,
        r#"{"op":"rotate","args":{"owner":"a","generation":0},"want":"ok"}"#,
        r#"{"op":"offer","args":{"id":"x","owner":"a","generation":0,"born_ms":5,"now_ms":6},"want":"queued"}"#,
        r#"{"op":"take","args":{"now_ms":4},"want":{"error":true}}"#,
        r#"{"op":"take","args":{"now_ms":5},"want":["admitted","x"]}"#,
    ]);
    assert_eq!(report.unwrap().to_string(), "4 operations, 0 mismatches");
}

#[test]
fn what_is_no_trace_is_told_with_its_line_and_what_would_be_right() {
    let take = r#"{"op":"take","args":{"now_ms":1},"want":["empty",null]}"#;
    let cases: [(&[&str], &str); 9] = [
        (&[""], "1: no line opens a trace"),
        (&[take], "1: `take` before any trace"),
        (&[HEAD, "{"], "2: not JSON"),
        (&[HEAD, "[]"], "2: neither `trace` nor `op`"),
        (&[HEAD, r#"{"op":"grab","args":{},"want":"ok"}"#], "2: unknown op `grab`"),
        (&[HEAD, r#"{"op":"open","args":{}}"#], "2: `want` is missing"),
        (&[HEAD, r#"{"op":"open","args":3,"want":"ok"}"#], "2: `args` is 3"),
        (
            &[r#"{"trace":0,"limits":{"slots":true,"waiting":1,"max_age_ms":1}}"#],
            "1: limits.slots is true; it must be a whole number from 1",
        ),
        (
            &[r#"{"trace":0,"limits":{"slots":1,"waiting":1,"max_age_ms":-1}}"#],
            "1: limits.max_age_ms is -1; it must be a number of milliseconds",
        ),
    ];
    for (lines, sentence) in cases {
        let error = run(lines).unwrap_err().to_string();
        assert!(error.starts_with(sentence), "{error}");
    }
}

#[test]
fn impossible_limits_are_an_answer_where_that_is_wanted() {
    for limits in [
        r#"{"slots":true,"waiting":1,"max_age_ms":1}"#,
        r#"{"slots":1,"waiting":0,"max_age_ms":1}"#,
        r#"{"slots":1,"waiting":1,"max_age_ms":-1}"#,
    ] {
        let line = format!(r#"{{"trace":0,"limits":{limits},"want":{{"error":true}}}}"#);
        assert_eq!(run(&[&line]).unwrap().to_string(), "0 operations, 0 mismatches");
    }
}
