//! Limits changed at run time: what is right takes effect at once, what is wrong changes nothing.

use floorkeeper::id::Stage;
use serde_json::json;

use crate::rig::Rig;

/// B-027, B-031, X-09: each wrong change names its key and what would be right, and leaves all as
/// it was.
#[tokio::test]
async fn a_wrong_change_changes_nothing() {
    let settings = ["limits.model.slots=3", "limits.model.queue=2", "limits.model.max_wait_ms=900"];
    let rig = Rig::start(&settings).await;
    let before = rig.get("/v1/admission").await.json();
    let wrong = [
        ("{\"slots\": null}", "slots", "inherit"),
        ("{\"slotz\": 3}", "slotz", "slots"),
        ("{\"queue_byte\": 3}", "queue_byte", "queue_bytes"),
        ("{\"slots\": 99999999999999999999}", "slots", "whole number"),
        ("{\"slots\": 4294967296}", "slots", "whole number"),
        ("{\"slots\": 4294967295}", "slots", "must be"),
        ("{\"slots\": -1}", "slots", "whole number"),
        ("{\"slots\": 1.5}", "slots", "whole number"),
        ("{\"slots\": \"many\"}", "slots", "unlimited"),
        ("{\"max_wait_ms\": 0}", "max_wait_ms", "wait above 0"),
        ("{\"slots\": 5, \"max_wait_ms\": 0}", "max_wait_ms", "wait above 0"),
        ("{\"slots\": 5, \"mode\": \"maybe\"}", "mode", "enforce"),
        ("{\"overflow\": \"explode\"}", "overflow", "reject"),
        ("{\"fairness\": 7}", "fairness", "fifo"),
        ("{\"tenant_share_pct\": 0}", "tenant_share_pct", "1"),
        ("{\"tenant_share_pct\": 101}", "tenant_share_pct", "100"),
        ("{\"adaptive\": \"yes\"}", "adaptive", "true or false"),
        ("[1]", "body", "slots"),
        ("17", "body", "slots"),
    ];
    for (body, key, right) in wrong {
        let answer = rig.patch("model", body).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_limit"), "{body}");
        let error = answer.json()["error"].clone();
        assert_eq!(error["param"], key, "{body}: {error:#}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(right), "{body}: {message}");
    }
    let broken = rig.patch("model", "{\"slots\": ").await;
    assert_eq!((broken.status, broken.code().as_str()), (400, "invalid_json"));
    let nowhere = rig.patch("modell", "{\"slots\": 1}").await;
    assert_eq!((nowhere.status, nowhere.code().as_str()), (404, "unknown_gate"));
    let mut after = rig.get("/v1/admission").await.json();
    assert_eq!(after["gates"].take(), before["gates"], "a refused change has changed something");
}

/// B-022, B-026, B-027: declared, effective and source are read back; what inherits declares
/// nothing, whatever the file says.
#[tokio::test]
async fn a_right_change_is_read_back_with_its_source() {
    let rig = Rig::start(&["limits.model.slots=3"]).await;
    let shown = rig.patch("model", "{\"slots\": 7, \"queue\": 2}").await.json();
    assert_eq!(shown["effective"]["slots"], 7);
    assert_eq!(shown["declared"], json!({"slots": 7, "queue": 2}));
    assert_eq!(
        (&shown["source"]["slots"], &shown["source"]["mode"]),
        (&json!("runtime"), &json!("default"))
    );
    assert_eq!(rig.counts(Stage::Model).in_force, Some(7));
    let shown = rig.patch("model", "{\"slots\": \"inherit\"}").await.json();
    assert_eq!(
        (&shown["effective"]["slots"], &shown["source"]["slots"]),
        (&json!(64), &json!("default"))
    );
    assert_eq!(shown["declared"], json!({"queue": 2}), "an omitted key keeps its value");
    let shown = rig.patch("model", "{\"slots\": \"unlimited\"}").await.json();
    assert_eq!(shown["effective"]["slots"], "unlimited");
    assert_eq!(rig.counts(Stage::Model).in_force, None);
}
