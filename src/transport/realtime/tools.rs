//! Function tools and the choice among them, as clients write and read them.

use serde::Serialize;
use serde_json::{Value, json};

use super::fields::Fields;
use super::wrong::Wrong;
use crate::dialogue::{ToolChoice, ToolRuns, ToolSpec};

/// Reads a `tools` array.
pub(super) fn parse_tools(fields: &Fields<'_>) -> Result<Option<Vec<ToolSpec>>, Wrong> {
    let Some(list) = fields.list("tools")? else { return Ok(None) };
    let mut tools: Vec<ToolSpec> = Vec::with_capacity(list.len());
    for (path, value) in list {
        let tool = parse_tool(&Fields::of(value, &path, fields.strict())?)?;
        if tools.iter().any(|other| other.name == tool.name) {
            let message = format!("There are two tools named '{}'; names must differ.", tool.name);
            return Err(Wrong::at("invalid_value", format!("{path}.name"), message));
        }
        tools.push(tool);
    }
    Ok(Some(tools))
}

fn parse_tool(fields: &Fields<'_>) -> Result<ToolSpec, Wrong> {
    match fields.text("type")?.unwrap_or("function") {
        "function" => {}
        "mcp" => {
            let message = "This server runs no MCP tools for clients; declare functions instead.";
            return Err(Wrong::at("invalid_value", fields.path("type"), message));
        }
        other => return Err(Wrong::value(fields.path("type"), other, "'function'")),
    }
    fields.only(&["type", "name", "description", "parameters", "strict"])?;
    let parameters = match fields.get("parameters") {
        None => json!({"type": "object", "properties": {}}),
        Some(schema @ Value::Object(_)) => schema.clone(),
        Some(other) => return Err(Wrong::type_of(fields.path("parameters"), "an object", other)),
    };
    Ok(ToolSpec {
        name: fields.need_text("name")?.to_owned(),
        description: fields.text("description")?.unwrap_or_default().to_owned(),
        parameters,
        runs: ToolRuns::AtClient,
    })
}

/// Reads a `tool_choice`.
pub(super) fn parse_choice(fields: &Fields<'_>) -> Result<Option<ToolChoice>, Wrong> {
    let key = "tool_choice";
    match fields.get(key) {
        None => Ok(None),
        Some(Value::String(word)) => match word.as_str() {
            "auto" => Ok(Some(ToolChoice::Auto)),
            "none" => Ok(Some(ToolChoice::None)),
            "required" => Ok(Some(ToolChoice::Required)),
            other => Err(Wrong::value(
                fields.path(key),
                other,
                "'auto', 'none', 'required', or an object that names a function",
            )),
        },
        Some(Value::Object(_)) => {
            let choice = fields.need_object(key)?;
            match choice.need_text("type")? {
                "function" => Ok(Some(ToolChoice::Named(choice.need_text("name")?.to_owned()))),
                other => Err(Wrong::value(choice.path("type"), other, "'function'")),
            }
        }
        Some(other) => Err(Wrong::type_of(fields.path(key), "a string or an object", other)),
    }
}

/// A tool as a session shows it.
#[derive(Serialize)]
pub(super) struct ToolObject<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

impl<'a> ToolObject<'a> {
    pub fn of(tool: &'a ToolSpec) -> Self {
        ToolObject {
            r#type: "function",
            name: &tool.name,
            description: &tool.description,
            parameters: &tool.parameters,
        }
    }
}

/// A choice as a session shows it.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum ChoiceObject<'a> {
    Word(&'static str),
    Function { r#type: &'static str, name: &'a str },
}

impl<'a> ChoiceObject<'a> {
    pub fn of(choice: &'a ToolChoice) -> Self {
        match choice {
            ToolChoice::Auto => ChoiceObject::Word("auto"),
            ToolChoice::None => ChoiceObject::Word("none"),
            ToolChoice::Required => ChoiceObject::Word("required"),
            ToolChoice::Named(name) => ChoiceObject::Function { r#type: "function", name },
        }
    }
}
