//! Scripted providers: one pure timed machine a kind, driven by the simulator and by real time
//! alike.
//!
//! Every kind takes the same faults: `fail = "429" | "500" | "503" | "refused" | "reset"` (after
//! `fail_after_ms`, with `retry_after_ms`), `stall_after_ms`, `keep_alives`, `empty`, `garbage`,
//! `drip_per_s`, `ignore_cancel`, `cancel_ack_ms`, `late_after_cancel_ms`, `never_end`. A list
//! gives one value a run, its last entry repeats, and the entry `"none"` is no value.
//!
//! Beside them, with their defaults:
//! - models: `reply`, `tool = { name, arguments }`, `first_token_ms` (120), `tokens_per_s` (40);
//! - synthesisers: `first_audio_ms` (80), `words_per_s` (2.5) or `ms_per_char`, `rate_x` (20),
//!   `faster_than_real_time` (true), `word_times` (false), `rate_hz` (24000);
//! - recognisers: `text`, `partial_ms` (40), `final_ms` (60), `words_per_s` (2.5);
//! - tools: `result`, `takes_ms` (50), `effect` (`"read"`), `description`, `parameters`.
//!
//! What its evidence proves: the script itself is the backend, so `abort_acknowledged` after
//! `cancel_ack_ms` (5 by default) and `stream_closed_by_backend` after a failure or after late
//! output are exact; `never_started` means that the script sent nothing.

mod asr;
mod course;
mod live;
mod llm;
mod tone;
mod tool;
mod tts;

pub use asr::{AsrRun, AsrScript};
pub use course::Output;
pub use live::{ASR_ENTRY, LLM_ENTRY, ScriptedTool, TOOL_ENTRY, TTS_ENTRY};
pub use llm::{LlmRun, LlmScript};
pub use tool::{Effects, ToolRun, ToolScript};
pub use tts::{TtsRun, TtsScript};
