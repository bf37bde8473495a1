//! The real world: the clock, the gates behind their locks, one task a call, HTTP.

mod audit;
pub mod backends;
pub mod change;
pub mod clock;
mod decision_files;
pub mod decisions;
mod driver;
mod effects;
mod gate_metrics;
pub mod gates;
pub mod http;
pub mod keeper;
pub mod ledgers;
pub mod metrics;
mod promised;
pub mod promises;
pub mod prompts;
pub mod queue_memory;
pub mod record;
mod runs;
pub mod service;
pub mod serving;
mod sound;
pub mod start;
pub mod variables;
