//! What watches a gate: shadows, the decision log, changes on trial; and claims on a later stage.

use std::collections::BTreeMap;

use floorkeeper::admission::gate::Pressure;
use floorkeeper::admission::limits::{
    ClassRule, CloseMode, Fairness, Limits, Mode, Overflow, Slots,
};
use floorkeeper::admission::log::{Act, Line, Log, Said, Told};
use floorkeeper::admission::rerun::rerun;
use floorkeeper::admission::trial::{Breach, Criterion, Verdict};
use floorkeeper::admission::*;
use floorkeeper::cli::replay::replay;
use floorkeeper::evidence::{Evidence, Unknown};
use floorkeeper::id::*;
use floorkeeper::runtime::decisions;
use floorkeeper::time::{Timestamp, ms};
use proptest::prelude::*;
use proptest::test_runner::Config;

const DONE: Release = Release::Completed(Evidence::Completed);

fn at(now_ms: u64) -> Timestamp {
    Timestamp::from_millis(now_ms)
}

fn offer(id: u64, owner: u64, born_ms: u64, life_ms: u64) -> Offer {
    Offer {
        tenant: TenantId(owner as u32),
        ..Offer::plain(OfferId(id), OwnerId(owner), at(born_ms), at(born_ms) + ms(life_ms))
    }
}

/// A watched gate, and the leases and tickets that its callers hold.
struct Desk {
    gate: Watched,
    leases: BTreeMap<u64, Lease>,
    tickets: BTreeMap<u64, Ticket>,
    wakes: Vec<Wake>,
    generations: [u64; 3],
}

impl Desk {
    fn new(limits: Limits) -> Self {
        let gate = Watched::new(Stage::Model, limits);
        let (leases, tickets) = (BTreeMap::new(), BTreeMap::new());
        let mut desk = Desk { gate, leases, tickets, wakes: Vec::new(), generations: [0; 3] };
        desk.gate.keep_log(100_000);
        desk
    }

    fn register(&mut self) {
        for owner in 0..3 {
            self.rotate(0, owner, 0);
        }
    }

    fn rotate(&mut self, now_ms: u64, owner: usize, generation: u64) {
        self.generations[owner] = generation;
        let (owner, generation) = (OwnerId(owner as u64), Generation(generation));
        let why = Cancelled::BargeIn;
        let _ = self.gate.rotate(at(now_ms), owner, generation, why, &mut self.wakes);
        self.hear();
    }

    fn offer(&mut self, now_ms: u64, mut offer: Offer) -> &'static str {
        offer.generation = Generation(self.generations[offer.owner.0 as usize]);
        let id = offer.id.0;
        let word = match self.gate.offer(at(now_ms), offer, &mut self.wakes) {
            Answer::Admitted(lease) => {
                self.leases.insert(id, lease);
                "admitted"
            }
            Answer::Queued(ticket) => {
                self.tickets.insert(id, ticket);
                "queued"
            }
            Answer::Refused(refusal) => refusal.reason.disposition().label,
        };
        self.hear();
        word
    }

    fn settle(&mut self, now_ms: u64, id: u64, release: Release) {
        let lease = self.leases.remove(&id).expect("it is held");
        let _ = self.gate.settle(at(now_ms), lease, release, &mut self.wakes);
        self.hear();
    }

    fn hear(&mut self) {
        for wake in self.wakes.drain(..) {
            if let Wake::Granted { lease, .. } = wake {
                self.leases.insert(lease.offer.0, lease);
            }
        }
        self.gate.audit().expect("the account balances");
    }
}

/// The log as the server writes it.
fn as_text(limits: &Limits, log: &Log) -> String {
    let first = decisions::opening(Stage::Model, limits);
    let lines = log.lines().map(decisions::line);
    std::iter::once(first).chain(lines).map(|line| format!("{line}\n")).collect()
}

#[derive(Clone, Debug)]
enum Op {
    Offer { owner: u64, life: u64, cost: u32, class: u16, key: Option<u64>, retry: Option<u64> },
    Settle { nth: usize, unknown: bool },
    Cancel { nth: usize },
    Withdraw { nth: usize },
    Rotate { owner: usize },
    Evidence { nth: u64 },
    Expire,
    Slots { slots: u32 },
}

fn op(changes: bool) -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => (0..3u64, 0..60u64, 1..4u32, 0..3u16, any::<u8>()).prop_map(
            |(owner, life, cost, class, odd)| Op::Offer {
                owner,
                life,
                cost: if odd % 5 == 0 { cost } else { 1 },
                class,
                key: (odd % 2 == 0).then_some(u64::from(odd % 3)),
                retry: (odd % 7 == 0).then_some(u64::from(odd)),
            },
        ),
        8 => (any::<usize>(), 0..8u8).prop_map(|(nth, how)| Op::Settle { nth, unknown: how == 0 }),
        1 => any::<usize>().prop_map(|nth| Op::Cancel { nth }),
        1 => any::<usize>().prop_map(|nth| Op::Withdraw { nth }),
        1 => (0..3usize).prop_map(|owner| Op::Rotate { owner }),
        2 => any::<u64>().prop_map(|nth| Op::Evidence { nth }),
        3 => Just(Op::Expire),
        u32::from(changes) => (0..5u32).prop_map(|slots| Op::Slots { slots }),
    ]
}

fn run(desk: &mut Desk, ops: Vec<(u64, Op)>) -> u64 {
    let (mut now, mut id) = (0, 0_u64);
    for (wait, op) in ops {
        now += wait;
        match op {
            Op::Offer { owner, life, cost, class, key, retry } => {
                id += 1;
                desk.offer(
                    now,
                    Offer {
                        cost,
                        class: ClassId(class),
                        supersedes: key,
                        retry_of: retry.map(|back| OfferId(id.saturating_sub(back % 20))),
                        ..offer(id, owner, now, life)
                    },
                );
            }
            Op::Settle { nth, unknown } if !desk.leases.is_empty() => {
                let held = *desk.leases.keys().nth(nth % desk.leases.len()).unwrap();
                let cause = Release::Unknown(Unknown::CancelTimeout);
                desk.settle(now, held, if unknown { cause } else { DONE });
            }
            Op::Cancel { nth } if !desk.leases.is_empty() => {
                let lease = desk.leases.values().nth(nth % desk.leases.len()).unwrap();
                desk.gate.cancel(at(now), lease, Cancelled::Client);
            }
            Op::Withdraw { nth } if !desk.tickets.is_empty() => {
                let held = *desk.tickets.keys().nth(nth % desk.tickets.len()).unwrap();
                let ticket = desk.tickets.remove(&held).unwrap();
                let why = Cancelled::HangUp;
                let _ = desk.gate.withdraw(at(now), ticket, why, &mut desk.wakes);
            }
            Op::Settle { .. } | Op::Cancel { .. } | Op::Withdraw { .. } => {}
            Op::Rotate { owner } => desk.rotate(now, owner, desk.generations[owner] + 1),
            Op::Evidence { nth } => {
                let offer = OfferId(nth % (id + 1));
                desk.gate.evidence(at(now), offer, Evidence::Operator, &mut desk.wakes);
            }
            Op::Expire => desk.gate.expire(at(now), &mut desk.wakes),
            Op::Slots { slots } => {
                let limits = Limits { slots: Slots::Units(slots), ..desk.gate.limits().clone() };
                desk.gate.set_limits(at(now), limits, &mut desk.wakes);
            }
        }
        desk.hear();
    }
    now
}

/// Limits of every kind there is.
fn limits() -> impl Strategy<Value = Limits> {
    let fairness = prop_oneof![
        Just(Fairness::Fifo),
        (20..=100u8).prop_map(|tenant_share_pct| Fairness::HardCap { tenant_share_pct }),
        Just(Fairness::Fair),
    ];
    let modes =
        prop_oneof![8 => Just(Mode::Enforce), 1 => Just(Mode::Observe), 1 => Just(Mode::Off)];
    let overflow =
        prop_oneof![Just(Overflow::Reject), Just(Overflow::Replace), Just(Overflow::Shed)];
    let classes = proptest::option::of((0..3u32, 0..200u8));
    let aging_ms = proptest::option::of(0..30u64);
    (1..5u32, 0..6u32, fairness, modes, overflow, classes, aging_ms).prop_map(
        |(slots, queue, fairness, mode, overflow, class, aging_ms)| {
            let rule = |(reserved, rank)| ClassRule { class: ClassId(1), reserved, rank };
            let classes = class.map(rule).into_iter().collect();
            let of = Limits::of(slots, queue);
            Limits { fairness, mode, overflow, classes, aging_ms, max_wait_ms: 40, ..of }
        },
    )
}

proptest! {
    #![proptest_config(Config { cases: 300, failure_persistence: None, ..Config::default() })]

    /// The surest thing to know of a shadow: with the gate's own limits it is the gate.
    #[test]
    fn a_shadow_with_the_same_limits_sees_what_happens(
        limits in limits(),
        ops in proptest::collection::vec((0..20u64, op(false)), 1..100),
    ) {
        let mut desk = Desk::new(limits.clone());
        prop_assert!(desk.gate.add_shadow(limits));
        desk.register();
        let now = run(&mut desk, ops);
        desk.gate.expire(at(now), &mut desk.wakes);
        let account = desk.gate.ledger().total().clone();
        prop_assert_eq!(&desk.gate.shadow_reports()[0].account, &account);
    }

    /// The log holds every input and every answer, so a new gate says the same.
    #[test]
    fn a_log_runs_again_line_for_line(
        limits in limits(),
        ops in proptest::collection::vec((0..20u64, op(true)), 1..100),
    ) {
        let mut desk = Desk::new(limits.clone());
        desk.register();
        run(&mut desk, ops);
        let log = desk.gate.log().unwrap();
        prop_assert_eq!(rerun(Stage::Model, limits.clone(), log.lines()).unwrap(), log.written());
        let report = replay(as_text(&limits, log).as_bytes()).unwrap();
        prop_assert_eq!(report.to_string(), format!("{} operations, 0 mismatches", log.written()));
    }
}

#[test]
fn a_log_that_was_tampered_with_is_found_out() {
    let mut desk = Desk::new(Limits::of(1, 1));
    desk.register();
    desk.offer(0, offer(1, 0, 0, 100));
    desk.offer(0, offer(2, 1, 0, 100));
    desk.settle(5, 1, DONE);
    let mut lines: Vec<_> = desk.gate.log().unwrap().lines().cloned().collect();
    assert_eq!(lines.last().unwrap().told, [Told::Granted(OfferId(2))]);
    assert_eq!(rerun(Stage::Model, Limits::of(1, 1), &lines).unwrap(), 6);
    lines.last_mut().unwrap().told.clear();
    let differs = rerun(Stage::Model, Limits::of(1, 1), &lines).unwrap_err();
    assert!(differs.to_string().starts_with("line 5: Settle("), "{differs}");
    let other_limits = rerun(Stage::Model, Limits::of(2, 1), &lines).unwrap_err();
    assert!(matches!(&other_limits.act, Act::Offer(offer) if offer.id == OfferId(2)));
}

#[test]
fn every_act_and_every_limit_is_the_same_after_it_was_written_and_read() {
    let limits = Limits {
        slots: Slots::Unlimited,
        mode: Mode::Observe,
        overflow: Overflow::Shed,
        fairness: Fairness::HardCap { tenant_share_pct: 30 },
        adaptive: true,
        classes: vec![ClassRule { class: ClassId(3), reserved: 2, rank: 7 }],
        aging_ms: Some(9),
        ..Limits::of(1, 5)
    };
    let offer = Offer { retry_of: Some(OfferId(4)), supersedes: Some(5), ..offer(1, 2, 3, 4) };
    let id = OfferId(6);
    let acts = [
        Act::Offer(offer.clone()),
        Act::Claim(offer),
        Act::Confirm(id),
        Act::Withdraw(id, Cancelled::HangUp),
        Act::Extend(id),
        Act::Cancel(id, Cancelled::Superseded),
        Act::Settle(id, Release::Failed(Evidence::StreamClosedByBackend)),
        Act::Settle(id, Release::Unknown(Unknown::ConnectionLost)),
        Act::Evidence(id, Evidence::Operator),
        Act::Rotate(OwnerId(7), Generation(8), Cancelled::BargeIn),
        Act::Forget(OwnerId(9)),
        Act::HandOn(OfferId(7)),
        Act::Expire,
        Act::Close(Closed::Maintenance, CloseMode::EndQueue),
        Act::Open,
        Act::Limits(limits),
        Act::Adaptive(Some(3)),
        Act::Adaptive(None),
        Act::Pressure(Pressure::Refuse),
    ];
    for act in acts {
        let (now, said, told) = (at(5), Said::Nothing, Vec::new());
        let line = decisions::line(&Line { seq: 0, now, act: act.clone(), said, told });
        assert_eq!(decisions::act_of(&line).unwrap(), (now, act), "{line}");
    }
}

#[test]
fn a_line_that_is_no_decision_is_told_with_its_number_and_what_would_be_right() {
    let first = decisions::opening(Stage::Model, &Limits::of(1, 1)).to_string();
    let cases = [
        (r#"{"act":"jump","now_us":1}"#, "2: unknown act `jump`"),
        (r#"{"act":"open"}"#, "2: `now_us` is null; it must be a whole number in its range"),
        (
            r#"{"act":"cancel","now_us":1,"id":1,"why":"boredom"}"#,
            "2: `why` is \"boredom\"; it must be one of barge_in, superseded, client, hang_up, drain",
        ),
    ];
    for (line, sentence) in cases {
        let error = replay(format!("{first}\n{line}").as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with(sentence), "{error}");
    }
    let error = replay(r#"{"decisions":"model","limits":{}}"#.as_bytes()).unwrap_err().to_string();
    assert_eq!(error, "1: limits: `fairness` is null; it must be one of fifo, hard_cap, fair");
}

#[test]
fn a_log_keeps_only_its_last_lines_and_counts_all() {
    let mut desk = Desk::new(Limits::of(1, 0));
    desk.gate.keep_log(3);
    desk.register();
    for id in 0..10 {
        desk.offer(0, offer(id, 0, 0, 100));
    }
    let log = desk.gate.log().unwrap();
    assert_eq!((log.lines().count(), log.written()), (3, 13));
    assert_eq!(log.since(12).count(), 1);
    // A pass that finds nothing writes nothing.
    desk.gate.expire(at(1), &mut desk.wakes);
    assert_eq!(desk.gate.log().unwrap().written(), 13);
}

#[test]
fn shadows_say_whom_other_limits_would_have_kept_waiting_and_for_how_long() {
    let mut desk = Desk::new(Limits::of(4, 0));
    desk.gate.add_shadow(Limits::of(2, 4));
    desk.gate.add_shadow(Limits::of(2, 0));
    desk.register();
    for id in 1..=4 {
        assert_eq!(desk.offer(0, offer(id, 0, 0, 60_000)), "admitted");
    }
    for id in 1..=4 {
        desk.settle(1_000, id, DONE);
    }
    desk.gate.expire(at(5_000), &mut desk.wakes);
    let [queue, none] = &desk.gate.shadow_reports()[..] else { panic!("two were added") };
    assert_eq!(queue.account.ended_as(Terminal::Completed), 4);
    assert_eq!((queue.waits.count(), queue.waits.max_ms(), queue.waits.mean_ms()), (4, 1_000, 500));
    assert_eq!(queue.waits.percentile_ms(50), 0);
    assert_eq!(queue.waits.percentile_ms(95), 1_000);
    assert_eq!((none.account.refused_total(), none.account.ever_admitted), (2, 2));
}

#[test]
fn a_larger_shadow_takes_what_was_refused_and_holds_it_as_long_as_the_rest() {
    let mut desk = Desk::new(Limits::of(1, 0));
    desk.gate.add_shadow(Limits::of(2, 0));
    desk.register();
    desk.offer(0, offer(1, 0, 0, 60_000));
    desk.settle(800, 1, DONE);
    desk.offer(1_000, offer(2, 0, 1_000, 60_000));
    assert_eq!(desk.offer(1_000, offer(3, 0, 1_000, 60_000)), "overloaded");
    assert_eq!(desk.gate.shadow_reports()[0].active_units, 2);
    desk.gate.expire(at(1_799), &mut desk.wakes);
    assert_eq!(desk.gate.shadow_reports()[0].active_units, 2);
    desk.gate.expire(at(1_800), &mut desk.wakes);
    assert_eq!(desk.gate.shadow_reports()[0].active_units, 1);
}

fn criterion() -> Criterion {
    Criterion {
        queue_age_p95_ms: None,
        refused_pct: None,
        cleanup_pending: None,
        failed_pct: None,
        window_ms: 60_000,
        at_least: 10,
    }
}

/// A-018.
#[test]
fn a_change_that_refuses_too_many_is_undone_by_itself() {
    let mut desk = Desk::new(Limits::of(8, 0));
    desk.register();
    let limits = Criterion { refused_pct: Some(20), ..criterion() };
    desk.gate.try_limits(at(0), Limits::of(2, 0), limits, &mut desk.wakes);
    for id in 1..=9 {
        desk.offer(100, offer(id, 0, 100, 1_000));
        desk.gate.expire(at(100), &mut desk.wakes);
        assert_eq!(desk.gate.verdict(), Some(Verdict::Running), "nine offers say nothing yet");
    }
    desk.offer(200, offer(10, 0, 200, 1_000));
    desk.gate.expire(at(200), &mut desk.wakes);
    let breach = Breach { measure: "refused_pct", seen: 80, limit: 20 };
    assert_eq!(desk.gate.verdict(), Some(Verdict::Undone(breach)));
    assert_eq!(desk.gate.limits(), &Limits::of(8, 0));
    assert_eq!(desk.offer(201, offer(11, 0, 201, 1_000)), "admitted");
}

#[test]
fn a_change_that_makes_people_wait_too_long_is_undone_and_the_waiting_are_let_through() {
    let mut desk = Desk::new(Limits { max_wait_ms: 60_000, ..Limits::of(2, 4) });
    desk.register();
    let watch = Criterion { queue_age_p95_ms: Some(4_000), ..criterion() };
    let tight = Limits { max_wait_ms: 60_000, ..Limits::of(1, 4) };
    desk.gate.try_limits(at(0), tight, watch, &mut desk.wakes);
    desk.offer(0, offer(1, 0, 0, 60_000));
    desk.offer(0, offer(2, 0, 0, 60_000));
    for second in 0..5 {
        desk.gate.expire(at(second * 1_000), &mut desk.wakes);
        assert_eq!(desk.gate.verdict(), Some(Verdict::Running));
    }
    desk.gate.expire(at(5_000), &mut desk.wakes);
    assert!(matches!(desk.gate.verdict(), Some(Verdict::Undone(b)) if b.seen == 5_000));
    desk.hear();
    assert_eq!(desk.leases.len(), 2);
}

#[test]
fn a_change_that_does_no_harm_stays_when_its_window_is_over() {
    let mut desk = Desk::new(Limits::of(8, 0));
    desk.register();
    let watch = Criterion { cleanup_pending: Some(1), failed_pct: Some(5), ..criterion() };
    desk.gate.try_limits(at(0), Limits::of(2, 0), watch, &mut desk.wakes);
    desk.gate.expire(at(60_000), &mut desk.wakes);
    assert_eq!(desk.gate.verdict(), Some(Verdict::Running));
    desk.gate.expire(at(60_001), &mut desk.wakes);
    assert_eq!(desk.gate.verdict(), Some(Verdict::Kept));
    assert_eq!(desk.gate.limits(), &Limits::of(2, 0));
}

#[test]
fn a_second_trial_goes_back_to_the_last_limits_that_proved_themselves() {
    let mut desk = Desk::new(Limits::of(8, 0));
    desk.register();
    let watch = Criterion { cleanup_pending: Some(0), ..criterion() };
    desk.gate.try_limits(at(0), Limits::of(4, 0), watch, &mut desk.wakes);
    desk.gate.try_limits(at(1), Limits::of(2, 0), watch, &mut desk.wakes);
    desk.offer(2, offer(1, 0, 2, 1_000));
    desk.rotate(3, 0, 1);
    desk.gate.expire(at(4), &mut desk.wakes);
    assert!(matches!(desk.gate.verdict(), Some(Verdict::Undone(_))));
    assert_eq!(desk.gate.limits(), &Limits::of(8, 0));
}
