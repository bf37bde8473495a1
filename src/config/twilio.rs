//! `[twilio]`: calls that a telephone provider brings as a stream of media, and its REST API.

use std::time::Duration;

use url::Url;

use super::promises::is_this_machine;
use super::reader::{Choice, Reader};

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
    /// How a caller for whom there is no line is refused.
    pub refuse: Refuse,
    /// Whose account the REST API is asked for; `None` does not ask it.
    pub account_sid: Option<String>,
    /// Where the REST API is.
    pub api_url: Url,
    /// Twilio says whether a person or a machine has answered; else we listen ourselves.
    pub machine_detection: bool,
}

/// How a caller for whom there is no line is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refuse {
    /// They hear why.
    Say,
    /// They hear a busy tone, and the call costs nobody anything.
    Reject,
}

impl Choice for Refuse {
    const ALL: &'static [(&'static str, Refuse)] =
        &[("say", Refuse::Say), ("reject", Refuse::Reject)];
}

impl Twilio {
    pub(super) fn read(reader: &mut Reader<'_>) -> Twilio {
        let said = |text: String| Some(text).filter(|text| !text.is_empty());
        Twilio {
            auth_token_env: said(reader.text("twilio.auth_token_env", "")),
            tenant: said(reader.text("twilio.tenant", "")),
            stream_within: reader.ms("twilio.stream_within_ms", 15_000, 1_000..=60_000),
            refuse: reader.choice("twilio.refuse", "say"),
            account_sid: account_sid(reader),
            api_url: api_url(reader),
            machine_detection: reader.flag("twilio.machine_detection", false),
        }
    }

    /// Whoever wants the REST API has to name an account, its token, and where we are found.
    pub(super) fn check_api(&self, reader: &mut Reader<'_>, wanted_by: &str, public: Option<&Url>) {
        let missing = |is_missing: bool, key: &str| is_missing.then(|| key.to_owned());
        let missing = [
            missing(self.account_sid.is_none(), "twilio.account_sid"),
            missing(self.auth_token_env.is_none(), "twilio.auth_token_env"),
            missing(public.is_none(), "public.url"),
        ];
        for key in missing.into_iter().flatten() {
            let problem = "Twilio's API is asked, and this is not said";
            let right = format!("say {key} as well, which {wanted_by} needs");
            reader.refuse(&key, problem, right);
        }
    }
}

/// It stands in paths.
fn account_sid(reader: &mut Reader<'_>) -> Option<String> {
    let text = reader.text("twilio.account_sid", "");
    if !text.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        let problem = format!("\"{text}\" is no account's name");
        reader.refuse("twilio.account_sid", problem, "write \"AC…\", as the console shows it");
    }
    (!text.is_empty()).then_some(text)
}

fn api_url(reader: &mut Reader<'_>) -> Url {
    const USUAL: &str = "https://api.twilio.com";
    let text = reader.text("twilio.api_url", USUAL);
    let url = private(&text);
    if url.is_none() {
        let problem = "this is no https address, and none of this machine";
        reader.refuse("twilio.api_url", problem, format!("write \"{USUAL}\""));
    }
    // The usual one is an address: held by the test that loads nothing.
    url.or_else(|| Url::parse(USUAL).ok()).unwrap_or_else(|| unreachable!("{USUAL}"))
}

/// An address that a password may be sent to.
pub(super) fn private(text: &str) -> Option<Url> {
    Url::parse(text).ok().filter(|url| {
        let here = url.host_str().is_some_and(is_this_machine);
        let secure = url.scheme() == "https" || (url.scheme() == "http" && here);
        let bare = url.username().is_empty() && url.password().is_none();
        secure && bare && url.query().is_none() && url.fragment().is_none()
    })
}
