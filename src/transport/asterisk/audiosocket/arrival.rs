//! A connection before its call: it says which call it is, and waits for the server to decide.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{interval, timeout};

use super::count::{Count, Counts};
use super::frame::{self, Frame, Kind};
use super::leg::{AudioSocketLeg, FAR_END};
use super::line::Line;
use super::sound::{SoundOut, leg_rate_hz};
use crate::audio::{FRAME, Pcm, duration_to_samples};
use crate::id::hex;
use crate::time::Timestamp;
use crate::transport::Clock;

/// Sound that may come before the call; who sends more is no telephone.
const EARLY_MAX_BYTES: usize = 4 << 20;
/// Frames in front of the first sound that are kept for the call.
const FIRST_MAX: usize = 64;

/// A call of Asterisk's that nobody has decided about.
#[derive(Debug)]
pub struct Arrived<S> {
    line: Line<S>,
    uuid: String,
    kind: Option<Kind>,
    /// Bytes of sound that nobody has heard.
    unheard: usize,
    /// What came since there is a line for the call: its first words and keys.
    first: Vec<Frame>,
}

/// Waits for the call's name. The error says how the connection was lost.
pub async fn arrive<S>(io: S, counts: Arc<Counts>) -> Result<Arrived<S>, &'static str>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut line = Line::new(io, counts.clone());
    match line.frame().await? {
        Frame::Uuid(uuid) => {
            Ok(Arrived { line, uuid: written(uuid), kind: None, unheard: 0, first: Vec::new() })
        }
        _ => {
            counts.add(Count::NotUuid);
            Err("protocol")
        }
    }
}

fn written(uuid: [u8; 16]) -> String {
    let hex = hex(&uuid);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

impl<S: AsyncRead + AsyncWrite + Unpin> Arrived<S> {
    /// The name that the dialplan gave the call.
    pub fn uuid(&self) -> &str {
        &self.uuid
    }

    /// Until the caller has gone. What they say meanwhile is heard by nobody.
    pub async fn gone(&mut self) -> &'static str {
        loop {
            if let Err(how) = self.next().await {
                return how;
            }
        }
    }

    /// The rate that the call is to speak at: that of the first sound, which is waited for so long.
    pub async fn rate_hz(&mut self, within: Duration) -> u32 {
        let heard = async {
            while self.kind.is_none() {
                match self.next().await {
                    Ok(frame) if self.first.len() < FIRST_MAX => self.first.push(frame),
                    Ok(_) => {}
                    Err(_) => return,
                }
            }
        };
        // Who says nothing is spoken to as every Asterisk understands.
        let _ = timeout(within, heard).await;
        leg_rate_hz(self.kind.unwrap_or_default())
    }

    async fn next(&mut self) -> Result<Frame, &'static str> {
        let frame = self.line.frame().await?;
        match &frame {
            Frame::Sound(kind, sound) => {
                self.kind = Some(*kind);
                self.unheard += sound.len();
                if self.unheard > EARLY_MAX_BYTES { Err("protocol") } else { Ok(frame) }
            }
            Frame::HangUp => Err("closed"),
            Frame::Error => Err("reset"),
            Frame::Uuid(_) | Frame::Key(_) | Frame::Unknown | Frame::Malformed => Ok(frame),
        }
    }

    /// The call has a slot.
    pub fn answer(self, clock: Arc<dyn Clock>) -> AudioSocketLeg<S> {
        AudioSocketLeg::new(self.line, self.kind.unwrap_or_default(), self.first, clock)
    }

    /// There is no room: the caller is told so, at the pace of speech, and hung up on.
    pub async fn refuse(mut self, now: Timestamp, words: &Pcm) {
        let mut mouth = SoundOut::new(self.kind.unwrap_or_default());
        let mut ticks = interval(FRAME);
        for piece in words.samples.chunks(duration_to_samples(FRAME, words.rate_hz).max(1)) {
            ticks.tick().await;
            let piece = Pcm { rate_hz: words.rate_hz, samples: piece.to_vec() };
            mouth.say(now, &piece).into_iter().for_each(|frame| self.line.push(frame));
            if !self.goes_on().await {
                return;
            }
        }
        mouth.finish(now).into_iter().for_each(|frame| self.line.push(frame));
        tokio::time::sleep(FAR_END).await;
        self.line.push(frame::hang_up());
        poll_fn(|cx| self.line.poll_part(cx)).await;
    }

    /// What was said is written, and the caller is still there.
    async fn goes_on(&mut self) -> bool {
        if poll_fn(|cx| self.line.poll_write(cx)).await.is_err() {
            return false;
        }
        timeout(Duration::ZERO, self.gone()).await.is_err()
    }
}
