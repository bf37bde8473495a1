//! The real world: the clock, the gates behind their locks, one task a call, HTTP.

pub mod backends;
pub mod change;
pub mod clock;
mod driver;
mod effects;
pub mod gates;
pub mod http;
pub mod metrics;
pub mod prompts;
pub mod record;
mod runs;
pub mod service;
pub mod serving;
mod sound;
pub mod start;
pub mod variables;
