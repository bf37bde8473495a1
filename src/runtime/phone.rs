//! What is the same for every caller at a telephone, whatever brings the call.

use super::service::Service;
use super::variables::Variables;
use crate::config::Agent;
use crate::dialogue::ToolChoice;
use crate::leg::{Modality, Settings};

/// The settings of a call that asks for none.
pub fn settings(
    service: &Service,
    agent: &Agent,
    known: &Variables,
    out_rate_hz: u32,
    stops_at_pause: bool,
) -> Settings {
    Settings {
        instructions: known.instructions(agent),
        tools: service.backends().map(|b| b.specs(&agent.tools)).unwrap_or_default(),
        tool_choice: ToolChoice::Auto,
        max_tokens: agent.limits.max_tokens,
        modality: Modality::Audio,
        voice: agent.voice.clone(),
        speed: 1.0,
        out_rate_hz,
        stops_at_pause,
        turn_detection: service.config.turn_detection(&service.abilities()),
        transcribe: false,
        transcription_only: false,
        extra_events: false,
    }
}
