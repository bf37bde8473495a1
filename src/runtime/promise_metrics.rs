//! What is promised, for a scrape: read from the store, so that it cannot differ from it.

use std::fmt::Write as _;

use super::operated::Seen;
use super::promises::unix_ms;
use super::service::Service;
use crate::store::{HandoffState, State};

/// Writes it behind what the gates say; without a store there is nothing to write.
pub(super) fn write(page: &mut String, service: &Service, seen: Option<&Seen>) {
    let Some(promises) = service.promises() else { return };
    let sealed = u8::from(promises.sealed().is_some());
    gauge(page, "store_sealed", "1 while the store takes no promises.", [("", sealed.into())]);
    if let Some(seen) = seen {
        counted(page, seen);
    }
    let hooks = promises.hook_counts();
    let help = "Changes that whoever wants to know was to be told of.";
    head(page, "webhook_events", "counter", help);
    for (hook, counts) in hooks {
        let counts = [
            ("delivered", counts.delivered),
            ("failed", counts.failed),
            ("dropped", counts.dropped),
        ];
        for (outcome, count) in counts {
            let labels = format!("hook=\"{hook}\",outcome=\"{outcome}\"");
            // Writing to a string does not fail.
            let _ = writeln!(page, "floorkeeper_webhook_events_total{{{labels}}} {count}");
        }
    }
}

fn counted(page: &mut String, seen: &Seen) {
    let callbacks = &seen.callbacks;
    let states: Vec<(String, u64)> = (State::ALL.iter())
        .map(|state| (label("state", state.label()), of(&callbacks.states, state)))
        .collect();
    gauge(page, "callbacks", "Callbacks on record.", states);
    let age_s =
        callbacks.oldest_born_ms.map_or(0, |born_ms| unix_ms().saturating_sub(born_ms) / 1_000);
    let help = "Age of the oldest callback that is still to be done.";
    gauge(page, "callbacks_oldest_age_seconds", help, [("", age_s)]);
    let help = "Rows on record that cannot be read and were set aside.";
    gauge(page, "store_set_aside", help, [("", callbacks.set_aside)]);
    let open: Vec<(String, u64)> = [HandoffState::Offered, HandoffState::Acknowledged]
        .iter()
        .map(|state| (label("state", state.label()), of(&seen.handoffs, state)))
        .collect();
    gauge(page, "handoffs_open", "Callers whom a human was asked to take.", open);
}

fn of<K: Ord>(counts: &std::collections::BTreeMap<K, u64>, key: &K) -> u64 {
    counts.get(key).copied().unwrap_or(0)
}

fn label(name: &str, value: &str) -> String {
    format!("{{{name}=\"{value}\"}}")
}

fn head(page: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(page, "# HELP floorkeeper_{name} {help}\n# TYPE floorkeeper_{name} {kind}");
}

fn gauge<L: AsRef<str>>(
    page: &mut String,
    name: &str,
    help: &str,
    lines: impl IntoIterator<Item = (L, u64)>,
) {
    head(page, name, "gauge", help);
    for (labels, value) in lines {
        let _ = writeln!(page, "floorkeeper_{name}{} {value}", labels.as_ref());
    }
}
