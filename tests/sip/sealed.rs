//! A telephone's own SRTP, by the library that browsers' calls are encrypted with.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rtc::srtp::context::Context;
use rtc::srtp::crypto::default_provider;
use rtc::srtp::protection_profile::ProtectionProfile;

/// Key and salt.
pub type Key = [u8; 30];

pub fn name(suite: u32) -> String {
    format!("AES_CM_128_HMAC_SHA1_{suite}")
}

/// A key as a description says it.
pub fn line(suite: u32, key: &Key) -> String {
    format!("a=crypto:1 {} inline:{}\r\n", name(suite), STANDARD.encode(key))
}

/// The key that this description says.
pub fn said(sdp: &str, suite: u32) -> Key {
    let begins = format!("a=crypto:1 {} inline:", name(suite));
    let key = sdp.lines().find_map(|line| line.strip_prefix(&begins));
    STANDARD.decode(key.unwrap_or_else(|| panic!("{sdp}"))).unwrap().try_into().unwrap()
}

pub fn context(suite: u32, key: &Key) -> Context {
    let profile = match suite {
        80 => ProtectionProfile::Aes128CmHmacSha1_80,
        _ => ProtectionProfile::Aes128CmHmacSha1_32,
    };
    let provider = default_provider().unwrap();
    Context::new(&key[..16], &key[16..], profile, None, None, provider.crypto()).unwrap()
}

/// Both directions of a telephone.
pub struct Sealed {
    pub ours: Context,
    pub theirs: Context,
}

impl Sealed {
    pub fn new(suite: u32, ours: &Key, theirs: &Key) -> Sealed {
        Sealed { ours: context(suite, ours), theirs: context(suite, theirs) }
    }
}
