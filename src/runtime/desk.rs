//! Who takes callers without a hand at the operator page: somebody at a telephone, where the caller
//! is sent (by REFER, or by Twilio). It acknowledges and ends the handoff as a person does there.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::promises::Promises;
use crate::id::HandoffId;
use crate::store::{HandoffState, Refused};
use crate::transport::{Transfer, Transferred};

/// Somebody who can be asked to take one caller.
pub struct Desk {
    /// How the caller is sent there.
    pub transfer: Box<dyn Transfer>,
    /// Their address.
    pub target: String,
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk").field("target", &self.target).finish_non_exhaustive()
    }
}

impl Desk {
    /// Tries to have this caller taken; what comes of it is on record. `over`: nobody waits for
    /// that any more.
    pub(super) async fn work(
        self,
        promises: Arc<Promises>,
        id: HandoffId,
        over: oneshot::Receiver<()>,
    ) {
        let referred = tokio::select! {
            referred = self.refer(&promises, id) => referred,
            _ = over => return,
        };
        if let Err(refused) = referred {
            // The caller has left meanwhile, or its time was over.
            tracing::debug!("a handoff by telephone came too late: {refused}");
        }
    }

    async fn refer(self, promises: &Promises, id: HandoffId) -> Result<(), Refused> {
        let end = match self.transfer.to(self.target.clone()).await {
            Transferred::Connected => {
                // Only now does anybody know that somebody takes the caller.
                promises.acknowledge(id, self.target).await?;
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
}
