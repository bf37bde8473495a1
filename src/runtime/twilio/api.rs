//! Twilio's REST API, as far as we use it: a call placed, looked at, changed.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::{HeaderValue, Method, Response, header};
use http_body_util::Full;
use serde_json::Value;
use tokio::time::timeout;
use url::Url;
use url::form_urlencoded::Serializer;

use crate::runtime::elsewhere::{Elsewhere, Unanswered};
use crate::transport::twilio::rest::{Call, refusal};

/// How long one answer is waited for.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Fields of a form.
pub(super) type Form<'a> = [(&'a str, &'a str)];

/// What came of asking for something to be done.
#[derive(Debug)]
pub(super) enum Done {
    /// It is done, and the call stands so.
    Yes(Call),
    /// It was not: there is no connection, or the account has to wait, for so long where that is
    /// said.
    NotNow(String, Option<Duration>),
    /// It never will be.
    Refused(String),
    /// Nobody knows.
    Unknown(String),
}

/// The API of one account.
pub(super) struct Api {
    to: Elsewhere,
    calls: String,
    authorization: HeaderValue,
}

impl Api {
    /// None when the address's host can have no certificate.
    pub fn new(url: &Url, account_sid: &str, token: &str) -> Option<Api> {
        let secret = BASE64.encode(format!("{account_sid}:{token}"));
        let mut authorization = HeaderValue::from_str(&format!("Basic {secret}")).ok()?;
        authorization.set_sensitive(true);
        let below = url.path().trim_end_matches('/');
        Some(Api {
            to: Elsewhere::at(url)?,
            calls: format!("{below}/2010-04-01/Accounts/{account_sid}/Calls"),
            authorization,
        })
    }

    /// Places a call. There is no key that would make a second request the same: what is `Unknown`
    /// must not be asked for again.
    pub async fn place(&self, form: &Form<'_>) -> Done {
        done(self.ask(Method::POST, &format!("{}.json", self.calls), form).await)
    }

    /// Has a call do something else.
    pub async fn change(&self, sid: &str, form: &Form<'_>) -> Done {
        done(self.ask(Method::POST, &format!("{}/{sid}.json", self.calls), form).await)
    }

    /// Ends a call, whether it rings or is spoken. Gives whether that is known to have been done.
    pub async fn hang_up(&self, sid: &str) -> bool {
        matches!(self.change(sid, &[("Status", "completed")]).await, Done::Yes(_))
    }

    /// How a call stands; none when nobody can tell.
    pub async fn look(&self, sid: &str) -> Option<Call> {
        let answer = self.ask(Method::GET, &format!("{}/{sid}.json", self.calls), &[]).await;
        Call::read(&read(answer)?)
    }

    /// Calls from there to here that were asked for since then; none when nobody can tell.
    pub async fn placed_since(&self, since_s: u64, to: &str, from: &str) -> Option<Vec<Call>> {
        let form = [("To", to), ("From", from), ("PageSize", "20")];
        let query = Serializer::new(String::new()).extend_pairs(form).finish();
        let path = format!("{}.json?{query}", self.calls);
        let mut calls = Call::read_list(&read(self.ask(Method::GET, &path, &[]).await)?)?;
        calls.retain(|call| call.made_s.is_some_and(|made_s| made_s >= since_s));
        Some(calls)
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        form: &Form<'_>,
    ) -> Result<Response<Bytes>, Unanswered> {
        let body = Serializer::new(String::new()).extend_pairs(form).finish();
        let request = self
            .to
            .request(method, path)
            .header(header::AUTHORIZATION, &self.authorization)
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Full::new(Bytes::from(body)));
        let request = request.map_err(|wrong| Unanswered::NotAsked(wrong.to_string()))?;
        let asked = timeout(ANSWER_MAX, self.to.ask(request)).await;
        asked.unwrap_or_else(|_| Err(Unanswered::Lost("no answer in time".to_owned())))
    }
}

fn done(answer: Result<Response<Bytes>, Unanswered>) -> Done {
    let answer = match answer {
        Ok(answer) => answer,
        Err(Unanswered::NotAsked(why)) => {
            return Done::NotNow(format!("Twilio is not reached: {why}"), None);
        }
        Err(Unanswered::Lost(why)) => return Done::Unknown(format!("Twilio: {why}")),
    };
    let status = answer.status();
    let after = answer.headers().get(header::RETRY_AFTER);
    let after = after.and_then(|after| after.to_str().ok()?.trim().parse().ok());
    let after = after.map(Duration::from_secs);
    let why = || refusal(status.as_u16(), answer.body());
    match status.as_u16() {
        200..=299 => {
            let call = serde_json::from_slice(answer.body()).ok();
            let call = call.as_ref().and_then(Call::read);
            call.map_or_else(|| Done::Unknown("Twilio's answer is no call".to_owned()), Done::Yes)
        }
        429 | 503 => Done::NotNow(why(), after),
        // Whoever says when to come back has done nothing.
        500.. if after.is_some() => Done::NotNow(why(), after),
        500.. => Done::Unknown(why()),
        _ => Done::Refused(why()),
    }
}

fn read(answer: Result<Response<Bytes>, Unanswered>) -> Option<Value> {
    let answer = answer.ok().filter(|answer| answer.status().is_success())?;
    serde_json::from_slice(answer.body()).ok()
}
