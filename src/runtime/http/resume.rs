//! Calls whose clients may come back: who may take which up, and with what.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use dashmap::DashMap;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::accept::Place;
use super::auth::{self, Caller};
use super::kept::Kept;
use super::upgrade::{Handshake, Wire};
use super::{Site, answer};
use crate::id::{CallId, TenantId};
use crate::leg::NotTaken;
use crate::runtime::service::Service;
use crate::transport::Leg;
use crate::transport::realtime::{Wrong, error_event};
use crate::transport::resume::{KeptLeg, Resume, Return, SharedLine, Ticket};
use crate::transport::webrtc::Seated;
use crate::transport::websocket;

/// Returns that may be on their way to one call: each but the last is taken over at once.
const RETURNS_MAX: usize = 4;

/// A WebSocket of a client's.
type Socket = Kept<Wire>;

/// Why a client does not get its call back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotResumed {
    /// The token is none of this server's.
    Forged,
    /// It was given out by another process, with which its calls are gone.
    OtherProcess,
    /// The call is another tenant's.
    OtherTenant,
    /// The call goes over the other transport.
    OtherTransport,
    /// The call was taken up with it, or with a newer one.
    Used,
    /// The call is over, or was kept no longer.
    Over,
}

impl NotResumed {
    /// The stable code, and what happened, in a sentence.
    fn said(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            NotResumed::Forged => {
                let message = "'resume' is no token of this server's; it is told on each \
                               connection in floorkeeper.resume.";
                (StatusCode::FORBIDDEN, "resume_token_invalid", message)
            }
            NotResumed::OtherProcess => {
                let message = "This token was given out by another process; its calls ended with \
                               it. Begin a new call.";
                (StatusCode::GONE, "resume_other_process", message)
            }
            NotResumed::OtherTenant => {
                let message = "This token is for a call of another tenant's.";
                (StatusCode::FORBIDDEN, "resume_other_tenant", message)
            }
            NotResumed::OtherTransport => {
                let message = "This call goes on over the transport that it began with: WebSocket \
                               at /v1/realtime, WebRTC at POST /v1/realtime/calls.";
                (StatusCode::CONFLICT, "resume_other_transport", message)
            }
            NotResumed::Used => {
                let message = "This token was used; the connection that took the call up was told \
                               the next.";
                (StatusCode::CONFLICT, "resume_token_used", message)
            }
            NotResumed::Over => {
                let message = "This call is over, or was kept no longer. Begin a new call.";
                (StatusCode::GONE, "resume_call_over", message)
            }
        }
    }

    pub(super) fn answer(self) -> Response {
        let (status, code, message) = self.said();
        answer::error(status, code, message, Some("resume"))
    }
}

impl From<NotTaken> for NotResumed {
    fn from(why: NotTaken) -> NotResumed {
        match why {
            NotTaken::Used => NotResumed::Used,
            NotTaken::Over => NotResumed::Over,
        }
    }
}

/// The calls whose clients may come back.
pub(super) struct Resumptions {
    key: [u8; 32],
    incarnation: String,
    calls: DashMap<CallId, KeptCall>,
}

struct KeptCall {
    tenant: TenantId,
    kept_for: Duration,
    line: SharedLine,
    hang_up: CancellationToken,
    way: Way,
}

/// How a connection gets to its call.
#[derive(Clone)]
enum Way {
    Socket(mpsc::Sender<Return<Socket>>),
    Peer(mpsc::Sender<Return<Seated>>),
}

/// A call's entry, which goes with it however it ends.
pub(super) struct Listed {
    of: Arc<Resumptions>,
    call: CallId,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.of.calls.remove(&self.call);
    }
}

/// A call that a token is for.
struct Wanted {
    call: CallId,
    /// The connection that the token was told on.
    connection: u32,
    kept_for: Duration,
    line: SharedLine,
    way: Way,
}

/// A leg as its call gets it, with the token that hangs it up and its entry here.
pub(super) struct KeptCallLeg {
    pub leg: Box<dyn Leg>,
    pub hang_up: CancellationToken,
    pub listed: Listed,
}

/// How long the call of this request is to be kept, if it asks for that and the server does.
pub(super) fn asked_for(service: &Service, query: &HashMap<String, String>) -> Option<Duration> {
    let asked = query.get("resumable").is_some_and(|word| word == "true");
    service.config.realtime.resume.filter(|_| asked)
}

impl Resumptions {
    /// Nothing is kept yet; tokens are good for as long as this process runs.
    pub fn new(incarnation: &str) -> Resumptions {
        Resumptions {
            key: rand::random(),
            incarnation: incarnation.to_owned(),
            calls: DashMap::new(),
        }
    }

    /// A call over a WebSocket whose client may come back.
    pub fn keep_socket<L: Resume<Wire = Socket> + 'static>(
        self: &Arc<Self>,
        service: &Arc<Service>,
        (call, tenant): (CallId, TenantId),
        kept_for: Duration,
        leg: L,
    ) -> KeptCallLeg {
        self.keep(service, (call, tenant), kept_for, leg, Way::Socket)
    }

    /// The same over a peer connection.
    pub fn keep_peer<L: Resume<Wire = Seated> + 'static>(
        self: &Arc<Self>,
        service: &Arc<Service>,
        (call, tenant): (CallId, TenantId),
        kept_for: Duration,
        leg: L,
    ) -> KeptCallLeg {
        self.keep(service, (call, tenant), kept_for, leg, Way::Peer)
    }

    fn keep<L: Resume + 'static>(
        self: &Arc<Self>,
        service: &Arc<Service>,
        (call, tenant): (CallId, TenantId),
        kept_for: Duration,
        mut leg: L,
        way: impl FnOnce(mpsc::Sender<Return<L::Wire>>) -> Way,
    ) -> KeptCallLeg {
        let (way_in, returns) = mpsc::channel(RETURNS_MAX);
        let (line, hang_up) = (SharedLine::up(kept_for), CancellationToken::new());
        leg.tell_ticket(&self.ticket(call, 1, kept_for));
        let clock = Arc::new(service.clock);
        let kept = KeptLeg::new(leg, line.clone(), returns, hang_up.clone(), clock);
        let entry = KeptCall { tenant, kept_for, line, hang_up: hang_up.clone(), way: way(way_in) };
        self.calls.insert(call, entry);
        let listed = Listed { of: self.clone(), call };
        KeptCallLeg { leg: Box::new(kept), hang_up, listed }
    }

    /// Hangs up a call of this tenant's; `false`: there is none.
    pub fn hang_up(&self, call: &str, tenant: TenantId) -> bool {
        let Some(number) = call.strip_prefix("call-").and_then(|n| n.parse().ok()) else {
            return false;
        };
        let found = self.calls.get(&CallId(number)).filter(|kept| kept.tenant == tenant);
        found.inspect(|kept| kept.hang_up.cancel()).is_some()
    }

    fn ticket(&self, call: CallId, connection: u32, kept_for: Duration) -> Ticket {
        let signed = format!("{}.{}.{connection}", self.incarnation, call.0);
        let token =
            format!("{signed}.{}", BASE64.encode(self.mac(&signed).finalize().into_bytes()));
        Ticket { call: call.to_string(), connection, token, kept_for }
    }

    fn mac(&self, signed: &str) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("keys of every length do");
        mac.update(signed.as_bytes());
        mac
    }

    /// The call that this token is for, if this tenant may take it up now.
    fn find(&self, service: &Service, token: &str, tenant: TenantId) -> Result<Wanted, NotResumed> {
        let (signed, mac) = token.rsplit_once('.').ok_or(NotResumed::Forged)?;
        let mut parts = signed.split('.');
        let (of, call, connection) = (parts.next(), parts.next(), parts.next());
        let call = call.and_then(|call| call.parse().ok()).map(CallId);
        let connection: Option<u32> = connection.and_then(|n| n.parse().ok());
        let (Some(call), Some(connection), None) = (call, connection, parts.next()) else {
            return Err(NotResumed::Forged);
        };
        if of != Some(&self.incarnation) {
            return Err(NotResumed::OtherProcess);
        }
        let mac = BASE64.decode(mac).map_err(|_| NotResumed::Forged)?;
        self.mac(signed).verify_slice(&mac).map_err(|_| NotResumed::Forged)?;
        let kept = self.calls.get(&call).ok_or(NotResumed::Over)?;
        if kept.tenant != tenant {
            return Err(NotResumed::OtherTenant);
        }
        kept.line.lock().check(service.clock.now(), connection)?;
        let (kept_for, line, way) = (kept.kept_for, kept.line.clone(), kept.way.clone());
        Ok(Wanted { call, connection, kept_for, line, way })
    }

    /// The connection gets the call, if nobody was there before it.
    fn give<W>(
        &self,
        service: &Service,
        wanted: &Wanted,
        way: &mpsc::Sender<Return<W>>,
        wire: W,
    ) -> Result<(String, oneshot::Receiver<W>), (NotResumed, W)> {
        let mut line = wanted.line.lock();
        let connection = match line.take(service.clock.now(), wanted.connection) {
            Ok(connection) => connection,
            Err(why) => return Err((why.into(), wire)),
        };
        let ticket = self.ticket(wanted.call, connection, wanted.kept_for);
        let (token, (before, parted)) = (ticket.token.clone(), oneshot::channel());
        match way.try_send(Return { wire, ticket, before }) {
            Ok(()) => Ok((token, parted)),
            Err(failed) => {
                line.end();
                Err((NotResumed::Over, failed.into_inner().wire))
            }
        }
    }

    /// Gives a call of a peer connection to another of its client's, which was just answered. The
    /// call's name is given back, and the next token: the events' channel may never open.
    pub fn resume_peer(
        &self,
        service: &Service,
        (token, tenant): (&str, TenantId),
        seat: impl FnOnce() -> Result<Seated, Box<Response>>,
    ) -> Result<(CallId, String), Box<Response>> {
        let refused = |why: NotResumed| {
            service.metrics.resumption("refused");
            Box::new(why.answer())
        };
        let wanted = self.find(service, token, tenant).map_err(refused)?;
        let Way::Peer(way) = &wanted.way else { return Err(refused(NotResumed::OtherTransport)) };
        let seated = seat()?;
        // The peer connection before is closed by its own leg.
        let (token, _) =
            self.give(service, &wanted, way, seated).map_err(|(why, _)| refused(why))?;
        Ok((wanted.call, token))
    }
}

/// Upgrades a request to the connection of a call that goes on, or says why not.
pub(super) fn upgrade(
    site: &Site,
    token: &str,
    caller: &Caller,
    place: Arc<Place>,
    headers: &HeaderMap,
    handshake: Handshake,
) -> Response {
    let service = &site.service;
    let refused = |why: NotResumed| {
        service.metrics.resumption("refused");
        why.answer()
    };
    let wanted = match site.resumptions.find(service, token, caller.tenant) {
        Ok(wanted) => wanted,
        Err(why) => return refused(why),
    };
    let Way::Socket(way) = wanted.way.clone() else { return refused(NotResumed::OtherTransport) };
    let message_max = service.config.realtime.message_max as usize;
    let (subprotocol, of) = (auth::subprotocol(headers), site.clone());
    handshake.switch(site, place, subprotocol, message_max, move |socket| async move {
        match of.resumptions.give(&of.service, &wanted, &way, socket) {
            Ok((_, before)) => {
                if let Ok(mut old) = before.await {
                    let reason = "taken over by another connection";
                    websocket::part(&mut old, None, 1000, reason).await;
                }
            }
            Err((why, mut socket)) => {
                of.service.metrics.resumption("refused");
                let (_, code, message) = why.said();
                let error = error_event("resume", &Wrong::at(code, "resume", message));
                websocket::part(&mut socket, Some(error), 1008, code).await;
            }
        }
    })
}
