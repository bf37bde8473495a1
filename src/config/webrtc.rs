//! `[webrtc]`: the UDP port that browsers send their voice to.

use std::net::{IpAddr, SocketAddr};

use super::reader::Reader;

/// `[webrtc]`.
#[derive(Clone, Debug, PartialEq)]
pub struct WebRtc {
    /// Where all calls' packets come in; `None` takes no such calls.
    pub listen: Option<SocketAddr>,
    /// Where clients are told to send to; port 0 is the one that was bound. Empty: `listen`.
    pub public_addresses: Vec<SocketAddr>,
}

impl WebRtc {
    pub(super) fn read(reader: &mut Reader<'_>) -> WebRtc {
        let text = reader.text("webrtc.listen", "127.0.0.1:0");
        let right = "write \"0.0.0.0:3478\", or \"\" for no WebRTC";
        let listen = match text.as_str() {
            "" => None,
            text => reader.address("webrtc.listen", text, right),
        };
        let mut public_addresses = Vec::new();
        for text in reader.list("webrtc.public_addresses", &[]) {
            let address = text.parse().map(|ip: IpAddr| SocketAddr::new(ip, 0));
            match address.or_else(|_| text.parse::<SocketAddr>()) {
                Ok(address) if !address.ip().is_unspecified() => public_addresses.push(address),
                Ok(_) | Err(_) => {
                    let right = "write [\"203.0.113.7\"] or [\"203.0.113.7:3478\"]";
                    let problem = format!("\"{text}\" is no address that clients can send to");
                    reader.refuse("webrtc.public_addresses", problem, right);
                }
            }
        }
        if listen.is_some_and(|at| at.ip().is_unspecified()) && public_addresses.is_empty() {
            let problem = "an address for all interfaces is none that clients can send to";
            let right = "say in webrtc.public_addresses where clients reach this machine";
            reader.refuse("webrtc.listen", problem, right);
        }
        WebRtc { listen, public_addresses }
    }

    /// Clients of other machines are let in, and told to send to this one's loopback address.
    pub(super) fn warning(&self, http: SocketAddr) -> Option<String> {
        let here = self.listen.is_some_and(|listen| listen.ip().is_loopback());
        let astray = here && !http.ip().is_loopback() && self.public_addresses.is_empty();
        astray.then(|| {
            "webrtc.listen is a loopback address: WebRTC calls from other machines will not \
             connect; webrtc.public_addresses says where they would"
                .to_owned()
        })
    }
}
