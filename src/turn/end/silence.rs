//! Silence alone.

use std::time::Duration;

use super::{Pause, Policy, Silences};

/// A fixed silence ends the turn.
#[derive(Debug)]
pub struct Silence;

impl Policy for Silence {
    fn name(&self) -> &'static str {
        "silence"
    }

    fn enough(&self, silences: Silences, _pause: &Pause<'_>) -> Duration {
        silences.plain
    }
}
