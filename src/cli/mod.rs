//! One file a command.

pub mod models;
pub mod wer;
pub mod call;
pub mod load;
pub mod wav;
pub mod replay;
