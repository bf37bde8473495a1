//! What the ladder says with proofs in hand, for every cause, rung and locale (A-124…A-136): only
//! here and in the store can a proof be made.

use crate::config::Script;
use crate::evidence::{CallbackReceipt, HandoffAck};
use crate::fallback::{Cause, Claim, Climb, Facts, PromptId, Rung};
use crate::id::{CallbackId, HandoffId};

fn script() -> Script {
    Script::read(None).expect("the built-in script is right")
}

fn receipt() -> CallbackReceipt {
    CallbackReceipt::committed(CallbackId(1))
}

fn ack() -> HandoffAck {
    HandoffAck::received(HandoffId(1))
}

/// The prompt's claims are the same in every locale, and all of them hold.
fn holds_everywhere(script: &Script, facts: &Facts, rung: Rung, id: &PromptId) {
    for (locale, book) in &script.prompts.0 {
        let prompt = &book.prompts[id];
        let claims = &prompt.claims;
        assert!(facts.hold_on(rung, claims), "{id} in {locale} claims {claims:?}: {facts:?}");
    }
}

/// Every cause for which a rung can be offered has words for it once it is established, and none
/// before.
#[test]
fn a_promise_is_said_with_its_proof_and_never_without() {
    let script = script();
    let mut established = 0;
    for cause in Cause::all() {
        for (rung, promise) in
            [(Rung::Callback, "callback_committed"), (Rung::Handoff, "handoff_acknowledged")]
        {
            let tried: Vec<Rung> = Rung::ALL.into_iter().filter(|other| *other != rung).collect();
            let climb = Climb {
                tried: &tried,
                callback_offered: rung == Rung::Callback,
                handoff_offered: rung == Rung::Handoff,
            };
            let plain = Facts::of(&cause);
            let offered = script.ladder.next(&cause, &climb, &plain).rung == rung;
            let proven = match rung {
                Rung::Callback => plain.clone().committed(&receipt()),
                _ => plain.clone().acknowledged(&ack()),
            };
            let said = script.ladder.say(&cause, rung, &proven);
            if offered {
                assert_eq!(said, Some(PromptId::new(promise)), "{} {rung}", cause.label());
                established += 1;
            }
            if let Some(id) = said {
                holds_everywhere(&script, &proven, rung, &id);
            }
            // The other one's proof proves nothing of this one.
            let other = match rung {
                Rung::Callback => plain.clone().acknowledged(&ack()),
                _ => plain.clone().committed(&receipt()),
            };
            for facts in [plain.clone().offering(rung), plain.asked(), other] {
                let said = script.ladder.say(&cause, rung, &facts);
                assert_ne!(said, Some(PromptId::new(promise)), "{} {rung}", cause.label());
            }
        }
    }
    assert!(established > 100, "{established} causes offer a rung");
}

/// What could not be told in time is told by the next goodbye, and nothing else is claimed against
/// it.
#[test]
fn with_a_callback_on_record_nothing_says_that_there_is_none() {
    let script = script();
    for cause in Cause::all() {
        for retries in 0..=script.ladder.retry_max() {
            let facts = Facts::of(&cause).retried(retries).committed(&receipt()).exists();
            assert!(!facts.holds(Claim::NothingArranged));
            let mut tried = Vec::new();
            loop {
                let climb = Climb { tried: &tried, callback_offered: false, handoff_offered: true };
                let next = script.ladder.next(&cause, &climb, &facts);
                let id = next.prompt.unwrap_or_else(|| {
                    panic!("no true word: {} {} {tried:?} {facts:?}", cause.label(), next.rung)
                });
                let facts = facts.clone().offering(next.rung);
                holds_everywhere(&script, &facts, next.rung, &id);
                if next.rung == Rung::Goodbye {
                    break;
                }
                tried.push(next.rung);
            }
        }
    }
}
