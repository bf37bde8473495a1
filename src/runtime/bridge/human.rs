//! Somebody who was rung, before they are joined with the caller: they listen, and press keys.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

use super::RATE_HZ;
use crate::audio::{FRAME, Pcm};
use crate::config::Outbound;
use crate::id::{Generation, ItemId};
use crate::leg::{FromCaller, HangUp, ToCaller};
use crate::runtime::{dialler, driver};
use crate::transport::Leg;
use crate::turn::answered::Who;

/// What is said in one go.
const FRAME_SAMPLES: usize = (RATE_HZ / 50) as usize;

/// Somebody who was rung.
pub(super) struct Human {
    leg: Box<dyn Leg>,
    said: u32,
}

/// What they do of themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// They press this key.
    Key(char),
    /// They hang up.
    HangsUp,
}

impl Human {
    pub fn new(leg: Box<dyn Leg>) -> Human {
        Human { leg, said: 0 }
    }

    /// A person or a machine; none: they have gone.
    pub async fn who(&mut self, outbound: &Outbound) -> Option<Who> {
        dialler::who(&mut *self.leg, outbound.machine).await
    }

    /// Says this, unless they do something first.
    pub async fn hear(&mut self, samples: &[i16]) -> Result<(), Deed> {
        self.said += 1;
        let item = ItemId::new(&format!("desk_{}", self.said));
        let mut ticks = ticks();
        for frame in samples.chunks(FRAME_SAMPLES) {
            self.meanwhile(ticks.tick()).await?;
            let mut frame = frame.to_vec();
            frame.resize(FRAME_SAMPLES, 0);
            let pcm = Pcm { rate_hz: RATE_HZ, samples: frame };
            let (item, generation) = (item.clone(), Generation(0));
            // Who cannot be told has gone, and is heard to have.
            let _ = self.leg.send(ToCaller::Audio { response: None, item, generation, pcm });
        }
        // The last of it is still on its way.
        self.meanwhile(tokio::time::sleep(FRAME + self.leg.far_end_delay())).await
    }

    /// Waits so long for what they do.
    pub async fn decides(&mut self, most: Duration) -> Option<Deed> {
        self.meanwhile(tokio::time::sleep(most)).await.err()
    }

    /// Waits for this, unless they do something first.
    pub async fn meanwhile<T>(&mut self, awaited: impl Future<Output = T>) -> Result<T, Deed> {
        let mut awaited = pin!(awaited);
        loop {
            let said = tokio::select! {
                biased;
                said = poll_fn(|cx| self.leg.poll_recv(cx)) => said,
                there = &mut awaited => return Ok(there),
            };
            match said {
                FromCaller::Dtmf(key) => return Err(Deed::Key(key)),
                FromCaller::Gone { .. } => return Err(Deed::HangsUp),
                _ => {}
            }
        }
    }

    /// Waits for this, whatever they press; true when they hang up first.
    pub async fn hangs_up_before<T>(&mut self, awaited: impl Future<Output = T>) -> bool {
        let mut awaited = pin!(awaited);
        loop {
            match self.meanwhile(&mut awaited).await {
                Ok(_) => return false,
                Err(Deed::HangsUp) => return true,
                Err(Deed::Key(_)) => {}
            }
        }
    }

    /// Tells them this, and hangs up; a key says that they have heard enough.
    pub async fn part_with(mut self, samples: &[i16]) {
        let _ = self.hear(samples).await;
        self.hang_up().await;
    }

    /// Says goodbye.
    pub async fn hang_up(mut self) {
        // Who has gone needs none.
        if self.leg.send(ToCaller::HangUp { why: HangUp::Goodbye }).is_ok() {
            driver::part(self.leg).await;
        }
    }

    /// From now on somebody else speaks with them.
    pub fn into_leg(self) -> Box<dyn Leg> {
        self.leg
    }
}

fn ticks() -> Interval {
    let mut ticks = interval(FRAME);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
