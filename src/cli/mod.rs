//! The commands, one file or folder each.
pub mod call;
pub mod load;
pub mod wav;
