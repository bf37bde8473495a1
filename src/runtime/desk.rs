//! Who takes callers without a hand at the operator page: somebody at a SIP address, where the
//! caller's own telephone is sent (REFER). It acknowledges and ends the handoff as a person does
//! there.

use std::sync::Arc;

use super::promises::Promises;
use crate::id::HandoffId;
use crate::store::{HandoffState, Refused};
use crate::transport::{Transfer, Transferred};

/// Somebody who can be asked to take one caller.
pub enum Desk {
    /// The caller's telephone rings them.
    Refer {
        /// How it is asked to.
        transfer: Box<dyn Transfer>,
        /// Their address.
        target: String,
    },
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Desk::Refer { target, .. } => f.debug_tuple("Refer").field(target).finish(),
        }
    }
}

impl Desk {
    /// Who is asked.
    pub fn target(&self) -> &str {
        match self {
            Desk::Refer { target, .. } => target,
        }
    }

    /// Tries to have this caller taken; what comes of it is on record.
    pub(super) async fn work(self, promises: Arc<Promises>, id: HandoffId) {
        let worked = match self {
            Desk::Refer { transfer, target } => refer(&promises, id, transfer, target).await,
        };
        if let Err(refused) = worked {
            // The caller has left meanwhile, or its time was over.
            tracing::debug!("a handoff by telephone came too late: {refused}");
        }
    }
}

async fn refer(
    promises: &Promises,
    id: HandoffId,
    transfer: Box<dyn Transfer>,
    target: String,
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
