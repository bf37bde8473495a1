//! Turn detection as clients write and read it.

use std::time::Duration;

use serde::Serialize;

use super::fields::Fields;
use super::wrong::Wrong;
use crate::leg::{EndOfTurn, ServerTurns};
use crate::time::ms;

/// Longest of the spans a client may ask for.
const SPAN_MAX_MS: u64 = 600_000;

/// What `turn_detection` says when it is not null.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Turns {
    /// The word for how patient `semantic_vad` is; not used by `server_vad`.
    pub eagerness: &'static str,
    /// The rest.
    pub server: ServerTurns,
}

impl Turns {
    /// The agent's own way.
    pub fn of(server: ServerTurns) -> Self {
        Turns { eagerness: "auto", server }
    }

    /// Reads an object; it replaces the old one as a unit, and `base` fills what it does not say.
    pub fn parse(fields: &Fields<'_>, base: &ServerTurns) -> Result<Self, Wrong> {
        match fields.text("type")?.unwrap_or("server_vad") {
            "server_vad" => Turns::parse_server(fields, base),
            "semantic_vad" => Turns::parse_semantic(fields, base),
            other => Err(Wrong::value(fields.path("type"), other, "'server_vad', 'semantic_vad'")),
        }
    }

    fn parse_server(fields: &Fields<'_>, base: &ServerTurns) -> Result<Self, Wrong> {
        fields.only(&[
            "type",
            "threshold",
            "prefix_padding_ms",
            "silence_duration_ms",
            "idle_timeout_ms",
            "create_response",
            "interrupt_response",
        ])?;
        let span = |key, least| -> Result<Option<Duration>, Wrong> {
            Ok(fields.whole(key, least, SPAN_MAX_MS)?.map(ms))
        };
        let silence = match base.end {
            EndOfTurn::Silence(silence) => silence,
            EndOfTurn::Content { .. } => ms(500),
        };
        let server = ServerTurns {
            threshold: fields.number("threshold", 0.0, 1.0)?.map_or(base.threshold, |t| t as f32),
            prefix: span("prefix_padding_ms", 0)?.unwrap_or(base.prefix),
            end: EndOfTurn::Silence(span("silence_duration_ms", 0)?.unwrap_or(silence)),
            create_response: fields.flag("create_response")?.unwrap_or(true),
            interrupt_response: fields.flag("interrupt_response")?.unwrap_or(true),
            idle: span("idle_timeout_ms", 1)?,
        };
        Ok(Turns { eagerness: "auto", server })
    }

    fn parse_semantic(fields: &Fields<'_>, base: &ServerTurns) -> Result<Self, Wrong> {
        fields.only(&["type", "eagerness", "create_response", "interrupt_response"])?;
        let (eagerness, at_most_ms) = match fields.text("eagerness")?.unwrap_or("auto") {
            "low" => ("low", 8_000),
            "medium" => ("medium", 4_000),
            "high" => ("high", 2_000),
            "auto" => ("auto", 4_000),
            other => {
                let known = "'low', 'medium', 'high', 'auto'";
                return Err(Wrong::value(fields.path("eagerness"), other, known));
            }
        };
        let server = ServerTurns {
            end: EndOfTurn::Content { at_most: ms(at_most_ms) },
            create_response: fields.flag("create_response")?.unwrap_or(true),
            interrupt_response: fields.flag("interrupt_response")?.unwrap_or(true),
            idle: None,
            ..*base
        };
        Ok(Turns { eagerness, server })
    }

    /// The object as the session shows it: every value spelled out (T6).
    pub fn object(&self) -> TurnsObject {
        let ServerTurns { create_response, interrupt_response, .. } = self.server;
        match self.server.end {
            EndOfTurn::Silence(silence) => TurnsObject::Server {
                r#type: "server_vad",
                threshold: rounded(self.server.threshold),
                prefix_padding_ms: millis(self.server.prefix),
                silence_duration_ms: millis(silence),
                idle_timeout_ms: self.server.idle.map(millis),
                create_response,
                interrupt_response,
            },
            EndOfTurn::Content { .. } => TurnsObject::Semantic {
                r#type: "semantic_vad",
                eagerness: self.eagerness,
                create_response,
                interrupt_response,
            },
        }
    }
}

/// A `turn_detection` object.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum TurnsObject {
    Server {
        r#type: &'static str,
        threshold: f64,
        prefix_padding_ms: u64,
        silence_duration_ms: u64,
        idle_timeout_ms: Option<u64>,
        create_response: bool,
        interrupt_response: bool,
    },
    Semantic {
        r#type: &'static str,
        eagerness: &'static str,
        create_response: bool,
        interrupt_response: bool,
    },
}

/// Whole milliseconds of a span.
pub(super) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// An `f32` the way a person wrote it: 0.3 and not 0.30000001192.
pub(super) fn rounded(number: f32) -> f64 {
    (f64::from(number) * 10_000.0).round() / 10_000.0
}
