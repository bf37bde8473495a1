//! Hands a caller whom Twilio brings to somebody whom Twilio rings; they meet in
//! a room of Twilio's.
//!
//! The desk is rung first, and the agent has the caller until somebody answers there: a desk that
//! is busy costs the caller nothing. Only then is the caller's own call sent into the room, which
//! ends its stream; they are connected when Twilio says that the caller has come in.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use super::api::Done;
use super::dial::{self, LATE};
use super::{Following, Said, Twilio, public_address};
use crate::runtime::promises::unix_ms;
use crate::runtime::service::Service;
use crate::transport::Transferred;
use crate::transport::moving::{Leaving, Mover, Moving};
use crate::transport::twilio::rest::{Call, Status};
use crate::transport::twilio::twiml;

/// So long a desk rings at most: with Twilio's own time, and that of the move, it is known what
/// came of it before the agent gives the handoff up.
const RING_MAX: Duration = Duration::from_secs(25);
/// The caller comes into the room within this time.
const JOIN_MAX: Duration = Duration::from_secs(8);

/// Moves one call.
pub(in crate::runtime) struct Moves {
    service: Weak<Service>,
    /// Whose it is.
    tenant: String,
    call: String,
    /// Who is rung for it.
    desk: String,
}

impl Moves {
    /// None where nobody is rung for such a call.
    pub fn of(service: &Arc<Service>, tenant: String, call: &str) -> Option<Arc<dyn Mover>> {
        service.twilio()?;
        let desk = service.config.outbound.twilio_to.clone()?;
        // It stands in a path.
        let is_name = !call.is_empty() && call.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let (service, call) = (Arc::downgrade(service), call.to_owned());
        is_name.then(|| Arc::new(Moves { service, tenant, call, desk }) as _)
    }

    /// An hour has room for so many dials, these among them.
    fn may_ring(&self, service: &Service) -> bool {
        service.promises().is_some_and(|promises| promises.may_ring(&self.tenant, unix_ms()))
    }
}

impl Mover for Moves {
    fn target(&self) -> String {
        self.desk.clone()
    }

    fn move_to(&self, target: String, leaving: Leaving) -> Moving {
        let service = self.service.upgrade().filter(|service| self.may_ring(service));
        let (call, tenant) = (self.call.clone(), self.tenant.clone());
        Box::pin(async move {
            let Some(service) = service else { return Transferred::Declined };
            let Some(twilio) = service.twilio() else { return Transferred::Declined };
            let following = twilio.follow(&tenant, |at| twiml::join(&at.room, &at.status));
            let desk = Desk { twilio: twilio.clone(), following, sid: None };
            tokio::select! {
                came = desk.take(&service, &call, &target, &leaving) => came,
                () = leaving.gone() => Transferred::Lost,
            }
        })
    }
}

/// Somebody who is being rung; whoever lets go of them before the caller is on their way has them
/// hung up on.
struct Desk {
    twilio: Arc<Twilio>,
    following: Following,
    sid: Option<String>,
}

impl Drop for Desk {
    fn drop(&mut self) {
        let (twilio, sid) = (self.twilio.clone(), self.sid.take());
        if let (Some(sid), Ok(runtime)) = (sid, tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move { twilio.api.hang_up(&sid).await });
        }
    }
}

impl Desk {
    async fn take(
        mut self,
        service: &Service,
        caller: &str,
        target: &str,
        leaving: &Leaving,
    ) -> Transferred {
        let ring_max = service.config.outbound.ring_max.min(RING_MAX);
        let until = Instant::now() + ring_max + LATE;
        let (config, at) = (&service.config, &self.following.addresses);
        let placed = dial::place(&self.twilio, config, &dial::to(target), ring_max, at).await;
        match placed {
            Done::Yes(call) => self.knows(&call.sid),
            // It is heard of when it rings, if it does.
            Done::Unknown(why) => tracing::warn!("a desk may be rung: {why}"),
            Done::NotNow(why, _) | Done::Refused(why) => {
                tracing::warn!("a desk cannot be rung: {why}");
                return Transferred::Declined;
            }
        }
        match timeout_at(until, self.answers()).await {
            Ok(None) => self.join(caller, leaving).await,
            Ok(Some(came)) => {
                self.sid = None;
                came
            }
            Err(_) => Transferred::NoAnswer,
        }
    }

    fn knows(&mut self, sid: &str) {
        self.twilio.placed(sid);
        self.sid = Some(sid.to_owned());
    }

    /// What came of ringing there; none: somebody has answered.
    async fn answers(&mut self) -> Option<Transferred> {
        while let Some(said) = self.following.said.recv().await {
            let Said::Stands(call, sip) = said else { continue };
            self.knows(&call.sid);
            if call.status == Status::InProgress && !call.machine {
                return None;
            }
            if let Some(came) = came_to(&call, sip) {
                return Some(came);
            }
        }
        Some(Transferred::NoAnswer)
    }

    /// Somebody is there: the caller is sent to them.
    async fn join(mut self, caller: &str, leaving: &Leaving) -> Transferred {
        let at = &self.following.addresses;
        let room = twiml::document(&twiml::join(&at.room, &at.status));
        leaving.begin();
        let moved = self.twilio.api.change(caller, &[("Twiml", room.as_str())]).await;
        if let Done::NotNow(why, _) | Done::Refused(why) = &moved {
            tracing::warn!("a caller cannot be sent to a desk: {why}");
            let has_left = leaving.stream_has_ended();
            leaving.give_up();
            return if has_left { Transferred::Lost } else { Transferred::NoAnswer };
        }
        if timeout(JOIN_MAX, self.joined(caller)).await == Ok(true)
            || self.both_are_up(caller).await
        {
            // They speak with each other.
            self.sid = None;
            return Transferred::Connected;
        }
        let has_left = matches!(moved, Done::Yes(_)) || leaving.stream_has_ended();
        if has_left {
            // To us again, as if they had just rung.
            let voice = public_address(&self.twilio.public, "/v1/twilio/voice", false);
            self.twilio.api.change(caller, &[("Url", &voice), ("Method", "POST")]).await;
        }
        leaving.give_up();
        if has_left { Transferred::Lost } else { Transferred::NoAnswer }
    }

    /// The caller has come in; false when the desk has gone before.
    async fn joined(&mut self, caller: &str) -> bool {
        while let Some(said) = self.following.said.recv().await {
            match said {
                Said::Joined(sid) if sid == caller => return true,
                Said::Stands(call, _) if call.status.is_over() => return false,
                Said::Joined(_) | Said::Stands(..) | Said::Streams(..) => {}
            }
        }
        false
    }

    /// Nothing was heard: Twilio has taken the move, and neither end has gone.
    async fn both_are_up(&self, caller: &str) -> bool {
        let Some(desk) = &self.sid else { return false };
        let (api, mut up) = (&self.twilio.api, true);
        for sid in [desk, caller] {
            let call = api.look(sid).await;
            up &= call.is_some_and(|call| call.status == Status::InProgress);
        }
        up
    }
}

/// What a desk is that did not take the caller; none while it may still.
fn came_to(call: &Call, sip: Option<u16>) -> Option<Transferred> {
    if call.machine {
        return Some(Transferred::NoAnswer);
    }
    match call.status {
        Status::Queued | Status::Ringing | Status::InProgress => None,
        Status::Busy => Some(Transferred::Busy),
        Status::NoAnswer | Status::Canceled => Some(Transferred::NoAnswer),
        Status::Failed if sip == Some(480) => Some(Transferred::NoAnswer),
        Status::Failed | Status::Completed => Some(Transferred::Declined),
    }
}
