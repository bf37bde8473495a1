//! Holds every sentence against what it claims.

use super::claim::Claim;
use super::ladder::Ladder;
use super::prompt::{AT_DESK, Book, Prompt, PromptId, Prompts};

/// Something that a locale gets wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The locale.
    pub locale: String,
    /// The prompt; `None` when the whole book is meant.
    pub id: Option<PromptId>,
    /// What is wrong.
    pub problem: String,
    /// What would be right.
    pub right: String,
}

/// Claims that promise something or end the call: every locale must know the words that make them.
const MUST_TELL: [Claim; 4] =
    [Claim::OriginalQueued, Claim::CallbackCommitted, Claim::HandoffAcknowledged, Claim::CallEnds];

/// A prompt is spoken in less than about five seconds.
const WORDS_MAX: usize = 14;

/// All that is wrong with the prompts; nothing is, or they are not to be spoken.
pub fn lint(prompts: &Prompts, ladder: &Ladder) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Some(first) = prompts.default_book() else {
        let locale = Prompts::DEFAULT_LOCALE.to_owned();
        let problem = "there is no book of the default locale".to_owned();
        return vec![Finding { locale, id: None, problem, right: "write one".to_owned() }];
    };
    for (locale, book) in &prompts.0 {
        let mut found = |id: Option<&PromptId>, problem: String, right: &str| {
            let (locale, right) = (locale.clone(), right.to_owned());
            findings.push(Finding { locale, id: id.cloned(), problem, right });
        };
        for claim in MUST_TELL {
            if book.telling.get(&claim).is_none_or(Vec::is_empty) {
                let problem = format!("no words are given that claim {}", claim.label());
                found(None, problem, "list them in [telling]");
            }
        }
        for id in first.prompts.keys().filter(|id| !book.prompts.contains_key(*id)) {
            found(Some(id), "this locale lacks it".to_owned(), "translate it");
        }
        for (text, gap) in [
            (&book.desk.from, "{number}"),
            (&book.desk.asked, "{words}"),
            (&book.desk.told, "{words}"),
        ] {
            if !text.is_empty() && !text.contains(gap) {
                found(None, format!("[desk] \"{text}\" has no {gap}"), "say where it stands");
            }
        }
        for (id, prompt) in &book.prompts {
            check(id, prompt, book, first, &mut found);
            let at_desk = AT_DESK.contains(&id.as_str());
            if !at_desk && !ladder.prompts().any(|said| said == id) {
                found(Some(id), "no rung says it".to_owned(), "take it out, or add it to a rule");
            }
        }
    }
    findings
}

fn check(
    id: &PromptId,
    prompt: &Prompt,
    book: &Book,
    first: &Book,
    found: &mut impl FnMut(Option<&PromptId>, String, &str),
) {
    let text = prompt.text.to_lowercase();
    for (claim, words) in &book.telling {
        for word in words.iter().filter(|word| says(&text, word)) {
            if !prompt.claims.contains(claim) {
                let problem = format!("it says \"{word}\" and does not claim {}", claim.label());
                found(Some(id), problem, "take the words out, or add the claim if it is meant");
            }
        }
    }
    for word in book.never.iter().filter(|word| says(&text, word)) {
        let problem = format!("it says \"{word}\", which nobody can know");
        found(Some(id), problem, "say only what is known");
    }
    let words = text.split_whitespace().count();
    if words == 0 || words > WORDS_MAX {
        let problem = format!("it has {words} words");
        found(Some(id), problem, "say it in 1 to 14 words, under five seconds");
    }
    match first.prompts.get(id) {
        None => found(Some(id), "the default locale lacks it".to_owned(), "add it there"),
        Some(other) if !same_claims(other, prompt) => {
            let problem = "its claims differ from the default locale's".to_owned();
            found(Some(id), problem, "claim the same in every locale");
        }
        Some(other) if other.interruptible != prompt.interruptible => {
            let problem = "interruptible differs from the default locale's".to_owned();
            found(Some(id), problem, "write the same in every locale");
        }
        Some(_) => {}
    }
}

fn same_claims(one: &Prompt, other: &Prompt) -> bool {
    one.claims.len() == other.claims.len() && one.claims.iter().all(|c| other.claims.contains(c))
}

/// The words stand in the text, not inside longer words.
fn says(text: &str, words: &str) -> bool {
    let words = words.to_lowercase();
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(&words).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + words.len()..].chars().next();
        !is_word(before) && !is_word(after)
    })
}
