//! What a gate costs beside a bare semaphore; the ratios are printed at the end of the run's own
//! numbers.

use std::sync::atomic::{AtomicBool, Ordering};

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use floorkeeper::admission::limits::{Fairness, Limits, Slots};
use floorkeeper::admission::*;
use floorkeeper::evidence::Evidence;
use floorkeeper::id::*;
use floorkeeper::runtime::clock::Clock;
use floorkeeper::runtime::gates::{Gates, OwnerGates};
use floorkeeper::time::{Timestamp, ms};

const DONE: Release = Release::Completed(Evidence::Completed);

/// A gate with offers that name themselves and a clock that runs a microsecond an operation.
struct Bench {
    gate: Gate,
    wakes: Vec<Wake>,
    leases: std::collections::VecDeque<Lease>,
    tickets: Vec<Ticket>,
    owners: u64,
    id: u64,
    now: Timestamp,
}

impl Bench {
    fn new(limits: Limits, owners: u64) -> Self {
        let mut bench = Bench {
            gate: Gate::new(Stage::Model, limits),
            wakes: Vec::with_capacity(64),
            leases: std::collections::VecDeque::with_capacity(8_192),
            tickets: Vec::with_capacity(8_192),
            owners,
            id: 0,
            now: Timestamp::from_millis(1),
        };
        for owner in 0..owners {
            bench.rotate(owner, 0);
        }
        bench
    }

    fn rotate(&mut self, owner: u64, generation: u64) {
        let (owner, generation) = (OwnerId(owner), Generation(generation));
        let why = Cancelled::BargeIn;
        let rotated = self.gate.rotate(self.now, owner, generation, why, &mut self.wakes);
        rotated.expect("the generation is newer");
    }

    fn offer(&mut self, owner: u64, tenant: u32) -> bool {
        self.id += 1;
        self.now += std::time::Duration::from_micros(1);
        let offer = Offer {
            tenant: TenantId(tenant),
            bytes: 100,
            ..Offer::plain(
                OfferId(self.id),
                OwnerId(owner % self.owners),
                self.now,
                self.now + ms(3_600_000),
            )
        };
        match self.gate.offer(self.now, offer, &mut self.wakes) {
            Answer::Admitted(lease) => self.leases.push_back(lease),
            Answer::Queued(ticket) => self.tickets.push(ticket),
            Answer::Refused(_) => return false,
        }
        true
    }

    /// Settles the oldest lease and keeps what that wakes.
    fn settle(&mut self) {
        let lease = self.leases.pop_front().expect("something runs");
        let _ = self.gate.settle(self.now, lease, DONE, &mut self.wakes);
        for wake in self.wakes.drain(..) {
            if let Wake::Granted { lease, .. } = wake {
                self.leases.push_back(lease);
            }
        }
        if self.tickets.len() > 8_000 {
            self.tickets.clear();
        }
    }
}

fn limits(slots: u32, queue: u32) -> Limits {
    let queue_bytes = 1 << 40;
    Limits {
        slots: Slots::Units(slots),
        queue,
        queue_bytes,
        max_wait_ms: 3_600_000,
        ..Limits::default()
    }
}

fn cycles(c: &mut Criterion) {
    let mut group = c.benchmark_group("cycle");
    let floor = tokio::sync::Semaphore::new(64);
    group.bench_function("floor: semaphore", |b| b.iter(|| drop(floor.try_acquire())));
    let mut one = Bench::new(limits(64, 0), 1);
    group.bench_function("one owner, admitted at once", |b| {
        b.iter(|| {
            one.offer(0, 0);
            one.settle();
        });
    });
    let mut many = Bench::new(limits(64, 4_096), 10_000);
    for owner in 0..64 + 4_095 {
        many.offer(owner, 0);
    }
    let mut owner = 0;
    group.bench_function("10,000 owners, queue 4,096 deep", |b| {
        b.iter(|| {
            owner += 7_919;
            many.offer(owner, 0);
            many.settle();
        });
    });
    for fairness in [Fairness::HardCap { tenant_share_pct: 25 }, Fairness::Fair] {
        let mut tenants = Bench::new(Limits { fairness, ..limits(64, 4_096) }, 10_000);
        let mut tenant = 0;
        for owner in 0..64 + 1_000 {
            tenants.offer(owner, owner as u32 % 48);
        }
        group.bench_function(format!("48 tenants, {}", fairness.label()), |b| {
            b.iter(|| {
                tenant += 1;
                tenants.offer(tenant, tenant as u32 % 48);
                tenants.settle();
            });
        });
    }
    group.finish();
}

fn refusals(c: &mut Criterion) {
    let mut group = c.benchmark_group("refusal");
    let floor = tokio::sync::Semaphore::new(0);
    group.bench_function("floor: semaphore", |b| b.iter(|| floor.try_acquire().is_err()));
    let mut full = Bench::new(limits(1, 0), 10_000);
    full.offer(0, 0);
    group.bench_function("no queue", |b| b.iter(|| assert!(!full.offer(5, 0))));
    let mut deep = Bench::new(limits(1, 4_096), 10_000);
    while deep.offer(3, 0) {}
    group.bench_function("queue full", |b| b.iter(|| assert!(!deep.offer(5, 0))));
    group.finish();
}

fn rotations(c: &mut Criterion) {
    let mut group = c.benchmark_group("rotate");
    for others in [0, 1_000, 65_000] {
        let mut bench = Bench::new(limits(100, 65_536), 100_000);
        for owner in 0..others {
            bench.offer(1 + owner, 0);
        }
        let mut generation = 0;
        group.bench_function(format!("one owner with nothing, {others} records"), |b| {
            b.iter(|| {
                generation += 1;
                bench.rotate(0, generation);
            });
        });
    }
    group.bench_function("one owner with 4,096 waiting", |b| {
        b.iter_batched_ref(
            || {
                let mut bench = Bench::new(limits(1, 4_096), 1);
                while bench.offer(0, 0) {}
                bench
            },
            |bench| bench.rotate(0, 1),
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

fn tenants(c: &mut Criterion) {
    let fairness = Fairness::HardCap { tenant_share_pct: 25 };
    let mut churn = Bench::new(Limits { fairness, ..limits(64, 16) }, 1_000);
    let mut tenant = 0;
    c.bench_function("tenants/churn: every offer is of another tenant", |b| {
        b.iter(|| {
            tenant = (tenant + 1) % 1_000;
            churn.offer(0, tenant);
            churn.settle();
        });
    });
}

/// As the runtime shares a gate: one lock, two threads, each on owners of its own.
fn shared(c: &mut Criterion) {
    let mut group = c.benchmark_group("shared by 2 threads, one of them measured");
    let semaphore = tokio::sync::Semaphore::new(64);
    let idle = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !idle.load(Ordering::Relaxed) {
                drop(semaphore.try_acquire());
            }
        });
        group.bench_function("floor: semaphore", |b| b.iter(|| drop(semaphore.try_acquire())));
        idle.store(true, Ordering::Relaxed);
    });
    let gates = Gates::new(Clock::start(), [(Stage::Model, limits(64, 0))]);
    let idle = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut other = Caller::new(&gates, 1);
            while !idle.load(Ordering::Relaxed) {
                other.cycle();
            }
        });
        let mut caller = Caller::new(&gates, 2);
        group.bench_function("one owner, admitted at once", |b| b.iter(|| caller.cycle()));
        idle.store(true, Ordering::Relaxed);
    });
    group.finish();
}

/// From a release to the next in line having its unit: two tasks that hand one unit to and fro.
fn wakes(c: &mut Criterion) {
    let mut group = c.benchmark_group("wake");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    group.bench_function("floor: semaphore", |b| {
        b.iter_custom(|rounds| {
            let semaphore = tokio::sync::Semaphore::new(1);
            runtime.block_on(timed(rounds, async |_| {
                let permit = semaphore.acquire().await.expect("it is never closed");
                // The other side asks before this one gives back.
                tokio::task::yield_now().await;
                drop(permit);
            }))
        });
    });
    group.bench_function("through the gate", |b| {
        b.iter_custom(|rounds| {
            let gates = Gates::new(Clock::start(), [(Stage::Model, limits(1, 8))]);
            let callers = [1, 2].map(|owner| tokio::sync::Mutex::new(Caller::new(&gates, owner)));
            runtime.block_on(timed(rounds, async |side| {
                callers[side].lock().await.turn().await;
            }))
        });
    });
    group.finish();
}

/// How long both sides together take for so many turns.
async fn timed(rounds: u64, turn: impl AsyncFn(usize)) -> std::time::Duration {
    let start = tokio::time::Instant::now();
    let side = async |side| {
        for _ in 0..rounds.div_ceil(2) {
            turn(side).await;
        }
    };
    tokio::join!(side(0), side(1));
    start.elapsed()
}

/// One call as it sees the shared gates.
struct Caller {
    gates: OwnerGates,
    owner: OwnerId,
    clock: Timestamp,
    hears: tokio::sync::mpsc::Receiver<Wake>,
}

impl Caller {
    fn new(gates: &Gates, owner: u64) -> Self {
        let (control, hears) = tokio::sync::mpsc::channel(8);
        let owner = OwnerId(owner);
        let clock = gates.now();
        let mut gates = gates.for_owner(control);
        gates.rotate(clock, owner, Generation(0), Cancelled::Client);
        Caller { gates, owner, clock, hears }
    }

    fn ask(&mut self) -> Answer {
        let (id, now) = (self.gates.name_offer(), self.clock);
        let offer = Offer::plain(id, self.owner, now, now + ms(3_600_000));
        self.gates.ask(now, Stage::Model, offer)
    }

    fn cycle(&mut self) {
        if let Answer::Admitted(lease) = self.ask() {
            let _ = self.gates.settle(self.clock, lease, DONE);
        }
    }

    /// Has the unit once, however long it has to wait.
    async fn turn(&mut self) {
        let lease = match self.ask() {
            Answer::Admitted(lease) => lease,
            Answer::Queued(_) => match self.hears.recv().await {
                Some(Wake::Granted { lease, .. }) => lease,
                other => panic!("{other:?}"),
            },
            Answer::Refused(refusal) => panic!("{refusal:?}"),
        };
        // The other side asks before this one gives back.
        tokio::task::yield_now().await;
        let _ = self.gates.settle(self.clock, lease, DONE);
    }
}

criterion_group!(benches, cycles, refusals, rotations, tenants, shared, wakes);
criterion_main!(benches);
