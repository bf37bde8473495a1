//! Whether speech while the agent is audible takes the floor (DESIGN section 4, *Barge-in*).

use std::time::Duration;

use crate::time::ms;

/// The times and words of the barge-in decision.
#[derive(Clone, Debug, PartialEq)]
pub struct BargeIn {
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
    /// Words that only say "go on".
    pub backchannels: Vec<String>,
}

impl Default for BargeIn {
    fn default() -> Self {
        BargeIn {
            duck: ms(60),
            confirm: ms(240),
            backchannel: ms(700),
            resume: ms(300),
            partial_every: ms(120),
            backchannels: [
                "mm-hmm", "mhm", "uh-huh", "yeah", "okay", "ok", "right", "sure", "i see",
            ]
            .map(str::to_owned)
            .to_vec(),
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
    /// No words at all.
    NoWords,
}

impl BargeIn {
    /// Decides from what is known now.
    pub fn judge(&self, seen: Evidence<'_>) -> Verdict {
        let words = seen.words.map(normalise).filter(|words| !words.is_empty());
        let meant = words.as_ref().is_some_and(|w| seen.after_question || !self.is_backchannel(w));
        if !seen.recogniser {
            let enough = seen.speech >= self.confirm;
            return match (enough, seen.paused) {
                (true, _) => Verdict::Confirm(Why::Duration),
                (false, true) => Verdict::Reject(Why::NoWords),
                (false, false) => Verdict::Wait,
            };
        }
        if meant && (seen.speech >= self.confirm || seen.words_are_final) {
            return Verdict::Confirm(Why::Words);
        }
        if seen.paused && seen.words_are_final {
            let why = if words.is_some() { Why::BackChannel } else { Why::NoWords };
            return Verdict::Reject(why);
        }
        if !seen.paused && seen.speech >= self.backchannel {
            return Verdict::Confirm(Why::Duration);
        }
        Verdict::Wait
    }

    /// All of these words only say "go on".
    pub fn is_backchannel(&self, words: &str) -> bool {
        let mut rest = normalise(words);
        if rest.is_empty() {
            return false;
        }
        loop {
            let known = self.backchannels.iter().map(|word| normalise(word)).find(|word| {
                rest.strip_prefix(word.as_str()).is_some_and(|r| r.is_empty() || r.starts_with(' '))
            });
            let Some(known) = known else { return false };
            rest = rest[known.len()..].trim_start().to_owned();
            if rest.is_empty() {
                return true;
            }
        }
    }
}

/// Lower case, letters and digits only, single spaces.
fn normalise(words: &str) -> String {
    let cleaned: String = words
        .chars()
        .filter(|c| !matches!(c, '\'' | '’'))
        .map(|c| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { ' ' })
        .collect();
    cleaned.split_whitespace().collect::<Vec<_>>().join(" ")
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
    fn without_a_recogniser_duration_alone_confirms() {
        let policy = BargeIn::default();
        let deaf = |speech, paused| Evidence { recogniser: false, paused, ..seen(speech, None) };
        assert_eq!(policy.judge(deaf(240, false)), Verdict::Confirm(Why::Duration));
        assert_eq!(policy.judge(deaf(100, true)), Verdict::Reject(Why::NoWords));
    }
}
