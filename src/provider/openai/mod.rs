//! HTTP to OpenAI-compatible endpoints: one HTTP/1.1 client whose cancel is a half-close.
//!
//! # Keys
//!
//! `base_url` and `model` are needed. `api_key_env` names the environment variable that holds the
//! key,
//! `ca_file` a PEM file to trust instead of the built-in authorities. `connect_ms` (1000) bounds
//! name resolution, TCP and TLS; `first_byte_ms` (5000) the first useful byte of an answer (a
//! token, a sample: keep-alives and empty deltas do not count); `total_ms` (60000; 20000 for
//! recognisers) and `max_bytes` the whole answer of one request. Idle connections are kept for
//! `idle_ms` (4000). `extra` is a table of further keys for every request. Models also take
//! `system_role` (`"system"`, `"developer"`, `"user"`) and `token_limit_key` (`"max_tokens"`,
//! `"max_completion_tokens"`); speech takes `voice` (`"alloy"`),
//! `format` (`"pcm"`, `"wav"`) and `rate_hz` (24000, of raw PCM); recognisers take `partials`
//! (false) and
//! `language`.
//!
//! Redirects and proxies are not followed, compressed answers not taken. Nothing is retried but a
//! request on a kept connection that the backend closed before it answered a byte, once.
//!
//! # What its evidence proves
//!
//! `cancel_evidence = "half_close"` (the default): on a cancel we shut our write half (over TLS
//! after a `close_notify`), read on and throw away. End of file or a reset is
//! `stream_closed_by_backend`: the HTTP server has noticed that nobody wants the answer and has let
//! go of the stream. llama.cpp's server stops its slot within about 10 ms; behind a proxy or a
//! server whose engine runs apart it proves the HTTP server only. `"drain"` lets the answer run
//! out (`completed`), for backends that cannot be stopped. `"documented_abort"` closes at once and
//! trusts the backend's documentation: weak, counted apart. `"reconcile"` (models only) half-closes
//! and then asks llama.cpp's `/slots` until no slot works on this request, known by a sampling seed
//! of its own: `abort_acknowledged`, the exact one.
//!
//! llama.cpp notices the half-close of a request that still *waits in its own queue* only once no
//! slot has said anything for a second: until then there is no evidence and the lease stays owed.
//! Keep the gate's slots at or below the server's (`-np`), so that waiting happens here, where it
//! can be withdrawn.
//!
//! Without a cancel: an answer read to its end is `completed`; a connection that was never made is
//! `never_started`; a stream that broke is `stream_closed_by_backend`.

mod audio;
mod chat;
mod client;
mod endpoint;
mod sse;
mod talk;
mod wire;

pub(super) use audio::{SpeechDecoder, SpeechFormat, wav_of};
pub(super) use chat::{ChatStream, chat_body};
pub(super) use client::{Client, Request};
pub(super) use endpoint::{ENDPOINT_KEYS, Endpoint, Times};
pub(super) use sse::Sse;
pub(super) use talk::{Stop, Talk};
