//! Asterisk's REST interface, for the one thing that no media stream can tell it: that its dialplan
//! is to go on with the caller, and where.
//!
//! What a stream itself can say is only that it ends; and the channel of a call that a dialplan has
//! dialled us with is not in Stasis, so that its own variables cannot be set from outside (409).
//! Global ones can: one of the call's own name.

use std::sync::{Arc, Weak};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header};
use http_body_util::Full;
use tokio::time::timeout;
use url::form_urlencoded::Serializer;

use super::elsewhere::Elsewhere;
use super::service::Service;
use crate::config::Config;
use crate::store::OpenError;
use crate::transport::Transferred;
use crate::transport::moving::{Leaving, Mover, Moving};

/// How long the answer is waited for.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// What the variable's name begins with; the call's name follows.
const VARIABLE: &str = "FLOORKEEPER_";
/// A longer name is none of a call's.
const NAME_MAX: usize = 64;

/// The interface of one Asterisk.
pub struct Ari {
    to: Elsewhere,
    path: String,
    authorization: HeaderValue,
}

impl Ari {
    /// None where the configuration names none.
    pub(super) fn open(config: &Config) -> Result<Option<Arc<Ari>>, OpenError> {
        let settings = &config.asterisk.ari;
        let (Some(url), Some(_)) = (&settings.url, &settings.dialplan) else { return Ok(None) };
        let variable = &settings.password_env;
        let wrong = |key: &str, problem: String, right: &str| OpenError::Config {
            key: key.to_owned(),
            problem,
            right: right.to_owned(),
        };
        let password = std::env::var(variable).ok().filter(|password| !password.is_empty());
        let password = password.ok_or_else(|| {
            let problem = format!("the environment variable {variable} is not set");
            wrong("asterisk.ari_password_env", problem, "set it to the password of ari.conf")
        })?;
        let secret = BASE64.encode(format!("{}:{password}", settings.user));
        let authorization = HeaderValue::from_str(&format!("Basic {secret}"));
        match (Elsewhere::at(url), authorization) {
            (Some(to), Ok(mut authorization)) => {
                authorization.set_sensitive(true);
                let path = url.path().trim_end_matches('/').to_owned();
                Ok(Some(Arc::new(Ari { to, path, authorization })))
            }
            _ => {
                let problem = "its host can have no certificate".to_owned();
                Err(wrong("asterisk.ari_url", problem, "write a host's name"))
            }
        }
    }

    /// Sets a global variable; true when Asterisk says that it has.
    async fn set(&self, variable: &str, value: &str) -> bool {
        let pairs = [("variable", variable), ("value", value)];
        let query = Serializer::new(String::new()).extend_pairs(pairs).finish();
        let request = self
            .to
            .request(Method::POST, &format!("{}/asterisk/variable?{query}", self.path))
            .header(header::AUTHORIZATION, &self.authorization)
            .body(Full::new(Bytes::new()));
        let Ok(request) = request else { return false };
        match timeout(ANSWER_MAX, self.to.tell(request)).await {
            Ok(Ok(StatusCode::NO_CONTENT | StatusCode::OK)) => true,
            other => {
                tracing::warn!("asterisk does not go on with a caller: {other:?}");
                false
            }
        }
    }
}

/// Sends one call back to its dialplan.
pub(super) struct Dialplan {
    service: Weak<Service>,
    call: String,
    /// What its variable is to say.
    word: String,
}

impl Dialplan {
    /// Who sends the call of this name back; none where nobody can.
    pub fn of(service: &Arc<Service>, call: &str) -> Option<Arc<dyn Mover>> {
        service.ari()?;
        let word = service.config.asterisk.ari.dialplan.clone()?;
        let whole = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        let is_name = !call.is_empty() && call.len() <= NAME_MAX && call.chars().all(whole);
        let (service, call) = (Arc::downgrade(service), call.to_owned());
        is_name.then(|| Arc::new(Dialplan { service, call, word }) as _)
    }
}

impl Mover for Dialplan {
    fn target(&self) -> String {
        self.word.clone()
    }

    /// The dialplan goes on when the call's media ends, which is when this has succeeded.
    fn move_to(&self, target: String, _: Leaving) -> Moving {
        let ari = self.service.upgrade().and_then(|service| service.ari().cloned());
        let variable = format!("{VARIABLE}{}", self.call);
        Box::pin(async move {
            let Some(ari) = ari else { return Transferred::Declined };
            if ari.set(&variable, &target).await {
                return Transferred::Connected;
            }
            // Whatever became of it: a call that ends otherwise is not to go on there.
            ari.set(&variable, "").await;
            Transferred::Declined
        })
    }
}
