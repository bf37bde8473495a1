//! May a callback be offered, or dialled, now? Pure: what is known of it in, a verdict out.
//!
//! Asked when the rung is tried, and again at the moment of dialling, with what holds then: consent
//! may have been taken back, an authorisation ended, the clock come into quiet hours.

/// Milliseconds of a minute and of a day.
const MINUTE_MS: u64 = 60_000;
const DAY_MINUTES: u64 = 1_440;
/// A wait grows by at most this part of itself, so that what failed together does not come back
/// together (C-026).
const JITTER_PER_MILLE_MAX: u64 = 250;

/// When the destination must not ring: daily, by its own clock, which is data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quiet {
    /// The first quiet minute of the day.
    pub from_minute: u16,
    /// The first minute that is quiet no more; before `from_minute` when midnight lies between, and
    /// equal to it when no minute is quiet.
    pub to_minute: u16,
    /// Minutes that the destination's clock is ahead of UTC, now.
    pub utc_offset_minutes: i16,
}

/// What is known of a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The caller said yes, that is on record, and it has not been taken back.
    pub consented: bool,
    /// Whoever has to allow it does.
    pub authorised: bool,
    /// Not earlier.
    pub not_before_ms: u64,
    /// Not later.
    pub expires_ms: u64,
    /// How often it was dialled.
    pub attempts: u32,
    /// How often it may be.
    pub attempts_max: u32,
    /// Before the second attempt; doubled before each further one.
    pub backoff_ms: u64,
    /// The longest wait between two attempts.
    pub backoff_max_ms: u64,
    /// When it must not ring.
    pub quiet: Option<Quiet>,
}

/// What is about to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The caller is asked whether they want it: before there is any consent.
    Offer,
    /// It is dialled.
    Dial,
}

/// Why it has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Its time has not come.
    NotBefore,
    /// It would ring in quiet hours.
    QuietHours,
}

/// Why it will not be dialled any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Never {
    /// Nobody agreed to it.
    NoConsent,
    /// Nobody allows it.
    NotAuthorised,
    /// Its time has passed.
    Expired,
    /// It was dialled as often as it may be.
    AttemptsSpent,
    /// What is left of its time is quiet.
    NoTimeLeft,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may.
    Now,
    /// It may, at that time and not earlier. An offer may be made all the same, of that time.
    At(u64, Wait),
    /// It may not.
    Never(Never),
}

/// Whether this may happen now.
pub fn may(step: Step, plan: &Plan, now_ms: u64) -> Verdict {
    if step == Step::Dial && !plan.consented {
        return Verdict::Never(Never::NoConsent);
    }
    if !plan.authorised {
        return Verdict::Never(Never::NotAuthorised);
    }
    if now_ms > plan.expires_ms {
        return Verdict::Never(Never::Expired);
    }
    if plan.attempts >= plan.attempts_max {
        return Verdict::Never(Never::AttemptsSpent);
    }
    let earliest_ms = now_ms.max(plan.not_before_ms);
    let loud_ms = out_of_quiet(plan.quiet, earliest_ms);
    if loud_ms > plan.expires_ms {
        return Verdict::Never(Never::NoTimeLeft);
    }
    match () {
        () if loud_ms > earliest_ms => Verdict::At(loud_ms, Wait::QuietHours),
        () if earliest_ms > now_ms => Verdict::At(earliest_ms, Wait::NotBefore),
        () => Verdict::Now,
    }
}

/// When to try again after an attempt that came to nothing and is counted in `attempts`; never when
/// no attempt is left, or none that lies in time (C-041). `jitter_hint` is any number, best a
/// random one: the same gives the same.
pub fn retry_at_ms(plan: &Plan, now_ms: u64, jitter_hint: u64) -> Option<u64> {
    if plan.attempts >= plan.attempts_max {
        return None;
    }
    let doublings = plan.attempts.saturating_sub(1).min(32);
    let wait_ms = plan.backoff_ms.saturating_mul(1 << doublings).min(plan.backoff_max_ms);
    let more_ms = wait_ms / 1_000 * (jitter_hint % (JITTER_PER_MILLE_MAX + 1));
    let next_ms = now_ms.saturating_add(wait_ms).saturating_add(more_ms);
    let next_ms = out_of_quiet(plan.quiet, next_ms.max(plan.not_before_ms));
    (next_ms <= plan.expires_ms).then_some(next_ms)
}

/// The first instant from here on that is not quiet.
fn out_of_quiet(quiet: Option<Quiet>, at_ms: u64) -> u64 {
    let Some(quiet) = quiet else { return at_ms };
    let (from, to) = (u64::from(quiet.from_minute), u64::from(quiet.to_minute));
    // A day more, so that the west of Greenwich stays above zero.
    let ahead = DAY_MINUTES.saturating_add_signed(i64::from(quiet.utc_offset_minutes));
    let minute = (at_ms / MINUTE_MS + ahead) % DAY_MINUTES;
    let over_midnight = from > to;
    let inside = match over_midnight {
        true => minute >= from || minute < to,
        false => (from..to).contains(&minute),
    };
    if !inside {
        return at_ms;
    }
    let left_minutes = (to + DAY_MINUTES - minute) % DAY_MINUTES;
    at_ms - at_ms % MINUTE_MS + left_minutes * MINUTE_MS
}
