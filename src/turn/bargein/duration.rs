//! Length alone decides: for recognisers that are too slow for words, and where there is none.

use super::{BargeIn, Policy, Seen, Verdict, Why};

/// Speech of `confirm_ms` takes the floor, whatever is said.
#[derive(Debug)]
pub struct DurationAlone;

impl Policy for DurationAlone {
    fn name(&self) -> &'static str {
        "duration"
    }

    fn judge(&self, rules: &BargeIn, seen: &Seen) -> Verdict {
        match (seen.speech >= rules.confirm, seen.paused) {
            (true, _) => Verdict::Confirm(Why::Duration),
            (false, true) => Verdict::Reject(Why::NoWords),
            (false, false) => Verdict::Wait,
        }
    }
}
