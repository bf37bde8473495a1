//! What came and went no further, by why.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why something was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// A message that is none, or a request that is wrong.
    Malformed,
    /// A message or a connection of somebody who may not ring here.
    Strangers,
    /// A request of somebody who has to say a password first.
    Unproven,
    /// A message for no dialog.
    Nobodys,
    /// A message whose call did not keep up.
    Overrun,
    /// An INVITE beyond what is remembered at once, or a connection beyond what is open.
    Flood,
    /// A connection for TLS that was none in time.
    NoTls,
    /// A parser broke, and the message with it.
    Broken,
    /// RTP that is none, or too long.
    RtpMalformed,
    /// RTP from an address that nothing was agreed on with.
    RtpOfStrangers,
    /// RTP of a codec that was not agreed on, comfort noise among them.
    RtpUnknownType,
    /// SRTP that was not encrypted with the key that was agreed on.
    RtpUnproven,
    /// SRTP that has come before.
    RtpReplayed,
    /// RTCP, which tells us nothing.
    Rtcp,
}

impl Count {
    /// Each of them.
    pub const ALL: [Count; 14] = [
        Count::Malformed,
        Count::Strangers,
        Count::Unproven,
        Count::Nobodys,
        Count::Overrun,
        Count::Flood,
        Count::NoTls,
        Count::Broken,
        Count::RtpMalformed,
        Count::RtpOfStrangers,
        Count::RtpUnknownType,
        Count::RtpUnproven,
        Count::RtpReplayed,
        Count::Rtcp,
    ];

    /// The stable label of the metrics.
    pub fn label(self) -> &'static str {
        match self {
            Count::Malformed => "malformed",
            Count::Strangers => "strangers",
            Count::Unproven => "unproven",
            Count::Nobodys => "nobodys",
            Count::Overrun => "overrun",
            Count::Flood => "flood",
            Count::NoTls => "no_tls",
            Count::Broken => "broken",
            Count::RtpMalformed => "rtp_malformed",
            Count::RtpOfStrangers => "rtp_of_strangers",
            Count::RtpUnknownType => "rtp_unknown_type",
            Count::RtpUnproven => "rtp_unproven",
            Count::RtpReplayed => "rtp_replayed",
            Count::Rtcp => "rtcp",
        }
    }
}

/// How often each happened.
#[derive(Debug, Default)]
pub struct Counts([AtomicU64; Count::ALL.len()]);

impl Counts {
    pub(super) fn add(&self, what: Count) {
        self.0[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How often this did.
    pub fn of(&self, what: Count) -> u64 {
        self.0[what as usize].load(Ordering::Relaxed)
    }
}
