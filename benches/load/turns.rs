//! What a push-to-talk client sends beside its sound.

/// Turn taking by the client.
pub const MANUAL: &str = concat!(
    r#"{"type":"session.update","session":{"type":"realtime","#,
    r#""audio":{"input":{"turn_detection":null}}}}"#
);
/// What was heard before is no part of the turn.
pub const BEGINS: &str = r#"{"type":"input_audio_buffer.clear"}"#;
pub const OVER: [&str; 2] =
    [r#"{"type":"input_audio_buffer.commit"}"#, r#"{"type":"response.create"}"#];
