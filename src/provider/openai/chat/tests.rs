//! What the chat protocol makes of requests and streams.

use super::*;
use crate::dialogue::{ToolRuns, ToolSpec};

fn said(role: Role, text: &str) -> Message {
    Message::Said { role, text: text.into() }
}

fn called(id: &str, name: &str) -> Message {
    Message::Called(ToolCall { call_id: id.into(), name: name.into(), arguments: "{}".into() })
}

fn returned(id: &str, output: &str) -> Message {
    Message::Returned { call_id: id.into(), output: output.into() }
}

fn conclude(events: &[&str]) -> Result<Vec<ModelSignal>, Fault> {
    let mut stream = ChatStream::default();
    let mut signals = Vec::new();
    for event in events {
        signals.extend(stream.event(event)?.map(ModelSignal::Text));
    }
    signals.extend(stream.conclude()?);
    Ok(signals)
}

fn call(id: &str, name: &str, arguments: &str) -> ModelSignal {
    ModelSignal::ToolCall(ToolCall {
        call_id: id.into(),
        name: name.into(),
        arguments: arguments.into(),
    })
}

fn finished(finish: Finish) -> ModelSignal {
    ModelSignal::Finished { finish, usage: Usage::default() }
}

#[test]
fn calls_of_one_answer_are_one_message_and_results_follow_at_once() {
    let request = ModelRequest {
        instructions: "Be brief.".into(),
        history: vec![
            said(Role::User, "weather?"),
            said(Role::Assistant, "One moment."),
            called("a", "x"),
            called("b", "y"),
            said(Role::User, "hurry"),
            returned("b", "2"),
            returned("gone", "3"),
        ],
        ..ModelRequest::default()
    };
    let body = chat_body(&request, "m", "developer", "max_tokens");
    let messages = body["messages"].as_array().unwrap();
    let shape: Vec<String> = messages
        .iter()
        .map(|m| {
            let calls = m["tool_calls"].as_array().map_or(0, Vec::len);
            let content = m["content"].as_str().unwrap_or("");
            format!("{}:{calls}:{content}", m["role"].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        shape,
        [
            "developer:0:Be brief.",
            "user:0:weather?",
            "assistant:2:One moment.",
            "tool:0:{\"status\":\"no result is known\"}",
            "tool:0:2",
            "user:0:hurry",
            "developer:0:Result of an earlier tool call: 3",
        ]
    );
    assert!(!body.contains_key("tools"));
}

#[test]
fn tools_and_limits_are_passed_on() {
    let request = ModelRequest {
        tools: vec![ToolSpec {
            name: "x".into(),
            description: "does x".into(),
            parameters: json!({"type": "object"}),
            runs: ToolRuns::AtClient,
        }],
        tool_choice: ToolChoice::Named("x".into()),
        max_tokens: Some(7),
        ..ModelRequest::default()
    };
    let body = chat_body(&request, "m", "system", "max_completion_tokens");
    assert_eq!(body["max_completion_tokens"], 7);
    assert_eq!(body["tools"][0]["function"]["parameters"]["type"], "object");
    assert_eq!(body["tool_choice"]["function"]["name"], "x");
    assert_eq!(body["stream_options"]["include_usage"], true);
}

#[test]
fn words_and_usage_come_through() {
    let signals = conclude(&[
        r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"Hel"}}]}"#,
        r#"{"choices":[{"index":1,"delta":{"content":"other"}}]}"#,
        r#"{"choices":[{"delta":{"content":"lo"},"finish_reason":null}],"usage":null}"#,
        r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}"#,
        "[DONE]",
        r#"{"choices":[{"delta":{"content":"late"}}]}"#,
    ])
    .unwrap();
    let usage = Usage { input_tokens: 9, output_tokens: 2 };
    assert_eq!(
        signals,
        [
            ModelSignal::Text("Hel".into()),
            ModelSignal::Text("lo".into()),
            ModelSignal::Finished { finish: Finish::Stop, usage },
        ]
    );
}

#[test]
fn parallel_tool_calls_are_assembled_from_their_deltas() {
    let signals = conclude(&[
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":""}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"y","arguments":"{\"q\":"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"p\":1}"}},{"index":1,"function":{"arguments":"2}"}}]}}]}"#,
        r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
        "[DONE]",
    ])
    .unwrap();
    let expected =
        [call("a", "x", "{\"p\":1}"), call("b", "y", "{\"q\":2}"), finished(Finish::ToolCalls)];
    assert_eq!(signals, expected);
}

#[test]
fn missing_ids_and_indexes_are_made_up() {
    let signals = conclude(&[
        r#"{"choices":[{"delta":{"tool_calls":[{"function":{"name":"x"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"function":{"name":"x","arguments":"{}"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"id":"b","function":{"name":"y"}}]}}]}"#,
        r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
    ])
    .unwrap();
    let expected = [call("call_1", "x", "{}"), call("b", "y", "{}"), finished(Finish::ToolCalls)];
    assert_eq!(signals, expected);
}

#[test]
fn a_call_cut_off_at_the_token_limit_is_no_call() {
    let signals = conclude(&[
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"{\"p\""}}]}}]}"#,
        r#"{"choices":[{"delta":{},"finish_reason":"length"}]}"#,
    ]);
    assert_eq!(signals, Ok(vec![finished(Finish::Length)]));
}

#[test]
fn what_is_no_answer_is_a_fault() {
    let label = |events: &[&str]| conclude(events).unwrap_err().label();
    assert_eq!(label(&["[DONE]"]), "empty");
    assert_eq!(label(&[r#"{"choices":[{"delta":{"content":"Hel"}}]}"#]), "garbled");
    assert_eq!(label(&[r#"{"choices":[{"delta":{"con"#]), "garbled");
    assert_eq!(label(&[r#"{"hello":1}"#]), "garbled");
    assert_eq!(label(&["<html>"]), "garbled");
    let busy = conclude(&[r#"{"error":{"type":"rate_limit_exceeded","message":"no"}}"#]);
    assert!(busy.unwrap_err().is_overload());
    let nameless = r#"{"choices":[{"delta":{"tool_calls":[{"index":0}]},"finish_reason":"stop"}]}"#;
    assert_eq!(label(&[nameless]), "garbled");
}
