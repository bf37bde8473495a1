//! Virtual time: the same call machine and the same gates, driven by scripts instead of the world.
//!
//! A fixture ([`script`]) says what the caller does and how the scripted providers behave;
//! [`world`] jumps from one due instant to the next; what happened is a list of [`facts`], which
//! the script's expectations ([`expect`]) and the golden trace are held against. Same script, same
//! trace.

pub(crate) mod caller;
pub(crate) mod client;
pub mod drawn;
pub mod expect;
pub mod facts;
mod gates;
pub mod heard;
pub mod metrics;
mod names;
mod others;
mod reading;
pub mod script;
pub mod sound;
pub mod storm;
pub mod tracks;
mod watch;
mod workers;
pub mod world;
