//! Who may use what: keys, ephemeral keys, and origins of pages.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use sha2::{Digest, Sha256};

use super::{Site, answer};
use crate::id::TenantId;
use crate::runtime::clock::Clock;
use crate::transport::realtime::handshake;

/// Who is asking.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Who pays.
    pub tenant: TenantId,
    /// The session an ephemeral key was minted for.
    pub session: Option<serde_json::Value>,
}

impl FromRequestParts<Site> for Caller {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Caller, Response> {
        check(site, &parts.headers).map_err(|refused| *refused)
    }
}

/// Lets a request through, or answers it.
fn check(site: &Site, headers: &HeaderMap) -> Result<Caller, Box<Response>> {
    check_origin(site, headers)?;
    let protocols: Vec<&str> = text_of(headers, header::SEC_WEBSOCKET_PROTOCOL);
    let offered = handshake::offered(protocols);
    let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let key = handshake::api_key(authorization, &offered);
    if let Some(key) = key
        && let Some(caller) = ephemeral(site, key)
    {
        return Ok(caller);
    }
    let Some(keys) = &site.service.config.auth.keys else {
        return Ok(Caller { tenant: TenantId(0), session: None });
    };
    // Every key is compared in full: the time taken tells nothing of which one was close.
    let shown = Sha256::digest(key.unwrap_or("").as_bytes());
    let mut found = None;
    for known in keys {
        if Sha256::digest(known.secret.as_bytes()) == shown && key.is_some() {
            found = Some(known.tenant.as_deref());
        }
    }
    match found {
        Some(tenant) => Ok(Caller { tenant: site.service.tenants.find(tenant), session: None }),
        None => {
            let body = handshake::unauthorized_body(key.is_some());
            Err(Box::new(json(StatusCode::UNAUTHORIZED, &body)))
        }
    }
}

fn ephemeral(site: &Site, key: &str) -> Option<Caller> {
    let secrets = site.secrets.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let secret = secrets.find(key, Clock::wall_s())?;
    Some(Caller { tenant: secret.tenant, session: Some(secret.session.clone()) })
}

/// A browser names the page it acts for; only our own page and the configured ones may.
pub(super) fn check_origin(site: &Site, headers: &HeaderMap) -> Result<(), Box<Response>> {
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let origin = origin.to_str().unwrap_or("");
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("");
    let own = ["http://", "https://"].iter().any(|s| origin.strip_prefix(s) == Some(host));
    if own && is_our_name(site, host)
        || site.service.config.auth.origins.iter().any(|allowed| allowed == origin)
    {
        return Ok(());
    }
    let message =
        "This page's origin may not connect; auth.origins and public.url name those that may.";
    Err(Box::new(answer::error(StatusCode::FORBIDDEN, "origin_not_allowed", message, None)))
}

/// Without keys only names that nobody else can point at this machine are ours (DNS rebinding).
fn is_our_name(site: &Site, host: &str) -> bool {
    let config = &site.service.config;
    let Ok(url) = url::Url::parse(&format!("http://{host}/")) else { return false };
    let public = config.public_url.as_ref().and_then(url::Url::host_str);
    let name = url.host_str();
    let fixed = match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(_) | url::Host::Ipv6(_)) => true,
        None => false,
    };
    config.auth.keys.is_some() || fixed || public.is_some() && public == name
}

fn json(status: StatusCode, body: &serde_json::Value) -> Response {
    use axum::response::IntoResponse;
    (status, axum::Json(body.clone())).into_response()
}

fn text_of(headers: &HeaderMap, name: header::HeaderName) -> Vec<&str> {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect()
}

/// The subprotocol to answer with.
pub fn subprotocol(headers: &HeaderMap) -> Option<&'static str> {
    let protocols = text_of(headers, header::SEC_WEBSOCKET_PROTOCOL);
    handshake::select_subprotocol(&handshake::offered(protocols))
}
