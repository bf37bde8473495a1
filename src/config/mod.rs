//! The configuration: as written (`raw`), and as meant ([`Config`]), which cannot be wrong.
//!
//! Each value resolves `--set`, then the file, then the environment
//! (`FLOORKEEPER_LIMITS_MODEL_SLOTS`), then the default, and is read back with its source.
//! `docs/reference/floorkeeper.toml` documents every key.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use url::Url;

mod addresses;
mod agent;
mod asterisk;
mod auth;
mod calls;
mod chosen;
mod classes;
mod error;
mod limits;
mod outbound;
mod promises;
mod prompt_audio;
mod prompts;
mod raw;
mod reader;
mod sections;
mod show;
mod sip;
mod template;
mod tls;
mod twilio;
mod unknown;
mod webrtc;

use crate::call::Offers;
pub use agent::{Agent, AgentLimits, DEFAULT_AGENT};
pub use asterisk::{Ari, Asterisk};
pub use auth::{Auth, Key};
pub use calls::Abilities;
pub use chosen::Chosen;
pub use classes::{Class, Classes, NO_CLASS};
pub use error::{ConfigError, ConfigErrors};
pub use limits::{
    Fairness, GateLimits, LIMIT_KEYS, LIMIT_MS_MAX, Limits, Mode, Overflow, QUEUE_MAX, SLOTS_MAX,
    Slots,
};
pub use outbound::{Desk, Outbound};
pub use promises::{DialledBy, Dialling, Stubbed, Webhook, Webhooks};
pub use prompts::{Fallback, SPOKEN_FILE, Script};
pub use raw::{Origin, Source, text_of};
pub(crate) use raw::{line_at, word};
pub(crate) use reader::nearest;
pub use sections::{
    Admission, BargeIn, Call, Connections, Drain, FallbackTimes, Log, LogFormat, Models, Playout,
    Realtime, Store, Times, Turn, UpstreamPressure,
};
pub use show::{Origins, Resolved};
pub use sip::{Sip, Trunk};
pub use template::{CALL_VARIABLES, Template};
pub use tls::Tls;
pub use twilio::{Refuse, Twilio};
pub use webrtc::WebRtc;

use raw::Node;
use reader::{ENV_PREFIX, Reader};
use sections::Paths;

/// The configuration as it is meant. Two are equal when they mean the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where HTTP and WebSocket are served.
    pub listen: SocketAddr,
    /// What the outside world calls us; `None` where it was not said.
    pub public_url: Option<Url>,
    /// Who may connect.
    pub auth: Auth,
    /// Workload classes.
    pub classes: Classes,
    /// Every gate's limits.
    pub limits: Limits,
    /// Who answers, by name; [`DEFAULT_AGENT`] is always there.
    pub agents: BTreeMap<String, Agent>,
    /// When a turn ends and when the caller takes the floor.
    pub turn: Turn,
    /// How far ahead we send.
    pub playout: Playout,
    /// What is kept back for a prompt.
    pub fallback: FallbackTimes,
    /// How long a call may be.
    pub call: Call,
    /// The speech detector.
    pub vad: Chosen,
    /// Which alternatives callers are offered.
    pub offers: Offers,
    /// How long a callback is worth something, and how often it is tried.
    pub callback_times: Times,
    /// Who dials callbacks.
    pub dialling: Dialling,
    /// What may be dialled, and as whom.
    pub outbound: Outbound,
    /// Who is told of callbacks and handoffs.
    pub webhooks: Webhooks,
    /// Most that a quiet caller is amplified for the detector, in dB.
    pub gain_max_db: u32,
    /// The recogniser.
    pub asr: Chosen,
    /// The language model.
    pub llm: Chosen,
    /// The synthesiser.
    pub tts: Chosen,
    /// Every tool there is, by name: the built-in ones and those that are described.
    pub tools: BTreeMap<String, Chosen>,
    /// Tools that start only in a turn in which the caller agreed.
    pub confirmed_tools: BTreeSet<String>,
    /// The Realtime event protocol.
    pub realtime: Realtime,
    /// Calls that a telephone provider brings.
    pub twilio: Twilio,
    /// The certificate of HTTP and WebSocket; `None` serves them in the clear.
    pub tls: Option<Tls>,
    /// Calls from browsers.
    pub webrtc: WebRtc,
    /// Telephones and trunks that ring us.
    pub sip: Sip,
    /// An Asterisk that brings its calls.
    pub asterisk: Asterisk,
    /// Where the embedded models lie.
    pub models: Models,
    /// Where callbacks and handoffs are kept.
    pub store: Store,
    /// The end of a server.
    pub drain: Drain,
    /// What goes with all gates.
    pub admission: Admission,
    /// Bounds on what is connected.
    pub connections: Connections,
    /// What goes to stderr.
    pub log: Log,
    /// What the limits are where neither the file nor `--set` says anything.
    pub inherited: Inherited,
    /// Where every value comes from.
    pub origins: Origins,
    /// What is no error and still probably not meant, a sentence each.
    pub warnings: Vec<String>,
}

/// What environment and defaults make of the limits: what `"inherit"` returns to at run time
/// (B-021, B-027).
#[derive(Clone, Debug, PartialEq)]
pub struct Inherited {
    /// The limits.
    pub limits: Limits,
    /// Where their values come from.
    pub origins: Origins,
}

impl Inherited {
    /// Wrong variables are refused where the whole configuration is read; here they count as not
    /// set.
    fn read(env: &BTreeMap<String, String>, tools: &[String], classes: &Classes) -> Inherited {
        let nothing = Node::empty();
        let mut reader = Reader::new(&nothing, env);
        let limits = Limits::read(&mut reader, tools, classes);
        Inherited { limits, origins: Origins(reader.resolved) }
    }
}

impl Config {
    /// Loads the file at `path` (none: only defaults), with the environment below it and `sets`
    /// (`limits.model.slots=8`) above it. All errors are found in one pass.
    pub fn load(
        path: Option<&Path>,
        sets: &[String],
        env: impl Iterator<Item = (String, String)>,
    ) -> Result<Config, ConfigErrors> {
        let written = match path {
            Some(path) => raw::read(path).map_err(ConfigErrors)?,
            None => Node::empty(),
        };
        let beside = path.and_then(Path::parent).unwrap_or(Path::new("")).to_owned();
        Config::resolve(written, sets, env, beside)
    }

    /// As [`Config::load`], from the text of a file that is called `name`.
    pub fn parse(
        name: &str,
        text: &str,
        sets: &[String],
        env: impl Iterator<Item = (String, String)>,
    ) -> Result<Config, ConfigErrors> {
        let written = raw::parse(text, &name.into()).map_err(ConfigErrors)?;
        Config::resolve(written, sets, env, PathBuf::new())
    }

    /// The agent of this name.
    pub fn agent(&self, name: &str) -> Option<&Agent> {
        self.agents.get(name)
    }

    /// The agent that answers this number or extension, or has it as a name.
    pub fn agent_at(&self, dialled: &str) -> Option<&Agent> {
        let answers = |agent: &&Agent| agent.numbers.iter().any(|number| number == dialled);
        self.agent(dialled).or_else(|| self.agents.values().find(answers))
    }

    /// The agent that answers when nobody asked for another.
    pub fn default_agent(&self) -> &Agent {
        // `agent::read` always makes it; nothing takes it out.
        &self.agents[DEFAULT_AGENT]
    }

    /// Every value with its source: lines for people, or one JSON object by key. Secrets are left
    /// out.
    pub fn show(&self, json: bool) -> String {
        self.origins.show(json)
    }

    /// An error about `key` at the place it was written, or else at the place `chosen` was.
    pub fn error_at(
        &self,
        key: &str,
        chosen: &str,
        problem: impl Into<String>,
        right: impl Into<String>,
    ) -> ConfigError {
        let default = Origin::default_value();
        let written = self.origins.get(key).or_else(|| self.origins.get(chosen));
        ConfigError::at(written.map_or(&default, |r| &r.origin), key, problem, right)
    }

    fn resolve(
        written: Node,
        sets: &[String],
        env: impl Iterator<Item = (String, String)>,
        beside: PathBuf,
    ) -> Result<Config, ConfigErrors> {
        let mut root = written.clone();
        let wrong_sets: Vec<ConfigError> =
            sets.iter().filter_map(|set| raw::apply_set(&mut root, set).err()).collect();
        let mut warnings = chosen::drop_keys_of_others(&written, &mut root);
        let env: BTreeMap<String, String> = env.collect();
        let paths = paths(&env, beside);
        let ours = env.into_iter().filter(|(name, _)| name.starts_with(ENV_PREFIX)).collect();
        let mut reader = Reader::new(&root, &ours);
        reader.errors = wrong_sets;
        let mut config = Config::read(&mut reader, &paths);
        unknown::refuse(&mut reader);
        warnings.extend(unknown::warn_of_variables(&reader));
        let Reader { mut errors, resolved, .. } = reader;
        if !errors.is_empty() {
            errors.sort_by_key(|error| (error.file.clone(), error.line));
            errors.dedup();
            return Err(ConfigErrors(errors));
        }
        config.origins = Origins(resolved);
        config.warnings.extend(warnings);
        Ok(config)
    }

    fn read(reader: &mut Reader<'_>, paths: &Paths) -> Config {
        let auth = auth::read(reader, paths);
        let chosen = chosen::read(reader);
        let tools: Vec<String> = chosen.tools.keys().cloned().collect();
        let turn = Turn::read(reader);
        let classes = Classes::read(reader);
        let limits = Limits::read(reader, &tools, &classes);
        let webhooks = Webhooks::read(reader);
        let (listen, webrtc) = (auth::listen(reader, &auth), WebRtc::read(reader));
        let warnings = limits.warnings().into_iter().chain(webhooks.warnings());
        let warnings = warnings.chain(webrtc.warning(listen)).collect();
        let tls = Tls::read(reader, paths);
        let (dialling, sip) = (Dialling::read(reader), Sip::read(reader, paths, tls.as_ref()));
        let (public_url, twilio) = (auth::public_url(reader), Twilio::read(reader));
        let dials = outbound::Dials { by: dialling.by, sip: &sip, twilio: &twilio };
        let outbound = Outbound::read(reader, &dials, public_url.as_ref());
        let agents = agent::read(reader, &tools, &classes);
        Config {
            listen,
            public_url,
            twilio,
            tls,
            webrtc,
            asterisk: Asterisk::read(reader),
            outbound,
            sip,
            auth,
            warnings,
            inherited: Inherited::read(reader.env, &tools, &classes),
            limits,
            call: Call::read(reader),
            fallback: FallbackTimes::read(reader, &turn, paths),
            turn,
            agents,
            classes,
            playout: Playout::read(reader),
            vad: chosen.vad,
            offers: sections::offers(reader),
            callback_times: sections::callback_times(reader),
            dialling,
            webhooks,
            gain_max_db: chosen.gain_max_db,
            asr: chosen.asr,
            llm: chosen.llm,
            tts: chosen.tts,
            tools: chosen.tools,
            confirmed_tools: chosen.confirmed,
            realtime: Realtime::read(reader),
            models: Models::read(reader, paths),
            store: Store::read(reader, paths),
            drain: Drain::read(reader),
            admission: Admission::read(reader, paths),
            connections: Connections::read(reader),
            log: Log::read(reader),
            origins: Origins::default(),
        }
    }
}

/// The user's own folders, as the environment tells.
fn paths(env: &BTreeMap<String, String>, config: PathBuf) -> Paths {
    let home = env.get("HOME").map_or_else(|| PathBuf::from("."), PathBuf::from);
    let folder = |variable: &str, below: &str| {
        let said = env.get(variable).filter(|said| Path::new(said).is_absolute());
        said.map_or_else(|| home.join(below), PathBuf::from).join("floorkeeper")
    };
    Paths {
        config,
        cache: folder("XDG_CACHE_HOME", ".cache"),
        data: folder("XDG_DATA_HOME", ".local/share"),
    }
}
