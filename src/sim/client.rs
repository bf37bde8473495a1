//! What a scripted protocol client does and sees: its requests as events, its settings, its
//! requests' lines.

use std::time::Duration;

use super::script::{Script, Session, What};
use super::workers::Workers;
use super::world::{RATE_HZ, World};
use crate::call::Event;
use crate::dialogue::{Item, ItemBody, ItemStatus, Message, Role, ToolChoice, ToolRuns, ToolSpec};
use crate::id::{ItemId, ToolId};
use crate::leg::{FromCaller, Modality, Place, ResponseRequest, Settings, TurnDetection};
use crate::time::ms;

impl World {
    /// A deed that is a request or an act of somebody other than the speaking caller.
    pub(super) fn of_client(&mut self, what: What) -> Option<Event> {
        let tag = None;
        let said = match what {
            What::Says { .. } | What::Noise { .. } | What::Plays { .. } => return None,
            What::Drains => return Some(Event::Drain),
            What::Commits => {
                let at = Duration::from_micros(self.now.as_micros());
                let buffered = at.saturating_sub(self.committed);
                self.committed = at;
                return Some(Event::Commit { buffered, at, tag });
            }
            What::HangsUp => FromCaller::Gone { how: "closed" },
            What::Drops { silent_for } => FromCaller::Lost { how: "timeout", silent_for },
            What::Returns => FromCaller::Back,
            What::Presses(key) => FromCaller::Dtmf(key),
            What::Cancels => FromCaller::Cancel { response: None, tag },
            What::Responds { beside } => {
                let request = ResponseRequest { out_of_band: beside, ..Default::default() };
                FromCaller::Respond { request: Box::new(request), tag }
            }
            What::Writes(text) => {
                let item = self.client_item(ItemBody::Text { role: Role::User, text });
                FromCaller::AddItem { item, after: Place::End, tag }
            }
            What::Outputs(output) => {
                let call_id = self.function.clone().unwrap_or_default();
                let item = self.client_item(ItemBody::FunctionOutput { call_id, output });
                FromCaller::AddItem { item, after: Place::End, tag }
            }
            What::Truncates(played) => {
                let item = self.sounding.clone().unwrap_or_else(|| ItemId::new("none"));
                FromCaller::Truncate { item, played, tag }
            }
            What::Clears => FromCaller::ClearAudio,
            What::Configures(session) => {
                let mut settings = self.call.settings().clone();
                apply(&mut settings, &session);
                FromCaller::Configure(Box::new(settings))
            }
        };
        Some(Event::Caller(said))
    }

    fn client_item(&mut self, body: ItemBody) -> Item {
        self.items += 1;
        let id = ItemId::new(&format!("client_{}", self.items));
        Item { id, body, status: ItemStatus::Completed }
    }
}

/// A session as it begins; the client takes its own turns.
pub(super) fn settings(script: &Script, tools: Vec<ToolSpec>) -> Settings {
    Settings {
        instructions: script.config.default_agent().instructions.fill(|_| None),
        tools,
        tool_choice: ToolChoice::Auto,
        max_tokens: None,
        modality: Modality::Audio,
        voice: None,
        speed: 1.0,
        out_rate_hz: RATE_HZ,
        stops_at_pause: false,
        turn_detection: TurnDetection::Manual,
        transcribe: true,
        transcription_only: false,
        extra_events: true,
    }
}

/// Brings what a script says of the session into its settings.
pub(super) fn apply(settings: &mut Settings, session: &Session) {
    if session.manual == Some(true) {
        settings.turn_detection = TurnDetection::Manual;
    }
    if let TurnDetection::Server(turns) = &mut settings.turn_detection {
        turns.interrupt_response = session.interrupt_response.unwrap_or(turns.interrupt_response);
        turns.create_response = session.create_response.unwrap_or(turns.create_response);
        turns.idle = session.idle_ms.map(ms).or(turns.idle);
    }
    match session.text {
        Some(true) => settings.modality = Modality::Text,
        Some(false) => settings.modality = Modality::Audio,
        None => {}
    }
    let named = session.client_tools.iter().map(|name| ToolSpec {
        name: name.clone(),
        description: String::new(),
        parameters: serde_json::json!({"type": "object"}),
        runs: ToolRuns::AtClient,
    });
    settings.tools.extend(named);
}

/// The scripted tools, offered to the model.
pub(super) fn specs(script: &Script, workers: &Workers) -> Vec<ToolSpec> {
    let names: Vec<&String> = script.config.tools.keys().collect();
    let tools = workers.tools().iter();
    tools
        .map(|(at, tool)| ToolSpec {
            name: names[usize::from(*at)].clone(),
            description: tool.description().to_owned(),
            parameters: tool.parameters().clone(),
            runs: ToolRuns::Here { tool: ToolId(*at), effect: tool.effect() },
        })
        .collect()
}

/// A message of a request as expectations write it.
pub(crate) fn line_of(message: &Message) -> String {
    match message {
        Message::Said { role: Role::System, text } => format!("system: {text}"),
        Message::Said { role: Role::User, text } => format!("user: {text}"),
        Message::Said { role: Role::Assistant, text } => format!("agent: {text}"),
        Message::Called(call) => format!("called {}", call.name),
        Message::Returned { output, .. } => format!("returned {output}"),
    }
}
