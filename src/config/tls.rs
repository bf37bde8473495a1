//! `[tls]`: HTTP and WebSocket over TLS.

use std::path::PathBuf;

use super::reader::Reader;
use super::sections::Paths;

/// Certificate and key of the server, in PEM.
#[derive(Clone, Debug, PartialEq)]
pub struct Tls {
    /// The certificate, and behind it those between it and a root.
    pub cert_file: PathBuf,
    /// Its private key: PKCS #8, PKCS #1 or SEC 1.
    pub key_file: PathBuf,
}

impl Tls {
    /// `None` where neither file is named.
    pub(super) fn read(reader: &mut Reader<'_>, paths: &Paths) -> Option<Tls> {
        let mut file = |key: &str| {
            let path = reader.text(key, "");
            paths.beside(reader, key, path)
        };
        match (file("tls.cert_file"), file("tls.key_file")) {
            (Some(cert_file), Some(key_file)) => Some(Tls { cert_file, key_file }),
            (None, None) => None,
            (cert_file, _) => {
                let (said, missing) = match cert_file {
                    Some(_) => ("tls.cert_file", "tls.key_file"),
                    None => ("tls.key_file", "tls.cert_file"),
                };
                let problem = format!("{missing} is not said");
                reader.refuse(said, problem, "name both files, or neither");
                None
            }
        }
    }
}
