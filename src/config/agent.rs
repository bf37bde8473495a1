//! Who answers: `[agent.<name>]`, each taking from `agent.default` what it does not say.

use std::collections::BTreeMap;
use std::time::Duration;

use toml::Value;

use super::classes::Classes;
use super::reader::{Ask, Reader, nearest, told, whole};
use super::template::Template;
use crate::call::Greeting;

/// The profile that answers when nobody asked for another.
pub const DEFAULT_AGENT: &str = "default";

const INSTRUCTIONS: &str = "You are the friendly receptionist of a small restaurant. \
     Answer in one or two short spoken sentences.";

/// An agent profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    /// Its name, as `?agent=` and the Realtime model name give it.
    pub name: String,
    /// The numbers and extensions that it answers, beside its name.
    pub numbers: Vec<String>,
    /// How it is to behave.
    pub instructions: Template,
    /// What it says first on phones and media streams; `None` waits for the caller.
    pub greeting: Option<Template>,
    /// The caller may interrupt the greeting; a legal notice has to be heard to its end.
    pub greeting_interruptible: bool,
    /// Language (BCP 47) of recogniser, voice, prompts and back-channels.
    pub language: String,
    /// The synthesiser's voice; `None` is the provider's own default.
    pub voice: Option<String>,
    /// Tools on offer, by name.
    pub tools: Vec<String>,
    /// The workload class of its calls; `None` is none of those that are named.
    pub class: Option<String>,
    /// What is kept with each of its calls.
    pub metadata: BTreeMap<String, Template>,
    /// What its calls may use up.
    pub limits: AgentLimits,
}

impl Agent {
    /// What it says first to a caller who is greeted.
    pub fn greeting(&self, value: impl Fn(&str) -> Option<String>) -> Option<Greeting> {
        let text = self.greeting.as_ref()?.fill(value);
        (!text.trim().is_empty())
            .then_some(Greeting { text, interruptible: self.greeting_interruptible })
    }
}

/// What one call of an agent may use up.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentLimits {
    /// Length of a call.
    pub call: Duration,
    /// How long a call may be silent on both sides with nothing in flight; `None` for ever.
    pub idle: Option<Duration>,
    /// End of speech to first audible answer.
    pub turn_budget: Duration,
    /// Most tokens an answer may have; `None` leaves it to the model.
    pub max_tokens: Option<u32>,
}

/// Reads every profile. `tools` are the tools there are.
pub(super) fn read(
    reader: &mut Reader<'_>,
    tools: &[String],
    classes: &Classes,
) -> BTreeMap<String, Agent> {
    let mut names = reader.names("agent");
    names.push(DEFAULT_AGENT.to_owned());
    let read = |name: String| (name.clone(), profile(reader, name, tools, classes));
    let agents: BTreeMap<String, Agent> = names.into_iter().map(read).collect();
    check_numbers(reader, &agents);
    agents
}

/// A number is answered by one agent.
fn check_numbers(reader: &mut Reader<'_>, agents: &BTreeMap<String, Agent>) {
    let mut taken = BTreeMap::<&str, &str>::new();
    for agent in agents.values() {
        for number in &agent.numbers {
            let key = format!("agent.{}.numbers", agent.name);
            if number.trim().is_empty() {
                reader.refuse(&key, "a number has no digits", "write [\"+15550100\", \"100\"]");
            }
            let other = agents.contains_key(number).then_some(number.as_str());
            let other = other.filter(|name| *name != agent.name);
            if let Some(other) = other.or_else(|| taken.insert(number, &agent.name)) {
                let problem = format!("\"{number}\" is answered by agent \"{other}\" already");
                reader.refuse(&key, problem, "let one of them answer it");
            }
        }
    }
}

fn profile(reader: &mut Reader<'_>, name: String, tools: &[String], classes: &Classes) -> Agent {
    let own = |key: &str| format!("agent.{name}.{key}");
    let ask = |key: &str| {
        let mut keys = vec![own(key), format!("agent.{DEFAULT_AGENT}.{key}")];
        keys.dedup();
        Ask { keys, inherit_word: false }
    };
    let metadata = metadata(reader, &name);
    let greeting = reader.text(ask("greeting"), "Hello, how can I help?");
    let voice = reader.text(ask("voice"), "");
    let agent = Agent {
        // What one agent answers no other does.
        numbers: reader.list(&*own("numbers"), &[]),
        instructions: Template::parse(&reader.text(ask("instructions"), INSTRUCTIONS)),
        greeting: (!greeting.is_empty()).then(|| Template::parse(&greeting)),
        greeting_interruptible: reader.flag(ask("greeting_interruptible"), true),
        language: reader.text(ask("language"), "en"),
        voice: (!voice.is_empty()).then_some(voice),
        tools: reader.list(ask("tools"), &["find_slot", "book"]),
        class: class(reader, &name, ask("class"), classes),
        limits: limits(reader, &name),
        metadata,
        name: name.clone(),
    };
    check(reader, &agent, tools);
    agent
}

/// A class that exists; calls of no class say nothing.
fn class(reader: &mut Reader<'_>, name: &str, ask: Ask, classes: &Classes) -> Option<String> {
    let class = Some(reader.text(ask, "")).filter(|class| !class.is_empty())?;
    if !classes.names().any(|known| known == class) {
        let right = match nearest(&class, classes.names()) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("describe it in [class.{class}], or leave it out"),
        };
        let key = format!("agent.{name}.class");
        reader.refuse(&key, format!("there is no class \"{class}\""), right);
    }
    Some(class)
}

fn metadata(reader: &mut Reader<'_>, name: &str) -> BTreeMap<String, Template> {
    let path = format!("agent.{name}.metadata");
    let mut found = toml::Table::new();
    if name != DEFAULT_AGENT {
        found = reader.open_table(&format!("agent.{DEFAULT_AGENT}.metadata"), &[]);
    }
    for (key, value) in reader.open_table(&path, &[]) {
        found.insert(key, value);
    }
    let mut templates = BTreeMap::new();
    for (key, value) in found {
        let text = match &value {
            Value::String(text) => text.clone(),
            Value::Integer(_) | Value::Float(_) | Value::Boolean(_) => value.to_string(),
            Value::Array(_) | Value::Table(_) | Value::Datetime(_) => {
                let problem = format!("{} is no text, number or flag", told(&value));
                reader.refuse(&format!("{path}.{key}"), problem, "write from = \"{{call.from}}\"");
                continue;
            }
        };
        templates.insert(key, Template::parse(&text));
    }
    templates
}

fn limits(reader: &mut Reader<'_>, name: &str) -> AgentLimits {
    let ask = |key: &str, global: Option<&str>| {
        let mut keys = vec![format!("agent.{name}.limits.{key}")];
        if name != DEFAULT_AGENT {
            keys.push(format!("agent.{DEFAULT_AGENT}.limits.{key}"));
        }
        keys.extend(global.map(str::to_owned));
        Ask { keys, inherit_word: true }
    };
    let minutes = ask("max_minutes", Some("call.max_minutes"));
    let minutes = reader.number(minutes, 60, 1..=1_440, "a number of minutes");
    let idle_s = ask("idle_s", Some("call.idle_s"));
    let idle_s = reader.number(idle_s, 600, 0..=86_400, "a number of seconds (0 for ever)");
    let parse = |value: &Value| match value.as_str() {
        Some("unlimited") => Ok(None),
        _ => whole(value, &(1..=1_000_000)).map(|tokens| Some(tokens as u32)),
    };
    let right = "write a number of tokens from 1 to 1000000, or \"unlimited\"";
    AgentLimits {
        call: Duration::from_secs(minutes * 60),
        idle: (idle_s > 0).then(|| Duration::from_secs(idle_s)),
        turn_budget: reader.ms(ask("budget_ms", Some("turn.budget_ms")), 4_000, 500..=60_000),
        max_tokens: reader.value(
            ask("max_tokens", None),
            None,
            right,
            parse,
            |tokens| match tokens {
                Some(tokens) => Value::Integer(i64::from(*tokens)),
                None => Value::String("unlimited".to_owned()),
            },
        ),
    }
}

fn check(reader: &mut Reader<'_>, agent: &Agent, tools: &[String]) {
    let own = |key: &str| format!("agent.{}.{key}", agent.name);
    if !is_name(&agent.name) {
        let problem = "the name of an agent has other letters than a-z, A-Z, 0-9, '_' and '-'";
        reader.refuse(&format!("agent.{}", agent.name), problem, "write [agent.front_desk]");
    }
    if !is_language(&agent.language) {
        let problem = format!("\"{}\" is no language tag", agent.language);
        reader.refuse(&own("language"), problem, "write \"en\", \"de\", \"en-GB\"");
    }
    for tool in agent.tools.iter().filter(|tool| !tools.contains(tool)) {
        let right = match nearest(tool, tools.iter().map(String::as_str)) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("there are {}; describe another in [tool.{tool}]", tools.join(", ")),
        };
        reader.refuse(&own("tools"), format!("there is no tool \"{tool}\""), right);
    }
    let instructions = [("instructions".to_owned(), &agent.instructions)];
    let greeting = agent.greeting.as_ref().map(|greeting| ("greeting".to_owned(), greeting));
    let metadata = agent.metadata.iter().map(|(key, text)| (format!("metadata.{key}"), text));
    for (key, template) in instructions.into_iter().chain(greeting).chain(metadata) {
        // Metadata is made from the call alone, so that it cannot go round in a circle.
        let inside = if key.starts_with("metadata.") { None } else { Some(&agent.metadata) };
        for variable in template.unknown(inside) {
            let problem = format!("there is no variable {{{{{variable}}}}}");
            reader.refuse(&own(&key), problem, Template::RIGHT);
        }
    }
}

/// A name that can be a key, a variable's part and a metric label.
pub(super) fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

fn is_language(tag: &str) -> bool {
    let mut parts = tag.split('-');
    let primary = parts.next().unwrap_or_default();
    (2..=3).contains(&primary.len())
        && primary.bytes().all(|b| b.is_ascii_lowercase())
        && parts.all(|part| {
            (1..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_alphanumeric())
        })
}
