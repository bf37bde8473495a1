//! What a process has used, as the kernel counts it.

use std::fs;
use std::time::Duration;

use tokio::time::Instant;

/// CPU time (user and system) and resident memory of a process.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    pub cpu: Duration,
    pub resident_bytes: u64,
}

/// What a span of time has cost: a server, this process, and the whole machine.
pub struct Spent {
    pub window: Duration,
    pub server: Duration,
    pub own: Duration,
    pub machine: Duration,
}

impl Spent {
    /// Cores that everybody else has used.
    pub fn others_cores(&self) -> f64 {
        let others = self.machine.saturating_sub(self.server + self.own);
        others.as_secs_f64() / self.window.as_secs_f64()
    }
}

/// A watch over a server and the machine, from when it was begun.
pub struct Busy {
    pid: u32,
    begun: Instant,
    server: Duration,
    own: Duration,
    machine: Duration,
}

impl Busy {
    pub fn begin(pid: u32) -> Result<Busy, String> {
        Ok(Busy {
            pid,
            server: usage(pid)?.cpu,
            own: usage(std::process::id())?.cpu,
            machine: machine_cpu().unwrap_or_default(),
            begun: Instant::now(),
        })
    }

    /// Since it was begun.
    pub fn spent(&self) -> Result<Spent, String> {
        let now = Busy::begin(self.pid)?;
        Ok(Spent {
            window: now.begun - self.begun,
            server: now.server - self.server,
            own: now.own - self.own,
            machine: now.machine.saturating_sub(self.machine),
        })
    }
}

/// Reads the usage of a server, or of any other process.
pub fn usage(pid: u32) -> Result<Usage, String> {
    read_usage(pid).ok_or_else(|| "the server has gone".to_owned())
}

fn read_usage(pid: u32) -> Option<Usage> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name may hold blanks and brackets: fields count from behind its last bracket.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(Usage {
        cpu: Duration::from_micros(ticks * 1_000_000 / ticks_per_s()),
        resident_bytes: kib * 1_024,
    })
}

/// CPU time that the whole machine has spent at work or has had taken from it by its host.
fn machine_cpu() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let fields: Vec<u64> =
        stat.lines().next()?.split_whitespace().skip(1).map_while(|f| f.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal
    let [user, nice, system, _, _, irq, softirq, steal, ..] = fields[..] else { return None };
    let ticks = user + nice + system + irq + softirq + steal;
    Some(Duration::from_micros(ticks * 1_000_000 / ticks_per_s()))
}

fn ticks_per_s() -> u64 {
    // SAFETY: sysconf reads a constant of the system and touches no memory of ours.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).unwrap_or(100).max(1)
}
