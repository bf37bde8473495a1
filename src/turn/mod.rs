//! The pure deciders of one conversation: when the caller speaks, when a turn ends, who keeps the
//! floor, what is sayable, what was heard.

pub mod answered;
pub mod backlog;
pub mod bargein;
pub mod end;
pub mod history;
pub mod number;
pub mod phrase;
pub mod playout;
pub mod script;
pub mod speech;
pub mod words;
