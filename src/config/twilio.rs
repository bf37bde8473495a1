//! `[twilio]`: calls that a telephone provider brings as a stream of media.

use std::time::Duration;

use url::Url;

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
    pub(super) fn read(reader: &mut Reader<'_>, public_url: Option<&Url>) -> Twilio {
        let said = |text: String| Some(text).filter(|text| !text.is_empty());
        let auth_token_env = said(reader.text("twilio.auth_token_env", ""));
        if auth_token_env.is_some() && public_url.is_none() {
            let problem = "a signature is one of the address that was called, which nobody knows";
            let right = "say in public.url what the outside world calls this server";
            reader.refuse("twilio.auth_token_env", problem, right);
        }
        Twilio {
            auth_token_env,
            tenant: said(reader.text("twilio.tenant", "")),
            stream_within: reader.ms("twilio.stream_within_ms", 15_000, 1_000..=60_000),
        }
    }
}
