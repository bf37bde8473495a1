//! The session's protocol without its connection: no I/O, no clock.

use std::sync::Arc;

use super::answers::{Answer, Around};
use super::format::{SoundIn, SoundOut};
use super::names::Names;
use super::outbox::Outbox;
use super::session::{Defaults, Session};
use super::update::{Past, updated};
use super::wrong::{Wrong, report};
use crate::codec::opus;
use crate::leg::{FromCaller, Settings, Tag};
use crate::transport::resume::Ticket;

/// What carries a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// A WebSocket: sound is in the events, and the client plays it out.
    Socket,
    /// A peer connection: events on a data channel, sound beside it, and we play it out.
    Peer,
}

/// One session: what its client says becomes [`FromCaller`], what the call says becomes events.
///
/// Feed it [`hear`](Protocol::hear) and [`say`](Protocol::say) in the order things happen and send
/// the outbox in its order: the order of events is part of the protocol (T12).
#[derive(Debug)]
pub struct Protocol {
    pub(super) defaults: Defaults,
    pub(super) session: Session,
    pub(super) past: Past,
    pub(super) names: Names,
    pub(super) answers: Vec<Answer>,
    pub(super) announcements: u32,
    pub(super) sound_in: SoundIn,
    pub(super) sound_out: SoundOut,
    pub(super) late: u64,
    pub(super) medium: Medium,
    /// The tag of cancels that a clear asked for: whether there was anything to cancel is nobody's
    /// question.
    pub(super) clears: Arc<str>,
    start_wrong: Option<Wrong>,
}

impl Protocol {
    /// A session over a WebSocket that nobody has heard of yet; [`begin`](Protocol::begin) comes
    /// next.
    pub fn new(defaults: Defaults) -> Self {
        Protocol::over(Medium::Socket, defaults)
    }

    /// The same over any medium.
    pub fn over(medium: Medium, defaults: Defaults) -> Self {
        let mut session = Session::new(&defaults);
        let mut start_wrong = None;
        if let Some(wanted) = &defaults.session {
            match updated(&session, wanted, &defaults, Past::default()) {
                Ok(new) => session = new,
                Err(wrong) => start_wrong = Some(wrong),
            }
        }
        Protocol {
            names: Names::new(&defaults.id_seed),
            sound_in: SoundIn::new(session.input_format),
            sound_out: SoundOut::new(session.output_format),
            past: Past::default(),
            answers: Vec::new(),
            announcements: 0,
            late: 0,
            medium,
            clears: Arc::from("output_audio_buffer.clear"),
            start_wrong,
            session,
            defaults,
        }
    }

    /// The first words: `session.created` for the client, the settings for the call.
    pub fn begin(&mut self, out: &mut Vec<FromCaller>, replies: &mut Outbox) {
        self.introduce(replies);
        if let Some(wrong) = self.start_wrong.take() {
            reject(&wrong, &None, replies);
        }
        out.push(FromCaller::Configure(Box::new(self.settings())));
    }

    /// The session as it is now, for one who has not heard of it.
    pub fn introduce(&self, replies: &mut Outbox) {
        replies.event("session.created").field("session", &self.session.object()).queue();
    }

    /// With what the client may come back to this session's call.
    pub fn tell_ticket(&self, ticket: &Ticket, replies: &mut Outbox) {
        let kept_ms = u64::try_from(ticket.kept_for.as_millis()).unwrap_or(u64::MAX);
        replies
            .event("floorkeeper.resume")
            .field("call_id", &ticket.call)
            .field("connection", &ticket.connection)
            .field("token", &ticket.token)
            .field("kept_ms", &kept_ms)
            .queue();
    }

    /// Introduces the session on another connection of the same call, in front of what was said
    /// while there was none.
    pub fn introduce_again(&self, ticket: &Ticket, replies: &mut Outbox) {
        let kept: Vec<_> = std::iter::from_fn(|| replies.pop()).collect();
        self.introduce(replies);
        self.tell_ticket(ticket, replies);
        for event in kept {
            replies.push(event);
        }
    }

    /// The settings as they now are.
    pub fn settings(&self) -> Settings {
        let settings = self.session.settings(&self.defaults.tools);
        match self.medium {
            Medium::Socket => settings,
            // Whatever format the session shows, Opus is what is sent.
            Medium::Peer => Settings { out_rate_hz: opus::ENCODED_RATE_HZ, ..settings },
        }
    }

    /// How much was said for an answer or message that was over: such output goes nowhere.
    pub fn late_output(&self) -> u64 {
        self.late
    }

    /// The whole `session` object as JSON.
    pub fn session_json(&self) -> serde_json::Value {
        // A session is made of texts and numbers, so this cannot fail.
        serde_json::to_value(self.session.object()).unwrap_or_default()
    }

    pub(super) fn around(&self) -> Around<'_> {
        Around { session: &self.session, names: &self.names }
    }

    pub(super) fn update_session(
        &mut self,
        wanted: &serde_json::Value,
        out: &mut Vec<FromCaller>,
        replies: &mut Outbox,
    ) -> Result<(), Wrong> {
        self.session = updated(&self.session, wanted, &self.defaults, self.past)?;
        self.sound_in.set_format(self.session.input_format);
        self.sound_out.set_format(self.session.output_format);
        replies.event("session.updated").field("session", &self.session.object()).queue();
        out.push(FromCaller::Configure(Box::new(self.settings())));
        Ok(())
    }
}

/// Queues the `error` event for what a client did wrong.
pub(super) fn reject(wrong: &Wrong, tag: &Tag, replies: &mut Outbox) {
    report(replies, wrong.code, &wrong.message, wrong.param.as_deref(), tag.as_deref());
}

/// The whole object that a session with these defaults and this `session` would begin with, or what
/// is wrong with it: for `POST /v1/realtime/client_secrets`.
pub fn preview_session(
    defaults: &Defaults,
    wanted: &serde_json::Value,
) -> Result<serde_json::Value, Wrong> {
    let session = updated(&Session::new(defaults), wanted, defaults, Past::default())?;
    Ok(serde_json::to_value(session.object()).unwrap_or_default())
}
