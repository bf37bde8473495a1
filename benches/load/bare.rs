//! Floors: bare servers that echo what they hear, and no more.
//!
//! Each runs in a process of its own (the benchmark's binary, started again) so that the kernel
//! counts its CPU and memory apart from the callers'.

use std::process::Command;

use tokio::net::TcpListener;

use crate::child::Server;

/// Which of the caller's sound a floor sends back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// All of it.
    All,
    /// As much as an agent that is audible 40 % of the time says.
    AgentShare,
}

/// A benchmark's floor.
pub struct Floor {
    /// Makes a floor of this binary, and names what it echoes.
    pub variable: &'static str,
    /// The name of the agent's share.
    pub share: &'static str,
}

impl Floor {
    /// What this process was started to echo, if it was started as a floor.
    pub fn of_this_process(&self) -> Option<Echo> {
        match std::env::var(self.variable).ok()?.as_str() {
            "all" => Some(Echo::All),
            _ => Some(Echo::AgentShare),
        }
    }

    /// Starts this binary again as the floor.
    pub fn start(&self, echo: Echo) -> Result<Server, String> {
        let name = match echo {
            Echo::All => "all",
            Echo::AgentShare => self.share,
        };
        let exe = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(exe);
        command.env(self.variable, name);
        Server::start(command, format!("floor, echoing {name}"), None)
    }
}

/// Makes this process a floor until its standard input closes: it never outlives the benchmark.
pub fn serve<F: Future<Output = ()>>(accept: impl FnOnce(TcpListener) -> F) {
    std::thread::spawn(|| {
        let mut nothing = String::new();
        let _ = std::io::stdin().read_line(&mut nothing);
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        println!("http://{}", listener.local_addr().expect("bound"));
        accept(listener).await;
    });
}
