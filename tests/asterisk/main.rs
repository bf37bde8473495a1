//! Calls that an Asterisk brings: a server in this process, and doubles of Asterisk's WebSocket
//! channel and of its AudioSocket that write and read what the real ones do.

mod audiosocket;
mod audiosocket_wrong;
mod channel;
mod channel_gate;
mod dialplan;
mod double;
mod leg;
mod socket;

#[allow(dead_code, reason = "every test binary uses its own part of this")]
#[path = "../server/http.rs"]
mod http;
#[allow(dead_code, reason = "every test binary uses its own part of this")]
#[path = "../server/providers.rs"]
mod providers;
#[allow(dead_code, reason = "every test binary uses its own part of this")]
#[path = "../server/rig.rs"]
mod rig;
