//! `[twilio]`: calls that a telephone provider brings as a stream of media.

use std::time::Duration;

use super::reader::Reader;

/// `[twilio]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Twilio {
    /// The environment variable with the account's token, which requests are signed with; `None`
    /// looks at no signature.
    pub auth_token_env: Option<String>,
    /// Who pays for what is signed; `None` is no tenant.
    pub tenant: Option<String>,
    /// So long the line of an answered webhook is kept for its stream.
    pub stream_within: Duration,
}

impl Twilio {
    pub(super) fn read(reader: &mut Reader<'_>) -> Twilio {
        let said = |text: String| Some(text).filter(|text| !text.is_empty());
        Twilio {
            auth_token_env: said(reader.text("twilio.auth_token_env", "")),
            tenant: said(reader.text("twilio.tenant", "")),
            stream_within: reader.ms("twilio.stream_within_ms", 15_000, 1_000..=60_000),
        }
    }
}
