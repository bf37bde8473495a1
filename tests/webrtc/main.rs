//! Calls from browsers: a server in this process, and a peer over loopback.

mod bad_input;
mod browser;
mod conversation;
mod emulator;
mod ends;
mod network;
mod offers;
mod packets;
mod peer;
mod restart;
mod resume;
mod sessions;
mod sideband;

#[allow(dead_code, reason = "every test binary uses its own part of this")]
#[path = "../server/client.rs"]
mod client;
#[allow(dead_code, reason = "every test binary uses its own part of this")]
#[path = "../server/http.rs"]
mod http;
#[allow(dead_code, reason = "every test binary uses its own part of this")]
#[path = "../server/providers.rs"]
mod providers;
#[allow(dead_code, reason = "every test binary uses its own part of this")]
#[path = "../server/rig.rs"]
mod rig;
