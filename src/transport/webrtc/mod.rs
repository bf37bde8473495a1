//! WebRTC: a browser's voice over RTP and the Realtime events on its data channel.
//!
//! Beneath is `rtc`, the sans-I/O core of the `webrtc` crate. `webrtc` itself opens a socket for
//! every peer and reads its own clock; with the core all calls share the one UDP [`Port`], which is
//! ours, and every packet and timer of a call is worked on in that call's own task, so that a panic
//! there ends that call. The core also tells at once when a peer closes.
//!
//! [`Offer`] looks at what a client wants before anything is made for it. A [`Seat`] at the port
//! has the call's datagrams sorted out by `demux`; `peer` turns them into events and packets, the
//! jitter buffer and `sound` packets into sound; [`PeerLeg`] runs the Realtime protocol over it
//! all, and a [`Sideband`] is somebody else at the same session.

mod demux;
mod leg;
mod offer;
mod overlong;
mod peer;
mod port;
mod restart;
mod sideband;
mod sound;
mod unread;

pub use leg::{PeerLeg, Seated};
pub use offer::{BadOffer, CANDIDATES_MAX, Offer};
pub use port::{Port, PortStats, Seat};
pub use restart::Restarts;
pub use sideband::{Door, NoEntry, SIDEBANDS_MAX, Sideband, Voice};

/// The label of the data channel with the events.
pub const EVENTS_LABEL: &str = "oai-events";
