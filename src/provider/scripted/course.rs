//! What a scripted run is going to do and when, and how faults and a cancel bend that.

use std::collections::VecDeque;
use std::time::Duration;

use crate::evidence::Evidence;
use crate::fault::Fault;
use crate::provider::keys::{self, Keys, PerRun};
use crate::provider::{BuildError, Ended};
use crate::time::{Timestamp, ms};

/// What comes out of a scripted run.
#[derive(Clone, Debug, PartialEq)]
pub enum Output<S> {
    /// Something the provider says.
    Signal(S),
    /// The run is over; nothing follows.
    Ended(Ended),
}

/// Keys that every scripted provider takes.
pub(super) const FAULT_KEYS: &[&str] = &[
    "fail",
    "fail_after_ms",
    "retry_after_ms",
    "stall_after_ms",
    "empty",
    "garbage",
    "drip_per_s",
    "ignore_cancel",
    "cancel_ack_ms",
    "late_after_cancel_ms",
    "never_end",
    "keep_alives",
];

/// How a run is made to fail outright.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fail {
    /// The backend answers with this status.
    Status(u16),
    /// Nobody listens: nothing is ever sent.
    Refused,
    /// The backend breaks the connection; what came before stays.
    Reset,
}

/// The fault keys of all runs.
#[derive(Clone, Debug)]
pub(super) struct FaultScript {
    fail: PerRun<Option<Fail>>,
    fail_after: PerRun<Option<Duration>>,
    retry_after: PerRun<Option<Duration>>,
    stall_after: PerRun<Option<Duration>>,
    empty: PerRun<Option<bool>>,
    garbage: PerRun<Option<bool>>,
    drip_per_s: PerRun<Option<f64>>,
    ignore_cancel: PerRun<Option<bool>>,
    cancel_ack: PerRun<Option<Duration>>,
    late_after_cancel: PerRun<Option<Duration>>,
    never_end: PerRun<Option<bool>>,
    keep_alives: PerRun<Option<bool>>,
}

/// The faults of one run.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    pub fail: Option<Fail>,
    pub fail_after: Option<Duration>,
    pub retry_after: Option<Duration>,
    pub stall_after: Option<Duration>,
    pub empty: bool,
    pub garbage: bool,
    pub drip_per_s: Option<f64>,
    pub ignore_cancel: bool,
    pub cancel_ack: Option<Duration>,
    pub late_after_cancel: Option<Duration>,
    pub never_end: bool,
}

impl FaultScript {
    pub(super) fn from_keys(keys: &Keys<'_>) -> Result<FaultScript, BuildError> {
        let fails = [
            ("429", Fail::Status(429)),
            ("500", Fail::Status(500)),
            ("503", Fail::Status(503)),
            ("refused", Fail::Refused),
            ("reset", Fail::Reset),
        ];
        Ok(FaultScript {
            fail: keys.per_run("fail", |value| keys::word(value, &fails))?,
            fail_after: keys.per_run("fail_after_ms", keys::millis)?,
            retry_after: keys.per_run("retry_after_ms", keys::millis)?,
            stall_after: keys.per_run("stall_after_ms", keys::millis)?,
            empty: keys.per_run("empty", keys::flag)?,
            garbage: keys.per_run("garbage", keys::flag)?,
            drip_per_s: keys.per_run("drip_per_s", keys::rate)?,
            ignore_cancel: keys.per_run("ignore_cancel", keys::flag)?,
            cancel_ack: keys.per_run("cancel_ack_ms", keys::millis)?,
            late_after_cancel: keys.per_run("late_after_cancel_ms", keys::millis)?,
            never_end: keys.per_run("never_end", keys::flag)?,
            keep_alives: keys.per_run("keep_alives", keys::flag)?,
        })
    }

    pub(super) fn of_run(&self, nth: u32) -> Faults {
        let on = |flags: &PerRun<Option<bool>>| flags.at(nth).unwrap_or(false);
        // Keep-alives are bytes without meaning: seen from here, a backend that never says
        // anything.
        let silent = on(&self.keep_alives).then_some(Duration::ZERO);
        Faults {
            fail: *self.fail.at(nth),
            fail_after: *self.fail_after.at(nth),
            retry_after: *self.retry_after.at(nth),
            stall_after: silent.or(*self.stall_after.at(nth)),
            empty: on(&self.empty),
            garbage: on(&self.garbage),
            drip_per_s: *self.drip_per_s.at(nth),
            ignore_cancel: on(&self.ignore_cancel),
            cancel_ack: *self.cancel_ack.at(nth),
            late_after_cancel: *self.late_after_cancel.at(nth),
            never_end: on(&self.never_end),
        }
    }
}

/// The plan of one run: what is due when, and how it ends.
#[derive(Clone, Debug)]
pub(super) struct Course<P> {
    pub(super) faults: Faults,
    began: Timestamp,
    due: VecDeque<(Timestamp, P)>,
    end: Option<(Timestamp, Ended)>,
    doomed: bool,
    cancelled: bool,
    over: bool,
}

impl<P> Course<P> {
    pub(super) fn new(now: Timestamp, faults: Faults) -> Course<P> {
        Course {
            faults,
            began: now,
            due: VecDeque::new(),
            end: None,
            doomed: false,
            cancelled: false,
            over: false,
        }
    }

    /// The request reaches the backend: from here on it may fail, stall or answer after `first`.
    pub(super) fn begin(&mut self, now: Timestamp, first: Duration) {
        self.began = now;
        let after = self.faults.fail_after;
        let (wait, ended) = match self.faults.fail {
            Some(Fail::Refused) => (
                Duration::ZERO,
                Ended::failed(
                    Fault::Lost { detail: "connection refused".into() },
                    Ok(Evidence::NeverStarted),
                ),
            ),
            Some(Fail::Status(status)) => {
                let retry_after_ms = self.faults.retry_after.map(|wait| wait.as_millis() as u64);
                let fault = Fault::Rejected { status, retry_after_ms };
                let closed = Ok(Evidence::StreamClosedByBackend);
                (after.unwrap_or(ms(10)), Ended::failed(fault, closed))
            }
            Some(Fail::Reset) => (
                after.unwrap_or(first),
                Ended::failed(
                    Fault::Lost { detail: "connection reset by peer".into() },
                    Ok(Evidence::StreamClosedByBackend),
                ),
            ),
            None if self.faults.garbage => (
                first,
                Ended::failed(
                    Fault::Garbled { detail: "not this backend's protocol".into() },
                    Ok(Evidence::StreamClosedByBackend),
                ),
            ),
            None if self.faults.empty => {
                (first, Ended::failed(Fault::Empty, Ok(Evidence::Completed)))
            }
            None => return,
        };
        self.end_at(now + wait, ended);
        self.doomed = true;
    }

    /// Plans something; what a fault forbids is left out.
    pub(super) fn push(&mut self, at: Timestamp, what: P) {
        if self.cancelled || self.is_stalled(at) {
            return;
        }
        if self.doomed {
            let before_reset = self.faults.fail == Some(Fail::Reset)
                && self.end.as_ref().is_some_and(|(end, _)| at < *end);
            if !before_reset {
                return;
            }
        }
        self.append(at, what);
    }

    fn append(&mut self, at: Timestamp, what: P) {
        let at = self.due.back().map_or(at, |(last, _)| at.max(*last));
        self.due.push_back((at, what));
    }

    /// Plans the end, unless a fault or a cancel has decided about it.
    pub(super) fn finish(&mut self, at: Timestamp, ended: Ended) {
        if !self.doomed && !self.cancelled && !self.is_stalled(at) {
            let at = self.due.back().map_or(at, |(last, _)| at.max(*last));
            self.end_at(at, ended);
        }
    }

    fn end_at(&mut self, at: Timestamp, ended: Ended) {
        if !self.faults.never_end && !self.is_stalled(at) {
            self.end = Some((at, ended));
        }
    }

    fn is_stalled(&self, at: Timestamp) -> bool {
        self.faults.stall_after.is_some_and(|after| at >= self.began + after)
    }

    /// Asks it to stop. What it still sends is what `keep` allows and then `filler`, one every
    /// `pace`, for as long as `late_after_cancel_ms` says.
    pub(super) fn cancel(
        &mut self,
        now: Timestamp,
        pace: Duration,
        keep: impl Fn(&P) -> bool,
        mut filler: impl FnMut() -> Option<P>,
    ) {
        if self.over || self.cancelled || self.faults.ignore_cancel {
            return;
        }
        self.cancelled = true;
        self.doomed = false;
        self.end = None;
        let late = self.faults.late_after_cancel;
        let until = now + late.unwrap_or_default();
        self.due.retain(|(at, what)| late.is_some() && *at <= until && keep(what));
        if late.is_some() {
            let pace = pace.max(ms(1));
            let mut at = self.due.back().map_or(now, |(last, _)| *last) + pace;
            while at <= until && !self.is_stalled(at) {
                let Some(what) = filler() else { break };
                self.append(at, what);
                at += pace;
            }
        }
        if self.faults.never_end {
            return;
        }
        let (ack, evidence) = match (self.faults.cancel_ack, late) {
            (Some(after), _) => (now + after, Evidence::AbortAcknowledged),
            (None, None) => (now + ms(5), Evidence::AbortAcknowledged),
            (None, Some(_)) => (until, Evidence::StreamClosedByBackend),
        };
        self.end = Some((ack.max(until), Ended::stopped(evidence)));
    }

    /// It stops before anything was sent to the backend.
    pub(super) fn withdraw(&mut self, now: Timestamp) {
        if !self.over && !self.cancelled {
            self.cancelled = true;
            self.due.clear();
            self.end = Some((now, Ended::stopped(Evidence::NeverStarted)));
        }
    }

    /// When there is something to poll for; `None` when nothing more comes by itself.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        if self.over {
            return None;
        }
        let first = self.due.front().map(|(at, _)| *at);
        let end = self.end.as_ref().map(|(at, _)| *at);
        match (first, end) {
            (Some(first), Some(end)) => Some(first.min(end)),
            (first, end) => first.or(end),
        }
    }

    /// The next thing that is due by `now`, in time order.
    pub(super) fn poll(&mut self, now: Timestamp) -> Option<Output<P>> {
        if self.over {
            return None;
        }
        let end_at = self.end.as_ref().map(|(at, _)| *at);
        if let Some((at, _)) = self.due.front()
            && *at <= now
            && end_at.is_none_or(|end| *at <= end)
        {
            return self.due.pop_front().map(|(_, what)| Output::Signal(what));
        }
        if end_at.is_some_and(|end| end <= now) {
            self.over = true;
            self.due.clear();
            return self.end.take().map(|(_, ended)| Output::Ended(ended));
        }
        None
    }

    /// Nothing is planned but perhaps the end.
    pub(super) fn is_idle(&self) -> bool {
        self.due.is_empty()
    }

    /// When the last thing planned is due.
    pub(super) fn last_due(&self) -> Option<Timestamp> {
        self.due.back().map(|(at, _)| *at)
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled
    }
}

/// The time that `count` things take at `per_s` a second.
pub(super) fn at_rate(count: usize, per_s: f64) -> Duration {
    Duration::from_micros((count as f64 * 1_000_000.0 / per_s) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn flag() -> impl Strategy<Value = bool> {
        prop::bool::weighted(0.2)
    }

    fn span() -> impl Strategy<Value = Option<Duration>> {
        prop::option::weighted(0.3, (0..200_u64).prop_map(ms))
    }

    prop_compose! {
        fn faults()(
            fail in prop::option::weighted(0.2, prop::sample::select(vec![
                Fail::Status(429), Fail::Refused, Fail::Reset,
            ])),
            (fail_after, stall_after) in (span(), span()),
            (cancel_ack, late_after_cancel) in (span(), span()),
            (empty, garbage, ignore_cancel, never_end) in (flag(), flag(), flag(), flag()),
        ) -> Faults {
            Faults {
                fail, fail_after, stall_after, empty, garbage, ignore_cancel, cancel_ack,
                late_after_cancel, never_end, ..Faults::default()
            }
        }
    }

    proptest! {
        /// In time order, nothing behind the end, at most one end, and a cancel that is obeyed is
        /// answered when the script says.
        #[test]
        fn every_course_keeps_its_promises(
            faults in faults(),
            steps in prop::collection::vec(0..60_u64, 0..12),
            cancel_ms in prop::option::of(0..400_u64),
        ) {
            let mut course = Course::new(Timestamp::ZERO, faults.clone());
            course.begin(Timestamp::ZERO, ms(20));
            let mut at = Timestamp::from_millis(20);
            for (nth, step) in steps.iter().enumerate() {
                at += ms(*step);
                course.push(at, nth);
            }
            course.finish(at, Ended::completed());
            let mut cancel = cancel_ms.map(Timestamp::from_millis);
            let (mut last, mut end) = (Timestamp::ZERO, None);
            let mut was_over_when_cancelled = false;
            loop {
                let next = course.next_at();
                if let Some(when) = cancel.filter(|when| next.is_none_or(|next| *when <= next)) {
                    cancel = None;
                    was_over_when_cancelled = end.is_some();
                    course.cancel(when, ms(10), |_| true, || Some(99));
                    continue;
                }
                let Some(now) = next else { break };
                prop_assert!(now >= last, "time runs backwards");
                last = now;
                while let Some(output) = course.poll(now) {
                    prop_assert!(end.is_none(), "something behind the end");
                    if let Output::Ended(ended) = output {
                        end = Some((now, ended));
                    }
                }
            }
            prop_assert!(!(faults.never_end && end.is_some()), "an end that must not come");
            if let Some(when) = cancel_ms.map(Timestamp::from_millis)
                && !was_over_when_cancelled && !faults.ignore_cancel && !faults.never_end
            {
                let late = faults.late_after_cancel.unwrap_or_default();
                let unset = if faults.late_after_cancel.is_some() { late } else { ms(5) };
                let due = when + faults.cancel_ack.unwrap_or(unset).max(late);
                prop_assert_eq!(end.map(|(at, _)| at), Some(due));
            }
        }
    }
}
