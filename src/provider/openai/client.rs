//! One endpoint's HTTP/1.1 client: connections, their reuse, and the request up to the answer's
//! head.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header;
use http::{HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::endpoint::Endpoint;
use super::talk::{Talk, head_fault};
use super::wire::{Dialler, Wire};
use crate::evidence::{CancelEvidence, Evidence, Unknown};
use crate::fault::Fault;
use crate::provider::{BuildError, Cancel, Ended};

/// Idle connections kept.
const IDLE_MAX: usize = 16;
/// Bound of an answer's head and of the buffer beneath it.
const HEAD_MAX: usize = 64 * 1024;
/// A failure of our own finding must reach the call soon; a live backend closes within
/// milliseconds.
pub(super) const FAULT_EVIDENCE: Duration = Duration::from_millis(500);
/// How often `/slots` is asked.
const RECONCILE_EVERY: Duration = Duration::from_millis(20);

/// The client of one endpoint, shared by all its runs.
pub struct Client {
    endpoint: Endpoint,
    dialler: Dialler,
    idle: Mutex<Vec<(Instant, Connection)>>,
}

/// A request to be made.
#[derive(Clone, Debug)]
pub struct Request {
    /// `POST`, or `GET` where there is no body.
    pub method: Method,
    /// The path behind the endpoint's own.
    pub path: String,
    /// The media type of the body.
    pub content_type: String,
    /// The media type asked for.
    pub accept: &'static str,
    /// The body.
    pub body: Bytes,
    /// Names this request in llama.cpp's `/slots`: its sampling seed.
    pub marker: Option<u32>,
}

impl Request {
    /// A POST of JSON.
    pub fn json(path: &str, accept: &'static str, body: &serde_json::Value) -> Request {
        Request {
            method: Method::POST,
            path: path.into(),
            content_type: "application/json".into(),
            accept,
            body: Bytes::from(body.to_string()),
            marker: None,
        }
    }
}

/// A response that is under way.
pub(super) type Answer =
    Pin<Box<dyn Future<Output = Result<http::Response<Incoming>, hyper::Error>> + Send>>;

impl Client {
    /// The client of this endpoint.
    pub fn new(endpoint: Endpoint) -> Result<Client, BuildError> {
        let dialler = Dialler::new(&endpoint)?;
        Ok(Client { endpoint, dialler, idle: Mutex::default() })
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Makes the request and waits for a good head of an answer. Every other end is final, with
    /// what it proves; a cancel is obeyed at every point.
    pub async fn open<'a>(
        &'a self,
        request: &'a Request,
        cancel: &'a Cancel,
    ) -> Result<Talk<'a>, Ended> {
        let began = Instant::now();
        let first = began + self.endpoint.times.first_byte;
        let total = began + self.endpoint.times.total;
        let message = self
            .message(request)
            .map_err(|detail| Ended::failed(Fault::Lost { detail }, Ok(Evidence::NeverStarted)))?;
        let mut may_reuse = true;
        loop {
            let (mut connection, reused) = match self.take_idle().filter(|_| may_reuse) {
                Some(connection) => (connection, true),
                None => (self.connect(cancel).await?, false),
            };
            let before = connection.received.load(Ordering::Relaxed);
            let mut answer: Answer = Box::pin(connection.sender.send_request(message.clone()));
            let answered = tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    return Err(self.cancelled(connection, Pending::Head(answer), request).await);
                }
                () = tokio::time::sleep_until(first.min(total)) => {
                    let deadline = if first <= total { "first_byte" } else { "total" };
                    return Err(self.failed(connection, Fault::Slow { deadline }, request).await);
                }
                answered = &mut answer => answered,
            };
            match answered {
                Ok(response) => {
                    let response = self.checked(connection, response, cancel, request).await?;
                    return Ok(Talk::new(self, response, request, (first, total), cancel));
                }
                // The backend closed an idle connection just as we used it: nothing was answered,
                // so nothing was begun. Once.
                Err(_) if reused && connection.received.load(Ordering::Relaxed) == before => {
                    may_reuse = false;
                }
                Err(error) => return Err(self.failed(connection, fault_of(&error), request).await),
            }
        }
    }

    fn message(&self, request: &Request) -> Result<http::Request<Full<Bytes>>, String> {
        let base = &self.endpoint.base;
        let path = format!("{}{}", base.path().trim_end_matches('/'), request.path);
        let host = match (base.host_str(), base.port()) {
            (Some(host), Some(port)) => format!("{host}:{port}"),
            (host, _) => host.unwrap_or_default().to_owned(),
        };
        let mut message = http::Request::builder()
            .method(request.method.clone())
            .uri(path)
            .header(header::HOST, host)
            .header(header::ACCEPT, request.accept)
            .header(header::ACCEPT_ENCODING, "identity")
            .header(header::USER_AGENT, concat!("floorkeeper/", env!("CARGO_PKG_VERSION")));
        if request.method == Method::POST {
            message = message.header(header::CONTENT_TYPE, &request.content_type);
        }
        if let Some(authorization) = &self.endpoint.authorization {
            message = message.header(header::AUTHORIZATION, authorization.clone());
        }
        message.body(Full::new(request.body.clone())).map_err(|error| error.to_string())
    }

    async fn connect(&self, cancel: &Cancel) -> Result<Connection, Ended> {
        let never = Ok(Evidence::NeverStarted);
        let connecting = async {
            let wire = self.dialler.dial().await?;
            Connection::over(wire).await
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(Ended::stopped(Evidence::NeverStarted)),
            connected = tokio::time::timeout(self.endpoint.times.connect, connecting) => {
                match connected {
                    Ok(Ok(connection)) => Ok(connection),
                    Ok(Err(fault)) => Err(Ended::failed(fault, never)),
                    Err(_) => Err(Ended::failed(Fault::Slow { deadline: "connect" }, never)),
                }
            }
        }
    }

    /// Refuses every head that is not a plain 200.
    async fn checked(
        &self,
        connection: Connection,
        response: http::Response<Incoming>,
        cancel: &Cancel,
        request: &Request,
    ) -> Result<(Connection, http::Response<Incoming>), Ended> {
        match head_fault(response.status(), response.headers()) {
            None => Ok((connection, response)),
            Some(fault) if response.status() == StatusCode::OK => {
                Err(self.failed(connection, fault, request).await)
            }
            Some(fault) => {
                // Its explanation is read to its end so that the answer counts as whole, and thrown
                // away: it may repeat a key or a caller's words.
                let mut body = response.into_body();
                let rest = discard(&mut body, HEAD_MAX as u64);
                let whole = tokio::select! {
                    biased;
                    () = cancel.cancelled() => None,
                    whole = tokio::time::timeout(FAULT_EVIDENCE, rest) => Some(whole),
                };
                match whole {
                    None => {
                        let pending = Pending::Body(body);
                        let ended = self.cancelled(connection, pending, request).await;
                        Err(Ended { fault: Some(fault), ..ended })
                    }
                    Some(Ok(true)) => {
                        self.put_back(connection).await;
                        Err(Ended::failed(fault, Ok(Evidence::Completed)))
                    }
                    Some(_) => Err(self.failed(connection, fault, request).await),
                }
            }
        }
    }

    /// Stops a request that nobody wants any more, in the way this endpoint is stopped.
    pub(super) async fn cancelled(
        &self,
        mut connection: Connection,
        pending: Pending,
        request: &Request,
    ) -> Ended {
        let proof = match self.endpoint.cancel {
            CancelEvidence::HalfClose => self.proof(&mut connection, request).await,
            CancelEvidence::DocumentedAbort => Ok(Evidence::DocumentedAbort),
            CancelEvidence::Drain => {
                let body = match pending {
                    Pending::Body(body) => Some(body),
                    Pending::Head(answer) => answer.await.ok().map(http::Response::into_body),
                };
                let whole = match body {
                    Some(mut body) => discard(&mut body, self.endpoint.max_bytes).await,
                    None => false,
                };
                if whole {
                    self.put_back(connection).await;
                    Ok(Evidence::Completed)
                } else {
                    connection.half_close().await
                }
            }
            CancelEvidence::Reconcile => self.proof(&mut connection, request).await,
        };
        Ended { proof, fault: None }
    }

    /// Ends a run that failed, with what is known of the backend soon after.
    pub(super) async fn failed(
        &self,
        mut connection: Connection,
        fault: Fault,
        request: &Request,
    ) -> Ended {
        let proof = self.proof(&mut connection, request);
        let proof = match tokio::time::timeout(FAULT_EVIDENCE, proof).await {
            Ok(proof) => proof,
            Err(_) if self.endpoint.cancel == CancelEvidence::DocumentedAbort => {
                Ok(Evidence::DocumentedAbort)
            }
            Err(_) => Err(Unknown::CancelTimeout),
        };
        Ended::failed(fault, proof)
    }

    /// Half-closes and waits for the backend's close; where the backend can be asked, for its word.
    async fn proof(
        &self,
        connection: &mut Connection,
        request: &Request,
    ) -> Result<Evidence, Unknown> {
        let closed = connection.half_close().await;
        // A request that still waits in the backend's queue is in no slot: only once its stream is
        // closed does a slot table without it mean anything.
        match request.marker {
            Some(marker) => self.until_idle(marker).await.map_or(closed, Ok),
            None => closed,
        }
    }

    /// Asks `/slots` until no slot works on the request of this seed; `None` when it cannot tell.
    async fn until_idle(&self, marker: u32) -> Option<Evidence> {
        loop {
            let asked = tokio::time::timeout(Duration::from_secs(1), self.busy_seeds()).await;
            if !asked.ok()??.contains(&u64::from(marker)) {
                return Some(Evidence::AbortAcknowledged);
            }
            tokio::time::sleep(RECONCILE_EVERY).await;
        }
    }

    /// The sampling seeds of the slots that are at work; `None` when the backend does not tell.
    async fn busy_seeds(&self) -> Option<Vec<u64>> {
        let mut connection = Connection::over(self.dialler.dial().await.ok()?).await.ok()?;
        let request = Request {
            method: Method::GET,
            path: String::new(),
            content_type: String::new(),
            accept: "application/json",
            body: Bytes::new(),
            marker: None,
        };
        let mut message = self.message(&request).ok()?;
        let root = self.endpoint.base.path().trim_end_matches('/').trim_end_matches("/v1");
        *message.uri_mut() = format!("{root}/slots").parse().ok()?;
        message.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        let response = connection.sender.send_request(message).await.ok()?;
        if response.status() != StatusCode::OK {
            return None;
        }
        let body = http_body_util::Limited::new(response.into_body(), 1024 * 1024);
        busy_seeds(&body.collect().await.ok()?.to_bytes())
    }

    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((since, connection)) = idle.pop() {
            if since.elapsed() < self.endpoint.times.idle && !connection.sender.is_closed() {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection whose answer was read to its clean end.
    pub(super) async fn put_back(&self, mut connection: Connection) {
        let ready = tokio::time::timeout(Duration::from_millis(50), connection.sender.ready());
        if !matches!(ready.await, Ok(Ok(()))) {
            return;
        }
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|(since, _)| since.elapsed() < self.endpoint.times.idle);
        if idle.len() < IDLE_MAX {
            idle.push((Instant::now(), connection));
        }
    }
}

/// What of an answer is still to come.
pub(super) enum Pending {
    Head(Answer),
    Body(Incoming),
}

/// One HTTP connection: what sends on it, and the task that moves its bytes. Dropped, it is closed.
pub(super) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    stop: Option<oneshot::Sender<()>>,
    driver: JoinHandle<Result<Evidence, Unknown>>,
    received: Arc<AtomicU64>,
}

impl Connection {
    async fn over(wire: Wire) -> Result<Connection, Fault> {
        let received = wire.received();
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(HEAD_MAX)
            .handshake(TokioIo::new(wire))
            .await
            .map_err(|error| fault_of(&error))?;
        let (stop, stopped) = oneshot::channel();
        let driver = tokio::spawn(drive(connection, stopped));
        Ok(Connection { sender, stop: Some(stop), driver, received })
    }

    /// Shuts our write half and waits until the backend closes.
    async fn half_close(&mut self) -> Result<Evidence, Unknown> {
        if let Some(stop) = self.stop.take() {
            // The driver may have come to this point by itself.
            let _ = stop.send(());
        }
        (&mut self.driver).await.unwrap_or(Err(Unknown::Dropped))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Moves the bytes until told to stop or until HTTP is over; then the stream is ours again.
async fn drive(
    mut connection: http1::Connection<TokioIo<Wire>, Full<Bytes>>,
    mut stopped: oneshot::Receiver<()>,
) -> Result<Evidence, Unknown> {
    tokio::select! {
        biased;
        _ = &mut stopped => {}
        // How HTTP ended is seen by whoever waits for the answer.
        _ = std::future::poll_fn(|cx| connection.poll_without_shutdown(cx)) => {}
    }
    connection.into_parts().io.into_inner().half_close().await
}

/// Reads to the end; false when it is broken or longer than `max`.
async fn discard(body: &mut Incoming, max: u64) -> bool {
    let mut seen = 0;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        seen += frame.data_ref().map_or(0, |data| data.len() as u64);
        if seen > max {
            return false;
        }
    }
    true
}

/// What went wrong with HTTP.
pub(super) fn fault_of(error: &hyper::Error) -> Fault {
    let mut detail = error.to_string();
    let mut is_nonsense = error.is_parse() || error.is_parse_too_large();
    if let Some(source) = std::error::Error::source(error) {
        detail = format!("{detail}: {source}");
        // A wrong chunk size comes as an input error, not as a parse error.
        let kind = source.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        is_nonsense |= matches!(
            kind,
            Some(std::io::ErrorKind::InvalidInput | std::io::ErrorKind::InvalidData)
        );
    }
    if is_nonsense { Fault::Garbled { detail } } else { Fault::Lost { detail } }
}

fn busy_seeds(json: &[u8]) -> Option<Vec<u64>> {
    let slots: Vec<serde_json::Value> = serde_json::from_slice(json).ok()?;
    let busy = slots.iter().filter(|slot| slot["is_processing"] == true);
    busy.map(|slot| slot["params"]["seed"].as_u64()).collect()
}
