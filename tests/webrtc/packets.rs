//! Packets of sound that are broken, a leg that breaks, and one that is lost: one call's trouble,
//! nobody else's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use floorkeeper::admission::{Admit, Answer, Cancelled, Offer, OwnerId};
use floorkeeper::codec::opus::{ENCODED_FRAME_SAMPLES, Encoder};
use floorkeeper::dialogue::ToolChoice;
use floorkeeper::id::{Generation, Stage, TenantId};
use floorkeeper::leg::{FromCaller, Modality, Settings, ToCaller, TurnDetection};
use floorkeeper::runtime::service::{Accepted, Service};
use floorkeeper::runtime::variables::Variables;
use floorkeeper::transport::{Leg, LegLost};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;
use tokio::sync::mpsc;

use crate::peer::Peer;
use crate::rig::{LIMIT, REPLY, Rig};

/// Packets of speech, each changed somewhere.
fn broken(dice: &mut StdRng, count: usize) -> Vec<Bytes> {
    let mut encoder = Encoder::new().unwrap();
    let mut encoded = |at: usize| {
        let buzz = |sample: usize| if (at * 7 + sample) % 100 < 50 { 9_000 } else { -9_000 };
        let frame: Vec<i16> = (0..ENCODED_FRAME_SAMPLES).map(buzz).collect();
        encoder.encode(&frame).unwrap().map(<[u8]>::to_vec).unwrap_or_default()
    };
    let mut broken = Vec::new();
    for at in 0..count {
        let mut packet = encoded(at);
        match at % 4 {
            0 => packet.truncate(dice.random_range(0..=packet.len())),
            1 => packet.iter_mut().take(1).for_each(|first| *first = dice.random()),
            2 => {
                for _ in 0..8 {
                    let end = packet.len().max(1);
                    packet.get_mut(dice.random_range(0..end)).into_iter().for_each(|byte| {
                        *byte = dice.random();
                    });
                }
            }
            _ => packet = (0..dice.random_range(1..200)).map(|_| dice.random()).collect(),
        }
        broken.push(Bytes::from(packet));
    }
    broken
}

#[tokio::test]
async fn broken_packets_are_heard_as_they_are_and_the_calls_go_on() {
    let rig = Rig::start(&[]).await;
    // The client takes its turns: noise is no question.
    let turns = json!({"input": {"turn_detection": null}});
    let session = json!({"type": "realtime", "audio": turns});
    let mut peer = Peer::with_session(&rig, &session).await;
    let mut beside = Peer::call(&rig).await;
    for packets in broken(&mut StdRng::seed_from_u64(6), 2_000).chunks(50) {
        packets.iter().for_each(|packet| peer.send_packet(packet.clone()));
        peer.listen(Duration::from_millis(5)).await;
    }
    for peer in [&mut beside, &mut peer] {
        peer.ask("Hello?");
        peer.until("output_audio_buffer.stopped").await;
        peer.close().await;
    }
    rig.quiet().await;
}

/// A leg whose decoder reads past its end, say.
struct BrokenLeg;

const BROKEN: &str = "index out of bounds: the len is 320 but the index is 320";

impl Leg for BrokenLeg {
    fn poll_recv(&mut self, _: &mut Context<'_>) -> Poll<FromCaller> {
        std::panic::panic_any(BROKEN);
    }

    fn send(&mut self, _: ToCaller) -> Result<(), LegLost> {
        Ok(())
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), LegLost>> {
        Poll::Ready(Ok(()))
    }

    fn name(&self) -> &'static str {
        "broken"
    }
}

/// A leg whose caller always has a sample ready, and which is lost when so much was said.
struct LostLeg {
    left: u32,
    polled: u32,
}

impl Leg for LostLeg {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<FromCaller> {
        self.polled += 1;
        // As a socket does, it lets others have their turn now and then.
        if self.polled.is_multiple_of(64) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(FromCaller::Audio(vec![0]))
    }

    fn send(&mut self, what: ToCaller) -> Result<(), LegLost> {
        if let ToCaller::Audio { .. } = what {
            self.left = self.left.checked_sub(1).ok_or(LegLost)?;
        }
        Ok(())
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), LegLost>> {
        Poll::Ready(Ok(()))
    }

    /// Nobody is there any more.
    fn poll_part(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn greets(&self) -> bool {
        true
    }

    fn lead_max(&self) -> Option<Duration> {
        Some(Duration::from_millis(40))
    }

    fn name(&self) -> &'static str {
        "lost"
    }
}

fn settings() -> Settings {
    Settings {
        instructions: String::new(),
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        max_tokens: None,
        modality: Modality::Audio,
        voice: None,
        speed: 1.0,
        out_rate_hz: 24_000,
        stops_at_pause: false,
        turn_detection: TurnDetection::Manual,
        transcribe: false,
        transcription_only: false,
        extra_events: false,
    }
}

/// A call of this leg's, from its slot to its end.
async fn call_on(service: &Arc<Service>, leg: Box<dyn Leg>) {
    let (control, _wakes) = mpsc::channel(1);
    let mut gates = service.gates.for_owner(control);
    let (now, call) = (service.clock.now(), service.next_call());
    let owner = OwnerId((1 << 62) + call.0);
    gates.rotate(now, owner, Generation(0), Cancelled::Client);
    let offer = Offer::plain(gates.name_offer(), owner, now, now + LIMIT);
    let Answer::Admitted(slot) = gates.ask(now, Stage::Call, offer) else { panic!("no slot") };
    let variables = Variables {
        call: "call-broken".to_owned(),
        transport: "broken",
        from: String::new(),
        to: String::new(),
        tenant: String::new(),
        params: BTreeMap::new(),
    };
    let agent = service.config.agents.values().next().expect("an agent");
    let accepted = Accepted::new(service, call, TenantId(0), agent, &variables);
    service.clone().run_call(slot, accepted, settings(), leg).await;
    service.gates.forget(owner);
}

/// Whatever panics where packets are decoded, in the leg, ends that call: its slot comes back, and
/// the others go on.
#[tokio::test]
async fn a_leg_that_panics_ends_its_call_alone() {
    let rig = Rig::start(&[]).await;
    let mut beside = Peer::call(&rig).await;
    let service = rig.serving.service.clone();
    let broken = tokio::spawn(async move { call_on(&service, Box::new(BrokenLeg)).await });
    let panicked = broken.await.expect_err("it ends as it broke").into_panic();
    assert_eq!(panicked.downcast_ref(), Some(&BROKEN));
    assert_eq!((rig.counts(Stage::Call).active, rig.service().registry.live_count()), (1, 1));
    beside.ask("Hello?");
    beside.until("output_audio_buffer.stopped").await;
    beside.close().await;
    rig.quiet().await;
}

/// A leg that is lost by what was due, not by what came, ends its call at once all the same.
#[tokio::test]
async fn a_leg_that_is_lost_when_a_frame_is_due_ends_its_call() {
    // Its voice has long ended then: nothing else wakes the call.
    let greeting = format!("agent.default.greeting=\"{REPLY}\"");
    let rig = Rig::start(&[&greeting]).await;
    for left in 10..20 {
        let service = rig.serving.service.clone();
        let call = call_on(&service, Box::new(LostLeg { left, polled: 0 }));
        assert!(tokio::time::timeout(LIMIT, call).await.is_ok(), "lost behind {left} frames");
    }
    rig.quiet().await;
}
