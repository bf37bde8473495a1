//! A human who is rung on a leg of their own, told of the caller, and joined with them once they
//! have pressed a key (issue 7.3).
//!
//! ```text
//! rings ──▶ answers ──▶ hears who it is ── 1 ──▶ acknowledged ──▶ caller is told ──▶ joined
//!   │          │               │
//!   ▼          ▼               ▼
//! busy,     voicemail   2, hangs up: declined; no key: timeout
//! no_answer
//! ```
//!
//! A caller who leaves ends it at any place: it stops ringing, or whoever has answered is told.

mod human;
mod relay;
mod voice;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::dial_sip;
use super::promises::Promises;
use super::record::Record;
use super::service::Service;
use crate::call::Brief;
use crate::codec::g711;
use crate::id::{HandoffId, TenantId};
use crate::provider::tts::TtsOptions;
use crate::store::{HandoffState, Refused};
use crate::transport::Leg;
use crate::transport::sip::{Dial, Rung};
use crate::turn::answered::Who;
use human::{Deed, Human};
pub(super) use relay::{Parted, Relay};

/// The rate of what they hear from us.
const RATE_HZ: u32 = g711::RATE_HZ;
/// How long the sound about the caller is waited for.
const VOICE_MAX: Duration = Duration::from_secs(3);
/// How long the caller may take to hear that they are being connected.
const ANNOUNCING_MAX: Duration = Duration::from_secs(10);
/// They are asked so often.
const QUESTIONS: u32 = 2;

/// Rings somebody for one caller.
pub(super) struct Bridge {
    pub waits: Waits,
    /// Resolves when the caller has heard that they are being connected.
    pub announced: oneshot::Receiver<()>,
    /// Where the human goes who is to speak with them.
    pub human: oneshot::Sender<Box<dyn Leg>>,
}

/// The call's end of it.
pub(super) struct Bridging {
    /// To be told once the caller knows.
    pub announce: Option<oneshot::Sender<()>>,
    /// Whom they are to speak with.
    pub human: oneshot::Receiver<Box<dyn Leg>>,
}

/// A caller who waits for somebody.
pub(super) struct Waits {
    pub service: Arc<Service>,
    pub record: Arc<Record>,
    pub brief: Brief,
    /// The agent's voice.
    pub voice: Option<String>,
    pub tenant: TenantId,
}

/// What whoever has answered wants.
enum Decided {
    Takes,
    Declines,
    Nothing,
    /// It is a machine.
    Cannot,
}

impl Bridge {
    /// Rings and asks until it is known what comes of it. `over`: nobody waits for that any more.
    pub async fn work(
        self,
        target: String,
        promises: &Promises,
        id: HandoffId,
        mut over: oneshot::Receiver<()>,
    ) -> Result<(), Refused> {
        self.waits.note("-> the desk is rung");
        // Dropping it takes the call back.
        let rung = tokio::select! {
            rung = self.waits.ring(&target) => rung,
            _ = &mut over => return Ok(()),
        };
        let mut human = match rung {
            Ok(leg) => Human::new(leg),
            Err(end) => return promises.end_handoff(id, end).await.map(drop),
        };
        let decided = tokio::select! {
            decided = self.waits.decided(&mut human) => decided,
            _ = &mut over => return self.waits.tell_left(human).await,
        };
        let end = match decided {
            Decided::Takes => return self.join(human, target, promises, id, over).await,
            Decided::Declines => HandoffState::Declined,
            Decided::Nothing => HandoffState::Timeout,
            Decided::Cannot => HandoffState::Voicemail,
        };
        let ended = promises.end_handoff(id, end).await.map(drop);
        human.hang_up().await;
        ended
    }

    /// They have said yes: the caller hears so, and then both are joined.
    async fn join(
        self,
        mut human: Human,
        target: String,
        promises: &Promises,
        id: HandoffId,
        mut over: oneshot::Receiver<()>,
    ) -> Result<(), Refused> {
        if let Err(refused) = promises.acknowledge(id, target).await {
            self.waits.tell_left(human).await?;
            return Err(refused);
        }
        let announced = tokio::time::timeout(ANNOUNCING_MAX, self.announced);
        let left = tokio::select! {
            // Whether the caller still waits, the handoff itself knows.
            left = human.hangs_up_before(announced) => left,
            _ = &mut over => return self.waits.tell_left(human).await,
        };
        if left {
            self.waits.note("<- the desk hangs up");
            return promises.end_handoff(id, HandoffState::Declined).await.map(drop);
        }
        if promises.end_handoff(id, HandoffState::Connected).await.is_err() {
            return self.waits.tell_left(human).await;
        }
        match self.human.send(human.into_leg()) {
            Ok(()) => Ok(()),
            Err(leg) => self.waits.tell_left(Human::new(leg)).await,
        }
    }
}

impl Waits {
    /// Whoever answers, or what it came to.
    async fn ring(&self, target: &str) -> Result<Box<dyn Leg>, HandoffState> {
        let outbound = &self.service.config.outbound;
        let Some(shared) = self.service.sip() else { return Err(HandoffState::Timeout) };
        let dial = match dial_sip::whom(&self.service, target).await {
            Ok(dial) => Dial { ring_max: outbound.desk_ring_max, ..dial },
            Err(problem) => {
                tracing::error!("handoff.bridge_to cannot be rung: {problem}");
                return Err(HandoffState::Timeout);
            }
        };
        match shared.ring(dial).await {
            Rung::Answered(leg) => Ok(leg),
            Rung::Busy => Err(HandoffState::Busy),
            Rung::NoAnswer | Rung::Unreachable => Err(HandoffState::NoAnswer),
            Rung::Declined | Rung::Refused(_) => Err(HandoffState::Declined),
            Rung::NoPlace => Err(HandoffState::Timeout),
            Rung::NoPort(problem) => {
                tracing::error!("a desk's call finds no port for its sound: {problem}");
                Err(HandoffState::Timeout)
            }
        }
    }

    /// Whether a person has answered, and what they want.
    async fn decided(&self, human: &mut Human) -> Decided {
        self.note("<- the desk answers");
        match human.who(&self.service.config.outbound).await {
            Some(Who::Person) => self.ask(human).await,
            Some(Who::Machine) => Decided::Cannot,
            // A phone that was taken and put down at once.
            None => Decided::Declines,
        }
    }

    /// Tells them of the caller, and asks.
    async fn ask(&self, human: &mut Human) -> Decided {
        self.note("-> the desk hears who it is");
        let decided = match self.tell(human).await {
            Err(deed) => self.meant(deed),
            Ok(()) => None,
        };
        if let Some(decided) = decided {
            return decided;
        }
        let question = self.prompt("desk_question", true);
        let thinks = self.service.config.outbound.desk_decides_max;
        for _ in 0..QUESTIONS {
            let mut deed = human.hear(&question).await.err();
            let until = self.service.clock.now() + thinks;
            loop {
                if let Some(decided) = deed.and_then(|deed| self.meant(deed)) {
                    return decided;
                }
                // Another key is none; the time goes on.
                deed = human.decides(until.since(self.service.clock.now())).await;
                if deed.is_none() {
                    break;
                }
            }
        }
        Decided::Nothing
    }

    /// What is known of the caller, as far as it can be said; a key means something at any time.
    async fn tell(&self, human: &mut Human) -> Result<(), Deed> {
        let texts = self.service.prompts.desk_words(&self.brief.language);
        let text = voice::words(&texts, &self.brief);
        let voiced = (!text.is_empty()).then(|| {
            let (voice, language) = (self.voice.clone(), self.brief.language.clone());
            let options = TtsOptions { voice, language, speed: 1.0 };
            voice::voice(self.service.clone(), self.tenant, text, options)
        });
        human.hear(&self.prompt("desk_caller", true)).await?;
        let Some(voiced) = voiced else { return Ok(()) };
        let sound = human.meanwhile(tokio::time::timeout(VOICE_MAX, voiced.sound())).await?;
        // Without it they are still asked.
        human.hear(&sound.unwrap_or_default()).await
    }

    fn meant(&self, deed: Deed) -> Option<Decided> {
        let (decided, line) = match deed {
            Deed::Key('1') => (Decided::Takes, "<- the desk takes the caller"),
            Deed::Key('2') => (Decided::Declines, "<- the desk declines"),
            Deed::HangsUp => (Decided::Declines, "<- the desk hangs up"),
            Deed::Key(_) => return None,
        };
        self.note(line);
        Some(decided)
    }

    /// The caller has gone, and they are told.
    async fn tell_left(&self, human: Human) -> Result<(), Refused> {
        self.note("-> the desk hears that nobody waits any more");
        human.part_with(&self.prompt("desk_caller_left", false)).await;
        Ok(())
    }

    fn prompt(&self, prompt: &str, caller_waits: bool) -> Vec<i16> {
        let language = &self.brief.language;
        self.service.prompts.at_desk(prompt, caller_waits, language, RATE_HZ)
    }

    fn note(&self, line: &str) {
        self.record.note(self.service.clock.now(), line);
    }
}
