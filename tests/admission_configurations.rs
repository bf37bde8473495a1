//! The example configurations of B-106, and what each of them means at a gate.

use std::path::Path;
use std::time::Duration;

use floorkeeper::admission::adaptive::{Adaptive, Law, Sign};
use floorkeeper::admission::limits::{Fairness, Limits, Slots, share_of};
use floorkeeper::admission::{
    Answer, Cancelled, Gate, Lease, Offer, OfferId, OwnerId, Terminal, Wake,
};
use floorkeeper::config::{Config, GateLimits};
use floorkeeper::id::{ClassId, Generation, Stage, TenantId};
use floorkeeper::time::{Timestamp, ms};

const FOLDER: &str = "fixtures/admission/configurations";

fn load(name: &str) -> Config {
    let path = Path::new(FOLDER).join(format!("{name}.toml"));
    let home = std::iter::once(("HOME".to_owned(), "/home/ada".to_owned()));
    let config = Config::load(Some(&path), &[], home).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(config.warnings, Vec::<String>::new(), "{name} says something without effect");
    config
}

fn model(name: &str) -> GateLimits {
    load(name).limits.model
}

#[test]
fn every_example_is_tested_here() {
    let mut files: Vec<String> = std::fs::read_dir(FOLDER)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    files.sort();
    let known = ["adaptive", "headers", "raised", "share_and_warm_up", "worked_example"];
    assert_eq!(files, known.map(|name| format!("{name}.toml")));
}

#[test]
fn the_worked_example_is_sixteen_and_thirty_two_for_five_seconds() {
    let meant = model("worked_example").meant();
    assert_eq!((meant.slots, meant.queue, meant.max_wait_ms), (Slots::Units(16), 32, 5_000));
    assert_eq!(meant, Limits { queue_bytes: meant.queue_bytes, ..Limits::of(16, 32) });
}

#[test]
fn raising_the_ceiling_changes_nothing_else() {
    let raised = model("raised").meant();
    let example = model("worked_example").meant();
    assert_eq!(raised, Limits { slots: Slots::Units(24), ..example });
}

/// B-045, B-048, B-052, B-053.
#[test]
fn the_adaptive_one_moves_between_a_quarter_and_all() {
    let limits = model("adaptive");
    let (meant, law) = (limits.meant(), limits.law());
    assert_eq!((meant.slots, meant.queue, meant.adaptive), (Slots::Units(32), 64, true));
    assert_eq!((law.ttft_target_ms, law.stale_ms), (Some(2_000), 30_000));
    let (cut, floor) = slow_backend(law, meant.slots);
    assert_eq!((cut, floor), (25, 8), "four fifths at first, a quarter at last");
}

/// The ceiling after the first judgement of a backend that is always too slow, and where it ends.
fn slow_backend(law: Law, slots: Slots) -> (u32, u32) {
    let mut adaptive = Adaptive::new(law);
    let mut ceilings = Vec::new();
    for second in 1..=120 {
        let now = Timestamp::from_millis(1_000 * second);
        adaptive.saw(now, 0, Sign::FirstToken { ms: 2_500 });
        ceilings.extend(adaptive.judge(now, slots, true));
    }
    (ceilings[0], *ceilings.last().expect("judged"))
}

/// B-057, B-060.
#[test]
fn the_share_is_a_quarter_of_units_and_places() {
    let limits = model("share_and_warm_up");
    let meant = limits.meant();
    assert_eq!(meant.fairness, Fairness::HardCap { tenant_share_pct: 25 });
    assert_eq!(limits.warmup, Duration::from_secs(20));
    assert_eq!((share_of(16, 25), share_of(meant.queue, 25)), (4, 8));
    let mut desk = Desk::new(meant);
    let of_one = (0..13).map(|_| desk.offer(0, 1)).collect::<Vec<_>>();
    let words = ["admitted", "queued", "overloaded{tenant_share}"];
    let split = words.map(|word| of_one.iter().filter(|said| *said == word).count());
    assert_eq!(split, [4, 8, 1]);
    assert_eq!(desk.offer(0, 2), "admitted", "another tenant does not pay for it");
}

/// B-078.
#[test]
fn the_headers_are_on_with_sixteen() {
    let config = load("headers");
    assert_eq!(config.limits.call.meant().slots, Slots::Units(16));
    assert!(config.admission.expose_headers);
    let usual = Config::parse("", "", &[], std::iter::empty()).expect("the defaults are right");
    assert!(!usual.admission.expose_headers, "it is not the default");
}

/// B-006, B-024, B-034: the seventeenth waits, the thirty-third who would have to wait is refused;
/// each release lets in exactly one, the oldest, and a wait of five seconds is the longest.
#[test]
fn the_seventeenth_waits_and_the_thirty_third_waiter_is_refused() {
    let mut desk = Desk::new(model("worked_example").meant());
    for place in 1..=16 {
        assert_eq!(desk.offer(0, 1), "admitted", "number {place}");
    }
    for place in 17..=48 {
        assert_eq!(desk.offer(0, 1), "queued", "number {place}");
    }
    assert_eq!(desk.offer(0, 1), "overloaded{queue_full}", "the thirty-third to wait");
    assert_eq!(desk.give_back(1_000, 1), ["17 granted"]);
    assert_eq!(desk.offer(1_000, 1), "queued", "one place came free, and only one");
    assert_eq!(desk.offer(1_000, 1), "overloaded{queue_full}");
    assert_eq!(desk.expire(5_000), Vec::<String>::new(), "five seconds are not too long");
    let all_others: Vec<String> = (18..=48).map(|id| format!("{id} expired")).collect();
    assert_eq!(desk.expire(5_001), all_others, "each told by its name");
    assert_eq!(desk.gate.counts(at(5_001)).queued, 1, "the latecomer has its own five seconds");
}

fn at(now_ms: u64) -> Timestamp {
    Timestamp::from_millis(now_ms)
}

/// A gate, spoken to in words; offers are numbered from 1 on.
struct Desk {
    gate: Gate,
    leases: Vec<Lease>,
    offers: u64,
}

impl Desk {
    fn new(limits: Limits) -> Desk {
        let mut gate = Gate::new(Stage::Model, limits);
        let why = Cancelled::Client;
        let registered = gate.rotate(at(0), OwnerId(1), Generation(0), why, &mut Vec::new());
        assert!(registered.is_ok());
        Desk { gate, leases: Vec::new(), offers: 0 }
    }

    fn offer(&mut self, now_ms: u64, tenant: u32) -> String {
        self.offers += 1;
        let offer = Offer {
            id: OfferId(self.offers),
            owner: OwnerId(1),
            generation: Generation(0),
            born: at(now_ms),
            deadline: at(now_ms) + ms(60_000),
            tenant: TenantId(tenant),
            class: ClassId(0),
            cost: 1,
            bytes: 0,
            retry_of: None,
            supersedes: None,
        };
        let mut wakes = Vec::new();
        let answer = self.gate.offer(at(now_ms), offer, &mut wakes);
        assert!(wakes.is_empty(), "an offer decides for nobody else here: {wakes:?}");
        match answer {
            Answer::Admitted(lease) => {
                self.leases.push(lease);
                "admitted".to_owned()
            }
            Answer::Queued(_ticket) => "queued".to_owned(),
            Answer::Refused(refusal) => refusal.reason.disposition().to_string(),
        }
    }

    fn give_back(&mut self, now_ms: u64, offer: u64) -> Vec<String> {
        let held = self.leases.iter().position(|lease| lease.offer == OfferId(offer));
        let lease = self.leases.swap_remove(held.expect("it is held"));
        let proof = floorkeeper::evidence::Evidence::Completed;
        let release = floorkeeper::admission::Release::Completed(proof);
        let mut wakes = Vec::new();
        let _ = self.gate.settle(at(now_ms), lease, release, &mut wakes);
        self.told(wakes)
    }

    fn expire(&mut self, now_ms: u64) -> Vec<String> {
        let mut wakes = Vec::new();
        self.gate.expire(at(now_ms), &mut wakes);
        self.told(wakes)
    }

    fn told(&mut self, wakes: Vec<Wake>) -> Vec<String> {
        let word = |wake| match wake {
            Wake::Granted { lease, .. } => {
                let word = format!("{} granted", lease.offer.0);
                self.leases.push(lease);
                word
            }
            Wake::Ended { offer, terminal: Terminal::Expired, .. } => {
                format!("{} expired", offer.0)
            }
            Wake::Ended { offer, terminal, .. } => format!("{} {terminal:?}", offer.0),
        };
        wakes.into_iter().map(word).collect()
    }
}
