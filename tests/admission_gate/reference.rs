//! The reference fixtures A-089…A-103, queue-first, one test each on one shared story.

use floorkeeper::admission::gate::Taken;
use floorkeeper::admission::limits::{CloseMode, Intake, Limits, Tombstones};
use floorkeeper::admission::*;
use floorkeeper::evidence::Evidence;
use floorkeeper::id::*;
use floorkeeper::time::Timestamp;

use crate::desk::{Desk, Said, Told, at, offer};

const A: u64 = 1;
const B: u64 = 2;

/// one slot, two waiting, two seconds; callers a and b in generation 1.
fn story() -> Desk {
    Desk::new(Limits {
        max_wait_ms: 2_000,
        intake: Intake::QueueFirst,
        tombstones: Tombstones { count: 1_000, age_ms: 1_000_000 },
        ..Limits::of(1, 2)
    })
}

fn take(desk: &mut Desk, now_ms: u64) -> (&'static str, u64) {
    match desk.gate.take(at(now_ms)) {
        Taken::Empty => ("empty", 0),
        Taken::Closed => ("closed", 0),
        Taken::Busy => ("busy", 0),
        Taken::BeforeBirth(id) => ("before birth", id.0),
        Taken::Expired(id) => ("expired", id.0),
        Taken::Admitted(lease) => {
            let id = lease.offer.0;
            desk.leases.push(lease);
            ("admitted", id)
        }
    }
}

/// Offers 1 and 2 wait, 3 was one too many (A-090…A-092), then 1 runs.
fn one_runs_and_two_waits() -> Desk {
    let mut desk = story();
    assert_eq!(desk.fresh(0, 1, A), Said::Queued);
    assert_eq!(desk.fresh(0, 2, B), Said::Queued);
    assert_eq!(desk.fresh(0, 3, B), Said::No(RefusalReason::Overloaded(Overload::QueueFull)));
    assert_eq!(take(&mut desk, 0), ("admitted", 1));
    desk
}

/// Offer 2 ran at the edge of its age and the queue is empty (A-093…A-095).
fn drained() -> Desk {
    let mut desk = one_runs_and_two_waits();
    desk.rotate(1_000, A, 2);
    desk.complete(1_500, 1);
    assert_eq!(take(&mut desk, 2_000), ("admitted", 2));
    desk.complete(2_000, 2);
    desk
}

///
#[test]
fn a_090_the_same_offer_again_is_refused() {
    let mut desk = story();
    assert_eq!(desk.fresh(0, 1, A), Said::Queued);
    assert_eq!(desk.fresh(0, 1, A), Said::No(RefusalReason::Duplicate));
    assert_eq!(desk.counts().queued, 1);
}

///
#[test]
fn a_091_a_refused_identity_is_not_retained() {
    let mut desk = one_runs_and_two_waits();
    assert_eq!(desk.fresh(0, 3, B), Said::Queued);
}

///
#[test]
fn a_092_the_second_take_finds_the_gate_busy() {
    let mut desk = one_runs_and_two_waits();
    assert_eq!(take(&mut desk, 0), ("busy", 0));
}

///
#[test]
fn a_093_rotation_cancels_what_runs_and_keeps_its_lease() {
    let mut desk = one_runs_and_two_waits();
    assert_eq!(desk.rotate(1_000, A, 2).cancelled, 1);
    assert_eq!(take(&mut desk, 1_000), ("busy", 0));
    assert_eq!((desk.counts().active, desk.counts().cleanup_pending), (1, 1));
}

///
#[test]
fn a_094_release_after_cancel_says_cancelled() {
    let mut desk = one_runs_and_two_waits();
    desk.rotate(1_000, A, 2);
    let cancelled = Terminal::Cancelled(Cancelled::BargeIn);
    assert_eq!(desk.complete(1_500, 1), Settled::Released(cancelled));
}

#[test]
fn a_095_age_equal_to_the_limit_is_admitted_and_then_it_is_empty() {
    let mut desk = one_runs_and_two_waits();
    desk.complete(1_500, 1);
    assert_eq!(take(&mut desk, 2_000), ("admitted", 2));
    assert_eq!(desk.complete(2_000, 2), Settled::Released(Terminal::Completed));
    assert_eq!(take(&mut desk, 2_000), ("empty", 0));
}

///
#[test]
fn a_096_an_older_birth_after_the_drain_is_out_of_order() {
    let mut desk = story();
    desk.fresh(1_000, 1, B);
    assert_eq!(take(&mut desk, 1_000), ("admitted", 1));
    desk.complete(1_000, 1);
    let older = Offer { owner: OwnerId(B), ..offer(2, 999, 2_000) };
    assert_eq!(desk.offer(1_000, older), Said::No(RefusalReason::OutOfOrder));
}

///
#[test]
fn a_097_an_equal_birth_waits_and_its_expiry_is_told_apart_from_empty() {
    let mut desk = drained();
    let equal = Offer { owner: OwnerId(B), ..offer(4, 0, 2_000) };
    assert_eq!(desk.offer(2_000, equal), Said::Queued);
    assert_eq!(take(&mut desk, 3_000), ("expired", 4));
    assert_eq!(take(&mut desk, 3_000), ("empty", 0));
}

#[test]
fn a_098_an_offer_past_its_age_expires_at_the_offer() {
    let mut desk = drained();
    let old = Offer { owner: OwnerId(B), ..offer(5, 0, 2_000) };
    assert_eq!(desk.offer(9_000, old), Said::No(RefusalReason::Expired));
}

///
#[test]
fn a_099_an_obsolete_generation_is_stale_however_late_and_changes_nothing() {
    let mut desk = drained();
    let obsolete = Offer { owner: OwnerId(A), ..offer(6, 0, 2_000) };
    assert_eq!(desk.offer(99_000, obsolete), Said::No(RefusalReason::Stale));
    assert_eq!(desk.gate.generation(OwnerId(A)), Some(Generation(2)));
}

///
#[test]
fn a_100_a_new_generation_takes_an_older_birth() {
    let mut desk = story();
    desk.fresh(1_000, 1, A);
    desk.rotate(1_000, A, 2);
    let older = Offer { generation: Generation(2), ..offer(2, 500, 2_000) };
    assert_eq!(desk.offer(1_000, older), Said::Queued);
}

///
#[test]
fn a_101_another_rotation_cancels_the_queued_and_empties_the_queue() {
    let mut desk = story();
    desk.fresh(0, 1, A);
    assert_eq!(desk.rotate(10, A, 2).withdrawn, 1);
    assert_eq!(desk.counts().queued, 0);
    assert_eq!(take(&mut desk, 10), ("empty", 0));
}

///
#[test]
fn a_102_closed_is_said_to_offers_and_to_takes() {
    let mut desk = story();
    desk.close(0, CloseMode::FinishQueue);
    let closed = RefusalReason::Closed(Closed::Draining);
    assert_eq!(desk.fresh(0, 1, A), Said::No(closed));
    assert_eq!(take(&mut desk, 0), ("closed", 0));
}

///
#[test]
fn a_103_impossible_arguments_are_errors_that_name_what_would_be_right() {
    let mut desk = drained();
    let again = desk.prove(2_000, 1);
    assert_eq!(again, Some(Settled::AlreadyReleased));
    let same =
        desk.gate.rotate(at(2_000), OwnerId(A), Generation(2), Cancelled::BargeIn, &mut Vec::new());
    assert_eq!(
        same.unwrap_err().to_string(),
        "generation 2 is not above 2; a rotation goes to a higher one"
    );
    let future = offer(9, 3_000, 2_000).check(at(2_000)).unwrap_err();
    assert!(future.to_string().contains("born at or before the moment it is made"));
    let free = Offer { cost: 0, ..offer(9, 0, 2_000) }.check(at(0)).unwrap_err();
    assert_eq!(free.to_string(), "cost is 0; an offer costs at least 1 unit");
    let slots = Limits { max_wait_ms: 3_600_001, ..Limits::of(1, 1) }.check().unwrap_err();
    assert_eq!(slots.to_string(), "max_wait_ms is 3600001; it must be between 0 and 3600000");
}

#[test]
fn a_078_a_take_before_the_birth_of_the_first_is_an_error() {
    let mut desk = story();
    desk.fresh(5, 1, A);
    assert_eq!(take(&mut desk, 4), ("before birth", 1));
    assert_eq!(take(&mut desk, 5), ("admitted", 1));
}

///
#[test]
fn a_081_what_waited_when_intake_closed_is_still_handed_out() {
    let mut desk = story();
    desk.fresh(0, 1, A);
    desk.close(0, CloseMode::FinishQueue);
    assert_eq!(take(&mut desk, 0), ("admitted", 1));
    assert_eq!(take(&mut desk, 0), ("closed", 0));
}

/// B-034.
#[test]
fn a_155_overload_one_release_admits_exactly_one() {
    let mut desk = Desk::new(Limits::of(2, 2));
    for id in 1..=2 {
        assert_eq!(desk.fresh(0, id, A), Said::Admitted);
    }
    for id in 3..=4 {
        assert_eq!(desk.fresh(0, id, A), Said::Queued);
    }
    let full = RefusalReason::Overloaded(Overload::QueueFull);
    assert_eq!(desk.fresh(0, 5, A), Said::No(full));
    assert!(desk.gate.inventory().iter().all(|held| held.offer != OfferId(5)));
    desk.complete(1, 1);
    assert_eq!(desk.told(), [Told::Granted(3)]);
    assert_eq!(desk.fresh(1, 5, A), Said::Queued);
}

///
#[test]
fn a_156_expiry_names_its_identity_while_every_slot_is_held() {
    let mut desk = Desk::new(Limits { max_wait_ms: 100, ..Limits::of(1, 2) });
    desk.fresh(0, 1, A);
    desk.fresh(0, 2, B);
    assert_eq!(desk.gate.next_deadline(), Some(Timestamp::from_micros(100_001)));
    assert_eq!(desk.expire(100), []);
    assert_eq!(desk.expire(101), [Told::Ended(2, Terminal::Expired)]);
    assert_eq!(desk.expire(102), []);
    assert_eq!(desk.fresh(102, 2, B), Said::No(RefusalReason::Duplicate));
}

///
#[test]
fn a_157_cancellation_takes_the_ticket_and_leaves_the_lease() {
    let mut desk = Desk::new(Limits::of(1, 3));
    desk.fresh(0, 1, A);
    desk.fresh(0, 2, A);
    desk.fresh(0, 3, B);
    let rotated = desk.rotate(1, A, 2);
    assert_eq!((rotated.withdrawn, rotated.cancelled), (1, 1));
    assert_eq!(desk.told(), []);
    desk.release(2, 1, Release::Failed(Evidence::AbortAcknowledged));
    assert_eq!(desk.told(), [Told::Granted(3)]);
}

///
#[test]
fn a_158_an_older_birth_after_a_full_drain_is_out_of_order() {
    let mut desk = Desk::new(Limits::of(1, 1));
    desk.fresh(10, 1, A);
    desk.complete(11, 1);
    assert_eq!(desk.offer(12, offer(2, 9, 100)), Said::No(RefusalReason::OutOfOrder));
    assert_eq!(desk.offer(12, offer(2, 10, 100)), Said::Admitted);
}

///
#[test]
fn a_159_closed_with_work_active_cleans_up_and_opens_only_when_told() {
    let mut desk = Desk::new(Limits::of(1, 1));
    desk.fresh(0, 1, A);
    desk.fresh(0, 2, B);
    desk.close(1, CloseMode::EndQueue);
    assert_eq!(desk.told(), [Told::Ended(2, Terminal::Cancelled(Cancelled::Drain))]);
    let closed = Said::No(RefusalReason::Closed(Closed::Draining));
    assert_eq!(desk.fresh(1, 3, B), closed);
    assert_eq!(desk.complete(2, 1), Settled::Released(Terminal::Completed));
    assert_eq!(desk.fresh(3, 4, B), closed);
    let offered = desk.gate.ledger().total().offered;
    desk.gate.open();
    assert_eq!(desk.fresh(4, 5, B), Said::Admitted);
    assert_eq!(desk.gate.ledger().total().offered, offered + 1);
}
