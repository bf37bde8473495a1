//! SIP over TCP: messages cut from the stream by their length (RFC 3261, 18.3).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::call::Way;
use super::message::length_in_stream;
use super::port::Door;

/// Connections at once.
const CONNECTIONS_MAX: usize = 1_024;
/// Messages that may wait for a peer that reads slowly.
const OUT_MAX: usize = 64;
/// A message that has begun is whole within this time.
const WHOLE_WITHIN: Duration = Duration::from_secs(10);
/// A connection over which nothing comes for so long is closed; calls are refreshed sooner, and
/// phones keep their way open.
const IDLE_MAX: Duration = Duration::from_secs(3_600);
/// So long a peer has to take what is written to it.
const WRITE_MAX: Duration = Duration::from_secs(5);
/// What was answered last still goes out.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How long the listener rests when there are no descriptors left.
const REST: Duration = Duration::from_millis(50);

/// Takes connections for as long as the process lives.
pub(super) async fn accept(listener: TcpListener, door: Arc<Door>) {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            tokio::time::sleep(REST).await;
            continue;
        };
        if open.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS_MAX {
            open.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        let place = Place(open.clone());
        tokio::spawn(serve(stream, from, door.clone(), place));
    }
}

/// A connection's place, which goes with it.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

async fn serve(stream: TcpStream, from: SocketAddr, door: Arc<Door>, place: Place) {
    let _ = stream.set_nodelay(true);
    let (mut reads, mut writes) = stream.into_split();
    let (out, mut waiting) = mpsc::channel::<Bytes>(OUT_MAX);
    let writing = async move {
        while let Some(bytes) = waiting.recv().await {
            match timeout(WRITE_MAX, writes.write_all(&bytes)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return,
            }
        }
    };
    let reading = async {
        let mut buffer = Vec::new();
        loop {
            let within = if buffer.is_empty() { IDLE_MAX } else { WHOLE_WITHIN };
            let mut piece = [0; 8 * 1_024];
            let Ok(Ok(length @ 1..)) = timeout(within, reads.read(&mut piece)).await else {
                return;
            };
            buffer.extend_from_slice(&piece[..length]);
            if take_whole(&mut buffer, from, &door, &out).is_err() {
                return;
            }
        }
    };
    tokio::pin!(writing);
    // Whoever ends first ends the connection; answers of calls that go on find nobody, and their
    // timers end them.
    tokio::select! {
        () = &mut writing => {}
        () = reading => drop(timeout(LAST_WORDS, writing).await),
    }
    drop(place);
}

/// Takes the whole messages out of what has come.
fn take_whole(
    buffer: &mut Vec<u8>,
    from: SocketAddr,
    door: &Door,
    out: &mpsc::Sender<Bytes>,
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
                door.take(from, Way::Stream(out.clone()), &message);
            }
            Ok(_) => return Ok(()),
            Err(()) => {
                // Where the next message begins, nobody knows any more.
                door.take(from, Way::Stream(out.clone()), buffer);
                return Err(());
            }
        }
    }
}
