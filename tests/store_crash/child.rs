//! The process that is killed: this test once more, accepting and saying what it was promised.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use floorkeeper::store::{CallbackStore, Consent, Key, Limits, Offer, SqliteStore, UnixMs};
use tokio::time::MissedTickBehavior;

pub const NOW: UnixMs = 1_800_000_000_000;
/// What the child is to do: `FILE FIRST COUNT EVERY_MS`.
const TASK: &str = "FLOORKEEPER_TEST_ACCEPTS";

/// The n-th caller: an address in a domain reserved for examples.
pub fn offer(n: u64) -> Offer {
    Offer {
        tenant: format!("tenant-{}", n % 500),
        destination: format!("sip:caller-{n}@example.com"),
        why: "the opening hours of the shop in the high street".to_owned(),
        language: "en".to_owned(),
        call: format!("call-{n}"),
        incarnation: "test".to_owned(),
        born_ms: NOW,
        not_before_ms: NOW,
        expires_ms: NOW + 3_600_000,
        attempts_max: 3,
        backoff_ms: 60_000,
        consent: Consent {
            asked: "We cannot take your question now. Shall we call you back?".to_owned(),
            said: "yes please".to_owned(),
            at_ms: NOW,
            call: format!("call-{n}"),
            turn: 1,
        },
        quiet: None,
        authorisation: "policy-1".to_owned(),
        key: Some(Key { name: format!("key-{n}"), digest: "d".to_owned() }),
        replays: None,
    }
}

/// Room for everything that these tests offer.
pub fn limits() -> Limits {
    Limits { records: 1_000_000, tenant: 1_000_000, bytes: 1 << 40, ..Limits::default() }
}

/// The command that accepts callers `first..first + count`, one every so often, or one behind the
/// other's answer (0 ms).
pub fn command(path: &Path, first: u64, count: u64, every_ms: u64) -> Command {
    wrapped(Command::new(test_binary()), path, first, count, every_ms)
}

pub fn test_binary() -> std::path::PathBuf {
    std::env::current_exe().expect("our own file")
}

/// The same, behind a command whose next argument is the program to run.
pub fn wrapped(mut command: Command, path: &Path, first: u64, count: u64, every: u64) -> Command {
    command
        .args(["--exact", "child::accepts", "--nocapture"])
        .env(TASK, format!("{} {first} {count} {every}", path.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command
}

/// The lines it has written, to its end: `ACK n id`, `NO n code`, `OPEN`, `NOT OPEN why`.
pub fn lines(child: &mut Child) -> Vec<String> {
    let out = child.stdout.take().expect("its output");
    let mut lines: Vec<String> = BufReader::new(out).lines().map_while(Result::ok).collect();
    lines.retain(|line| ["ACK ", "NO ", "OPEN", "NOT "].iter().any(|word| line.starts_with(word)));
    lines
}

/// Waits until it has been promised so many.
pub fn heard(child: &mut Child, promises: usize) {
    let out = child.stdout.take().expect("its output");
    let lines = BufReader::new(out).lines().map_while(Result::ok);
    let heard = lines.filter(|line| line.starts_with("ACK ")).take(promises).count();
    assert_eq!(heard, promises);
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes()).and_then(|()| out.flush()).expect("somebody listens");
}

/// Does nothing unless it was started by another test of this file.
#[test]
fn accepts() {
    let Ok(task) = std::env::var(TASK) else { return };
    let words: Vec<&str> = task.split(' ').collect();
    let number = |at: usize| words[at].parse::<u64>().expect("a number");
    let store = match SqliteStore::open(Path::new(words[0]), limits()) {
        Ok(store) => store,
        Err(error) => return say(&format!("NOT OPEN {error}\n")),
    };
    say("OPEN\n");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(async {
        let (first, count, every_ms) = (number(1), number(2), number(3));
        let mut pace = (every_ms > 0).then(|| {
            let mut pace = tokio::time::interval(Duration::from_millis(every_ms));
            pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
            pace
        });
        let mut answers = Vec::new();
        for n in first..first + count {
            let asked = store.accept(offer(n), NOW);
            let told = async move {
                match asked.await {
                    Ok(accepted) => {
                        let receipt = accepted.receipt.expect("it is promised");
                        say(&format!("ACK {n} {}\n", receipt.id()));
                    }
                    Err(refused) => say(&format!("NO {n} {}\n", refused.label())),
                }
            };
            match &mut pace {
                // The sweep passes through the writer: if it were to open again by itself, it has.
                None => {
                    told.await;
                    let _ = store.sweep(0).await; // refused once it is sealed
                }
                Some(pace) => {
                    answers.push(tokio::spawn(told));
                    pace.tick().await;
                }
            }
        }
        for answer in answers {
            answer.await.expect("an answer");
        }
    });
}
