//! `[asterisk]`: an Asterisk that brings its calls by AudioSocket.

use std::net::SocketAddr;

use super::reader::Reader;
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
        Asterisk { audiosocket_listen, audiosocket_peers, audiosocket_tenant }
    }
}
