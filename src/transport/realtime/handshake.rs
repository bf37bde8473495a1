//! What comes before a session: the subprotocol, whose key it is, and the answer to a wrong one.

/// The one subprotocol that is ever chosen.
pub const SUBPROTOCOL: &str = "realtime";

/// Browsers cannot set headers, so they put their key behind this word among the subprotocols.
const KEY_SUBPROTOCOL: &str = "openai-insecure-api-key.";

/// The names in the `Sec-WebSocket-Protocol` headers of a request, of which there may be several.
pub fn offered<'a>(headers: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    headers
        .into_iter()
        .flat_map(|header| header.split(','))
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .collect()
}

/// The subprotocol to answer with: `realtime` where it was offered, none otherwise. (A browser that
/// offered only others ends the connection by itself, as the standard wants.)
pub fn select_subprotocol(offered: &[&str]) -> Option<&'static str> {
    offered.contains(&SUBPROTOCOL).then_some(SUBPROTOCOL)
}

/// The key that a client shows: in its `Authorization` header, else among its subprotocols.
pub fn api_key<'a>(authorization: Option<&'a str>, offered: &[&'a str]) -> Option<&'a str> {
    let bearer = authorization.and_then(|header| {
        let (scheme, key) = header.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
    });
    bearer
        .or_else(|| offered.iter().find_map(|name| name.strip_prefix(KEY_SUBPROTOCOL)))
        .filter(|key| !key.is_empty())
}

/// The body of a 401: before the upgrade, as JSON. It never repeats the key.
pub fn unauthorized_body(key_was_shown: bool) -> serde_json::Value {
    let message = if key_was_shown {
        "Incorrect API key provided. Use one of the keys in the server's keys file, or an \
         ephemeral key that has not expired."
    } else {
        "You didn't provide an API key. Send it as 'Authorization: Bearer KEY', or from a browser \
         as the subprotocol 'openai-insecure-api-key.KEY'."
    };
    error_body("invalid_request_error", "invalid_api_key", message, None)
}

/// The body of any HTTP error of this protocol.
pub fn error_body(
    class: &str,
    code: &str,
    message: &str,
    param: Option<&str>,
) -> serde_json::Value {
    serde_json::json!({"error": {"message": message, "type": class, "param": param, "code": code}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_realtime_only_when_it_was_offered() {
        assert_eq!(select_subprotocol(&offered([])), None);
        assert_eq!(select_subprotocol(&offered(["chat"])), None);
        let browser = offered(["realtime, openai-insecure-api-key.ek_1", "openai-agents-sdk.0.20"]);
        assert_eq!(browser.len(), 3);
        assert_eq!(select_subprotocol(&browser), Some("realtime"));
    }

    #[test]
    fn finds_the_key_in_the_header_or_among_the_subprotocols() {
        let browser = offered(["realtime,openai-insecure-api-key.ek_1"]);
        assert_eq!(api_key(Some("Bearer sk-2"), &browser), Some("sk-2"));
        assert_eq!(api_key(Some("bearer  sk-2 "), &[]), Some("sk-2"));
        assert_eq!(api_key(Some("Basic abc"), &browser), Some("ek_1"));
        assert_eq!(api_key(None, &browser), Some("ek_1"));
        assert_eq!(api_key(Some("Bearer "), &offered(["openai-insecure-api-key."])), None);
        assert_eq!(api_key(None, &[]), None);
    }

    #[test]
    fn a_refusal_has_the_protocols_shape() {
        for shown in [true, false] {
            let body = unauthorized_body(shown);
            assert_eq!(body["error"]["code"], "invalid_api_key");
            assert_eq!(body["error"]["type"], "invalid_request_error");
            assert!(body["error"]["param"].is_null());
        }
    }
}
