//! The table of dispositions holds to its rules (X-18, B-068); its page is
//! `tests/docs_reference.rs`.

use std::collections::BTreeSet;

use floorkeeper::admission::disposition::{Disposition, QUEUED, REASONS, RetryAfter, TERMINALS};
use floorkeeper::admission::{Closed, Overload, RefusalReason};

fn refused() -> impl Iterator<Item = &'static Disposition> {
    REASONS.iter().map(|reason| reason.disposition())
}

fn ended() -> impl Iterator<Item = &'static Disposition> {
    TERMINALS.iter().map(|terminal| terminal.disposition())
}

#[test]
fn every_reason_and_every_end_has_a_row_and_a_name_of_its_own() {
    for (place, reason) in REASONS.iter().enumerate() {
        assert_eq!(reason.index(), place);
    }
    for (place, terminal) in TERMINALS.iter().enumerate() {
        assert_eq!(terminal.index(), place);
    }
    let names: BTreeSet<String> = refused().map(Disposition::to_string).collect();
    assert_eq!(names.len(), REASONS.len());
    let names: BTreeSet<String> = ended().map(Disposition::to_string).collect();
    assert_eq!(names.len(), TERMINALS.len());
}

/// 429 is contended capacity, 503 none at all, 504 a wait that ran out.
#[test]
fn statuses_say_what_x_18_says() {
    for reason in REASONS {
        let row = reason.disposition();
        let (status, code) = match reason {
            RefusalReason::Overloaded(Overload::TenantShare) => (429, "admission_tenant_share"),
            RefusalReason::Overloaded(_) => (429, "admission_capacity"),
            RefusalReason::Expired => (504, "admission_queue_timeout"),
            RefusalReason::Closed(Closed::NoCapacity | Closed::NotReady) => {
                (503, "admission_no_capacity")
            }
            RefusalReason::Closed(Closed::Draining | Closed::Maintenance) => (503, "draining"),
            RefusalReason::Stale => (409, "admission_stale"),
            RefusalReason::OutOfOrder => (409, "admission_out_of_order"),
            RefusalReason::Duplicate => (409, "admission_duplicate"),
        };
        assert_eq!((row.http_status, row.http_code), (status, code), "{row}");
        assert!(
            row.sip_status != 503 || row.http_status == 503,
            "{row}: 503 is for the whole node"
        );
        let hint = row.retry != RetryAfter::Never;
        assert_eq!(hint, matches!(row.http_status, 429 | 503 | 504), "{row}");
    }
}

/// Whoever is told something is told it in a prompt that there is.
#[test]
fn every_prompt_named_here_exists() {
    let book = std::fs::read_to_string("fallback/prompts/en.toml").unwrap();
    for row in refused().chain(ended()).chain([&QUEUED]) {
        let there = row.prompt.is_empty() || book.contains(&format!("[prompt.{}]", row.prompt));
        assert!(there, "{row}: no prompt `{}`", row.prompt);
        let policy = matches!(row.http_status, 429 | 503 | 504);
        assert!(!policy || !row.prompt.is_empty(), "{row} leaves a caller in silence");
    }
}

#[test]
fn retry_after_is_b_068() {
    assert_eq!(RetryAfter::OneSecond.seconds(9_000), Some(1));
    let mean = [(0, 1), (1, 1), (1_001, 2), (29_500, 30), (90_000, 30)];
    for (mean_wait_ms, seconds) in mean {
        assert_eq!(RetryAfter::MeanWait.seconds(mean_wait_ms), Some(seconds));
    }
    assert_eq!(RetryAfter::Drain.seconds(0), Some(5));
    assert_eq!(RetryAfter::Never.seconds(0), None);
}
