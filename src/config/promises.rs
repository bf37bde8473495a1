//! `[callback]` and `[handoff]`: who is told of promises, and who keeps them.

use std::net::IpAddr;

use url::Url;

use super::reader::{Choice, Reader};

/// Somebody to be told of everything that happens to callbacks, or to handoffs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Webhook {
    /// Where; nowhere where none is written.
    pub url: Option<Url>,
    /// The environment variable with the secret that signs it; none signs nothing.
    pub secret_env: Option<String>,
}

/// Who is told of what.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Webhooks {
    /// Of callbacks.
    pub callback: Webhook,
    /// Of handoffs.
    pub handoff: Webhook,
}

/// Who dials callbacks, and how many at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialling {
    /// Who.
    pub by: DialledBy,
    /// What attempts of the stub come to.
    pub stub_outcome: Stubbed,
    /// How many at once.
    pub at_once: u32,
}

/// Who dials callbacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DialledBy {
    /// Nobody here: workers claim them over HTTP.
    Workers,
    /// Nobody at all, and every attempt comes to the same.
    Stub,
    /// This server, over SIP.
    Sip,
    /// This server, by Twilio's REST API.
    Twilio,
}

/// What an attempt of the stub comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stubbed {
    /// The caller is reached.
    Connected,
    /// Nobody answers.
    NoAnswer,
    /// The call cannot be placed.
    Failed,
    /// A machine answers.
    Voicemail,
}

impl Choice for Stubbed {
    const ALL: &'static [(&'static str, Stubbed)] = &[
        ("connected", Stubbed::Connected),
        ("no_answer", Stubbed::NoAnswer),
        ("failed", Stubbed::Failed),
        ("voicemail", Stubbed::Voicemail),
    ];
}

impl Dialling {
    pub(super) fn read(reader: &mut Reader<'_>) -> Dialling {
        let who = reader.one_of("callback.dialler", ["none", "stub", "sip", "twilio"]);
        let stub_outcome = reader.choice("callback.stub_outcome", "connected");
        Dialling {
            stub_outcome,
            by: match who {
                "stub" => DialledBy::Stub,
                "sip" => DialledBy::Sip,
                "twilio" => DialledBy::Twilio,
                _ => DialledBy::Workers,
            },
            at_once: reader.number("callback.dials_max", 4, 1..=1_000, "a number of calls") as u32,
        }
    }
}

impl Webhooks {
    pub(super) fn read(reader: &mut Reader<'_>) -> Webhooks {
        Webhooks { callback: webhook(reader, "callback"), handoff: webhook(reader, "handoff") }
    }

    /// What is no error and still probably not meant.
    pub(super) fn warnings(&self) -> Vec<String> {
        let open = |(table, hook): (&str, &Webhook)| {
            let url = hook.url.as_ref().filter(|url| url.scheme() == "http")?;
            let here = url.host_str().is_some_and(is_this_machine);
            let problem = "whoever is in between reads callers' numbers";
            (!here).then(|| format!("{table}.webhook_url is http: {problem}"))
        };
        [("callback", &self.callback), ("handoff", &self.handoff)]
            .into_iter()
            .filter_map(open)
            .collect()
    }
}

pub(super) fn is_this_machine(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

fn webhook(reader: &mut Reader<'_>, table: &str) -> Webhook {
    let url_key = format!("{table}.webhook_url");
    let secret_key = format!("{table}.webhook_secret_env");
    let written = reader.text(&*url_key, "");
    let secret_env = Some(reader.text(&*secret_key, "")).filter(|name| !name.is_empty());
    let problem = match Url::parse(&written) {
        _ if written.is_empty() => return Webhook { url: None, secret_env },
        Err(problem) => problem.to_string(),
        Ok(url) if !matches!(url.scheme(), "http" | "https") => {
            "it is neither http nor https".to_owned()
        }
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            format!("it carries a name or a password; {secret_key} signs what is sent")
        }
        Ok(url) if url.fragment().is_some() => "it has a fragment".to_owned(),
        Ok(url) => return Webhook { url: Some(url), secret_env },
    };
    let right = "write an address like \"https://desk.example/floorkeeper\"";
    // The address may carry a secret in its path: only what is wrong with it is said.
    reader.refuse(&url_key, problem, right);
    Webhook { url: None, secret_env }
}
