//! Provisional claims: a later stage's unit, held before the work that needs it begins.

use floorkeeper::admission::limits::{ClassRule, Limits};
use floorkeeper::admission::log::Told;
use floorkeeper::admission::*;
use floorkeeper::evidence::Evidence;
use floorkeeper::id::*;

use crate::desk::{at, offer};

const DONE: Release = Release::Completed(Evidence::Completed);

/// One unit, four places to wait; owners 1 and 2 are in generation 1.
fn gate() -> Gate {
    let mut gate = Gate::new(Stage::Synthesis, Limits::of(1, 4));
    for owner in 1..=2 {
        let (owner, generation) = (OwnerId(owner), Generation(1));
        let rotated = gate.rotate(at(0), owner, generation, Cancelled::BargeIn, &mut Vec::new());
        rotated.expect("the owner is new");
    }
    gate
}

///
#[test]
fn a_claim_never_waits_and_lapses_by_itself_until_it_is_confirmed() {
    let mut gate = gate();
    let wakes = &mut Vec::new();
    let Claimed::Held(lease) = gate.claim(at(0), offer(1, 0, 100), wakes) else {
        panic!("a unit is free")
    };
    let second = gate.claim(at(0), offer(2, 0, 100), wakes);
    assert!(matches!(second, Claimed::MayWait), "an offer may wait for it: {second:?}");
    assert_eq!(gate.ledger().total().refused_total(), 0, "and none is counted as refused");
    let third = Offer { owner: OwnerId(2), ..offer(3, 0, 1_000) };
    assert!(matches!(gate.offer(at(0), third, wakes), Answer::Queued(_)));
    gate.expire(at(100), wakes);
    assert_eq!(gate.counts(at(100)).provisional, 1);
    gate.expire(at(101), wakes);
    let told: Vec<Told> = wakes.iter().map(Told::from).collect();
    let granted = Told::Granted(OfferId(3));
    assert_eq!(told, [Told::Ended(OfferId(1), Terminal::Expired), granted]);
    assert!(!gate.confirm(at(102), &lease, wakes));
    assert_eq!(gate.settle(at(103), lease, DONE, wakes), Settled::AlreadyReleased);
    gate.audit().unwrap();
}

#[test]
fn a_confirmed_claim_is_a_lease_like_any_other() {
    let mut gate = gate();
    let wakes = &mut Vec::new();
    let Claimed::Held(lease) = gate.claim(at(0), offer(1, 0, 100), wakes) else {
        panic!("a unit is free")
    };
    assert!(gate.confirm(at(100), &lease, wakes));
    gate.expire(at(10_000), wakes);
    assert_eq!(gate.inventory()[0].place, Place::Active);
    let settled = gate.settle(at(10_001), lease, DONE, wakes);
    assert_eq!(settled, Settled::Released(Terminal::Completed));
    gate.audit().unwrap();
}

/// An owner that goes leaves no doubt about a claim: nothing was started on it.
#[test]
fn a_claim_of_an_owner_that_is_over_is_free_at_once() {
    let mut gate = gate();
    let wakes = &mut Vec::new();
    let claimed = gate.claim(at(0), offer(1, 0, 100), wakes);
    assert!(matches!(claimed, Claimed::Held(_)));
    let forgotten = gate.forget(at(1), OwnerId(1), wakes);
    assert_eq!((forgotten.withdrawn, forgotten.unknown), (1, 0));
    let counts = gate.counts(at(1));
    assert_eq!((counts.active, counts.quarantined, counts.provisional), (0, 0, 0));
    assert_eq!(gate.ledger().released_on(Evidence::NeverStarted), 1);
    assert!(wakes.is_empty(), "whoever is over is told nothing");
    gate.audit().unwrap();
}

/// a lapse that is noticed late gives its unit to who was alive when it was due.
#[test]
fn a_late_timer_changes_nothing_for_who_waits_behind_a_claim() {
    let outcome = |steps: &[u64]| {
        let mut gate = gate();
        let wakes = &mut Vec::new();
        let _claim = gate.claim(at(0), offer(1, 0, 100), wakes);
        for (id, life_ms) in [(2, 50), (3, 100), (4, 150)] {
            let waits = gate.offer(at(0), offer(id, 0, life_ms), wakes);
            assert!(matches!(waits, Answer::Queued(_)), "{waits:?}");
        }
        steps.iter().for_each(|&now_ms| gate.expire(at(now_ms), wakes));
        gate.audit().unwrap();
        wakes.iter().map(Told::from).collect::<Vec<Told>>()
    };
    let ended = |id| Told::Ended(OfferId(id), Terminal::Expired);
    let told = [ended(2), ended(1), ended(3), Told::Granted(OfferId(4))];
    assert_eq!(outcome(&[51, 101, 151]), told, "in time");
    assert_eq!(outcome(&[101]), told);
    assert_eq!(outcome(&[300]), told, "200 ms late");
}

/// where an offer would be refused, so is the claim, for the same reason.
#[test]
fn a_claim_is_refused_where_an_offer_would_be() {
    let refused = |gate: &mut Gate, offer: Offer| match gate.claim(at(0), offer, &mut Vec::new()) {
        Claimed::Refused(refusal) => Some(refusal.reason),
        Claimed::Held(_) | Claimed::MayWait => None,
    };
    let mut full = gate();
    full.set_limits(at(0), Limits::of(1, 0), &mut Vec::new());
    assert_eq!(refused(&mut full, offer(1, 0, 100)), None);
    let no_queue = Some(RefusalReason::Overloaded(Overload::NoQueue));
    assert_eq!(refused(&mut full, offer(2, 0, 100)), no_queue);
    full.set_limits(at(0), Limits::of(1, 1), &mut Vec::new());
    assert_eq!(refused(&mut full, offer(3, 0, 100)), None, "there is a place to wait");
    let waits = full.offer(at(0), offer(4, 0, 100), &mut Vec::new());
    assert!(matches!(waits, Answer::Queued(_)));
    let queue_full = Some(RefusalReason::Overloaded(Overload::QueueFull));
    assert_eq!(refused(&mut full, offer(5, 0, 100)), queue_full, "no answer that nobody speaks");
    assert_eq!(full.ledger().total().refused_total(), 2);
    full.audit().unwrap();
}

/// What a share or a reservation holds back may wait as well, and is counted as refused by nobody.
#[test]
fn a_claim_held_back_by_a_reservation_may_wait() {
    let classes = vec![ClassRule { class: ClassId(7), reserved: 1, rank: 0 }];
    let mut kept = gate();
    kept.set_limits(at(0), Limits { classes, ..Limits::of(1, 4) }, &mut Vec::new());
    let claimed = kept.claim(at(0), offer(1, 0, 100), &mut Vec::new());
    assert!(matches!(claimed, Claimed::MayWait), "{claimed:?}");
    assert_eq!(kept.ledger().total().refused_total(), 0);
}
