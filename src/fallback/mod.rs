//! The one door behind refusals and faults: what a caller is told, and what is tried for them.
//!
//! A [`Cause`] names what happened; the [`Ladder`] (data) gives the rungs to try, in order, and the
//! prompts each may speak; [`Facts`] say what is true; a prompt is chosen only while all it claims
//! is. The first rung that is established ends the climb, whatever it was: the original stays
//! refused, expired or failed. Pure: data in, a decision out.

pub mod callback;
mod cause;
mod claim;
mod ladder;
mod lint;
pub mod outbound;
mod prompt;

pub use cause::{CallEnd, Cause, NotReached};
pub use claim::{Claim, Facts};
pub use ladder::{Climb, Ladder, LadderProblem, Next, Rule, Rung, RungDraft, Skip, Skipped};
pub use lint::{Finding, lint};
pub use prompt::{AT_DESK, Book, DeskWords, Prompt, PromptId, Prompts};
