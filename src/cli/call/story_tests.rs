//! The turn table from hand-written events.

use super::*;

fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn note(gate: &str, disposition: &str, turn: Option<&str>) -> Admission {
    Admission {
        gate: gate.into(),
        disposition: disposition.into(),
        turn: turn.map(str::to_owned),
        generation: "1".into(),
        ..Admission::default()
    }
}

#[test]
fn waits_and_work_are_told_apart_per_stage() {
    let mut story = Story::default();
    story.admission(at(100), note("recognition", "admitted", None));
    story.caller_frame(at(900), true, false);
    story.committed("item_1".into());
    story.turn_state("turn-1".into(), "committed".into());
    story.admission(at(1_400), note("recognition", "completed", None));
    story.admission(at(1_410), note("model", "queued", Some("turn-1")));
    story.admission(at(1_660), note("model", "admitted", Some("turn-1")));
    story.response_created("resp_1".into());
    story.agent_heard(at(2_000), "resp_1");
    story.admission(at(2_100), note("model", "completed", Some("turn-1")));
    let turns = story.into_turns();
    assert_eq!(turns.len(), 1);
    assert_eq!(turns[0].first_audio_ms, Some(1_100));
    let told: Vec<_> =
        turns[0].stages.iter().map(|s| (s.gate.as_str(), s.wait_ms, s.work_ms)).collect();
    assert_eq!(told, [("recognition", Some(0), Some(1_300)), ("model", Some(250), Some(440))]);
}

#[test]
fn a_barge_in_is_timed_from_the_start_of_the_callers_sound() {
    let mut story = Story::default();
    story.committed("item_1".into());
    story.response_created("resp_1".into());
    story.words("resp_1", "item_2", "There was a king who had three sons.", false);
    story.caller_frame(at(5_000), true, true);
    story.caller_frame(at(5_020), true, true);
    story.paused(at(5_080));
    story.cleared(at(5_260), true);
    story.item_is_now("item_2", "There was a king");
    story.response_done("resp_1", "cancelled", None);
    story.committed("item_3".into());
    story.response_created("resp_2".into());
    story.late("resp_1", 2);
    let turns = story.into_turns();
    let first = &turns[0];
    assert_eq!((first.stops[0].pause_ms, first.stops[0].clear_ms), (Some(80), Some(260)));
    assert!(first.cut && !first.stops[0].resumed);
    assert_eq!(first.heard, "There was a king");
    assert_eq!((first.late_frames, turns[1].late_frames), (2, 0));
}

#[test]
fn a_back_channel_resumes_and_clears_nothing() {
    let mut story = Story::default();
    story.committed("item_1".into());
    story.caller_frame(at(1_000), true, true);
    story.paused(at(1_070));
    story.resumed();
    story.cleared(at(9_000), false);
    let turns = story.into_turns();
    assert_eq!(turns[0].stops.len(), 1);
    assert!(turns[0].stops[0].resumed && turns[0].stops[0].clear_ms.is_none());
}

#[test]
fn a_claim_is_neither_waiting_nor_work() {
    let mut story = Story::default();
    story.committed("item_1".into());
    story.turn_state("1".into(), "committed".into());
    let claim = |disposition| Admission {
        reason: "claim".into(),
        ..note("synthesis", disposition, Some("1"))
    };
    story.admission(at(100), claim("admitted"));
    story.admission(at(500), claim("expired"));
    story.admission(at(700), note("synthesis", "admitted", Some("1")));
    story.admission(at(900), note("synthesis", "completed", Some("1")));
    let turns = story.into_turns();
    let told: Vec<_> = turns[0].stages.iter().map(|s| (s.wait_ms, s.work_ms)).collect();
    assert_eq!(told, [(Some(0), Some(200))]);
    assert!(turns[0].refusals.is_empty());
}

#[test]
fn recognition_belongs_to_the_turn_its_words_begin() {
    let mut story = Story::default();
    story.committed("item_1".into());
    story.turn_state("1".into(), "committed".into());
    story.admission(at(100), note("model", "admitted", Some("1")));
    // The caller interrupts: the utterance is offered under the old generation and ends in a new.
    story.admission(at(1_000), note("recognition", "admitted", None));
    story.committed("item_2".into());
    let ended = Admission { generation: "3".into(), ..note("recognition", "completed", None) };
    story.admission(at(1_800), ended);
    let turns = story.into_turns();
    let gates = |turn: &Turn| turn.stages.iter().map(|s| s.gate.clone()).collect::<Vec<_>>();
    assert_eq!(
        (gates(&turns[0]), gates(&turns[1])),
        (vec!["model".into()], vec!["recognition".into()])
    );
    assert_eq!(turns[1].stages[0].work_ms, Some(800));
}

#[test]
fn a_refusal_names_its_gate_and_reason() {
    let mut story = Story::default();
    story.committed("item_1".into());
    let closed = Admission { reason: "no_capacity".into(), ..note("model", "closed", None) };
    story.admission(at(10), closed);
    story.fallback(Rung {
        rung: "goodbye".into(),
        outcome: "established".into(),
        prompt: "closed".into(),
    });
    story.response_done("resp_1", "failed", Some("admission_no_capacity".into()));
    let turns = story.into_turns();
    assert_eq!(turns[0].refusals, ["model closed{no_capacity}"]);
    assert_eq!(turns[0].outcome.as_deref(), Some("failed (admission_no_capacity)"));
    assert_eq!(turns[0].stages[0].work_ms, None);
}
