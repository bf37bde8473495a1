//! `[asterisk]`: an Asterisk that brings its calls by AudioSocket.

use std::net::SocketAddr;

use url::Url;

use super::reader::Reader;
use super::twilio::private;
use crate::transport::sip::Network;

/// `[asterisk]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Asterisk {
    /// Where AudioSocket connections come in, TCP; `None` takes none.
    pub audiosocket_listen: Option<SocketAddr>,
    /// Whose addresses may connect; empty: everybody who reaches a loopback address.
    pub audiosocket_peers: Vec<Network>,
    /// Who pays for these calls; `None` is no tenant.
    pub audiosocket_tenant: Option<String>,
    /// How it is told to go on with a caller.
    pub ari: Ari,
}

/// How Asterisk is told that its dialplan is to go on with a caller.
#[derive(Clone, Debug, PartialEq)]
pub struct Ari {
    /// Where its REST interface is; there is one where `dialplan` is a word.
    pub url: Option<Url>,
    /// Our name there.
    pub user: String,
    /// The environment variable with our password.
    pub password_env: String,
    /// `handoff.dialplan`: what the dialplan finds in the variable of a caller who wants a person;
    /// `None`: people at the operator page take them.
    pub dialplan: Option<String>,
}

impl Asterisk {
    pub(super) fn read(reader: &mut Reader<'_>) -> Asterisk {
        let key = "asterisk.audiosocket_listen";
        let right = "write \"127.0.0.1:9092\", or \"\" for no AudioSocket";
        let audiosocket_listen = reader.address_or_none(key, right);
        let audiosocket_peers = reader.networks("asterisk.audiosocket_peers");
        if let Some(listen) = audiosocket_listen
            && !listen.ip().is_loopback()
            && audiosocket_peers.is_empty()
        {
            // The protocol knows no password.
            let problem =
                format!("{listen} can be reached from other machines and anybody may ring");
            let right = "name those who may in asterisk.audiosocket_peers, or listen on 127.0.0.1";
            reader.refuse(key, problem, right);
        }
        let tenant = reader.text("asterisk.audiosocket_tenant", "");
        let audiosocket_tenant = (!tenant.is_empty()).then_some(tenant);
        Asterisk { audiosocket_listen, audiosocket_peers, audiosocket_tenant, ari: ari(reader) }
    }
}

fn ari(reader: &mut Reader<'_>) -> Ari {
    let dialplan = reader.text("handoff.dialplan", "");
    let url = reader.text("asterisk.ari_url", "");
    let user = reader.text("asterisk.ari_user", "");
    let password_env = reader.text("asterisk.ari_password_env", "");
    let parsed = private(&url);
    let read = |parsed, dialplan| {
        let (user, password_env) = (user.clone(), password_env.clone());
        Ari { url: parsed, user, password_env, dialplan }
    };
    if !url.is_empty() && parsed.is_none() {
        let problem = "this is no https address, and none of this machine";
        let right = "write \"http://127.0.0.1:8088/ari\"";
        reader.refuse("asterisk.ari_url", problem, right);
    }
    if dialplan.is_empty() {
        return read(parsed, None);
    }
    if !dialplan.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) {
        let problem = format!("\"{dialplan}\" is no word");
        reader.refuse("handoff.dialplan", problem, "write \"human\", or \"\" for people at /ops");
    }
    for (text, key) in [
        (&url, "asterisk.ari_url"),
        (&user, "asterisk.ari_user"),
        (&password_env, "asterisk.ari_password_env"),
    ] {
        if text.is_empty() {
            let problem = "Asterisk has to be told, and this is not said";
            reader.refuse(key, problem, format!("say {key}, which handoff.dialplan needs"));
        }
    }
    read(parsed, Some(dialplan))
}
