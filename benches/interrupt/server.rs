//! The server under test: `floorkeeper serve` as it comes, with scripted answers.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::{CONFIRM_MS, DUCK_MS};

/// What is interrupted: a hundred seconds of it, at the scripted voice's pace.
const LONG_WORDS: usize = 250;
/// What follows an interruption.
pub const NEXT: &str = "All right then. I have stopped, and now I listen to you.";
/// What other sounds must not interrupt.
pub const WHOLE: &str = "There was a king who had three sons and a garden full of pears. Every \
                         night one pear was gone, and nobody knew who took it.";
const SENTENCE: &str = "Then the second brother went down to the river, and he saw a boat.";

/// A server that runs until it is dropped.
pub struct Server {
    child: Child,
    /// Where it listens.
    pub address: String,
    log: PathBuf,
}

impl Server {
    /// Starts it and waits until it takes calls.
    pub fn start(voice: &str) -> Result<Server, String> {
        let log =
            std::env::temp_dir().join(format!("floorkeeper-interrupt-{}", std::process::id()));
        let out = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let sentences = LONG_WORDS / SENTENCE.split_whitespace().count();
        let long = [SENTENCE].repeat(sentences).join(" ");
        // By the caller's turn: what is asked for, what follows the interruption, and what is asked
        // for behind two turns that were written.
        let mut command = Command::new(env!("CARGO_BIN_EXE_floorkeeper"));
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        for setting in [
            "llm.provider=scripted".to_owned(),
            format!("llm.reply=[{long:?}, {NEXT:?}, {WHOLE:?}]"),
            format!("tts.provider={voice}"),
            format!("turn.barge_in.duck_ms={DUCK_MS}"),
            format!("turn.barge_in.confirm_ms={CONFIRM_MS}"),
            format!("store.path={:?}", log.with_extension("db").display().to_string()),
            "log.level=warn".to_owned(),
        ] {
            command.arg("--set").arg(setting);
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(out)
            .spawn()
            .map_err(|error| format!("floorkeeper serve did not start: {error}"))?;
        let stdout = child.stdout.take();
        let mut server = Server { child, address: String::new(), log };
        let lines = stdout.map(|out| BufReader::new(out).lines());
        for line in lines.into_iter().flatten().map_while(Result::ok) {
            if let Some(at) = line.find("http://") {
                server.address = line[at + "http://".len()..].trim_end_matches('/').to_owned();
                return Ok(server);
            }
        }
        Err(format!("floorkeeper serve did not become ready:\n{}", server.log_tail()))
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The last lines it wrote.
    pub fn log_tail(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A server that has already gone needs no stopping.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.log);
        for end in ["db", "db-wal", "db-shm"] {
            let _ = std::fs::remove_file(self.log.with_extension(end));
        }
    }
}
