//! Units held by hand, for a bounded time: so that a visitor can hear a truthful refusal.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::admission::GatePath;
use super::{Site, answer};
use crate::admission::{Admit, Answer, Cancelled, Lease, Offer, OwnerId, Release};
use crate::evidence::Evidence;
use crate::id::{Generation, Stage};

/// Owners of units that are held by hand.
const HOLD_OWNERS: u64 = 1 << 61;
/// The longest a unit may be held by hand.
const HOLD_MAX: Duration = Duration::from_secs(600);

/// Units held by hand, by gate.
#[derive(Default)]
pub struct Holds {
    held: Mutex<BTreeMap<Stage, Hold>>,
}

struct Hold {
    leases: Vec<Lease>,
    owner: OwnerId,
    number: u64,
    /// Gives it back when its time is over.
    timer: AbortHandle,
}

/// Takes every free unit of a gate, for a bounded time: so that a visitor can hear a truthful
/// refusal.
pub async fn hold(State(site): State<Site>, gate: GatePath, body: Bytes) -> Response {
    let (most, max_s) = match wanted_hold(&body) {
        Ok(wanted) => wanted,
        Err((code, message, param)) => {
            return answer::error(StatusCode::BAD_REQUEST, code, message, param);
        }
    };
    let until = Duration::from_secs(max_s).min(HOLD_MAX);
    let units = take_units(&site, gate.stage, most, until);
    Json(json!({"gate": gate.name, "held": units, "max_s": until.as_secs()})).into_response()
}

/// How many units for how many seconds; an empty body is all of them for two minutes.
fn wanted_hold(
    body: &[u8],
) -> Result<(u64, u64), (&'static str, &'static str, Option<&'static str>)> {
    let wanted: Value = match body {
        [] => json!({}),
        body => serde_json::from_slice(body).unwrap_or_default(),
    };
    if !wanted.is_object() {
        let message =
            "The body must be a JSON object, for example {\"units\": \"all\", \"max_s\": 60}.";
        return Err(("invalid_body", message, None));
    }
    let above_0 = |value: &Value| value.as_u64().filter(|number| *number > 0);
    let most = match wanted.get("units") {
        None => u64::MAX,
        Some(all) if all == "all" => u64::MAX,
        Some(units) => {
            let message = "units must be \"all\" or a whole number above 0.";
            above_0(units).ok_or(("invalid_units", message, Some("units")))?
        }
    };
    let max_s = match wanted.get("max_s") {
        None => 120,
        Some(max_s) => {
            let message = "max_s must be a whole number of seconds above 0.";
            above_0(max_s).ok_or(("invalid_max_s", message, Some("max_s")))?
        }
    };
    Ok((most, max_s))
}

async fn end_hold_later(site: Site, stage: Stage, number: u64, until: Duration) {
    tokio::time::sleep(until).await;
    let mut held = lock(&site.holds);
    if held.get(&stage).is_some_and(|hold| hold.number == number)
        && let Some(hold) = held.remove(&stage)
    {
        give_back(&site, hold);
    }
}

fn take_units(site: &Site, stage: Stage, most: u64, until: Duration) -> usize {
    let service = &site.service;
    let (control, _wakes) = mpsc::channel(1);
    let mut gates = service.gates.for_owner(control);
    let now = service.clock.now();
    // One hold at a time: two at once would each think that the other's units were its own to
    // replace.
    let mut held = lock(&site.holds);
    if let Some(earlier) = held.remove(&stage) {
        give_back(site, earlier);
    }
    let number = service.next_call().0;
    let owner = OwnerId(HOLD_OWNERS | number);
    gates.rotate(now, owner, Generation(0), Cancelled::Client);
    let free = service.gates.look(stage, |gate| {
        let counts = gate.counts(now);
        counts.in_force.map(|ceiling| ceiling.saturating_sub(counts.active_units))
    });
    let free = free.flatten().map_or(0, u64::from).min(most);
    let mut leases = Vec::new();
    for _ in 0..free {
        let offer = Offer::plain(gates.name_offer(), owner, now, now + Duration::from_secs(1));
        match gates.ask(now, stage, offer) {
            Answer::Admitted(lease) => leases.push(lease),
            Answer::Queued(ticket) => {
                gates.withdraw(now, ticket, Cancelled::Client);
                break;
            }
            Answer::Refused(_) => break,
        }
    }
    let units = leases.len();
    let timer = tokio::spawn(end_hold_later(site.clone(), stage, number, until)).abort_handle();
    held.insert(stage, Hold { leases, owner, number, timer });
    units
}

/// Gives held units back.
pub async fn let_go(State(site): State<Site>, gate: GatePath) -> Response {
    let released = release_hold(&site, gate.stage);
    Json(json!({"gate": gate.name, "released": released})).into_response()
}

fn release_hold(site: &Site, stage: Stage) -> usize {
    let hold = lock(&site.holds).remove(&stage);
    hold.map_or(0, |hold| give_back(site, hold))
}

fn give_back(site: &Site, hold: Hold) -> usize {
    hold.timer.abort();
    let released = hold.leases.len();
    for lease in hold.leases {
        // Whoever held them by hand says that they are free: nothing ran on them.
        let _ = site.service.gates.settle(lease, Release::Completed(Evidence::Operator));
    }
    site.service.gates.forget(hold.owner);
    released
}

fn lock(holds: &Holds) -> std::sync::MutexGuard<'_, BTreeMap<Stage, Hold>> {
    holds.held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many units of a gate are held by hand.
pub(super) fn held(site: &Site, stage: Stage) -> usize {
    lock(&site.holds).get(&stage).map_or(0, |hold| hold.leases.len())
}
