//! The shortest walk through a gate: admit, wait, refuse, release, grant.

use floorkeeper::admission::limits::Limits;
use floorkeeper::admission::*;
use floorkeeper::evidence::Evidence;
use floorkeeper::id::*;
use floorkeeper::time::Timestamp;

fn offer(id: u64, now_ms: u64) -> Offer {
    Offer {
        id: OfferId(id),
        owner: OwnerId(1),
        generation: Generation(0),
        born: Timestamp::from_millis(now_ms),
        deadline: Timestamp::from_millis(now_ms + 1_000),
        tenant: TenantId(0),
        class: ClassId(0),
        cost: 1,
        bytes: 0,
        retry_of: None,
        supersedes: None,
    }
}

#[test]
fn a_release_wakes_exactly_one_waiter() {
    let at = Timestamp::from_millis;
    let mut wakes = Vec::new();
    let mut gate = Gate::new(Stage::Model, Limits::of(1, 2));
    gate.rotate(at(0), OwnerId(1), Generation(0), Cancelled::Client, &mut wakes).unwrap();
    let Answer::Admitted(first) = gate.offer(at(0), offer(1, 0), &mut wakes) else { panic!() };
    assert!(matches!(gate.offer(at(1), offer(2, 1), &mut wakes), Answer::Queued(_)));
    assert!(matches!(gate.offer(at(2), offer(3, 2), &mut wakes), Answer::Queued(_)));
    let Answer::Refused(refusal) = gate.offer(at(3), offer(4, 3), &mut wakes) else { panic!() };
    assert_eq!(refusal.reason, RefusalReason::Overloaded(Overload::QueueFull));
    let settled = gate.settle(at(4), first, Release::Completed(Evidence::Completed), &mut wakes);
    assert_eq!(settled, Settled::Released(Terminal::Completed));
    assert_eq!(wakes.len(), 1);
    assert!(matches!(&wakes[0], Wake::Granted { lease, .. } if lease.offer == OfferId(2)));
    gate.audit().unwrap();
}
