//! Somebody else's HTTP server: one request and its answer, on a connection of its own.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header, request};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use url::Url;

use crate::provider::tls::{connector, host_of};

/// Most of an answer that is read.
const ANSWER_MAX_BYTES: usize = 256 * 1024;
/// How long a connection may take, and then its TLS.
const CONNECT_MAX: Duration = Duration::from_secs(4);

/// Whoever is asked.
pub(super) struct Elsewhere {
    host: String,
    port: u16,
    authority: String,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// Nothing was asked: there was no connection.
    NotAsked(String),
    /// It may have been asked.
    Lost(String),
}

impl Elsewhere {
    /// Whoever is at this address; none when its host can have no certificate.
    pub fn at(url: &Url) -> Option<Elsewhere> {
        let host = host_of(url).unwrap_or_default();
        let tls = match url.scheme() {
            "https" => {
                let name = ServerName::try_from(host.clone()).ok()?;
                Some((connector(None).ok()?, name))
            }
            _ => None,
        };
        let shown = url.host_str().unwrap_or_default();
        Some(Elsewhere {
            port: url.port_or_known_default().unwrap_or(80),
            authority: url.port().map_or(shown.to_owned(), |port| format!("{shown}:{port}")),
            host,
            tls,
        })
    }

    /// A request to be completed, with what every one of ours says.
    pub fn request(&self, method: http::Method, path: &str) -> request::Builder {
        Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, &self.authority)
            .header(header::CONNECTION, "close")
            .header(header::USER_AGENT, concat!("floorkeeper/", env!("CARGO_PKG_VERSION")))
    }

    /// Asks once, for as long as whoever calls this waits.
    pub async fn ask(&self, request: Request<Full<Bytes>>) -> Result<Response<Bytes>, Unanswered> {
        self.exchange(request, async |answer| {
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, ANSWER_MAX_BYTES).collect().await;
            let body = body.map_err(|problem| Unanswered::Lost(problem.to_string()))?;
            Ok(Response::from_parts(head, body.to_bytes()))
        })
        .await
    }

    /// The same for whom the answer's status is all that counts.
    pub async fn tell(&self, request: Request<Full<Bytes>>) -> Result<StatusCode, Unanswered> {
        self.exchange(request, async |answer| Ok(answer.status())).await
    }

    async fn exchange<T>(
        &self,
        request: Request<Full<Bytes>>,
        read: impl AsyncFnOnce(Response<Incoming>) -> Result<T, Unanswered>,
    ) -> Result<T, Unanswered> {
        let tcp = soon(TcpStream::connect((self.host.as_str(), self.port))).await?;
        match &self.tls {
            None => over(tcp, request, read).await,
            Some((connector, name)) => {
                let tls = soon(connector.connect(name.clone(), tcp)).await?;
                over(tls, request, read).await
            }
        }
    }
}

/// A connection, or that there is none in time.
async fn soon<T>(connecting: impl Future<Output = std::io::Result<T>>) -> Result<T, Unanswered> {
    match timeout(CONNECT_MAX, connecting).await {
        Ok(connected) => connected.map_err(|problem| Unanswered::NotAsked(problem.to_string())),
        Err(_) => Err(Unanswered::NotAsked("no connection in time".to_owned())),
    }
}

async fn over<S, T>(
    stream: S,
    request: Request<Full<Bytes>>,
    read: impl AsyncFnOnce(Response<Incoming>) -> Result<T, Unanswered>,
) -> Result<T, Unanswered>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let lost = |problem: hyper::Error| Unanswered::Lost(problem.to_string());
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(lost)?;
    let answered = async { read(sender.send_request(request).await.map_err(lost)?).await };
    tokio::pin!(answered);
    tokio::select! {
        answer = &mut answered => answer,
        // The connection may end with the answer in hand: then it is there at once.
        _ = connection => answered.await,
    }
}
