//! Telephone calls over media streams: a server in this process, and a double of the provider that
//! buffers what it is sent, plays it, honours a clear and returns marks.

mod api;
mod barge_in;
mod conversation;
mod dialects;
mod double;
mod drain;
mod gate;
mod goodbye;
mod leg;
mod nonsense;
mod outgoing;
mod sdk;
mod signed;
mod transfer;

#[allow(dead_code, reason = "every test binary uses its own part of this")]
#[path = "../realtime/fake_socket.rs"]
mod fake_socket;
#[allow(dead_code, reason = "every test binary uses its own part of this")]
#[path = "../server/http.rs"]
mod http;
#[allow(dead_code, reason = "every test binary uses its own part of this")]
#[path = "../server/providers.rs"]
mod providers;
#[allow(dead_code, reason = "every test binary uses its own part of this")]
#[path = "../server/rig.rs"]
mod rig;
