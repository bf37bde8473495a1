//! Our own accept loop: bounds, deadlines and TCP_NODELAY that the ready-made one lacks.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tower::ServiceExt;

use super::super::certificate::Certificate;
use super::realtime::HANDSHAKE_MAX;
use super::stall::Unstalled;
use super::tls::Secured;
use super::{Site, routes};
use crate::config::Tls;
pub(super) use crate::transport::places::Place;
use crate::transport::places::Places;

/// How long to pause when the process has no file descriptor left.
const OUT_OF_DESCRIPTORS: Duration = Duration::from_millis(100);
/// Bytes of a request's head.
const HEAD_MAX: usize = 16 * 1024;

/// A bound socket.
pub struct Listening {
    listener: TcpListener,
    /// Where.
    pub address: SocketAddr,
    tls: Option<Arc<Secured>>,
}

impl Listening {
    /// With TLS, where the configuration has a certificate; the error says what is wrong with it.
    pub fn secured(self, tls: Option<&Tls>) -> Result<Listening, String> {
        let certificate = tls.map(Certificate::open).transpose()?.map(Arc::new);
        let tls = certificate.map(Secured::by).transpose()?.map(Arc::new);
        Ok(Listening { tls, ..self })
    }

    /// What is shown to who connects, where anything is.
    pub(in super::super) fn certificate(&self) -> Option<Arc<Certificate>> {
        self.tls.as_ref().map(|tls| tls.certificate.clone())
    }
}

/// Binds the listening socket, or says what would be right.
pub async fn bind(address: SocketAddr) -> Result<Listening, String> {
    let listener = TcpListener::bind(address).await.map_err(|problem| match problem.kind() {
        io::ErrorKind::AddrInUse => format!(
            "{address} is in use by another process; stop it, or choose another address with \
             --listen, for example --listen {}:{}",
            address.ip(),
            address.port().wrapping_add(1).max(1024)
        ),
        io::ErrorKind::PermissionDenied => {
            format!("{address} may not be bound by this user; choose a port from 1024 on")
        }
        io::ErrorKind::AddrNotAvailable => {
            format!("{} is no address of this machine; 127.0.0.1 always is", address.ip())
        }
        _ => format!("{address} cannot be bound: {problem}"),
    })?;
    let address = listener.local_addr().map_err(|problem| problem.to_string())?;
    Ok(Listening { listener, address, tls: None })
}

/// Serves until told to stop. Connections that are upgraded live on in their calls' tasks.
pub async fn serve(listening: Listening, site: Site, mut stop: watch::Receiver<bool>) {
    let most = &site.service.config.connections;
    let places = Arc::new(Places::new(most.total, most.per_address));
    let app = routes(site);
    let tls = listening.tls;
    loop {
        let accepted = tokio::select! {
            accepted = listening.listener.accept() => accepted,
            _ = stop.changed() => return,
        };
        match accepted {
            Ok((stream, peer)) => match places.clone().take(peer.ip()) {
                Some(place) => {
                    // A socket that refuses the option still works, only slower.
                    let _ = stream.set_nodelay(true);
                    let (app, stop) = (app.clone(), stop.clone());
                    tokio::spawn(welcome(tls.clone(), stream, app, place, stop));
                }
                // Behind TLS nobody could read it before a handshake.
                None if tls.is_some() => {}
                None => turn_away(stream),
            },
            Err(problem) if is_one_connections(&problem) => {}
            Err(problem) => {
                // Out of descriptors: existing calls go on, new ones wait in the backlog.
                tracing::warn!("accept: {problem}");
                tokio::time::sleep(OUT_OF_DESCRIPTORS).await;
            }
        }
    }
}

fn is_one_connections(problem: &io::Error) -> bool {
    matches!(
        problem.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

/// One connection too many: told in one write that cannot wait, and closed.
fn turn_away(stream: TcpStream) {
    let body = "{\"error\": {\"message\": \"Too many connections; connections.total and \
                connections.per_address bound them.\", \"type\": \"server_error\", \
                \"param\": null, \"code\": \"too_many_connections\"}}";
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\nCache-Control: no-store\r\nRetry-After: 1\r\n\
         Connection: close\r\n\r\n{body}"
    );
    // Whoever does not get it is turned away all the same.
    let _ = stream.into_std().and_then(|mut stream| stream.write_all(answer.as_bytes()));
}

/// Through the handshake, where there is one, to requests.
async fn welcome(
    tls: Option<Arc<Secured>>,
    stream: TcpStream,
    app: Router,
    place: Place,
    stop: watch::Receiver<bool>,
) {
    let Some(tls) = tls else {
        return connection(Unstalled::new(stream), app, place, stop).await;
    };
    match tokio::time::timeout(HANDSHAKE_MAX, tls.accept(stream)).await {
        Ok(Ok(stream)) => connection(stream, app, place, stop).await,
        Ok(Err(problem)) => tracing::debug!("tls: {problem}"),
        Err(_) => tracing::debug!("tls: no handshake in time"),
    }
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    app: Router,
    place: Place,
    stop: watch::Receiver<bool>,
) {
    let place = Arc::new(place);
    let app = app.map_request(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(place.clone());
        request
    });
    let http = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HANDSHAKE_MAX)
        .max_buf_size(HEAD_MAX)
        .keep_alive(true)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app))
        .with_upgrades();
    tokio::pin!(http);
    let mut stop = stop;
    tokio::select! {
        _ = &mut http => {}
        _ = stop.changed() => {
            http.as_mut().graceful_shutdown();
            let _ = http.await;
        }
    }
}
