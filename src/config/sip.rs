//! `[sip]`: telephones and trunks that ring us.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use super::reader::{Choice, Reader};
use super::sections::Paths;
use super::tls::Tls;
use crate::transport::sip::{Codec, Codecs, Network, Srtp, Users};

/// `[sip]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Sip {
    /// Where calls come in, UDP and TCP; `None` takes no such calls.
    pub listen: Option<SocketAddr>,
    /// Where they come in by TLS.
    pub tls_listen: Option<SocketAddr>,
    /// What peers call this machine; `None`: the address that is listened on.
    pub public_address: Option<IpAddr>,
    /// Whose addresses may ring without a password.
    pub peers: Vec<Network>,
    /// Who may ring with one; with neither everybody may.
    pub users: Users,
    /// Which ports sound comes in by; `None`: any that is free.
    pub rtp_ports: Option<RangeInclusive<u16>>,
    /// Whether that is encrypted.
    pub srtp: Srtp,
    /// How it may be encoded, as our own offers wish it.
    pub codecs: Codecs,
    /// What a packet takes there and back.
    pub t1: Duration,
    /// A caller whose sound stops for so long is gone; `None`: never.
    pub media_timeout: Option<Duration>,
    /// Who pays for these calls; `None` is no tenant.
    pub tenant: Option<String>,
    /// Who rings others for us.
    pub trunk: Trunk,
}

/// `sip.trunk…`: who rings others for us.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trunk {
    /// Host and port; `None` rings only SIP addresses, each where it says.
    pub address: Option<String>,
    /// Our name there; `None`: our address is proof enough.
    pub user: Option<String>,
    /// The environment variable with our password.
    pub password_env: Option<String>,
}

impl Choice for Srtp {
    const ALL: &'static [(&'static str, Srtp)] =
        &[("offered", Srtp::Offered), ("required", Srtp::Required), ("off", Srtp::Off)];
}

impl Sip {
    pub(super) fn read(reader: &mut Reader<'_>, paths: &Paths, tls: Option<&Tls>) -> Sip {
        let right = "write \"127.0.0.1:5060\", or \"\" for no SIP";
        let listen = reader.address_or_none("sip.listen", right);
        let right = "write \"127.0.0.1:5061\", or \"\" for no TLS";
        let tls_listen = reader.address_or_none("sip.tls_listen", right);
        let public_address = public_address(reader);
        let peers = reader.networks("sip.peers");
        let users = users(reader, paths);
        let open = peers.is_empty() && users.is_empty();
        for (key, listen) in [("sip.listen", listen), ("sip.tls_listen", tls_listen)] {
            if let Some(listen) = listen {
                check(reader, key, listen, public_address, open);
            }
        }
        if let Some(secure) = tls_listen {
            check_tls(reader, secure, listen, tls);
        }
        let what = "a number of seconds (0 for never)";
        let silent_s = reader.number("sip.media_timeout_s", 30, 0..=86_400, what);
        let tenant = reader.text("sip.tenant", "");
        Sip {
            listen,
            tls_listen,
            public_address,
            peers,
            users,
            rtp_ports: rtp_ports(reader),
            srtp: reader.choice("sip.srtp", "offered"),
            codecs: codecs(reader),
            t1: reader.ms("sip.t1_ms", 500, 10..=5_000),
            media_timeout: (silent_s > 0).then(|| Duration::from_secs(silent_s)),
            tenant: (!tenant.is_empty()).then_some(tenant),
            trunk: trunk(reader),
        }
    }
}

fn trunk(reader: &mut Reader<'_>) -> Trunk {
    let said = |text: String| Some(text).filter(|text| !text.is_empty());
    let address = said(reader.text("sip.trunk", ""));
    let right = "write \"192.0.2.9\", \"sip.trunk.example:5060\"";
    let host = |c: char| c.is_ascii_alphanumeric() || "-.:[]".contains(c);
    if let Some(text) = address.as_ref().filter(|text| !text.chars().all(host)) {
        reader.refuse("sip.trunk", format!("\"{text}\" is no host with a port"), right);
    }
    let user = said(reader.text("sip.trunk_user", ""));
    let password_env = said(reader.text("sip.trunk_password_env", ""));
    Trunk { address, user, password_env }
}

fn check_tls(
    reader: &mut Reader<'_>,
    secure: SocketAddr,
    plain: Option<SocketAddr>,
    tls: Option<&Tls>,
) {
    if tls.is_none() {
        let right = "name tls.cert_file and tls.key_file";
        reader.refuse("sip.tls_listen", "there is no certificate for it", right);
    }
    if let Some(plain) = plain.filter(|plain| plain.ip() != secure.ip()) {
        let problem = format!("sound is heard at one address, and sip.listen says {plain}");
        reader.refuse("sip.tls_listen", problem, "say the same address with another port");
    }
}

fn check(
    reader: &mut Reader<'_>,
    key: &str,
    listen: SocketAddr,
    public_address: Option<IpAddr>,
    open: bool,
) {
    if !listen.ip().is_loopback() && open {
        let problem = format!("{listen} can be reached from other machines and anybody may ring");
        let right = "name those who may in sip.peers or sip.users_file, or listen on 127.0.0.1";
        reader.refuse(key, problem, right);
    }
    if listen.ip().is_unspecified() && public_address.is_none() {
        let problem = "an address for all interfaces is none that peers can send to";
        let right = "say in sip.public_address where peers reach this machine";
        reader.refuse(key, problem, right);
    }
    let takes_both = listen.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    if let Some(public) = public_address
        && public.is_ipv4() != listen.is_ipv4()
        && !takes_both
    {
        let problem = format!("nobody who sends to {public} is heard at {listen}");
        let right = "say an address of the same family, or listen on \"[::]:5060\"";
        reader.refuse("sip.public_address", problem, right);
    }
}

fn public_address(reader: &mut Reader<'_>) -> Option<IpAddr> {
    let text = reader.text("sip.public_address", "");
    if text.is_empty() {
        return None;
    }
    let address = text.parse::<IpAddr>().ok().map(|ip| ip.to_canonical());
    let address = address.filter(|ip| !ip.is_unspecified());
    if address.is_none() {
        let problem = format!("\"{text}\" is no address that peers can send to");
        reader.refuse("sip.public_address", problem, "write \"203.0.113.7\"");
    }
    address
}

/// One name and one password a line; `#` begins a comment line. Neither is ever shown.
fn users(reader: &mut Reader<'_>, paths: &Paths) -> Users {
    let mut users = Users::default();
    let file = reader.text("sip.users_file", "");
    let Some(file) = paths.beside(reader, "sip.users_file", file) else { return users };
    let right = "name a file with a name and a password a line";
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) => {
            let problem = format!("{} cannot be read: {error}", file.display());
            reader.refuse("sip.users_file", problem, right);
            return users;
        }
    };
    for (at, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let problem = match words[..] {
            [] => continue,
            [first, ..] if first.starts_with('#') => continue,
            [name, password] if users.add(name, password) => continue,
            [_, _] => "this name stands in an earlier line as well",
            _ => "this is no name and a password",
        };
        let problem = format!("{}, line {}: {problem}", file.display(), at + 1);
        reader.refuse("sip.users_file", problem, right);
    }
    if users.is_empty() {
        reader.refuse("sip.users_file", format!("{} holds nobody", file.display()), right);
    }
    users
}

fn codecs(reader: &mut Reader<'_>) -> Codecs {
    let words = reader.list("sip.codecs", &Codec::ALL.map(Codec::word));
    let named = |word: &String| Codec::ALL.into_iter().find(|codec| codec.word() == word);
    let right = "write \"opus\", \"g722\", \"pcmu\", \"pcma\" or some of them, the one that you like best first";
    if let Some(unknown) = words.iter().find(|word| named(word).is_none()) {
        reader.refuse("sip.codecs", format!("\"{unknown}\" is none that is spoken here"), right);
        return Codecs::default();
    }
    let codecs: Vec<Codec> = words.iter().filter_map(named).collect();
    Codecs::new(&codecs).unwrap_or_else(|| {
        let problem = match codecs.is_empty() {
            true => "a call needs at least one",
            false => "one of them stands there twice",
        };
        reader.refuse("sip.codecs", problem, right);
        Codecs::default()
    })
}

fn rtp_ports(reader: &mut Reader<'_>) -> Option<RangeInclusive<u16>> {
    let text = reader.text("sip.rtp_ports", "");
    if text.is_empty() {
        return None;
    }
    let port = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port >= 1_024);
    let range = text.split_once('-').and_then(|(first, last)| Some(port(first)?..=port(last)?));
    let first = |range: &RangeInclusive<u16>| range.start().checked_next_multiple_of(2);
    let range = range.filter(|range| first(range).is_some_and(|first| first <= *range.end()));
    if range.is_none() {
        let problem = format!("\"{text}\" are no ports");
        let right = "write \"16384-32767\", above 1023 and with an even port among them";
        reader.refuse("sip.rtp_ports", problem, right);
    }
    range
}
