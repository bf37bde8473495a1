//! A line for every decision that is no admission (B-077); a wait is no decision yet.
//!
//! Its target is `floorkeeper::audit`, so that `log.level` can send it elsewhere or leave it out.

use crate::admission::{Refusal, Wake};
use crate::id::{Stage, TenantId};

const TARGET: &str = "floorkeeper::audit";

/// An offer was refused.
pub(super) fn refused(stage: Stage, tenant: TenantId, refusal: &Refusal) {
    let row = refusal.reason.disposition();
    tracing::info!(
        target: TARGET,
        gate = %stage, tenant = tenant.0, decision = row.label, reason = row.reason,
        "refused"
    );
}

/// A wait ended without its units.
pub(super) fn ended(wake: &Wake) {
    if let Wake::Ended { stage, terminal, offer, .. } = wake {
        let row = terminal.disposition();
        tracing::info!(
            target: TARGET,
            gate = %stage, offer = offer.0, decision = row.label, reason = row.reason,
            "waited in vain"
        );
    }
}
