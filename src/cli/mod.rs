//! One file a command.

pub mod models;
pub mod wer;
