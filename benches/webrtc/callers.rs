//! The callers: browsers' halves of calls on one thread, each with a socket of its own; what they
//! say is encoded beforehand, what they hear is not decoded.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::task::LocalSet;

use crate::caller::Caller;
use crate::figures::Counts;
use crate::process::{Busy, Spent, Usage, usage};

/// A call that is not set up by then is none.
const SETUP_MAX: Duration = Duration::from_secs(20);

/// A run's plan.
pub struct Plan<'a> {
    pub calls: usize,
    /// From one call's offer to the next one's.
    pub setup_every: Duration,
    pub warm_up: Duration,
    pub measure: Duration,
    /// The server takes turns; a floor knows none.
    pub turns: bool,
    /// One cycle of what everybody says, a packet each frame.
    pub packets: &'a [Bytes],
}

/// What was measured.
pub struct Measured {
    pub calls: usize,
    /// Within the window.
    pub spent: Spent,
    /// The server's before the first call, when all are set up, and at the end.
    pub before: Usage,
    pub set_up: Usage,
    pub end: Usage,
    pub setup_us: Vec<u32>,
    pub stats: Stats,
}

/// Counts of all calls together, within the window.
#[derive(Default)]
pub struct Stats {
    pub counts: Counts,
    pub sent: u64,
    pub received: u64,
    pub received_bytes: u64,
}

/// What the callers' tasks have in common.
pub struct Shared {
    pub start: Instant,
    /// From then on everybody speaks.
    pub speak_from: Cell<Option<Instant>>,
    /// When the warm-up ended; what came before counts for nothing.
    pub measured_from: Cell<Option<Duration>>,
    pub is_over: Cell<bool>,
    pub setup_us: RefCell<Vec<u32>>,
    pub stats: RefCell<Stats>,
}

impl Shared {
    pub fn is_measuring(&self) -> bool {
        self.measured_from.get().is_some()
    }

    pub fn complain(&self, what: &str) {
        self.stats.borrow_mut().counts.complain(what);
    }
}

/// The monotonic clock.
pub fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Holds the calls against the server on `port` and measures it.
pub fn run(port: u16, pid: u32, plan: &Plan<'_>) -> Result<Measured, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    LocalSet::new().block_on(&runtime, hold(port, pid, plan))
}

async fn hold(port: u16, pid: u32, plan: &Plan<'_>) -> Result<Measured, String> {
    let before = usage(pid)?;
    let shared = Rc::new(Shared {
        start: now(),
        speak_from: Cell::new(None),
        measured_from: Cell::new(None),
        is_over: Cell::new(false),
        setup_us: RefCell::default(),
        stats: RefCell::default(),
    });
    let packets: Rc<[Bytes]> = plan.packets.into();
    let mut tasks = Vec::new();
    let mut pace = tokio::time::interval(plan.setup_every);
    for index in 0..plan.calls {
        pace.tick().await;
        let caller = Caller::new(index, plan.turns, packets.clone(), shared.clone()).await?;
        tasks.push(tokio::task::spawn_local(caller.call(port)));
    }
    until_all_are_set_up(&shared, plan.calls).await?;
    let set_up = usage(pid)?;
    shared.speak_from.set(Some(now()));
    tokio::time::sleep(plan.warm_up).await;
    let busy = Busy::begin(pid)?;
    shared.measured_from.set(Some(shared.start.elapsed()));
    tokio::time::sleep(plan.measure).await;
    let (spent, end) = (busy.spent()?, usage(pid)?);
    shared.is_over.set(true);
    for task in tasks {
        task.await.map_err(|error| error.to_string())?;
    }
    Ok(Measured {
        calls: plan.calls,
        spent,
        before,
        set_up,
        end,
        setup_us: shared.setup_us.take(),
        stats: shared.stats.take(),
    })
}

async fn until_all_are_set_up(shared: &Shared, calls: usize) -> Result<(), String> {
    let limit = now() + SETUP_MAX;
    loop {
        let set_up = shared.setup_us.borrow().len();
        if set_up == calls {
            return Ok(());
        }
        if now() > limit {
            let complaints = &shared.stats.borrow().counts.complaints;
            return Err(format!("{set_up} of {calls} calls were set up: {complaints:?}"));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
