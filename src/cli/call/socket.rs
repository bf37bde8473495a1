//! The stream below a WebSocket: TCP, or TLS over it.

use std::io;
use std::path::Path;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use url::Url;

use crate::provider::tls::{connector, host_of};

/// Names a file of roots in PEM that are trusted instead of the usual ones, as elsewhere.
pub(crate) const ROOTS_VARIABLE: &str = "SSL_CERT_FILE";

/// What a WebSocket runs over.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Connects to the host of a `ws` or `wss` address.
pub(super) async fn connect(url: &Url) -> io::Result<Box<dyn Io>> {
    let host = host_of(url).unwrap_or_default();
    let port = url.port_or_known_default().unwrap_or(80);
    let tcp = TcpStream::connect((host.as_str(), port)).await?;
    tcp.set_nodelay(true)?;
    if url.scheme() != "wss" {
        return Ok(Box::new(tcp));
    }
    let name = ServerName::try_from(host).map_err(io::Error::other)?;
    let roots = std::env::var_os(ROOTS_VARIABLE).filter(|file| !file.is_empty());
    let connector = connector(roots.as_deref().map(Path::new)).map_err(|wrong| {
        io::Error::other(format!("{ROOTS_VARIABLE}: {wrong}; certificates in PEM are right"))
    })?;
    let stream = connector.connect(name, tcp).await?;
    Ok(Box::new(stream))
}
