//! Deliberately broken variants, one picked by `FLOORKEEPER_MUTANT`; only with feature `mutants`.

/// The variants of the stores' common rules, each caught by `tests/store_conformance`.
pub const RULES: [&str; 5] =
    ["unknown_redialled", "epoch_ignored", "lease_ignored", "key_ignored", "batch_over_bound"];

/// The variants of what happens when the disk says no, each caught by `tests/store_crash`.
pub const DISK: [&str; 2] = ["answer_before_commit", "flush_tried_again"];

/// Whether this variant was asked for.
#[cfg(feature = "mutants")]
pub(crate) fn is(name: &str) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| std::env::var("FLOORKEEPER_MUTANT").ok());
    chosen.as_deref() == Some(name)
}

/// Never, in this build.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub(crate) const fn is(_name: &str) -> bool {
    false
}
