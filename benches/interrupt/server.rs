//! The server under test: `floorkeeper serve` as it comes, with scripted answers.

use std::path::Path;

use super::child::Server;
use super::{CONFIRM_MS, DUCK_MS};

/// What is interrupted: a hundred seconds of it, at the scripted voice's pace.
const LONG_WORDS: usize = 250;
/// What follows an interruption.
pub const NEXT: &str = "All right then. I have stopped, and now I listen to you.";
/// What other sounds must not interrupt.
pub const WHOLE: &str = "There was a king who had three sons and a garden full of pears. Every \
                         night one pear was gone, and nobody knew who took it.";
const SENTENCE: &str = "Then the second brother went down to the river, and he saw a boat.";

/// Starts it, and waits until it takes calls.
pub fn start(voice: &str) -> Result<Server, String> {
    let sentences = LONG_WORDS / SENTENCE.split_whitespace().count();
    let long = [SENTENCE].repeat(sentences).join(" ");
    let settings = [
        "llm.provider=scripted".to_owned(),
        // By the caller's turn: what is asked for, what follows the interruption, and what is asked
        // for behind two turns that were written.
        format!("llm.reply=[{long:?}, {NEXT:?}, {WHOLE:?}]"),
        format!("tts.provider={voice}"),
        format!("turn.barge_in.duck_ms={DUCK_MS}"),
        format!("turn.barge_in.confirm_ms={CONFIRM_MS}"),
    ];
    let binary = Path::new(env!("CARGO_BIN_EXE_floorkeeper"));
    Server::real(binary, "floorkeeper".to_owned(), &settings)
}
