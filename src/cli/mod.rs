//! One file a command.

pub mod call;
pub mod load;
pub mod models;
pub mod replay;
pub mod wav;
pub mod wer;
