//! Whether a callback may be offered or dialled now: tables of what is known and the verdict.

use floorkeeper::fallback::callback::{Never, Plan, Quiet, Step, Verdict, Wait, may, retry_at_ms};

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
/// 2027-01-15 at 08:00 UTC.
const EIGHT: u64 = 1_800_000_000_000;

fn plan() -> Plan {
    Plan {
        consented: true,
        authorised: true,
        not_before_ms: EIGHT,
        expires_ms: EIGHT + 24 * HOUR,
        attempts: 0,
        attempts_max: 3,
        backoff_ms: 10 * MINUTE,
        backoff_max_ms: HOUR,
        quiet: None,
    }
}

/// 21:00 to 08:00 by a clock so far ahead of UTC.
fn night(utc_offset_minutes: i16) -> Option<Quiet> {
    Some(Quiet { from_minute: 21 * 60, to_minute: 8 * 60, utc_offset_minutes })
}

/// A-134 (consent and authorisation at the action boundary), C-041, X-10.
#[test]
fn dialled_or_not() {
    let spent = Plan { attempts: 3, ..plan() };
    let later = Plan { not_before_ms: EIGHT + HOUR, ..plan() };
    let cases: [(&str, Plan, u64, Verdict); 10] = [
        ("A-134: all is well", plan(), EIGHT, Verdict::Now),
        ("A-134: taken back", Plan { consented: false, ..plan() }, EIGHT, never(Never::NoConsent)),
        (
            "A-134: not allowed any more",
            Plan { authorised: false, ..plan() },
            EIGHT,
            never(Never::NotAuthorised),
        ),
        ("X-10: at its end", plan(), EIGHT + 24 * HOUR, Verdict::Now),
        ("X-10: behind its end", plan(), EIGHT + 24 * HOUR + 1, never(Never::Expired)),
        ("C-041: spent", spent, EIGHT, never(Never::AttemptsSpent)),
        ("C-041: the last one", Plan { attempts: 2, ..plan() }, EIGHT, Verdict::Now),
        ("C-043: early", later, EIGHT, Verdict::At(EIGHT + HOUR, Wait::NotBefore)),
        ("C-043: on time", later, EIGHT + HOUR, Verdict::Now),
        (
            "A-134 before all else",
            Plan { consented: false, authorised: false, ..spent },
            EIGHT + 99 * HOUR,
            never(Never::NoConsent),
        ),
    ];
    for (name, plan, now, wanted) in cases {
        assert_eq!(may(Step::Dial, &plan, now), wanted, "{name}");
    }
}

fn never(why: Never) -> Verdict {
    Verdict::Never(why)
}

/// the offer comes before the consent, and only of something that could happen.
#[test]
fn offered_or_not() {
    let asked = Plan { consented: false, ..plan() };
    assert_eq!(may(Step::Offer, &asked, EIGHT), Verdict::Now);
    let unauthorised = Plan { authorised: false, ..asked };
    assert_eq!(may(Step::Offer, &unauthorised, EIGHT), never(Never::NotAuthorised));
    // What is left of its time is quiet: there is nothing to offer.
    let evening = EIGHT + 13 * HOUR;
    let tonight = Plan { quiet: night(0), expires_ms: EIGHT + 20 * HOUR, ..asked };
    assert_eq!(may(Step::Offer, &tonight, evening), never(Never::NoTimeLeft));
}

/// quiet hours are the destination's, over midnight and on both sides of Greenwich.
#[test]
fn quiet_hours() {
    let at = |utc_offset, now| may(Step::Dial, &Plan { quiet: night(utc_offset), ..plan() }, now);
    let wait = |until| Verdict::At(until, Wait::QuietHours);
    let cases = [
        ("08:00, the first loud minute", 0, EIGHT, Verdict::Now),
        ("20:59:59.999", 0, EIGHT + 13 * HOUR - 1, Verdict::Now),
        ("21:00", 0, EIGHT + 13 * HOUR, wait(EIGHT + 24 * HOUR)),
        ("07:59:59.999", 0, EIGHT + 24 * HOUR - 1, wait(EIGHT + 24 * HOUR)),
        ("02:00 in New York", -300, EIGHT - HOUR, wait(EIGHT + 5 * HOUR)),
        ("13:30 in Kolkata", 330, EIGHT, Verdict::Now),
        ("21:00 in Auckland", 780, EIGHT, wait(EIGHT + 11 * HOUR)),
    ];
    for (name, utc_offset, now, wanted) in cases {
        assert_eq!(at(utc_offset, now), wanted, "{name}");
    }
    let noon = Quiet { from_minute: 720, to_minute: 780, utc_offset_minutes: 0 };
    let none = Quiet { to_minute: 720, ..noon };
    let with = |quiet| may(Step::Dial, &Plan { quiet: Some(quiet), ..plan() }, EIGHT + 4 * HOUR);
    assert_eq!(with(noon), wait(EIGHT + 5 * HOUR));
    assert_eq!(with(none), Verdict::Now);
    // The start lies in quiet hours too: later than both.
    let tomorrow = Plan { not_before_ms: EIGHT + 14 * HOUR, quiet: night(0), ..plan() };
    assert_eq!(may(Step::Dial, &tomorrow, EIGHT), wait(EIGHT + 24 * HOUR));
}

/// C-026, C-040…C-043: spaced, doubled, bounded, spread, out of quiet hours, never behind the end.
#[test]
fn attempts_again() {
    let after = |attempts| Plan { attempts, attempts_max: 9, ..plan() };
    let at = |plan: Plan, hint| retry_at_ms(&plan, EIGHT, hint);
    assert_eq!(at(after(1), 0), Some(EIGHT + 10 * MINUTE));
    assert_eq!(at(after(2), 0), Some(EIGHT + 20 * MINUTE));
    assert_eq!(at(after(3), 0), Some(EIGHT + 40 * MINUTE));
    assert_eq!(at(after(4), 0), Some(EIGHT + HOUR));
    assert_eq!(at(Plan { attempts_max: u32::MAX, ..after(4_000_000) }, 0), Some(EIGHT + HOUR));
    assert_eq!(at(Plan { attempts: 3, ..plan() }, 0), None);
    let spread: Vec<u64> = (0..1_000).filter_map(|hint| at(after(1), hint)).collect();
    let (least, most) = (spread.iter().min(), spread.iter().max());
    assert_eq!(least, Some(&(EIGHT + 10 * MINUTE)));
    assert_eq!(most, Some(&(EIGHT + 12 * MINUTE + MINUTE / 2)));
    assert_eq!(at(after(1), 77), at(after(1), 77));
    let short = Plan { expires_ms: EIGHT + 10 * MINUTE, ..after(1) };
    assert_eq!(at(short, 0), Some(EIGHT + 10 * MINUTE));
    assert_eq!(at(short, 1), None);
    let evening = Plan { quiet: night(720), ..after(4) };
    assert_eq!(at(evening, 0), Some(EIGHT + 12 * HOUR));
}
