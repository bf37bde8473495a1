//! A call that we place, without any I/O: from INVITE to its final answer (RFC 3261, 13.2 and
//! 17.1.1). Answered, it is a [`Dialog`] as any other.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;

use super::dialog::{Dialog, Hop, Made, Referred, Said, Setup};
use super::message::{Address, Fields, Message, Response, split_list};
use super::resend::{Resend, Turn, give_up_after};
use super::respond::{Credentials, respond};
use super::sdp::{Description, Media, Ours};
use super::write::{ALLOW, Ask};
use crate::time::Timestamp;

/// Whom to ring, and how.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// What is rung: `sip:+15550100@192.0.2.1`.
    pub uri: String,
    /// Who rings, as `From` says it, without a tag.
    pub from: String,
    pub call_id: String,
    /// Where the INVITE goes.
    pub peer: SocketAddr,
    /// Where we hear.
    pub hears_at: SocketAddr,
    /// So long it may ring.
    pub ring_max: Duration,
    /// What is said to who asks for a password.
    pub credentials: Option<Credentials>,
}

/// One call that we place.
#[derive(Debug)]
pub(super) struct Outgoing {
    setup: Setup,
    wanted: Wanted,
    ours: Ours,
    offer: String,
    cseq: u32,
    authorization: Option<(&'static str, String)>,
    state: State,
    /// The last refusal's number and our word that we have heard it.
    heard: Option<(u32, Bytes)>,
    out: VecDeque<(SocketAddr, Bytes)>,
    said: VecDeque<Said>,
}

#[derive(Debug)]
enum State {
    /// Nobody has said anything yet.
    Asking { resend: Resend, ring_until: Timestamp },
    /// Somebody is being looked for.
    Ringing { until: Timestamp },
    /// It is not wanted any more, which may be said once anybody has answered (RFC 3261, 9.1).
    Unwanted(Resend),
    /// The CANCEL is out.
    Cancelling(Resend),
    /// It is a call.
    Up(Box<Dialog>),
    /// Only what comes again is answered.
    Over { until: Timestamp },
}

impl Outgoing {
    pub fn begin(now: Timestamp, setup: Setup, wanted: Wanted) -> Outgoing {
        let mut ours = Ours::new(wanted.hears_at, setup.session, setup.codecs);
        let offer = ours.offer(setup.srtp.line(None), None);
        let over = State::Over { until: now };
        let mut outgoing = Outgoing {
            setup,
            wanted,
            ours,
            offer,
            cseq: 1,
            authorization: None,
            state: over,
            heard: None,
            out: VecDeque::new(),
            said: VecDeque::new(),
        };
        let ring_until = now + outgoing.wanted.ring_max;
        outgoing.ask(now, ring_until);
        outgoing
    }

    /// The call, once it is one.
    fn up(&self) -> Option<&Dialog> {
        match &self.state {
            State::Up(dialog) => Some(dialog),
            State::Asking { .. }
            | State::Ringing { .. }
            | State::Unwanted(_)
            | State::Cancelling(_)
            | State::Over { .. } => None,
        }
    }

    fn up_mut(&mut self) -> Option<&mut Dialog> {
        match &mut self.state {
            State::Up(dialog) => Some(dialog),
            State::Asking { .. }
            | State::Ringing { .. }
            | State::Unwanted(_)
            | State::Cancelling(_)
            | State::Over { .. } => None,
        }
    }

    /// What is to be sent, and where to.
    pub fn poll_send(&mut self) -> Option<(SocketAddr, Bytes)> {
        self.out.pop_front().or_else(|| self.up_mut()?.poll_send())
    }

    /// What the call has to know.
    pub fn poll_said(&mut self) -> Option<Said> {
        self.said.pop_front().or_else(|| self.up_mut()?.poll_said())
    }

    /// Only what comes again is answered.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, State::Over { .. }) || self.up().is_some_and(Dialog::has_ended)
    }

    /// Nothing follows any more.
    pub fn is_over(&self, now: Timestamp) -> bool {
        matches!(self.state, State::Over { until } if until <= now)
            || self.up().is_some_and(|dialog| dialog.is_over(now))
    }

    /// When [`Outgoing::tick`] has something to do.
    pub fn due(&self) -> Option<Timestamp> {
        match &self.state {
            State::Asking { resend, ring_until } => Some(resend.due().min(*ring_until)),
            State::Ringing { until } | State::Over { until } => Some(*until),
            State::Unwanted(resend) | State::Cancelling(resend) => Some(resend.due()),
            State::Up(dialog) => dialog.due(),
        }
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Timestamp) {
        match &mut self.state {
            State::Asking { ring_until, .. } if *ring_until <= now => {
                self.said.push_back(Said::Ended("timeout"));
                self.withdraw(now);
            }
            State::Asking { resend, .. } | State::Unwanted(resend) | State::Cancelling(resend) => {
                match resend.tick(now) {
                    Turn::Again => self.out.push_back((self.wanted.peer, resend.bytes.clone())),
                    // Nobody is there at all.
                    Turn::GivenUp => self.end(now, Said::Ended("timeout")),
                    Turn::Nothing => {}
                }
            }
            State::Ringing { until } if *until <= now => {
                self.said.push_back(Said::Ended("no_answer"));
                self.withdraw(now);
            }
            State::Up(dialog) => dialog.tick(now),
            State::Ringing { .. } | State::Over { .. } => {}
        }
    }

    /// It is not wanted any more, or over on our side.
    pub fn hang_up(&mut self, now: Timestamp) {
        match &mut self.state {
            State::Asking { .. } | State::Ringing { .. } => self.withdraw(now),
            State::Up(dialog) => dialog.hang_up(now),
            State::Unwanted(_) | State::Cancelling(_) | State::Over { .. } => {}
        }
    }

    /// Whom we rang is to speak with somebody else.
    pub fn refer(&mut self, now: Timestamp, to: &str) {
        match self.up_mut() {
            Some(dialog) => dialog.refer(now, to),
            None => self.said.push_back(Said::Referred(Referred::Unknown)),
        }
    }

    /// Something came that is for this call. `true`: what follows goes the way that it came.
    pub fn receive(&mut self, now: Timestamp, message: Message, hop: Hop) -> bool {
        match (message, &mut self.state) {
            (message, State::Up(dialog)) => return dialog.receive(now, message, hop),
            (Message::Response(response), _) => self.hear(now, &response, hop.from),
            // Who has not answered yet has nothing to ask, and asks again.
            (Message::Request(_), _) => {}
        }
        false
    }

    fn hear(&mut self, now: Timestamp, response: &Response, from: SocketAddr) {
        let Some((cseq, method)) = response.fields.cseq() else { return };
        match (method, &mut self.state) {
            ("INVITE", _) => {}
            // It was heard; what it came to is said of the INVITE.
            ("CANCEL", State::Cancelling(resend)) if cseq == self.cseq => {
                return resend.only_wait();
            }
            (_, _) => return,
        }
        if let Some((of, heard)) = &self.heard
            && *of == cseq
            && response.status >= 300
        {
            return self.out.push_back((self.wanted.peer, heard.clone()));
        }
        if cseq == self.cseq {
            self.on_response(now, response, from);
        }
    }

    fn on_response(&mut self, now: Timestamp, response: &Response, from: SocketAddr) {
        match (response.status, &self.state) {
            (100..200, State::Asking { ring_until, .. }) => {
                self.state = State::Ringing { until: *ring_until };
            }
            (100..200, State::Unwanted(_)) => self.cancel(now),
            (200..300, State::Asking { .. } | State::Ringing { .. }) => {
                self.be_answered(now, response, from, true);
            }
            // The answer crossed our CANCEL: it is a call, which is over.
            (200..300, State::Unwanted(_) | State::Cancelling(_)) => {
                self.be_answered(now, response, from, false);
            }
            (
                401 | 407,
                State::Asking { ring_until, .. } | State::Ringing { until: ring_until },
            ) => {
                let ring_until = *ring_until;
                self.hear_refusal(response);
                match self.authorize(response) {
                    Some(authorization) => {
                        self.authorization = Some(authorization);
                        self.cseq += 1;
                        self.ask(now, ring_until);
                    }
                    None => self.end(now, Said::Refused(response.status)),
                }
            }
            (300.., State::Asking { .. } | State::Ringing { .. }) => {
                self.hear_refusal(response);
                self.end(now, Said::Refused(response.status));
            }
            (300.., State::Unwanted(_) | State::Cancelling(_)) => {
                self.hear_refusal(response);
                self.be_over(now);
            }
            (_, State::Ringing { .. } | State::Cancelling(_)) => {}
            (_, State::Asking { .. } | State::Unwanted(_)) => {}
            (_, State::Up(_) | State::Over { .. }) => {}
        }
    }

    fn ask(&mut self, now: Timestamp, ring_until: Timestamp) {
        let mut fields = vec![
            ("Contact", self.setup.contact()),
            ("Allow", ALLOW.to_owned()),
            ("Accept", "application/sdp".to_owned()),
        ];
        fields.extend(self.authorization.clone());
        let invite = self.write("INVITE", None, &fields, Some(&self.offer));
        self.out.push_back((self.wanted.peer, invite.clone()));
        let resend = Resend::begun(now, invite, self.setup.t1, !self.setup.is_reliable());
        self.state = State::Asking { resend, ring_until };
    }

    /// A request of the INVITE's own transaction; `to` has the peer's tag where it has one.
    fn write(
        &self,
        method: &'static str,
        to: Option<&str>,
        fields: &[(&'static str, String)],
        sdp: Option<&str>,
    ) -> Bytes {
        let callee = format!("<{}>", self.wanted.uri);
        let ask = Ask {
            method,
            uri: &self.wanted.uri,
            transport: self.setup.transport,
            at: self.setup.at(),
            branch: &format!("z9hG4bK{}{}", self.setup.tag, self.cseq),
            from: &self.local(),
            to: to.unwrap_or(&callee),
            call_id: &self.wanted.call_id,
            cseq: self.cseq,
            routes: &[],
            fields,
            sdp,
        };
        ask.write()
    }

    fn local(&self) -> String {
        format!("{};tag={}", self.wanted.from, self.setup.tag)
    }

    /// Whoever refuses says so until they hear that they were heard.
    fn hear_refusal(&mut self, response: &Response) {
        let heard = self.write("ACK", response.fields.get("to"), &[], None);
        self.out.push_back((self.wanted.peer, heard.clone()));
        self.heard = Some((self.cseq, heard));
    }

    /// The answer to a first challenge; a second one says that the password is wrong.
    fn authorize(&self, response: &Response) -> Option<(&'static str, String)> {
        let credentials = self.wanted.credentials.as_ref();
        let credentials = credentials.filter(|_| self.authorization.is_none())?;
        let (asked, answered) = match response.status {
            401 => ("www-authenticate", "Authorization"),
            _ => ("proxy-authenticate", "Proxy-Authorization"),
        };
        let cnonce = format!("{}{}", self.setup.tag, self.cseq);
        let mut challenges = response.fields.all(asked);
        let answer = challenges.find_map(|challenge| {
            respond(challenge, credentials, "INVITE", &self.wanted.uri, &cnonce)
        });
        Some((answered, answer?))
    }

    /// Somebody has answered; where that is no longer wanted, or cannot be spoken with, they are
    /// told goodbye.
    fn be_answered(&mut self, now: Timestamp, response: &Response, from: SocketAddr, wanted: bool) {
        let made = self.made(response, from);
        let answer = Description::parse(&response.body);
        let media = answer.and_then(|answer| self.ours.agree(&answer, from.ip()));
        let ours = self.ours.clone();
        let mut dialog = Dialog::made(self.setup.clone(), made, ours, media.as_ref().ok().cloned());
        match media {
            Ok(media) if wanted => self.said.push_back(Said::Media(media)),
            Err(bad) if wanted => {
                self.said.push_back(Said::Refused(bad.told().0));
                dialog.hang_up(now);
            }
            Ok(Media { .. }) | Err(_) => dialog.hang_up(now),
        }
        self.state = State::Up(Box::new(dialog));
    }

    fn made(&self, response: &Response, from: SocketAddr) -> Made {
        let fields: &Fields = &response.fields;
        let contact = fields.list("contact").next().and_then(Address::parse);
        let target = contact.map_or(self.wanted.uri.clone(), |contact| contact.uri.to_owned());
        let mut routes: Vec<String> =
            fields.all("record-route").flat_map(split_list).map(str::to_owned).collect();
        routes.reverse();
        Made {
            local: self.local(),
            remote: fields.get("to").unwrap_or_default().to_owned(),
            call_id: self.wanted.call_id.clone(),
            target,
            routes,
            peer: from,
            cseq: self.cseq,
        }
    }

    fn withdraw(&mut self, now: Timestamp) {
        match std::mem::replace(&mut self.state, State::Over { until: now }) {
            State::Asking { resend, .. } => self.state = State::Unwanted(resend),
            State::Ringing { .. } => self.cancel(now),
            other => self.state = other,
        }
    }

    fn cancel(&mut self, now: Timestamp) {
        let cancel = self.write("CANCEL", None, &[], None);
        self.out.push_back((self.wanted.peer, cancel.clone()));
        let resend = Resend::begun(now, cancel, self.setup.t1, !self.setup.is_reliable());
        self.state = State::Cancelling(resend);
    }

    fn end(&mut self, now: Timestamp, how: Said) {
        // Who withdrew knows already.
        if matches!(self.state, State::Asking { .. } | State::Ringing { .. }) {
            self.said.push_back(how);
        }
        self.be_over(now);
    }

    fn be_over(&mut self, now: Timestamp) {
        self.state = State::Over { until: now + give_up_after(self.setup.t1) };
    }
}

#[cfg(test)]
#[path = "outgoing_tests.rs"]
mod tests;
