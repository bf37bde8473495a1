//! A callback as it is kept: what was asked for and consented to, where it stands, who holds it.

use serde::{Deserialize, Serialize};

use crate::id::CallbackId;

/// Milliseconds of the wall clock since 1970. A promise outlives the process, so its times cannot
/// be the process's own; whoever asks the store says what time it is.
pub type UnixMs = u64;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $variant:ident = $label:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$each])* $variant,)* }

        impl $name {
            /// Every one there is.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// Its stable name in the file, the API and metrics.
            pub fn label(self) -> &'static str {
                match self { $($name::$variant => $label,)* }
            }

            /// The one of this name.
            pub fn named(label: &str) -> Option<$name> {
                $name::ALL.iter().copied().find(|one| one.label() == label)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.label())
            }
        }
    };
}
pub(crate) use words;

words! {
    /// Where a callback stands.
    State {
        /// On record, before its time.
        Accepted = "accepted",
        /// Its time has come.
        Due = "due",
        /// A worker holds it until its lease lapses.
        Claimed = "claimed",
        /// A worker was about to dial, or is dialling.
        Dialling = "dialling",
        /// The caller was reached.
        Connected = "connected",
        /// Nobody answered, and no attempt is left.
        NoAnswer = "no_answer",
        /// A machine answered, and no attempt is left.
        Voicemail = "voicemail",
        /// It could not be dialled, and no attempt is left.
        Failed = "failed",
        /// Its time passed.
        Expired = "expired",
        /// It was taken back before anybody dialled.
        Cancelled = "cancelled",
        /// The worker vanished between dialling and outcome: nobody knows, so nobody dials again.
        UnknownDial = "unknown_dial",
    }
}

words! {
    /// Which bound a record counts against.
    Shelf {
        /// Still to be done: counts against what may be accepted.
        Open = "open",
        /// Done one way or the other, kept for a while as history.
        Kept = "kept",
        /// A dead letter: promised, not done, for somebody to look at (C-044).
        Dead = "dead",
    }
}

impl State {
    /// The shelf that a record of this state stands on, unless it was replayed.
    pub fn shelf(self) -> Shelf {
        match self {
            State::Accepted | State::Due | State::Claimed | State::Dialling => Shelf::Open,
            State::Connected | State::Expired | State::Cancelled => Shelf::Kept,
            State::NoAnswer | State::Voicemail | State::Failed | State::UnknownDial => Shelf::Dead,
        }
    }

    /// Nothing more happens to it by itself.
    pub fn is_terminal(self) -> bool {
        self.shelf() != Shelf::Open
    }
}

/// That the caller wants to be rung, with what shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consent {
    /// What was asked.
    pub asked: String,
    /// What the caller answered: words, or keys.
    pub said: String,
    /// When.
    pub at_ms: UnixMs,
    /// In which call; empty when it was not in one of ours.
    pub call: String,
    /// In which turn of it.
    pub turn: u32,
}

/// When the destination must not ring: daily, in its own local time, which is data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuietHours {
    /// The first quiet minute of the day.
    pub from_minute: u16,
    /// The first minute that is quiet no more; before `from_minute` when midnight lies between.
    pub to_minute: u16,
    /// Minutes that the destination's clock is ahead of UTC.
    pub utc_offset_minutes: i16,
}

/// What makes a repeated request the same request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// The client's `Idempotency-Key`, unique within its tenant.
    pub name: String,
    /// A digest of what was asked: the same key for something else is refused.
    pub digest: String,
}

/// What is asked of the store: to keep the promise of one callback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Who pays.
    pub tenant: String,
    /// Where to ring: a number in E.164 or a SIP address, already made canonical.
    pub destination: String,
    /// What it is about.
    pub why: String,
    /// The caller's language (BCP 47).
    pub language: String,
    /// The call it was asked in; empty when it was not in one.
    pub call: String,
    /// The process that took it.
    pub incarnation: String,
    /// When it was asked for; its age counts from here, whatever happens (C-017).
    pub born_ms: UnixMs,
    /// Not earlier.
    pub not_before_ms: UnixMs,
    /// Not later.
    pub expires_ms: UnixMs,
    /// How often it may be dialled (C-041).
    pub attempts_max: u32,
    /// Before the second attempt; doubled before each further one.
    pub backoff_ms: u64,
    /// That the caller wants it.
    pub consent: Consent,
    /// When it must not ring.
    pub quiet: Option<QuietHours>,
    /// Under which authorisation it is dialled; asked again when it is.
    pub authorisation: String,
    /// What makes a repeated request the same.
    pub key: Option<Key>,
    /// The dead letter that this one replays (C-044).
    pub replays: Option<IdText>,
}

/// An id inside a stored offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdText(pub CallbackId);

impl Serialize for IdText {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for IdText {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<IdText, D::Error> {
        let text = String::deserialize(from)?;
        let id = CallbackId::parse(&text);
        id.map(IdText).ok_or_else(|| serde::de::Error::custom("this is no callback's id"))
    }
}

/// What a record costs beside its texts.
const RECORD_BYTES: u64 = 256;

impl Offer {
    /// What it counts against the bounds in bytes.
    pub fn bytes(&self) -> u64 {
        let key = self.key.iter().flat_map(|key| [&key.name, &key.digest]);
        let texts = [
            &self.tenant,
            &self.destination,
            &self.why,
            &self.language,
            &self.call,
            &self.incarnation,
            &self.consent.asked,
            &self.consent.said,
            &self.consent.call,
            &self.authorisation,
        ];
        let length = texts.into_iter().chain(key).map(|text| text.len() as u64).sum::<u64>();
        RECORD_BYTES + length
    }
}

/// A callback on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its name.
    pub id: CallbackId,
    /// What was asked for.
    pub offer: Offer,
    /// Where it stands.
    pub state: State,
    /// Where it is counted.
    pub shelf: Shelf,
    /// Rises with every claim and every lapse: who acts must name it, so that a worker which was
    /// away too long cannot.
    pub epoch: u64,
    /// Who holds it; empty when nobody does.
    pub worker: String,
    /// Until when.
    pub lease_until_ms: UnixMs,
    /// How often it was dialled, or may have been.
    pub attempts: u32,
    /// The earliest time for the next attempt.
    pub due_ms: UnixMs,
    /// When its state changed last.
    pub changed_ms: UnixMs,
    /// What the last attempt came to, in words.
    pub detail: String,
}

impl Record {
    /// The record of an offer that is about to be committed.
    pub fn new(id: CallbackId, offer: Offer, now_ms: UnixMs) -> Record {
        let due_ms = offer.not_before_ms;
        let state = if due_ms <= now_ms { State::Due } else { State::Accepted };
        Record {
            id,
            state,
            shelf: state.shelf(),
            epoch: 0,
            worker: String::new(),
            lease_until_ms: 0,
            attempts: 0,
            due_ms,
            changed_ms: now_ms,
            detail: String::new(),
            offer,
        }
    }
}

/// A new name: ordered by time, and nobody can guess it.
pub(crate) fn fresh_id(now_ms: UnixMs) -> CallbackId {
    let time = u128::from(now_ms & 0xffff_ffff_ffff) << 80;
    CallbackId(time | (rand::random::<u128>() & ((1 << 80) - 1)))
}
