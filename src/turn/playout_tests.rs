//! Paced sending: what is sent when, and what of it was heard.

use super::*;
use crate::time::ms;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn one_second() -> Playout {
    let mut playout = Playout::new(at(0), 8_000, ms(200));
    playout.announce(0, "one two three four five six seven eight nine ten");
    assert!(playout.push(0, vec![1; 8_000]));
    playout.phrase_done(0, Vec::new());
    playout.complete();
    playout
}

fn drain(playout: &mut Playout, now: Timestamp) -> usize {
    std::iter::from_fn(|| playout.poll(now)).map(|pcm| pcm.samples.len() / 8).sum()
}

#[test]
fn at_most_lead_ms_are_sent_ahead_and_all_is_sent_in_time() {
    let mut playout = one_second();
    assert_eq!(drain(&mut playout, at(0)), 200);
    assert_eq!(playout.next_due(at(0)), Some(at(20)));
    assert_eq!(drain(&mut playout, at(20)), 20);
    let rest: usize = (2..=40).map(|tick| drain(&mut playout, at(tick * 20))).sum();
    assert_eq!(rest, 780);
    assert!(playout.all_sent());
    assert_eq!(playout.ends_at(at(800)), at(1_000));
}

#[test]
fn a_pause_lets_the_lead_play_and_a_resume_goes_on_there() {
    let mut playout = one_second();
    drain(&mut playout, at(0));
    drain(&mut playout, at(100));
    playout.pause(at(100));
    assert_eq!(drain(&mut playout, at(500)), 0);
    assert_eq!(playout.heard(at(500)), ms(300), "100 ms played and 200 ms were ahead");
    playout.resume(at(600));
    assert_eq!(drain(&mut playout, at(600)), 200);
    assert_eq!(playout.heard(at(700)), ms(400));
}

#[test]
fn while_it_may_be_interrupted_little_is_sent_ahead_and_none_is_missing() {
    let mut playout = one_second();
    assert_eq!(drain(&mut playout, at(0)), 200);
    playout.rein_in(at(0));
    assert_eq!((drain(&mut playout, at(100)), playout.next_due(at(100))), (0, Some(at(120))));
    playout.rein_in(at(110));
    assert_eq!(playout.next_due(at(110)), Some(at(180)), "40 ms are left then");
    assert_eq!((drain(&mut playout, at(180)), drain(&mut playout, at(200))), (20, 20));
    playout.pause(at(210));
    assert_eq!(playout.ends_at(at(210)), at(240), "not 410");
    playout.rein_in(at(210));
    assert!(playout.is_paused());
    playout.resume(at(210));
    assert_eq!(drain(&mut playout, at(210)), 160, "all that it may");
}

#[test]
fn a_sound_that_was_nothing_is_not_heard_in_the_answer() {
    let mut playout = one_second();
    let mut sent = drain(&mut playout, at(0));
    for tick in 1..=50 {
        let now = at(tick * 20);
        if (3..6).contains(&tick) {
            playout.rein_in(now);
        }
        assert!(tick * 20 < sent as u64 + 20, "the far end ran dry");
        assert_eq!(playout.heard(now), ms((tick * 20).min(1_000)), "{tick}");
        sent += drain(&mut playout, now);
        let due = playout.next_due(now);
        assert!(due.is_none_or(|due| due > now), "{due:?}");
    }
    assert_eq!(sent, 1_000);
}

#[test]
fn a_halt_is_heard_at_once_and_a_resume_sends_no_more_than_is_missing() {
    let mut playout = one_second();
    drain(&mut playout, at(0));
    drain(&mut playout, at(100));
    playout.halt(at(100));
    assert_eq!(playout.heard(at(500)), ms(100), "the far end was cleared");
    assert_eq!(playout.ends_at(at(500)), at(700));
    playout.resume(at(600));
    assert_eq!(drain(&mut playout, at(600)), 0, "200 ms are sent again by the leg");
    assert_eq!(drain(&mut playout, at(640)), 40);
    assert_eq!(playout.heard(at(700)), ms(200));
}

/// One second at a far end that plays what it gets 60 ms later, sent 40 ms ahead.
fn one_second_far_away() -> Playout {
    Playout { lead: ms(40), ..one_second() }.heard_after(ms(60))
}

#[test]
fn a_far_end_that_plays_later_has_heard_less_and_is_sent_no_more() {
    let (mut near, mut far) = (Playout { lead: ms(40), ..one_second() }, one_second_far_away());
    for tick in 0..=48 {
        let now = at(tick * 20);
        assert_eq!(drain(&mut near, now), drain(&mut far, now), "{tick}");
        assert_eq!(far.heard(now), ms((tick * 20).saturating_sub(60)), "{tick}");
    }
    assert!(far.all_sent());
    assert_eq!((near.ends_at(at(960)), far.ends_at(at(960))), (at(1_000), at(1_060)));
    assert_eq!(far.heard(at(1_060)), ms(1_000));
}

#[test]
fn a_far_end_that_ran_dry_starts_later_again() {
    let mut playout = one_second_far_away();
    assert_eq!(drain(&mut playout, at(0)), 40);
    playout.pause(at(10));
    assert_eq!((playout.heard(at(80)), playout.heard(at(500))), (ms(20), ms(40)));
    playout.resume(at(500));
    assert_eq!(drain(&mut playout, at(500)), 40);
    assert_eq!((playout.heard(at(560)), playout.heard(at(590))), (ms(40), ms(70)));
    assert_eq!(playout.ends_at(at(500)), at(600));
}

#[test]
fn a_short_gap_on_the_way_is_one_at_the_far_end() {
    let mut playout = one_second_far_away();
    assert_eq!(drain(&mut playout, at(0)), 40);
    // 30 ms behind the last sample on the way: the far end has 30 ms left to play.
    assert_eq!(drain(&mut playout, at(70)), 40);
    assert_eq!(playout.ends_at(at(70)), at(170));
    assert!(playout.heard(at(100)) <= ms(40));
    assert_eq!(playout.heard(at(170)), ms(80));
}

#[test]
fn what_the_far_end_plays_of_another_answer_is_not_waited_for_twice() {
    let mut playout = one_second_far_away();
    playout.begin_behind(at(0), at(90));
    assert_eq!(drain(&mut playout, at(0)), 0, "its last 30 ms are still to arrive");
    assert_eq!(playout.next_due(at(0)), Some(at(10)));
    assert_eq!(drain(&mut playout, at(10)), 20);
    assert_eq!(playout.ends_at(at(10)), at(110));
}

#[test]
fn a_cleared_far_end_starts_later_too() {
    let mut playout = one_second_far_away();
    drain(&mut playout, at(0));
    drain(&mut playout, at(40));
    playout.halt(at(70));
    assert_eq!(playout.heard(at(500)), ms(10));
    playout.resume(at(500));
    assert_eq!((playout.heard(at(560)), playout.heard(at(600))), (ms(10), ms(50)));
}

#[test]
fn what_follows_something_else_counts_from_its_end() {
    let mut playout = one_second();
    playout.begin_behind(at(0), at(150));
    assert_eq!(drain(&mut playout, at(0)), 40, "150 of the 200 ms are somebody else's");
    assert_eq!(playout.heard(at(150)), ms(0));
    assert_eq!(playout.ends_at(at(100)), at(190));
    assert_eq!(playout.heard(at(170)), ms(20));
}

#[test]
fn a_pause_in_the_sound_leaves_no_rest_behind() {
    let mut playout = Playout::new(at(0), 8_000, ms(200));
    playout.announce(0, "one");
    assert!(playout.push(0, vec![1; 250]));
    assert_eq!(drain(&mut playout, at(0)), 20);
    assert!(!playout.has_waiting(), "90 samples are no frame");
    playout.fill_frame();
    assert_eq!(drain(&mut playout, at(0)), 20);
    assert_eq!(playout.sent_time(), ms(40));
}

#[test]
fn heard_is_cut_at_whole_words_and_never_past_what_was_sent() {
    let mut playout = one_second();
    drain(&mut playout, at(0));
    assert_eq!(playout.heard(at(5_000)), ms(200));
    let script = playout.script();
    assert_eq!(script.heard(ms(200)), "one two");
    assert_eq!(script.heard(ms(1_000)), script.text);
    assert_eq!(script.heard(ms(0)), "");
}

#[test]
fn the_far_end_corrects_downwards_and_never_beyond_sent() {
    let mut playout = one_second();
    drain(&mut playout, at(0));
    playout.report(at(150), ms(60));
    assert_eq!(playout.heard(at(150)), ms(60));
    playout.report(at(150), ms(9_000));
    assert_eq!(playout.heard(at(150)), ms(200));
}
