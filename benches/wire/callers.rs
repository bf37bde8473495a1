//! The callers: one thread, a wheel of twenty slots of a millisecond, messages encoded beforehand.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;
use tokio::time::{Instant, MissedTickBehavior};

use crate::figures::Counts;
use crate::incoming::{Reader, Seen};
use crate::messages::{client_frame, text_frame};
use crate::percentiles::us;
use crate::process::{Busy, Spent, Usage, usage};
use crate::server::Detection;
use crate::sound::{CYCLE_FRAMES, SPEECH_FRAMES, first_position};
use crate::stretch::Stretch;
use crate::turns;

/// A frame every twenty milliseconds; each call has its own millisecond of the twenty.
const SLOTS: usize = 20;
/// A caller whose messages are stuck for this many bytes has lost its server.
const STUCK_BYTES: usize = 256 << 10;

/// A run's plan.
pub struct Plan<'a> {
    pub calls: usize,
    pub warm_up: Duration,
    pub measure: Duration,
    pub detection: Detection,
    /// The server is a floor: it knows no sessions and no answers.
    pub floor: bool,
    /// What every caller says, a frame each.
    pub messages: &'a [Vec<u8>],
}

/// What was measured between the end of the warm-up and the end of the run.
pub struct Measured {
    pub calls: usize,
    pub spent: Spent,
    /// The server's before the first call, and at the end.
    pub before: Usage,
    pub end: Usage,
    pub stats: Stats,
}

/// Counts of all calls together.
#[derive(Default)]
pub struct Stats {
    pub counts: Counts,
    pub frames_sent: u64,
    pub audio: Duration,
    pub speech_started: u64,
}

struct Call {
    stream: TcpStream,
    state: RefCell<State>,
    position: Cell<usize>,
    /// The caller's turn was heard from its beginning: a call may begin in the middle of one.
    turn_is_whole: Cell<bool>,
    unsent: RefCell<Vec<u8>>,
}

#[derive(Default)]
struct State {
    reader: Reader,
    stretch: Stretch,
    length: Duration,
    gone: bool,
}

struct Shared {
    start: Instant,
    /// When the warm-up ended; what came before counts for nothing.
    measured_from: Cell<Option<Duration>>,
    stats: RefCell<Stats>,
}

impl Shared {
    fn is_measuring(&self) -> bool {
        self.measured_from.get().is_some()
    }

    fn complain(&self, what: &str) {
        self.stats.borrow_mut().counts.complain(what);
    }
}

/// Holds the calls against the server on `port` and measures it.
pub fn run(port: u16, pid: u32, plan: &Plan<'_>) -> Result<Measured, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    LocalSet::new().block_on(&runtime, hold(port, pid, plan))
}

async fn hold(port: u16, pid: u32, plan: &Plan<'_>) -> Result<Measured, String> {
    let before = usage(pid)?;
    let shared = Rc::new(Shared {
        start: Instant::now(),
        measured_from: Cell::new(None),
        stats: RefCell::new(Stats::default()),
    });
    let mut calls = Vec::with_capacity(plan.calls);
    for index in 0..plan.calls {
        let call = Rc::new(connect(port, plan, index).await?);
        tokio::task::spawn_local(listen(Rc::clone(&call), Rc::clone(&shared)));
        calls.push(call);
    }
    let mut wheel = Wheel::new(&shared);
    wheel.turn(&calls, plan, plan.warm_up).await;
    let busy = Busy::begin(pid)?;
    shared.measured_from.set(Some(shared.start.elapsed()));
    wheel.turn(&calls, plan, plan.measure).await;
    for call in &calls {
        call.state.borrow_mut().close_stretch(&shared);
    }
    shared.measured_from.set(None);
    let (spent, end) = (busy.spent()?, usage(pid)?);
    Ok(Measured { calls: plan.calls, spent, before, end, stats: shared.stats.take() })
}

async fn connect(port: u16, plan: &Plan<'_>, index: usize) -> Result<Call, String> {
    let limit = Duration::from_secs(10);
    let opened = tokio::time::timeout(limit, open(port, plan, index)).await;
    opened.map_err(|_| format!("call {index} was not taken within 10 s"))?
}

async fn open(port: u16, plan: &Plan<'_>, index: usize) -> Result<Call, String> {
    let refuse = |error: std::io::Error| format!("call {index}: {error}");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.map_err(refuse)?;
    stream.set_nodelay(true).map_err(refuse)?;
    let request = format!(
        "GET /v1/realtime?model=default HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\
         Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.map_err(refuse)?;
    let mut answer = Vec::new();
    let head_end = loop {
        if stream.read_buf(&mut answer).await.map_err(refuse)? == 0 {
            return Err(format!("call {index}: {}", String::from_utf8_lossy(&answer)));
        }
        if let Some(at) = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break at + 4;
        }
    };
    if !answer.starts_with(b"HTTP/1.1 101") {
        return Err(format!("call {index}: {}", String::from_utf8_lossy(&answer)));
    }
    if !plan.floor && plan.detection == Detection::Off {
        stream.write_all(&text_frame(turns::MANUAL)).await.map_err(refuse)?;
    }
    let mut state = State::default();
    state.reader.read(&answer[head_end..], |_| {});
    Ok(Call {
        stream,
        state: RefCell::new(state),
        position: Cell::new(first_position(index)),
        turn_is_whole: Cell::new(false),
        unsent: RefCell::new(Vec::new()),
    })
}

struct Wheel<'a> {
    shared: &'a Shared,
    tick: usize,
    ticks: tokio::time::Interval,
    turn_begins: Vec<u8>,
    turn_over: [Vec<u8>; 2],
}

impl<'a> Wheel<'a> {
    fn new(shared: &'a Shared) -> Wheel<'a> {
        let mut ticks = tokio::time::interval(Duration::from_millis(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let turn_begins = text_frame(turns::BEGINS);
        let turn_over = turns::OVER.map(text_frame);
        Wheel { shared, tick: 0, ticks, turn_begins, turn_over }
    }

    async fn turn(&mut self, calls: &[Rc<Call>], plan: &Plan<'_>, span: Duration) {
        for _ in 0..span.as_millis() {
            let due = self.ticks.tick().await;
            let late = Instant::now().saturating_duration_since(due);
            for call in calls.iter().skip(self.tick % SLOTS).step_by(SLOTS) {
                self.speak(call, plan, late);
            }
            self.tick += 1;
        }
    }

    fn speak(&self, call: &Call, plan: &Plan<'_>, late: Duration) {
        let position = call.position.get();
        call.position.set((position + 1) % CYCLE_FRAMES);
        let manual = !plan.floor && plan.detection == Detection::Off;
        if manual && position == 0 {
            call.send(&self.turn_begins, self.shared);
            call.turn_is_whole.set(true);
        }
        call.send(&plan.messages[position], self.shared);
        if manual && position + 1 == SPEECH_FRAMES && call.turn_is_whole.get() {
            for message in &self.turn_over {
                call.send(message, self.shared);
            }
        }
        if self.shared.is_measuring() {
            let mut stats = self.shared.stats.borrow_mut();
            stats.frames_sent += 1;
            stats.counts.send_late_us.push(us(late));
        }
    }
}

impl Call {
    fn send(&self, message: &[u8], shared: &Shared) {
        if self.state.borrow().gone {
            return;
        }
        let mut unsent = self.unsent.borrow_mut();
        if unsent.is_empty() {
            let sent = self.stream.try_write(message).unwrap_or(0);
            unsent.extend_from_slice(&message[sent..]);
            return;
        }
        unsent.extend_from_slice(message);
        if let Ok(sent) = self.stream.try_write(&unsent) {
            unsent.drain(..sent);
        }
        if unsent.len() > STUCK_BYTES {
            drop(unsent);
            self.state.borrow_mut().lose(shared, "the server does not read");
        }
    }
}

async fn listen(call: Rc<Call>, shared: Rc<Shared>) {
    let mut bytes = vec![0; 16 << 10];
    loop {
        if call.stream.readable().await.is_err() {
            return call.state.borrow_mut().lose(&shared, "reset");
        }
        let read = match call.stream.try_read(&mut bytes) {
            Ok(0) => return call.state.borrow_mut().lose(&shared, "closed"),
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
            Err(error) => return call.state.borrow_mut().lose(&shared, &error.to_string()),
        };
        let now = shared.start.elapsed();
        let mut pong = None;
        let mut state = call.state.borrow_mut();
        let mut reader = std::mem::take(&mut state.reader);
        reader.read(&bytes[..read], |seen| match seen {
            Seen::Ping(payload) => pong = Some(client_frame(0xA, &payload)),
            seen => state.on(now, seen, &shared),
        });
        state.reader = reader;
        drop(state);
        if let Some(pong) = pong {
            call.send(&pong, &shared);
        }
    }
}

impl State {
    fn on(&mut self, now: Duration, seen: Seen, shared: &Shared) {
        match seen {
            Seen::Audio(length) => {
                if !self.stretch.goes_on(now) {
                    self.close_stretch(shared);
                }
                self.stretch.push(now, self.length);
                self.length += length;
                if shared.is_measuring() {
                    shared.stats.borrow_mut().audio += length;
                }
            }
            Seen::AnswerOver(bad) => {
                self.close_stretch(shared);
                if shared.is_measuring() {
                    shared.stats.borrow_mut().counts.answers += 1;
                }
                if let Some(how) = bad {
                    shared.complain(&how);
                }
            }
            Seen::SpeechStarted if shared.is_measuring() => {
                shared.stats.borrow_mut().speech_started += 1;
            }
            Seen::Error(what) => shared.complain(&what),
            Seen::Close => self.lose(shared, "the server closed the call"),
            Seen::AnswerBegun | Seen::SpeechStarted | Seen::SessionReady => {}
            Seen::Ping(_) | Seen::Other => {}
        }
    }

    fn lose(&mut self, shared: &Shared, why: &str) {
        if !self.gone {
            self.gone = true;
            shared.stats.borrow_mut().counts.broken += 1;
            shared.complain(why);
        }
    }

    fn close_stretch(&mut self, shared: &Shared) {
        let stretch = std::mem::take(&mut self.stretch);
        self.length = Duration::ZERO;
        if let Some(from) = shared.measured_from.get() {
            shared.stats.borrow_mut().counts.judge(stretch, from);
        }
    }
}
