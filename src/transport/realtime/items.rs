//! Conversation items as clients write and read them.

use serde::Serialize;
use serde_json::Value;

use super::fields::Fields;
use super::wrong::Wrong;
use crate::dialogue::{Item, ItemBody, ItemStatus, Message, Role, ToolCall};

/// Longest name that a client may give to an item, in bytes.
const ID_MAX_BYTES: usize = 512;

/// What a client's `item` says, before it has a name.
#[derive(Debug)]
pub(super) struct WrittenItem {
    pub id: Option<String>,
    pub body: ItemBody,
    pub status: ItemStatus,
}

/// Reads an `item` object.
pub(super) fn parse_item(fields: &Fields<'_>) -> Result<WrittenItem, Wrong> {
    let body = match fields.need_text("type")? {
        "message" => parse_message(fields)?,
        "function_call" => {
            fields.only(&["id", "object", "type", "status", "name", "call_id", "arguments"])?;
            ItemBody::FunctionCall(ToolCall {
                call_id: fields.need_text("call_id")?.to_owned(),
                name: fields.need_text("name")?.to_owned(),
                arguments: fields.text("arguments")?.unwrap_or("{}").to_owned(),
            })
        }
        "function_call_output" => {
            fields.only(&["id", "object", "type", "status", "call_id", "output"])?;
            ItemBody::FunctionOutput {
                call_id: fields.need_text("call_id")?.to_owned(),
                output: fields
                    .text("output")?
                    .ok_or_else(|| Wrong::missing(fields.path("output")))?
                    .to_owned(),
            }
        }
        other => {
            let known = "'message', 'function_call', 'function_call_output'";
            return Err(Wrong::value(fields.path("type"), other, known));
        }
    };
    let status = match fields.text("status")? {
        Some("incomplete") => ItemStatus::Incomplete,
        // An item that a client writes is whole, whatever it was where the client had it from.
        None | Some("completed" | "in_progress") => ItemStatus::Completed,
        Some(other) => {
            let known = "'completed', 'incomplete', 'in_progress'";
            return Err(Wrong::value(fields.path("status"), other, known));
        }
    };
    Ok(WrittenItem { id: parse_id(fields, "id")?, body, status })
}

/// Reads an item's name where it may be left out; it is kept verbatim (1.2).
pub(super) fn parse_id(fields: &Fields<'_>, key: &str) -> Result<Option<String>, Wrong> {
    if fields.get(key).is_none() {
        return Ok(None);
    }
    let id = fields.need_text(key)?;
    if id.len() > ID_MAX_BYTES {
        let path = fields.path(key);
        let message = format!("'{path}' may have {ID_MAX_BYTES} bytes, but has {}.", id.len());
        return Err(Wrong::at("string_above_max_length", path, message));
    }
    Ok(Some(id.to_owned()))
}

fn parse_message(fields: &Fields<'_>) -> Result<ItemBody, Wrong> {
    fields.only(&["id", "object", "type", "status", "role", "content"])?;
    let role = match fields.need_text("role")? {
        "system" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        other => {
            let known = "'system', 'user', 'assistant'";
            return Err(Wrong::value(fields.path("role"), other, known));
        }
    };
    let content = fields.list("content")?.ok_or_else(|| Wrong::missing(fields.path("content")))?;
    let mut texts = Vec::with_capacity(content.len());
    let mut spoken = false;
    for (path, value) in &content {
        let part = Fields::of(value, path, fields.strict())?;
        let (text, is_speech) = parse_part(&part, role)?;
        texts.push(text);
        spoken |= is_speech;
    }
    let text = texts.join("\n");
    Ok(match (role, spoken) {
        (Role::User, true) => ItemBody::Speech { transcript: Some(text) },
        (Role::Assistant, true) => ItemBody::Spoken { transcript: text },
        (role, _) => ItemBody::Text { role, text },
    })
}

/// One content part: its words, and whether they are a transcript.
fn parse_part<'a>(part: &Fields<'a>, role: Role) -> Result<(&'a str, bool), Wrong> {
    let kind = part.need_text("type")?;
    match (role, kind) {
        (Role::System | Role::User, "input_text" | "text")
        | (Role::Assistant, "output_text" | "text" | "input_text") => {
            let text = part.text("text")?.ok_or_else(|| Wrong::missing(part.path("text")))?;
            Ok((text, false))
        }
        (Role::User, "input_audio") | (Role::Assistant, "output_audio" | "audio") => {
            let transcript = part.text("transcript")?.ok_or_else(|| {
                let message = "Sound in an item is taken by its transcript only, and this has \
                               none. Send sound with input_audio_buffer.append.";
                Wrong::at("missing_required_parameter", part.path("transcript"), message)
            })?;
            Ok((transcript, true))
        }
        (Role::User, "input_image") => {
            let message = "This server's models cannot see; send text or sound.";
            Err(Wrong::at("invalid_value", part.path("type"), message))
        }
        (_, other) => {
            let known = match role {
                Role::System => "'input_text'",
                Role::User => "'input_text', 'input_audio'",
                Role::Assistant => "'output_text', 'output_audio'",
            };
            Err(Wrong::value(part.path("type"), other, known))
        }
    }
}

/// The same as a model is shown it, for a response's own input.
pub(super) fn message_of(body: ItemBody) -> Message {
    match body {
        ItemBody::Text { role, text } => Message::Said { role, text },
        ItemBody::Speech { transcript } => {
            Message::Said { role: Role::User, text: transcript.unwrap_or_default() }
        }
        ItemBody::Spoken { transcript } => {
            Message::Said { role: Role::Assistant, text: transcript }
        }
        ItemBody::FunctionCall(call) => Message::Called(call),
        ItemBody::FunctionOutput { call_id, output } => Message::Returned { call_id, output },
    }
}

/// An item as a client is shown it. Sound is never in it.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum ItemObject<'a> {
    Message {
        id: &'a str,
        object: &'static str,
        r#type: &'static str,
        status: &'static str,
        role: &'static str,
        content: Vec<PartObject<'a>>,
    },
    FunctionCall {
        id: &'a str,
        object: &'static str,
        r#type: &'static str,
        status: &'static str,
        name: &'a str,
        call_id: &'a str,
        arguments: &'a str,
    },
    FunctionOutput {
        id: &'a str,
        object: &'static str,
        r#type: &'static str,
        status: &'static str,
        call_id: &'a str,
        output: &'a str,
    },
}

/// A content part of an item. A user's sound always has the key `transcript` (T5).
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum PartObject<'a> {
    Text { r#type: &'static str, text: &'a str },
    Sound { r#type: &'static str, transcript: Option<&'a str> },
}

const OBJECT: &str = "realtime.item";

impl<'a> ItemObject<'a> {
    pub fn of(item: &'a Item) -> Self {
        let (id, object, status) = (item.id.as_str(), OBJECT, status_word(item.status));
        let message = |role, part| ItemObject::Message {
            id,
            object,
            r#type: "message",
            status,
            role: role_word(role),
            content: vec![part],
        };
        match &item.body {
            ItemBody::Text { role: Role::Assistant, .. } | ItemBody::Spoken { .. }
                if item.status == ItemStatus::InProgress =>
            {
                ItemObject::begun(id)
            }
            ItemBody::Text { role, text } => {
                let kind = if *role == Role::Assistant { "output_text" } else { "input_text" };
                message(*role, PartObject::Text { r#type: kind, text })
            }
            ItemBody::Speech { transcript } => {
                let transcript = transcript.as_deref();
                message(Role::User, PartObject::Sound { r#type: "input_audio", transcript })
            }
            ItemBody::Spoken { transcript } => {
                let transcript = Some(transcript.as_str());
                message(Role::Assistant, PartObject::Sound { r#type: "output_audio", transcript })
            }
            ItemBody::FunctionCall(call) => ItemObject::function_call(id, status, call),
            ItemBody::FunctionOutput { call_id, output } => ItemObject::FunctionOutput {
                id,
                object,
                r#type: "function_call_output",
                status,
                call_id,
                output,
            },
        }
    }

    /// An agent's message of which nothing has been said yet.
    pub fn begun(id: &'a str) -> Self {
        ItemObject::Message {
            id,
            object: OBJECT,
            r#type: "message",
            status: "in_progress",
            role: "assistant",
            content: Vec::new(),
        }
    }

    /// A function call.
    pub fn function_call(id: &'a str, status: &'static str, call: &'a ToolCall) -> Self {
        ItemObject::FunctionCall {
            id,
            object: OBJECT,
            r#type: "function_call",
            status,
            name: &call.name,
            call_id: &call.call_id,
            // Before its arguments are through they are not shown in part.
            arguments: if status == "in_progress" { "" } else { &call.arguments },
        }
    }
}

fn role_word(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    }
}

/// The protocol's word for a status.
pub(super) fn status_word(status: ItemStatus) -> &'static str {
    match status {
        ItemStatus::InProgress => "in_progress",
        ItemStatus::Completed => "completed",
        ItemStatus::Incomplete => "incomplete",
    }
}

/// Reads the entries of a `response.create`'s own input.
pub(super) fn parse_input(
    list: &[(String, &Value)],
    strict: bool,
) -> Result<Vec<crate::leg::InputItem>, Wrong> {
    use crate::leg::InputItem;
    let mut input = Vec::with_capacity(list.len());
    for (path, value) in list {
        let fields = Fields::of(value, path, strict)?;
        input.push(if fields.text("type")? == Some("item_reference") {
            InputItem::Reference(crate::id::ItemId::new(fields.need_text("id")?))
        } else {
            InputItem::Inline(message_of(parse_item(&fields)?.body))
        });
    }
    Ok(input)
}
