//! A double of Twilio's REST API: calls are placed, shown and changed, and what happens to them is
//! told by signed webhooks when a test says so.
//!
//! It answers as the official SDK wants it (`tests/twilio/sdk`).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use floorkeeper::runtime::promises::unix_ms;
use floorkeeper::transport::twilio::signature;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::http::{self, Answer};
use crate::rig::LIMIT;

pub const ACCOUNT: &str = "AC00000000000000000000000000000001";
/// A variable that every test process has; its value is the account's token.
pub const TOKEN_ENV: &str = "CARGO_MANIFEST_DIR";
/// What the server is called by Twilio; everything there is at the server's own address.
pub const PUBLIC: &str = "http://voice.example.com";

/// What becomes of a request that would place a call.
#[derive(Clone, Debug)]
pub enum Plan {
    /// The call is placed, and nobody hears of it.
    PlacedUnanswered,
    /// Nothing is placed, and nobody hears of that either.
    Unanswered,
    /// This status, when to come back, code and message.
    Fails(u16, Option<u64>, u32, &'static str),
}

/// A call as Twilio has it.
#[derive(Clone, Debug)]
pub struct Placed {
    pub sid: String,
    pub form: Vec<(String, String)>,
    pub status: String,
    /// When, in seconds since 1970.
    pub made_s: u64,
    /// Every change that was asked for.
    pub changes: Vec<Vec<(String, String)>>,
}

impl Placed {
    pub fn field(&self, key: &str) -> &str {
        field(&self.form, key).unwrap_or_else(|| panic!("no {key}: {:?}", self.form))
    }
}

fn field<'a>(form: &'a [(String, String)], key: &str) -> Option<&'a str> {
    form.iter().find(|(name, _)| name == key).map(|(_, value)| &**value)
}

#[derive(Default)]
struct Kept {
    calls: Vec<Placed>,
    plans: VecDeque<Plan>,
    /// Method and path of every request.
    asked: Vec<String>,
}

#[derive(Clone)]
pub struct Twilio {
    pub address: SocketAddr,
    kept: Arc<Mutex<Kept>>,
    changed: Arc<watch::Sender<u64>>,
}

impl Twilio {
    pub async fn start() -> Twilio {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let twilio = Twilio {
            address: listener.local_addr().unwrap(),
            kept: Arc::default(),
            changed: Arc::new(watch::Sender::new(0)),
        };
        let serving = twilio.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().serve(stream));
            }
        });
        twilio
    }

    /// The next request that would place a call comes to this.
    pub fn plan(&self, plan: Plan) {
        self.kept.lock().unwrap().plans.push_back(plan);
    }

    /// A call that somebody else has placed, so long ago.
    pub fn has_placed(&self, ago_s: u64, form: &[(&str, &str)]) {
        let form = form.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        self.place(ago_s, form.collect());
    }

    /// A call comes to the server, and is answered: what it has Twilio do.
    pub async fn brings(&self, server: SocketAddr, sid: &str) -> String {
        let (sid, status) = (sid.to_owned(), "in-progress".to_owned());
        let (form, made_s, changes) = (Vec::new(), unix_ms() / 1_000, Vec::new());
        let call = Placed { sid, form, status, made_s, changes };
        self.kept.lock().unwrap().calls.push(call.clone());
        let url = format!("{PUBLIC}/v1/twilio/voice");
        self.hook(server, &url, &call, "ringing", &[("From", "+15550100")]).await.text()
    }

    /// The call has come into its room.
    pub async fn joins(&self, server: SocketAddr, desk: &Placed, sid: &str) {
        let event = [("StatusCallbackEvent", "participant-join"), ("ConferenceSid", "CF1")];
        let caller = Placed { sid: sid.to_owned(), ..desk.clone() };
        let answer = self.hook(server, desk.field("StatusCallback"), &caller, "", &event).await;
        assert_eq!(answer.status, 204, "{answer:?}");
    }

    /// How often something was asked for whose line begins so.
    pub fn asked(&self, beginning: &str) -> usize {
        let kept = self.kept.lock().unwrap();
        kept.asked.iter().filter(|line| line.starts_with(beginning)).count()
    }

    /// Waits until this is there.
    pub async fn until<T>(
        &self,
        what: &str,
        look: impl Fn(&[Placed], &[String]) -> Option<T>,
    ) -> T {
        let mut changed = self.changed.subscribe();
        let found = async {
            loop {
                changed.borrow_and_update();
                let found = {
                    let kept = self.kept.lock().unwrap();
                    look(&kept.calls, &kept.asked)
                };
                match found {
                    Some(found) => return found,
                    None => changed.changed().await.unwrap(),
                }
            }
        };
        let found = timeout(LIMIT, found).await;
        found.unwrap_or_else(|_| {
            panic!("not in time: {what}: {:?}", self.kept.lock().unwrap().asked)
        })
    }

    /// Waits for the call that was placed as this one.
    pub async fn placed(&self, number: usize) -> Placed {
        self.until("a call is placed", |calls, _| calls.get(number).cloned()).await
    }

    /// The call stands so now; nobody is told.
    pub fn stands(&self, sid: &str, status: &str) {
        let mut kept = self.kept.lock().unwrap();
        let call = kept.calls.iter_mut().find(|call| call.sid == sid).unwrap();
        call.status = status.to_owned();
    }

    /// The same, and the server is told.
    pub async fn tells(
        &self,
        server: SocketAddr,
        call: &Placed,
        status: &str,
        more: &[(&str, &str)],
    ) {
        self.stands(&call.sid, status);
        let answer = self.hook(server, call.field("StatusCallback"), call, status, more).await;
        assert_eq!(answer.status, 204, "{answer:?}");
    }

    /// Somebody or something has answered: what the server has Twilio do.
    pub async fn answers(
        &self,
        server: SocketAddr,
        call: &Placed,
        more: &[(&str, &str)],
    ) -> String {
        self.stands(&call.sid, "in-progress");
        let answer = self.hook(server, call.field("Url"), call, "in-progress", more).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.text()
    }

    async fn hook(
        &self,
        server: SocketAddr,
        url: &str,
        call: &Placed,
        status: &str,
        more: &[(&str, &str)],
    ) -> Answer {
        let to = field(&call.form, "To").unwrap_or_default();
        let usual = [("CallSid", &*call.sid), ("CallStatus", status), ("To", to)];
        let fields = usual.into_iter().chain(more.iter().copied());
        let fields: Vec<_> = fields.map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
        let signed = signature::sign(&token(), url, &fields);
        let body =
            url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&fields).finish();
        let headers = [
            ("Content-Type", "application/x-www-form-urlencoded"),
            ("X-Twilio-Signature", &*signed),
        ];
        http::ask(server, "POST", path_of(url), &headers, &body).await
    }

    async fn serve(self, mut stream: TcpStream) {
        let Some((line, authorization, body)) = read(&mut stream).await else { return };
        let answer = self.answer(&line, &authorization, &body);
        self.changed.send_modify(|count| *count += 1);
        // Without an answer the connection only ends.
        let Some((status, retry_after, body)) = answer else { return };
        let retry = retry_after.map(|after| format!("Retry-After: {after}\r\n"));
        let body = body.to_string();
        let text = format!(
            "HTTP/1.1 {status} Whatever\r\nContent-Type: application/json\r\n{}Content-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            retry.unwrap_or_default(),
            body.len(),
        );
        let _ = stream.write_all(text.as_bytes()).await; // who has gone hears nothing
    }

    fn answer(
        &self,
        line: &str,
        authorization: &str,
        body: &str,
    ) -> Option<(u16, Option<u64>, Value)> {
        self.kept.lock().unwrap().asked.push(line.to_owned());
        let secret = BASE64.encode(format!("{ACCOUNT}:{}", token()));
        if authorization != format!("Basic {secret}") {
            return Some(error(401, None, 20003, "Authenticate"));
        }
        let (method, path) = line.split_once(' ').unwrap();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let form: Vec<(String, String)> =
            url::form_urlencoded::parse(body.as_bytes()).into_owned().collect();
        let calls = format!("/2010-04-01/Accounts/{ACCOUNT}/Calls");
        let below = path.strip_prefix(&calls)?;
        match (method, below) {
            ("POST", ".json") => self.create(form),
            ("GET", ".json") => Some((200, None, self.list(query))),
            ("POST", _) => Some(self.change(sid_of(below), form)),
            ("GET", _) => Some(self.show(sid_of(below))),
            _ => Some(error(405, None, 20004, "Method not allowed")),
        }
    }

    fn create(&self, form: Vec<(String, String)>) -> Option<(u16, Option<u64>, Value)> {
        let plan = self.kept.lock().unwrap().plans.pop_front();
        match plan {
            Some(Plan::Fails(status, retry_after, code, message)) => {
                return Some(error(status, retry_after, code, message));
            }
            Some(Plan::Unanswered) => return None,
            Some(Plan::PlacedUnanswered) | None => {}
        }
        for (key, code) in [("To", 21201), ("From", 21213)] {
            if field(&form, key).is_none_or(str::is_empty) {
                return Some(error(400, None, code, "a number is missing"));
            }
        }
        if field(&form, "Url").or(field(&form, "Twiml")).is_none() {
            return Some(error(400, None, 21205, "Url parameter is required."));
        }
        let sid = self.place(0, form);
        plan.is_none().then(|| self.show(&sid)).map(|(_, retry, call)| (201, retry, call))
    }

    fn place(&self, ago_s: u64, form: Vec<(String, String)>) -> String {
        let mut kept = self.kept.lock().unwrap();
        let sid = format!("CA{:032x}", kept.calls.len() + 1);
        let (status, changes) = ("queued".to_owned(), Vec::new());
        let made_s = unix_ms() / 1_000 - ago_s;
        kept.calls.push(Placed { sid: sid.clone(), form, status, made_s, changes });
        sid
    }

    fn show(&self, sid: &str) -> (u16, Option<u64>, Value) {
        let kept = self.kept.lock().unwrap();
        match kept.calls.iter().find(|call| call.sid == sid) {
            Some(call) => (200, None, shown(call)),
            None => error(404, None, 20404, "The requested resource was not found"),
        }
    }

    fn list(&self, query: &str) -> Value {
        let asked: Vec<(String, String)> =
            url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let kept = self.kept.lock().unwrap();
        let fits = |call: &&Placed| {
            ["To", "From"].into_iter().all(|key| {
                field(&asked, key).is_none_or(|asked| field(&call.form, key) == Some(asked))
            })
        };
        let calls: Vec<Value> = kept.calls.iter().rev().filter(fits).map(shown).collect();
        let uri = format!("/2010-04-01/Accounts/{ACCOUNT}/Calls.json");
        json!({
            "calls": calls, "page": 0, "page_size": 50, "start": 0, "end": 0, "uri": uri,
            "first_page_uri": uri, "next_page_uri": null, "previous_page_uri": null,
        })
    }

    fn change(&self, sid: &str, form: Vec<(String, String)>) -> (u16, Option<u64>, Value) {
        {
            let mut kept = self.kept.lock().unwrap();
            let Some(call) = kept.calls.iter_mut().find(|call| call.sid == sid) else {
                return error(404, None, 20404, "The requested resource was not found");
            };
            if !["queued", "ringing", "in-progress"].contains(&&*call.status) {
                return error(400, None, 21220, "Call is not in-progress. Cannot redirect.");
            }
            if field(&form, "Status") == Some("completed") {
                let was_up = call.status == "in-progress";
                call.status = if was_up { "completed" } else { "canceled" }.to_owned();
            }
            call.changes.push(form);
        }
        self.show(sid)
    }
}

pub fn token() -> String {
    std::env::var(TOKEN_ENV).unwrap()
}

/// The path of an address of the server's.
pub fn path_of(url: &str) -> &str {
    let below = url.split_once("://").unwrap().1.strip_prefix("voice.example.com");
    below.unwrap_or_else(|| panic!("{url} is not below {PUBLIC}"))
}

fn sid_of(below: &str) -> &str {
    below.trim_start_matches('/').trim_end_matches(".json")
}

fn error(
    status: u16,
    retry_after: Option<u64>,
    code: u32,
    message: &str,
) -> (u16, Option<u64>, Value) {
    let more_info = format!("https://www.twilio.com/docs/errors/{code}");
    let body = json!({"code": code, "message": message, "more_info": more_info, "status": status});
    (status, retry_after, body)
}

fn shown(call: &Placed) -> Value {
    let of = |key: &str| field(&call.form, key).unwrap_or_default();
    json!({
        "sid": call.sid, "account_sid": ACCOUNT, "to": of("To"), "from": of("From"),
        "to_formatted": of("To"), "from_formatted": of("From"), "status": call.status,
        "answered_by": null, "direction": "outbound-api", "api_version": "2010-04-01",
        "date_created": date(call.made_s), "date_updated": date(call.made_s), "start_time": null, "end_time": null,
        "duration": null, "price": null, "price_unit": "USD", "annotation": null,
        "caller_name": null, "forwarded_from": null, "group_sid": null, "parent_call_sid": null,
        "phone_number_sid": null, "queue_time": "0", "trunk_sid": null, "subresource_uris": {},
        "uri": format!("/2010-04-01/Accounts/{ACCOUNT}/Calls/{}.json", call.sid),
    })
}

/// As the API writes it.
fn date(at_s: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let days = at_s / 86_400;
    let (mut year, mut left) = (1970, days);
    while left >= 365 + u64::from(is_leap(year)) {
        left -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 0;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    let (hour, minute, second) = (at_s / 3_600 % 24, at_s / 60 % 60, at_s % 60);
    let (day, name) = (left + 1, DAYS[days as usize % 7]);
    format!("{name}, {day:02} {} {year} {hour:02}:{minute:02}:{second:02} +0000", MONTHS[month])
}

/// Method and path, who asks, and the body.
async fn read(stream: &mut TcpStream) -> Option<(String, String, String)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).ok()?;
    let header = |name: &str| {
        let lines = head.lines().filter_map(|line| line.split_once(": "));
        let mut values = lines.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        values.next().map_or(String::new(), |(_, value)| value.to_owned())
    };
    let line = head.lines().next()?.rsplit_once(' ')?.0.to_owned();
    let mut body = vec![0; header("content-length").parse().unwrap_or(0)];
    stream.read_exact(&mut body).await.ok()?;
    Some((line, header("authorization"), String::from_utf8(body).ok()?))
}
