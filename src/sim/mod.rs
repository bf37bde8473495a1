//! Virtual time: the same call machine and the same gates, driven by scripts instead of the world.
//!
//! A fixture ([`script`]) says what the caller does and how the scripted providers behave;
//! [`world`] jumps from one due instant to the next; what happened is a list of [`facts`], which
//! the script's expectations ([`expect`]) and the golden trace are held against. Same script, same
//! trace.

pub(crate) mod caller;
pub(crate) mod client;
pub mod counterparts;
pub mod drawn;
mod effects;
pub mod ending;
pub mod expect;
pub mod facts;
mod far_end;
mod gates;
pub mod heard;
pub mod metrics;
mod names;
mod others;
mod promised;
mod reading;
mod replies;
pub mod script;
mod shrink;
pub mod sound;
pub mod storm;
#[cfg(test)]
mod table;
pub mod tracks;
mod truths;
mod watch;
mod workers;
pub mod world;
