//! The call gate listens to its stages: new calls give way before turns of accepted ones are
//! refused.

use floorkeeper::admission::gate::Pressure;
use floorkeeper::admission::limits::Limits;
use floorkeeper::admission::pressure::{Hearing, Listener, StageLoad};

use crate::desk::{Desk, Said, at};

/// A full stage presses as well.
const FULL: Hearing = Hearing { age_ms: 1_000, calm_ms: 3_000, full: true };

fn load(desk: &Desk, now_ms: u64) -> StageLoad {
    StageLoad::of(&desk.gate.counts(at(now_ms)), desk.gate.ledger().total())
}

#[test]
fn a_full_stage_makes_new_calls_wait_and_a_refused_turn_refuses_them() {
    let mut model = Desk::new(Limits::of(2, 0));
    let mut listener = Listener::new(FULL);
    assert_eq!(listener.hear(at(0), &[load(&model, 0)]), Pressure::Open);
    model.fresh(0, 1, 1);
    assert_eq!(listener.hear(at(0), &[load(&model, 0)]), Pressure::Open);
    model.fresh(0, 2, 2);
    assert_eq!(listener.hear(at(1), &[load(&model, 1)]), Pressure::Queue);
    assert!(matches!(model.fresh(2, 3, 3), Said::No(_)));
    assert_eq!(listener.hear(at(2), &[load(&model, 2)]), Pressure::Refuse);
    // One refusal counts once; the stage stays full.
    assert_eq!(listener.hear(at(2_000), &[load(&model, 2_000)]), Pressure::Refuse);
    assert_eq!(listener.hear(at(5_000), &[load(&model, 5_000)]), Pressure::Queue);
    assert_eq!(listener.hear(at(60_000), &[load(&model, 60_000)]), Pressure::Queue);
}

#[test]
fn a_turn_that_waits_long_presses_as_a_refused_one_does() {
    let mut model = Desk::new(Limits::of(1, 4));
    let mut listener = Listener::new(FULL);
    model.fresh(0, 1, 1);
    model.fresh(0, 2, 2);
    assert_eq!(listener.hear(at(1_000), &[load(&model, 1_000)]), Pressure::Queue);
    assert_eq!(listener.hear(at(1_001), &[load(&model, 1_001)]), Pressure::Refuse);
}

#[test]
fn the_level_goes_down_one_step_at_a_time_and_only_after_calm() {
    let free = StageLoad { free_units: Some(1), oldest_queued_ms: None, refused: 9 };
    let full = StageLoad { free_units: Some(0), ..free };
    let late = StageLoad { oldest_queued_ms: Some(9_000), ..full };
    let mut listener = Listener::new(FULL);
    assert_eq!(listener.hear(at(0), &[free, late]), Pressure::Queue, "one step at a time");
    assert_eq!(listener.hear(at(0), &[free, late]), Pressure::Refuse);
    assert_eq!(listener.hear(at(1_000), &[free, free]), Pressure::Refuse);
    assert_eq!(listener.hear(at(3_999), &[free, free]), Pressure::Refuse);
    assert_eq!(listener.hear(at(4_000), &[free, free]), Pressure::Queue);
    assert_eq!(listener.hear(at(5_000), &[free, full]), Pressure::Queue);
    assert_eq!(listener.hear(at(6_000), &[free, free]), Pressure::Queue);
    assert_eq!(listener.hear(at(9_000), &[free, free]), Pressure::Open);
}

#[test]
fn what_was_refused_before_anybody_listened_presses_nobody() {
    let past = StageLoad { free_units: None, oldest_queued_ms: None, refused: 1_000 };
    let mut listener = Listener::new(FULL);
    assert_eq!(listener.hear(at(0), &[past]), Pressure::Open);
    assert_eq!(listener.hear(at(1), &[past, past]), Pressure::Open);
    let more = StageLoad { refused: 1_001, ..past };
    assert_eq!(listener.hear(at(2), &[past, more]), Pressure::Queue);
    assert_eq!(listener.hear(at(3), &[]), Pressure::Queue);
}

#[test]
fn by_default_only_refused_and_late_turns_press() {
    let mut model = Desk::new(Limits::of(1, 0));
    let mut listener = Listener::new(Hearing::default());
    model.fresh(0, 1, 1);
    assert_eq!(listener.hear(at(0), &[load(&model, 0)]), Pressure::Open, "full, nobody refused");
    assert!(matches!(model.fresh(2, 2, 2), Said::No(_)));
    assert_eq!(listener.hear(at(1_000), &[load(&model, 1_000)]), Pressure::Queue);
    assert!(matches!(model.fresh(1_500, 3, 3), Said::No(_)));
    assert_eq!(listener.hear(at(2_000), &[load(&model, 2_000)]), Pressure::Refuse);
    assert_eq!(listener.hear(at(3_000), &[load(&model, 3_000)]), Pressure::Refuse);
    assert_eq!(listener.hear(at(6_000), &[load(&model, 6_000)]), Pressure::Queue);
    assert_eq!(listener.hear(at(9_000), &[load(&model, 9_000)]), Pressure::Open);
}
