//! SIP over TCP and TLS: messages cut from the stream by their length (RFC 3261, 18.3).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::call::Way;
use super::count::Count;
use super::message::length_in_stream;
use super::network::heard;
use super::port::Door;
use crate::transport::places::{Place, Places};

/// Messages that may wait for a peer that reads slowly.
const OUT_MAX: usize = 64;
/// Within this time TLS has begun, something has come over a new connection, and a message that has
/// begun is whole.
const WHOLE_WITHIN: Duration = Duration::from_secs(10);
/// A connection over which nothing comes for so long is closed, unless a dialog needs it still:
/// there is no other way to its peer, for none is opened from here.
const IDLE_MAX: Duration = Duration::from_secs(3_600);
/// So long a peer has to take what is written to it.
const WRITE_MAX: Duration = Duration::from_secs(5);
/// What was answered last still goes out.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How long the listener rests when there are no descriptors left.
const REST: Duration = Duration::from_millis(50);

/// Takes connections for as long as the process lives: of those who may ring, and of nobody so many
/// that there would be none for others.
pub(super) async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    places: Arc<Places>,
    door: Arc<Door>,
) {
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            tokio::time::sleep(REST).await;
            continue;
        };
        let from = heard(from);
        if !door.shared.may_ring(from.ip()) {
            door.shared.counts().add(Count::Strangers);
            continue;
        }
        match places.clone().take(from.ip()) {
            Some(place) => {
                let peer = Peer { from, door: door.clone(), place };
                drop(tokio::spawn(welcome(stream, tls.clone(), peer)));
            }
            None => door.shared.counts().add(Count::Flood),
        }
    }
}

/// Who has connected.
struct Peer {
    from: SocketAddr,
    door: Arc<Door>,
    place: Place,
}

/// Through the handshake, where there is one, to messages.
async fn welcome(stream: TcpStream, tls: Option<TlsAcceptor>, peer: Peer) {
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else {
        let (reads, writes) = stream.into_split();
        return serve(reads, writes, peer, Way::Stream).await;
    };
    match secured(&tls, stream).await {
        Some(stream) => {
            let (reads, writes) = tokio::io::split(stream);
            serve(reads, writes, peer, Way::Secure).await;
        }
        None => peer.door.shared.counts().add(Count::NoTls),
    }
}

/// The handshake, for so long and no longer.
async fn secured<S>(tls: &TlsAcceptor, stream: S) -> Option<TlsStream<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    timeout(WHOLE_WITHIN, tls.accept(stream)).await.ok()?.ok()
}

async fn serve(
    reads: impl AsyncRead + Unpin,
    mut writes: impl AsyncWrite + Unpin,
    peer: Peer,
    way: fn(mpsc::Sender<Bytes>) -> Way,
) {
    let Peer { from, door, place } = peer;
    let (out, mut waiting) = mpsc::channel::<Bytes>(OUT_MAX);
    let writing = async move {
        while let Some(bytes) = waiting.recv().await {
            let write = async {
                writes.write_all(&bytes).await?;
                writes.flush().await
            };
            match timeout(WRITE_MAX, write).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return,
            }
        }
    };
    let take = |message: &[u8]| door.take(from, way(out.clone()), message);
    let reading = read(reads, &out, take);
    tokio::pin!(writing);
    // Whoever ends first ends the connection; answers of calls that go on find nobody, and their
    // timers end them.
    tokio::select! {
        () = &mut writing => {}
        () = reading => drop(timeout(LAST_WORDS, writing).await),
    }
    drop(place);
}

/// Reads until there is nothing more, or nothing that could be waited for.
async fn read(
    mut reads: impl AsyncRead + Unpin,
    out: &mpsc::Sender<Bytes>,
    mut take: impl FnMut(&[u8]),
) {
    let mut buffer = Vec::new();
    let mut until = Instant::now() + WHOLE_WITHIN;
    loop {
        let mut piece = [0; 8 * 1_024];
        let length = match timeout_at(until, reads.read(&mut piece)).await {
            Ok(Ok(length @ 1..)) => length,
            Err(_) if buffer.is_empty() && out.strong_count() > 1 => {
                until = Instant::now() + IDLE_MAX;
                continue;
            }
            Ok(_) | Err(_) => return,
        };
        let begins = buffer.is_empty();
        buffer.extend_from_slice(&piece[..length]);
        let came = buffer.len();
        if take_whole(&mut buffer, out, &mut take).is_err() {
            return;
        }
        if buffer.is_empty() {
            until = Instant::now() + IDLE_MAX;
        } else if begins || buffer.len() < came {
            // Not with every piece: whoever sends byte by byte would have for ever.
            until = Instant::now() + WHOLE_WITHIN;
        }
    }
}

/// Takes the whole messages out of what has come.
fn take_whole(
    buffer: &mut Vec<u8>,
    out: &mpsc::Sender<Bytes>,
    take: &mut impl FnMut(&[u8]),
) -> Result<(), ()> {
    loop {
        let blank = buffer.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        if blank >= 4 && buffer.starts_with(b"\r\n\r\n") {
            // A phone that keeps its way open wants to hear that it is (RFC 5626, 4.4.1).
            let _ = out.try_send(Bytes::from_static(b"\r\n"));
        }
        buffer.drain(..blank);
        if buffer.is_empty() {
            return Ok(());
        }
        match length_in_stream(buffer) {
            Ok(Some(length)) if length <= buffer.len() => {
                let message: Vec<u8> = buffer.drain(..length).collect();
                take(&message);
            }
            Ok(_) => return Ok(()),
            Err(()) => {
                // Where the next message begins, nobody knows any more.
                take(buffer);
                return Err(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &[u8] = b"OPTIONS sip:a SIP/2.0\r\nContent-Length: 2\r\n\r\nok";

    /// A message begun is to be whole by a moment that no further byte of it puts off; what comes
    /// in time is taken.
    #[tokio::test(start_paused = true)]
    async fn who_sends_byte_by_byte_has_no_longer_than_others() {
        let (mut theirs, ours) = tokio::io::duplex(1_024);
        let (out, _waiting) = mpsc::channel(OUT_MAX);
        let mut taken = 0;
        let began = Instant::now();
        let drips = async {
            theirs.write_all(MESSAGE).await.unwrap();
            for byte in MESSAGE {
                tokio::time::sleep(Duration::from_millis(100)).await;
                theirs.write_all(&[*byte]).await.unwrap();
            }
            loop {
                tokio::time::sleep(Duration::from_millis(900)).await;
                if theirs.write_all(b"O").await.is_err() {
                    return;
                }
            }
        };
        tokio::join!(read(ours, &out, |_| taken += 1), drips);
        assert_eq!(taken, 2);
        let told = began.elapsed();
        assert!(told < WHOLE_WITHIN * 2, "a third, never whole, was waited for: {told:?}");
    }

    /// Who connects and says nothing leaves its place to others; who has said something may rest.
    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_at_first_is_not_waited_for() {
        for (says, waits) in [(&b""[..], WHOLE_WITHIN), (MESSAGE, IDLE_MAX)] {
            let (mut theirs, ours) = tokio::io::duplex(1_024);
            let (out, _waiting) = mpsc::channel(OUT_MAX);
            theirs.write_all(says).await.unwrap();
            let began = Instant::now();
            read(ours, &out, |_| {}).await;
            assert_eq!(began.elapsed().as_secs(), waits.as_secs());
        }
    }

    /// A handshake that goes on byte by byte has no longer than one that stops.
    #[tokio::test(start_paused = true)]
    async fn a_handshake_that_never_ends_is_not_waited_for() {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(rustls::server::ResolvesServerCertUsingSni::new()));
        let tls = TlsAcceptor::from(Arc::new(tls));
        for drips in [false, true] {
            let (mut theirs, ours) = tokio::io::duplex(4_096);
            // The head of a record of 1280 bytes, which never come.
            theirs.write_all(&[22, 3, 1, 5, 0, 1, 0, 4, 252]).await.unwrap();
            let began = Instant::now();
            let dripping = async {
                while drips && theirs.write_all(&[3]).await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(900)).await;
                }
            };
            let (secured, ()) = tokio::join!(secured(&tls, ours), dripping);
            assert!(secured.is_none());
            assert_eq!(began.elapsed().as_secs(), WHOLE_WITHIN.as_secs());
        }
    }

    /// A call that is up may say nothing for longer: its BYE still finds the way.
    #[tokio::test(start_paused = true)]
    async fn a_connection_that_a_dialog_needs_stays() {
        let (mut theirs, ours) = tokio::io::duplex(1_024);
        let (out, _waiting) = mpsc::channel(OUT_MAX);
        theirs.write_all(MESSAGE).await.unwrap();
        let began = Instant::now();
        let dialogs = out.clone();
        let ends = async {
            tokio::time::sleep(IDLE_MAX * 5 / 2).await;
            drop(dialogs);
        };
        tokio::join!(read(ours, &out, |_| {}), ends);
        assert_eq!(began.elapsed().as_secs(), (IDLE_MAX * 3).as_secs());
    }
}
