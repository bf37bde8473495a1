//! What the far end received, and what of it sounded there and when.

use std::time::Duration;

use super::script::{Script, WORDS_PER_S};
use crate::call::Action;
use crate::id::{Generation, ItemId};
use crate::leg::ToCaller;
use crate::provider::scripted::TtsScript;
use crate::time::Timestamp;

/// What the caller said: one piece of speech or noise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Its acoustic onset.
    pub from: Timestamp,
    /// Its end.
    pub until: Timestamp,
    /// The words; none are noise.
    pub words: String,
}

/// Something that the far end received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Sound, to be played behind what is there.
    Sound {
        /// Of this item.
        item: ItemId,
        /// Under whose authority.
        generation: Generation,
        /// So long.
        span: Duration,
    },
    /// The words whose sound follows.
    Words {
        /// Of this item.
        item: ItemId,
        /// The words.
        text: String,
    },
    /// What has not sounded yet is forgotten: a clear, or the end of the call.
    Cleared,
}

impl Sent {
    /// What an action sends there.
    pub fn of(action: &Action) -> Option<Sent> {
        let Action::Tell(what) = action else { return None };
        Some(match what {
            ToCaller::Audio { item, generation, pcm, .. } => {
                Sent::Sound { item: item.clone(), generation: *generation, span: pcm.duration() }
            }
            ToCaller::Text { item, delta, .. } => {
                Sent::Words { item: item.clone(), text: delta.clone() }
            }
            ToCaller::ClearFarEnd { .. } | ToCaller::HangUp { .. } => Sent::Cleared,
            _ => return None,
        })
    }
}

/// A stretch of the agent's sound at the far end, without a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Its first instant.
    pub from: Timestamp,
    /// Its end.
    pub until: Timestamp,
    /// Under whose authority it was sent.
    pub generation: Generation,
    /// The item it belongs to.
    pub item: ItemId,
    /// The phrase that begins with it; empty where one goes on after a pause.
    pub words: String,
}

/// What sounded: the far end plays what it has received at once and in order, until it is cleared.
pub fn heard(sent: &[(Timestamp, Sent)]) -> Vec<Heard> {
    let mut all: Vec<Heard> = Vec::new();
    let mut free_at = Timestamp::ZERO;
    let mut caption: Option<(ItemId, String)> = None;
    for (at, what) in sent {
        match what {
            Sent::Words { item, text } => match &mut caption {
                Some((of, words)) if of == item => words.push_str(text),
                _ => caption = Some((item.clone(), text.clone())),
            },
            Sent::Sound { item, generation, span } => {
                let from = (*at).max(free_at);
                free_at = from + *span;
                let words = caption.take_if(|(of, _)| of == item).map(|(_, words)| words);
                let goes_on = |last: &&mut Heard| {
                    let same = last.item == *item && last.generation == *generation;
                    words.is_none() && same && last.until == from
                };
                match all.last_mut().filter(goes_on) {
                    Some(last) => last.until = free_at,
                    None => all.push(Heard {
                        from,
                        until: free_at,
                        generation: *generation,
                        item: item.clone(),
                        words: words.unwrap_or_default().trim().to_owned(),
                    }),
                }
            }
            Sent::Cleared => {
                all.retain(|heard| heard.from < *at);
                if let Some(last) = all.last_mut() {
                    last.until = last.until.min(*at);
                }
                free_at = *at;
                caption = None;
            }
        }
    }
    all
}

/// Words a second that the agent says; at most so many, where it is not said.
pub(crate) fn words_per_s(script: &Script) -> f64 {
    let tts = &script.config.tts;
    let scripted = (tts.provider == "scripted").then(|| TtsScript::from_table(&tts.table).ok());
    scripted.flatten().map_or(WORDS_PER_S, |voice| voice.words_per_s())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::ms;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn sound(span_ms: u64) -> Sent {
        let (item, generation) = (ItemId::new("item_1"), Generation(1));
        Sent::Sound { item, generation, span: ms(span_ms) }
    }

    #[test]
    fn what_was_sent_ahead_sounds_in_order_and_a_clear_cuts_it() {
        let words = Sent::Words { item: ItemId::new("item_1"), text: "There was ".into() };
        let sent = [
            (at(100), words),
            (at(100), sound(100)),
            (at(100), sound(100)),
            (at(200), sound(100)),
            (at(500), sound(200)),
            (at(600), Sent::Cleared),
            (at(600), sound(20)),
        ];
        let shown: Vec<(u64, u64, String)> = heard(&sent)
            .into_iter()
            .map(|one| (one.from.as_millis(), one.until.as_millis(), one.words))
            .collect();
        let quiet = String::new();
        let all = [(100, 400, "There was".to_owned()), (500, 620, quiet)];
        assert_eq!(shown, all);
    }
}
