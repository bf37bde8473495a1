//! `floorkeeper serve` with scripted providers, and as many calls as come.

use std::path::PathBuf;

use crate::child::Server;

/// Ten words at two and a half a second: the agent is audible four seconds of every ten.
const REPLY: &str = "There was once a king who had three brave sons.";

/// Starts `binary`, by default the one built with this benchmark, with these further settings.
pub fn start(binary: Option<&PathBuf>, name: &str, further: &[&str]) -> Result<Server, String> {
    let built = || PathBuf::from(env!("CARGO_BIN_EXE_floorkeeper"));
    let mut settings = vec![
        "llm.provider=scripted".to_owned(),
        format!("llm.reply={REPLY:?}"),
        "asr.provider=scripted".to_owned(),
        "tts.provider=scripted".to_owned(),
        "turn.end=silence".to_owned(),
    ];
    for gate in ["call", "recognition", "model", "synthesis"] {
        let key = format!("limits.{gate}.slots=");
        if !further.iter().any(|setting| setting.starts_with(&key)) {
            settings.push(format!("{key}unlimited"));
        }
    }
    settings.extend(further.iter().map(|setting| (*setting).to_owned()));
    Server::real(&binary.cloned().unwrap_or_else(built), name.to_owned(), &settings)
}
