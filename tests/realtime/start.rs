//! How a session begins: with the agent's profile, and with what an ephemeral key brings.

use floorkeeper::leg::{FromCaller, Modality, TurnDetection};
use floorkeeper::transport::realtime::preview_session;
use serde_json::{Value, json};

use crate::script::{Run, defaults};

/// The first events of a session, and the settings it begins with.
fn begin(session: Option<Value>) -> (Vec<Value>, floorkeeper::leg::Settings) {
    let mut defaults = defaults();
    defaults.session = session;
    let mut run = Run::begin(defaults);
    let events = std::iter::from_fn(|| run.out.pop_text());
    let events = events.map(|event| serde_json::from_str(&event).unwrap()).collect();
    let Some(FromCaller::Configure(settings)) = run.heard.pop() else { panic!("no settings") };
    assert_eq!(*settings, run.protocol.settings());
    (events, *settings)
}

#[test]
fn a_key_brings_its_session_and_the_preview_shows_the_same() {
    let wanted = json!({
        "type": "realtime",
        "instructions": "Speak like a pirate.",
        "output_modalities": ["text"],
        "audio": {"input": {"turn_detection": null}, "output": {"voice": "joe"}},
    });
    let (events, settings) = begin(Some(wanted.clone()));
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["session"], preview_session(&defaults(), &wanted).unwrap());
    assert_eq!(settings.instructions, "Speak like a pirate.");
    assert_eq!(settings.modality, Modality::Text);
    assert_eq!(settings.turn_detection, TurnDetection::Manual);
    assert_eq!(settings.voice.as_deref(), Some("joe"));
}

#[test]
fn a_session_that_does_not_fit_any_more_is_told_and_left_out() {
    let wanted = json!({"type": "realtime", "instructions": 7});
    let wrong = preview_session(&defaults(), &wanted).expect_err("instructions are text");
    assert_eq!(wrong.code, "invalid_type");
    assert_eq!(wrong.param.as_deref(), Some("session.instructions"));
    let (events, settings) = begin(Some(wanted));
    let (plain, plain_settings) = begin(None);
    assert_eq!(events[0]["session"], plain[0]["session"]);
    assert_eq!(settings, plain_settings);
    assert_eq!(events[1]["error"]["param"], "session.instructions");
}

#[test]
fn the_preview_wants_the_type_like_any_update() {
    let wrong = preview_session(&defaults(), &json!({})).expect_err("no type");
    assert_eq!(wrong.code, "missing_required_parameter");
    let transcription = preview_session(&defaults(), &json!({"type": "transcription"})).unwrap();
    assert_eq!(transcription["object"], "realtime.transcription_session");
}
