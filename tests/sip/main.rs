//! Telephone calls over SIP: a server in this process, and a telephone of our own that speaks SIP
//! word by word, so that it can also speak it wrongly.

mod bad_input;
mod bridged;
mod codecs;
mod conversation;
mod dialled;
mod fuzz;
mod gate;
mod hold;
mod keys;
mod lost;
mod mutate;
mod passwords;
mod phone;
mod profiles;
mod refer;
mod sealed;
mod softphones;
mod srtp;
mod stream;
mod tls;
mod voice;

#[allow(dead_code, reason = "every test binary uses its own part of this")]
#[path = "../server/certificates.rs"]
mod certificates;
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
