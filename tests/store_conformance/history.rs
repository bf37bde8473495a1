//! Random histories: whatever is asked in whatever order, store and model say the same.

use std::collections::BTreeMap;

use floorkeeper::id::CallbackId;
use floorkeeper::store::{
    CallbackStore, IdText, Limits, Offer, Outcome, Query, Refused, Settlement, State,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::model::{Item, Model};
use crate::offers::{NOW, Place, key, offer};

#[derive(Clone, Debug)]
pub enum Op {
    Accept { tenant: u8, to: u32, key: Option<(u8, u8)>, delay: u64, life: u64, odd: u8 },
    Replay { which: usize, to: u32 },
    Claim { lease: u64, max: usize },
    Extend { which: usize, stale: bool, lease: u64 },
    Start { which: usize, stale: bool },
    Settle { which: usize, stale: bool, outcome: Outcome },
    Cancel { which: usize },
    Resolve { which: usize, outcome: Outcome },
    Sweep,
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop::sample::select(Outcome::ALL)
}

fn op() -> impl Strategy<Value = Op> {
    let which = || 0..64_usize;
    let stale = || prop::bool::weighted(0.1);
    let lease = || 1..400_u64;
    let life = prop_oneof![1 => 0..200_u64, 4 => 500..5_000_u64];
    let key = prop::option::weighted(0.4, (0..6_u8, 0..2_u8));
    prop_oneof![
        8 => (0..3_u8, 0..6_u32, key, 0..300_u64, life, 0..24_u8).prop_map(
            |(tenant, to, key, delay, life, odd)| Op::Accept { tenant, to, key, delay, life, odd }
        ),
        2 => (which(), 0..6_u32).prop_map(|(which, to)| Op::Replay { which, to }),
        6 => (lease(), 0..4_usize).prop_map(|(lease, max)| Op::Claim { lease, max }),
        2 => (which(), stale(), lease())
            .prop_map(|(which, stale, lease)| Op::Extend { which, stale, lease }),
        6 => (which(), stale()).prop_map(|(which, stale)| Op::Start { which, stale }),
        6 => (which(), stale(), outcome())
            .prop_map(|(which, stale, outcome)| Op::Settle { which, stale, outcome }),
        1 => which().prop_map(|which| Op::Cancel { which }),
        1 => (which(), outcome()).prop_map(|(which, outcome)| Op::Resolve { which, outcome }),
        4 => Just(Op::Sweep),
    ]
}

pub fn history(most: usize) -> impl Strategy<Value = Vec<(u64, Op)>> {
    prop::collection::vec((0..150_u64, op()), 1..most)
}

/// The same cases in every run, whatever the order of the tests.
pub fn cases(count: u32, most: usize) -> impl Iterator<Item = Vec<(u64, Op)>> {
    let config = Config { failure_persistence: None, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let histories = history(most);
    (0..count).map(move |_| histories.new_tree(&mut runner).expect("a history").current())
}

/// Bounds that histories of this kind do reach.
pub fn tight() -> Limits {
    Limits {
        records: 5,
        tenant: 3,
        destination: 2,
        bytes: 2_400,
        attempts: 3,
        dead: 2,
        kept: 3,
        backoff_ms: 300,
        ..Limits::default()
    }
}

/// How often each answer came, over many histories.
pub type Seen = BTreeMap<&'static str, u64>;

/// The offer of such a step, with what may be odd about it.
fn asked(op: &Op, now: u64) -> Offer {
    let &Op::Accept { tenant, to, key: name, delay, life, odd } = op else {
        panic!("{op:?} offers nothing")
    };
    let expires_ms = if odd == 1 { now - 1 } else { now + life };
    let mut offer = Offer {
        tenant: format!("tenant-{tenant}"),
        why: "w".repeat(if odd == 3 { 900 } else { 20 }),
        born_ms: if odd == 0 { now + 1 } else { now },
        not_before_ms: (now + delay).min(expires_ms),
        expires_ms,
        attempts_max: if odd == 2 { 9 } else { 1 + u32::from(odd) % 3 },
        backoff_ms: 100,
        key: name
            .and_then(|(name, digest)| key(&format!("key-{name}"), &format!("digest-{digest}"))),
        ..offer(to)
    };
    offer.consent.at_ms = now;
    offer
}

struct Pair<'a> {
    store: &'a dyn CallbackStore,
    model: Model,
    /// Everything that was ever on record, and the epoch in which it was seen last.
    known: Vec<CallbackId>,
}

impl Pair<'_> {
    /// One to act on, and its epoch: mostly one of those on which it may work.
    fn pick(&self, which: usize, stale: bool, fit: fn(&Item) -> bool) -> (CallbackId, u64) {
        let items = || self.model.items.iter().map(|(item, _)| item);
        let fitting: Vec<CallbackId> =
            items().filter(|item| fit(item)).map(|item| item.id).collect();
        let (few, some) = (which < 52, &fitting);
        let from = if few && !some.is_empty() { some } else { &self.known };
        let id = if from.is_empty() { CallbackId(1) } else { from[which % from.len()] };
        let epoch = items().find(|item| item.id == id).map_or(0, |item| item.epoch);
        (id, if stale { epoch.wrapping_sub(1) } else { epoch })
    }

    async fn accept(&mut self, offer: Offer) -> &'static str {
        let wanted = self.model.judge(&offer);
        let found = self.store.accept(offer.clone(), self.model.now).await;
        match (wanted, found) {
            (Ok(None), Ok(accepted)) => {
                assert!(!accepted.repeated);
                assert_eq!(accepted.receipt.expect("a new one is promised").id(), accepted.id);
                self.model.add(accepted.id, &offer);
                self.known.push(accepted.id);
                "accepted"
            }
            (Ok(Some(before)), Ok(accepted)) => {
                assert_eq!((accepted.id, accepted.repeated), (before, true));
                assert_eq!(accepted.receipt.is_some(), !accepted.state.is_terminal());
                "repeated"
            }
            (Err(why), Err(refused)) => {
                assert_eq!(refused.label(), why);
                why
            }
            (wanted, found) => panic!("model {wanted:?}, store {found:?}"),
        }
    }

    async fn step(&mut self, op: Op) -> &'static str {
        let held = |item: &Item| {
            [State::Claimed, State::Dialling, State::UnknownDial].contains(&item.state)
        };
        let now = self.model.now;
        let said = match op {
            Op::Accept { .. } => return self.accept(asked(&op, now)).await,
            Op::Replay { which, to } => {
                let (id, _) = self.pick(which, false, |item| item.dead);
                let mut offer = offer(to);
                (offer.born_ms, offer.consent.at_ms) = (now, now);
                (offer.not_before_ms, offer.expires_ms) = (now, now + 2_000);
                offer.replays = Some(IdText(id));
                return self.accept(offer).await;
            }
            Op::Claim { lease, max } => {
                let claimed = self.store.claim("worker".to_owned(), lease, max, now).await;
                let claimed: Vec<CallbackId> =
                    claimed.expect("claims").iter().map(|record| record.id).collect();
                assert_eq!(claimed, self.model.claim("worker", lease, max));
                return if claimed.is_empty() { "nothing due" } else { "claimed" };
            }
            Op::Sweep => {
                let swept = self.store.sweep(now).await.expect("a sweep");
                assert!(!swept.more);
                self.model.sweep();
                return "swept";
            }
            Op::Extend { which, stale, lease } => {
                let (id, epoch) = self.pick(which, stale, held);
                let done = self.store.extend(id, epoch, lease, now).await;
                (done, self.model.extend(id, epoch, lease), "extended")
            }
            Op::Start { which, stale } => {
                let (id, epoch) = self.pick(which, stale, |item| item.state == State::Claimed);
                let done = self.store.start_dialling(id, epoch, now).await;
                (done, self.model.start(id, epoch), "dialling")
            }
            Op::Settle { which, stale, outcome } => {
                let (id, epoch) = self.pick(which, stale, held);
                let detail = String::new();
                let settlement = Settlement { outcome, retry_at_ms: None, detail };
                let done = self.store.settle(id, epoch, settlement, now).await;
                (done, self.model.settle(id, epoch, outcome), "settled")
            }
            Op::Cancel { which } => {
                let (id, _) = self.pick(which, false, |_| true);
                (self.store.cancel(id, now).await, self.model.cancel(id), "cancelled")
            }
            Op::Resolve { which, outcome } => {
                let (id, _) = self.pick(which, false, |item| item.state == State::UnknownDial);
                let done = self.store.resolve(id, outcome, now).await;
                (done, self.model.resolve(id, outcome), "resolved")
            }
        };
        let (done, wanted, word) = said;
        assert_eq!(done.as_ref().map(|_| ()).map_err(Refused::label), wanted);
        if done.is_ok() { word } else { wanted.expect_err("both refused") }
    }

    /// Everything that can be seen is the same.
    async fn compare(&self) {
        let all = Query { limit: 500, ..Query::default() };
        let found = self.store.list(all).await.expect("the list");
        let found: Vec<Item> = found.iter().map(Item::of).collect();
        let mut wanted: Vec<Item> = self.model.items.iter().map(|(item, _)| item.clone()).collect();
        wanted.sort();
        assert_eq!(found, wanted);
        let counts = self.store.counts().await.expect("counts");
        assert_eq!(counts.open, self.model.open() as u64);
        // C-045, C-050, invariant 4: every offer has one end.
        let ledger = self.store.ledger();
        assert_eq!(ledger.open(), Some(counts.open));
        assert_eq!((ledger.accepted, ledger.open()), (self.model.accepted, Some(counts.open)));
        assert_eq!(ledger.ended.values().sum::<u64>(), self.model.ended);
        let refused: u64 = ledger.refused.values().sum();
        assert_eq!(ledger.offered, ledger.accepted + ledger.repeated + refused);
    }
}

/// Runs one history on a fresh store.
pub async fn run(place: &Place, ops: Vec<(u64, Op)>, seen: &mut Seen) {
    let store = place.fresh(tight()).await;
    let model = Model::new(tight(), NOW);
    let mut pair = Pair { store: &*store, model, known: Vec::new() };
    for (wait, op) in ops {
        pair.model.now += wait;
        let word = pair.step(op).await;
        *seen.entry(word).or_default() += 1;
        pair.compare().await;
    }
}

/// The histories did reach everything that these bounds can refuse.
pub fn saw_everything(seen: &Seen) {
    let words = [
        "accepted",
        "repeated",
        "claimed",
        "nothing due",
        "swept",
        "extended",
        "dialling",
        "settled",
        "cancelled",
        "resolved",
        "bad_request",
        "full",
        "bytes",
        "tenant_full",
        "destination_full",
        "duplicate",
        "key_reused",
        "expired",
        "stale_epoch",
        "lease_lapsed",
        "wrong_state",
        "not_found",
        "not_dead",
    ];
    let missing: Vec<&str> = words.into_iter().filter(|word| !seen.contains_key(word)).collect();
    assert!(missing.is_empty(), "never seen: {missing:?} in {seen:?}");
}
