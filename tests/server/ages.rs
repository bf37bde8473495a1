//! Age at the gates of a server: a starved class is seen by it while depth is flat, and a timer
//! that fires late changes nothing about who was too old.

use std::time::Duration;

use floorkeeper::admission::adaptive::Law;
use floorkeeper::admission::limits::{ClassRule, Limits};
use floorkeeper::admission::{
    Admit, Answer, Cancelled, Lease, Offer, OwnerId, Release, Terminal, Wake,
};
use floorkeeper::evidence::Evidence;
use floorkeeper::id::{ClassId, Generation, Stage, TenantId};
use floorkeeper::runtime::gates::OwnerGates;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::client::Client;
use crate::http;
use crate::rig::{LIMIT, Rig, eventually};

/// Somebody who asks the model's gate without a call.
struct Asker {
    gates: OwnerGates,
    wakes: mpsc::Receiver<Wake>,
    owner: OwnerId,
}

impl Asker {
    fn at(rig: &Rig) -> Asker {
        let (control, wakes) = mpsc::channel(16);
        let mut gates = rig.service().gates.for_owner(control);
        let owner = OwnerId(u64::MAX);
        gates.rotate(rig.service().clock.now(), owner, Generation(0), Cancelled::Client);
        Asker { gates, wakes, owner }
    }

    fn offer(&mut self, rig: &Rig, class: ClassId, waits: Duration) -> (u64, Answer) {
        let now = rig.service().clock.now();
        let id = self.gates.name_offer();
        let offer = Offer {
            id,
            owner: self.owner,
            generation: Generation(0),
            born: now,
            deadline: now + waits,
            tenant: TenantId(0),
            class,
            cost: 1,
            bytes: 0,
            retry_of: None,
            supersedes: None,
        };
        (id.0, self.gates.ask(now, Stage::Model, offer))
    }

    fn admitted(&mut self, rig: &Rig, class: ClassId) -> Lease {
        match self.offer(rig, class, LIMIT) {
            (_, Answer::Admitted(lease)) => lease,
            (_, other) => panic!("the gate is empty: {other:?}"),
        }
    }

    fn queued(&mut self, rig: &Rig, class: ClassId, waits: Duration) -> u64 {
        match self.offer(rig, class, waits) {
            (id, Answer::Queued(_ticket)) => id,
            (_, other) => panic!("the gate is full: {other:?}"),
        }
    }

    fn give_back(&mut self, rig: &Rig, lease: Lease) {
        let now = rig.service().clock.now();
        let settled = self.gates.settle(now, lease, Release::Completed(Evidence::NeverStarted));
        assert!(matches!(settled, floorkeeper::admission::Settled::Released(_)), "{settled:?}");
    }

    async fn wake(&mut self) -> Wake {
        let wake = tokio::time::timeout(LIMIT, self.wakes.recv()).await;
        wake.expect("a wake in time").expect("the gates live")
    }

    async fn granted(&mut self) -> Lease {
        match self.wake().await {
            Wake::Granted { lease, .. } => lease,
            ended => panic!("{ended:?}"),
        }
    }
}

async fn model(rig: &Rig) -> Value {
    let shown = rig.get("/v1/admission").await.json();
    let gates = shown["gates"].as_array().expect("gates").iter();
    gates.clone().find(|gate| gate["gate"] == "model").expect("the model's gate").clone()
}

/// C-018, C-051, A-132: every newer offer of the better class goes first, so that depth never
/// moves; `GET /v1/admission` shows the starved class by the age of its oldest, and the aging rule
/// ends it.
#[tokio::test]
async fn a_starved_class_is_seen_by_its_age_and_the_aging_rule_ends_it() {
    const AGING_MS: u64 = 400;
    let (better, starved) = (ClassId(1), ClassId(2));
    let rule = |class, rank| ClassRule { class, reserved: 0, rank };
    let rig = Rig::start(&[]).await;
    let limits = Limits {
        classes: vec![rule(better, 0), rule(starved, 200)],
        aging_ms: Some(AGING_MS),
        max_wait_ms: 60_000,
        ..Limits::of(1, 8)
    };
    rig.service().gates.set_limits(Stage::Model, limits, Law::default(), None);
    let mut asker = Asker::at(&rig);
    let mut running = asker.admitted(&rig, better);
    let starving = asker.queued(&rig, starved, LIMIT);
    let (mut rounds, mut last_age, mut lease) = (0, 0, None);
    while lease.is_none() {
        let newcomer = asker.queued(&rig, better, LIMIT);
        let shown = model(&rig).await;
        assert_eq!(shown["live"]["queued"], 2, "depth says nothing: {shown:#}");
        let classes = &shown["waiting"]["classes"];
        let (of_better, of_starved) = (&classes["class-1"], &classes["class-2"]);
        assert_eq!((&of_better["queued"], &of_starved["queued"]), (&1.into(), &1.into()));
        let age = of_starved["oldest_ms"].as_u64().expect("an age");
        assert!(age >= last_age && age >= of_better["oldest_ms"].as_u64().expect("an age"));
        assert_eq!(shown["live"]["oldest_age_ms"], age, "the oldest of all is the starved one");
        asker.give_back(&rig, running);
        running = asker.granted().await;
        match running.offer.0 {
            offer if offer == starving => lease = Some(newcomer),
            offer => {
                assert_eq!(offer, newcomer);
                assert!(age <= AGING_MS, "{age} ms old and passed over still");
            }
        }
        (rounds, last_age) = (rounds + 1, age);
    }
    assert!(rounds > 1, "it was never passed over");
    asker.give_back(&rig, running);
    let newcomer = asker.granted().await;
    assert_eq!(Some(newcomer.offer.0), lease, "then the order of classes holds again");
    asker.give_back(&rig, newcomer);
    rig.service().gates.forget(asker.owner);
    rig.quiet().await;
}

/// How the two that waited behind a taken unit came out, and what the ledger says of them.
async fn outcomes(stall: impl AsyncFnOnce()) -> (Vec<String>, Value) {
    let limits = ["limits.model.slots=1", "limits.model.queue=2", "limits.model.max_wait_ms=60000"];
    let rig = Rig::start(&limits).await;
    let mut asker = Asker::at(&rig);
    let class = ClassId(0);
    let running = asker.admitted(&rig, class);
    let short = asker.queued(&rig, class, Duration::from_millis(100));
    let long = asker.queued(&rig, class, LIMIT);
    stall().await;
    asker.give_back(&rig, running);
    let mut told = Vec::new();
    while told.len() < 2 {
        told.push(match asker.wake().await {
            Wake::Ended { offer, terminal: Terminal::Expired, .. } if offer.0 == short => {
                "the first expired".to_owned()
            }
            Wake::Granted { lease, .. } if lease.offer.0 == long => {
                asker.give_back(&rig, lease);
                "the second was let through".to_owned()
            }
            other => format!("{other:?}"),
        });
    }
    rig.service().gates.forget(asker.owner);
    rig.quiet().await;
    let ledger = rig.ledger("model").await;
    (told, ledger["terminal_by_kind"].clone())
}

/// the timer of one that waits fires 200 ms late, because everything stood still, and its
/// unit comes free before that. It is too old all the same, and the next in line is let through.
#[tokio::test]
async fn timers_that_fire_late_change_no_outcome() {
    let late = Duration::from_millis(300);
    let punctual = outcomes(async || tokio::time::sleep(late).await).await;
    // This blocks the thread that the server's own timers run on.
    let stalled = outcomes(async || std::thread::sleep(late)).await;
    assert_eq!(punctual, stalled);
    assert_eq!(stalled.0, ["the first expired", "the second was let through"]);
}

/// expiry is told while the only unit stays taken; nothing has to come free for it.
#[tokio::test]
async fn expiry_is_told_while_every_slot_is_held() {
    let rig = Rig::start(&["limits.model.slots=1", "limits.model.queue=2"]).await;
    let mut asker = Asker::at(&rig);
    let running = asker.admitted(&rig, ClassId(0));
    let long = asker.queued(&rig, ClassId(0), LIMIT);
    let short = asker.queued(&rig, ClassId(0), Duration::from_millis(50));
    match asker.wake().await {
        Wake::Ended { offer, terminal: Terminal::Expired, .. } => {
            assert_eq!(offer.0, short, "its own time, not that of the head of the queue");
        }
        other => panic!("{other:?}"),
    }
    let counts = rig.counts(Stage::Model);
    assert_eq!((counts.active, counts.queued), (1, 1), "busy as before, and one still waits");
    asker.give_back(&rig, running);
    let lease = asker.granted().await;
    assert_eq!(lease.offer.0, long);
    asker.give_back(&rig, lease);
    rig.service().gates.forget(asker.owner);
    rig.quiet().await;
}

/// C-011, C-018: a class keeps its units at the call gate of a running server, goes first among the
/// waiting, and is told apart by its name.
#[tokio::test]
async fn a_class_has_its_units_and_its_name() {
    let settings = [
        "class.vip.rank=50",
        "class.vip.reserved.call=1",
        "agent.gold.class=vip",
        "limits.call.slots=2",
        "limits.call.queue=4",
        "limits.call.max_wait_ms=60000",
    ];
    let rig = Rig::start(&settings).await;
    let first = Client::connect(&rig).await;
    let parked = |path: &'static str| http::knock_at(rig.serving.address, path, &[]);
    let mut plain = parked("/v1/realtime").await;
    eventually("a call of no class finds one unit kept", || match rig.counts(Stage::Call) {
        counts if counts.queued == 1 && counts.held_back == 1 => Ok(()),
        counts => Err(format!("{counts:?}")),
    })
    .await;
    let mut gold = parked("/v1/realtime?agent=gold").await;
    assert_eq!(http::answer(&mut gold).await.status, 101, "it is kept for this class");
    let shown = rig.get("/v1/admission/call").await.json();
    assert_eq!(shown["waiting"]["classes"]["default"]["queued"], 1, "{shown:#}");
    let ledger = rig.ledger("call").await;
    assert_eq!(ledger["classes"]["vip"]["active"], 1, "{ledger:#}");
    first.hang_up().await;
    assert_eq!(http::answer(&mut plain).await.status, 101);
    drop((plain, gold));
    rig.quiet().await;
}
