//! `floorkeeper prompts lint|render`: are the prompts true, and can they be heard?

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use super::check::{environment, errors_as_json, print_out};
use super::spoken::spoken;
use super::wav;
use crate::audio::Pcm;
use crate::config::{Config, Fallback, SPOKEN_FILE, Script};
use crate::fallback::{Prompt, PromptId};
use crate::provider::tts::{TTSS, Tts, TtsOptions};
use crate::provider::{Surroundings, find};

/// Rate of rendered prompts: what a telephone or a browser makes of them is no better.
const RATE_HZ: u32 = 16_000;
/// Sound kept in front of and behind the words.
const EDGE: Duration = Duration::from_millis(60);
/// Below this a sample is silence at the edge of a sentence.
const EDGE_LEVEL: u16 = 150;

/// Holds every text against its claims. Exit code 0 when all are true, 1 with file and id of those
/// that are not.
pub fn lint(dir: Option<&Path>, json: bool) -> ExitCode {
    let checked = Script::read(dir).and_then(|script| script.lint().map(|()| script));
    match checked {
        Ok(script) => {
            let locales: Vec<&String> = script.prompts.0.keys().collect();
            let count = script.prompts.default_book().map_or(0, |book| book.prompts.len());
            if json {
                let summary =
                    serde_json::json!({ "ok": true, "prompts": count, "locales": locales });
                print_out(&format!("{summary}\n"));
            } else {
                let names: Vec<&str> = locales.iter().map(|locale| locale.as_str()).collect();
                print_out(&format!(
                    "{count} prompts in {}: every text is held by its claims\n",
                    names.join(", ")
                ));
            }
            ExitCode::SUCCESS
        }
        Err(errors) => {
            if json {
                print_out(&format!("{}\n", errors_as_json(&errors)));
            }
            eprintln!("{errors}");
            ExitCode::from(1)
        }
    }
}

/// What was rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// The files written.
    pub files: Vec<PathBuf>,
    /// Length of all of them.
    pub length: Duration,
}

/// Why prompts could not be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// There are no prompts in this locale.
    #[error("there are no prompts in \"{locale}\"; there are: {known}")]
    NoSuchLocale {
        /// What was asked for.
        locale: String,
        /// What there is.
        known: String,
    },
    /// The synthesiser did not speak a prompt.
    #[error("prompt {id} could not be spoken: {why}")]
    Unspoken {
        /// Which.
        id: String,
        /// What the synthesiser said.
        why: String,
    },
    /// A file could not be written.
    #[error("{file} cannot be written: {why}; name a folder that can be written to")]
    Unwritten {
        /// Which.
        file: String,
        /// What the system said.
        why: String,
    },
}

/// Speaks every prompt of a locale into `dir/<locale>/<id>.wav`, and lists beside them what they
/// say.
pub async fn render(
    tts: Arc<dyn Tts>,
    script: &Script,
    options: &TtsOptions,
    dir: &Path,
    locale: &str,
) -> Result<Rendered, RenderError> {
    let Some(book) = script.prompts.0.get(locale) else {
        let known: Vec<&str> = script.prompts.0.keys().map(String::as_str).collect();
        let (locale, known) = (locale.to_owned(), known.join(", "));
        return Err(RenderError::NoSuchLocale { locale, known });
    };
    let folder = dir.join(locale);
    let unwritten =
        |file: &Path, why: String| RenderError::Unwritten { file: file.display().to_string(), why };
    std::fs::create_dir_all(&folder).map_err(|error| unwritten(&folder, error.to_string()))?;
    let mut rendered = Rendered { files: Vec::new(), length: Duration::ZERO };
    let mut spoken = toml::Table::new();
    let ledger = folder.join(SPOKEN_FILE);
    // What is not listed as spoken is not believed: it is listed when all of it is there.
    let _ = std::fs::remove_file(&ledger);
    for (id, prompt) in &book.prompts {
        let pcm = speak(&tts, options, id, prompt).await?;
        let file = folder.join(format!("{id}.wav"));
        wav::write(&file, &pcm).map_err(|error| unwritten(&file, error.reason))?;
        rendered.length += pcm.duration();
        rendered.files.push(file);
        spoken.insert(id.to_string(), toml::Value::String(prompt.text.clone()));
    }
    let text = format!("# What the sounds beside this file say.\n{spoken}");
    std::fs::write(&ledger, text).map_err(|error| unwritten(&ledger, error.to_string()))?;
    Ok(rendered)
}

/// One sentence as sound.
async fn speak(
    tts: &Arc<dyn Tts>,
    options: &TtsOptions,
    id: &PromptId,
    prompt: &Prompt,
) -> Result<Pcm, RenderError> {
    let unspoken = |why: String| RenderError::Unspoken { id: id.to_string(), why };
    let sound = spoken(tts, options.clone(), &prompt.text).await.map_err(unspoken)?;
    let samples = wav::at_rate(&sound, RATE_HZ).map_err(unspoken)?;
    let trimmed = trimmed(&samples);
    if trimmed.is_empty() {
        return Err(unspoken("only silence came".to_owned()));
    }
    Ok(Pcm { rate_hz: RATE_HZ, samples: trimmed.to_vec() })
}

/// The sound without the silence around it.
fn trimmed(samples: &[i16]) -> &[i16] {
    let loud = |sample: &i16| sample.unsigned_abs() > EDGE_LEVEL;
    let Some(first) = samples.iter().position(loud) else { return &[] };
    let last = samples.iter().rposition(loud).unwrap_or(first);
    let edge = crate::audio::duration_to_samples(EDGE, RATE_HZ);
    &samples[first.saturating_sub(edge)..(last + 1 + edge).min(samples.len())]
}

/// What `floorkeeper prompts render` is asked for.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct RenderRequest {
    /// The configuration file.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Override a key, as `tts.provider=espeak`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
    /// Where the sounds go; without it `audio/` in the configured folder, or `fallback/audio` here.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// The locale; without it the default agent's.
    #[arg(long)]
    pub locale: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Renders one locale with the configured synthesiser. Exit code 0, 1 when it could not be spoken
/// or written, 2 when the configuration is wrong.
pub async fn run_render(request: RenderRequest) -> ExitCode {
    let json = request.json;
    let refuse = |code: u8, sentence: String| {
        if json {
            print_out(&format!("{}\n", serde_json::json!({ "ok": false, "error": sentence })));
        }
        eprintln!("{sentence}");
        ExitCode::from(code)
    };
    let config = Config::load(request.config.as_deref(), &request.sets, environment());
    let config = match config {
        Ok(config) => config,
        Err(errors) => return refuse(2, errors.to_string()),
    };
    let script = match Script::read(config.fallback.dir.as_deref()) {
        Ok(script) => script,
        Err(errors) => return refuse(2, errors.to_string()),
    };
    let agent = config.default_agent();
    let asked = request.locale.unwrap_or_else(|| agent.language.clone());
    let voice = agent.voice.clone().filter(|_| asked == agent.language);
    let options = TtsOptions { voice, language: asked.clone(), speed: 1.0 };
    let own = config.fallback.dir.as_ref().map(|dir| dir.join("audio"));
    let dir = request.dir.or(own).unwrap_or_else(|| PathBuf::from("fallback/audio"));
    let tts = match build(&config).await {
        Ok(tts) => tts,
        Err(sentence) => return refuse(2, sentence),
    };
    match render(tts, &script, &options, &dir, &asked).await {
        Ok(rendered) => {
            let (files, length_ms) = (rendered.files.len(), rendered.length.as_millis() as u64);
            let folder = dir.join(&asked).display().to_string();
            if json {
                let summary = serde_json::json!({
                    "ok": true, "folder": folder, "files": files, "length_ms": length_ms,
                });
                print_out(&format!("{summary}\n"));
            } else {
                print_out(&format!("{files} prompts, {length_ms} ms of sound, in {folder}\n"));
            }
            ExitCode::SUCCESS
        }
        Err(error) => refuse(1, error.to_string()),
    }
}

/// The configured synthesiser; loading a voice may take a while.
async fn build(config: &Config) -> Result<Arc<dyn Tts>, String> {
    let around = Surroundings {
        models_dir: config.models.dir.clone(),
        language: config.default_agent().language.clone(),
    };
    let chosen = config.tts.clone();
    let built = tokio::task::spawn_blocking(move || {
        find(TTSS, "tts.provider", &chosen.provider)
            .and_then(|entry| (entry.build)(&chosen.table, &around))
    });
    match built.await {
        Ok(Ok(tts)) => Ok(tts),
        Ok(Err(error)) => Err(format!("tts.provider: {error}")),
        Err(panic) => Err(format!("tts.provider: the synthesiser could not be made: {panic}")),
    }
}

/// Makes sure that callers of these languages can be told everything: renders what has no sound yet
/// into `dir` and takes it. What was rendered before is taken as it is.
pub async fn complete(
    fallback: &mut Fallback,
    tts: Arc<dyn Tts>,
    options: &TtsOptions,
    dir: &Path,
    language: &str,
) -> Result<(), RenderError> {
    let locale = fallback.script.prompts.locale_for(language).to_owned();
    // Sound that breaks off is rendered again like sound that is not there.
    let _ = fallback.read_audio(dir, &locale);
    if fallback.silent(&locale).is_empty() {
        return Ok(());
    }
    let script = Arc::clone(&fallback.script);
    render(tts, &script, options, dir, &locale).await?;
    let wrong = fallback.read_audio(dir, &locale);
    match wrong.into_iter().next() {
        Some(error) => Err(RenderError::Unspoken { id: error.file, why: error.problem }),
        None => Ok(()),
    }
}
