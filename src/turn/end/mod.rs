//! Whether the caller has finished.
//!
//! What decides is a [`Policy`]: one file and one line in [`POLICIES`], chosen by `turn.end`. It is
//! shown the present pause and what is known of it. Clients of the Realtime protocol may choose
//! too: plain silence, or whatever `turn.end` names for deciding by what was said.

use std::fmt::Debug;
use std::time::Duration;

use crate::time::ms;

mod silence;
mod smart_turn;
mod transcript;

pub use silence::Silence;

/// Silence behind which the words are decoded and the model is asked.
pub const ASK_AFTER: Duration = ms(200);

/// What the present pause is.
#[derive(Clone, Copy, Debug)]
pub struct Pause<'a> {
    /// How long the caller has been silent.
    pub silence: Duration,
    /// The words before it, once they are known.
    pub words: Option<&'a str>,
    /// The end-of-turn model's probability that this is the end; `None` when it has not answered,
    /// or there is none.
    pub finished: Option<f32>,
    /// The caller's language (BCP 47).
    pub language: &'a str,
}

/// The silences that end a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silences {
    /// When nothing else is known.
    pub plain: Duration,
    /// Whatever else is known.
    pub at_most: Duration,
}

/// What to do about the present pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The turn is over.
    Ended,
    /// Not yet.
    Wait,
}

/// How the end of a turn is found.
pub trait Policy: Debug + Send + Sync {
    /// Its name in the configuration.
    fn name(&self) -> &'static str;
    /// It wants the end-of-turn model's opinion of each pause.
    fn asks_model(&self) -> bool {
        false
    }
    /// The silence at which the turn ends, from what is known of this pause; never more than
    /// `silences.at_most`.
    fn enough(&self, silences: Silences, pause: &Pause<'_>) -> Duration;
}

/// Every policy there is.
pub const POLICIES: [&dyn Policy; 3] =
    [&smart_turn::SmartTurn, &silence::Silence, &transcript::Transcript];

/// The policy of this name.
pub fn policy(name: &str) -> Option<&'static dyn Policy> {
    POLICIES.into_iter().find(|policy| policy.name() == name)
}

/// Decides about a pause.
pub fn judge(policy: &dyn Policy, silences: Silences, pause: &Pause<'_>) -> Verdict {
    let enough = policy.enough(silences, pause).min(silences.at_most);
    if pause.silence >= enough { Verdict::Ended } else { Verdict::Wait }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENCES: Silences = Silences { plain: ms(500), at_most: ms(1_200) };

    fn at(name: &str, silence: u64, words: Option<&str>, finished: Option<f32>) -> Verdict {
        let pause = Pause { silence: ms(silence), words, finished, language: "en" };
        judge(policy(name).unwrap(), SILENCES, &pause)
    }

    #[test]
    fn silence_alone_decides_without_a_model() {
        assert_eq!(at("silence", 499, None, Some(0.99)), Verdict::Wait);
        assert_eq!(at("silence", 500, None, None), Verdict::Ended);
    }

    #[test]
    fn the_model_shortens_and_lengthens_but_never_vetoes_for_ever() {
        assert_eq!(at("smart_turn", 200, None, Some(0.9)), Verdict::Ended);
        assert_eq!(at("smart_turn", 1_199, None, Some(0.1)), Verdict::Wait);
        assert_eq!(at("smart_turn", 1_200, None, Some(0.1)), Verdict::Ended);
        assert_eq!(at("smart_turn", 800, None, None), Verdict::Ended, "it never answers");
    }

    #[test]
    fn the_words_shorten_and_lengthen_but_never_veto_for_ever() {
        let finished = Some("A table for two, please.");
        assert_eq!(at("transcript", 299, finished, None), Verdict::Wait);
        assert_eq!(at("transcript", 300, finished, None), Verdict::Ended);
        let unfinished = Some("I want a table for");
        assert_eq!(at("transcript", 1_199, unfinished, None), Verdict::Wait);
        assert_eq!(at("transcript", 1_200, unfinished, None), Verdict::Ended);
        assert_eq!(at("transcript", 500, Some("tomorrow evening"), None), Verdict::Ended);
        assert_eq!(at("transcript", 499, None, None), Verdict::Wait);
        assert_eq!(at("transcript", 500, None, None), Verdict::Ended, "words not known in time");
    }

    #[test]
    fn no_policy_waits_longer_than_allowed() {
        for policy in POLICIES {
            for words in [None, Some("and"), Some("yes."), Some("")] {
                for finished in [None, Some(0.0), Some(1.0)] {
                    let pause = Pause { silence: ms(1_200), words, finished, language: "de" };
                    assert_eq!(judge(policy, SILENCES, &pause), Verdict::Ended, "{policy:?}");
                }
            }
        }
    }
}
