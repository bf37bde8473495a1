//! Whether speech while the agent is audible takes the floor (DESIGN section 4, *Barge-in*).
//!
//! What decides is a [`Policy`]: one file and one line in [`POLICIES`], chosen by
//! `turn.barge_in.policy`. It is shown what is known of the speech, in audio time, and says wait,
//! confirm or reject; pausing, resuming and the fence are the call's.

use std::fmt::Debug;
use std::time::Duration;

use super::words::{HUMS, is_only, locale, normalise};
use crate::time::ms;

mod duration;
mod two_step;

/// How a barge-in is judged.
pub trait Policy: Debug + Send + Sync {
    /// Its name in the configuration.
    fn name(&self) -> &'static str;
    /// Decides from what is known now. Asked again whenever more is known; it has to confirm or
    /// reject in bounded time, because the agent is paused meanwhile.
    fn judge(&self, rules: &BargeIn, seen: &Seen) -> Verdict;
}

/// Every policy there is; the first is the default.
pub const POLICIES: [&dyn Policy; 2] = [&two_step::TwoStep, &duration::DurationAlone];

/// The policy of this name.
pub fn policy(name: &str) -> Option<&'static dyn Policy> {
    POLICIES.into_iter().find(|policy| policy.name() == name)
}

/// The times and words of the barge-in decision.
#[derive(Clone, Debug)]
pub struct BargeIn {
    /// What decides.
    pub policy: &'static dyn Policy,
    /// Speech this long pauses our sending.
    pub duck: Duration,
    /// At this much speech the newest partial decides.
    pub confirm: Duration,
    /// Nothing or a back-channel waits until this much speech.
    pub backchannel: Duration,
    /// Speech that ended earlier waits this long for its words.
    pub resume: Duration,
    /// How often partial transcripts are asked for while a barge-in is suspected.
    pub partial_every: Duration,
    /// Fewer words than this do not take the floor, unless they answer a question.
    pub words_min: usize,
    /// Words that only say "go on".
    pub backchannels: Vec<String>,
    /// A pressed key takes the floor.
    pub keys: bool,
}

impl Default for BargeIn {
    fn default() -> Self {
        BargeIn {
            policy: POLICIES[0],
            duck: ms(60),
            confirm: ms(240),
            backchannel: ms(700),
            resume: ms(300),
            partial_every: ms(120),
            words_min: 1,
            backchannels: locale("en").backchannels.iter().map(|&word| word.to_owned()).collect(),
            keys: true,
        }
    }
}

/// What is known of the speech that may be a barge-in.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// Speech so far.
    pub speech: Duration,
    /// The caller has stopped (for now).
    pub paused: bool,
    /// The newest words, partial or final; `None` when none were recognised yet.
    pub words: Option<&'a str>,
    /// The words are the recogniser's last answer to all of this speech.
    pub words_are_final: bool,
    /// A recogniser listens at all.
    pub recogniser: bool,
    /// The agent's last sentence was a question: then a back-channel is an answer.
    pub after_question: bool,
}

/// The same, with its words read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Speech so far.
    pub speech: Duration,
    /// The caller has stopped (for now).
    pub paused: bool,
    /// What the newest words are.
    pub words: Words,
    /// The words are the recogniser's last answer to all of this speech.
    pub words_are_final: bool,
    /// A recogniser listens at all.
    pub recogniser: bool,
}

/// What words mean for the floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Words {
    /// There are none (yet).
    None,
    /// They only say "go on".
    BackChannel,
    /// Fewer than may take the floor.
    TooFew,
    /// They want the floor.
    Meant,
}

/// The decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Not yet known.
    Wait,
    /// The caller takes the floor.
    Confirm(Why),
    /// It was nothing: go on where the answer stopped.
    Reject(Why),
}

/// What the decision rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The words themselves.
    Words,
    /// The length of the speech.
    Duration,
    /// Words that only say "go on".
    BackChannel,
    /// No words at all, or too few.
    NoWords,
}

impl BargeIn {
    /// Decides from what is known now.
    pub fn judge(&self, seen: Evidence<'_>) -> Verdict {
        let Evidence { speech, paused, words_are_final, recogniser, .. } = seen;
        let words = self.read(&seen);
        self.policy.judge(self, &Seen { speech, paused, words, words_are_final, recogniser })
    }

    fn read(&self, seen: &Evidence<'_>) -> Words {
        let (words, after_question) = (seen.words.unwrap_or_default(), seen.after_question);
        // "Uh" may still become "uh-huh".
        let may_become = !seen.words_are_final && self.begins_backchannel(words);
        let count = normalise(words).split(' ').filter(|word| !word.is_empty()).count();
        match (count, after_question) {
            (0, _) => Words::None,
            (_, true) => Words::Meant,
            (_, false) if may_become || self.is_backchannel(words) => Words::BackChannel,
            (count, false) if count < self.words_min => Words::TooFew,
            (_, false) => Words::Meant,
        }
    }

    /// More words may make a back-channel of these.
    fn begins_backchannel(&self, words: &str) -> bool {
        let said = normalise(words);
        let begins = |whole: &String| {
            let whole = normalise(whole);
            let behind = |at: usize| is_only(&said[..at], self.backchannels.iter());
            // The last words begin a phrase, and what stands before them is one already.
            let starts = said
                .char_indices()
                .filter(|(at, _)| *at == 0 || said[..*at].ends_with(' ') && behind(*at));
            let mut tails = starts.map(|(at, _)| &said[at..]);
            tails.any(|tail| whole.strip_prefix(tail).is_some_and(|rest| rest.starts_with(' ')))
        };
        !said.is_empty() && self.backchannels.iter().any(begins)
    }

    /// All of these words only say "go on".
    pub fn is_backchannel(&self, words: &str) -> bool {
        let hums = HUMS.iter().map(|hum| (*hum).to_owned());
        is_only(words, self.backchannels.iter().cloned().chain(hums))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(speech: u64, words: Option<&'static str>) -> Evidence<'static> {
        Evidence {
            speech: ms(speech),
            paused: false,
            words,
            words_are_final: false,
            recogniser: true,
            after_question: false,
        }
    }

    #[test]
    fn a_word_confirms_at_240_ms_and_not_before() {
        let policy = BargeIn::default();
        assert_eq!(policy.judge(seen(239, Some("wait"))), Verdict::Wait);
        assert_eq!(policy.judge(seen(240, Some("wait"))), Verdict::Confirm(Why::Words));
    }

    #[test]
    fn nothing_and_backchannels_wait_until_700_ms() {
        let policy = BargeIn::default();
        assert_eq!(policy.judge(seen(300, None)), Verdict::Wait);
        assert_eq!(policy.judge(seen(699, Some("Mm-hmm."))), Verdict::Wait);
        assert_eq!(policy.judge(seen(700, Some("Mm-hmm."))), Verdict::Confirm(Why::Duration));
        assert!(policy.is_backchannel("Yeah, okay."));
        assert!(!policy.is_backchannel("yeah stop"));
    }

    #[test]
    fn the_beginning_of_a_back_channel_is_waited_for() {
        let policy = BargeIn::default();
        assert_eq!(policy.judge(seen(300, Some("uh"))), Verdict::Wait);
        assert_eq!(policy.judge(seen(300, Some("okay, I"))), Verdict::Wait);
        assert_eq!(policy.judge(seen(300, Some("I want"))), Verdict::Confirm(Why::Words));
        let ended = Evidence { words_are_final: true, paused: true, ..seen(300, Some("uh")) };
        assert_eq!(policy.judge(ended), Verdict::Reject(Why::BackChannel), "a hum, all the same");
        let hummed =
            Evidence { words_are_final: true, paused: true, ..seen(300, Some("Uh, uh, u")) };
        assert_eq!(policy.judge(hummed), Verdict::Reject(Why::BackChannel));
    }

    #[test]
    fn a_short_word_that_ended_is_judged_by_its_final() {
        let policy = BargeIn::default();
        let ended = |words| Evidence { paused: true, words_are_final: true, ..seen(120, words) };
        assert_eq!(policy.judge(ended(Some("Stop."))), Verdict::Confirm(Why::Words));
        assert_eq!(policy.judge(ended(Some("okay"))), Verdict::Reject(Why::BackChannel));
        assert_eq!(policy.judge(ended(Some(""))), Verdict::Reject(Why::NoWords));
        let asked = Evidence { after_question: true, ..ended(Some("okay")) };
        assert_eq!(policy.judge(asked), Verdict::Confirm(Why::Words));
    }

    #[test]
    fn fewer_words_than_asked_for_do_not_take_the_floor_in_bounded_time() {
        let policy = BargeIn { words_min: 2, ..BargeIn::default() };
        assert_eq!(policy.judge(seen(900, Some("wait"))), Verdict::Wait);
        assert_eq!(policy.judge(seen(900, Some("wait please"))), Verdict::Confirm(Why::Words));
        assert_eq!(policy.judge(seen(1_400, Some("wait"))), Verdict::Confirm(Why::Duration));
        let ended = Evidence { paused: true, words_are_final: true, ..seen(300, Some("stop")) };
        assert_eq!(policy.judge(ended), Verdict::Reject(Why::NoWords));
        let asked = Evidence { after_question: true, ..ended };
        assert_eq!(policy.judge(asked), Verdict::Confirm(Why::Words));
    }

    #[test]
    fn without_a_recogniser_duration_alone_confirms() {
        for policy in POLICIES {
            let policy = BargeIn { policy, ..BargeIn::default() };
            let deaf =
                |speech, paused| Evidence { recogniser: false, paused, ..seen(speech, None) };
            assert_eq!(policy.judge(deaf(240, false)), Verdict::Confirm(Why::Duration));
            assert_eq!(policy.judge(deaf(100, true)), Verdict::Reject(Why::NoWords));
        }
    }

    #[test]
    fn every_policy_is_found_by_its_name() {
        for known in POLICIES {
            assert_eq!(policy(known.name()).map(Policy::name), Some(known.name()));
        }
        assert!(policy("loudness").is_none());
    }
}
