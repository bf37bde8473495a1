//! TLS in front of HTTP.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::super::certificate::Certificate;
use super::stall::Unstalled;

/// The first byte of a TLS handshake (RFC 8446, 5.1).
const HANDSHAKE: u8 = 22;

/// Who speaks HTTP is shown the certificate.
pub(super) struct Secured {
    pub certificate: Arc<Certificate>,
    acceptor: TlsAcceptor,
}

impl Secured {
    pub fn by(certificate: Arc<Certificate>) -> Result<Secured, String> {
        let config = certificate.shown_to(&["http/1.1"])?;
        Ok(Secured { certificate, acceptor: TlsAcceptor::from(Arc::new(config)) })
    }

    /// The handshake. Whoever speaks plain HTTP here is told so.
    pub async fn accept(&self, mut stream: TcpStream) -> io::Result<TlsStream<Unstalled>> {
        let mut first = [0];
        if stream.peek(&mut first).await? == 1 && first[0] != HANDSHAKE {
            stream.write_all(plain().as_bytes()).await?;
            return Err(ErrorKind::InvalidData.into());
        }
        self.acceptor.accept(Unstalled::new(stream)).await
    }
}

fn plain() -> String {
    let body = "{\"error\": {\"message\": \"This port speaks TLS: use https:// or wss://.\", \
                \"type\": \"invalid_request_error\", \"param\": null, \"code\": \"tls_required\"}}";
    let length = body.len();
    format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: \
         {length}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n{body}"
    )
}
