//! Floorkeeper: a real-time voice-agent session controller.
//!
//! It takes live calls, runs each caller's turn through recognition, a language model, tools and
//! speech synthesis, and decides at every one of those stages whether the work may still be
//! admitted. *The floor* is the right to speak. When the caller takes it, everything the agent was
//! about to say loses it at once; when a stage has no room, the caller hears the truth.
//!
//! **Decide in machines that cannot do I/O; do I/O in loops that cannot decide.** Time is an
//! argument.
//!
//! ```text
//!   caller                                                                     providers
//!     │ bytes              events                          runs                   │
//!     ▼                      ▼                              ▼                     ▼
//! ┌───────────┐ FromCaller ┌─────────────────────────────────────┐  start, feed ┌──────────────┐
//! │ transport │───────────▶│ runtime: one driver task a call     │─────────────▶│ provider     │
//! │ realtime  │            │   ┌──────────────────────────────┐  │              │ ear asr llm  │
//! │           │◀───────────│   │ call: Floor beside Ear       │  │◀─────────────│ tts tool     │
//! └───────────┘  ToCaller  │   │  turn/ speech end barge-in   │  │   signals,   └──────────────┘
//!                          │   │        phrases playout heard │  │   and what the end proves
//!                          │   └───┬──────────────────▲───────┘  │
//!                          │       │ ask, cancel,     │ answers, │
//!                          │       ▼ settle           │ wakes    │
//!                          │   ┌──────────────────────┴───────┐  │
//!                          │   │ admission: one gate a stage  │  │  refused, expired, failed:
//!                          │   └──────────────────────────────┘  │  fallback/ chooses what is said
//!                          └─────────────────────────────────────┘
//! ```
//!
//! # The walk of a frame
//!
//! 1. Bytes arrive at a [`transport`]; its [`Leg`](transport::Leg) makes
//!    [`FromCaller`](leg::FromCaller) of them, sound as 16 kHz [`Pcm`](audio::Pcm).
//! 2. The driver task in [`runtime`] cuts the sound into windows for the detector
//!    ([`provider::ear`]) and hands the probabilities to the call as an [`Event`](call::Event):
//!    [`Call::handle`](call::Call::handle).
//! 3. The [`SpeechTracker`](turn::speech::SpeechTracker) says that the caller began: an offer to
//!    the gate of `recognition`, and while the agent is audible a *suspected* barge-in, judged by
//!    [`turn::bargein`]: sending pauses at once, and either the floor changes hands or the agent
//!    goes on where it stopped.
//! 4. [`turn::end`] judges the end of the turn. Its commit begins a new
//!    [`Generation`](id::Generation): from here nothing of an older one may speak or act. The turn
//!    is born, its deadline fixed, and `model` is asked through [`Admit`](admission::Admit).
//! 5. Tokens become phrases ([`turn::phrase`]); `synthesis` is asked once a turn, each tool call at
//!    its own gate `tool:<name>`.
//! 6. Sound that comes back is compared with the generation, paced by
//!    [`Playout`](turn::playout::Playout), and leaves as [`ToCaller`](leg::ToCaller).
//! 7. What the caller's end has played moves the end of the [`History`](turn::history::History):
//!    the next request to the model holds what was heard and no word more.
//! 8. Refused, failed or late anywhere: a [`Cause`](fallback::Cause) climbs the
//!    [`Ladder`](fallback::Ladder); what is said needs no scarce resource, and is said only while
//!    every [`Claim`](fallback::Claim) in it is true.
//!
//! [`sim`] drives the same call and the same gates in virtual time; its traces are the fixtures'
//! golden files.
//!
//! # Layers
//!
//! Imports go to lower numbers only; `tests/layers` holds this, and that layers 0 to 2 and `sim`
//! have no async, clock, thread, lock, unseeded random or I/O.
//!
//! | layer | modules | what they know |
//! |---|---|---|
//! | 0 words | [`time`] [`id`] [`audio`] [`fault`] [`evidence`] [`dialogue`] [`leg`] | nothing of ours |
//! | 1 pure deciders | [`admission`] [`turn`] [`fallback`] | the words |
//! | 2 the call | [`call`] | the deciders |
//! | 3 ports | [`provider`] [`transport`] [`codec`] [`store`] | the words; nothing of calls, turns or admission |
//! | 4 worlds | [`config`] [`sim`] [`runtime`] [`cli`] | everything above |
//!
//! # Invariants
//!
//! 1. No frame of generation g leaves after its fence; no suppressed output is uncounted.
//! 2. Executing never exceeds the ceiling in force (enforce).
//! 3. A unit returns only on evidence, and exactly once.
//! 4. The ledger balances at every instant; every offer has exactly one terminal.
//! 5. After every committed turn something truthful is audible in time; after any script a normal
//!    turn is answered.
//! 6. No prompt is spoken while one of its claims is false.
//! 7. The next request's history is a prefix of what was heard.
//! 8. Effects: at most one per idempotency key, none started for a fenced generation.
//! 9. One spoken reply per committed turn.
//! 10. Call k is independent of call k-1; after quiescence every gate is as it began.
//! 11. Everything is bounded: queues, records, tombstones, bytes, tasks, file descriptors.
//! 12. Same seed, same trace, byte for byte.
//!
//! # Words
//!
//! | word | meaning |
//! |---|---|
//! | **call** | one live conversation over one transport; holds one *call slot* until it is proven torn down |
//! | **turn** | one committed caller utterance and the agent's answer to it |
//! | **generation** | per-call counter, the only authority to speak or act; it rotates when the floor changes hands |
//! | **fence** | the moment a generation ends: behind it, its output is suppressed and counted |
//! | **stage** | a constrained resource with a gate of its own: `call`, `recognition`, `model`, `synthesis`, `tool:<name>`, `callback`, `handoff` |
//! | **gate** | the admission controller of one stage |
//! | **offer** | one request to a gate: identity, owner, generation, birth, deadline, tenant, class, cost, bytes |
//! | **disposition** | the typed outcome of an offer |
//! | **lease** | a reservation of capacity, given back only on release evidence |
//! | **quarantine** | where a unit waits whose work was cancelled and of which nobody knows yet that it stopped |
//! | **refusal, fault, bug** | policy said no; the world failed; an invariant broke. The first two meet at the fallback, a bug is asserted |
//! | **rung** | one alternative on the fallback ladder: wait, retry, callback, handoff, goodbye |
//! | **claim** | a fact a prompt asserts; the prompt is sayable only while it is true |
//! | **heard** | what the caller's end has played, by the evidence its transport has |
//! | **ledger** | opening + offered = refused + queued + active + quarantined + terminal |
//! | **trace** | the ordered list of events and actions of one call |

pub mod admission;
pub mod audio;
pub mod call;
pub mod cli;
pub mod codec;
pub mod config;
pub mod dialogue;
pub mod evidence;
pub mod fallback;
pub mod fault;
pub mod id;
pub mod leg;
pub mod provider;
pub mod runtime;
pub mod sim;
pub mod store;
pub mod time;
pub mod transport;
pub mod turn;
