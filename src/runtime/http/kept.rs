//! A WebSocket that is asked whether its peer is still there: pinged while it is quiet, ended when
//! it stays quiet.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::ws::Message;
use bytes::Bytes;
use futures_util::{Sink, Stream};
use tokio::time::{Interval, MissedTickBehavior, interval};

/// Watches the stream of a peer's messages, pongs among them.
///
/// Whole messages count: one that takes longer than `dead_after` to arrive counts as silence.
pub(super) struct Kept<S> {
    socket: S,
    ticks: Interval,
    /// Something came since the last tick.
    heard: bool,
    quiet_ticks: u32,
    /// So many quiet ticks are the end.
    quiet_max: u32,
    unflushed: bool,
}

impl<S> Kept<S> {
    /// Pings a peer that was quiet for `ping_every`, and loses one that was for `dead_after`.
    pub fn new(socket: S, ping_every: Duration, dead_after: Duration) -> Self {
        let mut ticks = interval(ping_every);
        // After a stall of our own the peer gets its time to answer.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let quiet_max = dead_after.as_millis().div_ceil(ping_every.as_millis().max(1));
        let quiet_max = u32::try_from(quiet_max).unwrap_or(u32::MAX).max(1);
        Kept { socket, ticks, heard: true, quiet_ticks: 0, quiet_max, unflushed: false }
    }
}

type Heard = Option<Result<Message, axum::Error>>;

impl<S> Kept<S>
where
    S: Stream<Item = Result<Message, axum::Error>> + Sink<Message, Error = axum::Error> + Unpin,
{
    fn ping(&mut self, cx: &mut Context<'_>) -> Result<(), axum::Error> {
        // A peer that does not even take what it was sent is not pinged: its silence will tell.
        if let Poll::Ready(ready) = Pin::new(&mut self.socket).poll_ready(cx) {
            ready?;
            Pin::new(&mut self.socket).start_send(Message::Ping(Bytes::new()))?;
            self.unflushed = true;
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Context<'_>) -> Result<(), axum::Error> {
        if self.unflushed
            && let Poll::Ready(flushed) = Pin::new(&mut self.socket).poll_flush(cx)
        {
            self.unflushed = false;
            flushed?;
        }
        Ok(())
    }

    fn tick(&mut self, cx: &mut Context<'_>) -> Result<(), axum::Error> {
        if std::mem::take(&mut self.heard) {
            self.quiet_ticks = 0;
            return Ok(());
        }
        self.quiet_ticks += 1;
        if self.quiet_ticks > self.quiet_max {
            let nothing = io::Error::new(io::ErrorKind::TimedOut, "the peer has fallen silent");
            return Err(axum::Error::new(nothing));
        }
        self.ping(cx)
    }
}

impl<S> Stream for Kept<S>
where
    S: Stream<Item = Result<Message, axum::Error>> + Sink<Message, Error = axum::Error> + Unpin,
{
    type Item = Result<Message, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Heard> {
        // What has come is read before anybody is taken for silent.
        if let Poll::Ready(heard) = Pin::new(&mut self.socket).poll_next(cx) {
            self.heard = true;
            return Poll::Ready(heard);
        }
        while self.ticks.poll_tick(cx).is_ready() {
            if let Err(lost) = self.tick(cx) {
                return Poll::Ready(Some(Err(lost)));
            }
        }
        match self.push(cx) {
            Ok(()) => Poll::Pending,
            Err(lost) => Poll::Ready(Some(Err(lost))),
        }
    }
}

impl<S> Sink<Message> for Kept<S>
where
    S: Sink<Message, Error = axum::Error> + Unpin,
{
    type Error = axum::Error;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), axum::Error>> {
        Pin::new(&mut self.socket).poll_ready(cx)
    }

    fn start_send(mut self: Pin<&mut Self>, message: Message) -> Result<(), axum::Error> {
        Pin::new(&mut self.socket).start_send(message)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), axum::Error>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), axum::Error>> {
        Pin::new(&mut self.socket).poll_close(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use futures_util::StreamExt;

    use super::*;

    /// A peer that answers so many pings and says nothing by itself.
    #[derive(Default)]
    struct Peer {
        answers: usize,
        pings: usize,
        pongs: VecDeque<Message>,
    }

    impl Stream for Peer {
        type Item = Result<Message, axum::Error>;
        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Heard> {
            self.pongs.pop_front().map_or(Poll::Pending, |pong| Poll::Ready(Some(Ok(pong))))
        }
    }

    impl Sink<Message> for Peer {
        type Error = axum::Error;
        fn poll_ready(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), axum::Error>> {
            Poll::Ready(Ok(()))
        }
        fn start_send(mut self: Pin<&mut Self>, message: Message) -> Result<(), axum::Error> {
            let Message::Ping(bytes) = message else { panic!("{message:?}") };
            self.pings += 1;
            if self.pings <= self.answers {
                self.pongs.push_back(Message::Pong(bytes));
            }
            Ok(())
        }
        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), axum::Error>> {
            Poll::Ready(Ok(()))
        }
        fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), axum::Error>> {
            Poll::Ready(Ok(()))
        }
    }

    /// Seconds until the peer is lost, and how often it was pinged.
    async fn lost(answers: usize) -> (u64, usize) {
        let (ping, dead) = (Duration::from_secs(20), Duration::from_secs(60));
        let mut kept = Kept::new(Peer { answers, ..Peer::default() }, ping, dead);
        let began = tokio::time::Instant::now();
        loop {
            match kept.next().await {
                Some(Ok(Message::Pong(_))) => {}
                Some(Err(_)) => return (began.elapsed().as_secs(), kept.socket.pings),
                other => panic!("{other:?}"),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_peer_is_pinged_and_lost_and_one_that_answers_is_kept() {
        assert_eq!(lost(0).await, (80, 3), "three pings unanswered");
        let (seconds, pings) = lost(10).await;
        assert!(seconds > 400 && pings == 13, "{seconds} s, {pings} pings");
    }
}
