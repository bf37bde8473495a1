//! Handoffs over HTTP: who waits for a human, who takes them, what came of it (DESIGN section 5).

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::desk::{Answered, Asked, Desk, Named, Wrong, bad, body, fresh, give, no, told, whole};
use crate::id::HandoffId;
use crate::runtime::promise_json as shown;
use crate::store::{Handoff, HandoffState};

/// What a human's end of a handoff can be.
const ENDS: [HandoffState; 4] =
    [HandoffState::Busy, HandoffState::NoAnswer, HandoffState::Declined, HandoffState::Voicemail];

/// What there is, the newest first.
pub(super) async fn list(desk: Desk, asked: Asked) -> Response {
    let listed = async {
        asked.only(&["open", "since", "wait_ms"])?;
        let open = match asked.text("open") {
            None | Some("false") => false,
            Some("true") => true,
            Some(_) => {
                let message = "open must be true or false.";
                return Err(bad("invalid_parameter", message, Some("open")));
            }
        };
        desk.wait(&asked).await?;
        let version = desk.promises.version();
        let own = desk.promises.handoffs(open, desk.tenant.clone()).await.map_err(no)?;
        let list = desk.list("handoffs", version, own.iter().map(shown::handoff).collect());
        Ok(fresh(StatusCode::OK, Value::Object(list)))
    };
    give(listed.await)
}

/// One of them.
pub(super) async fn show(desk: Desk, Named(id): Named<HandoffId>) -> Response {
    give(own(&desk, id).await.map(|handoff| fresh(StatusCode::OK, shown::handoff(&handoff))))
}

async fn own(desk: &Desk, id: HandoffId) -> Result<Handoff, Wrong> {
    desk.own(desk.promises.handoff(id).await, |handoff| &handoff.offer.tenant)
}

/// The one that is to be changed: only the server that has the call can tell it.
async fn ours(desk: &Desk, id: HandoffId) -> Result<(), Wrong> {
    let handoff = own(desk, id).await?;
    let incarnation = &handoff.offer.incarnation;
    if incarnation == desk.promises.incarnation() || !handoff.state.is_open() {
        return Ok(());
    }
    let message = "Another server has this call; ask that one.";
    let more = json!({"incarnation": incarnation});
    Err(Box::new(told(StatusCode::CONFLICT, "elsewhere", message, None, more, None)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Acknowledge {
    by: String,
}

/// Somebody takes the caller: the first who says so, while there is time.
pub(super) async fn acknowledge(desk: Desk, Named(id): Named<HandoffId>, bytes: Bytes) -> Response {
    let acknowledged = async {
        let Acknowledge { by } = body(&bytes)?;
        ours(&desk, id).await?;
        let promises = desk.promises.clone();
        let handoff = whole(async move { promises.acknowledge(id, by).await }).await.map_err(no)?;
        Ok(fresh(StatusCode::OK, shown::handoff(&handoff)))
    };
    give(acknowledged.await)
}

/// They speak with each other.
pub(super) async fn connected(desk: Desk, Named(id): Named<HandoffId>) -> Response {
    give(ended(&desk, id, HandoffState::Connected).await)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    outcome: String,
}

/// It has come to nothing.
pub(super) async fn end(desk: Desk, Named(id): Named<HandoffId>, bytes: Bytes) -> Response {
    let over = async {
        let End { outcome } = body(&bytes)?;
        let found = HandoffState::named(&outcome).filter(|state| ENDS.contains(state));
        let all: Vec<&str> = ENDS.iter().map(|end| end.label()).collect();
        let message = format!("outcome must be one of {}.", all.join(", "));
        let state = found.ok_or_else(|| bad("bad_request", &message, Some("outcome")))?;
        ended(&desk, id, state).await
    };
    give(over.await)
}

async fn ended(desk: &Desk, id: HandoffId, state: HandoffState) -> Answered {
    ours(desk, id).await?;
    let promises = desk.promises.clone();
    let handoff = whole(async move { promises.end_handoff(id, state).await }).await.map_err(no)?;
    Ok(fresh(StatusCode::OK, shown::handoff(&handoff)))
}
