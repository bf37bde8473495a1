//! What callers are told when they cannot have what they asked for: reads ladder, prompts and their
//! sound.
//!
//! The built-in files are compiled in; a folder (`fallback.dir`) may put its own in their place.
//! Nothing is handed on that the lint would object to or that has no sound in the default locale.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::error::{ConfigError, ConfigErrors};
use super::prompt_audio::{BUILT_IN, decode};
use super::raw;
use super::reader::nearest;
use crate::audio::Pcm;
use crate::call;
use crate::fallback::{
    Book, CallEnd, Cause, Claim, Climb, DeskWords, Facts, Ladder, Prompt, PromptId, Prompts, Rule,
    Rung, RungDraft, lint,
};
use crate::leg::HangUp;

const LADDER: &str = include_str!("../../fallback/ladder.toml");
const BOOKS: [(&str, &str); 3] = [
    ("de", include_str!("../../fallback/prompts/de.toml")),
    ("en", include_str!("../../fallback/prompts/en.toml")),
    ("es", include_str!("../../fallback/prompts/es.toml")),
];

/// The ladder and the sentences: what is said when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Which rungs are tried.
    pub ladder: Ladder,
    /// What they say.
    pub prompts: Prompts,
}

/// The script and its sound.
#[derive(Clone)]
pub struct Fallback {
    /// What is said when.
    pub script: Arc<Script>,
    audio: BTreeMap<(String, PromptId), Arc<Pcm>>,
}

impl std::fmt::Debug for Fallback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fallback").field("sounds", &self.audio.len()).finish_non_exhaustive()
    }
}

impl Script {
    /// Reads ladder and prompts, of the folder where it has them, else the built-in ones.
    pub fn read(dir: Option<&Path>) -> Result<Script, ConfigErrors> {
        let files = Files::find(dir)?;
        let mut errors = Vec::new();
        let mut prompts = Prompts::default();
        for (locale, file) in &files.books {
            match parse_book(file) {
                Ok(book) => drop(prompts.0.insert(locale.clone(), book)),
                Err(error) => errors.extend(error),
            }
        }
        let rules = parse_ladder(&files.ladder);
        if let Err(found) = &rules {
            errors.extend(found.iter().cloned());
        }
        let (Ok((rules, retry_max)), true) = (rules, errors.is_empty()) else {
            return Err(ConfigErrors(errors));
        };
        match Ladder::build(rules, retry_max, &prompts) {
            Ok(ladder) => Ok(Script { ladder, prompts }),
            Err(problems) => Err(ConfigErrors(
                problems
                    .into_iter()
                    .map(|wrong| {
                        let key = wrong.rule.map_or(String::new(), |rule| format!("rule {rule}"));
                        wrong_in(
                            &files.ladder.name,
                            &key,
                            wrong.problem,
                            "see fallback/ladder.toml",
                        )
                    })
                    .collect(),
            )),
        }
    }

    /// Holds every sentence against its claims; nothing is said that this objects to.
    pub fn lint(&self) -> Result<(), ConfigErrors> {
        let errors: Vec<ConfigError> = lint(&self.prompts, &self.ladder)
            .into_iter()
            .map(|found| {
                let file = format!("prompts/{}.toml", found.locale);
                let key = found.id.map_or(String::new(), |id| format!("prompt.{id}"));
                wrong_in(&file, &key, found.problem, found.right)
            })
            .collect();
        if errors.is_empty() { Ok(()) } else { Err(ConfigErrors(errors)) }
    }
}

impl Fallback {
    /// Reads everything. What is read is true and can be heard in the default locale; other locales
    /// may still lack sound ([`Fallback::silent`]).
    pub fn load(dir: Option<&Path>) -> Result<Fallback, ConfigErrors> {
        let script = Script::read(dir)?;
        script.lint()?;
        let mut fallback = Fallback { script: Arc::new(script), audio: BTreeMap::new() };
        let mut errors = fallback.take_built_in();
        if let Some(dir) = dir {
            let locales: Vec<String> = fallback.script.prompts.0.keys().cloned().collect();
            for locale in locales {
                errors.extend(fallback.read_audio(&dir.join("audio"), &locale));
            }
        }
        let folder = dir.map_or_else(|| PathBuf::from("fallback"), Path::to_owned);
        for id in fallback.silent(Prompts::DEFAULT_LOCALE) {
            let place =
                folder.join("audio").join(Prompts::DEFAULT_LOCALE).join(format!("{id}.wav"));
            errors.push(wrong_in(
                &place.display().to_string(),
                "",
                "there is no such sound",
                RENDER,
            ));
        }
        if errors.is_empty() { Ok(fallback) } else { Err(ConfigErrors(errors)) }
    }

    /// Takes the built-in sounds of those prompts that still say what was spoken.
    fn take_built_in(&mut self) -> Vec<ConfigError> {
        let locale = Prompts::DEFAULT_LOCALE;
        let spoken = spoken_texts(SPOKEN);
        let mut errors = Vec::new();
        for (id, bytes) in BUILT_IN {
            let id = PromptId::new(id);
            let text = self.script.prompts.get(locale, &id).map(|prompt| &prompt.text);
            if text.is_none() || text != spoken.get(id.as_str()) {
                continue;
            }
            match decode(bytes) {
                Ok(pcm) => drop(self.audio.insert((locale.to_owned(), id), Arc::new(pcm))),
                Err(problem) => {
                    errors.push(wrong_in(&format!("{locale}/{id}.wav"), "", problem, RENDER));
                }
            }
        }
        errors
    }

    /// Takes what sound there is for a locale from `folder/<locale>/<id>.wav`; gives back what is
    /// wrong with it. Where [`SPOKEN_FILE`] says that a sound has other words than its prompt, it
    /// is not taken.
    pub fn read_audio(&mut self, folder: &Path, locale: &str) -> Vec<ConfigError> {
        let mut errors = Vec::new();
        let Some(book) = self.script.prompts.0.get(locale) else { return errors };
        let spoken = std::fs::read_to_string(folder.join(locale).join(SPOKEN_FILE));
        let spoken = spoken_texts(&spoken.unwrap_or_default());
        for (id, prompt) in &book.prompts {
            let file = folder.join(locale).join(format!("{id}.wav"));
            let says_else = spoken.get(id.as_str()).is_some_and(|text| *text != prompt.text);
            if says_else || !file.exists() {
                continue;
            }
            let read = std::fs::read(&file).map_err(|error| format!("cannot be read: {error}"));
            match read.and_then(|bytes| decode(&bytes)) {
                Ok(pcm) => drop(self.audio.insert((locale.to_owned(), id.clone()), Arc::new(pcm))),
                Err(problem) => {
                    errors.push(wrong_in(&file.display().to_string(), "", problem, RENDER));
                }
            }
        }
        errors
    }

    /// The prompts of a locale that have no sound yet: render them before a caller of this language
    /// comes.
    pub fn silent(&self, locale: &str) -> Vec<PromptId> {
        let book = self.script.prompts.0.get(locale);
        let ids = book.into_iter().flat_map(|book| book.prompts.keys());
        ids.filter(|id| !self.audio.contains_key(&(locale.to_owned(), (*id).clone())))
            .cloned()
            .collect()
    }

    /// The sound of a prompt for a caller of this language; where that locale has none, the default
    /// locale's, so that something true is heard in any case.
    pub fn sound(&self, language: &str, id: &PromptId) -> Option<Arc<Pcm>> {
        let locale = self.script.prompts.locale_for(language);
        let of = |locale: &str| self.audio.get(&(locale.to_owned(), id.clone())).cloned();
        of(locale).or_else(|| of(Prompts::DEFAULT_LOCALE))
    }
}

/// The call asks for what is said in its own words.
impl call::Choose for Script {
    fn choose(
        &self,
        cause: &call::Cause,
        language: &str,
        standing: &call::Standing<'_>,
    ) -> call::Said {
        let cause = meant(cause);
        let facts = Facts::of(&cause).retried(standing.retries);
        let facts = match standing.on_record {
            Some(receipt) => facts.committed(receipt).exists(),
            None => facts,
        };
        let climb = Climb {
            tried: standing.tried,
            callback_offered: standing.callback,
            handoff_offered: standing.handoff,
        };
        let next = self.ladder.next(&cause, &climb, &facts);
        // A ladder that was built has a prompt for every cause, in every locale that passed the
        // lint.
        let id = next.prompt.unwrap_or_else(|| PromptId::new("goodbye"));
        let asks = matches!(next.rung, Rung::Callback | Rung::Handoff);
        let ends_call = facts.ends_call(next.rung);
        call::Said { asks, skipped: next.skipped, ..self.said(next.rung, &id, ends_call, language) }
    }

    fn say(
        &self,
        cause: &call::Cause,
        rung: Rung,
        fact: call::Fact<'_>,
        language: &str,
    ) -> Option<call::Said> {
        let cause = meant(cause);
        let facts = Facts::of(&cause);
        let facts = match fact {
            call::Fact::NeedsNumber => facts.offering(rung).needs_number(),
            call::Fact::Asked => facts.asked(),
            call::Fact::Unknown => facts.outcome_unknown(),
            call::Fact::Exists => facts.exists(),
            call::Fact::Committed(receipt) => facts.committed(receipt),
            call::Fact::Acknowledged(ack) => facts.acknowledged(ack),
        };
        let id = self.ladder.say(&cause, rung, &facts)?;
        Some(self.said(rung, &id, facts.ends_call(rung), language))
    }
}

impl Script {
    fn said(&self, rung: Rung, id: &PromptId, ends_call: bool, language: &str) -> call::Said {
        let prompt = self.prompts.get(self.prompts.locale_for(language), id);
        call::Said {
            rung,
            prompt: id.to_string(),
            text: prompt.map(|prompt| prompt.text.clone()).unwrap_or_default(),
            ends_call,
            asks: false,
            interruptible: prompt.is_none_or(|prompt| prompt.interruptible),
            skipped: Vec::new(),
        }
    }
}

fn meant(cause: &call::Cause) -> Cause {
    match cause {
        call::Cause::Refused(refusal) => {
            Cause::Refusal { stage: refusal.stage, reason: refusal.reason }
        }
        call::Cause::Expired(stage) => Cause::TurnExpired { stage: *stage },
        call::Cause::Failed(stage, fault) => Cause::Fault { stage: *stage, label: fault.label() },
        call::Cause::StillQueued(stage) => Cause::StillQueued { stage: *stage },
        call::Cause::BudgetSpent => Cause::BudgetSpent,
        call::Cause::NotReached(how) => Cause::NotReached(*how),
        call::Cause::CallEnds(why) => Cause::CallEnds(match why {
            HangUp::TooLong => CallEnd::TimeOver,
            HangUp::Idle => CallEnd::Idle,
            HangUp::Drained => CallEnd::Drained,
            HangUp::CallerGone
            | HangUp::Goodbye
            | HangUp::HandedOver
            | HangUp::Misbehaved
            | HangUp::Broken => CallEnd::Broken,
        }),
    }
}

/// The file beside a locale's sounds that lists the words they were rendered from.
pub const SPOKEN_FILE: &str = "spoken.toml";

const SPOKEN: &str = include_str!("../../fallback/audio/en/spoken.toml");

fn spoken_texts(file: &str) -> BTreeMap<String, String> {
    toml::from_str(file).unwrap_or_default()
}

const RENDER: &str = "run `floorkeeper prompts render`";

fn wrong_in(
    file: &str,
    key: &str,
    problem: impl Into<String>,
    right: impl Into<String>,
) -> ConfigError {
    let (file, key) = (file.to_owned(), key.to_owned());
    ConfigError { file, line: None, key, problem: problem.into(), right: right.into() }
}

/// A file by the name that messages use.
struct File {
    name: String,
    text: String,
}

struct Files {
    ladder: File,
    books: BTreeMap<String, File>,
}

impl Files {
    fn find(dir: Option<&Path>) -> Result<Files, ConfigErrors> {
        let mut books: BTreeMap<String, File> = BOOKS
            .iter()
            .map(|&(locale, text)| {
                let name = format!("fallback/prompts/{locale}.toml");
                (locale.to_owned(), File { name, text: text.to_owned() })
            })
            .collect();
        let mut ladder = File { name: "fallback/ladder.toml".to_owned(), text: LADDER.to_owned() };
        let Some(dir) = dir else { return Ok(Files { ladder, books }) };
        let failed = |path: &Path, error: &std::io::Error| {
            let problem = format!("cannot be read: {error}");
            let right = "fallback.dir names a folder with ladder.toml, prompts/ or audio/ in it";
            ConfigErrors(vec![wrong_in(&path.display().to_string(), "", problem, right)])
        };
        if !dir.is_dir() {
            return Err(failed(dir, &std::io::ErrorKind::NotFound.into()));
        }
        let read = |path: PathBuf| match std::fs::read_to_string(&path) {
            Ok(text) => Ok(File { name: path.display().to_string(), text }),
            Err(error) => Err(failed(&path, &error)),
        };
        if dir.join("ladder.toml").exists() {
            ladder = read(dir.join("ladder.toml"))?;
        }
        let folder = dir.join("prompts");
        if folder.is_dir() {
            let entries = std::fs::read_dir(&folder).map_err(|error| failed(&folder, &error))?;
            for entry in entries.filter_map(Result::ok) {
                let name = entry.file_name().to_string_lossy().into_owned();
                let Some(locale) = name.strip_suffix(".toml") else { continue };
                books.insert(locale.to_owned(), read(entry.path())?);
            }
        }
        Ok(Files { ladder, books })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBook {
    telling: BTreeMap<String, Vec<String>>,
    never: RawWords,
    prompt: BTreeMap<String, RawPrompt>,
    #[serde(default)]
    desk: RawBrief,
}

/// A locale without these sentences leaves them out.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBrief {
    from: String,
    asked: String,
    told: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWords {
    words: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPrompt {
    text: String,
    claims: Vec<String>,
    interruptible: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLadder {
    retry_max: u32,
    rule: Vec<RawRule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    #[serde(default)]
    stages: Vec<String>,
    causes: Vec<String>,
    climb: Vec<RawRung>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRung {
    rung: String,
    say: Vec<String>,
}

fn parsed<T: serde::de::DeserializeOwned>(file: &File) -> Result<T, Vec<ConfigError>> {
    let name: Arc<str> = file.name.as_str().into();
    toml::from_str(&file.text).map_err(|error| vec![raw::syntax(&file.text, &name, &error)])
}

fn parse_book(file: &File) -> Result<Book, Vec<ConfigError>> {
    let raw: RawBook = parsed(file)?;
    let mut errors = Vec::new();
    let mut claim = |label: &str, key: &str| {
        let found = Claim::named(label);
        if found.is_none() {
            let labels = Claim::ALL.iter().map(|claim| claim.label());
            let right = match nearest(label, labels.clone()) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => format!("there are {}", labels.collect::<Vec<_>>().join(", ")),
            };
            let problem = format!("there is no claim \"{label}\"");
            errors.push(wrong_in(&file.name, key, problem, right));
        }
        found
    };
    let RawBrief { from, asked, told } = raw.desk;
    let desk = DeskWords { from, asked, told };
    let mut book = Book { never: raw.never.words, desk, ..Book::default() };
    for (label, words) in raw.telling {
        if let Some(claim) = claim(&label, "telling") {
            book.telling.insert(claim, words);
        }
    }
    for (id, prompt) in raw.prompt {
        let key = format!("prompt.{id}");
        let claims = prompt.claims.iter().filter_map(|label| claim(label, &key)).collect();
        let RawPrompt { text, interruptible, .. } = prompt;
        book.prompts.insert(PromptId::new(&id), Prompt { text, claims, interruptible });
    }
    if errors.is_empty() { Ok(book) } else { Err(errors) }
}

fn parse_ladder(file: &File) -> Result<(Vec<Rule>, u32), Vec<ConfigError>> {
    let raw: RawLadder = parsed(file)?;
    let mut errors = Vec::new();
    let mut rules = Vec::new();
    for (index, rule) in raw.rule.into_iter().enumerate() {
        let mut climb = Vec::new();
        for draft in rule.climb {
            match Rung::named(&draft.rung) {
                Some(rung) => {
                    let say = draft.say.iter().map(|id| PromptId::new(id)).collect();
                    climb.push(RungDraft { rung, say });
                }
                None => errors.push(wrong_in(
                    &file.name,
                    &format!("rule {}", index + 1),
                    format!("there is no rung \"{}\"", draft.rung),
                    "write wait, retry, callback, handoff or goodbye",
                )),
            }
        }
        rules.push(Rule { stages: rule.stages, causes: rule.causes, climb });
    }
    if errors.is_empty() { Ok((rules, raw.retry_max)) } else { Err(errors) }
}
