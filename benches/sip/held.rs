//! Calls that are held with sound: one thread, a wheel of twenty slots of a millisecond, G.711
//! encoded beforehand; what is heard is not decoded.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::{Instant, MissedTickBehavior};

use crate::figures::Counts;
use crate::percentiles::us;
use crate::process::{Busy, Spent, Usage, usage};
use crate::sound::{CYCLE_FRAMES, first_position};
use crate::stretch::Stretch;
use crate::trunk::{Line, Trunk};
use crate::{FRAME_SAMPLES, HEADER};

/// A frame every twenty milliseconds; each call has its own millisecond of the twenty.
const SLOTS: usize = 20;
const CLOCK_HZ: u64 = 8_000;

/// Whom the callers ring.
pub enum Callee {
    /// The floor, by its line of text.
    Floor { port: u16 },
    /// The real server.
    Phone(Rc<Trunk>),
}

/// A run's plan.
pub struct Plan<'a> {
    pub calls: usize,
    /// From one call's set-up to the next one's.
    pub every: Duration,
    pub warm_up: Duration,
    pub measure: Duration,
    /// One cycle of what everybody says, encoded, a frame each.
    pub frames: &'a [Vec<u8>],
}

/// What was measured between the end of the warm-up and the end of the run.
pub struct Measured {
    pub calls: usize,
    pub spent: Spent,
    pub before: Usage,
    pub end: Usage,
    pub stats: Stats,
}

/// Counts of all calls together.
#[derive(Default)]
pub struct Stats {
    pub counts: Counts,
    pub sent: u64,
    pub received: u64,
}

/// What keeps a call up.
enum Hold {
    /// The floor notices when it is closed.
    Floor {
        _open: TcpStream,
    },
    Phone(Line),
}

struct Call {
    socket: UdpSocket,
    to: SocketAddr,
    position: Cell<usize>,
    sequence: Cell<u16>,
    timestamp: Cell<u32>,
    ssrc: u32,
    ear: RefCell<Ear>,
}

#[derive(Default)]
struct Ear {
    stretch: Stretch,
    /// The first timestamp of the stretch.
    from: u32,
}

struct Shared {
    start: Instant,
    /// When the warm-up ended; what came before counts for nothing.
    measured_from: Cell<Option<Duration>>,
    stats: RefCell<Stats>,
}

/// Holds the calls against a server and measures it; all have hung up at the end.
pub async fn hold(callee: &Callee, pid: u32, plan: &Plan<'_>) -> Result<Measured, String> {
    let before = usage(pid)?;
    let shared = Rc::new(Shared {
        start: Instant::now(),
        measured_from: Cell::new(None),
        stats: RefCell::default(),
    });
    let (mut calls, mut holds, mut ears) = (Vec::new(), Vec::new(), Vec::new());
    let mut wheel = Wheel { shared: &shared, tick: 0, ticks: ticks() };
    for index in 0..plan.calls {
        let (call, hold) = set_up(callee, index).await?;
        ears.push(tokio::task::spawn_local(listen(call.clone(), shared.clone())));
        calls.push(call);
        holds.push(hold);
        wheel.turn(&calls, plan, plan.every).await;
    }
    wheel.turn(&calls, plan, plan.warm_up).await;
    let busy = Busy::begin(pid)?;
    shared.measured_from.set(Some(shared.start.elapsed()));
    wheel.turn(&calls, plan, plan.measure).await;
    calls.iter().for_each(|call| call.ear.borrow_mut().close(&shared));
    shared.measured_from.set(None);
    let (spent, end) = (busy.spent()?, usage(pid)?);
    ears.iter().for_each(tokio::task::JoinHandle::abort);
    hang_up(holds, &shared).await;
    Ok(Measured { calls: plan.calls, spent, before, end, stats: shared.stats.take() })
}

async fn hang_up(holds: Vec<Hold>, shared: &Shared) {
    for hold in holds {
        let Hold::Phone(line) = hold else { continue };
        if let Err(problem) = line.hang_up().await {
            let mut stats = shared.stats.borrow_mut();
            stats.counts.broken += 1;
            stats.counts.complain(&problem);
        }
    }
}

async fn set_up(callee: &Callee, index: usize) -> Result<(Rc<Call>, Hold), String> {
    let refuse = |error: std::io::Error| format!("call {index}: {error}");
    let socket = UdpSocket::bind("127.0.0.1:0").await.map_err(refuse)?;
    let (to, hold) = match callee {
        Callee::Floor { port } => {
            let mut stream = TcpStream::connect(("127.0.0.1", *port)).await.map_err(refuse)?;
            let mut line = Vec::new();
            while !line.ends_with(b"\n") {
                if stream.read_buf(&mut line).await.map_err(refuse)? == 0 {
                    return Err(format!("call {index}: the floor has closed it"));
                }
            }
            let port = std::str::from_utf8(&line).ok().and_then(|line| line.trim().parse().ok());
            let port: u16 = port.ok_or("the floor tells no port")?;
            (SocketAddr::from(([127, 0, 0, 1], port)), Hold::Floor { _open: stream })
        }
        Callee::Phone(trunk) => {
            let mut line = trunk.line();
            let answer = line.ring(socket.local_addr().map_err(refuse)?.port()).await?;
            if answer.status != 200 {
                return Err(format!("call {index} was refused: {}", answer.status));
            }
            (answer.sound_to, Hold::Phone(line))
        }
    };
    let position = first_position(index);
    let call = Call {
        socket,
        to,
        position: Cell::new(position),
        sequence: Cell::new(0),
        timestamp: Cell::new((position * FRAME_SAMPLES) as u32),
        ssrc: index as u32,
        ear: RefCell::default(),
    };
    Ok((Rc::new(call), hold))
}

fn ticks() -> tokio::time::Interval {
    let mut ticks = tokio::time::interval(Duration::from_millis(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    ticks
}

struct Wheel<'a> {
    shared: &'a Shared,
    tick: usize,
    ticks: tokio::time::Interval,
}

impl Wheel<'_> {
    async fn turn(&mut self, calls: &[Rc<Call>], plan: &Plan<'_>, span: Duration) {
        for _ in 0..span.as_millis() {
            let due = self.ticks.tick().await;
            let late = Instant::now().saturating_duration_since(due);
            for call in calls.iter().skip(self.tick % SLOTS).step_by(SLOTS) {
                call.speak(plan.frames);
                if self.shared.measured_from.get().is_some() {
                    let mut stats = self.shared.stats.borrow_mut();
                    stats.sent += 1;
                    stats.counts.send_late_us.push(us(late));
                }
            }
            self.tick += 1;
        }
    }
}

impl Call {
    fn speak(&self, frames: &[Vec<u8>]) {
        let position = self.position.replace((self.position.get() + 1) % CYCLE_FRAMES);
        let sequence = self.sequence.replace(self.sequence.get().wrapping_add(1));
        let next = self.timestamp.get().wrapping_add(FRAME_SAMPLES as u32);
        let packet = packet(sequence, self.timestamp.replace(next), self.ssrc, &frames[position]);
        // What does not go out is lost, as on any network.
        let _ = self.socket.try_send_to(&packet, self.to);
    }
}

/// A packet of PCMU.
pub fn packet(sequence: u16, timestamp: u32, ssrc: u32, sound: &[u8]) -> Vec<u8> {
    let mut packet = Vec::with_capacity(HEADER + sound.len());
    packet.extend([0x80, 0]);
    packet.extend(sequence.to_be_bytes());
    packet.extend(timestamp.to_be_bytes());
    packet.extend(ssrc.to_be_bytes());
    packet.extend_from_slice(sound);
    packet
}

async fn listen(call: Rc<Call>, shared: Rc<Shared>) {
    let mut buffer = [0; 2_048];
    loop {
        let Ok((length, _)) = call.socket.recv_from(&mut buffer).await else { continue };
        if length <= HEADER {
            continue;
        }
        let timestamp = u32::from_be_bytes([buffer[4], buffer[5], buffer[6], buffer[7]]);
        call.ear.borrow_mut().hear(shared.start.elapsed(), timestamp, &shared);
    }
}

impl Ear {
    fn hear(&mut self, now: Duration, timestamp: u32, shared: &Shared) {
        if !self.stretch.goes_on(now) {
            self.close(shared);
            self.from = timestamp;
        }
        let ticks = u64::from(timestamp.wrapping_sub(self.from));
        self.stretch.push(now, Duration::from_micros(ticks * 1_000_000 / CLOCK_HZ));
        if shared.measured_from.get().is_some() {
            shared.stats.borrow_mut().received += 1;
        }
    }

    fn close(&mut self, shared: &Shared) {
        let stretch = std::mem::take(&mut self.stretch);
        if let Some(from) = shared.measured_from.get() {
            shared.stats.borrow_mut().counts.judge(stretch, from);
        }
    }
}
