//! `floorkeeper check F`: is this configuration right, what does it mean, and where does each value
//! come from?

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use crate::config::{Config, ConfigErrors, Fallback, Source};
use crate::fallback::Prompts;
use crate::provider::{BuildError, Entry, Surroundings, asr, ear, find, llm, tool, tts};

/// What was found.
struct Checked {
    config: Config,
    fallback: Fallback,
    /// Plug-ins that this machine cannot run as it is: no error of the configuration.
    missing: Vec<String>,
}

/// Checks configuration and prompts. Exit code 0 when they are right, 2 when they are not. What is
/// configured goes to standard output, errors and warnings to standard error (with `json`, errors
/// too go to standard output).
pub fn run(path: Option<&Path>, sets: &[String], json: bool) -> ExitCode {
    match check(path, sets) {
        Ok(checked) if json => {
            print_out(&format!("{}\n", as_json(&checked)));
            ExitCode::SUCCESS
        }
        Ok(checked) => {
            print_out(&as_text(&checked));
            for warning in checked.config.warnings.iter().chain(&checked.missing) {
                eprintln!("warning: {warning}");
            }
            ExitCode::SUCCESS
        }
        Err(errors) => {
            if json {
                print_out(&format!("{}\n", errors_as_json(&errors)));
            }
            eprintln!("{errors}");
            ExitCode::from(2)
        }
    }
}

/// Prints a result. A reader that has gone (`| head`) has read what it wanted.
pub(crate) fn print_out(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn check(path: Option<&Path>, sets: &[String]) -> Result<Checked, ConfigErrors> {
    let config = Config::load(path, sets, environment())?;
    let fallback = Fallback::load(config.fallback.dir.as_deref())?;
    let missing = build_all(&config)?;
    Ok(Checked { config, fallback, missing })
}

/// The environment as far as it is text: a name or value that is none is nobody's setting.
pub fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
}

/// Makes every plug-in once, so that its own keys are checked by itself.
fn build_all(config: &Config) -> Result<Vec<String>, ConfigErrors> {
    let around = Surroundings {
        models_dir: config.models.dir.clone(),
        language: config.default_agent().language.clone(),
    };
    let mut found = Found { config, around, missing: Vec::new(), errors: Vec::new() };
    if config.vad.provider != ear::OFF {
        found.build("vad", "detector", ear::DETECTORS, &config.vad);
    }
    found.build("asr", "provider", asr::ASRS, &config.asr);
    found.build("llm", "provider", llm::LLMS, &config.llm);
    found.build("tts", "provider", tts::TTSS, &config.tts);
    for (name, chosen) in &config.tools {
        found.build(&format!("tool.{name}"), "provider", tool::TOOLS, chosen);
    }
    if found.errors.is_empty() { Ok(found.missing) } else { Err(ConfigErrors(found.errors)) }
}

struct Found<'c> {
    config: &'c Config,
    around: Surroundings,
    missing: Vec<String>,
    errors: Vec<crate::config::ConfigError>,
}

impl Found<'_> {
    fn build<T: ?Sized>(
        &mut self,
        path: &str,
        key: &str,
        table: &'static [Entry<T>],
        chosen: &crate::config::Chosen,
    ) {
        let provider = format!("{path}.{key}");
        let built = find(table, &provider, &chosen.provider)
            .and_then(|entry| (entry.build)(&chosen.table, &self.around));
        match built {
            Ok(_) => {}
            Err(error @ BuildError::Missing { .. }) => {
                self.missing.push(format!("{provider} = \"{}\": {error}", chosen.provider));
            }
            Err(BuildError::Config { key, problem, right }) => {
                // A plug-in names its keys within its table, some of them with the table's name.
                let key = match key.strip_prefix(&format!("{path}.")) {
                    Some(inside) => format!("{path}.{inside}"),
                    None => format!("{path}.{key}"),
                };
                self.errors.push(self.config.error_at(&key, &provider, problem, right));
            }
        }
    }
}

fn as_text(checked: &Checked) -> String {
    let Checked { config, fallback, .. } = checked;
    let said = config
        .origins
        .keys()
        .filter(|key| config.origins.source(key).is_some_and(|source| source != Source::Default));
    let mut text = config.show(false);
    text.push_str(&format!(
        "\nright: {} keys, {} of them said; agents: {}; tools: {}; prompts in {}\n",
        config.origins.keys().count(),
        said.count(),
        names(config.agents.keys()),
        names(config.tools.keys()),
        names(fallback.script.prompts.0.keys()),
    ));
    for locale in silent_locales(fallback) {
        text.push_str(&format!(
            "prompts in {locale} have no sound yet and are rendered at start\n"
        ));
    }
    text
}

/// Locales whose prompts have no sound yet.
fn silent_locales(fallback: &Fallback) -> Vec<&str> {
    let locales = fallback.script.prompts.0.keys().map(String::as_str);
    locales
        .filter(|locale| *locale != Prompts::DEFAULT_LOCALE)
        .filter(|locale| !fallback.silent(locale).is_empty())
        .collect()
}

fn names<'n>(names: impl Iterator<Item = &'n String>) -> String {
    names.map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn as_json(checked: &Checked) -> serde_json::Value {
    let values: serde_json::Value =
        serde_json::from_str(&checked.config.show(true)).unwrap_or_default();
    serde_json::json!({
        "ok": true,
        "values": values,
        "agents": checked.config.agents.keys().collect::<Vec<_>>(),
        "tools": checked.config.tools.keys().collect::<Vec<_>>(),
        "locales": checked.fallback.script.prompts.0.keys().collect::<Vec<_>>(),
        "locales_without_sound": silent_locales(&checked.fallback),
        "warnings": checked.config.warnings,
        "missing": checked.missing,
    })
}

/// The errors as a script reads them.
pub(crate) fn errors_as_json(errors: &ConfigErrors) -> serde_json::Value {
    let list: Vec<serde_json::Value> = errors
        .0
        .iter()
        .map(|error| {
            serde_json::json!({
                "file": error.file,
                "line": error.line,
                "key": error.key,
                "problem": error.problem,
                "right": error.right,
            })
        })
        .collect();
    serde_json::json!({ "ok": false, "errors": list })
}
