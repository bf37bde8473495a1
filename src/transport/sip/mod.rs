//! SIP: telephones and trunks that ring us, their voices over RTP.
//!
//! What is decided is decided without I/O: `dialog` is one call's signalling from INVITE to BYE,
//! `sdp` offer and answer, `resend` what is said until it is heard. `message`, `check` and `write`
//! read and write. Messages are ours because the libraries for them take 14 of RFC 4475's 19 wrong
//! ones, refuse two of its 13 right ones and read for all calls in one task, where a panic would
//! end them all (measured: rsipstack 0.7.14); here a test holds each.
//!
//! [`SipPort`] reads what comes by UDP, TCP and TLS and hands it to the dialog it is for; what is
//! for none is answered without a memory of it. An INVITE becomes a [`Ringing`], about which the
//! server decides, and a [`Signalling`], the task that speaks for it; answered, it is a
//! [`SipLeg`], with a port of its own for its sound.

mod bound;
mod call;
mod check;
mod codec;
mod count;
mod crypto;
mod dial;
mod dialog;
mod digest;
mod keys;
mod leg;
mod message;
mod network;
mod outgoing;
mod port;
mod press;
mod require;
mod resend;
mod respond;
mod rtp;
mod rtp_port;
mod sdp;
mod sound;
mod srtp;
mod stateless;
mod stream;
mod table;
mod talk;
mod write;

#[cfg(test)]
mod fuzz_tests;

pub use bound::NoPort;
pub use call::{Ear, Invited, Ringing, Signalling};
pub use codec::{Codec, Codecs};
pub use count::{Count, Counts};
pub use crypto::Srtp;
pub use dial::{Dial, Rung};
pub use digest::Users;
pub use leg::SipLeg;
pub use network::{Network, NoNetwork};
pub use port::{Invites, Settings, Shared, SipPort};
pub use respond::{Credentials, respond};
