//! One provider run for one call: its signals stamped with whose run it is, its end told with its
//! proof.
//!
//! A run that was cancelled and proves nothing within `evidence_ms` is told to the call as unknown;
//! the run is still awaited for a bounded time, and proof that comes late frees its unit at the
//! gate.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{Notify, mpsc};

use super::gates::Gates;
use crate::admission::OfferId;
use crate::admission::adaptive::Sign;
use crate::audio::samples_to_duration;
use crate::call::Event;
use crate::evidence::Unknown;
use crate::fault::Fault;
use crate::id::{RunId, Stage};
use crate::provider::{Cancel, Ended, Run};
use crate::time::Timestamp;

/// How much sound may be made ahead of its sending before the next phrase has to wait.
const AHEAD_MAX: Duration = Duration::from_secs(3);
/// How long a run whose lease is unknown is still listened to.
const LATE_EVIDENCE_MAX: Duration = Duration::from_secs(120);

/// What a run's task needs beside the run itself.
pub(super) struct Watch {
    /// Whose run it is.
    pub run: RunId,
    /// The unit it holds.
    pub unit: Option<(Stage, OfferId)>,
    /// Where its signals go.
    pub events: mpsc::Sender<Event>,
    /// Asks it to stop.
    pub cancel: Cancel,
    /// How long after a cancel its end must be proven.
    pub evidence: Duration,
    /// Where late proof goes.
    pub gates: Gates,
    /// How far its sound may run ahead of the caller's ears; `None` for runs that make no sound.
    pub ahead: Option<Arc<Ahead>>,
    /// The rate of that sound.
    pub rate_hz: u32,
}

/// How much sound has been made and not been sent yet. A synthesiser that is faster than speech
/// waits here, so that a call holds seconds of sound and not whole answers.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    waiting_us: AtomicU64,
    sent: Notify,
}

impl Ahead {
    /// Sound was made.
    fn made(&self, span: Duration) {
        self.waiting_us.fetch_add(span.as_micros() as u64, Ordering::AcqRel);
    }

    /// Sound was sent.
    pub fn sent(&self, span: Duration) {
        let span = span.as_micros() as u64;
        let less = |waiting: u64| Some(waiting.saturating_sub(span));
        // The closure always gives a value.
        let _ = self.waiting_us.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        self.sent.notify_waiters();
    }

    /// What was made will never be sent.
    pub fn forget(&self) {
        self.waiting_us.store(0, Ordering::Release);
        self.sent.notify_waiters();
    }

    /// Waits until there is room for more.
    async fn room(&self) {
        loop {
            let sent = self.sent.notified();
            if Duration::from_micros(self.waiting_us.load(Ordering::Acquire)) < AHEAD_MAX {
                return;
            }
            sent.await;
        }
    }
}

impl Watch {
    /// Carries a run's signals to its call until it has ended, and then its end.
    pub async fn carry<S: Send + 'static>(
        self,
        run: Run,
        mut signals: mpsc::Receiver<S>,
        mut stamp: impl FnMut(S) -> Vec<Event>,
    ) {
        let mut run = AssertUnwindSafe(run).catch_unwind();
        let cancelled = self.cancel.clone();
        let overdue = async {
            cancelled.cancelled().await;
            tokio::time::sleep(self.evidence).await;
        };
        tokio::pin!(overdue);
        let mut phrase_begun = None;
        let mut waiting_since = Some(self.gates.now());
        let ended = loop {
            tokio::select! {
                biased;
                Some(signal) = signals.recv() => {
                    self.saw_first(waiting_since.take());
                    for event in stamp(signal) {
                        self.hold_back(&mut phrase_begun, &event).await;
                        if self.events.send(event).await.is_err() {
                            // The call's task is gone; its supervisor has marked what it held.
                            self.cancel.cancel();
                        }
                    }
                }
                ended = &mut run => break Some(ended),
                () = &mut overdue => break None,
            }
        };
        if let Some(Ok(ended)) = &ended {
            self.saw_end(ended);
        }
        let Some(ended) = ended else {
            self.tell_end(Ended { proof: Err(Unknown::CancelTimeout), fault: None }).await;
            let late = async {
                loop {
                    tokio::select! {
                        biased;
                        Some(signal) = signals.recv() => self.tell_outcome(stamp(signal)).await,
                        ended = &mut run => break ended,
                    }
                }
            };
            let ended = tokio::time::timeout(LATE_EVIDENCE_MAX, late).await;
            while let Ok(signal) = signals.try_recv() {
                self.tell_outcome(stamp(signal)).await;
            }
            if let Ok(Ok(Ended { proof: Ok(evidence), .. })) = ended
                && let Some((stage, offer)) = self.unit
            {
                // A unit that was reclaimed meanwhile is free already.
                let _ = self.gates.late_evidence(stage, offer, evidence);
            }
            return;
        };
        while let Ok(signal) = signals.try_recv() {
            for event in stamp(signal) {
                let _ = self.events.send(event).await;
            }
        }
        self.tell_end(ended.unwrap_or_else(|_| broken())).await;
    }

    /// The first of a run's signals is evidence for an adaptive ceiling (B-055); the caller's own
    /// pace is none, and neither is work that was cancelled.
    fn saw_first(&self, waiting_since: Option<Timestamp>) {
        if let (Some(since), Some((stage @ (Stage::Model | Stage::Synthesis), _))) =
            (waiting_since, self.unit)
            && !self.cancel.is_cancelled()
        {
            let ms = self.gates.now().since(since).as_millis() as u64;
            self.gates.saw(stage, Sign::FirstToken { ms });
        }
    }

    /// A backend that says it is overloaded is evidence as well.
    fn saw_end(&self, ended: &Ended) {
        if let (Some((stage, _)), Some(fault)) = (self.unit, &ended.fault)
            && fault.is_overload()
        {
            self.gates.saw(stage, Sign::PushedBack);
        }
    }

    /// The next phrase's sound waits until the caller's ears have caught up, or until nobody wants
    /// it any more. A phrase that has begun is let through: only a whole one tells when its words
    /// sound.
    async fn hold_back(&self, phrase_begun: &mut Option<u32>, event: &Event) {
        let (Event::Sounded { phrase, samples, .. }, Some(ahead)) = (event, &self.ahead) else {
            return;
        };
        if phrase_begun.replace(*phrase) != Some(*phrase) {
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => return,
                () = self.events.closed() => return,
                () = ahead.room() => {}
            }
        }
        if !self.cancel.is_cancelled() {
            ahead.made(samples_to_duration(samples.len(), self.rate_hz));
        }
    }

    /// What a tool did is told however late it is known; other late output is nobody's any more.
    async fn tell_outcome(&self, events: Vec<Event>) {
        let is_outcome =
            |event: &Event| matches!(event, Event::ToolReturned { .. } | Event::Arranged { .. });
        let outcomes = events.into_iter().filter(is_outcome);
        for outcome in outcomes {
            // A call that is gone needs no outcome.
            let _ = self.events.send(outcome).await;
        }
    }

    async fn tell_end(&self, ended: Ended) {
        let Ended { proof, fault } = ended;
        let event = Event::Ended { run: self.run, proof, fault };
        // A call that is gone has had its leases marked by its supervisor.
        let _ = self.events.send(event).await;
    }
}

/// A provider that panicked: a bug on our side of the port, and nothing is known of its backend.
fn broken() -> Ended {
    let fault = Fault::Garbled { detail: "the provider's task panicked".into() };
    Ended { proof: Err(Unknown::Dropped), fault: Some(fault) }
}
