//! What the documents tell an operator to look at is there on a server that runs.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::rig::Rig;

const DOCUMENTS: [&str; 4] =
    ["README.md", "docs/guide.md", "docs/questions.md", "docs/reference/waiting.md"];
const PREFIX: &str = "floorkeeper_";

fn told() -> String {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    DOCUMENTS.map(|name| std::fs::read_to_string(root.join(name)).expect("a document")).concat()
}

/// The names of metrics that are spelled out; `floorkeeper_admission_…` stands for several.
fn metrics_told(text: &str) -> BTreeSet<String> {
    let behind = text.split(PREFIX).skip(1);
    let name =
        |rest: &str| rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
    let names = behind.map(name).filter(|name: &String| !name.is_empty() && !name.ends_with('_'));
    names.map(|name| format!("{PREFIX}{name}")).collect()
}

fn served(page: &str, metric: &str) -> bool {
    let ends =
        |line: &str| line.strip_prefix(metric).is_some_and(|rest| rest.starts_with(['{', ' ']));
    page.lines().any(ends)
}

/// B-090, B-092: every metric that is named, short or long, is on the page.
#[tokio::test]
async fn every_metric_that_is_named_exists() {
    let audiosocket = "asterisk.audiosocket_listen=\"127.0.0.1:0\"";
    let rig = Rig::start(&["sip.listen=\"127.0.0.1:0\"", audiosocket]).await;
    let page = rig.get("/metrics").await.text();
    let mut named = metrics_told(&told());
    assert!(named.len() >= 8, "{named:?}");
    let short = [
        "inflight",
        "queued",
        "limit",
        "effective_limit",
        "queue_age_seconds",
        "held_back",
        "adapt_state",
        "warming_endpoints",
    ];
    named.extend(short.map(|name| format!("{PREFIX}admission_{name}")));
    named.extend(["cleanup_pending", "quarantined"].map(|name| format!("{PREFIX}lease_{name}")));
    let missing: Vec<_> = named.iter().filter(|name| !served(&page, name)).collect();
    assert!(missing.is_empty(), "not on the page: {missing:?}");
    for reason in ["no_queue", "queue_full", "tenant_share", "upstream_pressure", "ended_expired"] {
        let series = format!("decisions_total{{gate=\"call\",reason=\"{reason}\"}} 0");
        assert!(page.contains(&series), "{reason}");
    }
}

/// The keys of `GET /v1/admission` and `/v1/ledger` that the tables lead to.
#[tokio::test]
async fn every_key_that_is_named_exists() {
    let rig = Rig::start(&[]).await;
    let shown = rig.get("/v1/admission/model").await.json();
    let keys = [
        "/declared",
        "/effective",
        "/source",
        "/live/ceiling",
        "/live/held_back",
        "/live/oldest_age_ms",
        "/waiting/tenants",
        "/waiting/classes",
        "/queue_memory_bound_mib",
        "/warming_endpoints",
        "/trial",
        "/shadows",
        "/inventory/shown",
    ];
    let absent: Vec<_> = keys.iter().filter(|key| shown.pointer(key).is_none()).collect();
    assert!(absent.is_empty(), "{absent:?} of {shown:#}");
    let ledger = rig.ledger("model").await;
    assert_eq!(ledger["anomalies"]["tenant_table_full"], Value::from(0));
}
