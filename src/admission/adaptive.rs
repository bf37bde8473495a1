//! The adaptive ceiling: evidence of the backends moves it, nothing else does (B-045…B-056).
//!
//! Between a quarter of the configured ceiling (at least one) and all of it, judged once a second:
//! four fifths on pressure, plus one on fresh evidence without pressure and only if the limit was
//! reached, unchanged when nothing is fresh. Work that was cancelled is no evidence: it is never
//! fed.

use super::limits::Slots;
use crate::time::{Timestamp, ms};

/// Most endpoints whose evidence is told apart.
pub const ENDPOINTS_MAX: usize = 64;
/// Weight of the newest time to first token in an endpoint's average, as one part of this many.
const AVERAGE_PARTS: u64 = 4;

/// What the law goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Law {
    /// Average time to first token above which an endpoint is pressed; `None` leaves it out
    /// (B-052).
    pub ttft_target_ms: Option<u64>,
    /// Evidence older than this moves nothing (B-053).
    pub stale_ms: u64,
    /// After a cut the next one waits this long, so that its effect can be seen.
    pub dwell_ms: u64,
}

impl Default for Law {
    fn default() -> Self {
        Law { ttft_target_ms: None, stale_ms: 30_000, dwell_ms: 3_000 }
    }
}

/// One thing a backend let us see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// An engine's own count of requests that wait in it.
    Waiting(u32),
    /// Time to first token of one streamed response, from admission.
    FirstToken {
        /// In milliseconds.
        ms: u64,
    },
    /// The provider said 429 or 503.
    PushedBack,
}

/// How the ceiling stands (B-056).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stance {
    /// Not adapting: there is no configured ceiling, or adaptation is off.
    Off,
    /// All of the configured ceiling.
    Open,
    /// Less than it.
    Tightened,
    /// Unchanged for want of fresh evidence.
    Frozen,
}

impl Stance {
    /// The word of metrics and API.
    pub fn label(self) -> &'static str {
        match self {
            Stance::Off => "off",
            Stance::Open => "open",
            Stance::Tightened => "tightened",
            Stance::Frozen => "frozen",
        }
    }
}

/// Why the ceiling moved or did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// An engine has requests waiting.
    Queued,
    /// Time to first token is above its target.
    Ttft,
    /// A provider refused.
    PushedBack,
    /// Fresh evidence, no pressure.
    Clear,
    /// Fresh evidence, no pressure, and the limit was not reached: nothing to learn.
    Idle,
    /// Nothing is fresh.
    Stale,
    /// A cut is too young to be judged.
    Dwell,
}

impl Why {
    /// The word of metrics and API.
    pub fn label(self) -> &'static str {
        match self {
            Why::Queued => "queued",
            Why::Ttft => "ttft",
            Why::PushedBack => "pushed_back",
            Why::Clear => "clear",
            Why::Idle => "idle",
            Why::Stale => "stale",
            Why::Dwell => "dwell",
        }
    }
}

/// One judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The ceiling before it.
    pub from: u32,
    /// The ceiling after it.
    pub to: u32,
    /// How it stands now.
    pub stance: Stance,
    /// Why.
    pub why: Why,
    /// Age of the newest evidence, in milliseconds; none when there never was any.
    pub evidence_age_ms: Option<u64>,
}

/// What one endpoint let us see last.
#[derive(Clone, Copy, Debug)]
struct Seen {
    endpoint: u16,
    at: Timestamp,
    waiting: u32,
    waiting_at: Option<Timestamp>,
    ttft_us: u64,
    ttft_at: Option<Timestamp>,
    pushed_back_at: Option<Timestamp>,
}

/// The moving ceiling of one gate.
#[derive(Clone, Debug)]
pub struct Adaptive {
    law: Law,
    ceiling: Option<u32>,
    seen: Vec<Seen>,
    cut_at: Option<Timestamp>,
    last: Option<Judged>,
}

impl Adaptive {
    /// A ceiling that begins at all of the configured one.
    pub fn new(law: Law) -> Self {
        Adaptive { law, ceiling: None, seen: Vec::new(), cut_at: None, last: None }
    }

    /// Goes by another law from now on; what was seen and the ceiling stay.
    pub fn set_law(&mut self, law: Law) {
        self.law = law;
    }

    /// What it goes by.
    pub fn law(&self) -> Law {
        self.law
    }

    /// The last judgement.
    pub fn last(&self) -> Option<Judged> {
        self.last
    }

    /// Takes in what an endpoint let us see. Endpoints beyond [`ENDPOINTS_MAX`] share the last
    /// place.
    pub fn saw(&mut self, now: Timestamp, endpoint: u16, sign: Sign) {
        let seen = self.place_of(endpoint);
        seen.at = seen.at.max(now);
        match sign {
            Sign::Waiting(waiting) => {
                seen.waiting = waiting;
                seen.waiting_at = Some(now);
            }
            Sign::FirstToken { ms } => {
                let us = ms.saturating_mul(1_000);
                seen.ttft_us = match seen.ttft_at {
                    None => us,
                    Some(_) => (seen.ttft_us * (AVERAGE_PARTS - 1) + us) / AVERAGE_PARTS,
                };
                seen.ttft_at = Some(now);
            }
            Sign::PushedBack => seen.pushed_back_at = Some(now),
        }
    }

    /// Judges, once a second: the ceiling to give to the gate, or none where there is nothing to
    /// adapt.
    ///
    /// `reached` says whether the gate met its ceiling since the last judgement.
    pub fn judge(&mut self, now: Timestamp, slots: Slots, reached: bool) -> Option<u32> {
        let configured = match slots {
            Slots::Units(units) if units > 0 => units,
            Slots::Units(_) | Slots::Unlimited => {
                self.ceiling = None;
                self.last = None;
                return None;
            }
        };
        let floor = (configured / 4).max(1);
        let from = self.ceiling.unwrap_or(configured).clamp(floor, configured);
        let newest = self.seen.iter().map(|seen| seen.at).max();
        let fresh = newest.is_some_and(|at| now <= at + ms(self.law.stale_ms));
        let dwells = self.cut_at.is_some_and(|at| now < at + ms(self.law.dwell_ms));
        let (to, why) = match self.pressure(now) {
            Some(_) if dwells => (from, Why::Dwell),
            Some(why) => {
                self.cut_at = Some(now);
                ((from * 4 / 5).max(floor), why)
            }
            None if !fresh => (from, Why::Stale),
            None if self.is_pressed(now) || dwells => (from, Why::Dwell),
            None if !reached => (from, Why::Idle),
            None => ((from + 1).min(configured), Why::Clear),
        };
        let stance = match why {
            Why::Stale => Stance::Frozen,
            _ if to == configured => Stance::Open,
            _ => Stance::Tightened,
        };
        let evidence_age_ms = newest.map(|at| now.since(at).as_millis() as u64);
        self.ceiling = Some(to);
        self.last = Some(Judged { from, to, stance, why, evidence_age_ms });
        Some(to)
    }

    /// Adaptation is switched off: the configured ceiling is back at once (B-056).
    pub fn reset(&mut self) {
        *self = Adaptive::new(self.law);
    }

    /// Pressure seen after the last cut: one sighting cuts once.
    fn pressure(&self, now: Timestamp) -> Option<Why> {
        let cut_at = self.cut_at;
        self.pressed_since(now, |at| cut_at.is_none_or(|cut| at > cut))
    }

    /// What was seen last of each kind is still pressure, whether or not it has cut already.
    fn is_pressed(&self, now: Timestamp) -> bool {
        let stale = ms(self.law.stale_ms);
        let fresh = |at: Option<Timestamp>| at.is_some_and(|at| now <= at + stale);
        self.seen.iter().any(|seen| {
            (seen.waiting > 0 && fresh(seen.waiting_at))
                || (self.is_slow(seen) && fresh(seen.ttft_at))
                // A provider that refused and has shown nothing since is still refusing.
                || (fresh(seen.pushed_back_at) && seen.pushed_back_at == Some(seen.at))
        })
    }

    fn pressed_since(&self, now: Timestamp, counts: impl Fn(Timestamp) -> bool) -> Option<Why> {
        let stale = ms(self.law.stale_ms);
        let lately = |at: Option<Timestamp>| at.is_some_and(|at| now <= at + stale && counts(at));
        let any = |sign: &dyn Fn(&Seen) -> bool| self.seen.iter().any(sign);
        if any(&|seen| seen.waiting > 0 && lately(seen.waiting_at)) {
            return Some(Why::Queued);
        }
        if any(&|seen| lately(seen.pushed_back_at)) {
            return Some(Why::PushedBack);
        }
        any(&|seen| self.is_slow(seen) && lately(seen.ttft_at)).then_some(Why::Ttft)
    }

    fn is_slow(&self, seen: &Seen) -> bool {
        self.law.ttft_target_ms.is_some_and(|target| seen.ttft_us > target.saturating_mul(1_000))
    }

    fn place_of(&mut self, endpoint: u16) -> &mut Seen {
        let known = self.seen.iter().position(|seen| seen.endpoint == endpoint);
        let place = known.unwrap_or_else(|| {
            if self.seen.len() < ENDPOINTS_MAX {
                self.seen.push(Seen {
                    endpoint,
                    at: Timestamp::ZERO,
                    waiting: 0,
                    waiting_at: None,
                    ttft_us: 0,
                    ttft_at: None,
                    pushed_back_at: None,
                });
            }
            self.seen.len() - 1
        });
        &mut self.seen[place]
    }
}
