//! `response.create`: what differs from the session for one answer.

use serde_json::Value;

use super::fields::Fields;
use super::format::Format;
use super::items::parse_input;
use super::tools::{parse_choice, parse_tools};
use super::update::{parse_max_tokens, parse_modalities, parse_voice};
use super::wrong::Wrong;
use crate::leg::ResponseRequest;

/// Reads the `response` object; `output_format` is the session's. Its `tools` are exactly those of
/// this answer: the agent's own are not added to them, and a client runs all of them.
pub(super) fn parse_request(
    fields: &Fields<'_>,
    output_format: Format,
) -> Result<ResponseRequest, Wrong> {
    fields.only(&[
        "conversation",
        "input",
        "instructions",
        "output_modalities",
        "audio",
        "tools",
        "tool_choice",
        "max_output_tokens",
        "metadata",
        "prompt",
        "reasoning",
        "parallel_tool_calls",
    ])?;
    let out_of_band = match fields.text("conversation")? {
        None | Some("auto") => false,
        Some("none") => true,
        Some(other) => {
            return Err(Wrong::value(fields.path("conversation"), other, "'auto', 'none'"));
        }
    };
    let input =
        fields.list("input")?.map(|list| parse_input(&list, fields.strict())).transpose()?;
    let metadata = match fields.get("metadata") {
        None => None,
        Some(object @ Value::Object(_)) => Some(object.clone()),
        Some(other) => return Err(Wrong::type_of(fields.path("metadata"), "an object", other)),
    };
    let voice = match fields.object("audio")? {
        None => None,
        Some(audio) => parse_output(&audio, output_format)?,
    };
    Ok(ResponseRequest {
        out_of_band,
        input,
        instructions: fields.text("instructions")?.map(str::to_owned),
        modality: parse_modalities(fields)?,
        tools: parse_tools(fields)?,
        tool_choice: parse_choice(fields)?,
        max_tokens: parse_max_tokens(fields)?,
        voice,
        metadata,
    })
}

/// The voice of `audio.output`. Another format than the session's cannot be had for one answer.
fn parse_output(audio: &Fields<'_>, session: Format) -> Result<Option<String>, Wrong> {
    audio.only(&["output"])?;
    let Some(output) = audio.object("output")? else { return Ok(None) };
    output.only(&["format", "voice"])?;
    if let Some(format) = output.object("format")?
        && Format::parse(&format)? != session
    {
        let path = output.path("format");
        let message = format!("'{path}' must be the session's; change it with session.update.");
        return Err(Wrong::at("invalid_value", path, message));
    }
    Ok(parse_voice(&output)?.map(str::to_owned))
}
