//! An end-of-turn model shortens or lengthens the silence.

use std::time::Duration;

use super::{ASK_AFTER, Pause, Policy, Silences};
use crate::time::ms;

/// With the model unsure, silence that ends the turn all the same.
const UNSURE: Duration = ms(800);
/// Probability above which the model's yes is believed.
const SURE: f32 = 0.5;

/// The model is asked about each pause.
#[derive(Debug)]
pub struct SmartTurn;

impl Policy for SmartTurn {
    fn name(&self) -> &'static str {
        "smart_turn"
    }

    fn asks_model(&self) -> bool {
        true
    }

    fn enough(&self, silences: Silences, pause: &Pause<'_>) -> Duration {
        match pause.finished {
            Some(probability) if probability > SURE => ASK_AFTER,
            Some(_) => silences.at_most,
            None => UNSURE,
        }
    }
}
