//! Addresses to listen on, and networks that may call.

use std::net::SocketAddr;

use super::reader::Reader;
use crate::transport::sip::Network;

impl Reader<'_> {
    /// An address with a port, or none.
    pub(super) fn address_or_none(&mut self, key: &str, right: &str) -> Option<SocketAddr> {
        let text = self.text(key, "");
        if text.is_empty() {
            return None;
        }
        self.address(key, &text, right)
    }

    /// Addresses and networks.
    pub(super) fn networks(&mut self, key: &str) -> Vec<Network> {
        let mut networks = Vec::new();
        for text in self.list(key, &[]) {
            match text.parse() {
                Ok(network) => networks.push(network),
                Err(_) => {
                    let problem = format!("\"{text}\" is no address and no network");
                    self.refuse(key, problem, "write [\"203.0.113.7\", \"192.0.2.0/24\"]");
                }
            }
        }
        networks
    }
}
