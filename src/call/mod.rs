//! One live conversation as one state machine: what happened in, what to do out.
//!
//! ```text
//!            commit / response.create           first frame sent            all sent
//! Listening ────────────────────────▶ Thinking ─────────────────▶ Speaking ──────────▶ PlayingOut
//!     ▲  ▲                               │  refused, failed, late    │  │                   │
//!     │  │                               ▼                           │  │ barge-in    heard │
//!     │  └───────── prompt heard ── FallingBack ◀────────────────────┘  │ confirmed         │
//!     └──────────────────────────────────┴──────────────────────────────┴───────────────────┘
//!                     a goodbye (time over, drained, ladder's end) heard: Ended
//!
//!            speech, agent silent                     end of turn
//! Quiet ───────────────────────────────▶ Hearing ───────────────────▶ Quiet
//!   │  speech, agent audible                ▲                           │ words awaited, in turn
//!   └─────────────────────▶ Suspect ────────┘ confirmed                 ▼ (`settling`), then turn
//!                     (rejected: back to Quiet, playout resumes)
//! ```
//!
//! [`Call::handle`] takes one event, with the time and the gates as arguments; drain
//! [`Call::poll_action`] behind every call of it. [`Call::poll_timeout`] says when to come back
//! with [`Event::Timeout`]; coming early is harmless. Nothing here waits, reads a clock or does
//! I/O.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::admission::{Admit, Cancelled, OwnerId, mutant};
use crate::dialogue::{Item, ItemBody, ItemStatus};
use crate::evidence::CallbackReceipt;
use crate::fallback::Rung;
use crate::id::{Generation, ItemId, ResponseId, RunId, ToolId, TurnId};
use crate::leg::{FromCaller, HangUp, Settings, ToCaller, TurnDetection};
use crate::time::{Timestamp, ms};
use crate::turn::history::History;
use crate::turn::speech::SpeechTracker;

mod answer;
mod brief;
mod claim;
mod consent;
mod ear;
mod event;
mod fallback;
mod floor;
mod greeting;
mod guess;
mod keys;
mod offers;
mod orders;
mod profile;
mod recogniser;
mod requests;
mod rungs;
mod runs;
mod settle;
mod side;
mod sound;
mod state;
mod timers;
mod tools;
pub mod trace;

pub use brief::Brief;
pub use event::{Action, Event, Measure, Timer};
pub use fallback::{Cause, Choose, Fact, Said, Standing};
pub use greeting::Greeting;
use guess::Guess;
use keys::Keys;
use offers::Offered;
use orders::Order;
pub use profile::{Identity, Offering, Offers, Profile};
pub use rungs::{Arranged, CONNECT_MAX, HANDOFF_MAX, Wish};
use state::{Ear, Floor, Orphan, Owed, Settling, Side, Stray};

/// Deliberately broken variants of the call's mechanisms, each caught by a fixture
/// (`cargo test --features mutants --test calls_mutants`).
pub const MUTANTS: [&str; 18] = [
    "promise_before_commit",
    "offer_without_room",
    "arranged_unit_dropped",
    "fence_only_before_synthesis",
    "flush_eats_control",
    "history_from_generated_text",
    "tool_started_after_fence",
    "resume_forgotten",
    "second_reply_for_split_final",
    "deadline_reset_by_retry",
    "release_on_cancel",
    "budget_ignored",
    "model_before_claim",
    "claim_kept",
    "guess_kept",
    "greeting_unprotected",
    "consent_not_asked",
    "tool_started_over_the_caller",
];

/// One live conversation.
#[derive(Debug)]
pub struct Call {
    identity: Identity,
    profile: std::sync::Arc<Profile>,
    settings: Settings,
    began: Timestamp,
    generation: Generation,
    floor: Floor,
    ear: Ear,
    /// Ended utterances whose words are awaited, in the order in which they were said.
    settling: VecDeque<Settling>,
    history: History,
    speech: SpeechTracker,
    /// A sound in which there were no words is not listened to any more: until it pauses, or then.
    deaf_until: Timestamp,
    /// When the caller's sound last came, and how far it reaches.
    last_sound: Timestamp,
    sound_at: Duration,
    /// How much of the caller's sound belongs to utterances that have ended.
    taken_to: Duration,
    /// The birth of the newest utterance.
    last_birth: Timestamp,
    /// Characters that the voice says in a second, as it did last.
    pace: u64,
    /// The far end plays what was sent until then.
    plays_until: Timestamp,
    /// Words came while an answer sounded that nobody may interrupt: they are answered behind it.
    unanswered: bool,
    /// Words came while such an answer sounded, and nobody could make them out: told behind it.
    unheard: Option<Cause>,
    /// A model already asked about words that may be a whole turn.
    guess: Option<Guess>,
    /// Keys pressed that are no turn yet.
    keys: Option<Keys>,
    /// What tools were asked to change in the world, until it was told.
    orders: Vec<Order>,
    /// Tool calls that the caller has not agreed to.
    not_agreed: Vec<(ToolId, String)>,
    /// How often in a row the caller was asked to try again.
    retries: u32,
    /// Rungs that were tried since something was last answered, and not established.
    tried: Vec<Rung>,
    /// Rungs that were offered since then.
    offers_made: Vec<Rung>,
    /// What the caller was offered and has not answered to.
    offered: Option<Offered>,
    /// A callback that is on record although the caller was told that nobody knows.
    on_record: Option<CallbackReceipt>,
    /// When somebody was last heard: the idle time counts from here.
    last_activity: Timestamp,
    owed: BTreeMap<RunId, Owed>,
    sides: BTreeMap<ResponseId, Side>,
    /// Tools of answers that lost the floor.
    orphans: BTreeMap<RunId, Orphan>,
    /// Runs that gave no proof of their end and may still send something.
    strays: BTreeMap<RunId, Stray>,
    counters: Counters,
    actions: VecDeque<Action>,
    late_outputs: u64,
    measures: Vec<Measure>,
}

/// The last numbers given out.
#[derive(Debug, Default)]
struct Counters {
    turn: u32,
    utterance: u32,
    run: u32,
    response: u32,
    item: u32,
    decode: u32,
}

impl Call {
    /// A call whose leg is not ready yet; its slot is held by whoever made it.
    pub fn new(
        now: Timestamp,
        identity: Identity,
        profile: std::sync::Arc<Profile>,
        settings: Settings,
    ) -> Call {
        let threshold = threshold_of(&settings);
        Call {
            identity,
            profile,
            settings,
            began: now,
            generation: Generation(0),
            floor: Floor::Ringing,
            ear: Ear::Quiet,
            settling: VecDeque::new(),
            history: History::default(),
            speech: SpeechTracker::new(threshold),
            deaf_until: now,
            last_sound: now,
            sound_at: Duration::ZERO,
            taken_to: Duration::ZERO,
            last_birth: Timestamp::ZERO,
            pace: crate::turn::script::CHARS_PER_S,
            plays_until: now,
            unanswered: false,
            unheard: None,
            guess: None,
            keys: None,
            orders: Vec::new(),
            not_agreed: Vec::new(),
            retries: 0,
            tried: Vec::new(),
            offers_made: Vec::new(),
            offered: None,
            on_record: None,
            last_activity: now,
            owed: BTreeMap::new(),
            sides: BTreeMap::new(),
            orphans: BTreeMap::new(),
            strays: BTreeMap::new(),
            counters: Counters::default(),
            actions: VecDeque::new(),
            late_outputs: 0,
            measures: Vec::new(),
        }
    }

    /// Takes one event. Drain [`Call::poll_action`] afterwards.
    pub fn handle(&mut self, now: Timestamp, admit: &mut dyn Admit, event: Event) {
        match event {
            Event::Connected => self.on_connected(now, admit),
            Event::Caller(said) => self.on_caller(now, admit, said),
            Event::Commit { buffered, at, tag } => self.on_commit(now, admit, buffered, at, tag),
            Event::Speech { window, at } => {
                self.sound_at = at;
                self.last_sound = now;
                self.on_speech(now, admit, window);
            }
            Event::Recognised { run, seq, is_final, transcript } => {
                self.on_recognised(now, admit, run, seq, is_final, transcript);
            }
            Event::TurnJudged { utterance, seq, probability } => {
                self.on_turn_judged(now, admit, utterance, seq, probability);
            }
            Event::Wrote { run, text } => self.on_wrote(now, admit, run, &text),
            Event::Wanted { run, call } => self.on_wanted(run, call),
            Event::Finished { run, finish, usage } => {
                self.on_finished(now, admit, run, finish, usage);
            }
            Event::Sounded { run, phrase, samples } => {
                self.on_sounded(now, admit, run, phrase, samples);
            }
            Event::PhraseSounded { run, phrase, words } => {
                self.on_phrase_sounded(run, phrase, words);
            }
            Event::ToolReturned { run, outcome } => {
                self.on_tool_returned(now, admit, run, outcome);
            }
            Event::Arranged { run, what } => self.on_arranged(now, admit, run, what),
            Event::Ended { run, proof, fault } => self.on_ended(now, admit, run, proof, fault),
            Event::Granted(lease) => self.on_granted(now, admit, lease),
            Event::WaitEnded { offer, stage, terminal } => {
                self.on_wait_ended(now, admit, offer, stage, terminal);
            }
            Event::Timeout => self.on_timeout(now, admit),
            Event::Drain => self.on_drain(now, admit),
        }
        self.review_guess(now, admit);
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Times to be counted since the last look.
    pub fn take_measures(&mut self) -> Vec<Measure> {
        std::mem::take(&mut self.measures)
    }

    /// The call has ended and owes nothing any more.
    pub fn is_over(&self) -> bool {
        matches!(self.floor, Floor::Ended { .. }) && self.owed.is_empty()
    }

    /// The call has ended; what it owes is still being given back.
    pub fn has_ended(&self) -> Option<HangUp> {
        match self.floor {
            Floor::Ended { why } => Some(why),
            Floor::Ringing
            | Floor::Arranging(_)
            | Floor::Listening { .. }
            | Floor::Thinking(_)
            | Floor::Speaking(_)
            | Floor::PlayingOut(_)
            | Floor::FallingBack(_) => None,
        }
    }

    /// An utterance is being heard or its words are awaited: its sound is still needed.
    pub fn is_hearing(&self) -> bool {
        !matches!(self.ear, Ear::Quiet) || !self.settling.is_empty()
    }

    /// The caller may hear the agent right now: what comes from their end may be its echo.
    pub fn agent_sounds(&self) -> bool {
        self.floor.is_audible()
    }

    /// The generation that has the floor.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// The turn committed last; 0 before the first.
    pub fn turn(&self) -> TurnId {
        TurnId(self.counters.turn)
    }

    /// How often output of an old generation was suppressed.
    pub fn late_outputs(&self) -> u64 {
        self.late_outputs
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The states' names, for records and pages.
    pub fn state_names(&self) -> (&'static str, &'static str) {
        match (&self.ear, self.settling.is_empty()) {
            (Ear::Quiet, false) => (self.floor.name(), "settling"),
            (ear, _) => (self.floor.name(), ear.name()),
        }
    }

    fn on_connected(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        if let Floor::Ringing = self.floor {
            self.floor = Floor::Listening { resumes: None };
            admit.rotate(now, self.owner(), self.generation, Cancelled::Superseded);
            admit.rotate(now, self.side_owner(), self.generation, Cancelled::Superseded);
            self.last_activity = now;
            if let Some(greeting) = self.identity.greeting.take() {
                self.greet(now, admit, greeting);
            }
        }
    }

    fn on_caller(&mut self, now: Timestamp, admit: &mut dyn Admit, said: FromCaller) {
        match (&self.floor, &said) {
            (Floor::Ended { .. }, _) => return,
            // A caller who leaves while it rings has left (B77).
            (Floor::Ringing, FromCaller::Gone { .. } | FromCaller::Back) => {}
            (Floor::Ringing, _) => return,
            _ => {}
        }
        match said {
            // Sound reaches the call as [`Event::Speech`], commits as [`Event::Commit`].
            FromCaller::Audio(_) | FromCaller::CommitAudio { .. } => {}
            FromCaller::Configure(settings) => self.on_configure(now, admit, *settings),
            FromCaller::ClearAudio => self.on_clear_audio(now, admit),
            FromCaller::AddItem { item, after, tag } => self.on_add_item(item, &after, tag),
            FromCaller::DeleteItem { item, tag } => self.on_delete_item(item, tag),
            FromCaller::RetrieveItem { item, tag } => self.on_retrieve_item(&item, tag),
            FromCaller::Truncate { item, played, tag } => {
                self.on_truncate(now, admit, item, played, tag);
            }
            FromCaller::Respond { request, tag } => self.on_respond(now, admit, now, request, tag),
            FromCaller::Cancel { response, tag } => self.on_cancel(now, admit, response, tag),
            FromCaller::Heard { item, played } => self.on_heard(now, &item, played),
            FromCaller::Dtmf(key) => self.on_key(now, admit, key),
            FromCaller::Lost { how: _, silent_for } => self.on_lost(now, admit, silent_for),
            FromCaller::Back => self.on_connected(now, admit),
            FromCaller::Gone { how } => self.on_gone(now, admit, how),
        }
    }

    fn on_configure(&mut self, now: Timestamp, admit: &mut dyn Admit, settings: Settings) {
        self.speech.set_threshold(threshold_of(&settings));
        self.settings = settings;
        self.ear_reconfigured(now, admit);
    }

    fn on_gone(&mut self, now: Timestamp, admit: &mut dyn Admit, how: &'static str) {
        let why = if how == "protocol" { HangUp::Misbehaved } else { HangUp::CallerGone };
        self.end(now, admit, why);
    }

    fn on_drain(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        self.leave(now, admit, HangUp::Drained);
    }

    // === names ===

    fn owner(&self) -> OwnerId {
        self.identity.owners()[0]
    }

    fn side_owner(&self) -> OwnerId {
        self.identity.owners()[1]
    }

    fn next_run(&mut self) -> RunId {
        self.counters.run += 1;
        RunId(self.counters.run)
    }

    fn next_item(&mut self) -> ItemId {
        self.counters.item += 1;
        ItemId::new(&format!("{}{:03}", self.identity.item_prefix, self.counters.item))
    }

    fn next_response(&mut self) -> ResponseId {
        self.counters.response += 1;
        ResponseId(self.counters.response)
    }

    // === small things everybody needs ===

    fn act(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    fn tell(&mut self, what: ToCaller) {
        self.act(Action::Tell(what));
    }

    /// Puts an item of our own at the end of the conversation; its name is new by construction.
    fn append(&mut self, id: &ItemId, body: ItemBody, status: ItemStatus) -> Option<ItemId> {
        let item = Item { id: id.clone(), body, status };
        self.history.add(item, &crate::leg::Place::End).ok().flatten()
    }

    /// The caller's speech comes first, as the session's settings have it.
    fn yields(&self) -> bool {
        match self.settings.turn_detection {
            TurnDetection::Manual => false,
            TurnDetection::Server(turns) => turns.interrupt_response,
        }
    }

    /// What sounds is stopped by the caller's speech.
    fn interrupts(&self) -> bool {
        self.yields() && !self.must_be_heard()
    }

    /// What sounds, or is about to, has to be heard to its end; the caller's words are kept.
    fn must_be_heard(&self) -> bool {
        !self.floor.is_interruptible() && !mutant::is("greeting_unprotected")
    }

    /// The caller has the floor or may be about to take it: what is ready to begin waits.
    fn caller_speaks(&self) -> bool {
        let speaks = self.is_hearing() || self.keys.is_some();
        speaks && self.interrupts()
    }

    /// A goodbye is being heard: the call ends behind it, whatever comes.
    fn is_leaving(&self) -> bool {
        self.floor.leaving().is_some()
    }

    /// How long the caller may hear nothing: the turn's budget less the fallback's own start.
    fn quiet_max(&self) -> Duration {
        self.profile.budget.saturating_sub(self.profile.fallback_start)
    }
}

fn threshold_of(settings: &Settings) -> f32 {
    match settings.turn_detection {
        TurnDetection::Manual => 0.5,
        TurnDetection::Server(turns) => turns.threshold,
    }
}

/// The longest an utterance's words may take once it has ended.
const FINAL_WORDS_MAX: Duration = ms(3_000);
/// Rounds of tools one answer may take.
const TOOL_ROUNDS_MAX: u32 = 8;
/// Tools one round may ask for.
const TOOL_FAN_OUT_MAX: usize = 8;
/// Tool calls of one round that are looked at at all; each beyond the fan-out is answered with a
/// refusal.
const TOOL_CALLS_MAX: usize = 32;
/// Silence behind an announcement ("let me look") while only its tools run.
const TOOL_QUIET_MAX: Duration = ms(10_000);
/// How long a written answer may stand still: nobody hears its silence, and its client waits.
const WRITING_QUIET_MAX: Duration = ms(30_000);
/// Runs without proof of their end that are remembered.
const STRAYS_MAX: usize = 64;
/// Utterances whose words may be awaited at once.
const SETTLING_MAX: usize = 4;
/// The longest utterance.
const UTTERANCE_MAX: Duration = ms(60_000);
/// The longest that a goodbye may take.
const GOODBYE_MAX: Duration = ms(15_000);
/// Answers in text that may run beside the conversation.
const SIDES_MAX: usize = 4;
/// How long a wordless sound is not listened to before it is given another chance.
const DEAF_MAX: Duration = ms(8_000);
/// Without sound for this long in mid-speech the caller is taken to be silent (B23).
const AUDIO_GAP: Duration = ms(300);
