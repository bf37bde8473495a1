//! One call's signalling, without any I/O: INVITE to BYE (RFC 3261, 12 to 15 and 17.2).
//!
//! Messages and time go in; messages and what the call has to know come out. A further offer of
//! the peer (hold, another port) is answered here and told to the call.

mod made;
mod offers;
mod refer;
mod requests;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;

use super::codec::Codecs;
use super::crypto::{Secrecy, Srtp};
use super::message::{Address, Message, Request, split_list};
use super::require::{self, Refused};
use super::resend::{Resend, Turn, give_up_after};
use super::sdp::{BadSdp, Description, Media, Ours};
use super::write::{Answer, Ask, back_to};
use crate::time::Timestamp;

pub(super) use made::Made;
pub(super) use refer::Referred;

/// Answers that are remembered for requests that come again.
const ANSWERED_MAX: usize = 8;
/// What waits for a `Retry-After` of a request that came too early (RFC 3261, 14.2).
const TOO_EARLY_S: &str = "5";

/// What a dialog is set up with.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    /// Where we are reached, as `Contact` and `Via` say it.
    pub us: SocketAddr,
    /// The same by TLS.
    pub secure: Option<SocketAddr>,
    /// Who rings wants TLS alone (RFC 3261, 26.2.2).
    pub sips: bool,
    pub transport: &'static str,
    /// What a packet takes there and back (RFC 3261, T1).
    pub t1: Duration,
    /// Whether sound is encrypted.
    pub srtp: Srtp,
    /// How it may be encoded.
    pub codecs: Codecs,
    /// Our tag: of this dialog alone.
    pub tag: String,
    /// The number of our session descriptions.
    pub session: u64,
}

impl Setup {
    /// Of a dialog that nobody knows yet.
    pub fn fresh(us: SocketAddr, transport: &'static str, t1: Duration) -> Setup {
        Setup {
            us,
            secure: None,
            sips: false,
            transport,
            t1,
            srtp: Srtp::Offered,
            codecs: Codecs::default(),
            tag: format!("{:016x}", rand::random::<u64>()),
            session: u64::from(rand::random::<u32>()),
        }
    }

    /// Of a call that may have come by TLS.
    pub fn secured(self, secure: Option<SocketAddr>, invite: &Request) -> Setup {
        let is_sips = |uri: &str| uri.get(..5).is_some_and(|s| s.eq_ignore_ascii_case("sips:"));
        let route = invite.fields.list("record-route").next().and_then(Address::parse);
        let sips = is_sips(&invite.uri) || route.is_some_and(|route| is_sips(route.uri));
        Setup { secure, sips, ..self }
    }

    /// Where we are reached the way that is spoken.
    pub fn at(&self) -> SocketAddr {
        self.secure.filter(|_| self.transport == "TLS").unwrap_or(self.us)
    }

    /// Where we are to be asked.
    pub fn contact(&self) -> String {
        match self.transport {
            "TCP" => format!("<sip:{};transport=tcp>", self.at()),
            "TLS" if self.sips => format!("<sips:{}>", self.at()),
            "TLS" => format!("<sip:{};transport=tls>", self.at()),
            _ => format!("<sip:{}>", self.at()),
        }
    }

    /// Nothing that is sent is lost.
    pub fn is_reliable(&self) -> bool {
        self.transport != "UDP"
    }
}

/// Where a message came from, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hop {
    pub from: SocketAddr,
    pub transport: &'static str,
}

/// What a call has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// From now on sound goes so.
    Media(Media),
    /// A key was pressed (INFO).
    Key(char),
    /// The call is over: `closed`, `timeout`, `protocol`; or never began: `no_answer`, `timeout`.
    Ended(&'static str),
    /// Whom we rang does not want to, or cannot.
    Refused(u16),
    /// What came of asking the peer to ring somebody else.
    Referred(Referred),
}

/// One dialog, from its INVITE to the last message that may come again.
#[derive(Debug)]
pub(super) struct Dialog {
    setup: Setup,
    /// Whom the peer rang, with our tag; and the peer.
    local: String,
    remote: String,
    call_id: String,
    /// Where the peer wants requests to be addressed, and over whom.
    target: String,
    routes: Vec<String>,
    /// Where the peer was last heard from: there requests go, whatever its addresses say.
    peer: SocketAddr,
    /// The peer's last number; none of a call that we placed, before it has asked anything.
    heard_cseq: Option<u32>,
    asked_cseq: u32,
    invite: Invite,
    state: State,
    ours: Option<Ours>,
    media: Option<Media>,
    /// The peer's promise to be heard from again (RFC 4028).
    refresh: Option<(Duration, Timestamp)>,
    /// Of a call that we placed.
    ack: Option<made::Ack>,
    refer: Option<refer::Refer>,
    answered: VecDeque<(u32, String, Bytes)>,
    out: VecDeque<(SocketAddr, Bytes)>,
    said: VecDeque<Said>,
}

/// The newest INVITE.
#[derive(Debug)]
struct Invite {
    request: Request,
    /// What it offers, until that is answered.
    offer: Option<Description>,
    from: SocketAddr,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// So far it was told this.
    Asked(Bytes),
    /// Its final answer is out. `offers`: the ACK brings the answer to our offer.
    Answered { resend: Resend, accepted: bool, offers: bool },
    /// The answer has arrived.
    Acknowledged,
}

#[derive(Debug)]
enum State {
    /// Nothing is decided yet.
    Ringing,
    Up,
    /// To be ended as soon as the peer has acknowledged that it began.
    Parting,
    /// Our BYE is out.
    Leaving(Resend),
    /// Only what comes again is answered.
    Over {
        until: Timestamp,
    },
}

impl Dialog {
    /// An INVITE that is no part of any dialog. The error is its answer.
    pub fn begin(
        now: Timestamp,
        setup: Setup,
        request: Request,
        from: SocketAddr,
    ) -> Result<Dialog, Bytes> {
        let refuse = |refused: Refused| refused.answer(&setup.tag).write(&request, from);
        let checked = require::invite(&request).map_err(refuse)?;
        let secrecy = Secrecy::Offer(setup.srtp, None);
        let agree = |offer: &Description| offer.agree(setup.us, from.ip(), secrecy, setup.codecs);
        let media = checked.offer.as_ref().map(agree).transpose();
        let media = media.map_err(|bad| refuse(Refused::of_sdp(bad)))?;
        let fields = &request.fields;
        let contact = fields.list("contact").next().and_then(Address::parse);
        let target = contact.map(|contact| contact.uri.to_owned());
        let target = target.ok_or_else(|| refuse(Refused::with(400)))?;
        let text = |name: &str| fields.get(name).unwrap_or_default().to_owned();
        let trying = Answer::of(100, "").write(&request, from);
        let mut dialog = Dialog {
            local: format!("{};tag={}", text("to"), setup.tag),
            remote: text("from"),
            call_id: text("call-id"),
            target,
            routes: fields.all("record-route").flat_map(split_list).map(str::to_owned).collect(),
            peer: from,
            heard_cseq: fields.cseq().map(|(number, _)| number),
            asked_cseq: 0,
            state: State::Ringing,
            ours: None,
            media,
            refresh: checked.refresh.map(|every| (every, now + every)),
            ack: None,
            refer: None,
            answered: VecDeque::new(),
            out: VecDeque::new(),
            said: VecDeque::new(),
            invite: Invite {
                phase: Phase::Asked(trying.clone()),
                offer: checked.offer,
                request,
                from,
            },
            setup,
        };
        dialog.send_back(trying);
        Ok(dialog)
    }

    /// The INVITE that began it.
    pub fn request(&self) -> &Request {
        &self.invite.request
    }

    /// Only what comes again is answered.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, State::Over { .. })
    }

    /// Nothing follows any more.
    pub fn is_over(&self, now: Timestamp) -> bool {
        matches!(self.state, State::Over { until } if until <= now)
    }

    /// What is to be sent, and where to.
    pub fn poll_send(&mut self) -> Option<(SocketAddr, Bytes)> {
        self.out.pop_front()
    }

    /// What the call has to know.
    pub fn poll_said(&mut self) -> Option<Said> {
        self.said.pop_front()
    }

    /// The caller hears it ringing.
    pub fn ring(&mut self) {
        if let (State::Ringing, Phase::Asked(_)) = (&self.state, &self.invite.phase) {
            let ringing = Answer::of(180, &self.setup.tag).with("Contact", self.contact());
            let ringing = ringing.write(&self.invite.request, self.invite.from);
            self.invite.phase = Phase::Asked(ringing.clone());
            self.send_back(ringing);
        }
    }

    /// There is no room.
    pub fn refuse(&mut self, now: Timestamp, status: u16, retry_after_s: Option<u32>) {
        if let State::Ringing = self.state {
            let tag = self.setup.tag.clone();
            let mut answer = Answer::of(status, &tag);
            if let Some(seconds) = retry_after_s {
                answer = answer.with("Retry-After", seconds.to_string());
            }
            self.answer_invite(now, &answer, false);
            self.be_over(now, None);
        }
    }

    /// Somebody listens at this address: the call begins.
    pub fn accept(&mut self, now: Timestamp, at: SocketAddr) {
        let (State::Ringing, Phase::Asked(_)) = (&self.state, &self.invite.phase) else { return };
        self.ours = Some(Ours::new(at, self.setup.session, self.setup.codecs));
        self.state = State::Up;
        self.agree(now);
    }

    /// The call is over on our side.
    pub fn hang_up(&mut self, now: Timestamp) {
        match self.state {
            State::Ringing => self.refuse(now, 480, None),
            State::Up if matches!(self.invite.phase, Phase::Answered { accepted: true, .. }) => {
                self.state = State::Parting;
            }
            State::Up => self.bye(now),
            State::Parting | State::Leaving(_) | State::Over { .. } => {}
        }
    }

    /// When [`Dialog::tick`] has something to do.
    pub fn due(&self) -> Option<Timestamp> {
        let invite = match &self.invite.phase {
            Phase::Answered { resend, .. } => Some(resend.due()),
            Phase::Asked(_) | Phase::Acknowledged => None,
        };
        let state = match &self.state {
            State::Leaving(resend) => Some(resend.due()),
            State::Over { until } => Some(*until),
            State::Up => self.refresh.map(|(_, until)| until),
            State::Ringing | State::Parting => None,
        };
        [invite, state, self.refer_due()].into_iter().flatten().min()
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Timestamp) {
        if let Phase::Answered { resend, accepted, .. } = &mut self.invite.phase {
            match resend.tick(now) {
                Turn::Again => {
                    let bytes = resend.bytes.clone();
                    self.send_back(bytes);
                }
                // Nobody knows whether the peer ever heard that its call began (RFC 3261,
                // 13.3.1.4): it is ended.
                Turn::GivenUp if *accepted => {
                    self.invite.phase = Phase::Acknowledged;
                    match self.state {
                        State::Up => self.lose(now),
                        State::Parting => self.bye(now),
                        State::Ringing | State::Leaving(_) | State::Over { .. } => {}
                    }
                }
                Turn::GivenUp => self.invite.phase = Phase::Acknowledged,
                Turn::Nothing => {}
            }
        }
        self.tick_refer(now);
        match &mut self.state {
            State::Leaving(resend) => match resend.tick(now) {
                Turn::Again => {
                    let bytes = resend.bytes.clone();
                    self.out.push_back((self.peer, bytes));
                }
                Turn::GivenUp => self.state = State::Over { until: now },
                Turn::Nothing => {}
            },
            State::Up if self.refresh.is_some_and(|(_, until)| until <= now) => self.lose(now),
            State::Ringing | State::Up | State::Parting | State::Over { .. } => {}
        }
    }

    /// Something came that is for this dialog, or says so. `true`: it is the peer's own, and what
    /// follows goes the way that it came.
    pub fn receive(&mut self, now: Timestamp, message: Message, hop: Hop) -> bool {
        match message {
            Message::Request(request) => self.on_request(now, request, hop),
            Message::Response(response) => {
                self.on_response(now, &response, hop.from);
                false
            }
        }
    }

    /// The peer is there now.
    fn hear_from(&mut self, hop: Hop) {
        (self.peer, self.setup.transport) = (hop.from, hop.transport);
    }

    /// The final answer to the newest INVITE; an accepted one is said again over any way until it
    /// is acknowledged, a refusal only where it could be lost.
    fn answer_invite(&mut self, now: Timestamp, answer: &Answer<'_>, offers: bool) {
        let bytes = answer.write(&self.invite.request, self.invite.from);
        let accepted = answer.status < 300;
        let again = accepted || !self.setup.is_reliable();
        let resend = Resend::begun(now, bytes.clone(), self.setup.t1, again);
        self.invite.phase = Phase::Answered { resend, accepted, offers };
        self.send_back(bytes);
    }

    fn bye(&mut self, now: Timestamp) {
        self.refer = None;
        self.asked_cseq += 1;
        let bytes = self.ask("BYE", self.asked_cseq, &[]);
        self.out.push_back((self.peer, bytes.clone()));
        let again = !self.setup.is_reliable();
        self.state = State::Leaving(Resend::begun(now, bytes, self.setup.t1, again));
    }

    /// A request of ours, as it is written.
    fn ask(&self, method: &'static str, cseq: u32, fields: &[(&'static str, String)]) -> Bytes {
        let branch = format!("z9hG4bK{}{method}{cseq}", self.setup.tag);
        Ask { branch: &branch, ..self.asking(method, cseq, fields) }.write()
    }

    fn asking<'a>(
        &'a self,
        method: &'static str,
        cseq: u32,
        fields: &'a [(&'static str, String)],
    ) -> Ask<'a> {
        Ask {
            method,
            uri: &self.target,
            transport: self.setup.transport,
            at: self.setup.at(),
            branch: "",
            from: &self.local,
            to: &self.remote,
            call_id: &self.call_id,
            cseq,
            routes: &self.routes,
            fields,
            sdp: None,
        }
    }

    /// Nobody is there any more, as far as can be seen.
    fn lose(&mut self, now: Timestamp) {
        self.said.push_back(Said::Ended("timeout"));
        self.bye(now);
    }

    fn be_over(&mut self, now: Timestamp, how: Option<&'static str>) {
        self.refer = None;
        self.state = State::Over { until: now + give_up_after(self.setup.t1) };
        self.said.extend(how.map(Said::Ended));
    }

    fn send_back(&mut self, bytes: Bytes) {
        let to = back_to(&self.invite.request, self.invite.from);
        self.out.push_back((to, bytes));
    }

    /// What an offer of theirs is read by.
    fn secrecy(&self) -> Secrecy<'_> {
        let agreed = self.media.as_ref().and_then(|media| media.keys.as_ref());
        Secrecy::Offer(self.setup.srtp, agreed)
    }

    fn contact(&self) -> String {
        self.setup.contact()
    }
}

impl Refused {
    fn of_sdp(bad: BadSdp) -> Refused {
        let (status, warning) = bad.told();
        Refused::with(status).and("Warning", warning)
    }
}

#[cfg(test)]
mod tests;
