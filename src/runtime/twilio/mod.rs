//! Calls that we have Twilio make: its REST API, and what it tells of each call by webhooks.
//!
//! A call is followed under a name that nobody guesses, which is in the addresses that Twilio is
//! given for it. So whatever it says of a call finds whoever waits for it, also when the answer to
//! the request that placed the call was lost.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;
use url::Url;

use crate::config::Config;
use crate::store::OpenError;
use crate::transport::Leg;
use crate::transport::twilio::rest::Call;
use crate::transport::twilio::twiml;

mod api;
mod dial;
mod transfer;

use api::Api;
pub(super) use dial::TwilioLine;
pub(super) use transfer::Moves;

/// What may wait to be read of one call: it says less.
const SAID_MAX: usize = 16;
/// Calls that are remembered to be ours: more than are placed while one request is in doubt.
const PLACED_MAX: usize = 256;
/// Where Twilio finds what belongs to a call of ours.
pub(super) const PATH: &str = "/v1/twilio/outgoing";

/// Calls that Twilio makes for us.
pub struct Twilio {
    api: Api,
    public: Url,
    followed: Mutex<HashMap<String, Followed>>,
    /// Twilio's names of the last calls that we know to be ours.
    placed: Mutex<VecDeque<String>>,
}

struct Followed {
    out: mpsc::Sender<Said>,
    /// Who has wanted it.
    tenant: String,
    /// What becomes of the call when a person answers.
    answer: String,
}

/// What Twilio says of a call.
pub(super) enum Said {
    /// How it stands, and the SIP status that it came to where it failed.
    Stands(Call, Option<u16>),
    /// Somebody has answered, and the call is a stream.
    Streams(String, Box<dyn Leg>),
    /// The call of this name has come into the room.
    Joined(String),
}

impl std::fmt::Debug for Twilio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Twilio").field("public", &self.public).finish_non_exhaustive()
    }
}

impl Twilio {
    /// None where the configuration names no account.
    pub(super) fn open(config: &Config) -> Result<Option<Arc<Twilio>>, OpenError> {
        let settings = &config.twilio;
        let (Some(account_sid), Some(variable), Some(public)) =
            (&settings.account_sid, &settings.auth_token_env, &config.public_url)
        else {
            return Ok(None);
        };
        let token = std::env::var(variable).unwrap_or_default();
        let wrong = |key: &str, problem: String, right: &str| OpenError::Config {
            key: key.to_owned(),
            problem,
            right: right.to_owned(),
        };
        if token.is_empty() {
            let problem = format!("the environment variable {variable} is not set");
            return Err(wrong("twilio.auth_token_env", problem, "set it to the account's token"));
        }
        let api = Api::new(&settings.api_url, account_sid, &token).ok_or_else(|| {
            let problem = "its host can have no certificate".to_owned();
            wrong("twilio.api_url", problem, "write a host's name")
        })?;
        let (followed, placed) = (Mutex::default(), Mutex::default());
        Ok(Some(Arc::new(Twilio { api, public: public.clone(), followed, placed })))
    }

    /// Begins to follow a call to be; `answer` is what becomes of it when a person answers.
    fn follow(
        self: &Arc<Self>,
        tenant: &str,
        answer: impl FnOnce(&Addresses) -> String,
    ) -> Following {
        let name = format!("{:032x}", rand::random::<u128>());
        let addresses = Addresses::of(&self.public, &name);
        let (out, said) = mpsc::channel(SAID_MAX);
        let answer = answer(&addresses);
        let followed = Followed { out, tenant: tenant.to_owned(), answer };
        self.followed().insert(name.clone(), followed);
        Following { twilio: self.clone(), name, addresses, said }
    }

    /// Somebody has answered: what becomes of the call.
    pub(super) fn answered(&self, name: &str, call: Call) -> String {
        let followed = self.followed();
        match followed.get(name) {
            // Nobody waits for it any more, or a machine would hear us.
            None => twiml::HANG_UP.to_owned(),
            Some(followed) => {
                let is_machine = call.machine;
                // Whoever reads no more has gone.
                let _ = followed.out.try_send(Said::Stands(call, None));
                if is_machine { twiml::HANG_UP.to_owned() } else { followed.answer.clone() }
            }
        }
    }

    /// What Twilio says of a call; of one that nobody follows any more it is nothing new.
    pub(super) fn tell(&self, name: &str, said: Said) {
        if let Some(followed) = self.followed().get(name) {
            let _ = followed.out.try_send(said);
        }
    }

    /// Who has wanted the call that is followed under this name; none: nobody follows it.
    pub(super) fn tenant_of(&self, name: &str) -> Option<String> {
        self.followed().get(name).map(|followed| followed.tenant.clone())
    }

    /// This call is known to be one of ours.
    fn placed(&self, sid: &str) {
        let mut placed = self.placed.lock().unwrap_or_else(PoisonError::into_inner);
        if !placed.iter().any(|known| known == sid) {
            placed.push_back(sid.to_owned());
        }
        if placed.len() > PLACED_MAX {
            placed.pop_front();
        }
    }

    fn has_placed(&self, sid: &str) -> bool {
        let placed = self.placed.lock().unwrap_or_else(PoisonError::into_inner);
        placed.iter().any(|known| known == sid)
    }

    fn followed(&self) -> MutexGuard<'_, HashMap<String, Followed>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where Twilio is to ask and tell about one call.
struct Addresses {
    answered: String,
    status: String,
    stream: String,
    /// Where it may meet another.
    room: String,
}

impl Addresses {
    fn of(public: &Url, name: &str) -> Addresses {
        let path = |what: &str| format!("{PATH}/{name}/{what}");
        Addresses {
            answered: public_address(public, &path("answered"), false),
            status: public_address(public, &path("status"), false),
            stream: public_address(public, &path("stream"), true),
            room: format!("floorkeeper-{name}"),
        }
    }
}

/// A call that is followed, for as long as this lives.
struct Following {
    twilio: Arc<Twilio>,
    name: String,
    addresses: Addresses,
    said: mpsc::Receiver<Said>,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.twilio.followed().remove(&self.name);
    }
}

/// How the outside world begins an address of ours.
pub(super) fn scheme(is_secure: bool, is_stream: bool) -> &'static str {
    match (is_stream, is_secure) {
        (true, true) => "wss",
        (true, false) => "ws",
        (false, true) => "https",
        (false, false) => "http",
    }
}

/// Where the outside world reaches a path of ours.
pub(super) fn public_address(public: &Url, path: &str, is_stream: bool) -> String {
    let scheme = scheme(public.scheme() == "https", is_stream);
    let host = public.host_str().unwrap_or_default();
    let port = public.port().map(|port| format!(":{port}")).unwrap_or_default();
    let below = public.path().trim_end_matches('/');
    format!("{scheme}://{host}{port}{below}{path}")
}
