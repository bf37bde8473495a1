//! The callers' end of SIP: one socket for all calls, as a trunk has it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

/// Said again for the first time after it, then after twice as long.
const T1: Duration = Duration::from_millis(500);
/// Answers of one call that may wait to be heard; there are six of them.
const TOLD_MAX: usize = 64;
/// What is not answered by then never is.
const GIVEN_UP: Duration = Duration::from_secs(8);

/// A message of the server's, as far as callers look at it.
pub struct Told {
    pub at: Instant,
    pub status: u16,
    pub method: String,
    pub to: String,
    pub contact: String,
    pub retries: bool,
    pub sound_port: u16,
}

/// A call's end of the trunk.
pub struct Line {
    trunk: Rc<Trunk>,
    index: usize,
    told: mpsc::Receiver<Told>,
    to: String,
    target: String,
}

/// What came of an INVITE.
pub struct Answer {
    pub took: Duration,
    pub status: u16,
    /// It was said when to try again.
    pub retries: bool,
    /// Where the server hears.
    pub sound_to: SocketAddr,
}

struct Seat {
    tell: mpsc::Sender<Told>,
    /// Our word that the final answer was heard, for when it comes again.
    ack: Option<String>,
}

pub struct Trunk {
    socket: UdpSocket,
    local: SocketAddr,
    server: SocketAddr,
    seats: RefCell<BTreeMap<usize, Seat>>,
    next: Cell<usize>,
    /// Messages that had to be said again.
    pub resent: Cell<u64>,
    /// Calls that the server has ended.
    pub ended: Cell<u64>,
}

impl Trunk {
    pub async fn open(server: SocketAddr) -> Result<Rc<Trunk>, String> {
        let socket = UdpSocket::bind("127.0.0.1:0").await.map_err(|error| error.to_string())?;
        let local = socket.local_addr().map_err(|error| error.to_string())?;
        let trunk = Rc::new(Trunk {
            socket,
            local,
            server,
            seats: RefCell::default(),
            next: Cell::new(0),
            resent: Cell::new(0),
            ended: Cell::new(0),
        });
        tokio::task::spawn_local(read(Rc::downgrade(&trunk)));
        Ok(trunk)
    }

    /// A line of it for one call.
    pub fn line(self: &Rc<Self>) -> Line {
        let index = self.next.replace(self.next.get() + 1);
        let (tell, told) = mpsc::channel(TOLD_MAX);
        self.seats.borrow_mut().insert(index, Seat { tell, ack: None });
        let to = "<sip:agent@bench.example>".to_owned();
        let target = format!("sip:agent@{}", self.server);
        Line { trunk: self.clone(), index, told, to, target }
    }

    /// What does not go out is lost, as on any network.
    fn send(&self, text: &str) {
        let _ = self.socket.try_send_to(text.as_bytes(), self.server);
    }

    fn take(&self, text: &str) {
        let Some(index) = field(text, "Call-ID").and_then(index_of) else { return };
        let Some(told) = told(text) else {
            self.ended.set(self.ended.get() + 1);
            return self.send(&answer(text));
        };
        let mut seats = self.seats.borrow_mut();
        let Some(seat) = seats.get_mut(&index) else { return };
        match &seat.ack {
            Some(ack) if told.status >= 200 && told.method == "INVITE" => self.send(ack),
            // Whoever does not listen any more has gone; what does not fit is lost.
            _ => drop(seat.tell.try_send(told)),
        }
    }
}

async fn read(trunk: std::rc::Weak<Trunk>) {
    let mut buffer = [0; 8_192];
    loop {
        let Some(trunk) = trunk.upgrade() else { return };
        // The trunk has to be able to end while nobody speaks.
        let came = timeout(T1, trunk.socket.recv_from(&mut buffer)).await;
        let Ok(Ok((length, _))) = came else { continue };
        trunk.take(std::str::from_utf8(&buffer[..length]).unwrap_or_default());
    }
}

impl Line {
    /// Rings, and acknowledges the answer.
    pub async fn ring(&mut self, sound_port: u16) -> Result<Answer, String> {
        let (ip, index) = (self.trunk.local.ip(), self.index);
        let offer = format!(
            "v=0\r\no=bench {index} 1 IN IP4 {ip}\r\ns=-\r\nc=IN IP4 {ip}\r\nt=0 0\r\n\
             m=audio {sound_port} RTP/AVP 0 101\r\na=rtpmap:0 PCMU/8000\r\n\
             a=rtpmap:101 telephone-event/8000\r\na=sendrecv\r\n"
        );
        let asked_at = Instant::now();
        let told = self.ask("INVITE", 1, &offer).await?;
        self.to.clone_from(&told.to);
        let accepted = told.status < 300;
        if accepted {
            self.target = told.contact.trim_matches(['<', '>']).to_owned();
        }
        // The ACK of a refusal is of the INVITE's own transaction.
        let branch = if accepted { "ACK1" } else { "INVITE1" };
        let ack = self.write("ACK", 1, branch, "");
        self.trunk.send(&ack);
        if let Some(seat) = self.trunk.seats.borrow_mut().get_mut(&index) {
            seat.ack = Some(ack);
        }
        Ok(Answer {
            took: told.at - asked_at,
            status: told.status,
            retries: told.retries,
            sound_to: SocketAddr::new(self.trunk.server.ip(), told.sound_port),
        })
    }

    /// Hangs up, and waits for the answer to that.
    pub async fn hang_up(mut self) -> Result<Duration, String> {
        let asked_at = Instant::now();
        let told = self.ask("BYE", 2, "").await?;
        match told.status {
            200 => Ok(told.at - asked_at),
            status => Err(format!("BYE was answered with {status}")),
        }
    }

    /// The final answer.
    async fn ask(&mut self, method: &str, cseq: u32, body: &str) -> Result<Told, String> {
        let text = self.write(method, cseq, &format!("{method}{cseq}"), body);
        let (limit, mut again) = (Instant::now() + GIVEN_UP, T1);
        let mut provisional = false;
        self.trunk.send(&text);
        loop {
            let until = if provisional { limit } else { limit.min(Instant::now() + again) };
            match tokio::time::timeout_at(until, self.told.recv()).await {
                Ok(Some(told)) if told.method != method => {}
                Ok(Some(told)) if told.status < 200 => provisional = true,
                Ok(Some(told)) => return Ok(told),
                Ok(None) => return Err("the trunk has gone".to_owned()),
                Err(_) if Instant::now() >= limit => {
                    return Err(format!("{method} was never answered"));
                }
                Err(_) => {
                    self.trunk.resent.set(self.trunk.resent.get() + 1);
                    self.trunk.send(&text);
                    again *= 2;
                }
            }
        }
    }

    fn write(&self, method: &str, cseq: u32, branch: &str, body: &str) -> String {
        let Line { trunk, index, to, target, .. } = self;
        let at = trunk.local;
        let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
        format!(
            "{method} {target} SIP/2.0\r\nVia: SIP/2.0/UDP {at};rport;branch=z9hG4bK{index}{branch}\
             \r\nMax-Forwards: 70\r\nFrom: <sip:+15550100@bench.example>;tag=b{index}\r\nTo: {to}\
             \r\nCall-ID: {index}@bench.example\r\nCSeq: {cseq} {method}\r\nContact: <sip:b@{at}>\
             \r\n{kind}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.trunk.seats.borrow_mut().remove(&self.index);
    }
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let head = text.split("\r\n\r\n").next()?;
    head.lines().find_map(|line| {
        let (known, value) = line.split_once(':')?;
        known.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

fn index_of(call_id: &str) -> Option<usize> {
    call_id.split('@').next()?.parse().ok()
}

/// `None`: it is a request.
fn told(text: &str) -> Option<Told> {
    let status = text.strip_prefix("SIP/2.0 ")?.get(..3)?.parse().ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("m=audio "));
    let port = line.and_then(|line| line.split(' ').next()?.parse().ok());
    let owned = |name: &str| field(text, name).unwrap_or_default().to_owned();
    let cseq = field(text, "CSeq").and_then(|cseq| cseq.split_once(' '));
    Some(Told {
        at: Instant::now(),
        status,
        method: cseq.map_or("", |(_, method)| method).to_owned(),
        to: owned("To"),
        contact: owned("Contact"),
        retries: field(text, "Retry-After").is_some(),
        sound_port: port.unwrap_or_default(),
    })
}

/// Whatever the server asks is agreed to.
fn answer(text: &str) -> String {
    let mut answer = "SIP/2.0 200 OK\r\n".to_owned();
    for name in ["Via", "From", "To", "Call-ID", "CSeq"] {
        answer += &format!("{name}: {}\r\n", field(text, name).unwrap_or_default());
    }
    answer + "Content-Length: 0\r\n\r\n"
}
