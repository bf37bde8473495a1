//! What is kept of each call: its trace and where it stands, live and for a while afterwards.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use dashmap::DashMap;
use serde_json::{Value, json};

use crate::id::CallId;
use crate::leg::HangUp;
use crate::time::Timestamp;

/// Lines of trace kept of one call; the oldest go first.
const TRACE_LINES_MAX: usize = 1_000;
/// Calls kept after they ended.
const ENDED_MAX: usize = 256;

/// Every live call, and the last ones that ended.
#[derive(Default)]
pub struct Registry {
    live: DashMap<CallId, Arc<Record>>,
    ended: Mutex<VecDeque<Arc<Record>>>,
    changed: tokio::sync::Notify,
}

/// One call's record.
pub struct Record {
    /// The call.
    pub call: CallId,
    /// Who answers.
    pub agent: String,
    /// Over which transport.
    pub transport: &'static str,
    /// When it was accepted.
    pub began: Timestamp,
    /// What the agent's profile keeps with its calls.
    pub metadata: BTreeMap<String, String>,
    story: Mutex<Story>,
}

#[derive(Default)]
struct Story {
    trace: VecDeque<String>,
    dropped_lines: u64,
    floor: &'static str,
    ear: &'static str,
    generation: u64,
    turn: u32,
    late_outputs: u64,
    ended: Option<(Timestamp, HangUp)>,
}

/// Where a call stands.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// Who speaks.
    pub floor: &'static str,
    /// What the caller is doing.
    pub ear: &'static str,
    /// The generation that has the floor.
    pub generation: u64,
    /// The turn committed last.
    pub turn: u32,
    /// Output of old generations suppressed so far.
    pub late_outputs: u64,
}

impl Record {
    /// A record that begins now.
    pub fn new(
        call: CallId,
        agent: &str,
        transport: &'static str,
        began: Timestamp,
        metadata: BTreeMap<String, String>,
    ) -> Record {
        let agent = agent.to_owned();
        Record { call, agent, transport, began, metadata, story: Mutex::default() }
    }

    /// Adds a line of trace.
    pub fn note(&self, now: Timestamp, line: &str) {
        let mut story = self.story();
        if story.trace.len() == TRACE_LINES_MAX {
            story.trace.pop_front();
            story.dropped_lines += 1;
        }
        let at = now.since(self.began).as_millis();
        story.trace.push_back(format!("{at:>6}ms  {line}"));
    }

    /// Says where the call stands.
    pub fn stand(&self, standing: Standing) {
        let mut story = self.story();
        story.floor = standing.floor;
        story.ear = standing.ear;
        story.generation = standing.generation;
        story.turn = standing.turn;
        story.late_outputs = standing.late_outputs;
    }

    /// The whole record.
    pub fn show(&self) -> Value {
        let story = self.story();
        let mut shown = self.summary_of(&story);
        shown["trace"] = story.trace.iter().cloned().map(Value::from).collect();
        shown["metadata"] = json!(self.metadata);
        shown["trace_lines_dropped"] = story.dropped_lines.into();
        shown
    }

    /// The record without its trace.
    pub fn summary(&self) -> Value {
        self.summary_of(&self.story())
    }

    fn summary_of(&self, story: &Story) -> Value {
        json!({
            "id": self.call.to_string(),
            "agent": self.agent,
            "transport": self.transport,
            "began_ms": self.began.as_millis(),
            "ended_ms": story.ended.map(|(at, _)| at.as_millis()),
            "ended_why": story.ended.map(|(_, why)| why.label()),
            "floor": story.floor,
            "ear": story.ear,
            "generation": story.generation,
            "turn": story.turn,
            "late_outputs": story.late_outputs,
        })
    }

    fn story(&self) -> std::sync::MutexGuard<'_, Story> {
        // Nothing in here panics half-way through a change.
        self.story.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registry {
    /// A call began.
    pub fn add(&self, record: Arc<Record>) {
        self.live.insert(record.call, record);
    }

    /// A call is over.
    pub fn end(&self, call: CallId, now: Timestamp, why: HangUp) {
        let Some((_, record)) = self.live.remove(&call) else { return };
        record.story().ended = Some((now, why));
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.len() == ENDED_MAX {
            ended.pop_front();
        }
        ended.push_back(record);
        drop(ended);
        self.changed.notify_waiters();
    }

    /// Resolves when a call has ended, or soon after one may have.
    pub async fn changed(&self) {
        // A call may end between a look and this wait: looking again after a moment misses none.
        let moment = std::time::Duration::from_millis(200);
        let _ = tokio::time::timeout(moment, self.changed.notified()).await;
    }

    /// How many calls are live.
    pub fn live_count(&self) -> usize {
        self.live.len()
    }

    /// The record of this name.
    pub fn find(&self, name: &str) -> Option<Arc<Record>> {
        let number = name.strip_prefix("call-")?.parse().ok()?;
        if let Some(record) = self.live.get(&CallId(number)) {
            return Some(record.value().clone());
        }
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.iter().rev().find(|record| record.call.0 == number).cloned()
    }

    /// All records without their traces: live ones by name, then the ended ones, newest first.
    pub fn list(&self) -> Vec<Value> {
        let mut live: Vec<Arc<Record>> =
            self.live.iter().map(|entry| entry.value().clone()).collect();
        live.sort_by_key(|record| record.call);
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        live.iter().chain(ended.iter().rev()).map(|record| record.summary()).collect()
    }
}
