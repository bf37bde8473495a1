//! A fixture as written: TOML that names the caller's deeds, the providers' behaviour and what must
//! follow.

use std::time::Duration;

use serde::Deserialize;

use super::counterparts::{CallbackScript, HumanScript};
use crate::config::Config;

/// A fixture.
#[derive(Clone, Debug)]
pub struct Script {
    /// What it shows, in a sentence.
    pub about: String,
    /// What the caller does.
    pub caller: Vec<Deed>,
    /// The session's settings at its start.
    pub session: Session,
    /// What is around the caller's microphone, and who listens to it.
    pub scene: Scene,
    /// Every recording that is played, and where the script names it.
    pub files: Vec<Mention>,
    /// What is done to the gates from outside.
    pub gates: Vec<Held>,
    /// Who stands behind the rungs.
    pub behind: Behind,
    /// What must be true.
    pub expect: Vec<Expect>,
    /// Providers, gates, times: any key of the configuration.
    pub config: Config,
    /// Virtual time after which the fixture ends by itself.
    pub ends_by: Duration,
}

/// Who stands behind the rungs.
#[derive(Clone, Debug)]
pub struct Behind {
    /// The store of callbacks.
    pub callbacks: CallbackScript,
    /// The human who is asked.
    pub human: HumanScript,
}

/// Something the caller does.
#[derive(Clone, Debug)]
pub struct Deed {
    /// When.
    pub when: When,
    /// What.
    pub what: What,
    /// It is no mistake when its time never comes.
    pub maybe: bool,
}

/// When something happens.
#[derive(Clone, Debug, PartialEq)]
pub enum When {
    /// At this time.
    At(Duration),
    /// This long after the n-th fact that fits.
    After {
        /// The fact.
        fact: String,
        /// How long after it.
        delay: Duration,
        /// Which occurrence, from 1.
        nth: u32,
    },
}

/// What the caller does, or the client, or the server's operator.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// Speaks.
    Says {
        /// The words.
        words: String,
        /// How long it takes.
        span: Duration,
        /// The sound stops coming at its end (a muted microphone) until the caller speaks again.
        mutes: bool,
        /// How loud.
        loudness: Loudness,
    },
    /// Makes a noise that the detector takes for speech.
    Noise {
        /// How long it takes.
        span: Duration,
        /// How loud.
        loudness: Loudness,
    },
    /// Makes another sound.
    Plays {
        /// Which.
        source: Source,
        /// How loud.
        loudness: Loudness,
    },
    /// Hangs up.
    HangsUp,
    /// Has lost the connection, and may come back.
    Drops {
        /// Nothing had come through for so long.
        silent_for: Duration,
    },
    /// Comes back behind that.
    Returns,
    /// Presses a key.
    Presses(char),
    /// Cancels the answer, as a protocol client.
    Cancels,
    /// Asks for an answer, as a protocol client.
    Responds {
        /// Beside the conversation, in text.
        beside: bool,
    },
    /// Writes an item, as a protocol client.
    Writes(String),
    /// Gives the output of the function that the client was asked to run last.
    Outputs(String),
    /// Says that this much of the agent's last item was heard, and that no more will be.
    Truncates(Duration),
    /// Says that the sound so far is one utterance.
    Commits,
    /// Forgets the sound that was not committed.
    Clears,
    /// Changes the session's settings.
    Configures(Session),
    /// The server drains and its window closes.
    Drains,
}

/// A session's settings, where they differ from what the configuration says.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Session {
    /// Where the caller can be rung.
    pub number: Option<String>,
    /// The agent speaks first, as on a phone.
    pub greets: Option<bool>,
    /// The client decides what an utterance is.
    pub manual: Option<bool>,
    /// The caller's speech stops a running answer.
    pub interrupt_response: Option<bool>,
    /// Turns are answered by themselves.
    pub create_response: Option<bool>,
    /// After so many milliseconds of silence the silence is a turn.
    pub idle_ms: Option<u64>,
    /// Answers are written.
    pub text: Option<bool>,
    /// Names of functions that the client runs.
    #[serde(default)]
    pub client_tools: Vec<String>,
}

impl What {
    /// The name of its fact: `caller.<name>`.
    pub fn name(&self) -> &'static str {
        match self {
            What::Says { .. } => "speech",
            What::Noise { .. } | What::Plays { source: Source::Noise { .. }, .. } => "noise",
            What::Plays { source: Source::Wav { .. }, .. } => "plays",
            What::Plays { source: Source::Tone { .. }, .. } => "tone",
            What::Plays { source: Source::Silence { .. }, .. } => "silence",
            What::HangsUp => "hangs_up",
            What::Drops { .. } => "drops",
            What::Returns => "returns",
            What::Presses(_) => "presses",
            What::Cancels => "cancels",
            What::Responds { .. } => "responds",
            What::Writes(_) => "writes",
            What::Outputs(_) => "outputs",
            What::Truncates(_) => "truncates",
            What::Commits => "commits",
            What::Clears => "clears",
            What::Configures(_) => "configures",
            What::Drains => "drains",
        }
    }
}

/// A sound that is not made by a voice.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A recording.
    Wav {
        /// Its path as the script has it, from the script's own folder.
        file: String,
        /// What is said in it, for a scripted recogniser.
        words: String,
    },
    /// One steady tone.
    Tone {
        /// Its pitch.
        hz: f64,
        /// How long.
        span: Duration,
    },
    /// Noise without a voice in it.
    Noise {
        /// Of which colour.
        colour: Colour,
        /// How long.
        span: Duration,
    },
    /// Digital silence: nothing else is in it either.
    Silence {
        /// How long.
        span: Duration,
    },
}

/// What a noise's power does over its frequencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Nothing.
    White,
    /// Falls by 3 dB an octave, as that of rooms and streets.
    Pink,
}

/// How loud a sound is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Loudness {
    /// As it was recorded or made.
    #[default]
    AsItIs,
    /// At this level, in dB of full scale.
    Level(f64),
    /// So many dB above the background.
    OverBackground(f64),
}

/// What is around the caller's microphone, and who listens to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scene {
    /// Who says what is speech.
    pub listener: Listener,
    /// The line that names who does.
    pub line: usize,
    /// What is always in the microphone.
    pub background: Option<Background>,
    /// The agent's own sound, come back.
    pub echo: Option<Echo>,
    /// The way to the server.
    pub network: Network,
    /// A recording that the agent sounds like.
    pub agent: Option<String>,
}

/// Who says what is speech.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Listener {
    /// The script: the deeds themselves.
    #[default]
    Scripted,
    /// The detector of this name listens to the sound.
    Detector(&'static str),
}

/// What is always in the microphone.
#[derive(Clone, Debug, PartialEq)]
pub struct Background {
    /// What it is.
    pub bed: Bed,
    /// How loud, in dB of full scale.
    pub level_dbfs: f64,
}

/// The sound of a background.
#[derive(Clone, Debug, PartialEq)]
pub enum Bed {
    /// Noise.
    Noise(Colour),
    /// A recording, over and over.
    Wav(String),
}

/// The way from the caller's loudspeaker into their microphone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Echo {
    /// How long it takes.
    pub delay: Duration,
    /// What is lost on it.
    pub attenuation_db: f64,
}

/// What happens to the caller's frames on their way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    /// So many of a hundred never come.
    pub loss_pct: f64,
    /// The others come up to so much later.
    pub jitter: Duration,
    /// From when for how long none comes at all.
    pub gaps: Vec<(Duration, Duration)>,
}

/// A recording that a script names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// Its path as the script has it.
    pub file: String,
    /// The key that names it.
    pub key: String,
    /// The key's line.
    pub line: usize,
}

/// Something that is done to a gate from outside.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// The gate's name.
    pub gate: String,
    /// What.
    pub what: Handled,
    /// From when.
    pub from: Duration,
    /// Until when; to the end without.
    pub until: Option<Duration>,
}

/// What somebody else does to a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handled {
    /// Holds so many units.
    Holds(u32),
    /// Changes its limits at run time; behind the time they are what they were.
    Limits {
        /// Its units.
        slots: Option<u32>,
        /// How many may wait.
        queue: Option<u32>,
    },
}

/// What must be true.
#[derive(Clone, Debug, PartialEq)]
pub enum Expect {
    /// These facts, in this order, with anything between.
    Order(Vec<String>),
    /// No such fact, behind that one where it is named.
    Never {
        /// The fact.
        fact: String,
        /// Only behind this.
        after: Option<String>,
    },
    /// So many such facts.
    Count {
        /// The fact.
        fact: String,
        /// At least.
        at_least: usize,
        /// At most.
        at_most: usize,
    },
    /// The fact comes within this time of another.
    Within {
        /// The fact.
        fact: String,
        /// Behind this.
        of: String,
        /// At most so much later.
        span: Duration,
    },
    /// The next request's history ends with what was heard, no word more.
    HistoryEndsWithHeard,
    /// The n-th request to the model has, or has not, these words in its history.
    Asked {
        /// Which request, from 1.
        nth: usize,
        /// Lines that have to be there, in this order: `user: …`, `agent: …`, `called …`, `returned
        /// …`.
        has: Vec<String>,
        /// Words that may be nowhere in it.
        lacks: Vec<String>,
    },
}

impl Expect {
    /// What the model was asked has to be kept for it.
    pub(super) fn looks_at_requests(&self) -> bool {
        matches!(self, Expect::Asked { .. })
    }
}

/// Why a fixture cannot be run: file, line, key, what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {key}: {problem}; {right}")]
pub struct ScriptError {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The key.
    pub key: String,
    /// What is wrong.
    pub problem: String,
    /// What would be right.
    pub right: String,
}

/// Words a second that a caller says.
pub(crate) const WORDS_PER_S: f64 = 2.5;
