//! When a callback is tried again: spaced, spread, out of quiet hours (C-026, C-041, A-134).

use floorkeeper::runtime::promises::unix_ms;
use serde_json::{Value, json};

use crate::callbacks::{Desk, path, wanted};

const MINUTE_MS: u64 = 60_000;
const DAY_MINUTES: u64 = 1_440;

/// Nobody answers; the record as it is then, and the time before.
async fn not_answered(desk: &Desk, more: &[(&str, Value)]) -> (Value, u64) {
    let mut body = wanted("+15555550100");
    for (field, value) in more {
        body[*field] = value.clone();
    }
    let made = desk.ask("POST", "/v1/callbacks", &body).await;
    assert_eq!(made.status, 201, "{made:?}");
    let claimed = desk.claim().await;
    let epoch = &claimed["epoch"];
    let start = path(&claimed["id"], "start_dialling");
    let started = desk.ask("POST", &start, &json!({"epoch": epoch})).await;
    assert_eq!(started.status, 200, "{started:?}");
    let settle = json!({"epoch": epoch, "outcome": "no_answer"});
    let before_ms = unix_ms();
    let settled = desk.ask("POST", &path(&claimed["id"], "settle"), &settle).await;
    assert_eq!(settled.status, 200, "{settled:?}");
    (settled.json(), before_ms)
}

#[tokio::test]
async fn what_failed_together_does_not_come_back_together() {
    let desk = Desk::open(&[]).await;
    let mut waits = std::collections::BTreeSet::new();
    for _ in 0..8 {
        let (waiting, before_ms) = not_answered(&desk, &[("backoff_ms", json!(600_000))]).await;
        assert_eq!(waiting["state"], "accepted", "{waiting:#}");
        let wait_ms = waiting["due_ms"].as_u64().unwrap() - before_ms;
        assert!((600_000..760_000).contains(&wait_ms), "{wait_ms}");
        waits.insert(wait_ms / 600);
        let cancelled = desk.ask("POST", &path(&waiting["id"], "cancel"), &Value::Null).await;
        assert_eq!(cancelled.status, 200, "{cancelled:?}");
    }
    assert!(waits.len() > 1, "all at once: {waits:?}");
}

#[tokio::test]
async fn the_next_attempt_is_not_planned_into_quiet_hours() {
    let desk = Desk::open(&[]).await;
    // From five minutes on, for an hour.
    let minute = unix_ms() / MINUTE_MS;
    let (from, to) = ((minute + 5) % DAY_MINUTES, (minute + 65) % DAY_MINUTES);
    let quiet = json!({"from_minute": from, "to_minute": to, "utc_offset_minutes": 0});
    let more = [("backoff_ms", json!(600_000)), ("quiet", quiet)];
    let (waiting, _) = not_answered(&desk, &more).await;
    assert_eq!((&waiting["state"], &waiting["attempts"]), (&json!("accepted"), &json!(1)));
    assert_eq!(waiting["due_ms"], (minute + 65) * MINUTE_MS, "when the quiet hour is over");
}

#[tokio::test]
async fn what_cannot_be_tried_in_time_has_ended() {
    let desk = Desk::open(&[]).await;
    let more = [("backoff_ms", json!(600_000)), ("expires_ms", json!(unix_ms() + 599_000))];
    let (ended, _) = not_answered(&desk, &more).await;
    assert_eq!((&ended["state"], &ended["shelf"]), (&json!("no_answer"), &json!("dead")));
}
