//! Handoffs on record: who was asked to take a caller, who said yes, what came of it.
//!
//! ```text
//! offered ─▶ acknowledged ─▶ connected
//!     └──────────┴─────────▶ busy, no_answer, declined, voicemail, timeout, caller_left
//! ```
//!
//! Until the acknowledgement is on record the agent keeps the call; "connecting you" needs the
//! [`HandoffAck`] that only it gives (A-128). Both steps have a time of their own, so every handoff
//! ends, also one whose process has gone.

use serde::{Deserialize, Serialize};

use super::limits::Limits;
use super::record::{UnixMs, words};
use super::refused::{Place, Refused};
use super::{Answer, BATCH_MAX};
use crate::evidence::HandoffAck;
use crate::id::HandoffId;

words! {
    /// Where a handoff stands.
    HandoffState {
        /// Somebody has been asked.
        Offered = "offered",
        /// Somebody has said that they take the caller.
        Acknowledged = "acknowledged",
        /// They speak with each other.
        Connected = "connected",
        /// The other end was busy.
        Busy = "busy",
        /// Nobody answered.
        NoAnswer = "no_answer",
        /// They said no.
        Declined = "declined",
        /// A machine answered.
        Voicemail = "voicemail",
        /// Its time passed.
        Timeout = "timeout",
        /// The caller hung up first.
        CallerLeft = "caller_left",
    }
}

impl HandoffState {
    /// Somebody still has to do something.
    pub fn is_open(self) -> bool {
        matches!(self, HandoffState::Offered | HandoffState::Acknowledged)
    }
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffOffer {
    /// Who pays.
    pub tenant: String,
    /// Who is asked: a desk, a queue, an address.
    pub target: String,
    /// The call that is to be handed over; one handoff at a time.
    pub call: String,
    /// The process that has the call.
    pub incarnation: String,
    /// What it is about.
    pub why: String,
    /// The caller's language (BCP 47).
    pub language: String,
    /// When the caller asked.
    pub born_ms: UnixMs,
    /// Acknowledged by then, or not at all.
    pub acknowledge_by_ms: UnixMs,
    /// Connected by then, or not at all.
    pub connect_by_ms: UnixMs,
}

/// A handoff on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handoff {
    /// Its name.
    pub id: HandoffId,
    /// What was asked for.
    pub offer: HandoffOffer,
    /// Where it stands.
    pub state: HandoffState,
    /// Who acknowledged; empty before.
    pub by: String,
    /// When its state changed last.
    pub changed_ms: UnixMs,
}

/// What is asked of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandoffAsk {
    /// Ask somebody.
    Offer(HandoffOffer),
    /// This one takes the caller.
    Acknowledge(HandoffId, String),
    /// It has come to this.
    End(HandoffId, HandoffState),
    /// What time alone does: those that it has just ended.
    Sweep,
    /// This one, or none.
    Get(HandoffId),
    /// The open ones, or all, the newest first.
    List {
        /// Only those in which somebody still has to do something.
        open: bool,
        /// Only those that this tenant pays for.
        tenant: Option<String>,
    },
}

/// Durable handoffs, beside the callbacks. A refusal leaves the store as it was; an answer comes
/// only once it is durable.
pub trait HandoffStore: Send + Sync {
    /// Does this and gives the handoffs that it is about, as they are now.
    fn handoff(&self, ask: HandoffAsk, now_ms: UnixMs) -> Answer<Vec<Handoff>>;

    /// Somebody is asked; nothing is promised yet.
    fn offer_handoff(&self, offer: HandoffOffer, now_ms: UnixMs) -> Answer<Handoff> {
        first(self.handoff(HandoffAsk::Offer(offer), now_ms))
    }

    /// Somebody takes the caller. Refused when it is too late or somebody else was faster.
    fn acknowledge(&self, id: HandoffId, by: String, now_ms: UnixMs) -> Answer<HandoffAck> {
        let acknowledged = first(self.handoff(HandoffAsk::Acknowledge(id, by), now_ms));
        Box::pin(async move { acknowledged.await.map(|handoff| HandoffAck::received(handoff.id)) })
    }

    /// It has come to this.
    fn end_handoff(&self, id: HandoffId, end: HandoffState, now_ms: UnixMs) -> Answer<Handoff> {
        first(self.handoff(HandoffAsk::End(id, end), now_ms))
    }
}

fn first(answer: Answer<Vec<Handoff>>) -> Answer<Handoff> {
    Box::pin(async move { answer.await?.pop().ok_or(Refused::NotFound) })
}

/// What is in use, as far as one offer is concerned.
pub(super) struct HandoffUsage {
    pub open: u64,
    pub tenant: u64,
    pub target: u64,
    /// The open one of the same call.
    pub of_call: Option<HandoffId>,
}

impl HandoffUsage {
    /// What the open ones take.
    pub fn of(open: &[Handoff], offer: &HandoffOffer) -> HandoffUsage {
        let same_call = |other: &HandoffOffer| {
            (&other.incarnation, &other.call) == (&offer.incarnation, &offer.call)
        };
        let count = |same: &dyn Fn(&HandoffOffer) -> bool| {
            open.iter().filter(|one| same(&one.offer)).count() as u64
        };
        HandoffUsage {
            open: open.len() as u64,
            tenant: count(&|other| other.tenant == offer.tenant),
            target: count(&|other| other.target == offer.target),
            of_call: open.iter().find(|one| same_call(&one.offer)).map(|one| one.id),
        }
    }
}

impl Handoff {
    /// The record of an offer for which there is room.
    pub(super) fn new(
        offer: HandoffOffer,
        used: &HandoffUsage,
        limits: &Limits,
        now_ms: UnixMs,
    ) -> Result<Handoff, Refused> {
        offer.check(now_ms)?;
        if let Some(existing) = used.of_call {
            return Err(Refused::HandoffOpen { existing });
        }
        if used.tenant >= limits.handoffs_tenant {
            return Err(Refused::TenantFull);
        }
        if used.target >= limits.handoffs_target {
            return Err(Refused::DestinationFull);
        }
        if used.open >= limits.handoffs {
            return Err(Refused::Full(Place::Records));
        }
        let id = HandoffId(super::record::fresh_id(now_ms).0);
        let (state, by) = (HandoffState::Offered, String::new());
        Ok(Handoff { id, offer, state, by, changed_ms: now_ms })
    }

    /// Somebody takes the caller.
    pub(super) fn acknowledge(&mut self, by: &str, now_ms: UnixMs) -> Result<(), Refused> {
        if by.trim().is_empty() || by.len() > 128 || by.contains('\0') {
            return Err(Refused::bad("by", "is no name of at most 128 bytes"));
        }
        if self.state != HandoffState::Offered {
            return Err(Refused::HandoffIs { state: self.state });
        }
        if now_ms > self.offer.acknowledge_by_ms {
            return Err(Refused::Expired { at_ms: self.offer.acknowledge_by_ms });
        }
        by.clone_into(&mut self.by);
        self.goes_to(HandoffState::Acknowledged, now_ms);
        Ok(())
    }

    /// It has come to this.
    pub(super) fn end(&mut self, end: HandoffState, now_ms: UnixMs) -> Result<(), Refused> {
        if end.is_open() {
            return Err(Refused::bad("outcome", format!("{end} is no end")));
        }
        let early = end == HandoffState::Connected && self.state == HandoffState::Offered;
        if early || !self.state.is_open() {
            return Err(Refused::HandoffIs { state: self.state });
        }
        self.goes_to(end, now_ms);
        Ok(())
    }

    /// What time alone does to it; false when that is nothing.
    pub(super) fn age(&mut self, now_ms: UnixMs) -> bool {
        let over = self.state.is_open() && now_ms > self.deadline_ms();
        if over {
            self.goes_to(HandoffState::Timeout, now_ms);
        }
        over
    }

    /// Until when its state may last.
    pub(super) fn deadline_ms(&self) -> UnixMs {
        match self.state {
            HandoffState::Offered => self.offer.acknowledge_by_ms,
            _ => self.offer.connect_by_ms,
        }
    }

    fn goes_to(&mut self, state: HandoffState, now_ms: UnixMs) {
        (self.state, self.changed_ms) = (state, now_ms);
    }
}

impl HandoffOffer {
    fn check(&self, now_ms: UnixMs) -> Result<(), Refused> {
        let texts: [(&'static str, &str, usize); 6] = [
            ("target", &self.target, 256),
            ("call", &self.call, 128),
            ("tenant", &self.tenant, 128),
            ("incarnation", &self.incarnation, 128),
            ("why", &self.why, 4_096),
            ("language", &self.language, 35),
        ];
        for (at, (field, text, most)) in texts.into_iter().enumerate() {
            if at < 2 && text.trim().is_empty() {
                return Err(Refused::bad(field, "is missing"));
            }
            if text.len() > most || text.contains('\0') {
                let problem = format!("is longer than {most} bytes or has a NUL in it");
                return Err(Refused::bad(field, problem));
            }
        }
        if self.born_ms > now_ms {
            return Err(Refused::bad("born_ms", "lies in the future"));
        }
        if now_ms > self.acknowledge_by_ms {
            return Err(Refused::Expired { at_ms: self.acknowledge_by_ms });
        }
        if self.connect_by_ms < self.acknowledge_by_ms {
            return Err(Refused::bad("connect_by_ms", "lies before acknowledge_by_ms"));
        }
        Ok(())
    }
}

/// The most that one request gives.
pub(super) const LIST_MAX: i64 = BATCH_MAX as i64;
