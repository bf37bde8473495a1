//! The endpoints behind a stage: a ceiling each, a ramp for who returns, a breaker for who fails.
//!
//! Pure, like the gate: the runtime says what happened, this says who may take the next request.

use super::limits::Slots;
use crate::time::{Timestamp, ms};

/// What an endpoint is for (B-018…B-020).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Whole requests.
    Normal,
    /// The first leg of a split request.
    Prefill,
    /// The second leg of a split request.
    Decode,
}

/// How endpoints are held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Care {
    /// A returning endpoint ramps to its ceiling for this long; 0 is at once (B-057).
    pub warmup_ms: u64,
    /// So many failures in a row open the breaker.
    pub failures: u32,
    /// An open breaker lets one request try after this long.
    pub open_ms: u64,
}

impl Default for Care {
    fn default() -> Self {
        Care { warmup_ms: 0, failures: 5, open_ms: 10_000 }
    }
}

/// One endpoint's place in its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EndpointId(pub u16);

/// Whether requests may go to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breaker {
    /// They may.
    Closed,
    /// They may not until then.
    Open {
        /// When one may try.
        until: Timestamp,
    },
    /// One tries; all others wait for how it ends.
    Trying,
}

/// How a request to an endpoint ended, as far as its breaker cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It answered.
    Answered,
    /// It failed: refused, reset, or silent past its deadline.
    Failed,
    /// It said 429 or 503, and for how long where it said so.
    PushedBack {
        /// Its `Retry-After`, in milliseconds.
        retry_after_ms: Option<u64>,
    },
    /// We gave up for reasons of our own: it says nothing about the endpoint.
    Ignored,
}

/// One endpoint.
#[derive(Clone, Copy, Debug)]
struct Endpoint {
    role: Role,
    slots: Slots,
    inflight: u32,
    up: bool,
    warm_from: Option<Timestamp>,
    breaker: Breaker,
    failures: u32,
}

/// The endpoints of one stage.
#[derive(Clone, Debug)]
pub struct Endpoints {
    care: Care,
    list: Vec<Endpoint>,
}

impl Endpoints {
    /// No endpoints.
    pub fn new(care: Care) -> Self {
        Endpoints { care, list: Vec::new() }
    }

    /// Adds an endpoint; it ramps, unless the pool begins with it.
    pub fn add(&mut self, now: Timestamp, role: Role, slots: Slots, warm: bool) -> EndpointId {
        let warm_from = (!warm).then_some(now);
        let breaker = Breaker::Closed;
        let fresh =
            Endpoint { role, slots, inflight: 0, up: true, warm_from, breaker, failures: 0 };
        self.list.push(fresh);
        EndpointId((self.list.len() - 1) as u16)
    }

    /// Takes the least loaded endpoint of this role that has room, or none: an empty pool is never
    /// 429.
    pub fn take(&mut self, now: Timestamp, role: Role) -> Option<EndpointId> {
        let mut best: Option<(u64, usize)> = None;
        for at in 0..self.list.len() {
            let Some(load) = self.load(now, at, role) else { continue };
            if best.is_none_or(|(least, _)| load < least) {
                best = Some((load, at));
            }
        }
        let (_, at) = best?;
        let endpoint = &mut self.list[at];
        endpoint.inflight += 1;
        if endpoint.breaker != Breaker::Closed {
            endpoint.breaker = Breaker::Trying;
        }
        Some(EndpointId(at as u16))
    }

    /// A unit of this endpoint is free again, on the same evidence as the gate's own, and how it
    /// went.
    pub fn give_back(&mut self, now: Timestamp, id: EndpointId, outcome: Outcome) {
        let care = self.care;
        let Some(endpoint) = self.list.get_mut(usize::from(id.0)) else { return };
        debug_assert!(endpoint.inflight > 0, "endpoint {} gave back what nobody took", id.0);
        endpoint.inflight = endpoint.inflight.saturating_sub(1);
        match outcome {
            Outcome::Answered => {
                endpoint.failures = 0;
                if endpoint.breaker != Breaker::Closed {
                    endpoint.breaker = Breaker::Closed;
                    endpoint.warm_from = Some(now);
                }
            }
            Outcome::Failed => {
                endpoint.failures += 1;
                if endpoint.breaker == Breaker::Trying || endpoint.failures >= care.failures {
                    endpoint.breaker = Breaker::Open { until: now + ms(care.open_ms) };
                }
            }
            Outcome::PushedBack { retry_after_ms: Some(wait_ms) } => {
                endpoint.breaker = Breaker::Open { until: now + ms(wait_ms) };
            }
            Outcome::PushedBack { retry_after_ms: None } => {}
            // The trial told nothing: another may try.
            Outcome::Ignored if endpoint.breaker == Breaker::Trying => {
                endpoint.breaker = Breaker::Open { until: now };
            }
            Outcome::Ignored => {}
        }
    }

    /// The endpoint went away or came back; one that comes back ramps.
    pub fn set_up(&mut self, now: Timestamp, id: EndpointId, up: bool) {
        let Some(endpoint) = self.list.get_mut(usize::from(id.0)) else { return };
        if up && !endpoint.up {
            endpoint.warm_from = Some(now);
            endpoint.breaker = Breaker::Closed;
            endpoint.failures = 0;
        }
        endpoint.up = up;
    }

    /// The ceiling of an endpoint now; none is unlimited and stays so (B-058).
    pub fn ceiling(&self, now: Timestamp, id: EndpointId) -> Option<u32> {
        self.list.get(usize::from(id.0)).and_then(|endpoint| ramped(endpoint, self.care, now))
    }

    /// How an endpoint's breaker stands.
    pub fn breaker(&self, id: EndpointId) -> Option<Breaker> {
        self.list.get(usize::from(id.0)).map(|endpoint| endpoint.breaker)
    }

    /// How many are in their ramp.
    pub fn warming(&self, now: Timestamp) -> u32 {
        self.list.iter().filter(|endpoint| is_warming(endpoint, self.care, now)).count() as u32
    }

    /// How many may take something now: `not_ready` and `no_capacity` are told apart from busy by
    /// this.
    pub fn serving(&self, now: Timestamp) -> u32 {
        let serves = |endpoint: &&Endpoint| endpoint.up && may_try(endpoint, now);
        self.list.iter().filter(serves).count() as u32
    }

    /// Load in parts of a million of the ceiling; `None` when nothing may go there.
    fn load(&self, now: Timestamp, at: usize, role: Role) -> Option<u64> {
        let endpoint = &self.list[at];
        if !endpoint.up || endpoint.role != role || !may_try(endpoint, now) {
            return None;
        }
        let inflight = u64::from(endpoint.inflight);
        match ramped(endpoint, self.care, now) {
            None => Some(inflight),
            Some(ceiling) if endpoint.inflight >= ceiling => None,
            Some(ceiling) => Some(inflight * 1_000_000 / u64::from(ceiling)),
        }
    }
}

fn may_try(endpoint: &Endpoint, now: Timestamp) -> bool {
    match endpoint.breaker {
        Breaker::Closed => true,
        Breaker::Open { until } => now >= until,
        Breaker::Trying => false,
    }
}

fn is_warming(endpoint: &Endpoint, care: Care, now: Timestamp) -> bool {
    endpoint.up && endpoint.warm_from.is_some_and(|from| now < from + ms(care.warmup_ms))
}

/// From a quarter, at least one, in a straight line to all of it (B-057).
fn ramped(endpoint: &Endpoint, care: Care, now: Timestamp) -> Option<u32> {
    let full = endpoint.slots.units()?;
    let Some(from) = endpoint.warm_from.filter(|_| is_warming(endpoint, care, now)) else {
        return Some(full);
    };
    let first = u64::from((full / 4).max(1).min(full));
    let risen = (u64::from(full) - first) * now.since(from).as_micros() as u64;
    Some((first + risen / (care.warmup_ms * 1_000)) as u32)
}
