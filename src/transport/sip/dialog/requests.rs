//! What the peer asks within a dialog, and what comes of it.

use std::net::SocketAddr;

use bytes::Bytes;

use super::super::message::{Request, Response};
use super::super::require;
use super::super::write::{ALLOW, Answer, back_to};
use super::{ANSWERED_MAX, Dialog, Hop, Phase, Said, State};
use crate::time::Timestamp;

impl Dialog {
    pub(super) fn on_response(&mut self, now: Timestamp, response: &Response, from: SocketAddr) {
        if (200..300).contains(&response.status) {
            self.on_answer_again(response, from);
        }
        self.on_refer_answer(response);
        let is_byes = response.fields.cseq() == Some((self.asked_cseq, "BYE"));
        if let State::Leaving(_) = self.state
            && is_byes
            && response.status >= 200
        {
            self.state = State::Over { until: now };
        }
    }

    /// `true`: the peer was heard, and not somebody who only knows the call's name.
    pub(super) fn on_request(&mut self, now: Timestamp, request: Request, hop: Hop) -> bool {
        let Some((cseq, _)) = request.fields.cseq() else { return false };
        let from = hop.from;
        let first = matches!(self.state, State::Ringing) || request.fields.tag("to").is_none();
        let ours = request.fields.tag("to").is_none_or(|tag| tag == self.setup.tag);
        match request.method.as_str() {
            // Some telephones give the ACK a tag of its own: who called is meant all the same.
            "ACK" if !ours && from == self.invite.from => {
                return self.on_ack(now, cseq, &request, hop);
            }
            "ACK" if !ours => {}
            // Not remembered: what is wrong must not answer for what is right and comes later.
            _ if !ours => self.refuse_request(&request, from, 481),
            "ACK" => return self.on_ack(now, cseq, &request, hop),
            "CANCEL" => self.on_cancel(now, cseq, &request, from),
            "INVITE" if self.is_the_invite(cseq, &request) => self.say_again(),
            // The same call over two ways (RFC 3261, 8.2.2.2), or out of any dialog.
            _ if request.fields.tag("to").is_none() => {
                let status = if request.method == "INVITE" { 482 } else { 481 };
                self.refuse_request(&request, from, status);
            }
            _ if self.answer_again(cseq, &request, from) => {}
            _ if self.heard_cseq.is_some_and(|heard| cseq <= heard) => {
                self.refuse_request(&request, from, 500)
            }
            _ => {
                self.heard_cseq = Some(cseq);
                if !first {
                    self.hear_from(hop);
                }
                self.on_fresh(now, request, from);
                return !first;
            }
        }
        false
    }

    fn refuse_request(&mut self, request: &Request, from: SocketAddr, status: u16) {
        let tag = self.setup.tag.clone();
        self.reply_once(request, from, Answer::of(status, &tag));
    }

    pub(super) fn on_fresh(&mut self, now: Timestamp, request: Request, from: SocketAddr) {
        if let State::Over { .. } = self.state {
            return self.reply(&request, from, Answer::of(481, ""));
        }
        match request.method.as_str() {
            "BYE" => self.on_bye(now, &request, from),
            "INVITE" => self.on_reinvite(now, request, from),
            "UPDATE" => self.on_update(now, &request, from),
            "INFO" => {
                if let (State::Up, Some(key)) = (&self.state, require::key(&request)) {
                    self.said.push_back(Said::Key(key));
                }
                self.reply(&request, from, Answer::of(200, ""));
            }
            "OPTIONS" => {
                let answer = Answer::of(200, "").with("Allow", ALLOW);
                self.reply(&request, from, answer.with("Accept", "application/sdp"));
            }
            "NOTIFY" => self.on_notify(&request, from),
            // A caller may not have us ring somebody else.
            "REFER" => self.reply(&request, from, Answer::of(403, "")),
            method => {
                let status = require::status_of_method(method);
                self.reply(&request, from, Answer::of(status, "").with("Allow", ALLOW));
            }
        }
    }

    fn on_ack(&mut self, now: Timestamp, cseq: u32, request: &Request, hop: Hop) -> bool {
        let of_invite = self.invite.request.fields.cseq().is_some_and(|(of, _)| of == cseq);
        let Phase::Answered { accepted, offers, .. } = self.invite.phase else { return false };
        if !of_invite {
            return false;
        }
        self.invite.phase = Phase::Acknowledged;
        if !accepted {
            return false;
        }
        self.hear_from(hop);
        if let State::Parting = self.state {
            self.bye(now);
        } else if offers && !self.take_answer(request, hop.from) {
            self.said.push_back(Said::Ended("protocol"));
            self.bye(now);
        }
        true
    }

    pub(super) fn on_cancel(
        &mut self,
        now: Timestamp,
        cseq: u32,
        request: &Request,
        from: SocketAddr,
    ) {
        let of_invite = self.is_the_invite(cseq, request);
        let tag = self.setup.tag.clone();
        self.reply_once(request, from, Answer::of(if of_invite { 200 } else { 481 }, &tag));
        if let (State::Ringing, true) = (&self.state, of_invite) {
            self.answer_invite(now, &Answer::of(487, &tag), false);
            self.be_over(now, Some("closed"));
        }
    }

    pub(super) fn on_bye(&mut self, now: Timestamp, request: &Request, from: SocketAddr) {
        self.reply(request, from, Answer::of(200, ""));
        if let State::Ringing = self.state {
            let tag = self.setup.tag.clone();
            self.answer_invite(now, &Answer::of(487, &tag), false);
        } else {
            self.invite.phase = Phase::Acknowledged;
        }
        // Whoever is leaving knows why.
        let news = matches!(self.state, State::Ringing | State::Up).then_some("closed");
        self.be_over(now, news);
    }

    /// The INVITE that is being answered, or its CANCEL: one number and one branch.
    pub(super) fn is_the_invite(&self, cseq: u32, request: &Request) -> bool {
        let invite = &self.invite.request;
        invite.fields.cseq().is_some_and(|(of, _)| of == cseq)
            && require::branch(invite) == require::branch(request)
    }

    /// The INVITE came again.
    pub(super) fn say_again(&mut self) {
        match &self.invite.phase {
            Phase::Asked(bytes) => self.send_back(bytes.clone()),
            Phase::Answered { resend, .. } => self.send_back(resend.bytes.clone()),
            Phase::Acknowledged => {}
        }
    }

    /// A request that came before is answered as before, and does nothing again.
    pub(super) fn answer_again(&mut self, cseq: u32, request: &Request, from: SocketAddr) -> bool {
        let known =
            |(of, method, _): &&(u32, String, Bytes)| *of == cseq && *method == request.method;
        let Some((_, _, bytes)) = self.answered.iter().find(known) else { return false };
        self.out.push_back((back_to(request, from), bytes.clone()));
        true
    }

    pub(super) fn reply(&mut self, request: &Request, from: SocketAddr, answer: Answer<'_>) {
        let bytes = self.reply_once(request, from, answer);
        if self.answered.len() == ANSWERED_MAX {
            self.answered.pop_front();
        }
        let cseq = request.fields.cseq().map_or(0, |(number, _)| number);
        self.answered.push_back((cseq, request.method.clone(), bytes));
    }

    pub(super) fn reply_once(
        &mut self,
        request: &Request,
        from: SocketAddr,
        answer: Answer<'_>,
    ) -> Bytes {
        let bytes = answer.write(request, from);
        self.out.push_back((back_to(request, from), bytes.clone()));
        bytes
    }
}
