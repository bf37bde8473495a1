//! A client's deeds as the events that ask for them.

use serde_json::{Value, json};

use super::super::call::wire;
use crate::sim::script::{Session, What};

/// What a deed needs to know of the session.
pub(super) struct Known<'a> {
    /// The item that sounded last.
    pub(super) sounding: Option<&'a str>,
    /// The function call that the client was asked to run last.
    pub(super) function: Option<&'a str>,
    /// What the script has said of the session so far.
    pub(super) session: &'a Session,
}

/// The event of a deed; `None` when it is no request.
pub(super) fn of_deed(what: &What, known: &Known<'_>) -> Option<String> {
    let event = match what {
        What::Cancels => json!({"type": "response.cancel"}),
        What::Responds { beside: false } => json!({"type": "response.create"}),
        What::Responds { beside: true } => {
            json!({"type": "response.create", "response": {"conversation": "none"}})
        }
        What::Writes(text) => {
            let [item, _] = wire::say(text);
            return Some(item);
        }
        What::Outputs(output) => json!({
            "type": "conversation.item.create",
            "item": {
                "type": "function_call_output",
                "call_id": known.function.unwrap_or("none"),
                "output": output,
            },
        }),
        What::Truncates(played) => {
            let played_ms = played.as_millis() as u64;
            return Some(wire::truncate(known.sounding.unwrap_or("none"), played_ms));
        }
        What::Commits => json!({"type": "input_audio_buffer.commit"}),
        What::Clears => json!({"type": "input_audio_buffer.clear"}),
        What::Configures(_) => return configure(known.session),
        What::Says { .. }
        | What::Noise { .. }
        | What::Plays { .. }
        | What::HangsUp
        | What::Drops { .. }
        | What::Returns
        | What::Presses(_)
        | What::Drains => {
            return None;
        }
    };
    Some(event.to_string())
}

/// `session.update` with what a script says of the session; `None` when it says nothing.
pub(super) fn configure(said: &Session) -> Option<String> {
    if *said == Session::default() {
        return None;
    }
    let mut session = json!({"type": "realtime"});
    let turns = [said.interrupt_response, said.create_response];
    if said.manual == Some(true) {
        session["audio"] = json!({"input": {"turn_detection": Value::Null}});
    } else if turns.iter().any(Option::is_some) || said.idle_ms.is_some() {
        // A `turn_detection` object replaces the old one as a whole.
        session["audio"] = json!({"input": {"turn_detection": {
            "type": "server_vad",
            "interrupt_response": said.interrupt_response.unwrap_or(true),
            "create_response": said.create_response.unwrap_or(true),
            "idle_timeout_ms": said.idle_ms,
        }}});
    }
    if let Some(text) = said.text {
        session["output_modalities"] = json!([if text { "text" } else { "audio" }]);
    }
    if !said.client_tools.is_empty() {
        let tool = |name: &String| json!({"type": "function", "name": name});
        session["tools"] = said.client_tools.iter().map(tool).collect();
    }
    Some(json!({"type": "session.update", "session": session}).to_string())
}

/// What is said of the session from now on: the new where it says something.
pub(super) fn changed(old: &Session, new: &Session) -> Session {
    let both = old.client_tools.iter().chain(&new.client_tools);
    Session {
        number: new.number.clone().or(old.number.clone()),
        greets: new.greets.or(old.greets),
        manual: new.manual.or(old.manual),
        interrupt_response: new.interrupt_response.or(old.interrupt_response),
        create_response: new.create_response.or(old.create_response),
        idle_ms: new.idle_ms.or(old.idle_ms),
        text: new.text.or(old.text),
        client_tools: both.cloned().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_session_keeps_what_was_said_before() {
        let old = Session { create_response: Some(false), ..Session::default() };
        let new = Session { idle_ms: Some(900), text: Some(true), ..Session::default() };
        let event: Value = serde_json::from_str(&configure(&changed(&old, &new)).unwrap()).unwrap();
        let turns = &event["session"]["audio"]["input"]["turn_detection"];
        assert_eq!(turns["create_response"], false);
        assert_eq!(turns["interrupt_response"], true);
        assert_eq!(turns["idle_timeout_ms"], 900);
        assert_eq!(event["session"]["output_modalities"], json!(["text"]));
        assert_eq!(configure(&Session::default()), None);
        let manual = configure(&Session { manual: Some(true), ..old }).unwrap();
        assert!(manual.contains("\"turn_detection\":null"), "{manual}");
    }
}
