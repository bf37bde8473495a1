//! Offers of the peer within a dialog: the first, and those that change the call.

use std::net::SocketAddr;

use super::super::message::{Address, Request};
use super::super::require::{self, Refused};
use super::super::sdp::{Description, Media, Ours};
use super::super::write::{ALLOW, Answer};
use super::{Dialog, Invite, Phase, Said, State, TOO_EARLY_S};
use crate::time::Timestamp;

impl Dialog {
    /// The answer to our offer is in the ACK.
    pub(super) fn take_answer(&mut self, request: &Request, from: SocketAddr) -> bool {
        let Some(ours) = &self.ours else { return false };
        let answer = Description::parse(&request.body);
        match answer.and_then(|answer| ours.agree(&answer, from.ip())) {
            Ok(media) => {
                self.tell_media(media);
                true
            }
            Err(_) => false,
        }
    }

    pub(super) fn on_reinvite(&mut self, now: Timestamp, request: Request, from: SocketAddr) {
        match (&self.state, &self.invite.phase) {
            (State::Up, Phase::Acknowledged) => {}
            // Our offer of the last one is not answered yet.
            (State::Up, Phase::Answered { accepted: true, offers: true, .. }) => {
                return self.reply(&request, from, Answer::of(491, ""));
            }
            // It would not come if the answer to the last one had not arrived.
            (State::Up, Phase::Answered { accepted: true, .. }) => {}
            (State::Up | State::Ringing, _) => {
                let early = Answer::of(500, "").with("Retry-After", TOO_EARLY_S);
                return self.reply(&request, from, early);
            }
            (State::Parting | State::Leaving(_) | State::Over { .. }, _) => {
                return self.reply(&request, from, Answer::of(481, ""));
            }
        }
        let checked = match require::invite(&request) {
            Ok(checked) => checked,
            Err(refused) => return self.refuse_reinvite(now, request, from, &refused),
        };
        let us = self.ours.as_ref().map_or(self.setup.us, Ours::at);
        let agree =
            |offer: &Description| offer.agree(us, from.ip(), self.secrecy(), self.setup.codecs);
        match checked.offer.as_ref().map(agree).transpose() {
            Ok(media) => {
                self.retarget(&request);
                self.refresh = checked.refresh.map(|every| (every, now + every));
                let trying = Answer::of(100, "").write(&request, from);
                let phase = Phase::Asked(trying);
                self.invite = Invite { request, offer: checked.offer, from, phase };
                self.media = media.or(self.media.take());
                self.agree(now);
            }
            Err(bad) => self.refuse_reinvite(now, request, from, &Refused::of_sdp(bad)),
        }
    }

    /// What was agreed before goes on (RFC 3261, 14.2).
    pub(super) fn refuse_reinvite(
        &mut self,
        now: Timestamp,
        request: Request,
        from: SocketAddr,
        refused: &Refused,
    ) {
        let trying = Answer::of(100, "").write(&request, from);
        self.invite = Invite { request, offer: None, from, phase: Phase::Asked(trying) };
        self.answer_invite(now, &refused.answer(""), false);
    }

    pub(super) fn on_update(&mut self, now: Timestamp, request: &Request, from: SocketAddr) {
        if !matches!(self.state, State::Up) {
            let status = if matches!(self.state, State::Ringing) { 491 } else { 481 };
            return self.reply(request, from, Answer::of(status, ""));
        }
        if matches!(self.invite.phase, Phase::Answered { offers: true, .. }) {
            return self.reply(request, from, Answer::of(491, ""));
        }
        let checked = match require::update(request) {
            Ok(checked) => checked,
            Err(refused) => return self.reply(request, from, refused.answer("")),
        };
        let mut answer = Answer::of(200, "").with("Contact", self.contact());
        if let (Some(offer), Some(ours)) = (&checked.offer, &self.ours) {
            match offer.agree(ours.at(), from.ip(), self.secrecy(), self.setup.codecs) {
                Ok(media) => {
                    answer.sdp = self.ours.as_mut().map(|ours| ours.answer(offer, &media));
                    self.tell_media(media);
                }
                Err(bad) => {
                    return self.reply(request, from, Refused::of_sdp(bad).answer(""));
                }
            }
        }
        self.retarget(request);
        self.refresh = checked.refresh.map(|every| (every, now + every));
        let answer = require::promised(answer, checked.refresh);
        self.reply(request, from, answer);
    }

    /// Answers the newest INVITE with what was agreed, or with our offer where it made none.
    pub(super) fn agree(&mut self, now: Timestamp) {
        let Some(ours) = &mut self.ours else { return };
        let offer = self.invite.offer.take();
        let sdp = match (&offer, &self.media) {
            (Some(offer), Some(media)) => ours.answer(offer, media),
            (Some(_), None) | (None, _) => {
                let agreed = self.media.as_ref().and_then(|media| media.keys.as_ref());
                ours.offer(self.setup.srtp.line(agreed), self.media.as_ref())
            }
        };
        let tag = self.setup.tag.clone();
        let answer = Answer::of(200, &tag).with("Contact", self.contact()).with("Allow", ALLOW);
        let answer = answer.with("Supported", "timer");
        let mut answer = require::promised(answer, self.refresh.map(|(every, _)| every));
        answer.sdp = Some(sdp);
        self.answer_invite(now, &answer, offer.is_none());
        if offer.is_some()
            && let Some(media) = self.media.clone()
        {
            self.said.push_back(Said::Media(media));
        }
    }

    pub(super) fn tell_media(&mut self, media: Media) {
        self.media = Some(media.clone());
        self.said.push_back(Said::Media(media));
    }

    pub(super) fn retarget(&mut self, request: &Request) {
        if let Some(contact) = request.fields.list("contact").next().and_then(Address::parse) {
            self.target = contact.uri.to_owned();
        }
    }
}
