//! Floorkeeper: a real-time voice-agent session controller.
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
pub mod time;
pub mod transport;
pub mod turn;
