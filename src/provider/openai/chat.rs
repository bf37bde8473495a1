//! Chat completions: our request as their JSON, their stream as our signals.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::dialogue::{Finish, Message, ModelRequest, Role, ToolCall, ToolChoice, Usage};
use crate::fault::Fault;
use crate::provider::llm::ModelSignal;

/// Most tool calls of one answer, and most bytes of all their arguments.
const CALLS_MAX: usize = 64;
const ARGUMENTS_MAX: usize = 256 * 1024;

/// The body of a streaming request.
pub fn chat_body(
    request: &ModelRequest,
    model: &str,
    system_role: &str,
    token_limit_key: &str,
) -> serde_json::Map<String, Value> {
    let mut body = serde_json::Map::new();
    body.insert("model".into(), model.into());
    body.insert("messages".into(), messages(request, system_role).into());
    body.insert("stream".into(), true.into());
    body.insert("stream_options".into(), json!({"include_usage": true}));
    if let Some(limit) = request.max_tokens {
        body.insert(token_limit_key.into(), limit.into());
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({"type": "function", "function": {
                "name": tool.name, "description": tool.description, "parameters": tool.parameters,
            }})
        });
        body.insert("tools".into(), tools.collect());
        let choice = match &request.tool_choice {
            ToolChoice::Auto => json!("auto"),
            ToolChoice::None => json!("none"),
            ToolChoice::Required => json!("required"),
            ToolChoice::Named(name) => json!({"type": "function", "function": {"name": name}}),
        };
        body.insert("tool_choice".into(), choice);
    }
    body
}

/// The conversation as this protocol wants it: calls of one answer in one message, each followed at
/// once by its result. A call without a result gets the truth, because the protocol demands an
/// answer.
fn messages(request: &ModelRequest, system_role: &str) -> Vec<Value> {
    let mut results: BTreeMap<&str, &str> = BTreeMap::new();
    let mut called: Vec<&str> = Vec::new();
    for message in &request.history {
        match message {
            Message::Called(call) => called.push(&call.call_id),
            Message::Returned { call_id, output } => {
                results.entry(call_id).or_insert(output);
            }
            Message::Said { .. } => {}
        }
    }
    let mut messages = Vec::new();
    if !request.instructions.is_empty() {
        messages.push(json!({"role": system_role, "content": request.instructions}));
    }
    let mut at = 0;
    while let Some(message) = request.history.get(at) {
        at += 1;
        match message {
            Message::Said { role, text } => {
                let role = match role {
                    Role::System => system_role,
                    Role::User => "user",
                    Role::Assistant => "assistant",
                };
                messages.push(json!({"role": role, "content": text}));
            }
            Message::Called(first) => {
                let mut calls = vec![first];
                while let Some(Message::Called(next)) = request.history.get(at) {
                    calls.push(next);
                    at += 1;
                }
                push_calls(&mut messages, &calls, &results);
            }
            Message::Returned { call_id, output } => {
                // Already told behind its call, unless the call itself was cut from the history.
                if !called.contains(&call_id.as_str()) {
                    let text = format!("Result of an earlier tool call: {output}");
                    messages.push(json!({"role": system_role, "content": text}));
                }
            }
        }
    }
    messages
}

fn push_calls(messages: &mut Vec<Value>, calls: &[&ToolCall], results: &BTreeMap<&str, &str>) {
    let tool_calls: Vec<Value> = calls
        .iter()
        .map(|call| {
            json!({"id": call.call_id, "type": "function",
                "function": {"name": call.name, "arguments": call.arguments}})
        })
        .collect();
    match messages.last_mut() {
        // What was said before the calls belongs to the same answer.
        Some(last) if last["role"] == "assistant" && last.get("tool_calls").is_none() => {
            last["tool_calls"] = tool_calls.into();
        }
        _ => messages.push(json!({"role": "assistant", "content": null, "tool_calls": tool_calls})),
    }
    for call in calls {
        let output = results.get(call.call_id.as_str()).copied();
        let output = output.unwrap_or("{\"status\":\"no result is known\"}");
        messages.push(json!({"role": "tool", "tool_call_id": call.call_id, "content": output}));
    }
}

#[derive(Deserialize)]
struct Chunk {
    choices: Option<Vec<Choice>>,
    usage: Option<WireUsage>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: u32,
    delta: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<String>,
    refusal: Option<String>,
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Deserialize)]
struct CallDelta {
    index: Option<u32>,
    id: Option<String>,
    function: Option<FunctionDelta>,
}

#[derive(Deserialize)]
struct FunctionDelta {
    name: Option<String>,
    arguments: Option<String>,
}

#[derive(Deserialize)]
struct WireUsage {
    #[serde(default)]
    prompt_tokens: u32,
    #[serde(default)]
    completion_tokens: u32,
}

/// A streamed answer as far as it has come.
#[derive(Debug, Default)]
pub struct ChatStream {
    calls: BTreeMap<u32, ToolCall>,
    arguments_bytes: usize,
    earlier_calls: usize,
    said: bool,
    finish: Option<Finish>,
    usage: Usage,
    done: bool,
}

impl ChatStream {
    /// An answer to this request.
    pub fn to(request: &ModelRequest) -> ChatStream {
        let is_call = |m: &&Message| matches!(m, Message::Called(_));
        let earlier_calls = request.history.iter().filter(is_call).count();
        ChatStream { earlier_calls, ..ChatStream::default() }
    }

    /// Takes the data of one event; gives the words in it.
    pub fn event(&mut self, data: &str) -> Result<Option<String>, Fault> {
        if self.done || data.is_empty() {
            return Ok(None);
        }
        if data.trim() == "[DONE]" {
            self.done = true;
            return Ok(None);
        }
        let garbled = |detail: String| Fault::Garbled { detail };
        let chunk: Chunk = serde_json::from_str(data)
            .map_err(|error| garbled(format!("an event is not what it should be: {error}")))?;
        if let Some(error) = chunk.error {
            return Err(error_fault(&error));
        }
        if chunk.choices.is_none() && chunk.usage.is_none() {
            return Err(garbled("an event has neither choices nor usage".into()));
        }
        if let Some(usage) = chunk.usage {
            self.usage =
                Usage { input_tokens: usage.prompt_tokens, output_tokens: usage.completion_tokens };
        }
        let mut words = String::new();
        for choice in chunk.choices.unwrap_or_default() {
            // One answer was asked for; a second one is not ours to mix in.
            if choice.index == 0 {
                self.choice(choice, &mut words)?;
            }
        }
        self.said |= !words.is_empty();
        Ok(Some(words).filter(|words| !words.is_empty()))
    }

    fn choice(&mut self, choice: Choice, words: &mut String) -> Result<(), Fault> {
        if let Some(delta) = choice.delta {
            words.extend(delta.content);
            words.extend(delta.refusal);
            for call in delta.tool_calls.unwrap_or_default() {
                self.call_delta(call)?;
            }
        }
        if let Some(reason) = choice.finish_reason {
            self.finish = Some(match reason.as_str() {
                "length" => Finish::Length,
                "content_filter" => Finish::ContentFilter,
                _ if !self.calls.is_empty() => Finish::ToolCalls,
                _ => Finish::Stop,
            });
        }
        Ok(())
    }

    fn call_delta(&mut self, delta: CallDelta) -> Result<(), Fault> {
        let last = self.calls.last_key_value().map(|(index, call)| (*index, call.call_id.clone()));
        let id = delta.id.filter(|id| !id.is_empty());
        let index = match (delta.index, last) {
            (Some(index), _) => index,
            (None, None) => 0,
            // Without an index a new id begins a new call.
            (None, Some((index, last_id))) => {
                index.saturating_add(u32::from(id.as_ref().is_some_and(|id| *id != last_id)))
            }
        };
        let made_up = self.earlier_calls + self.calls.len() + 1;
        let call = self.calls.entry(index).or_insert_with(|| ToolCall {
            call_id: id.clone().unwrap_or_else(|| format!("call_{made_up}")),
            name: String::new(),
            arguments: String::new(),
        });
        if let Some(function) = delta.function {
            // Some servers repeat the name in every delta.
            if let Some(name) = function.name.filter(|name| call.name != *name) {
                call.name.push_str(&name);
            }
            let arguments = function.arguments.unwrap_or_default();
            self.arguments_bytes += arguments.len();
            call.arguments.push_str(&arguments);
        }
        if self.calls.len() > CALLS_MAX || self.arguments_bytes > ARGUMENTS_MAX {
            let detail =
                format!("more than {CALLS_MAX} tool calls or {ARGUMENTS_MAX} bytes of them");
            return Err(Fault::Garbled { detail });
        }
        Ok(())
    }

    /// Something of use has come: words or the beginning of a tool call.
    pub fn is_useful(&self) -> bool {
        self.said || !self.calls.is_empty()
    }

    /// The answer's reason to end has come; usage and the end mark may follow.
    pub fn has_finished(&self) -> bool {
        self.finish.is_some() || self.done
    }

    /// The end mark has come.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// The stream is over: its tool calls and its end.
    pub fn conclude(self) -> Result<Vec<ModelSignal>, Fault> {
        let finish = match self.finish {
            Some(finish) => finish,
            None if self.done && !self.calls.is_empty() => Finish::ToolCalls,
            None if self.done => Finish::Stop,
            None => {
                let detail = "the stream ended before the answer did".to_owned();
                return Err(Fault::Garbled { detail });
            }
        };
        if !self.said && self.calls.is_empty() && finish == Finish::Stop {
            return Err(Fault::Empty);
        }
        let mut signals = Vec::new();
        for mut call in self.calls.into_values() {
            if call.name.is_empty() {
                return Err(Fault::Garbled { detail: "a tool call has no name".into() });
            }
            if call.arguments.trim().is_empty() {
                call.arguments = "{}".into();
            }
            // Cut off at the token limit, a call is no call.
            let is_whole = serde_json::from_str::<Value>(&call.arguments).is_ok();
            if finish != Finish::Length || is_whole {
                signals.push(ModelSignal::ToolCall(call));
            }
        }
        signals.push(ModelSignal::Finished { finish, usage: self.usage });
        Ok(signals)
    }
}

/// An error that comes inside a stream that began with 200.
fn error_fault(error: &Value) -> Fault {
    let number = error["code"].as_u64().or_else(|| error["status"].as_u64());
    let status = number.and_then(|n| u16::try_from(n).ok()).filter(|n| (400..600).contains(n));
    let kind = error["type"].as_str().or_else(|| error["code"].as_str()).unwrap_or_default();
    let guessed = if kind.contains("rate_limit") || kind.contains("insufficient_quota") {
        429
    } else if kind.contains("overloaded") {
        503
    } else if kind.contains("invalid_request") {
        400
    } else {
        500
    };
    Fault::Rejected { status: status.unwrap_or(guessed), retry_after_ms: None }
}

#[cfg(test)]
mod tests;
