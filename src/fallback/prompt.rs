//! Prompts: sentences with what they claim, in a book per locale.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::claim::Claim;

/// Names a prompt, the same in every locale.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PromptId(pub Arc<str>);

impl PromptId {
    /// The prompt of this name.
    pub fn new(name: &str) -> PromptId {
        PromptId(name.into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PromptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for PromptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A sentence and what it claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The words.
    pub text: String,
    /// What must be true for them to be said.
    pub claims: Vec<Claim>,
    /// The caller may interrupt it.
    pub interruptible: bool,
}

/// Prompts that no rung says: whoever was rung to take a caller hears them.
pub const AT_DESK: [&str; 3] = ["desk_caller", "desk_question", "desk_caller_left"];

/// What whoever was rung is told of this caller; without its words a sentence is left out.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DeskWords {
    /// Where they call from: `{number}`.
    pub from: String,
    /// What they asked last: `{words}`.
    pub asked: String,
    /// What was then done, as they were told it: `{words}`.
    pub told: String,
}

/// The prompts of one locale.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Book {
    /// The sentences.
    pub prompts: BTreeMap<PromptId, Prompt>,
    /// Words that may stand only in a sentence that makes the claim.
    pub telling: BTreeMap<Claim, Vec<String>>,
    /// Words that may stand in no sentence: progress nobody measured, times nobody knows.
    pub never: Vec<String>,
    /// What is said at the desk of a caller.
    pub desk: DeskWords,
}

/// The prompts of every locale.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Prompts(pub BTreeMap<String, Book>);

impl Prompts {
    /// The locale whose audio is shipped, and which speaks where a language has no book.
    pub const DEFAULT_LOCALE: &'static str = "en";

    /// The locale that speaks to a caller of this language (BCP 47): its own, its primary
    /// language's, or the default.
    pub fn locale_for<'a>(&'a self, language: &'a str) -> &'a str {
        let primary = language.split('-').next().unwrap_or(language);
        [language, primary]
            .into_iter()
            .find(|locale| self.0.contains_key(*locale))
            .unwrap_or(Prompts::DEFAULT_LOCALE)
    }

    /// A prompt in a locale.
    pub fn get(&self, locale: &str, id: &PromptId) -> Option<&Prompt> {
        self.0.get(locale)?.prompts.get(id)
    }

    /// The book of the default locale, which says which prompts there are and what they claim.
    pub fn default_book(&self) -> Option<&Book> {
        self.0.get(Prompts::DEFAULT_LOCALE)
    }
}
