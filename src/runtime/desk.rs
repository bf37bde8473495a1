//! Who takes callers without a hand at the operator page: somebody at a telephone, to whom the
//! caller's own is sent (REFER), or whom we ring and join with the caller. They acknowledge and end
//! the handoff as a person does at the page.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::bridge::Bridge;
use super::promises::Promises;
use crate::id::HandoffId;
use crate::store::{HandoffState, Refused};
use crate::transport::{Transfer, Transferred};

/// Somebody who can be asked to take one caller.
pub struct Desk {
    /// How they and the caller come together.
    pub(super) way: Way,
    /// Their address.
    pub target: String,
    /// How long they may take to say that they take the caller.
    pub within: Duration,
}

/// How somebody at a telephone and a caller come together.
pub(super) enum Way {
    /// The caller is sent there.
    Refer(Box<dyn Transfer>),
    /// They are rung.
    Bridge(Box<Bridge>),
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk").field("target", &self.target).finish_non_exhaustive()
    }
}

impl Desk {
    /// We ring them, which counts.
    pub(super) fn is_rung(&self) -> bool {
        matches!(self.way, Way::Bridge(_))
    }

    /// Tries to have this caller taken; what comes of it is on record. `over`: nobody waits for
    /// that any more.
    pub(super) async fn work(
        self,
        promises: Arc<Promises>,
        id: HandoffId,
        over: oneshot::Receiver<()>,
    ) {
        let worked = match self.way {
            Way::Refer(transfer) => tokio::select! {
                worked = refer(transfer, self.target, &promises, id) => worked,
                _ = over => return,
            },
            Way::Bridge(bridge) => bridge.work(self.target, &promises, id, over).await,
        };
        if let Err(refused) = worked {
            // The caller has left meanwhile, or its time was over.
            tracing::debug!("a handoff by telephone came too late: {refused}");
        }
    }
}

async fn refer(
    transfer: Box<dyn Transfer>,
    target: String,
    promises: &Promises,
    id: HandoffId,
) -> Result<(), Refused> {
    let end = match transfer.to(target.clone()).await {
        Transferred::Connected => {
            // Only now does anybody know that somebody takes the caller.
            promises.acknowledge(id, target).await?;
            HandoffState::Connected
        }
        Transferred::Busy => HandoffState::Busy,
        Transferred::NoAnswer => HandoffState::NoAnswer,
        Transferred::Declined => HandoffState::Declined,
        // Whoever waits for it says why.
        Transferred::Lost => return Ok(()),
    };
    promises.end_handoff(id, end).await.map(drop)
}
