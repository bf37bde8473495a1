//! Both ends' sound of a call, aligned, for those who want to listen to it or to measure it.

use super::sound::Bank;

/// What sounded: sample `n` of both tracks is at `n / rate_hz` seconds of the call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tracks {
    /// Samples a second.
    pub rate_hz: u32,
    /// What the caller's microphone sent.
    pub caller: Vec<i16>,
    /// What the caller's end played.
    pub agent: Vec<i16>,
}

/// How a script is staged: everything that is not in the script itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Staging<'a> {
    /// Seed of all that is drawn: noise, lost and late frames.
    pub seed: u64,
    /// The tracks are kept.
    pub record: bool,
    /// Recordings and voices made ahead, at the caller's rate; without, voices are stood in for and
    /// recordings are missing.
    pub bank: Option<&'a Bank>,
}
