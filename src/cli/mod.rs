//! One file a command.

pub mod check;
pub mod models;
pub mod prompts;
pub mod wer;
pub mod call;
pub mod load;
pub mod wav;
pub mod replay;
