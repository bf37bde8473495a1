//! Servers as child processes: this benchmark's binary as a floor, and `floorkeeper serve` with
//! scripted providers.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Models are fetched, hashed and loaded before a server is ready.
const READY_LIMIT: Duration = Duration::from_secs(120);
/// Ten words at two and a half a second: the agent is audible four seconds of every ten.
const REPLY: &str = "There was once a king who had three brave sons.";

/// A server that runs until it is dropped.
pub struct Server {
    child: Child,
    pub port: u16,
    pub name: String,
    log: Option<PathBuf>,
}

impl Server {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Starts this binary again, told by an environment variable that it is the floor.
    pub fn floor(variable: &str, mode: &str) -> Result<Server, String> {
        let exe = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut child = Command::new(exe)
            .env(variable, mode)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("the floor did not start: {error}"))?;
        let mut line = String::new();
        let stdout = child.stdout.take().ok_or("the floor has no output")?;
        let read = BufReader::new(stdout).read_line(&mut line);
        let name = format!("floor, echoing {mode}");
        match (read, line.trim().parse()) {
            (Ok(_), Ok(port)) => Ok(Server { child, port, name, log: None }),
            (read, _) => Err(format!("the floor told no port: {read:?} `{line}`")),
        }
    }

    /// Starts `binary serve` on a free port with these further settings, and waits until it is
    /// ready.
    pub fn real(binary: &Path, name: String, further: &[String]) -> Result<Server, String> {
        let port = free_port()?;
        let scratch = std::env::temp_dir();
        let tag = format!("floorkeeper-load-{}-{port}", std::process::id());
        let log = scratch.join(format!("{tag}.log"));
        let out = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let err = out.try_clone().map_err(|error| error.to_string())?;
        let mut command = Command::new(binary);
        command.arg("serve").stdin(Stdio::null()).stdout(out).stderr(err);
        for setting in settings(port, &scratch.join(format!("{tag}.db"))).iter().chain(further) {
            command.arg("--set").arg(setting);
        }
        let child = command.spawn().map_err(|error| format!("{}: {error}", binary.display()))?;
        let mut server = Server { child, port, name, log: Some(log) };
        server.wait_until_ready()?;
        Ok(server)
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let start = tokio::time::Instant::now();
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("floorkeeper serve ended ({status}):\n{}", self.log_tail()));
            }
            if is_ready(self.port) {
                return Ok(());
            }
            if start.elapsed() > READY_LIMIT {
                return Err(format!("floorkeeper serve is not ready:\n{}", self.log_tail()));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
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

/// Ends this process, a floor, when its standard input closes: it never outlives the benchmark.
pub fn end_with_parent() {
    std::thread::spawn(|| {
        let mut nothing = String::new();
        let _ = std::io::stdin().read_line(&mut nothing);
        std::process::exit(0);
    });
}

/// Tells the benchmark that started this floor where it listens.
pub fn tell_port(port: u16) {
    println!("{port}");
    std::io::stdout().flush().expect("the benchmark reads the port");
}

fn settings(port: u16, store: &Path) -> Vec<String> {
    let mut settings = vec![
        format!("listen=\"127.0.0.1:{port}\""),
        "llm.provider=scripted".into(),
        format!("llm.reply=\"{REPLY}\""),
        "asr.provider=scripted".into(),
        "tts.provider=scripted".into(),
        "turn.end=silence".into(),
        format!("store.path=\"{}\"", store.display()),
        "log.level=warn".into(),
    ];
    for gate in ["call", "recognition", "model", "synthesis"] {
        settings.push(format!("limits.{gate}.slots=unlimited"));
    }
    settings
}

fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    listener.local_addr().map(|address| address.port()).map_err(|error| error.to_string())
}

fn is_ready(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let limit = Some(Duration::from_secs(2));
    let request = "GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
    let mut answer = [0; 15];
    stream.set_read_timeout(limit).is_ok()
        && stream.write_all(request.as_bytes()).is_ok()
        && stream.read_exact(&mut answer).is_ok()
        && answer.starts_with(b"HTTP/1.1 200")
}
