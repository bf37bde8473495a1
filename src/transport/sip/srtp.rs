//! Sound that is encrypted and proven (RFC 3711).

use bytes::BytesMut;
use rtc::shared::error::Error;
use rtc::srtp::context::Context;
use rtc::srtp::crypto::default_provider;
use rtc::srtp::option::srtp_replay_protection;
use rtc::srtp::protection_profile::ProtectionProfile;

use super::count::Count;
use super::crypto::{Key, Keys, Suite};

/// Packets that are remembered, so that none counts twice.
const REMEMBERED: usize = 128;
/// Streams that one key may have: a phone begins a new one now and then, as after a hold.
const STREAMS_MAX: usize = 32;
/// The library remembers each stream that it was asked about, proven or not; so many unproven ones,
/// and it is made anew.
const UNPROVEN_MAX: u32 = 64;

/// Both directions of one call.
pub(super) struct Guard {
    keys: Keys,
    theirs: Theirs,
    /// What they sent with until they had our answer, while that may still come.
    before: Option<Theirs>,
    /// Without it nothing is sent.
    ours: Option<Context>,
}

impl Guard {
    fn new(keys: Keys) -> Guard {
        let ours = context(keys.suite, &keys.ours);
        Guard { theirs: Theirs::new(&keys), before: None, ours, keys }
    }

    /// From now on these keys hold. What did not change goes on counting.
    pub fn follow(guard: &mut Option<Guard>, keys: Option<&Keys>) {
        match (&mut *guard, keys) {
            (Some(guard), Some(keys)) => guard.change(keys),
            (_, keys) => *guard = keys.cloned().map(Guard::new),
        }
    }

    fn change(&mut self, keys: &Keys) {
        let same_suite = keys.suite == self.keys.suite;
        if !same_suite || keys.theirs != self.keys.theirs {
            self.before = Some(std::mem::replace(&mut self.theirs, Theirs::new(keys)));
        }
        if !same_suite || keys.ours != self.keys.ours {
            self.ours = context(keys.suite, &keys.ours);
        }
        self.keys = keys.clone();
    }

    /// A packet of theirs, as it was before it was encrypted; or why it is none.
    pub fn open(&mut self, packet: &[u8]) -> Result<BytesMut, Count> {
        let opened = self.theirs.open(packet);
        match (&opened, &mut self.before) {
            (Ok(_), before) => *before = None,
            (Err(_), Some(before)) => return before.open(packet),
            (Err(_), None) => {}
        }
        opened
    }

    /// A packet of ours, as it is sent.
    pub fn seal(&mut self, packet: &[u8]) -> Option<BytesMut> {
        self.ours.as_mut()?.encrypt_rtp(packet).ok()
    }
}

/// What they encrypt with: each stream counts for itself.
struct Theirs {
    suite: Suite,
    key: Key,
    proven: Vec<(u32, Context)>,
    /// For the next stream.
    next: Option<Context>,
    unproven: u32,
}

impl Theirs {
    fn new(keys: &Keys) -> Theirs {
        let (suite, key) = (keys.suite, keys.theirs.clone());
        Theirs { suite, key, proven: Vec::new(), next: None, unproven: 0 }
    }

    fn open(&mut self, packet: &[u8]) -> Result<BytesMut, Count> {
        let ssrc = packet.get(8..12).and_then(|ssrc| ssrc.try_into().ok());
        let ssrc = u32::from_be_bytes(ssrc.ok_or(Count::RtpMalformed)?);
        if let Some((_, known)) = self.proven.iter_mut().find(|(of, _)| *of == ssrc) {
            return known.decrypt_rtp(packet).map_err(why);
        }
        if self.proven.len() == STREAMS_MAX {
            return Err(Count::RtpUnproven);
        }
        let next = self.next.take().or_else(|| context(self.suite, &self.key));
        let mut next = next.ok_or(Count::RtpUnproven)?;
        let opened = next.decrypt_rtp(packet);
        if opened.is_ok() {
            self.proven.push((ssrc, next));
            self.unproven = 0;
        } else {
            self.unproven = (self.unproven + 1) % UNPROVEN_MAX;
            self.next = (self.unproven > 0).then_some(next);
        }
        opened.map_err(why)
    }
}

fn why(error: Error) -> Count {
    match error {
        Error::SrtpSsrcDuplicated(..) => Count::RtpReplayed,
        Error::RtpFailedToVerifyAuthTag => Count::RtpUnproven,
        _ => Count::RtpMalformed,
    }
}

fn context(suite: Suite, key: &Key) -> Option<Context> {
    let profile = match suite {
        Suite::Tag80 => ProtectionProfile::Aes128CmHmacSha1_80,
        Suite::Tag32 => ProtectionProfile::Aes128CmHmacSha1_32,
    };
    let (key, salt) = key.parts();
    let replay = Some(srtp_replay_protection(REMEMBERED));
    let provider = default_provider().ok()?;
    Context::new(key, salt, profile, replay, None, provider.crypto()).ok()
}

#[cfg(test)]
#[path = "srtp_tests.rs"]
mod tests;
