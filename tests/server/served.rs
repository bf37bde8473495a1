//! The binary, served as its users serve it.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::io::{AsyncBufReadExt, BufReader};

/// A served binary.
pub struct Served {
    child: tokio::process::Child,
    pub address: SocketAddr,
}

impl Served {
    /// Serves with scripted providers and these further settings.
    pub async fn start(settings: &[&str]) -> Served {
        let binary = tokio::process::Command::new(env!("CARGO_BIN_EXE_floorkeeper"));
        Served::run(binary, settings).await
    }

    /// The same with so few descriptors.
    pub async fn with_descriptors(most: u32, settings: &[&str]) -> Served {
        let mut shell = tokio::process::Command::new("sh");
        shell.arg("-c").arg(format!("ulimit -n {most}; exec \"$0\" \"$@\""));
        shell.arg(env!("CARGO_BIN_EXE_floorkeeper"));
        Served::run(shell, settings).await
    }

    async fn run(mut command: tokio::process::Command, settings: &[&str]) -> Served {
        command.arg("serve").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let usual = [
            "listen=\"127.0.0.1:0\"",
            "llm.provider=scripted",
            "asr.provider=scripted",
            "tts.provider=scripted",
            "vad.detector=off",
            "turn.end=silence",
        ];
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("served-{}-{number}.db", std::process::id());
        let store = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        command.args(["--set", &format!("store.path={store:?}")]);
        for setting in usual.iter().chain(settings) {
            command.args(["--set", setting]);
        }
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = tokio::time::timeout(crate::rig::LIMIT, lines.next_line()).await;
        let line = ready.expect("ready in time").unwrap().expect("it says where it listens");
        let address = line.split("http://").nth(1).unwrap().trim_end_matches('/');
        Served { child, address: address.parse().unwrap() }
    }

    /// Ends it at once, wherever it is.
    pub async fn kill(&mut self) {
        self.child.kill().await.expect("it lives");
    }

    pub fn descriptors(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.child.id().unwrap());
        std::fs::read_dir(folder).unwrap().count()
    }
}
