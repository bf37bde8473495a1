//! The rules of the gate one by one: order of checks, boundaries, shares, evidence, late timers.

use floorkeeper::admission::gate::{Forgotten, Pressure, Withdrawn};
use floorkeeper::admission::limits::{
    CloseMode, Fairness, Limits, Mode, Overflow, Slots, Tombstones,
};
use floorkeeper::admission::*;
use floorkeeper::evidence::{Evidence, Unknown};
use floorkeeper::id::*;

use crate::desk::{Desk, Said, Told, at, offer};

fn no(overload: Overload) -> Said {
    Said::No(RefusalReason::Overloaded(overload))
}

/// Every flaw at once; mending them one by one shows which check comes next.
/// C-014.
#[test]
fn the_checks_come_in_their_order() {
    let mut desk = Desk::new(Limits {
        queue_bytes: 10,
        max_wait_ms: 100,
        fairness: Fairness::HardCap { tenant_share_pct: 50 },
        ..Limits::of(2, 2)
    });
    for (id, tenant) in [(1, 7), (2, 8), (3, 7), (4, 8)] {
        let life_ms = 1_000;
        desk.offer(0, Offer { tenant: TenantId(tenant), ..offer(id, 0, life_ms) });
    }
    desk.offer(50, Offer { owner: OwnerId(2), tenant: TenantId(9), ..offer(5, 50, 1) });
    assert_eq!((desk.counts().active, desk.counts().queued), (2, 2));
    desk.complete(50, 1);
    desk.told();
    desk.close(50, CloseMode::FinishQueue);
    let mut flawed =
        Offer { generation: Generation(0), tenant: TenantId(8), bytes: 11, ..offer(3, 0, 49) };
    flawed.born = at(40);
    flawed.deadline = at(49);
    assert_eq!(desk.offer(50, flawed.clone()), Said::No(RefusalReason::Duplicate));
    flawed.id = OfferId(6);
    assert_eq!(desk.offer(50, flawed.clone()), Said::No(RefusalReason::Stale));
    flawed.generation = Generation(1);
    desk.offer(50, Offer { tenant: TenantId(9), ..offer(7, 41, 1_000) });
    assert_eq!(desk.offer(50, flawed.clone()), Said::No(RefusalReason::Expired));
    flawed.deadline = at(1_000);
    let closed = RefusalReason::Closed(Closed::Draining);
    assert_eq!(desk.offer(50, flawed.clone()), Said::No(closed));
    desk.gate.open();
    assert_eq!(desk.offer(50, flawed.clone()), no(Overload::TenantShare));
    flawed.tenant = TenantId(9);
    assert_eq!(desk.offer(50, flawed.clone()), no(Overload::Bytes));
    flawed.bytes = 10;
    assert_eq!(desk.offer(50, flawed.clone()), Said::Queued);
    let older = Offer { tenant: TenantId(9), ..offer(8, 39, 1) };
    assert_eq!(desk.offer(50, older), Said::No(RefusalReason::OutOfOrder));
}

/// B-007.
#[test]
fn a_refusal_consumes_nothing() {
    let mut desk = Desk::new(Limits::of(1, 0));
    desk.fresh(0, 1, 1);
    let before = desk.counts();
    assert_eq!(desk.offer(10, offer(2, 10, 100)), no(Overload::NoQueue));
    assert_eq!(desk.counts(), before);
    desk.complete(11, 1);
    assert_eq!(desk.offer(12, offer(2, 5, 100)), Said::Admitted);
}

///
#[test]
fn slots_0_is_closed_and_nothing_queues_for_it() {
    let mut desk = Desk::new(Limits::of(0, 8));
    let closed = Said::No(RefusalReason::Closed(Closed::NoCapacity));
    assert_eq!(desk.fresh(0, 1, 1), closed);
    assert_eq!(desk.set(0, |limits| limits.slots = Slots::Units(1)), []);
    assert_eq!(desk.fresh(0, 1, 1), Said::Admitted);
    let mut dear = Offer { cost: 2, ..offer(2, 0, 100) };
    assert_eq!(desk.offer(0, dear.clone()), closed);
    dear.cost = 1;
    assert_eq!(desk.offer(0, dear), Said::Queued);
}

///
#[test]
fn age_equal_to_the_limit_is_alive_at_every_timer() {
    let mut desk = Desk::new(Limits { max_wait_ms: 100, ..Limits::of(1, 4) });
    assert_eq!(desk.offer(100, offer(1, 0, 100)), Said::Admitted);
    assert_eq!(desk.offer(100, offer(2, 0, 1_000)), Said::Queued);
    assert_eq!(desk.offer(101, offer(3, 0, 1_000)), Said::No(RefusalReason::Expired));
    assert_eq!(desk.offer(101, offer(3, 0, 100)), Said::No(RefusalReason::Expired));
    assert_eq!(desk.told(), [Told::Ended(2, Terminal::Expired)]);
    assert_eq!(desk.offer(101, offer(4, 50, 60)), Said::Queued);
    desk.complete(110, 1);
    assert_eq!(desk.told(), [Told::Granted(4)]);
}

///
#[test]
fn a_timer_that_fires_late_changes_no_outcome() {
    let mut desk = Desk::new(Limits { max_wait_ms: 100, ..Limits::of(1, 1) });
    desk.fresh(0, 1, 1);
    desk.fresh(0, 2, 2);
    // Nobody called `expire`: the release, 200 ms late, finds nobody and the newcomer finds the
    // room.
    desk.complete(300, 1);
    assert_eq!(desk.told(), [Told::Ended(2, Terminal::Expired)]);
    assert_eq!(desk.fresh(300, 3, 2), Said::Admitted);
}

///
#[test]
fn an_item_hidden_behind_a_younger_head_expires_at_its_own_time() {
    let mut desk = Desk::new(Limits { max_wait_ms: 100, ..Limits::of(1, 4) });
    desk.fresh(90, 1, 1);
    desk.fresh(90, 2, 1);
    desk.offer(95, Offer { owner: OwnerId(2), ..offer(3, 0, 100) });
    assert_eq!(desk.expire(101), [Told::Ended(3, Terminal::Expired)]);
    assert_eq!(desk.counts().queued, 1);
}

#[test]
fn time_that_runs_backwards_is_taken_as_standing_still() {
    let mut desk = Desk::new(Limits { max_wait_ms: 100, ..Limits::of(1, 4) });
    desk.fresh(500, 1, 1);
    desk.fresh(400, 2, 1);
    assert_eq!(desk.gate.now(), at(500));
    assert_eq!(desk.expire(450), []);
}

///
#[test]
fn without_evidence_the_unit_stays_and_the_ceiling_in_force_shrinks() {
    let mut desk = Desk::new(Limits::of(2, 1));
    desk.fresh(0, 1, 1);
    desk.fresh(0, 2, 1);
    desk.fresh(0, 3, 1);
    assert_eq!(desk.lose(1, 1), Settled::Quarantined);
    assert_eq!(desk.told(), []);
    let counts = desk.counts();
    assert_eq!((counts.in_force, counts.active, counts.quarantined), (Some(1), 1, 1));
    assert_eq!(desk.gate.ledger().unknown_for(Unknown::ConnectionLost), 1);
    assert_eq!(desk.prove(2, 1), Some(Settled::Released(Terminal::Failed)));
    assert_eq!(desk.told(), [Told::Granted(3)]);
    assert_eq!(desk.counts().in_force, Some(2));
    assert_eq!(desk.prove(3, 1), Some(Settled::AlreadyReleased));
    assert_eq!(desk.counts().active, 2);
}

/// B-009.
#[test]
fn an_owner_that_goes_without_settling_leaves_unknowns_and_no_waiters() {
    let mut desk = Desk::new(Limits::of(1, 2));
    desk.fresh(0, 1, 1);
    desk.fresh(0, 2, 1);
    assert_eq!(desk.forget(1, 1), Forgotten { withdrawn: 1, unknown: 1 });
    assert_eq!(desk.gate.ledger().anomalies().dropped, 1);
    assert_eq!(desk.counts().in_force, Some(0));
    assert_eq!(desk.fresh(2, 3, 1), Said::No(RefusalReason::Stale));
    // The supervisor's lease turns up after all, with proof.
    assert_eq!(desk.complete(3, 1), Settled::Released(Terminal::Completed));
    assert_eq!(desk.counts().in_force, Some(1));
    assert_eq!(desk.told(), []);
}

/// B-035, B-036.
#[test]
fn a_grant_that_crosses_a_withdrawal_passes_on() {
    let mut desk = Desk::new(Limits::of(1, 2));
    desk.fresh(0, 1, 1);
    desk.fresh(0, 2, 2);
    desk.fresh(0, 3, 3);
    desk.complete(1, 1);
    assert_eq!(desk.told(), [Told::Granted(2)]);
    let ticket = desk.tickets.remove(0);
    let withdrawn = desk.gate.withdraw(at(2), ticket, Cancelled::HangUp, &mut Vec::new());
    assert_eq!(withdrawn, Withdrawn::Granted);
    let never = Release::Failed(Evidence::NeverStarted);
    let hung_up = Terminal::Cancelled(Cancelled::HangUp);
    assert_eq!(desk.release(3, 2, never), Settled::Released(hung_up));
    assert_eq!(desk.told(), [Told::Granted(3)]);
}

///
#[test]
fn the_first_cause_of_a_cancel_stays() {
    let mut desk = Desk::new(Limits::of(1, 0));
    desk.fresh(0, 1, 1);
    desk.gate.cancel(at(1), &desk.leases[0], Cancelled::Client);
    desk.rotate(2, 1, 2);
    let client = Terminal::Cancelled(Cancelled::Client);
    assert_eq!(desk.complete(3, 1), Settled::Released(client));
}

/// B-026, B-029, C-052.
#[test]
fn a_change_lets_the_waiting_through_oldest_first_and_touches_nothing_that_runs() {
    let mut desk = Desk::new(Limits::of(1, 4));
    for id in 1..=4 {
        desk.fresh(0, id, 1);
    }
    let grown = desk.set(1, |limits| limits.slots = Slots::Units(3));
    assert_eq!(grown, [Told::Granted(2), Told::Granted(3)]);
    assert_eq!(desk.set(2, |limits| limits.slots = Slots::Units(1)), []);
    assert_eq!(desk.counts().active, 3);
    desk.complete(3, 1);
    desk.complete(3, 2);
    assert_eq!(desk.told(), []);
    assert_eq!(desk.set(4, |limits| limits.mode = Mode::Observe), [Told::Granted(4)]);
}

/// B-013.
#[test]
fn observe_admits_everything_and_says_what_enforce_would_have_done() {
    let mut desk = Desk::new(Limits { mode: Mode::Observe, ..Limits::of(1, 1) });
    for id in 1..=3 {
        assert_eq!(desk.fresh(0, id, 1), Said::Admitted);
    }
    let account = desk.gate.ledger().total();
    assert_eq!((account.would_queue, account.active), (2, 3));
    desk.set(0, |limits| limits.queue = 0);
    assert_eq!(desk.fresh(0, 4, 1), Said::Admitted);
    let would = desk.gate.ledger().total().would_refuse;
    assert_eq!(would[RefusalReason::Overloaded(Overload::NoQueue).index()], 1);
    // Who may speak at all is no matter of policy.
    assert_eq!(
        desk.offer(1, Offer { generation: Generation(0), ..offer(5, 1, 9) }),
        Said::No(RefusalReason::Stale)
    );
}

/// B-012.
#[test]
fn off_admits_everything_and_still_counts() {
    let mut desk = Desk::new(Limits { mode: Mode::Off, ..Limits::of(0, 0) });
    assert_eq!(desk.fresh(0, 1, 1), Said::Admitted);
    assert_eq!((desk.counts().active, desk.counts().in_force), (1, None));
}

///
#[test]
fn pressure_behind_the_gate_queues_newcomers_first_and_then_refuses_them() {
    let mut desk = Desk::new(Limits::of(2, 1));
    assert_eq!(desk.pressure(0, Pressure::Queue), []);
    assert_eq!(desk.fresh(0, 1, 1), Said::Queued);
    assert_eq!(desk.pressure(1, Pressure::Refuse), []);
    assert_eq!(desk.fresh(1, 2, 1), no(Overload::UpstreamPressure));
    assert_eq!(desk.pressure(2, Pressure::Open), [Told::Granted(1)]);
    desk.set(3, |limits| limits.queue = 0);
    desk.pressure(3, Pressure::Queue);
    assert_eq!(desk.fresh(3, 3, 1), no(Overload::UpstreamPressure));
}

/// C-022, C-031, C-032, C-033.
#[test]
fn replace_ends_the_waiting_older_one_and_never_what_runs() {
    let mut desk = Desk::new(Limits { overflow: Overflow::Replace, ..Limits::of(1, 1) });
    let keyed = |id, born| Offer { supersedes: Some(77), ..offer(id, born, 1_000) };
    assert_eq!(desk.offer(0, keyed(1, 0)), Said::Admitted);
    assert_eq!(desk.offer(1, keyed(2, 1)), Said::Queued);
    assert_eq!(desk.offer(2, keyed(3, 2)), Said::Queued);
    assert_eq!(desk.told(), [Told::Ended(2, Terminal::Replaced { by: OfferId(3) })]);
    assert_eq!(desk.offer(3, offer(4, 3, 1_000)), no(Overload::QueueFull));
    // A replacement that is refused replaces nothing.
    let huge = Offer { bytes: 1 << 40, ..keyed(5, 3) };
    assert_eq!(desk.offer(3, huge), no(Overload::Bytes));
    assert_eq!(desk.told(), []);
    let other_tenant = Offer { tenant: TenantId(5), ..keyed(6, 3) };
    assert_eq!(desk.offer(3, other_tenant), no(Overload::QueueFull));
    desk.complete(4, 1);
    assert_eq!(desk.told(), [Told::Granted(3)]);
}

/// C-022, C-028, C-029, X-05.
#[test]
fn shed_drops_only_what_is_superseded_and_only_when_full() {
    let mut desk = Desk::new(Limits { overflow: Overflow::Shed, ..Limits::of(1, 2) });
    let keyed = |id, born| Offer { supersedes: Some(77), ..offer(id, born, 1_000) };
    desk.offer(0, offer(1, 0, 1_000));
    assert_eq!(desk.offer(1, keyed(2, 1)), Said::Queued);
    assert_eq!(desk.offer(2, keyed(3, 2)), Said::Queued);
    assert_eq!(desk.told(), []);
    assert_eq!(desk.offer(3, offer(4, 3, 1_000)), Said::Queued);
    let shed = Terminal::Shed { rule: ShedRule::Superseded };
    assert_eq!(desk.told(), [Told::Ended(2, shed)]);
    assert_eq!(desk.offer(4, offer(5, 4, 1_000)), no(Overload::QueueFull));
}

/// C-017, C-041, X-08.
#[test]
fn a_retry_keeps_the_birth_and_the_deadline_of_what_it_tries_again() {
    let mut desk = Desk::new(Limits { max_wait_ms: 100, ..Limits::of(1, 0) });
    desk.offer(0, offer(1, 0, 50));
    desk.release(10, 1, Release::Failed(Evidence::StreamClosedByBackend));
    let retry = Offer { retry_of: Some(OfferId(1)), ..offer(2, 60, 100) };
    assert_eq!(desk.offer(60, retry), Said::No(RefusalReason::Expired));
    assert_eq!(desk.gate.ledger().total().retries, 1);
}

///
#[test]
fn a_wait_that_was_spoken_of_puts_the_deadline_off_once() {
    let mut desk = Desk::new(Limits { max_wait_ms: 500, ..Limits::of(1, 2) });
    desk.fresh(0, 1, 1);
    desk.offer(0, offer(2, 0, 100));
    assert_eq!(desk.gate.extend(at(50), &desk.tickets[0]), Some(at(500)));
    assert_eq!(desk.gate.extend(at(60), &desk.tickets[0]), None);
    assert_eq!(desk.expire(500), []);
    assert_eq!(desk.expire(501), [Told::Ended(2, Terminal::Expired)]);
}

///
#[test]
fn tombstones_are_bounded_by_count_and_age_and_then_the_name_is_free() {
    let tombstones = Tombstones { count: 2, age_ms: 100 };
    let mut desk = Desk::new(Limits { tombstones, ..Limits::of(1, 0) });
    for id in 1..=3 {
        desk.fresh(0, id, 1);
        desk.complete(0, id);
    }
    assert_eq!(desk.counts().tombstones, 2);
    assert_eq!(desk.fresh(0, 3, 1), Said::No(RefusalReason::Duplicate));
    assert_eq!(desk.fresh(0, 1, 1), Said::Admitted);
    desk.complete(0, 1);
    desk.expire(101);
    assert_eq!(desk.counts().tombstones, 0);
    assert_eq!(desk.fresh(101, 3, 1), Said::Admitted);
}

///
#[test]
fn ten_thousand_refusals_leave_nothing_behind() {
    let mut desk = Desk::new(Limits::of(1, 0));
    desk.fresh(0, 1, 1);
    let before = desk.counts();
    for id in 2..10_002 {
        assert_eq!(desk.fresh(0, id, 1), no(Overload::NoQueue));
    }
    assert_eq!(desk.counts(), before);
    assert_eq!(desk.gate.inventory().len(), 1);
}

/// B-068, C-025.
#[test]
fn retry_after_says_what_b_068_says() {
    let mut desk = Desk::new(Limits { max_wait_ms: 60_000, ..Limits::of(1, 1) });
    let hint = |desk: &Desk, reason| desk.gate.refusal(reason).retry_after_s;
    assert_eq!(hint(&desk, RefusalReason::Overloaded(Overload::NoQueue)), Some(1));
    assert_eq!(hint(&desk, RefusalReason::Overloaded(Overload::QueueFull)), Some(1));
    assert_eq!(hint(&desk, RefusalReason::Closed(Closed::Draining)), Some(5));
    assert_eq!(hint(&desk, RefusalReason::Stale), None);
    for id in 0..20 {
        desk.fresh(id * 10_000, 2 * id, 1);
        desk.fresh(id * 10_000, 2 * id + 1, 1);
        desk.complete(id * 10_000 + 9_000, 2 * id);
        desk.told();
        desk.complete(id * 10_000 + 9_500, 2 * id + 1);
    }
    let full = hint(&desk, RefusalReason::Overloaded(Overload::QueueFull));
    assert!((8..=9).contains(&full.unwrap()), "{full:?}");
}
