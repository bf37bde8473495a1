//! The peer is asked to ring somebody else in our place (RFC 3515), and tells what comes of it.

use std::net::SocketAddr;

use super::super::message::{Request, Response, param};
use super::super::resend::{Resend, Turn};
use super::super::write::Answer;
use super::{Dialog, Said, State};
use crate::time::Timestamp;

/// A REFER of ours.
#[derive(Debug)]
pub(super) struct Refer {
    cseq: u32,
    /// Until the peer has said whether it will.
    resend: Option<Resend>,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Referred {
    /// The peer speaks with them.
    Reached,
    /// The status that they, or the peer itself, answered with.
    Refused(u16),
    /// The peer never said.
    Unknown,
}

impl Dialog {
    /// The caller is to speak with somebody else.
    pub fn refer(&mut self, now: Timestamp, to: &str) {
        if !matches!(self.state, State::Up) || self.refer.is_some() {
            return self.said.push_back(Said::Referred(Referred::Unknown));
        }
        self.asked_cseq += 1;
        let cseq = self.asked_cseq;
        let us = self.contact();
        let fields =
            [("Refer-To", format!("<{to}>")), ("Referred-By", us.clone()), ("Contact", us)];
        let bytes = self.ask("REFER", cseq, &fields);
        self.out.push_back((self.peer, bytes.clone()));
        let resend = Resend::begun(now, bytes, self.setup.t1, !self.setup.is_reliable());
        self.refer = Some(Refer { cseq, resend: Some(resend) });
    }

    pub(super) fn refer_due(&self) -> Option<Timestamp> {
        self.refer.as_ref()?.resend.as_ref().map(Resend::due)
    }

    pub(super) fn tick_refer(&mut self, now: Timestamp) {
        let Some(Refer { resend: Some(resend), .. }) = &mut self.refer else { return };
        match resend.tick(now) {
            Turn::Again => {
                let bytes = resend.bytes.clone();
                self.out.push_back((self.peer, bytes));
            }
            Turn::GivenUp => self.be_referred(Referred::Unknown),
            Turn::Nothing => {}
        }
    }

    /// Whether the peer will try.
    pub(super) fn on_refer_answer(&mut self, response: &Response) {
        let Some(refer) = &mut self.refer else { return };
        if response.fields.cseq() != Some((refer.cseq, "REFER")) || refer.resend.is_none() {
            return;
        }
        match response.status {
            100..200 => {}
            200..300 => refer.resend = None,
            status => self.be_referred(Referred::Refused(status)),
        }
    }

    /// How far the peer has come.
    pub(super) fn on_notify(&mut self, request: &Request, from: SocketAddr) {
        let event = request.fields.get("event").unwrap_or_default();
        let (package, params) = event.split_at(event.find(';').unwrap_or(event.len()));
        let of_ours = self.refer.as_ref().is_some_and(|refer| {
            let id = param(params, "id").and_then(|id| id.parse().ok());
            id.is_none_or(|id: u32| id == refer.cseq)
        });
        match package.trim().eq_ignore_ascii_case("refer") {
            true if of_ours => {}
            // The last word of one that is over comes again, or late.
            true => return self.reply(request, from, Answer::of(481, "")),
            false => {
                return self.reply(
                    request,
                    from,
                    Answer::of(489, "").with("Allow-Events", "refer"),
                );
            }
        }
        self.reply(request, from, Answer::of(200, ""));
        let state = request.fields.get("subscription-state").unwrap_or_default();
        let is_last = state.trim_start().to_ascii_lowercase().starts_with("terminated");
        match status_of(&request.body) {
            Some(200..300) => self.be_referred(Referred::Reached),
            Some(status @ 300..) => self.be_referred(Referred::Refused(status)),
            Some(_) | None if is_last => self.be_referred(Referred::Unknown),
            Some(_) | None => {}
        }
    }

    fn be_referred(&mut self, how: Referred) {
        self.refer = None;
        self.said.push_back(Said::Referred(how));
    }
}

/// The status in a fragment of a message (RFC 3420).
fn status_of(body: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(body).ok()?;
    let rest = text.trim_start().strip_prefix("SIP/2.0 ")?;
    rest.get(..3)?.parse().ok().filter(|status| (100..700).contains(status))
}
