//! The byte stream beneath HTTP, which we keep: TCP or TLS, counted, closed half by half.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use url::Url;

use super::endpoint::Endpoint;
use crate::evidence::{Evidence, Unknown};
use crate::fault::Fault;
use crate::provider::BuildError;
use crate::provider::tls::{connector, host_of};

/// Bytes read and thrown away after a half-close before we stop reading.
const DISCARD_MAX: u64 = 64 * 1024 * 1024;

/// Makes streams to one endpoint.
pub(super) struct Dialler {
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Dialler {
    pub(super) fn new(endpoint: &Endpoint) -> Result<Dialler, BuildError> {
        let url = &endpoint.base;
        // Checked when the address was read: it has a host, and its scheme has a default port.
        let host = host_of(url).unwrap_or_default();
        let tls = if url.scheme() == "https" { Some(tls(url, endpoint, &host)?) } else { None };
        Ok(Dialler { host, port: url.port_or_known_default().unwrap_or(80), tls })
    }

    /// A connected stream. Nothing has been said to the backend when this fails or is dropped.
    pub(super) async fn dial(&self) -> Result<Wire, Fault> {
        let lost = |error: io::Error| Fault::Lost { detail: error.to_string() };
        let tcp = TcpStream::connect((self.host.as_str(), self.port)).await.map_err(lost)?;
        tcp.set_nodelay(true).map_err(lost)?;
        let io = match &self.tls {
            None => Io::Plain(tcp),
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), tcp).await.map_err(lost)?;
                Io::Tls(Box::new(stream))
            }
        };
        Ok(Wire { io, received: Arc::default() })
    }
}

fn tls(
    url: &Url,
    endpoint: &Endpoint,
    host: &str,
) -> Result<(TlsConnector, ServerName<'static>), BuildError> {
    let file = endpoint.ca_file.as_deref().map(Path::new);
    let connector = connector(file).map_err(|problem| BuildError::Config {
        key: "ca_file".into(),
        problem,
        right: "a file with PEM certificates".into(),
    })?;
    let wrong = |detail: String| BuildError::Config {
        key: "base_url".into(),
        problem: format!("{url}: {detail}"),
        right: "an https address whose certificate can be checked".into(),
    };
    let name = ServerName::try_from(host.to_owned()).map_err(|e| wrong(e.to_string()))?;
    Ok((connector, name))
}

/// One connected stream.
pub(super) struct Wire {
    io: Io,
    received: Arc<AtomicU64>,
}

enum Io {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Wire {
    /// Counts the bytes that came from the backend.
    pub(super) fn received(&self) -> Arc<AtomicU64> {
        self.received.clone()
    }

    /// Shuts our write half, reads on and throws away until the backend closes or resets.
    pub(super) async fn half_close(mut self) -> Result<Evidence, Unknown> {
        // A backend that has gone already makes this fail; the read below then says so.
        let _ = self.shutdown().await;
        let mut discarded = 0;
        let mut buffer = vec![0_u8; 16 * 1024];
        while discarded < DISCARD_MAX {
            match self.read(&mut buffer).await {
                Ok(0) => return Ok(Evidence::StreamClosedByBackend),
                Ok(count) => discarded += count as u64,
                Err(error) if is_close(&error) => return Ok(Evidence::StreamClosedByBackend),
                Err(_) => return Err(Unknown::ConnectionLost),
            }
        }
        Err(Unknown::CancelTimeout)
    }
}

/// The error says that the far end closed, not that something between us broke.
fn is_close(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof
    )
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = match &mut self.io {
            Io::Plain(io) => Pin::new(io).poll_read(cx, buffer),
            Io::Tls(io) => Pin::new(io).poll_read(cx, buffer),
        };
        let count = buffer.filled().len() - before;
        self.received.fetch_add(count as u64, Ordering::Relaxed);
        polled
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.io {
            Io::Plain(io) => Pin::new(io).poll_write(cx, bytes),
            Io::Tls(io) => Pin::new(io).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.io {
            Io::Plain(io) => Pin::new(io).poll_flush(cx),
            Io::Tls(io) => Pin::new(io).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.io {
            Io::Plain(io) => Pin::new(io).poll_shutdown(cx),
            Io::Tls(io) => Pin::new(io).poll_shutdown(cx),
        }
    }
}
