//! One run of espeak-ng: a child process that is given text on its standard input, within bounds.
//!
//! The text never is an argument: no shell sees it, it cannot be taken for an option, and other
//! users of the machine do not read it in the list of processes.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::fault::Fault;
use crate::provider::BuildError;

/// Children that may run at the same time, in the whole process.
const CHILDREN: usize = 8;
/// Phonemes take some 10 ms: a child that has none after the first of these hangs, and another is
/// asked, which has until the second.
const PATIENCE: [Duration; 2] = [Duration::from_millis(600), Duration::from_millis(2_000)];
/// Longest answer that is read, in bytes.
const ANSWER_MAX: u64 = 1 << 18;

/// The program, known to run on this machine.
#[derive(Clone, Debug)]
pub(in crate::provider::tts) struct Espeak {
    program: Arc<str>,
    patience: [Duration; 2],
    free: Arc<Semaphore>,
}

/// A running child and the permit it runs under.
pub(super) struct Running {
    pub(super) child: Child,
    _permit: OwnedSemaphorePermit,
}

impl Espeak {
    /// Looks whether espeak-ng is there. Blocks for some 10 ms.
    pub(in crate::provider::tts) fn find() -> Result<Espeak, BuildError> {
        let missing = |detail: String| BuildError::Missing { what: "espeak-ng".into(), detail };
        let status = std::process::Command::new(PROGRAM)
            .arg("--version")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        match status {
            Ok(status) if status.success() => {
                let free = Arc::new(Semaphore::new(CHILDREN));
                Ok(Espeak { program: PROGRAM.into(), patience: PATIENCE, free })
            }
            Ok(status) => Err(missing(format!("it ended with {status}"))),
            Err(error) => {
                Err(missing(format!("{error}; install it (Debian: apt-get install espeak-ng)")))
            }
        }
    }

    /// The phonemes (IPA) of each of these texts, in the voice `voice` of espeak-ng.
    pub(in crate::provider::tts) async fn phonemes(
        &self,
        voice: &str,
        texts: &[&str],
    ) -> Result<Vec<String>, Fault> {
        let together = self.lines(voice, &texts.join("\n")).await?;
        if together.len() == texts.len() {
            return Ok(together);
        }
        // It cuts some texts further ("Dr."): then each is asked for alone.
        let mut all = Vec::with_capacity(texts.len());
        for text in texts {
            all.push(self.lines(voice, text).await?.join(" "));
        }
        Ok(all)
    }

    async fn lines(&self, voice: &str, text: &str) -> Result<Vec<String>, Fault> {
        for limit in self.patience {
            if let Ok(answer) = tokio::time::timeout(limit, self.answer(voice, text)).await {
                let answer = answer?;
                let lines = answer.lines().map(str::trim).filter(|line| !line.is_empty());
                return Ok(lines.map(str::to_owned).collect());
            }
        }
        Err(Fault::Slow { deadline: "phonemes" })
    }

    async fn answer(&self, voice: &str, text: &str) -> Result<String, Fault> {
        let mut running = self.start(voice, &["-q", "--ipa"]).await?;
        let mut stdin = running.child.stdin.take();
        let mut answer = String::new();
        let stdout = running.child.stdout.take();
        let (written, read) = tokio::join!(say(&mut stdin, text), async {
            match stdout {
                Some(pipe) => pipe.take(ANSWER_MAX).read_to_string(&mut answer).await.map(|_| ()),
                None => Ok(()),
            }
        });
        written.and(read).map_err(|error| lost(&error))?;
        running.finish().await?;
        Ok(answer)
    }

    /// Starts a child as soon as there is room for one. It is killed when dropped.
    pub(super) async fn start(&self, voice: &str, options: &[&str]) -> Result<Running, Fault> {
        let permit = Arc::clone(&self.free).acquire_owned().await;
        let permit = permit.map_err(|error| Fault::Lost { detail: error.to_string() })?;
        let child = Command::new(&*self.program)
            // It looks for a sound card at every start, also when it is to play nothing: a sound
            // server is none of a call's business, and may take its time.
            .env("PULSE_SERVER", "unix:/dev/null")
            .args(["-b", "1", "-v", voice])
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| lost(&error))?;
        Ok(Running { child, _permit: permit })
    }
}

const PROGRAM: &str = "espeak-ng";

impl Running {
    /// Waits for its own end and says whether it was content.
    pub(super) async fn finish(&mut self) -> Result<(), Fault> {
        let status = self.child.wait().await.map_err(|error| lost(&error))?;
        if status.success() {
            return Ok(());
        }
        Err(Fault::Lost { detail: format!("espeak-ng ended with {status}") })
    }
}

/// Gives the text and closes the pipe: nothing follows.
pub(super) async fn say(stdin: &mut Option<ChildStdin>, text: &str) -> std::io::Result<()> {
    let Some(mut stdin) = stdin.take() else { return Ok(()) };
    stdin.write_all(text.as_bytes()).await?;
    stdin.write_all(b"\n").await?;
    stdin.shutdown().await
}

pub(super) fn lost(error: &std::io::Error) -> Fault {
    Fault::Lost { detail: format!("espeak-ng: {error}") }
}

/// espeak-ng's name for the voice of a language.
pub(in crate::provider::tts) fn voice_of(language: &str) -> String {
    let lower: String = language.to_lowercase().replace('_', "-");
    let known =
        lower.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') && !lower.starts_with('-');
    match lower.as_str() {
        "" | "en" => "en-us".into(),
        "en-us" | "en-gb" | "pt-br" | "fr-be" | "fr-ch" => lower,
        _ if known => lower.split('-').next().unwrap_or("en-us").to_owned(),
        _ => "en-us".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that stands for espeak-ng, and how long it is waited for.
    fn program(name: &str, patience_ms: [u64; 2]) -> Espeak {
        let program = format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
        let free = Arc::new(Semaphore::new(CHILDREN));
        Espeak { program: program.into(), patience: patience_ms.map(Duration::from_millis), free }
    }

    #[tokio::test]
    async fn a_child_that_hangs_is_replaced_by_another() {
        let espeak = program("espeak-hangs-once", [3_000, 60_000]);
        assert_eq!(espeak.phonemes("en-us", &["bUkIN"]).await.expect("phonemes"), ["bUkIN"]);
        assert_eq!(espeak.free.available_permits(), CHILDREN);
    }

    #[tokio::test]
    async fn that_every_child_hangs_is_told_and_none_is_waited_for_any_more() {
        let espeak = program("espeak-hangs", [50, 50]);
        let told = espeak.phonemes("en-us", &["bUkIN"]).await;
        assert_eq!(told, Err(Fault::Slow { deadline: "phonemes" }));
        assert_eq!(espeak.free.available_permits(), CHILDREN);
    }

    #[test]
    fn a_language_is_a_voice_and_never_an_option() {
        for (language, voice) in [
            ("", "en-us"),
            ("en", "en-us"),
            ("en-GB", "en-gb"),
            ("en_AU", "en"),
            ("de-DE", "de"),
            ("-w/tmp/x", "en-us"),
            ("../x", "en-us"),
        ] {
            assert_eq!(voice_of(language), voice);
        }
    }
}
