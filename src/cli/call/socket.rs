//! The stream below a WebSocket: TCP, or TLS over it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::{Host, Url};

/// Names a file of roots in PEM that are trusted instead of the usual ones, as elsewhere.
pub(crate) const ROOTS_VARIABLE: &str = "SSL_CERT_FILE";

/// What a WebSocket runs over.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Connects to the host of a `ws` or `wss` address.
pub(super) async fn connect(url: &Url) -> io::Result<Box<dyn Io>> {
    let host = match url.host() {
        Some(Host::Domain(name)) => name.to_owned(),
        Some(Host::Ipv4(address)) => address.to_string(),
        Some(Host::Ipv6(address)) => address.to_string(),
        None => return Err(io::Error::other("the address names no host")),
    };
    let port = url.port_or_known_default().unwrap_or(80);
    let tcp = TcpStream::connect((host.as_str(), port)).await?;
    tcp.set_nodelay(true)?;
    if url.scheme() != "wss" {
        return Ok(Box::new(tcp));
    }
    let name = ServerName::try_from(host).map_err(io::Error::other)?;
    let stream = connector()?.connect(name, tcp).await?;
    Ok(Box::new(stream))
}

fn connector() -> io::Result<TlsConnector> {
    let roots = match std::env::var_os(ROOTS_VARIABLE).filter(|file| !file.is_empty()) {
        Some(file) => roots_of(Path::new(&file))?,
        None => RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() },
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn roots_of(file: &Path) -> io::Result<RootCertStore> {
    let wrong = |detail: String| {
        let place = file.display();
        io::Error::other(format!(
            "{ROOTS_VARIABLE}: {place}: {detail}; certificates in PEM are right"
        ))
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|e| wrong(e.to_string()))? {
        let certificate = certificate.map_err(|e| wrong(e.to_string()))?;
        roots.add(certificate).map_err(|e| wrong(e.to_string()))?;
    }
    Ok(roots)
}
