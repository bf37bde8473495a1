//! Deliberately broken variants, one picked by `FLOORKEEPER_MUTANT`; only with feature `mutants`.

/// The variants of this folder, each caught by `tests/admission_mutants.rs`.
pub const ADMISSION: [&str; 6] = [
    "release_on_drop",
    "head_only_expiry",
    "watermark_moved_by_refusal",
    "newcomer_jumps",
    "second_release_counted",
    "generation_after_expiry",
];

/// Whether this variant was asked for.
#[cfg(feature = "mutants")]
pub fn is(name: &str) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| std::env::var("FLOORKEEPER_MUTANT").ok());
    chosen.as_deref() == Some(name)
}

/// Never, in this build.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub const fn is(_name: &str) -> bool {
    false
}
