//! The commands, one file or folder each.
pub mod replay;
