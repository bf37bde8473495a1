//! The dialog of a call that we placed, from its answer on.

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::Bytes;

use super::super::message::{Address, Fields, Request, Response};
use super::super::sdp::{Media, Ours};
use super::super::write::Ask;
use super::{Dialog, Invite, Phase, Setup, State};

/// What the answer to our INVITE has made.
#[derive(Clone, Debug)]
pub(in super::super) struct Made {
    /// We, with our tag; and the peer, with theirs.
    pub local: String,
    pub remote: String,
    pub call_id: String,
    pub target: String,
    pub routes: Vec<String>,
    pub peer: SocketAddr,
    /// The INVITE's number.
    pub cseq: u32,
}

/// Our word that we have heard the answer: it is given again as often as the answer comes.
#[derive(Debug)]
pub(super) struct Ack {
    cseq: u32,
    bytes: Bytes,
}

impl Dialog {
    pub fn made(setup: Setup, made: Made, ours: Ours, media: Option<Media>) -> Dialog {
        let Made { local, remote, call_id, target, routes, peer, cseq } = made;
        let (method, uri) = ("INVITE".to_owned(), target.clone());
        let request = Request { method, uri, fields: Fields::default(), body: Bytes::new() };
        let mut dialog = Dialog {
            setup,
            local,
            remote,
            call_id,
            target,
            routes,
            peer,
            heard_cseq: None,
            asked_cseq: cseq,
            invite: Invite { request, offer: None, from: peer, phase: Phase::Acknowledged },
            state: State::Up,
            ours: Some(ours),
            media,
            refresh: None,
            ack: None,
            refer: None,
            answered: VecDeque::new(),
            out: VecDeque::new(),
            said: VecDeque::new(),
        };
        let bytes = dialog.ask("ACK", cseq, &[]);
        dialog.out.push_back((peer, bytes.clone()));
        dialog.ack = Some(Ack { cseq, bytes });
        dialog
    }

    /// An answer to our INVITE came again; or another one, of whom the call was also shown to
    /// (RFC 3261, 13.2.2.4): nobody speaks with them.
    pub(super) fn on_answer_again(&mut self, response: &Response, from: SocketAddr) {
        let Some(Ack { cseq, bytes }) = &self.ack else { return };
        if response.fields.cseq() != Some((*cseq, "INVITE")) {
            return;
        }
        let to = response.fields.get("to").unwrap_or_default();
        let is_ours = Address::parse(to).map(|to| to.params)
            == Address::parse(&self.remote).map(|remote| remote.params);
        if is_ours {
            return self.out.push_back((self.peer, bytes.clone()));
        }
        let contact = response.fields.list("contact").next().and_then(Address::parse);
        let uri = contact.map_or(self.target.as_str(), |contact| contact.uri);
        for (method, cseq) in [("ACK", *cseq), ("BYE", *cseq + 1)] {
            let branch = format!("z9hG4bK{}{method}{:x}", self.setup.tag, rand::random::<u32>());
            let ask = Ask { uri, to, branch: &branch, ..self.asking(method, cseq, &[]) };
            self.out.push_back((from, ask.write()));
        }
    }
}
