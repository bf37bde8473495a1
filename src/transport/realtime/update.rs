//! `session.update`: a deep merge that takes all of it or nothing.

use serde_json::Value;

use super::fields::Fields;
use super::format::Format;
use super::session::{Defaults, Kind, SERVER_TURNS, Session, Transcription};
use super::tools::{parse_choice, parse_tools};
use super::turns::Turns;
use super::wrong::Wrong;
use crate::leg::{Modality, ServerTurns, TurnDetection};

/// Largest number of tokens that a client may ask for.
const TOKENS_MAX: u64 = 4_096;

/// What has happened in the session already, where it forbids a change.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Past {
    /// The agent has answered.
    pub answered: bool,
    /// The agent has been heard.
    pub spoken: bool,
}

/// The session that `value` makes of `old`.
pub(super) fn updated(
    old: &Session,
    value: &Value,
    defaults: &Defaults,
    past: Past,
) -> Result<Session, Wrong> {
    let fields = Fields::of(value, "session", defaults.strict)?;
    fields.only(&[
        "type",
        "object",
        "id",
        "expires_at",
        "model",
        "output_modalities",
        "instructions",
        "tools",
        "tool_choice",
        "max_output_tokens",
        "tracing",
        "truncation",
        "prompt",
        "include",
        "reasoning",
        "parallel_tool_calls",
        "audio",
        "floorkeeper",
    ])?;
    let mut new = old.clone();
    update_kind(&mut new, &fields, past)?;
    // The model is what the call was admitted for: another name is read and not followed (1.3).
    fields.text("model")?;
    update_answers(&mut new, &fields)?;
    update_ignored(&mut new, &fields)?;
    if let Some(audio) = fields.object("audio")? {
        audio.only(&["input", "output"])?;
        if let Some(input) = audio.object("input")? {
            update_input(&mut new, &input, defaults)?;
        }
        if let Some(output) = audio.object("output")? {
            update_output(&mut new, &output, past)?;
        }
    }
    if let Some(extra) = fields.object("floorkeeper")? {
        extra.only(&["events"])?;
        new.extra_events = extra.flag("events")?.unwrap_or(new.extra_events);
    }
    Ok(new)
}

fn update_kind(new: &mut Session, fields: &Fields<'_>, past: Past) -> Result<(), Wrong> {
    let kind = match fields.text("type")? {
        None => return Err(Wrong::missing("session.type")),
        Some("realtime") => Kind::Realtime,
        Some("transcription") => Kind::Transcription,
        Some(other) => {
            return Err(Wrong::value("session.type", other, "'realtime', 'transcription'"));
        }
    };
    if kind != new.kind && past.answered {
        let message = "A session's type cannot change after the first answer.";
        return Err(Wrong::at("invalid_value", "session.type", message));
    }
    new.kind = kind;
    Ok(())
}

fn update_answers(new: &mut Session, fields: &Fields<'_>) -> Result<(), Wrong> {
    if let Some(modality) = parse_modalities(fields)? {
        new.modality = modality;
    }
    if let Some(text) = fields.text("instructions")? {
        new.instructions = text.to_owned();
    }
    if let Some(tools) = parse_tools(fields)? {
        new.tools = tools;
    }
    if let Some(choice) = parse_choice(fields)? {
        new.tool_choice = choice;
    }
    if let Some(limit) = parse_max_tokens(fields)? {
        new.max_tokens = limit;
    }
    Ok(())
}

/// Reads `output_modalities`: exactly one of the two.
pub(super) fn parse_modalities(fields: &Fields<'_>) -> Result<Option<Modality>, Wrong> {
    let key = "output_modalities";
    let Some(list) = fields.list(key)? else { return Ok(None) };
    let words: Vec<&str> = list
        .iter()
        .map(|(path, v)| v.as_str().ok_or_else(|| Wrong::type_of(path, "a string", v)))
        .collect::<Result<_, _>>()?;
    match words[..] {
        ["audio"] => Ok(Some(Modality::Audio)),
        ["text"] => Ok(Some(Modality::Text)),
        _ => {
            let path = fields.path(key);
            let message = format!(
                "Invalid modalities: {words:?}. Supported combinations are: ['text'] and \
                 ['audio'] (a spoken answer always has its transcript)."
            );
            Err(Wrong::at("invalid_value", path, message))
        }
    }
}

/// Reads `max_output_tokens`; `Some(None)` is `"inf"`.
pub(super) fn parse_max_tokens(fields: &Fields<'_>) -> Result<Option<Option<u32>>, Wrong> {
    let key = "max_output_tokens";
    match fields.get(key) {
        None => Ok(None),
        Some(Value::String(word)) if word == "inf" => Ok(Some(None)),
        Some(Value::Number(_)) => {
            Ok(fields.whole(key, 1, TOKENS_MAX)?.map(|limit| u32::try_from(limit).ok()))
        }
        Some(other) => Err(Wrong::type_of(fields.path(key), "a number or \"inf\"", other)),
    }
}

/// Reads a voice: its name, or an object with its id (T4: it is shown as its name).
pub(super) fn parse_voice<'a>(fields: &Fields<'a>) -> Result<Option<&'a str>, Wrong> {
    match fields.get("voice") {
        None => Ok(None),
        Some(Value::Object(_)) => fields.need_object("voice")?.need_text("id").map(Some),
        Some(_) => fields.need_text("voice").map(Some),
    }
}

fn update_input(new: &mut Session, fields: &Fields<'_>, defaults: &Defaults) -> Result<(), Wrong> {
    fields.only(&["format", "transcription", "noise_reduction", "turn_detection"])?;
    if let Some(format) = fields.object("format")? {
        new.input_format = Format::parse(&format)?;
    }
    if fields.is_null("transcription") {
        new.transcription = None;
    } else if let Some(transcription) = fields.object("transcription")? {
        new.transcription = Some(parse_transcription(&transcription, defaults)?);
    }
    if fields.is_null("noise_reduction") {
        new.noise_reduction = None;
    } else if let Some(noise) = fields.object("noise_reduction")? {
        new.noise_reduction = Some(match noise.need_text("type")? {
            "near_field" => "near_field",
            "far_field" => "far_field",
            other => {
                let known = "'near_field', 'far_field'";
                return Err(Wrong::value(noise.path("type"), other, known));
            }
        });
    }
    if fields.is_null("turn_detection") {
        new.turns = None;
    } else if let Some(turns) = fields.object("turn_detection")? {
        new.turns = Some(Turns::parse(&turns, &base_turns(defaults))?);
    }
    Ok(())
}

/// What a `turn_detection` object does not say is as the agent's profile has it.
fn base_turns(defaults: &Defaults) -> ServerTurns {
    match defaults.turn_detection {
        TurnDetection::Manual => SERVER_TURNS,
        TurnDetection::Server(server) => server,
    }
}

fn parse_transcription(fields: &Fields<'_>, defaults: &Defaults) -> Result<Transcription, Wrong> {
    fields.only(&["model", "language", "prompt", "delay", "keywords", "languages"])?;
    Ok(Transcription {
        model: fields.text("model")?.unwrap_or(&defaults.transcription_model).to_owned(),
        language: fields.text("language")?.map(str::to_owned),
        prompt: fields.text("prompt")?.map(str::to_owned),
    })
}

fn update_output(new: &mut Session, fields: &Fields<'_>, past: Past) -> Result<(), Wrong> {
    fields.only(&["format", "voice", "speed"])?;
    if let Some(format) = fields.object("format")? {
        new.output_format = Format::parse(&format)?;
    }
    if let Some(voice) = parse_voice(fields)?
        && voice != new.voice
    {
        if past.spoken {
            let message = "Cannot update a conversation's voice if assistant audio is present.";
            return Err(Wrong::at("cannot_update_voice", fields.path("voice"), message));
        }
        new.voice = voice.to_owned();
        new.voice_chosen = true;
    }
    if let Some(speed) = fields.number("speed", 0.25, 1.5)? {
        new.speed = speed as f32;
    }
    Ok(())
}

/// What is accepted and shown without any effect; each must have a type that the protocol knows.
fn update_ignored(new: &mut Session, fields: &Fields<'_>) -> Result<(), Wrong> {
    let take = |slot: &mut Value, key: &str, wanted: &str, fits: fn(&Value) -> bool| match fields
        .get(key)
    {
        None if fields.is_null(key) => {
            *slot = Value::Null;
            Ok(())
        }
        None => Ok(()),
        Some(value) if fits(value) => {
            *slot = value.clone();
            Ok(())
        }
        Some(value) => Err(Wrong::type_of(fields.path(key), wanted, value)),
    };
    let word_or_object = |value: &Value| value.is_string() || value.is_object();
    take(&mut new.tracing, "tracing", "\"auto\" or an object", word_or_object)?;
    take(&mut new.prompt, "prompt", "an object", Value::is_object)?;
    take(&mut new.include, "include", "an array", Value::is_array)?;
    take(&mut new.reasoning, "reasoning", "an object", Value::is_object)?;
    if !fields.is_null("truncation") {
        take(&mut new.truncation, "truncation", "a string or an object", word_or_object)?;
    }
    if let Some(parallel) = fields.flag("parallel_tool_calls")? {
        new.parallel_tool_calls = Some(parallel);
    }
    Ok(())
}
