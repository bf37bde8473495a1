//! Whether the caller has finished: silence, and an end-of-turn model that shortens or lengthens
//! it.

use std::time::Duration;

use crate::leg::EndOfTurn;
use crate::time::ms;

/// Silence behind which the words are decoded and the model is asked.
pub const ASK_AFTER: Duration = ms(200);
/// With the model unsure, silence that ends the turn all the same.
const UNSURE: Duration = ms(800);
/// Probability above which the model's yes is believed.
const SURE: f32 = 0.5;

/// What to do about the present pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The turn is over.
    Ended,
    /// Not yet.
    Wait,
}

/// Decides from the present silence and what the model said of this very pause (`None`: nothing
/// yet, or there is no model).
pub fn judge(end: EndOfTurn, silence: Duration, finished: Option<f32>) -> Verdict {
    let enough = match end {
        EndOfTurn::Silence(limit) => limit,
        EndOfTurn::Model { at_most } => match finished {
            Some(probability) if probability > SURE => ASK_AFTER,
            Some(_) => at_most,
            None => UNSURE.min(at_most),
        },
    };
    if silence >= enough { Verdict::Ended } else { Verdict::Wait }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_alone_decides_without_a_model() {
        let end = EndOfTurn::Silence(ms(500));
        assert_eq!(judge(end, ms(499), Some(0.99)), Verdict::Wait);
        assert_eq!(judge(end, ms(500), None), Verdict::Ended);
    }

    #[test]
    fn the_model_shortens_and_lengthens_but_never_vetoes_for_ever() {
        let end = EndOfTurn::Model { at_most: ms(1200) };
        assert_eq!(judge(end, ms(200), Some(0.9)), Verdict::Ended);
        assert_eq!(judge(end, ms(1199), Some(0.1)), Verdict::Wait);
        assert_eq!(judge(end, ms(1200), Some(0.1)), Verdict::Ended);
        assert_eq!(judge(end, ms(800), None), Verdict::Ended, "a model that never answers");
    }
}
