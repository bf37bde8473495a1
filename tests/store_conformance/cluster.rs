//! A private PostgreSQL, on a socket in a folder of its own, gone with the test.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A server that runs until it is dropped.
pub struct Cluster {
    folder: PathBuf,
    bin: PathBuf,
}

impl Cluster {
    pub fn start() -> Cluster {
        let bin = binaries();
        let folder = std::env::temp_dir().join(format!("floorkeeper-pg-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder); // of a process that had our id
        std::fs::create_dir(&folder).expect("a folder");
        let cluster = Cluster { folder, bin };
        let nobody_else = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(&cluster.folder, nobody_else).expect("a mode");
        if root() {
            ran(Command::new("chown").arg("postgres").arg(&cluster.folder));
        }
        let data = cluster.data();
        let mut initdb = cluster.command("initdb");
        ran(initdb.args(["-A", "trust", "-U", "floorkeeper", "--no-sync", "-D"]).arg(data));
        cluster.up();
        cluster
    }

    pub fn up(&self) {
        let options = format!("-h '' -k {}", self.folder.display());
        let mut start = self.command("pg_ctl");
        let start = start.args(["start", "-w", "-o", &options, "-D"]).arg(self.data());
        ran(start.arg("-l").arg(self.folder.join("log")));
    }

    /// As if the machine had gone.
    pub fn down(&self) {
        ran(self.command("pg_ctl").args(["stop", "-m", "immediate", "-D"]).arg(self.data()));
    }

    pub fn url(&self) -> String {
        format!("host={} user=floorkeeper dbname=postgres", self.folder.display())
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// PostgreSQL refuses to run as root.
    fn command(&self, program: &str) -> Command {
        let program = self.bin.join(program);
        let mut command = if root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.current_dir("/").stdout(Stdio::null());
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let mut stop = self.command("pg_ctl");
        let _ = stop.args(["stop", "-m", "immediate", "-D"]).arg(self.data()).status();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn root() -> bool {
    // SAFETY: asks for a number.
    unsafe { libc::geteuid() == 0 }
}

fn ran(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}

/// The newest version on this machine.
fn binaries() -> PathBuf {
    let folder = Path::new("/usr/lib/postgresql");
    let versions = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            let bin = entry.path().join("bin");
            bin.join("initdb").exists().then_some((version, bin))
        })
        .collect();
    found.sort();
    let newest = found.pop().map(|(_, bin)| bin);
    newest.expect("PostgreSQL is not on this machine: `.ci/setup --tests` installs it")
}

/// Runs statements beside the store.
pub async fn run(url: &str, sql: &str) {
    let (client, connection) =
        tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("a connection");
    let moves = tokio::spawn(connection);
    client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    drop(client);
    let _ = moves.await;
}
