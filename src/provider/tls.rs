//! TLS towards others: whom to trust, said once.

use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio_rustls::TlsConnector;
use url::{Host, Url};

/// Trusts the roots in a file of PEM certificates, or the usual ones. The error says what is wrong
/// with the file.
pub fn connector(roots_file: Option<&Path>) -> Result<TlsConnector, String> {
    let roots = match roots_file {
        Some(file) => roots_of(file).map_err(|wrong| format!("{}: {wrong}", file.display()))?,
        None => RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() },
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|wrong| wrong.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    // HTTP/2 has no half-close that a backend would answer with an end of file.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn roots_of(file: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|wrong| wrong.to_string())? {
        let certificate = certificate.map_err(|wrong| wrong.to_string())?;
        roots.add(certificate).map_err(|wrong| wrong.to_string())?;
    }
    Ok(roots)
}

/// The host of an address as it is connected to and as certificates name it: IPv6 without brackets.
pub fn host_of(url: &Url) -> Option<String> {
    Some(match url.host()? {
        Host::Domain(name) => name.to_owned(),
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => address.to_string(),
    })
}
