//! Who brings a telephone call: by a key, as everywhere, or by the provider's own signature.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::Response;

use super::auth::Caller;
use super::upgrade::Handshake;
use super::{Site, answer};
use crate::runtime::twilio::{public_address, scheme};
use crate::transport::twilio::signature;

/// Fields of a form, as they were sent.
pub(super) type Form = [(String, String)];

/// What the signature of a request says of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Signed {
    /// Nobody asked for signatures.
    Unasked,
    /// There is none.
    No,
    Rightly,
    Wrongly,
}

/// Who brings the call, or the answer to whoever may not.
pub(super) async fn caller(
    site: &Site,
    parts: &Parts,
    form: &Form,
    dialect: &str,
) -> Result<Caller, Box<Response>> {
    let config = &site.service.config;
    let signed = if dialect == "twilio" { signed(site, parts, form)? } else { Signed::Unasked };
    match signed {
        Signed::Rightly => {
            let tenant = site.service.tenants.find(config.twilio.tenant.as_deref());
            return Ok(Caller { tenant, session: None });
        }
        Signed::Wrongly => return Err(forged()),
        // Without keys the signature is all that tells the provider from anybody else.
        Signed::No if config.auth.keys.is_none() => return Err(forged()),
        Signed::No | Signed::Unasked => {}
    }
    let mut parts = parts.clone();
    // A provider can be given an address, and often no header: one that it sends may be its own
    // (Vonage's token). A key in the address is ours, and the only one that counts.
    if let Some(key) = key_of(&parts.uri) {
        let bearer = HeaderValue::from_str(&format!("Bearer {key}"));
        // What no header can hold is nobody's key.
        let bearer = bearer.unwrap_or(HeaderValue::from_static("Bearer"));
        parts.headers.insert(header::AUTHORIZATION, bearer);
    }
    Caller::from_request_parts(&mut parts, site).await.map_err(Box::new)
}

/// A stream's handshake. Refuses what is signed wrongly, before what is wrong otherwise; one that
/// is not signed has another right: its name.
pub(super) fn unforged(
    site: &Site,
    parts: &Parts,
    handshake: Result<Handshake, Response>,
) -> Result<Handshake, Box<Response>> {
    match signed(site, parts, &[])? {
        Signed::Wrongly => Err(forged()),
        Signed::Unasked | Signed::No | Signed::Rightly => handshake.map_err(Box::new),
    }
}

/// Refuses all but what is rightly signed.
pub(super) fn signed_rightly(site: &Site, parts: &Parts, form: &Form) -> Result<(), Box<Response>> {
    match signed(site, parts, form)? {
        Signed::Rightly => Ok(()),
        Signed::Unasked | Signed::No | Signed::Wrongly => Err(forged()),
    }
}

fn key_of(uri: &Uri) -> Option<String> {
    let query = uri.query()?;
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    pairs.find(|(name, _)| name == "key").map(|(_, key)| key.into_owned())
}

fn signed(site: &Site, parts: &Parts, form: &Form) -> Result<Signed, Box<Response>> {
    let config = &site.service.config;
    let Some(variable) = &config.twilio.auth_token_env else { return Ok(Signed::Unasked) };
    let token = std::env::var(variable).unwrap_or_default();
    if token.is_empty() {
        tracing::error!("twilio.auth_token_env: {variable} is not set; nobody can be let in");
        let message = "The token that requests are signed with is not known to this server.";
        let status = StatusCode::FORBIDDEN;
        return Err(Box::new(answer::error(status, "no_auth_token", message, None)));
    }
    let Some(shown) = parts.headers.get("x-twilio-signature") else { return Ok(Signed::No) };
    let shown = shown.to_str().unwrap_or("");
    let Some(called) = called(site, parts) else { return Ok(Signed::Wrongly) };
    let mut is_good = false;
    // Every way is tried, whichever was right: the time taken tells nothing.
    for address in addresses(&called, &parts.uri, parts.headers.contains_key(header::UPGRADE)) {
        is_good |= signature::is_signed(&token, &address, form, shown);
    }
    Ok(if is_good { Signed::Rightly } else { Signed::Wrongly })
}

/// Where the provider called, less the path. What the request says of its host is as good as
/// `public.url` where a proxy leaves it alone: who signs has to sign that as well.
fn called(site: &Site, parts: &Parts) -> Option<url::Url> {
    let public = site.service.config.public_url.clone();
    public.or_else(|| {
        let host = parts.headers.get(header::HOST)?.to_str().ok()?;
        url::Url::parse(&format!("https://{host}")).ok()
    })
}

/// The address as the provider may have called it: with the port or without, and for a stream also
/// with a slash behind it.
fn addresses(public: &url::Url, uri: &Uri, is_stream: bool) -> Vec<String> {
    let scheme = scheme(public.scheme() == "https", is_stream);
    let host = public.host_str().unwrap_or_default();
    let usual = if public.scheme() == "https" { 443 } else { 80 };
    let port = public.port().unwrap_or(usual);
    let below = public.path().trim_end_matches('/');
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut hosts = vec![format!("{host}:{port}")];
    if port == usual {
        hosts.push(host.to_owned());
    }
    let plain = hosts.iter().map(|host| format!("{scheme}://{host}{below}{path}"));
    let plain: Vec<String> = plain.collect();
    let slashed = plain.iter().filter(|_| is_stream).map(|address| format!("{address}/"));
    slashed.chain(plain.iter().cloned()).collect()
}

/// Where the outside world reaches a stream's path.
pub(super) fn stream_address(site: &Site, parts: &Parts, path: &str) -> String {
    if let Some(public) = &site.service.config.public_url {
        return public_address(public, path, true);
    }
    let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let is_secure = site.service.config.tls.is_some();
    let scheme = scheme(is_secure || text("x-forwarded-proto") == Some("https"), true);
    format!("{scheme}://{}{path}", text("host").unwrap_or("localhost"))
}

fn forged() -> Box<Response> {
    let message = "X-Twilio-Signature is not one of this request: the token, public.url or the \
                   address that Twilio calls differ.";
    Box::new(answer::error(StatusCode::FORBIDDEN, "invalid_signature", message, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_what_the_provider_called() {
        let public = url::Url::parse("https://voice.example.com/in/").unwrap();
        let uri: Uri = "/v1/twilio/voice?agent=shop".parse().unwrap();
        let called = addresses(&public, &uri, false);
        assert_eq!(
            called,
            [
                "https://voice.example.com:443/in/v1/twilio/voice?agent=shop",
                "https://voice.example.com/in/v1/twilio/voice?agent=shop"
            ]
        );
        let stream = addresses(&public, &"/v1/twilio".parse().unwrap(), true);
        assert!(stream.contains(&"wss://voice.example.com/in/v1/twilio".to_owned()));
        assert!(stream.contains(&"wss://voice.example.com/in/v1/twilio/".to_owned()));
    }
}
