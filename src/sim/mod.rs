//! Virtual time: the same call machine and the same gates, driven by scripts instead of the world.
//!
//! A fixture ([`script`]) says what the caller does and how the scripted providers behave;
//! [`world`] jumps from one due instant to the next; what happened is a list of [`facts`], which
//! the script's expectations ([`expect`]) and the golden trace are held against. Same script, same
//! trace.

pub(crate) mod client;
mod effects;
pub mod ending;
pub mod expect;
pub mod facts;
mod gates;
mod heard;
mod others;
mod reading;
mod replies;
pub mod script;
mod shrink;
pub mod storm;
pub mod tracks;
mod truths;
mod watch;
mod workers;
pub mod world;
