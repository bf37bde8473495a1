//! Every gate's decisions on disk, a file a gate, for `floorkeeper admission replay`.
//!
//! Gates write to their ring; this task copies what is new to the file. A decision never waits for
//! a disk.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::decisions;
use super::gates::Gates;
use super::service::Service;
use crate::admission::log::Line;
use crate::config::Admission;
use crate::id::Stage;

/// How often what is new is copied; the ring holds far more than comes in between.
const EVERY: Duration = Duration::from_millis(200);
/// Decisions a gate keeps at least while they are copied.
pub(super) const RING_MIN: usize = 65_536;

/// The files of all gates.
pub(super) struct DecisionFiles {
    service: Arc<Service>,
    files: Vec<DecisionFile>,
}

/// One gate's file.
struct DecisionFile {
    stage: Stage,
    path: PathBuf,
    /// `None` when it has ended: full, broken, or with a gap.
    file: Option<File>,
    /// The first decision that is not written yet.
    next: u64,
    bytes: u64,
    most: u64,
}

impl DecisionFiles {
    /// Opens a file for every gate, in the configured folder; what cannot be written is said.
    pub fn open(service: &Arc<Service>) -> io::Result<Option<DecisionFiles>> {
        let Admission { log_dir: Some(folder), log_file_max, .. } = &service.config.admission
        else {
            return Ok(None);
        };
        std::fs::create_dir_all(folder)?;
        let files = service.gates.stages().map(|stage| {
            let gate = service.gate_name(stage).replace(':', "-");
            let path = folder.join(format!("{}-{gate}.jsonl", service.incarnation));
            let limits = service.configured_limits(stage);
            DecisionFile::create(stage, &path, &limits, *log_file_max)
        });
        let files = files.collect::<io::Result<Vec<_>>>()?;
        Ok(Some(DecisionFiles { service: service.clone(), files }))
    }

    /// Copies until told to stop, and then once more.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            let stopping = tokio::select! {
                () = tokio::time::sleep(EVERY) => false,
                _ = stop.changed() => true,
            };
            let gates = self.service.gates.clone();
            let mut files = std::mem::take(&mut self.files);
            let copied = tokio::task::spawn_blocking(move || {
                files.iter_mut().for_each(|file| file.copy(&gates));
                files
            });
            match copied.await {
                Ok(files) => self.files = files,
                Err(problem) => return tracing::error!("decision files: {problem}"),
            }
            if stopping {
                return;
            }
        }
    }
}

impl DecisionFile {
    fn create(
        stage: Stage,
        path: &Path,
        limits: &crate::admission::Limits,
        most: u64,
    ) -> io::Result<DecisionFile> {
        let mut file = OpenOptions::new().create_new(true).append(true).open(path)?;
        let opening = format!("{}\n", decisions::opening(stage, limits));
        file.write_all(opening.as_bytes())?;
        let bytes = opening.len() as u64;
        Ok(DecisionFile { stage, path: path.to_owned(), file: Some(file), next: 0, bytes, most })
    }

    fn copy(&mut self, gates: &Gates) {
        let Some(file) = &mut self.file else { return };
        let lines = gates.decisions_since(self.stage, self.next);
        let Some(first) = lines.first() else { return };
        if first.seq != self.next {
            let lost = first.seq - self.next;
            return self.end(&format!("{lost} decisions came faster than the disk"));
        }
        let text = written(&lines);
        if self.bytes + text.len() as u64 > self.most {
            return self.end("it has reached admission.log_file_max");
        }
        if let Err(problem) = file.write_all(text.as_bytes()) {
            return self.end(&problem.to_string());
        }
        self.bytes += text.len() as u64;
        self.next += lines.len() as u64;
    }

    /// The file ends here: what it has can still be replayed.
    fn end(&mut self, why: &str) {
        tracing::warn!("{} ends with decision {}: {why}", self.path.display(), self.next);
        self.file = None;
    }
}

fn written(lines: &[Line]) -> String {
    let mut text = String::new();
    for line in lines {
        text.push_str(&decisions::line(line).to_string());
        text.push('\n');
    }
    text
}
