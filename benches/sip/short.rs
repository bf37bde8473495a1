//! Calls that come at a rate and are soon over, and calls that are refused.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at};

use crate::held::packet;
use crate::percentiles::us;
use crate::trunk::{Answer, Line, Trunk};
use crate::{FRAME, FRAME_SAMPLES};

/// What came of many calls.
#[derive(Default)]
pub struct Outcome {
    pub asked: usize,
    pub setup_us: Vec<u32>,
    pub goodbye_us: Vec<u32>,
    /// How many were answered so, and how many of those did not say when to try again.
    pub statuses: BTreeMap<u16, (usize, usize)>,
    pub problems: BTreeMap<String, usize>,
}

impl Outcome {
    fn count(&mut self, answer: &Answer) {
        self.setup_us.push(us(answer.took));
        let (count, silent) = self.statuses.entry(answer.status).or_default();
        *count += 1;
        *silent += usize::from(answer.status >= 300 && !answer.retries);
    }

    fn complain(&mut self, problem: String) {
        *self.problems.entry(problem).or_default() += 1;
    }

    /// Every one of them was answered so, and nothing else went wrong.
    pub fn is_all(&self, status: u16) -> bool {
        self.statuses.get(&status) == Some(&(self.asked, 0)) && self.problems.is_empty()
    }

    /// What they were answered with.
    pub fn told(&self) -> String {
        let statuses = self.statuses.iter().map(|(status, (count, silent))| match silent {
            0 => format!("{count} x {status}"),
            _ => format!("{count} x {status}, {silent} without Retry-After"),
        });
        let problems = self.problems.iter().map(|(what, count)| format!("{count} x {what}"));
        statuses.chain(problems).collect::<Vec<_>>().join(", ")
    }
}

/// Rings at this rate; each speaks so many frames and hangs up.
pub async fn ring(
    trunk: &Rc<Trunk>,
    calls: usize,
    every: Duration,
    frames: usize,
) -> Result<Outcome, String> {
    let mut pace = interval(every);
    pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut tasks = Vec::with_capacity(calls);
    for _ in 0..calls {
        pace.tick().await;
        tasks.push(tokio::task::spawn_local(call(trunk.line(), frames)));
    }
    let mut outcome = Outcome { asked: calls, ..Outcome::default() };
    for task in tasks {
        match task.await.map_err(|error| error.to_string())? {
            Ok((answer, goodbye)) => {
                outcome.count(&answer);
                match goodbye {
                    Some(Ok(took)) => outcome.goodbye_us.push(us(took)),
                    Some(Err(problem)) => outcome.complain(problem),
                    None => {}
                }
            }
            Err(problem) => outcome.complain(problem),
        }
    }
    Ok(outcome)
}

type Goodbye = Option<Result<Duration, String>>;

async fn call(mut line: Line, frames: usize) -> Result<(Answer, Goodbye), String> {
    let socket = UdpSocket::bind("127.0.0.1:0").await.map_err(|error| error.to_string())?;
    let port = socket.local_addr().map_err(|error| error.to_string())?.port();
    let answer = line.ring(port).await?;
    if answer.status != 200 {
        return Ok((answer, None));
    }
    let mut ticks = interval_at(Instant::now(), FRAME);
    for frame in 0..frames {
        ticks.tick().await;
        let timestamp = (frame * FRAME_SAMPLES) as u32;
        let silence = packet(frame as u16, timestamp, 1, &[0xff; FRAME_SAMPLES]);
        // What does not go out is lost, as on any network.
        let _ = socket.try_send_to(&silence, answer.sound_to);
    }
    let goodbye = line.hang_up().await;
    Ok((answer, Some(goodbye)))
}

/// Takes so many lines and keeps them.
pub async fn fill(trunk: &Rc<Trunk>, calls: usize) -> Result<Vec<Line>, String> {
    let mut lines = Vec::with_capacity(calls);
    for _ in 0..calls {
        let mut line = trunk.line();
        let status = line.ring(9_000).await?.status;
        if status != 200 {
            return Err(format!("a call below the gate was answered with {status}"));
        }
        lines.push(line);
    }
    Ok(lines)
}
