//! The contract, case by case; every store passes every one.

use floorkeeper::id::CallbackId;
use floorkeeper::store::{
    BATCH_MAX, CallbackStore, HandoffAsk, HandoffOffer, HandoffState, Health, IdText, Limits,
    Offer, Outcome, Place as Full, Query, QuietHours, Record, Refused, Settlement, Shelf, State,
};

use crate::offers::{NOW, Place, key, number, offer};

const ALL: Query = Query { states: Vec::new(), shelf: None, tenant: None, after: None, limit: 500 };

fn outcome(outcome: Outcome) -> Settlement {
    Settlement { outcome, retry_at_ms: None, detail: format!("it was {outcome}") }
}

async fn accepted(store: &dyn CallbackStore, offer: Offer, now: u64) -> CallbackId {
    store.accept(offer, now).await.expect("it is accepted").id
}

async fn claimed(store: &dyn CallbackStore, now: u64) -> Record {
    let mut claimed = store.claim("w".to_owned(), 1_000, 1, now).await.expect("a claim");
    claimed.pop().expect("one is due")
}

/// One that is being dialled, with its epoch.
async fn dialling(store: &dyn CallbackStore, offer: Offer, now: u64) -> Record {
    let id = accepted(store, offer, now).await;
    let record = claimed(store, now).await;
    assert_eq!(record.id, id);
    store.start_dialling(id, record.epoch, now).await.expect("it may be dialled")
}

/// A-124, C-008: the receipt names a record that another opening of the store finds as it was.
pub async fn what_is_promised_is_on_record(place: &Place) {
    let store = place.fresh(Limits::default()).await;
    let mut wanted = offer(1);
    wanted.quiet =
        Some(QuietHours { from_minute: 1_260, to_minute: 480, utc_offset_minutes: -300 });
    wanted.key = key("k", "d");
    wanted.why = "naïve – \"quoted\" 'text' 電話\n".to_owned();
    let answer = store.accept(wanted.clone(), NOW + 5).await.expect("it is accepted");
    assert_eq!(answer.receipt.expect("a promise").id(), answer.id);
    drop(store);
    let store = place.open(Limits::default()).await;
    let record = store.get(answer.id).await.expect("a read").expect("the record");
    assert_eq!((record.id, &record.offer), (answer.id, &wanted));
    assert_eq!((record.state, record.epoch, record.attempts), (State::Due, 0, 0));
    assert_eq!(store.ledger().opening, 1);
    assert_eq!(store.get(CallbackId(3)).await, Ok(None));
    assert_eq!(CallbackId::parse(&answer.id.to_string()), Some(answer.id));
}

/// A-127, C-007, C-022, C-035: every bound refuses, by its name, and takes nothing.
pub async fn every_bound_refuses(place: &Place) {
    let tenant = |n: u32, to: u32| Offer { tenant: format!("t{n}"), ..offer(to) };
    let one = offer(0).bytes();
    let bounds = Limits { records: 3, tenant: 2, destination: 1, ..Limits::default() };
    let store = place.fresh(Limits { bytes: one * 3, ..bounds.clone() }).await;
    accepted(&*store, tenant(1, 1), NOW).await;
    accepted(&*store, tenant(1, 2), NOW).await;
    assert_eq!(store.accept(tenant(1, 3), NOW).await, Err(Refused::TenantFull));
    assert_eq!(store.accept(tenant(2, 1), NOW).await, Err(Refused::DestinationFull));
    let id = accepted(&*store, tenant(2, 3), NOW).await;
    assert_eq!(store.accept(tenant(3, 4), NOW).await, Err(Refused::Full(Full::Records)));
    store.cancel(id, NOW).await.expect("it is cancelled");
    let mut long = tenant(3, 4);
    long.why = "w".repeat(200);
    assert_eq!(store.accept(long, NOW).await, Err(Refused::Bytes));
    accepted(&*store, tenant(3, 4), NOW).await;
    let counts = store.counts().await.expect("counts");
    assert_eq!((counts.open, counts.bytes <= one * 3), (3, true));
    assert_eq!(counts.oldest_born_ms, Some(NOW));
    let ledger = store.ledger();
    assert_eq!((ledger.offered, ledger.accepted, ledger.refused.values().sum::<u64>()), (8, 4, 4));
}

/// X-07, C-050: one open callback a destination and tenant; one record a key.
pub async fn nothing_is_on_record_twice(place: &Place) {
    let store = place.fresh(Limits::default()).await;
    let mut first = offer(1);
    first.key = key("k", "one");
    let id = accepted(&*store, first.clone(), NOW).await;
    let asked_again = Offer { born_ms: NOW + 9, ..first.clone() };
    let known = store.repeated(&asked_again).await.expect("a read").expect("it is on record");
    let again = store.accept(asked_again, NOW + 9).await;
    let again = again.expect("the same answer");
    assert_eq!(known, again);
    assert_eq!((again.id, again.repeated, again.receipt.is_some()), (id, true, true));
    let reused = Offer { key: key("k", "other"), ..offer(2) };
    assert_eq!(store.repeated(&reused).await, Err(Refused::KeyReused { existing: id }));
    assert_eq!(store.accept(reused, NOW).await, Err(Refused::KeyReused { existing: id }));
    let other = Offer { tenant: "other".to_owned(), key: key("k", "other"), ..offer(2) };
    for new in [&other, &offer(3), &Offer { key: key("a\0b", "d"), ..offer(3) }] {
        assert_eq!(store.repeated(new).await, Ok(None));
    }
    accepted(&*store, other, NOW).await; // a key is a tenant's own
    assert_eq!(store.accept(offer(1), NOW).await, Err(Refused::Duplicate { existing: id }));
    let promised = store.promised(id).await.expect("a read").expect("it is on record");
    assert_eq!(promised.id(), id);
    // Over: the key still answers, and promises nothing any more; the destination is free.
    store.cancel(id, NOW).await.expect("it is cancelled");
    let over = store.accept(first, NOW).await.expect("the same answer");
    assert_eq!((over.id, over.state, over.receipt), (id, State::Cancelled, None));
    assert_eq!(store.promised(id).await, Ok(None));
    accepted(&*store, offer(1), NOW).await;
}

/// C-014, A-134: what is wrong is said by field, and the store is as it was.
pub async fn a_bad_offer_changes_nothing(place: &Place) {
    let store = place.fresh(Limits::default()).await;
    type Break = fn(&mut Offer);
    let bad: [(&str, Break); 17] = [
        ("destination", |o| o.destination.clear()),
        ("destination", |o| o.destination = "+1 201 555 0100".to_owned()),
        ("destination", |o| o.destination = "9".repeat(300)),
        ("consent.said", |o| o.consent.said = " ".to_owned()),
        ("consent.asked", |o| o.consent.asked.clear()),
        ("consent.at_ms", |o| o.consent.at_ms = NOW + 1),
        ("authorisation", |o| o.authorisation.clear()),
        ("born_ms", |o| o.born_ms = NOW + 1),
        ("not_before_ms", |o| o.not_before_ms = o.expires_ms + 1),
        ("expires_ms", |o| o.expires_ms = NOW + 400 * 86_400_000),
        ("attempts_max", |o| o.attempts_max = 0),
        ("attempts_max", |o| o.attempts_max = 11),
        ("why", |o| o.why = "w".repeat(5_000)),
        ("why", |o| o.why = "a\0b".to_owned()),
        ("key", |o| o.key = key("", "d")),
        ("key", |o| o.key = key("a\0b", "d")),
        ("quiet", |o| {
            let (from_minute, to_minute, utc_offset_minutes) = (1_440, 0, 0);
            o.quiet = Some(QuietHours { from_minute, to_minute, utc_offset_minutes });
        }),
    ];
    for (field, spoil) in bad {
        let mut offer = offer(1);
        spoil(&mut offer);
        match store.accept(offer, NOW).await {
            Err(Refused::Bad { field: found, .. }) => assert_eq!(found, field),
            other => panic!("{field}: {other:?}"),
        }
    }
    // at its last millisecond it is alive, behind it it is not.
    let last = Offer { not_before_ms: NOW - 9, expires_ms: NOW - 1, ..offer(1) };
    assert_eq!(store.accept(last, NOW).await, Err(Refused::Expired { at_ms: NOW - 1 }));
    assert_eq!(store.list(ALL).await, Ok(Vec::new()));
    for (worker, lease) in [("", 1), ("w", 0), ("w", u64::MAX)] {
        let claim = store.claim(worker.to_owned(), lease, 1, NOW).await;
        assert_eq!(claim.map_err(|refused| refused.label()), Err("bad_request"));
    }
    let nobody = Query { tenant: Some("a\0b".to_owned()), ..ALL };
    let list = store.list(nobody).await.map_err(|refused| refused.label());
    assert_eq!(list, Err("bad_request"));
    assert_eq!(*store.health().borrow(), Health::Open);
    accepted(&*store, Offer { expires_ms: NOW, ..offer(1) }, NOW).await;
}

/// Invariant 8, C-009: a claim is one worker's, and only while its epoch is the last.
pub async fn a_claim_is_fenced(place: &Place) {
    let store = place.fresh(Limits::default()).await;
    let id = accepted(&*store, offer(1), NOW).await;
    let first = claimed(&*store, NOW).await;
    assert_eq!((first.state, first.epoch, &*first.worker), (State::Claimed, 1, "w"));
    assert_eq!(store.claim("v".to_owned(), 1_000, 9, NOW + 1_000).await, Ok(Vec::new()));
    let longer = store.extend(id, 1, 500, NOW + 1_000).await.expect("it is alive at the limit");
    assert_eq!(longer.lease_until_ms, NOW + 1_500);
    assert_eq!(store.sweep(NOW + 1_500).await.expect("a sweep").released, 0);
    let lapsed = Err(Refused::LeaseLapsed { at_ms: NOW + 1_500 });
    assert_eq!(store.extend(id, 1, 500, NOW + 1_501).await, lapsed);
    assert_eq!(store.start_dialling(id, 1, NOW + 1_501).await, lapsed);
    assert_eq!(store.sweep(NOW + 1_501).await.expect("a sweep").released, 1);
    let second = claimed(&*store, NOW + 1_502).await;
    assert!(second.epoch > first.epoch);
    let stale = Err(Refused::StaleEpoch { current: second.epoch });
    assert_eq!(store.start_dialling(id, 1, NOW + 1_502).await, stale);
    let late = store.settle(id, 1, outcome(Outcome::Failed), NOW + 1_502).await;
    assert_eq!(late, stale);
    store.start_dialling(id, second.epoch, NOW + 1_503).await.expect("the second may");
    assert_eq!(store.get(id).await.expect("a read").expect("it").attempts, 1);
}

/// Bad input: settle twice, settle before dialling, cancel while it rings, of nothing.
pub async fn what_is_out_of_turn_is_refused(place: &Place) {
    let store = place.fresh(Limits::default()).await;
    let record = dialling(&*store, offer(1), NOW).await;
    let wrong = |state| Err(Refused::WrongState { state });
    assert_eq!(store.cancel(record.id, NOW).await, wrong(State::Dialling));
    assert_eq!(store.start_dialling(record.id, record.epoch, NOW).await, wrong(State::Dialling));
    let settle = || store.settle(record.id, record.epoch, outcome(Outcome::Connected), NOW);
    let done = settle().await.expect("it is settled");
    assert_eq!((done.state, &*done.detail), (State::Connected, "it was connected"));
    assert_eq!(settle().await, wrong(State::Connected));
    assert_eq!(store.cancel(record.id, NOW).await, wrong(State::Connected));
    assert_eq!(store.resolve(record.id, Outcome::Failed, NOW).await, wrong(State::Connected));
    assert_eq!(store.cancel(CallbackId(7), NOW).await, Err(Refused::NotFound));
    accepted(&*store, offer(2), NOW).await;
    let held = claimed(&*store, NOW).await;
    let early = store.settle(held.id, held.epoch, outcome(Outcome::Connected), NOW).await;
    assert_eq!(early, wrong(State::Claimed));
    let cancelled = store.cancel(held.id, NOW).await.expect("nobody has dialled");
    assert_eq!(cancelled.state, State::Cancelled);
    let late = store.start_dialling(held.id, held.epoch, NOW).await;
    assert_eq!(late, Err(Refused::StaleEpoch { current: cancelled.epoch }));
}

/// C-040…C-043: attempts are bounded and spaced, and none lies behind the expiry.
pub async fn attempts_are_bounded_and_spaced(place: &Place) {
    let store = place.fresh(Limits { backoff_ms: 3_000, ..Limits::default() }).await;
    let patient = Offer { attempts_max: 4, ..offer(1) };
    let mut record = dialling(&*store, patient, NOW).await;
    let mut now = NOW;
    for (attempt, wait) in [(1, 1_000), (2, 2_000), (3, 3_000)] {
        assert_eq!(record.attempts, attempt);
        let no = outcome(Outcome::NoAnswer);
        let waits = store.settle(record.id, record.epoch, no, now).await.expect("it is settled");
        assert_eq!((waits.state, waits.due_ms), (State::Accepted, now + wait));
        assert_eq!(store.claim("w".to_owned(), 9, 9, now + wait - 1).await, Ok(Vec::new()));
        now += wait;
        let held = claimed(&*store, now).await;
        record = store.start_dialling(held.id, held.epoch, now).await.expect("it may be dialled");
    }
    let last = store.settle(record.id, record.epoch, outcome(Outcome::NoAnswer), now).await;
    let last = last.expect("it is settled");
    assert_eq!((last.state, last.shelf, last.attempts), (State::NoAnswer, Shelf::Dead, 4));
    // Not dialled is no attempt; what cannot come in time is not waited for (C-041).
    let record = dialling(&*store, offer(2), now).await;
    let later = Settlement {
        outcome: Outcome::NotDialled,
        retry_at_ms: Some(now + 10),
        detail: "quiet hours".to_owned(),
    };
    let later = store.settle(record.id, record.epoch, later, now).await.expect("it is settled");
    assert_eq!((later.attempts, later.state, later.due_ms), (0, State::Accepted, now + 10));
    let held = claimed(&*store, now + 10).await;
    let never = Settlement {
        outcome: Outcome::Failed,
        retry_at_ms: Some(held.offer.expires_ms + 1),
        detail: String::new(),
    };
    let never = store.settle(held.id, held.epoch, never, now + 10).await.expect("it is settled");
    assert_eq!((never.state, never.attempts), (State::Failed, 1));
}

/// DESIGN 5: between dialling and outcome nobody knows, so nobody dials again by itself.
pub async fn an_unknown_dial_is_not_dialled_again(place: &Place) {
    let store = place.fresh(Limits::default()).await;
    let record = dialling(&*store, offer(1), NOW).await;
    drop(store);
    let store = place.open(Limits::default()).await;
    assert_eq!(store.sweep(NOW + 1_000).await.expect("a sweep").unknown, 0);
    assert_eq!(store.sweep(NOW + 1_001).await.expect("a sweep").unknown, 1);
    let unknown = store.get(record.id).await.expect("a read").expect("it");
    assert_eq!((unknown.state, unknown.shelf), (State::UnknownDial, Shelf::Dead));
    let far = NOW + 86_400_000;
    assert_eq!(store.claim("w".to_owned(), 9, 9, far).await, Ok(Vec::new()));
    assert_eq!(store.sweep(far).await.expect("a sweep"), Default::default());
    // The worker comes back with what it saw, and that is an answer.
    let settled = store.settle(record.id, record.epoch, outcome(Outcome::NoAnswer), far).await;
    assert_eq!(settled.expect("late evidence counts").state, State::NoAnswer);
    // Or an operator knows.
    let record = dialling(&*store, offer(2), NOW).await;
    store.sweep(NOW + 9_999).await.expect("a sweep");
    let known = store.resolve(record.id, Outcome::Connected, far).await.expect("it is resolved");
    assert_eq!((known.state, known.shelf), (State::Connected, Shelf::Kept));
    assert_eq!(store.ledger().resolved, 2);
}

/// C-044: dead letters are bounded and counted; replaying one is an offer like any other.
pub async fn a_dead_letter_is_replayed_as_a_new_offer(place: &Place) {
    let bounds = Limits { dead: 2, kept: 2, records: 1, ..Limits::default() };
    let store = place.fresh(bounds).await;
    let mut dead = Vec::new();
    for n in 0..3 {
        let record = dialling(&*store, Offer { attempts_max: 1, ..offer(n) }, NOW + u64::from(n));
        let record = record.await;
        let now = NOW + u64::from(n);
        let failed = store.settle(record.id, record.epoch, outcome(Outcome::Failed), now).await;
        dead.push(failed.expect("it is settled").id);
    }
    let shelf = Query { shelf: Some(Shelf::Dead), ..ALL };
    let kept = |records: Vec<Record>| records.iter().map(|record| record.id).collect::<Vec<_>>();
    assert_eq!(store.list(shelf.clone()).await.map(kept), Ok(dead[1..].to_vec()));
    assert_eq!(store.ledger().dead_dropped, 1);
    let replay = |n: u32, id| Offer { replays: Some(IdText(id)), ..offer(n) };
    assert_eq!(store.accept(replay(0, dead[0]), NOW + 9).await, Err(Refused::NotFound));
    let id = accepted(&*store, replay(1, dead[1]), NOW + 9).await;
    assert_ne!(id, dead[1]);
    // It passed the bounds, so the next one does not; and what was replayed cannot be again.
    let full = store.accept(replay(2, dead[2]), NOW + 9).await;
    assert_eq!(full, Err(Refused::Full(Full::Records)));
    store.cancel(id, NOW + 9).await.expect("it is cancelled");
    assert_eq!(store.accept(replay(1, dead[1]), NOW + 9).await, Err(Refused::NotDead));
    let counts = store.counts().await.expect("counts");
    assert_eq!((counts.dead, store.ledger().replayed), (1, 1));
}

/// C-030, X-10: expiry is a state of its own, at its own time, of whatever is not being dialled.
pub async fn time_alone_is_enough(place: &Place) {
    let store = place.fresh(Limits::default()).await;
    let early = Offer { not_before_ms: NOW + 100, expires_ms: NOW + 200, ..offer(1) };
    let id = accepted(&*store, early, NOW).await;
    let state = || async { store.get(id).await.expect("a read").expect("it").state };
    assert_eq!(state().await, State::Accepted);
    assert_eq!(store.sweep(NOW + 99).await.expect("a sweep"), Default::default());
    assert_eq!(store.sweep(NOW + 100).await.expect("a sweep").due, 1);
    assert_eq!(state().await, State::Due);
    store.sweep(NOW + 200).await.expect("a sweep");
    assert_eq!(state().await, State::Due);
    let held = claimed(&*store, NOW + 200).await;
    let late = store.start_dialling(id, held.epoch, NOW + 201).await;
    assert_eq!(late, Err(Refused::Expired { at_ms: NOW + 200 }));
    assert_eq!(store.sweep(NOW + 201).await.expect("a sweep").expired, 1);
    assert_eq!(state().await, State::Expired);
    let query = Query { states: vec![State::Expired, State::Failed], ..ALL };
    assert_eq!(store.list(query).await.expect("a list").len(), 1);
}

/// C-018: everything can be seen, page by page.
pub async fn the_list_is_paged(place: &Place) {
    let bounds = Limits { records: 2_000, tenant: 2_000, ..Limits::default() };
    let store = place.fresh(bounds).await;
    let many = BATCH_MAX as u32 + 20;
    let asked: Vec<_> = (0..many).map(|n| store.accept(offer(n), NOW + u64::from(n % 7))).collect();
    for asked in asked {
        asked.await.expect("it is accepted");
    }
    let mut query = Query { limit: 10_000, tenant: Some("acme".to_owned()), ..ALL };
    let mut seen = Vec::new();
    loop {
        let page = store.list(query.clone()).await.expect("a page");
        let Some(last) = page.last() else { break };
        query.after = Some(last.id);
        assert!(page.len() <= BATCH_MAX);
        seen.extend(page.iter().map(|record| record.offer.destination.clone()));
    }
    seen.sort();
    let mut wanted: Vec<String> = (0..many).map(number).collect();
    wanted.sort();
    assert_eq!(seen, wanted);
    query.after = None;
    query.tenant = Some("nobody".to_owned());
    assert_eq!(store.list(query).await, Ok(Vec::new()));
}

/// C-050, invariant 11: a store that is behind says so at once, and loses nobody's answer.
pub async fn a_full_inbox_is_an_answer(place: &Place) {
    let bounds = Limits { records: 5_000, tenant: 5_000, inbox: 4, ..Limits::default() };
    let store = place.fresh(bounds).await;
    let asked: Vec<_> = (0..2_000).map(|n| store.accept(offer(n), NOW)).collect();
    let (mut taken, mut full) = (0, 0);
    for asked in asked {
        match asked.await {
            Ok(_) => taken += 1,
            Err(Refused::Full(Full::Inbox)) => full += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(taken + full, 2_000);
    assert!(taken > 0 && full > 0, "{taken} taken, {full} full");
    assert_eq!(store.counts().await.expect("counts").open, taken);
    let ledger = store.ledger();
    assert_eq!((ledger.offered, ledger.accepted), (2_000, taken));
}

fn handoff(call: u32, target: &str) -> HandoffOffer {
    HandoffOffer {
        tenant: "acme".to_owned(),
        target: target.to_owned(),
        call: format!("call-{call}"),
        incarnation: "test".to_owned(),
        why: "the opening hours".to_owned(),
        language: "en".to_owned(),
        born_ms: NOW,
        acknowledge_by_ms: NOW + 100,
        connect_by_ms: NOW + 200,
    }
}

/// only an acknowledgement on record is one, it comes once, and only in time.
pub async fn a_handoff_is_acknowledged_once_and_in_time(place: &Place) {
    let store = place.fresh(Limits::default()).await;
    let id = store.offer_handoff(handoff(1, "desk"), NOW).await.expect("it is offered").id;
    let is = |state| Refused::HandoffIs { state };
    let early = store.end_handoff(id, HandoffState::Connected, NOW).await;
    assert_eq!(early, Err(is(HandoffState::Offered)));
    let acknowledge = |by: &str, now| store.acknowledge(id, by.to_owned(), now);
    let nobody = acknowledge(" ", NOW).await;
    assert_eq!(nobody.map_err(|refused| refused.label()), Err("bad_request"));
    assert_eq!(acknowledge("ann", NOW + 101).await, Err(Refused::Expired { at_ms: NOW + 100 }));
    assert_eq!(acknowledge("ann", NOW + 100).await.expect("it is in time").id(), id);
    assert_eq!(acknowledge("bob", NOW + 100).await, Err(is(HandoffState::Acknowledged)));
    drop(store);
    let store = place.open(Limits::default()).await;
    let found = store.handoff(HandoffAsk::Get(id), NOW).await.expect("a read");
    assert_eq!((found[0].state, &*found[0].by), (HandoffState::Acknowledged, "ann"));
    assert_eq!(found[0].offer, handoff(1, "desk"));
    let done = store.end_handoff(id, HandoffState::Connected, NOW + 150).await;
    assert_eq!(done.expect("they speak").state, HandoffState::Connected);
    let twice = store.end_handoff(id, HandoffState::CallerLeft, NOW + 150).await;
    assert_eq!(twice, Err(is(HandoffState::Connected)));
}

/// bounded, one a call, and ended by time where nobody ends it.
pub async fn handoffs_are_bounded_and_end(place: &Place) {
    let bounds = Limits {
        handoffs: 3,
        handoffs_tenant: 2,
        handoffs_target: 1,
        handoffs_kept: 2,
        ..Limits::default()
    };
    let store = place.fresh(bounds).await;
    let offer = |offer| store.offer_handoff(offer, NOW);
    let first = offer(handoff(1, "a")).await.expect("it is offered").id;
    let same = offer(handoff(1, "b")).await;
    assert_eq!(same, Err(Refused::HandoffOpen { existing: first }));
    assert_eq!(offer(handoff(2, "a")).await, Err(Refused::DestinationFull));
    let second = offer(handoff(2, "b")).await.expect("it is offered").id;
    assert_eq!(offer(handoff(3, "c")).await, Err(Refused::TenantFull));
    let other = |n, to| HandoffOffer { tenant: format!("t{n}"), ..handoff(n, to) };
    let third = offer(other(3, "c")).await.expect("it is offered").id;
    assert_eq!(offer(other(4, "d")).await, Err(Refused::Full(Full::Records)));
    let bad = HandoffOffer { target: String::new(), ..other(4, "d") };
    assert_eq!(offer(bad).await.map_err(|refused| refused.label()), Err("bad_request"));
    let late = store.offer_handoff(other(4, "d"), NOW + 101).await;
    assert_eq!(late, Err(Refused::Expired { at_ms: NOW + 100 }));

    store.acknowledge(second, "ann".to_owned(), NOW).await.expect("it is in time");
    store.end_handoff(third, HandoffState::CallerLeft, NOW + 1).await.expect("they left");
    let store = &store;
    let sweep = |now| async move {
        let over = store.handoff(HandoffAsk::Sweep, now).await.expect("a sweep");
        over.iter().map(|handoff| (handoff.id, handoff.state)).collect::<Vec<_>>()
    };
    assert_eq!(sweep(NOW + 100).await, []);
    assert_eq!(sweep(NOW + 101).await, [(first, HandoffState::Timeout)]);
    assert_eq!(sweep(NOW + 200).await, []);
    assert_eq!(sweep(NOW + 201).await, [(second, HandoffState::Timeout)]);
    let list = |open| store.handoff(HandoffAsk::List { open, tenant: None }, NOW);
    assert_eq!(list(true).await, Ok(Vec::new()));
    let all = list(false).await.expect("a list").iter().map(|one| one.id).collect::<Vec<_>>();
    assert!(all.len() == 2 && !all.contains(&third), "the oldest is forgotten: {all:?}");
}

/// However many newer ones others have, a tenant's own are listed.
pub async fn a_tenants_handoffs_are_listed_beside_everybodys(place: &Place) {
    let many = BATCH_MAX as u64 + 1;
    let bounds = Limits {
        handoffs: many,
        handoffs_tenant: many,
        handoffs_target: many,
        ..Limits::default()
    };
    let store = place.fresh(bounds).await;
    let of = |tenant: &str, n| HandoffOffer { tenant: tenant.to_owned(), ..handoff(n, "a") };
    let own = store.offer_handoff(of("own", 0), NOW).await.expect("it is offered").id;
    let others: Vec<_> =
        (1..many as u32).map(|n| store.offer_handoff(of("other", n), NOW + 1)).collect();
    for other in others {
        other.await.expect("it is offered");
    }
    for open in [true, false] {
        let list = |tenant: Option<&str>| {
            let tenant = tenant.map(str::to_owned);
            store.handoff(HandoffAsk::List { open, tenant }, NOW)
        };
        let found = list(Some("own")).await.expect("a list");
        assert_eq!(found.iter().map(|one| one.id).collect::<Vec<_>>(), [own]);
        assert_eq!(list(Some("nobody")).await, Ok(Vec::new()));
        assert_eq!(list(None).await.expect("a list").len(), BATCH_MAX);
    }
}

/// C-035, invariant 11: offers that come together do not all find the last place.
pub async fn a_bound_holds_for_offers_that_come_together(place: &Place) {
    let bounds = Limits { records: 50, destination: 1, ..Limits::default() };
    let store = place.fresh(bounds).await;
    let tenant = |n: u32| Offer { tenant: format!("t{n}"), ..offer(n % 100) };
    let asked: Vec<_> = (0..400).map(|n| store.accept(tenant(n), NOW)).collect();
    let mut taken = 0;
    for asked in asked {
        taken += u32::from(asked.await.is_ok());
    }
    assert_eq!(taken, 50);
    assert_eq!(store.counts().await.expect("counts").open, 50);
}
