//! Conservation accounts as the API shows them.

use serde_json::{Map, Value, json};

use super::service::{NO_TENANT, Tenants};
use crate::admission::disposition::{REASONS, TERMINALS};
use crate::admission::gate::Gate;
use crate::admission::ledger::Account;
use crate::config::Classes;
use crate::evidence::{Evidence, Unknown};

/// A gate's conservation account as the API shows it.
pub fn show(name: &str, gate: &Gate, tenants: &Tenants, classes: &Classes) -> Value {
    let ledger = gate.ledger();
    let mut shown = account(ledger.total());
    let evidence: Map<String, Value> = Evidence::ALL
        .iter()
        .map(|kind| (kind.label().to_owned(), ledger.released_on(*kind).into()))
        .collect();
    let unknown: Map<String, Value> = Unknown::ALL
        .iter()
        .map(|cause| (cause.label().to_owned(), ledger.unknown_for(*cause).into()))
        .collect();
    let found = ledger.anomalies();
    let by_tenant: Map<String, Value> = ledger
        .tenants()
        .map(|(id, own)| (tenants.name(id).unwrap_or(NO_TENANT).to_owned(), account(own)))
        .collect();
    let by_class: Map<String, Value> =
        ledger.classes().map(|(id, own)| (classes.name(id), account(own))).collect();
    let more = json!({
        "gate": name,
        "balances": ledger.balances(),
        "released_on": evidence,
        "unknown": unknown,
        "already_released": ledger.already_released(),
        "anomalies": {
            "underflow": found.underflow,
            "unknown_permit": found.unknown_permit,
            "invalid_offer": found.invalid_offer,
            "dropped": found.dropped,
            "tenant_table_full": found.tenant_table_full,
        },
        "tenants": by_tenant,
        "classes": by_class,
    });
    if let (Value::Object(shown), Value::Object(more)) = (&mut shown, more) {
        shown.extend(more);
    }
    shown
}

/// One column of a ledger.
pub fn account(account: &Account) -> Value {
    let refused: Map<String, Value> = REASONS
        .iter()
        .map(|reason| (reason.disposition().to_string(), account.refused_for(*reason).into()))
        .filter(|(_, count): &(String, Value)| count != 0)
        .collect();
    let terminal: Map<String, Value> = TERMINALS
        .iter()
        .map(|end| (end.disposition().to_string(), account.ended_as(*end).into()))
        .filter(|(_, count): &(String, Value)| count != 0)
        .collect();
    json!({
        "opening": account.opening,
        "offered": account.offered,
        "refused": account.refused_total(),
        "refused_by_reason": refused,
        "queued": account.queued,
        "active": account.active,
        "quarantined": account.quarantined,
        "terminal": account.terminal_total(),
        "terminal_by_kind": terminal,
    })
}
