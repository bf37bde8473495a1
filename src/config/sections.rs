//! The small tables: turn, playout, fallback, call, realtime, drain, connections, log, …

use std::path::PathBuf;
use std::time::Duration;

use super::reader::{Choice, Reader};
use crate::call::{Offering, Offers};
use crate::turn::{bargein, end};

/// `[turn]`: when a turn ends and when the caller takes the floor.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// End of speech to first audible answer; an agent may say otherwise
    /// (`AgentLimits::turn_budget`).
    pub budget: Duration,
    /// What ends a turn: the name of one of [`end::POLICIES`].
    pub end: &'static str,
    /// A model is asked before it is certain that the caller has finished.
    pub speculative: bool,
    /// Silence that ends a turn; with an end-of-turn model the silence after which it is asked no
    /// more.
    pub silence: Duration,
    /// Most tool calls that one turn may make.
    pub tool_calls_max: u32,
    /// When speech over the agent's is an interruption.
    pub barge_in: BargeIn,
}

/// `turn.barge_in`: when speech over the agent's is an interruption.
#[derive(Clone, Debug, PartialEq)]
pub struct BargeIn {
    /// What decides: the name of one of [`bargein::POLICIES`].
    pub policy: &'static str,
    /// Speech for this long pauses the agent.
    pub duck: Duration,
    /// Speech for this long is judged by its words.
    pub confirm: Duration,
    /// Speech for this long interrupts, even when it is only a back-channel so far.
    pub backchannel: Duration,
    /// Speech that ended earlier waits this long for its words, then the agent goes on.
    pub resume: Duration,
    /// Fewer words do not interrupt, unless they answer a question.
    pub words_min: u32,
    /// What a listener says without wanting the floor, in lower case; empty: those of the agent's
    /// language.
    pub backchannels: Vec<String>,
    /// A pressed key interrupts.
    pub keys: bool,
}

/// `[playout]`: how far ahead of the caller's ear we send.
#[derive(Clone, Debug, PartialEq)]
pub struct Playout {
    /// Most sound that is sent ahead.
    pub lead: Duration,
}

/// `[fallback]`: what is said when the answer cannot be.
#[derive(Clone, Debug, PartialEq)]
pub struct FallbackTimes {
    /// Part of the turn's budget that is kept back for the prompt.
    pub start: Duration,
    /// A folder with prompts, ladder and audio of one's own; `None` is what is built in.
    pub dir: Option<PathBuf>,
}

/// `[call]`: how long a call may be; an agent may say otherwise ([`super::AgentLimits`]).
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Length of a call.
    pub max: Duration,
    /// Silence on both sides with nothing in flight; `None` for ever.
    pub idle: Option<Duration>,
}

/// `[realtime]`: the Realtime event protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct Realtime {
    /// Largest message in bytes; a larger one is closed with 1009.
    pub message_max: u64,
    /// Fields that the protocol does not know are errors.
    pub strict: bool,
    /// A peer that is quiet for this long is pinged.
    pub ping: Duration,
    /// A peer that is quiet for this long, pings unanswered, is lost.
    pub dead_after: Duration,
    /// A call whose client asked for it is kept for this long when its connection is lost; `None`:
    /// none is.
    pub resume: Option<Duration>,
}

/// `[models]`: where the embedded models lie.
#[derive(Clone, Debug, PartialEq)]
pub struct Models {
    /// The folder.
    pub dir: PathBuf,
    /// What is missing is fetched at start.
    pub fetch: bool,
}

/// `[store]`: where callbacks and handoffs are kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Store {
    /// Its name in [`crate::store::STORES`].
    pub provider: String,
    /// Its own keys, with the `path` of its file.
    pub table: toml::Table,
}

/// How long a callback is worth something, and how often it is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// It expires so long after it was asked for.
    pub expires_ms: u64,
    /// How often it is dialled at most.
    pub attempts_max: u32,
    /// Before the second attempt; doubled before each further one.
    pub backoff_ms: u64,
}

/// `[drain]`: the end of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Drain {
    /// How long accepted calls may go on.
    pub window: Duration,
}

/// `[admission]`: what goes with all gates.
#[derive(Clone, Debug, PartialEq)]
pub struct Admission {
    /// Decisions of each gate that are kept to be looked at.
    pub log_lines: u32,
    /// The folder where every decision is written, a file a gate; `None` writes none.
    pub log_dir: Option<PathBuf>,
    /// What one gate's file may grow to, in bytes; there it ends.
    pub log_file_max: u64,
    /// Admitted answers carry the gate's counts as refused ones do (B-078).
    pub expose_headers: bool,
    /// When the call gate gives way to its stages.
    pub upstream_pressure: UpstreamPressure,
}

/// When new calls give way to the turns of accepted ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamPressure {
    /// Never.
    Off,
    /// When turns were refused, or wait long.
    Refusals,
    /// And while a stage has no free unit.
    Full,
}

/// `[connections]`: bounds on what is connected, calls or not.
#[derive(Clone, Debug, PartialEq)]
pub struct Connections {
    /// In all.
    pub total: u32,
    /// From one address.
    pub per_address: u32,
}

/// `[log]`: what goes to stderr.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// A level, or directives such as `info,floorkeeper::runtime=debug`.
    pub level: String,
    /// How a line looks.
    pub format: LogFormat,
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Choice for LogFormat {
    const ALL: &'static [(&'static str, LogFormat)] =
        &[("text", LogFormat::Text), ("json", LogFormat::Json)];
}

impl Turn {
    pub(super) fn read(reader: &mut Reader<'_>) -> Turn {
        let turn = Turn::read_keys(reader);
        if turn.budget <= turn.silence {
            let problem = "a turn's budget is spent before its end is known";
            reader.refuse("turn.budget_ms", problem, "write more than turn.silence_ms");
        }
        turn
    }

    fn read_keys(reader: &mut Reader<'_>) -> Turn {
        Turn {
            budget: reader.ms("turn.budget_ms", 4_000, 500..=60_000),
            end: reader.one_of("turn.end", end::POLICIES.map(end::Policy::name)),
            speculative: reader.flag("turn.speculative", false),
            silence: reader.ms("turn.silence_ms", 500, 100..=10_000),
            tool_calls_max: reader.number("turn.tool_calls_max", 8, 1..=64, "a number of calls")
                as u32,
            barge_in: BargeIn::read(reader),
        }
    }
}

impl BargeIn {
    fn read(reader: &mut Reader<'_>) -> BargeIn {
        let table = "turn.barge_in";
        let ms = |reader: &mut Reader<'_>, key, default| {
            reader.ms(&*format!("{table}.{key}"), default, 0..=10_000)
        };
        let barge_in = BargeIn {
            policy: reader
                .one_of("turn.barge_in.policy", bargein::POLICIES.map(bargein::Policy::name)),
            duck: ms(reader, "duck_ms", 60),
            confirm: ms(reader, "confirm_ms", 240),
            backchannel: ms(reader, "backchannel_ms", 700),
            resume: ms(reader, "resume_ms", 300),
            words_min: reader.number("turn.barge_in.words_min", 1, 1..=20, "a number of words")
                as u32,
            keys: reader.flag("turn.barge_in.keys", true),
            backchannels: reader
                .list("turn.barge_in.backchannels", &[])
                .into_iter()
                .map(|word| word.to_lowercase())
                .collect(),
        };
        if barge_in.duck > barge_in.confirm {
            let problem = "speech is judged before the agent pauses";
            reader.refuse(&format!("{table}.duck_ms"), problem, "write at most confirm_ms");
        }
        if barge_in.confirm > barge_in.backchannel {
            let problem = "a back-channel would interrupt before its words are judged";
            reader.refuse(&format!("{table}.confirm_ms"), problem, "write at most backchannel_ms");
        }
        barge_in
    }
}

impl Playout {
    pub(super) fn read(reader: &mut Reader<'_>) -> Playout {
        Playout { lead: reader.ms("playout.lead_ms", 200, 20..=2_000) }
    }
}

impl Choice for Offering {
    const ALL: &'static [(&'static str, Offering)] = &[
        ("always", Offering::Always),
        ("known_number", Offering::KnownNumber),
        ("never", Offering::Never),
    ];
}

/// `[callback]`: how long a callback is worth something, and how often it is tried.
pub(super) fn callback_times(reader: &mut Reader<'_>) -> Times {
    let expires_h = reader.number("callback.expires_h", 24, 1..=336, "a number of hours");
    Times {
        expires_ms: expires_h * 3_600_000,
        attempts_max: reader.number("callback.attempts_max", 3, 1..=10, "a number of attempts")
            as u32,
        backoff_ms: reader.number(
            "callback.backoff_ms",
            300_000,
            1_000..=21_600_000,
            "a number of milliseconds",
        ),
    }
}

/// `callback.offer`, `handoff.offer`: which alternatives callers are offered.
pub(super) fn offers(reader: &mut Reader<'_>) -> Offers {
    Offers {
        callback: reader.choice("callback.offer", "always"),
        handoff: reader.choice("handoff.offer", "never"),
    }
}

impl FallbackTimes {
    pub(super) fn read(reader: &mut Reader<'_>, turn: &Turn, paths: &Paths) -> FallbackTimes {
        let start = reader.ms("fallback.start_ms", 300, 0..=10_000);
        if start >= turn.budget {
            let problem = "nothing of the turn's budget is left for an answer";
            reader.refuse("fallback.start_ms", problem, "write less than turn.budget_ms");
        }
        let dir = reader.text("fallback.dir", "");
        FallbackTimes { start, dir: paths.beside(reader, "fallback.dir", dir) }
    }
}

impl Call {
    pub(super) fn read(reader: &mut Reader<'_>) -> Call {
        let minutes = reader.number("call.max_minutes", 60, 1..=1_440, "a number of minutes");
        let what = "a number of seconds (0 for ever)";
        let idle_s = reader.number("call.idle_s", 600, 0..=86_400, what);
        Call {
            max: Duration::from_secs(minutes * 60),
            idle: (idle_s > 0).then(|| Duration::from_secs(idle_s)),
        }
    }
}

impl Realtime {
    pub(super) fn read(reader: &mut Reader<'_>) -> Realtime {
        let ping = reader.ms("realtime.ping_ms", 20_000, 100..=600_000);
        let dead_after = reader.ms("realtime.dead_after_ms", 60_000, 100..=3_600_000);
        if dead_after < ping {
            let problem = "a peer would be lost before it was pinged";
            reader.refuse("realtime.dead_after_ms", problem, "write at least realtime.ping_ms");
        }
        let resume = reader.ms("realtime.resume_ms", 20_000, 0..=600_000);
        Realtime {
            ping,
            resume: Some(resume).filter(|resume| !resume.is_zero()),
            dead_after,
            message_max: reader.bytes("realtime.message_max", 4 << 20, 64 << 10..=21 << 20),
            strict: reader.flag("realtime.strict", false),
        }
    }
}

impl Models {
    pub(super) fn read(reader: &mut Reader<'_>, paths: &Paths) -> Models {
        let dir = reader.text("models.dir", "");
        let dir = paths.beside(reader, "models.dir", dir);
        Models {
            dir: dir.unwrap_or_else(|| paths.cache.join("models")),
            fetch: reader.flag("models.fetch", true),
        }
    }
}

impl Store {
    pub(super) fn read(reader: &mut Reader<'_>, paths: &Paths) -> Store {
        let provider = reader.text("store.provider", "sqlite");
        if let Err(wrong) = crate::store::find(&provider) {
            let problem = format!("there is no store \"{provider}\"");
            reader.refuse("store.provider", problem, wrong.to_string());
        }
        let path = reader.text("store.path", "");
        let path = paths.beside(reader, "store.path", path);
        let path = path.unwrap_or_else(|| paths.data.join("floorkeeper.db"));
        let mut table = reader.open_table("store", &["provider", "path"]);
        table.insert("path".to_owned(), path.display().to_string().into());
        Store { provider, table }
    }
}

impl Drain {
    pub(super) fn read(reader: &mut Reader<'_>) -> Drain {
        Drain { window: reader.ms("drain.window_ms", 600_000, 0..=86_400_000) }
    }
}

impl Choice for UpstreamPressure {
    const ALL: &'static [(&'static str, UpstreamPressure)] = &[
        ("off", UpstreamPressure::Off),
        ("refusals", UpstreamPressure::Refusals),
        ("full", UpstreamPressure::Full),
    ];
}

impl Admission {
    pub(super) fn read(reader: &mut Reader<'_>, paths: &Paths) -> Admission {
        let dir = reader.text("admission.log_dir", "");
        let log_dir = paths.beside(reader, "admission.log_dir", dir);
        let lines = "a number of decisions";
        Admission {
            log_lines: reader.number("admission.log_lines", 4_096, 0..=1_000_000, lines) as u32,
            log_dir,
            log_file_max: reader.bytes("admission.log_file_max", 256 << 20, 1 << 20..=1 << 40),
            expose_headers: reader.flag("admission.expose_headers", false),
            upstream_pressure: reader.choice("admission.upstream_pressure", "refusals"),
        }
    }
}

impl Connections {
    pub(super) fn read(reader: &mut Reader<'_>) -> Connections {
        let what = "a number of connections";
        let mut count = |key, most| reader.number(key, most, 1..=100_000, what) as u32;
        Connections {
            total: count("connections.total", 4_096),
            per_address: count("connections.per_address", 1_024),
        }
    }
}

impl Log {
    pub(super) fn read(reader: &mut Reader<'_>) -> Log {
        let level = reader.text("log.level", "info");
        if level.parse::<tracing_subscriber::EnvFilter>().is_err() {
            let problem = format!("\"{level}\" is no level");
            let right = "write error, warn, info, debug, trace, or module=level,…";
            reader.refuse("log.level", problem, right);
        }
        Log { level, format: reader.choice("log.format", "text") }
    }
}

/// What relative and unsaid paths are relative to.
pub(super) struct Paths {
    /// The folder of the configuration file.
    pub config: PathBuf,
    /// The user's cache folder of ours.
    pub cache: PathBuf,
    /// The user's data folder of ours.
    pub data: PathBuf,
}

impl Paths {
    /// A path as written, relative to the file it was written in; `None` where nothing is written.
    pub fn beside(&self, reader: &Reader<'_>, key: &str, path: String) -> Option<PathBuf> {
        if path.is_empty() {
            return None;
        }
        let source = reader.resolved.get(key).map(|resolved| resolved.origin.source);
        Some(match source {
            Some(super::Source::Config) => self.config.join(path),
            _ => PathBuf::from(path),
        })
    }
}
