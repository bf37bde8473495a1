//! An answer that is being read: its deadlines, its bounds, and its end.

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::Instant;

use super::client::{Client, Connection, FAULT_EVIDENCE, Pending, Request, fault_of};
use crate::fault::Fault;
use crate::provider::{Cancel, Ended};

/// Longest wait that a backend can ask of us.
const RETRY_AFTER_MAX_MS: u64 = 60_000;

/// An answer whose head was good.
pub struct Talk<'a> {
    client: &'a Client,
    request: &'a Request,
    cancel: &'a Cancel,
    connection: Connection,
    body: Incoming,
    headers: HeaderMap,
    first: Option<Instant>,
    total: Instant,
    tail: Option<Instant>,
    bytes_left: u64,
}

/// Why reading stopped before the answer's end.
#[derive(Debug)]
pub enum Stop {
    /// Nobody wants it any more.
    Cancelled,
    /// It failed.
    Fault(Fault),
    /// The tail that [`Talk::expect_tail`] allowed did not come.
    NoTail,
}

impl<'a> Talk<'a> {
    pub(super) fn new(
        client: &'a Client,
        (connection, response): (Connection, http::Response<Incoming>),
        request: &'a Request,
        (first, total): (Instant, Instant),
        cancel: &'a Cancel,
    ) -> Talk<'a> {
        let (head, body) = response.into_parts();
        Talk {
            client,
            request,
            cancel,
            connection,
            body,
            headers: head.headers,
            first: Some(first),
            total,
            tail: None,
            bytes_left: client.endpoint().max_bytes,
        }
    }

    /// The answer's media type without parameters, in lower case; empty when there is none.
    pub fn media_type(&self) -> String {
        let value = self.headers.get(http::header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
        let essence = value.and_then(|v| v.split(';').next()).unwrap_or_default();
        essence.trim().to_ascii_lowercase()
    }

    /// Something useful came: the first-byte deadline is met.
    pub fn useful(&mut self) {
        self.first = None;
    }

    /// All that matters came; what may still follow has this long.
    pub fn expect_tail(&mut self, within: std::time::Duration) {
        self.first = None;
        self.tail.get_or_insert(Instant::now() + within);
    }

    /// The next bytes; `None` at the clean end of the answer.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Stop> {
        loop {
            let deadlines =
                [(self.first, "first_byte"), (Some(self.total), "total"), (self.tail, "tail")];
            let (at, deadline) = deadlines
                .into_iter()
                .filter_map(|(at, name)| Some((at?, name)))
                .min_by_key(|(at, _)| *at)
                .unwrap_or((self.total, "total"));
            let frame = tokio::select! {
                biased;
                () = self.cancel.cancelled() => return Err(Stop::Cancelled),
                () = tokio::time::sleep_until(at) => return Err(match deadline {
                    "tail" => Stop::NoTail,
                    deadline => Stop::Fault(Fault::Slow { deadline }),
                }),
                frame = self.body.frame() => frame,
            };
            match frame {
                None => return Ok(None),
                Some(Err(error)) => return Err(Stop::Fault(fault_of(&error))),
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    self.bytes_left =
                        self.bytes_left.checked_sub(data.len() as u64).ok_or_else(|| {
                            let max = self.client.endpoint().max_bytes;
                            let detail = format!("the answer is longer than max_bytes = {max}");
                            Stop::Fault(Fault::Garbled { detail })
                        })?;
                    return Ok(Some(data));
                }
            }
        }
    }

    /// Ends a run whose reading stopped.
    pub async fn stopped(self, stop: Stop) -> Ended {
        match stop {
            Stop::Fault(fault) => self.client.failed(self.connection, fault, self.request).await,
            Stop::Cancelled => {
                let pending = Pending::Body(self.body);
                self.client.cancelled(self.connection, pending, self.request).await
            }
            Stop::NoTail => {
                let ended = self.client.failed(self.connection, Fault::Empty, self.request).await;
                Ended { fault: None, ..ended }
            }
        }
    }

    /// Ends a run whose answer was no good, though it may be whole.
    pub async fn garbled(self, detail: impl Into<String>) -> Ended {
        self.stopped(Stop::Fault(Fault::Garbled { detail: detail.into() })).await
    }

    /// Ends a run that has all it wanted; `read_to_end` when [`Talk::next`] gave `None`.
    pub async fn done(mut self, read_to_end: bool) -> Ended {
        let whole = read_to_end || self.rest_is_short().await;
        if whole {
            self.client.put_back(self.connection).await;
        }
        // The protocol's own end mark came: the backend is done, whatever its connection does.
        Ended::completed()
    }

    async fn rest_is_short(&mut self) -> bool {
        let rest = async {
            while let Some(frame) = self.body.frame().await {
                let short = frame.ok().and_then(|f| f.into_data().ok()).map(|d| d.len() < 1_024);
                if short == Some(false) {
                    return false;
                }
            }
            true
        };
        tokio::time::timeout(FAULT_EVIDENCE / 10, rest).await.unwrap_or(false)
    }
}

/// What is wrong with an answer's head, if anything. Redirects are not followed.
pub(super) fn head_fault(status: StatusCode, headers: &HeaderMap) -> Option<Fault> {
    if status != StatusCode::OK {
        let retry_after_ms = retry_after_ms(headers);
        return Some(Fault::Rejected { status: status.as_u16(), retry_after_ms });
    }
    let encoding = headers.get(CONTENT_ENCODING)?;
    if encoding.as_bytes().eq_ignore_ascii_case(b"identity") {
        return None;
    }
    let detail = format!("content encoding {encoding:?}, though none was accepted");
    Some(Fault::Garbled { detail })
}

/// The wait the backend asks for, where it gives it as a number; clamped to a minute. A date is not
/// taken: it would need both ends' wall clocks.
fn retry_after_ms(headers: &HeaderMap) -> Option<u64> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<u64>().ok();
    let ms = number("retry-after-ms")
        .or_else(|| number(RETRY_AFTER.as_str()).map(|seconds| seconds.saturating_mul(1_000)))?;
    Some(ms.min(RETRY_AFTER_MAX_MS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_clamped_and_nonsense_ignored() {
        let read = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, value.parse().unwrap());
            retry_after_ms(&headers)
        };
        assert_eq!(read("2"), Some(2_000));
        assert_eq!(read("999999"), Some(60_000));
        assert_eq!(read("18446744073709551615"), Some(60_000));
        for nonsense in ["-1", "soon", "Wed, 21 Oct 2026 07:28:00 GMT", ""] {
            assert_eq!(read(nonsense), None, "{nonsense}");
        }
    }
}
