//! What somebody who was rung is told of their caller, in the agent's voice: a unit of synthesis
//! for as long as that is made, and no longer.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::DropGuard;

use super::RATE_HZ;
use crate::admission::{Lease, Offer, OwnerId, Release};
use crate::call::Brief;
use crate::evidence::Unknown;
use crate::fallback::DeskWords;
use crate::id::{Stage, TenantId};
use crate::provider::tts::{Phrase, TtsOptions, TtsSignal};
use crate::provider::{Cancel, Ended};
use crate::runtime::effects::Converter;
use crate::runtime::http::slot;
use crate::runtime::service::Service;

/// Owners of these units at the gate.
const DESK_OWNERS: u64 = 1 << 61;
/// What is longer is cut off.
const LENGTH_MAX: Duration = Duration::from_secs(15);
/// How long a run whose unit is unknown is still listened to.
const LATE_EVIDENCE_MAX: Duration = Duration::from_secs(120);

/// What is said of the caller; empty where nothing is known.
pub(super) fn words(texts: &DeskWords, brief: &Brief) -> String {
    let digits = |number: &String| match number.strip_prefix("sip:") {
        Some(address) => address.to_owned(),
        // Digit by digit.
        None => number.chars().flat_map(|c| [c, ' ']).collect::<String>().trim_end().to_owned(),
    };
    let parts = [
        (&texts.from, "{number}", brief.number.as_ref().map(digits)),
        (&texts.asked, "{words}", brief.asked.clone()),
        (&texts.told, "{words}", brief.told.clone()),
    ];
    let said = parts.into_iter().filter(|(text, _, _)| !text.is_empty());
    let said = said.filter_map(|(text, gap, known)| Some(text.replace(gap, known?.as_str())));
    said.collect::<Vec<String>>().join(" ")
}

/// Sound in the making. Dropping it stops that.
pub(super) struct Voiced {
    sound: oneshot::Receiver<Vec<i16>>,
    _stop: DropGuard,
}

impl Voiced {
    /// All of it, once it is there; nothing where it cannot be had.
    pub async fn sound(self) -> Vec<i16> {
        self.sound.await.unwrap_or_default()
    }
}

/// Begins to make the sound of these words.
pub(super) fn voice(
    service: Arc<Service>,
    tenant: TenantId,
    text: String,
    options: TtsOptions,
) -> Voiced {
    let (tell, sound) = oneshot::channel();
    let cancel = Cancel::new();
    let stop = cancel.clone().drop_guard();
    tokio::spawn(async move {
        let owner = OwnerId(DESK_OWNERS | service.next_call().0);
        let gates = service.gates.clone();
        let taking =
            slot::take_at(&gates, Stage::Synthesis, owner, |offer| Offer { tenant, ..offer });
        let taken = tokio::select! {
            taken = taking => taken,
            () = cancel.cancelled() => return,
        };
        // Where there is no room they are told only what needs none.
        let Ok(mut slot) = taken else { return };
        let Some(lease) = slot.use_it() else { return };
        let samples = speak(&service, lease, text, options, cancel).await;
        let _ = tell.send(samples); // whoever wanted it may have gone
        drop(slot);
    });
    Voiced { sound, _stop: stop }
}

/// Speaks, and gives the unit back on proof.
async fn speak(
    service: &Service,
    lease: Lease,
    text: String,
    options: TtsOptions,
    cancel: Cancel,
) -> Vec<i16> {
    let Some(tts) = service.backends().and_then(|backends| backends.tts.clone()) else {
        service.gates.settle_unused(lease);
        return Vec::new();
    };
    let (input, phrases) = mpsc::channel(1);
    let (out, mut signals) = mpsc::channel(32);
    // It has room for one.
    let _ = input.try_send(Phrase { index: 0, text });
    drop(input);
    let stop = cancel.clone();
    let run = tokio::spawn(async move { tts.run(options, phrases, out, stop).await });
    let (mut converter, mut samples) = (Converter::to(RATE_HZ), Vec::new());
    let most = RATE_HZ as usize * LENGTH_MAX.as_secs() as usize;
    let given_up = async {
        cancel.cancelled().await;
        tokio::time::sleep(service.evidence(Stage::Synthesis)).await;
    };
    let mut given_up = std::pin::pin!(given_up);
    loop {
        let signal = tokio::select! {
            signal = signals.recv() => signal,
            () = &mut given_up => None,
        };
        let Some(signal) = signal else { break };
        if let TtsSignal::Audio { pcm, .. } = signal {
            samples.extend(converter.convert(pcm));
        }
        if samples.len() > most {
            cancel.cancel();
            samples.truncate(most);
        }
    }
    settle(service, lease, run).await;
    samples
}

/// Its last word was heard: its end is proven in time, or late, or not at all.
async fn settle(service: &Service, lease: Lease, mut run: tokio::task::JoinHandle<Ended>) {
    let (stage, offer) = (lease.stage, lease.offer);
    let ended = tokio::time::timeout(service.evidence(stage), &mut run).await;
    let release = match ended {
        Ok(Ok(Ended { proof: Ok(evidence), fault: None })) => Release::Completed(evidence),
        Ok(Ok(Ended { proof: Ok(evidence), fault: Some(_) })) => Release::Failed(evidence),
        Ok(Ok(Ended { proof: Err(unknown), .. })) => Release::Unknown(unknown),
        Ok(Err(_)) => Release::Unknown(Unknown::Dropped),
        Err(_) => Release::Unknown(Unknown::CancelTimeout),
    };
    service.gates.settle(lease, release);
    if ended.is_ok() {
        return;
    }
    let gates = service.gates.clone();
    tokio::spawn(async move {
        let late = tokio::time::timeout(LATE_EVIDENCE_MAX, run).await;
        if let Ok(Ok(Ended { proof: Ok(evidence), .. })) = late {
            // A unit that was reclaimed meanwhile is free already.
            let _ = gates.late_evidence(stage, offer, evidence);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known_is_said() {
        let texts = DeskWords {
            from: "From {number}.".into(),
            asked: "They said: {words}.".into(),
            told: "They were told: {words}.".into(),
        };
        let nobody = Brief::default();
        assert_eq!(words(&texts, &nobody), "");
        let some = Brief {
            number: Some("+1555".into()),
            asked: Some("where is my order".into()),
            ..nobody
        };
        assert_eq!(words(&texts, &some), "From + 1 5 5 5. They said: where is my order.");
        let at = Brief {
            number: Some("sip:ada@desk.example".into()),
            told: Some("it is on its way".into()),
            ..Brief::default()
        };
        let said = "From ada@desk.example. They were told: it is on its way.";
        assert_eq!(words(&texts, &at), said);
    }
}
