//! Servers as child processes.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Models are fetched, hashed and loaded before a server is ready.
const READY_LIMIT: Duration = Duration::from_secs(120);

/// A server that runs until it is dropped.
pub struct Server {
    child: Child,
    pub port: u16,
    pub name: String,
    log: Option<PathBuf>,
}

impl Server {
    /// Starts `binary serve` with these settings on a free port. One runs at a time.
    pub fn real(binary: &Path, name: String, settings: &[String]) -> Result<Server, String> {
        let tag = format!("floorkeeper-bench-{}.log", std::process::id());
        let log = std::env::temp_dir().join(tag);
        let out = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let mut command = Command::new(binary);
        command.args(["serve", "--listen", "127.0.0.1:0", "--set", "log.level=warn"]).stderr(out);
        let store = log.with_extension("db").display().to_string();
        command.arg("--set").arg(format!("store.path={store:?}"));
        for setting in settings {
            command.arg("--set").arg(setting);
        }
        Server::start(command, name, Some(log))
    }

    /// Starts one, and waits until it tells on its standard output where it listens: then it is
    /// ready.
    pub fn start(
        mut command: Command,
        name: String,
        log: Option<PathBuf>,
    ) -> Result<Server, String> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{name} did not start: {error}"))?;
        let stdout = child.stdout.take();
        let mut server = Server { child, port: 0, name, log };
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let lines = stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).lines());
            for port in lines.map_while(Result::ok).filter_map(|line| port_in(&line)) {
                // Whoever has the first one asks for no more.
                let _ = tell.send(port);
            }
        });
        server.port = told
            .recv_timeout(READY_LIMIT)
            .map_err(|_| format!("{} is not ready:\n{}", server.name, server.log_tail()))?;
        Ok(server)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The last lines it wrote.
    pub fn log_tail(&self) -> String {
        let text = self.log.as_ref().and_then(|log| std::fs::read_to_string(log).ok());
        let text = text.unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has already gone needs no stopping.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(log) = &self.log {
            let _ = std::fs::remove_file(log);
            for end in ["db", "db-wal", "db-shm"] {
                let _ = std::fs::remove_file(log.with_extension(end));
            }
        }
    }
}

/// The port of the address in a line.
fn port_in(line: &str) -> Option<u16> {
    let (_, address) = line.split_once("http://")?;
    address.trim_end_matches('/').rsplit_once(':')?.1.parse().ok()
}
