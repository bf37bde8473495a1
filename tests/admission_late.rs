//! whether the expiry timer fires in time, late or never, every offer comes out the same; a
//! late one is only told later.

use std::collections::BTreeMap;

use floorkeeper::admission::limits::{Fairness, Limits};
use floorkeeper::admission::{
    Answer, Cancelled, Gate, Lease, Offer, OfferId, OwnerId, Release, Wake,
};
use floorkeeper::evidence::Evidence;
use floorkeeper::id::{ClassId, Generation, Stage, TenantId};
use floorkeeper::time::{Timestamp, ms};
use proptest::prelude::*;
use proptest::test_runner::Config;

/// What happens to a gate, each after so many milliseconds.
#[derive(Clone, Debug)]
enum Deed {
    /// Somebody of this tenant comes, and can wait so long.
    Comes { tenant: u32, waits_ms: u64 },
    /// One of those that run is done.
    Ends { which: usize },
    /// The owner of this number has the floor no longer.
    Rotates { owner: u64 },
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        4 => (0..3_u32, 0..400_u64).prop_map(|(tenant, waits_ms)| Deed::Comes { tenant, waits_ms }),
        3 => (0..8_usize).prop_map(|which| Deed::Ends { which }),
        1 => (0..4_u64).prop_map(|owner| Deed::Rotates { owner }),
    ]
}

fn limits() -> impl Strategy<Value = Limits> {
    let fairness = prop_oneof![
        Just(Fairness::Fifo),
        Just(Fairness::HardCap { tenant_share_pct: 50 }),
        Just(Fairness::Fair),
    ];
    (1..4_u32, 1..6_u32, fairness).prop_map(|(slots, queue, fairness)| Limits {
        fairness,
        max_wait_ms: 300,
        ..Limits::of(slots, queue)
    })
}

/// A gate and how every offer came out.
struct World {
    gate: Gate,
    running: Vec<Lease>,
    generations: [u64; 4],
    out: BTreeMap<u64, String>,
}

impl World {
    fn new(limits: Limits) -> World {
        let mut gate = Gate::new(Stage::Model, limits);
        for owner in 0..4 {
            let (owner, why) = (OwnerId(owner), Cancelled::Client);
            let new = gate.rotate(Timestamp::ZERO, owner, Generation(0), why, &mut Vec::new());
            assert!(new.is_ok());
        }
        World { gate, running: Vec::new(), generations: [0; 4], out: BTreeMap::new() }
    }

    fn goes_to(&mut self, offer: OfferId, what: String) {
        let so_far = self.out.entry(offer.0).or_default();
        so_far.push(' ');
        so_far.push_str(&what);
    }

    fn hear(&mut self, wakes: Vec<Wake>) {
        for wake in wakes {
            match wake {
                Wake::Granted { lease, .. } => {
                    self.goes_to(lease.offer, "granted".to_owned());
                    self.running.push(lease);
                }
                Wake::Ended { offer, terminal, .. } => {
                    self.goes_to(offer, terminal.disposition().to_string());
                }
            }
        }
    }

    fn timer(&mut self, now: Timestamp) {
        let mut wakes = Vec::new();
        self.gate.expire(now, &mut wakes);
        self.hear(wakes);
    }

    fn happens(&mut self, now: Timestamp, number: u64, deed: &Deed) {
        let mut wakes = Vec::new();
        match deed {
            Deed::Comes { tenant, waits_ms } => {
                let owner = number % 4;
                let offer = Offer {
                    id: OfferId(number),
                    owner: OwnerId(owner),
                    generation: Generation(self.generations[owner as usize]),
                    born: now,
                    deadline: now + ms(*waits_ms),
                    tenant: TenantId(*tenant),
                    class: ClassId(0),
                    cost: 1,
                    bytes: 0,
                    retry_of: None,
                    supersedes: None,
                };
                let word = match self.gate.offer(now, offer, &mut wakes) {
                    Answer::Admitted(lease) => {
                        self.running.push(lease);
                        "admitted".to_owned()
                    }
                    Answer::Queued(_ticket) => "queued".to_owned(),
                    Answer::Refused(refusal) => refusal.reason.disposition().to_string(),
                };
                self.goes_to(OfferId(number), word);
            }
            Deed::Ends { .. } if self.running.is_empty() => {}
            Deed::Ends { which } => {
                // By name, so that both worlds mean the same one.
                self.running.sort_by_key(|lease| lease.offer);
                let lease = self.running.remove(which % self.running.len());
                let offer = lease.offer;
                let release = Release::Completed(Evidence::Completed);
                let settled = self.gate.settle(now, lease, release, &mut wakes);
                self.goes_to(offer, format!("{settled:?}"));
            }
            Deed::Rotates { owner } => {
                let generation = &mut self.generations[*owner as usize];
                *generation += 1;
                let (owner, generation) = (OwnerId(*owner), Generation(*generation));
                let why = Cancelled::BargeIn;
                let rotated = self.gate.rotate(now, owner, generation, why, &mut wakes);
                assert!(rotated.is_ok());
            }
        }
        self.hear(wakes);
    }
}

/// The same deeds with timers that fire so much too late; `None` is never.
fn outcomes(limits: &Limits, deeds: &[(u64, Deed)], late_ms: Option<u64>) -> World {
    let mut world = World::new(limits.clone());
    let mut now_ms = 0;
    for (number, (after_ms, deed)) in deeds.iter().enumerate() {
        let until_ms = now_ms + after_ms;
        while let (Some(late_ms), Some(due)) = (late_ms, world.gate.next_deadline()) {
            let fires_ms = due.as_millis() + 1 + late_ms;
            if fires_ms >= until_ms {
                break;
            }
            world.timer(Timestamp::from_millis(fires_ms));
            assert_ne!(world.gate.next_deadline(), Some(due), "it was due and is still there");
        }
        now_ms = until_ms;
        world.happens(Timestamp::from_millis(now_ms), number as u64, deed);
    }
    world.timer(Timestamp::from_millis(now_ms + 10_000));
    world
}

fn config(cases: u32) -> Config {
    Config { cases, failure_persistence: None, ..Config::default() }
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn timers_that_fire_late_change_no_outcome(
        limits in limits(),
        deeds in proptest::collection::vec((0..250_u64, deed()), 1..80),
    ) {
        let punctual = outcomes(&limits, &deeds, Some(0));
        for late_ms in [Some(200), None] {
            let late = outcomes(&limits, &deeds, late_ms);
            prop_assert_eq!(&punctual.out, &late.out, "{:?}", late_ms);
            prop_assert_eq!(punctual.gate.ledger().total(), late.gate.ledger().total());
        }
    }
}

/// The histories above do reach what they are about.
#[test]
fn somebody_expires_before_a_late_timer_says_so() {
    let comes = |waits_ms| Deed::Comes { tenant: 0, waits_ms };
    let deeds = [(0, comes(300)), (0, comes(50)), (0, comes(300)), (100, Deed::Ends { which: 0 })];
    for late_ms in [Some(0), Some(200), None] {
        let world = outcomes(&Limits::of(1, 4), &deeds, late_ms);
        assert_eq!(world.out[&1], " queued expired", "{late_ms:?}");
        assert_eq!(world.out[&2], " queued granted", "{late_ms:?}");
    }
}
