//! The conservation account: every offer is somewhere, exactly once, at every instant.
//!
//! Counted at the transition by the gate, in three columns at once: the whole gate, the offer's
//! tenant, its class.

use super::disposition::{REASONS, TERMINALS};
use super::{Offer, RefusalReason, Terminal};
use crate::evidence::{Evidence, Unknown};
use crate::id::{ClassId, TenantId};

/// Tenants with an account of their own; the rest share the last one.
pub const TENANT_ACCOUNTS: usize = 1_024;
/// Classes with an account of their own; the rest share the last one.
pub const CLASS_ACCOUNTS: usize = 32;

/// Where an offer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Offered in an earlier incarnation and inherited by this one.
    Opening,
    /// Offered and answered in the same step: nothing ever stands here.
    Offered,
    /// Refused before anything was kept.
    Refused(RefusalReason),
    /// Waits.
    Queued,
    /// Holds units.
    Active,
    /// Holds units of which nothing is known.
    Quarantined,
    /// Over.
    Ended(Terminal),
}

/// One column of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Account {
    /// Inherited from an earlier incarnation.
    pub opening: u64,
    /// Ever offered.
    pub offered: u64,
    /// Of them, tries of something offered before (C-046).
    pub retries: u64,
    /// Ever put in the queue (an event, not a place).
    pub ever_queued: u64,
    /// Ever given units (an event, not a place).
    pub ever_admitted: u64,
    /// Refused, by reason in the order of [`REASONS`].
    pub refused: [u64; REASONS.len()],
    /// Waiting now.
    pub queued: u64,
    /// Holding units now.
    pub active: u64,
    /// Holding units of which nothing is known.
    pub quarantined: u64,
    /// Over, by kind in the order of [`TERMINALS`].
    pub terminal: [u64; TERMINALS.len()],
    /// What enforcing would have refused, by reason in the order of [`REASONS`] (B-013).
    pub would_refuse: [u64; REASONS.len()],
    /// What enforcing would have queued (B-013).
    pub would_queue: u64,
}

impl Account {
    /// Refused for any reason.
    pub fn refused_total(&self) -> u64 {
        self.refused.iter().sum()
    }

    /// Over, in any way.
    pub fn terminal_total(&self) -> u64 {
        self.terminal.iter().sum()
    }

    /// How many were refused for this reason.
    pub fn refused_for(&self, reason: RefusalReason) -> u64 {
        self.refused[reason.index()]
    }

    /// How many ended like this one; of `replaced`, by anybody.
    pub fn ended_as(&self, terminal: Terminal) -> u64 {
        self.terminal[terminal.index()]
    }

    /// opening + offered = refused + queued + active + quarantined + terminal.
    pub fn balances(&self) -> bool {
        let stands = self.refused_total() + self.queued + self.active + self.quarantined;
        self.opening + self.offered == stands + self.terminal_total()
    }
}

/// The three columns that one offer is counted in.
type Columns<'a> = [&'a mut Account; 3];

/// Counts an arrival; where it goes is looked at once for all columns.
fn arrive(columns: Columns<'_>, to: Standing) -> bool {
    match to {
        Standing::Refused(reason) => {
            let index = reason.index();
            add(columns, |account| account.refused[index] += 1)
        }
        Standing::Queued => add(columns, |account| {
            account.queued += 1;
            account.ever_queued += 1;
        }),
        Standing::Active => add(columns, |account| {
            account.active += 1;
            account.ever_admitted += 1;
        }),
        Standing::Quarantined => add(columns, |account| account.quarantined += 1),
        Standing::Ended(terminal) => {
            let index = terminal.index();
            add(columns, |account| account.terminal[index] += 1)
        }
        Standing::Opening | Standing::Offered => false,
    }
}

/// Counts a departure; false when something was to leave a place where nothing stood.
fn leave(columns: Columns<'_>, from: Standing) -> bool {
    match from {
        Standing::Queued => take(columns, |account| &mut account.queued),
        Standing::Active => take(columns, |account| &mut account.active),
        Standing::Quarantined => take(columns, |account| &mut account.quarantined),
        Standing::Offered => add(columns, |account| account.offered += 1),
        Standing::Opening => add(columns, |account| account.opening += 1),
        Standing::Refused(_) | Standing::Ended(_) => false,
    }
}

#[inline]
fn add(columns: Columns<'_>, count: impl Fn(&mut Account)) -> bool {
    for account in columns {
        count(account);
    }
    true
}

#[inline]
fn take(columns: Columns<'_>, place: impl Fn(&mut Account) -> &mut u64) -> bool {
    let mut stood = true;
    for account in columns {
        let place = place(account);
        stood &= *place > 0;
        *place = place.saturating_sub(1);
    }
    stood
}

/// Whose account an offer is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payer {
    /// Who pays.
    pub tenant: TenantId,
    /// The workload class.
    pub class: ClassId,
}

impl Payer {
    /// Who pays for an offer.
    pub fn of(offer: &Offer) -> Payer {
        Payer { tenant: offer.tenant, class: offer.class }
    }
}

/// Things that must never happen, and how often they did (B-089).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Anomalies {
    /// A count would have gone below zero.
    pub underflow: u64,
    /// A lease or ticket was shown that this gate never made.
    pub unknown_permit: u64,
    /// An offer with impossible arguments reached the gate.
    pub invalid_offer: u64,
    /// Leases nobody settled before their owner was forgotten.
    pub dropped: u64,
    /// Offers of more tenants than the gate tells apart (B-066).
    pub tenant_table_full: u64,
}

/// The account of one gate.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Ledger {
    total: Account,
    tenants: Vec<Account>,
    classes: Vec<Account>,
    evidence: [u64; Evidence::ALL.len()],
    unknown: [u64; Unknown::ALL.len()],
    already_released: u64,
    pub(crate) anomalies: Anomalies,
}

impl Ledger {
    /// The whole gate.
    pub fn total(&self) -> &Account {
        &self.total
    }

    /// One tenant's account, once it has offered something.
    pub fn tenant(&self, tenant: TenantId) -> Option<&Account> {
        self.tenants.get((tenant.0 as usize).min(TENANT_ACCOUNTS))
    }

    /// One class's account, once something of it was offered.
    pub fn class(&self, class: ClassId) -> Option<&Account> {
        self.classes.get(usize::from(class.0).min(CLASS_ACCOUNTS))
    }

    /// Every tenant that ever offered something, in order; the last possible one is shared.
    pub fn tenants(&self) -> impl Iterator<Item = (TenantId, &Account)> {
        let named = self.tenants.iter().enumerate().map(|(i, a)| (TenantId(i as u32), a));
        named.filter(|(_, account)| account.opening + account.offered > 0)
    }

    /// Every class of which anything was ever offered, in order; the last possible one is shared.
    pub fn classes(&self) -> impl Iterator<Item = (ClassId, &Account)> {
        let named = self.classes.iter().enumerate().map(|(i, a)| (ClassId(i as u16), a));
        named.filter(|(_, account)| account.opening + account.offered > 0)
    }

    /// How many units came back on this kind of evidence; the weak kind is told apart here.
    pub fn released_on(&self, evidence: Evidence) -> u64 {
        self.evidence[evidence as usize]
    }

    /// How many leases became unknown for this cause.
    pub fn unknown_for(&self, cause: Unknown) -> u64 {
        self.unknown[cause as usize]
    }

    /// How many releases came a second time.
    pub fn already_released(&self) -> u64 {
        self.already_released
    }

    /// What must never happen.
    pub fn anomalies(&self) -> Anomalies {
        self.anomalies
    }

    /// Every column is equal to itself and the columns are equal to each other.
    pub fn balances(&self) -> bool {
        let sums = |accounts: &[Account]| {
            let offered: u64 = accounts.iter().map(|a| a.offered).sum();
            let ended: u64 = accounts.iter().map(Account::terminal_total).sum();
            accounts.iter().all(Account::balances)
                && offered == self.total.offered
                && ended == self.total.terminal_total()
        };
        self.total.balances() && sums(&self.tenants) && sums(&self.classes)
    }

    /// Counts one transition of one offer.
    pub(crate) fn shift(&mut self, payer: Payer, from: Standing, to: Standing) {
        let left = leave(self.columns(payer), from);
        let arrived = arrive(self.columns(payer), to);
        if !(left && arrived) {
            self.anomalies.underflow += 1;
        }
    }

    /// Counts that an offer tries something again.
    pub(crate) fn retry(&mut self, payer: Payer) {
        add(self.columns(payer), |account| account.retries += 1);
    }

    /// Counts what enforcing would have refused.
    pub(crate) fn would_refuse(&mut self, payer: Payer, reason: RefusalReason) {
        add(self.columns(payer), |account| account.would_refuse[reason.index()] += 1);
    }

    /// Counts what enforcing would have queued.
    pub(crate) fn would_queue(&mut self, payer: Payer) {
        add(self.columns(payer), |account| account.would_queue += 1);
    }

    /// Counts the proof on which a unit came back.
    pub(crate) fn released(&mut self, evidence: Evidence) {
        self.evidence[evidence as usize] += 1;
    }

    /// Counts a lease of which nothing is known.
    pub(crate) fn unknown(&mut self, cause: Unknown) {
        self.unknown[cause as usize] += 1;
    }

    /// Counts a second release.
    pub(crate) fn second_release(&mut self) {
        self.already_released += 1;
    }

    #[inline]
    fn columns(&mut self, payer: Payer) -> Columns<'_> {
        let tenant = account_at(&mut self.tenants, payer.tenant.0 as usize, TENANT_ACCOUNTS);
        let class = account_at(&mut self.classes, usize::from(payer.class.0), CLASS_ACCOUNTS);
        [&mut self.total, tenant, class]
    }
}

#[inline]
fn account_at(accounts: &mut Vec<Account>, index: usize, max: usize) -> &mut Account {
    let index = index.min(max);
    if accounts.len() <= index {
        accounts.resize(index + 1, Account::default());
    }
    &mut accounts[index]
}
