//! Who goes next: tenants' shares, fair order, classes and aging.

use floorkeeper::admission::limits::{ClassRule, Fairness, Limits};
use floorkeeper::admission::*;
use floorkeeper::id::*;

use crate::desk::{Desk, Said, Told, at, offer};

fn no(overload: Overload) -> Said {
    Said::No(RefusalReason::Overloaded(overload))
}

/// B-060, B-061, B-063, B-065.
#[test]
fn hard_cap_runs_and_queues_what_b_061_says() {
    let table = [(8, 16, 25, 2, 4), (10, 0, 30, 3, 0), (3, 1, 10, 1, 1), (16, 32, 25, 4, 8)];
    for (slots, queue, tenant_share_pct, runs, waits) in table {
        let fairness = Fairness::HardCap { tenant_share_pct };
        let mut desk = Desk::new(Limits { fairness, ..Limits::of(slots, queue) });
        let said: Vec<Said> = (1..=20).map(|id| desk.of_tenant(0, id, 7)).collect();
        let count = |what| said.iter().filter(|said| **said == what).count();
        assert_eq!(count(Said::Admitted), runs, "{slots} {queue} {tenant_share_pct}");
        assert_eq!(count(Said::Queued), waits, "{slots} {queue} {tenant_share_pct}");
        assert_eq!(count(no(Overload::TenantShare)), 20 - runs - waits);
        assert_eq!(desk.of_tenant(0, 99, 8), Said::Admitted);
    }
}

/// B-064, C-047.
#[test]
fn a_tenant_at_its_share_holds_nobody_up() {
    let fairness = Fairness::HardCap { tenant_share_pct: 50 };
    let mut desk = Desk::new(Limits { fairness, ..Limits::of(2, 4) });
    for (id, tenant) in [(1, 7), (2, 8), (3, 7), (4, 9)] {
        desk.of_tenant(0, id, tenant);
    }
    desk.complete(1, 2);
    assert_eq!(desk.told(), [Told::Granted(4)]);
    assert_eq!(desk.counts().held_back, 0, "what waits now waits for capacity");
    desk.complete(1, 4);
    assert_eq!(desk.told(), []);
    assert_eq!(desk.counts().held_back, 1, "what waits now waits for its share");
    desk.complete(2, 1);
    assert_eq!(desk.told(), [Told::Granted(3)]);
}

/// B-034, B-064: a tenant's large offer that its share holds back is not passed for ever by that
/// tenant's small ones; other tenants pass it.
#[test]
fn a_small_newcomer_never_passes_its_own_tenants_large_waiter() {
    let fairness = Fairness::HardCap { tenant_share_pct: 51 };
    let mut desk = Desk::new(Limits { fairness, ..Limits::of(4, 8) });
    let of = |id, tenant, cost| {
        let life_ms = 5_000;
        Offer { tenant: TenantId(tenant), cost, ..offer(id, 0, life_ms) }
    };
    assert_eq!(desk.offer(0, of(1, 7, 2)), Said::Admitted);
    assert_eq!(desk.offer(0, of(2, 7, 2)), Said::Queued, "4 of the 3 its share lets it hold");
    assert_eq!(desk.offer(0, of(3, 7, 1)), Said::Queued, "a newcomer never jumps");
    assert_eq!(desk.offer(0, of(4, 8, 1)), Said::Admitted);
    desk.complete(1, 1);
    assert_eq!(desk.told(), [Told::Granted(2), Told::Granted(3)]);
}

/// B-066, B-067.
#[test]
fn the_65th_tenant_shares_the_last_place_and_is_counted() {
    let fairness = Fairness::HardCap { tenant_share_pct: 1 };
    let mut desk = Desk::new(Limits { fairness, ..Limits::of(100, 0) });
    for tenant in 1..=64 {
        assert_eq!(desk.of_tenant(0, u64::from(tenant), tenant), Said::Admitted);
    }
    assert_eq!(desk.counts().tenants_active, 64);
    assert_eq!(desk.of_tenant(0, 65, 65), Said::Admitted);
    assert_eq!(desk.of_tenant(0, 66, 66), no(Overload::TenantShare));
    assert_eq!(desk.gate.ledger().anomalies().tenant_table_full, 1);
    desk.complete(1, 1);
    assert_eq!(desk.of_tenant(1, 67, 66), Said::Admitted);
}

/// A-132, C-034, C-035, X-06.
#[test]
fn fair_gives_the_next_unit_to_the_tenant_that_has_had_least() {
    let mut desk = Desk::new(Limits { fairness: Fairness::Fair, ..Limits::of(2, 16) });
    let mut id = 0;
    for tenant in [1, 1, 1, 1, 1, 2, 3] {
        id += 1;
        desk.of_tenant(0, id, tenant);
    }
    // 1 and 2 run for the elephant, whose 3, 4 and 5 wait before the mice's 6 and 7.
    desk.complete(100, 1);
    assert_eq!(desk.told(), [Told::Granted(6)]);
    desk.complete(200, 2);
    assert_eq!(desk.told(), [Told::Granted(7)]);
    desk.complete(300, 6);
    assert_eq!(desk.told(), [Told::Granted(3)], "no unit idles while anybody waits");
}

/// C-027, C-034.
#[test]
fn fair_keeps_the_last_quarter_of_the_queue_for_tenants_of_which_nobody_waits() {
    let mut desk = Desk::new(Limits { fairness: Fairness::Fair, ..Limits::of(1, 8) });
    let said: Vec<Said> = (0..10).map(|id| desk.of_tenant(0, id, 1)).collect();
    assert_eq!(said.iter().filter(|said| **said == Said::Queued).count(), 6);
    assert_eq!(said[9], no(Overload::TenantShare));
    assert_eq!(desk.of_tenant(0, 20, 2), Said::Queued);
}

fn of_class(id: u64, class: u16, born_ms: u64) -> Offer {
    Offer { class: ClassId(class), ..offer(id, born_ms, 5_000) }
}

/// A-136, C-011.
#[test]
fn a_class_keeps_its_reserved_units_for_itself() {
    let classes = vec![ClassRule { class: ClassId(1), reserved: 1, rank: 0 }];
    let mut desk = Desk::new(Limits { classes, ..Limits::of(2, 8) });
    assert_eq!(desk.offer(0, of_class(1, 2, 0)), Said::Admitted);
    assert_eq!(desk.offer(0, of_class(2, 2, 0)), Said::Queued, "the other unit is reserved");
    assert_eq!(desk.offer(0, of_class(3, 1, 0)), Said::Admitted, "for this class");
    assert_eq!(desk.offer(0, of_class(4, 1, 0)), Said::Queued);
    desk.complete(1, 3);
    assert_eq!(desk.told(), [Told::Granted(4)]);
    desk.complete(2, 4);
    assert_eq!(desk.told(), []);
    desk.complete(3, 1);
    assert_eq!(desk.told(), [Told::Granted(2)]);
}

/// Depth stays flat while every newer offer of the better class goes first (C-016, C-018, C-051).
/// A-179, C-036.
#[test]
fn a_starved_class_is_visible_by_its_age_and_aging_ends_it() {
    let classes = vec![
        ClassRule { class: ClassId(1), reserved: 0, rank: 0 },
        ClassRule { class: ClassId(2), reserved: 0, rank: 200 },
    ];
    let mut desk = Desk::new(Limits { classes, aging_ms: Some(300), ..Limits::of(1, 8) });
    desk.offer(0, of_class(1, 1, 0));
    assert_eq!(desk.offer(0, of_class(2, 2, 0)), Said::Queued);
    let mut runs = 1;
    for (id, now) in [(3, 100), (4, 200), (5, 300)] {
        assert_eq!(desk.offer(now, of_class(id, 1, now)), Said::Queued);
        desk.complete(now, runs);
        assert_eq!(desk.told(), [Told::Granted(id)]);
        runs = id;
        let starved = desk.gate.waiting_of_class(at(now), ClassId(2)).unwrap();
        assert_eq!((starved.queued, starved.oldest_ms), (1, now));
    }
    assert_eq!(desk.offer(301, of_class(6, 1, 301)), Said::Queued);
    desk.complete(301, runs);
    assert_eq!(desk.told(), [Told::Granted(2)]);
}
