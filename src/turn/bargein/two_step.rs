//! The words decide as soon as there are any; length alone only where there is no doubt left.

use super::duration::DurationAlone;
use super::{BargeIn, Policy, Seen, Verdict, Why, Words};

/// Suspect, then confirm by words or by long speech, or reject.
#[derive(Debug)]
pub struct TwoStep;

impl Policy for TwoStep {
    fn name(&self) -> &'static str {
        "two_step"
    }

    fn judge(&self, rules: &BargeIn, seen: &Seen) -> Verdict {
        if !seen.recogniser {
            return DurationAlone.judge(rules, seen);
        }
        let decides = seen.speech >= rules.confirm || seen.words_are_final;
        // Words are known and are too few: more may come, but not for ever.
        let patience = match seen.words {
            Words::TooFew => rules.backchannel * 2,
            Words::None | Words::BackChannel | Words::Meant => rules.backchannel,
        };
        match seen.words {
            Words::Meant if decides => Verdict::Confirm(Why::Words),
            Words::BackChannel if seen.paused && seen.words_are_final => {
                Verdict::Reject(Why::BackChannel)
            }
            Words::None | Words::TooFew if seen.paused && seen.words_are_final => {
                Verdict::Reject(Why::NoWords)
            }
            _ if !seen.paused && seen.speech >= patience => Verdict::Confirm(Why::Duration),
            _ => Verdict::Wait,
        }
    }
}
