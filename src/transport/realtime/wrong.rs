//! What is wrong with a client's event: the protocol's own error, before it is an event.

use super::outbox::Outbox;

/// A request that changed nothing, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Wrong {
    /// Stable code of the protocol.
    pub code: &'static str,
    /// What was wrong and what would be right.
    pub message: String,
    /// The field, as a path, where there is one.
    pub param: Option<String>,
}

impl Wrong {
    /// A fault in this field.
    pub fn at(code: &'static str, param: impl Into<String>, message: impl Into<String>) -> Self {
        Wrong { code, message: message.into(), param: Some(param.into()) }
    }

    /// A fault of the whole event.
    pub fn whole(code: &'static str, message: impl Into<String>) -> Self {
        Wrong { code, message: message.into(), param: None }
    }

    /// A field that has to be there and is not.
    pub fn missing(param: impl Into<String>) -> Self {
        let param = param.into();
        let message = format!("Missing required parameter: '{param}'.");
        Wrong { code: "missing_required_parameter", message, param: Some(param) }
    }

    /// A field of the wrong JSON type.
    pub fn type_of(param: impl Into<String>, wanted: &str, got: &serde_json::Value) -> Self {
        let param = param.into();
        let got = kind_of(got);
        let message =
            format!("Invalid type for '{param}': expected {wanted}, but got {got} instead.");
        Wrong { code: "invalid_type", message, param: Some(param) }
    }

    /// A field with a value that is none of those which exist.
    pub fn value(param: impl Into<String>, got: &str, supported: &str) -> Self {
        let param = param.into();
        let shown: String = got.chars().take(64).collect();
        let message = format!("Invalid value: '{shown}'. Supported values are: {supported}.");
        Wrong { code: "invalid_value", message, param: Some(param) }
    }
}

fn kind_of(value: &serde_json::Value) -> &'static str {
    match value {
        serde_json::Value::Null => "null",
        serde_json::Value::Bool(_) => "a boolean",
        serde_json::Value::Number(_) => "a number",
        serde_json::Value::String(_) => "a string",
        serde_json::Value::Array(_) => "an array",
        serde_json::Value::Object(_) => "an object",
    }
}

/// The `error` object's `type` for a code (DESIGN section 3, HTTP mapping: 429 and 5xx).
pub(super) fn class_of(code: &str) -> &'static str {
    match code {
        "admission_capacity" | "admission_tenant_share" => "rate_limit_error",
        "admission_no_capacity" | "admission_queue_timeout" | "admission_drained" => "server_error",
        "draining" | "session_expired" | "internal_error" => "server_error",
        code if code.starts_with("provider_") => "server_error",
        _ => "invalid_request_error",
    }
}

/// The body of an `error` event and of `status_details.error`.
#[derive(serde::Serialize)]
pub(super) struct ErrorObject<'a> {
    pub r#type: &'a str,
    pub code: &'a str,
    pub message: &'a str,
    pub param: Option<&'a str>,
    pub event_id: Option<&'a str>,
}

/// Queues an `error` event.
pub(super) fn report(
    outbox: &mut Outbox,
    code: &str,
    message: &str,
    param: Option<&str>,
    tag: Option<&str>,
) {
    let error = ErrorObject { r#type: class_of(code), code, message, param, event_id: tag };
    outbox.event("error").field("error", &error).queue();
}

/// The `error` event for one who has no session; its id comes from `id_seed`.
pub fn error_event(id_seed: &str, wrong: &Wrong) -> String {
    let mut outbox = Outbox::new(id_seed);
    report(&mut outbox, wrong.code, &wrong.message, wrong.param.as_deref(), None);
    outbox.pop_text().unwrap_or_default()
}
