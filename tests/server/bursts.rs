//! Three bursts of sixty against sixteen slots and a queue of thirty-two: one that
//! meets the bounds, one whose waiters all expire, one whose cancelled work is slow to prove its
//! end. After each the gate is as it was before (A-149, A-155, B-087, B-088).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use floorkeeper::dialogue::ModelRequest;
use floorkeeper::evidence::Evidence;
use floorkeeper::id::Stage;
use floorkeeper::provider::llm::{Llm, ModelSignal};
use floorkeeper::provider::{Cancel, Ended, Run};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

use crate::client::Client;
use crate::http::{self, Answer};
use crate::rig::{LIMIT, Rig, eventually};

const SLOTS: usize = 16;
const QUEUE: usize = 32;
const BURST: usize = 60;
const REFUSED: usize = BURST - SLOTS - QUEUE;

/// Reads `/metrics` again and again beside a burst, and holds every page to the gate's bounds.
struct Sampler {
    stop: Arc<AtomicBool>,
    task: JoinHandle<u32>,
}

impl Sampler {
    fn begin(rig: &Rig, gate: &'static str) -> Sampler {
        let stop = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(sample(rig.serving.address, gate, stop.clone()));
        Sampler { stop, task }
    }

    async fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        let pages = self.task.await.expect("no page was out of bounds");
        assert!(pages > 1, "the burst was not looked at");
    }
}

async fn sample(from: SocketAddr, gate: &str, stop: Arc<AtomicBool>) -> u32 {
    let mut pages = 0;
    while !stop.load(Ordering::Relaxed) {
        let page = http::ask(from, "GET", "/metrics", &[], "").await.text();
        let value = |metric: &str| gauge(&page, metric, gate);
        let (inflight, queued) = (value("admission_inflight"), value("admission_queued"));
        let pending = value("lease_cleanup_pending");
        assert_eq!(value("admission_limit"), SLOTS as f64);
        assert!(inflight <= SLOTS as f64, "B-088: {inflight} units of {SLOTS}");
        assert!(queued <= QUEUE as f64, "B-088: {queued} wait in {QUEUE} places");
        assert!(pending <= inflight, "what is being cancelled still holds its unit");
        for kind in ["underflow", "unknown_permit"] {
            let anomaly = format!("anomalies_total{{gate=\"{gate}\",kind=\"{kind}\"}}");
            assert_eq!(number(&page, &anomaly), 0.0, "B-089");
        }
        pages += 1;
    }
    pages
}

fn gauge(page: &str, metric: &str, gate: &str) -> f64 {
    number(page, &format!("{metric}{{gate=\"{gate}\"}}"))
}

fn number(page: &str, series: &str) -> f64 {
    let line = page.lines().find_map(|line| line.strip_prefix(&format!("floorkeeper_{series} ")));
    line.unwrap_or_else(|| panic!("no {series} in {page}")).parse().expect("a number")
}

/// The burst did meet the gate's bounds, and went no further.
fn met_its_bounds(rig: &Rig, stage: Stage) {
    let most = rig.counts(stage).high;
    assert_eq!((most.active_units, most.queued), (SLOTS as u32, QUEUE as u32), "B-088");
}

/// The gate is as it was before the burst: everything that was offered is refused or over.
async fn is_as_before(rig: &Rig, gate: &str) -> Value {
    rig.quiet().await;
    let ledger = rig.ledger(gate).await;
    for standing in ["opening", "active", "queued", "quarantined"] {
        assert_eq!(ledger[standing], 0, "{ledger:#}");
    }
    let count = |key: &str| ledger[key].as_u64().expect("a count");
    assert_eq!(count("offered"), count("refused") + count("terminal"), "A-152: {ledger:#}");
    ledger
}

/// A model whose runs do not begin, or when cancelled do not end, before the test lets them.
struct Held {
    inner: Arc<dyn Llm>,
    doors: Arc<Doors>,
}

struct Doors {
    open: Semaphore,
    runs: AtomicU32,
}

impl Doors {
    fn shut() -> Arc<Doors> {
        Arc::new(Doors { open: Semaphore::new(0), runs: AtomicU32::new(0) })
    }

    /// From now on nothing is held.
    fn open(&self) {
        self.open.add_permits(Semaphore::MAX_PERMITS / 2);
    }

    /// What has reached the backend.
    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst) as usize
    }

    async fn pass(&self) {
        self.open.acquire().await.expect("doors are never taken away").forget();
    }
}

impl Llm for Held {
    fn run(
        self: Arc<Self>,
        request: ModelRequest,
        out: mpsc::Sender<ModelSignal>,
        cancel: Cancel,
    ) -> Run {
        self.doors.runs.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            tokio::select! {
                () = self.doors.pass() => self.inner.clone().run(request, out, cancel).await,
                () = cancel.cancelled() => {
                    // The backend takes its time to show that it has stopped.
                    self.doors.pass().await;
                    Ended::stopped(Evidence::AbortAcknowledged)
                }
            }
        })
    }
}

/// Calls enough for a burst of turns, and every gate but the model's out of the way.
const ROOM: [&str; 6] = [
    "limits.call.slots=64",
    "limits.synthesis.slots=64",
    "limits.synthesis.max_wait_ms=60000",
    "limits.model.slots=16",
    "limits.model.queue=32",
    "turn.budget_ms=60000",
];

async fn held(settings: &[&str]) -> (Rig, Arc<Doors>) {
    let doors = Doors::shut();
    let settings: Vec<&str> = ROOM.iter().chain(settings).copied().collect();
    let rig = Rig::with(&settings, |backends| {
        backends.llm = Arc::new(Held { inner: backends.llm.clone(), doors: doors.clone() });
    });
    (rig.await, doors)
}

fn question(nth: usize) -> String {
    format!("What happened to the pear of night {nth}?")
}

/// Sixty calls ask at once; each with what the model's gate said to it first.
async fn asked_at_once(rig: &Rig) -> Vec<(Client, String)> {
    let clients = join_all((0..BURST).map(|_| Client::connect(rig))).await;
    let asked = clients.into_iter().enumerate().map(|(nth, mut client)| async move {
        client.ask(&question(nth)).await;
        loop {
            if let Some(first) = client.said_by("model").first() {
                let first = first.clone();
                return (client, first);
            }
            client.next().await;
        }
    });
    join_all(asked).await
}

fn those(asked: &[(Client, String)], verdict: &str) -> usize {
    asked.iter().filter(|(_, first)| first == verdict).count()
}

fn assert_split(asked: &[(Client, String)]) {
    let split = ["admitted", "queued", "overloaded{queue_full}"].map(|word| those(asked, word));
    assert_eq!(split, [SLOTS, QUEUE, REFUSED], "B-024, B-087, A-155");
}

/// What a call that is turned away is told, before there is any upgrade.
fn assert_turned_away(answer: &Answer) {
    assert_eq!((answer.status, answer.code().as_str()), (429, "admission_capacity"), "{answer:?}");
    assert_eq!(answer.header("upgrade"), None, "{answer:?}");
    let told = ["inflight", "queued", "limit", "reason"].map(|name| {
        answer.header(&format!("x-floorkeeper-admission-{name}")).unwrap_or_default().to_owned()
    });
    assert_eq!(told, ["16", "32", "16", "queue_full"], "B-069: live counts and the ceiling");
    let body = answer.json();
    let retry_after = answer.header("retry-after").map(|s| s.parse::<u64>().expect("seconds"));
    assert!(retry_after.is_some_and(|s| (1..=30).contains(&s)), "B-068: {retry_after:?}");
    assert_eq!(body["retry_after"].as_u64(), retry_after, "{body:#}");
    assert!(body["jitter_hint_ms"].is_u64(), "B-070: {body:#}");
}

/// Handshakes at once; their answers as they come.
fn knock_at_once(rig: &Rig) -> mpsc::Receiver<(Answer, TcpStream)> {
    let (told, answers) = mpsc::channel(BURST);
    let address = rig.serving.address;
    for _ in 0..BURST {
        let told = told.clone();
        tokio::spawn(async move {
            let mut stream = http::knock(address, &[]).await;
            let answer = http::answer(&mut stream).await;
            let _ = told.send((answer, stream)).await;
        });
    }
    answers
}

async fn next(answers: &mut mpsc::Receiver<(Answer, TcpStream)>) -> (Answer, TcpStream) {
    let answer = tokio::time::timeout(LIMIT, answers.recv()).await;
    answer.expect("an answer in time").expect("one for each handshake")
}

/// B-006, B-024, B-033: sixteen run, thirty-two are parked in their handshake and get in as slots
/// free, twelve are turned away at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_upgrades_at_once() {
    let limits = ["limits.call.slots=16", "limits.call.queue=32", "limits.call.max_wait_ms=5000"];
    let rig = Rig::start(&limits).await;
    let sampler = Sampler::begin(&rig, "call");
    let mut answers = knock_at_once(&rig);
    let mut inside = Vec::new();
    for _ in 0..SLOTS + REFUSED {
        match next(&mut answers).await {
            (answer, stream) if answer.status == 101 => inside.push(stream),
            (answer, _) => assert_turned_away(&answer),
        }
    }
    assert_eq!(inside.len(), SLOTS);
    let shown = rig.get("/v1/admission/call").await.json();
    assert_eq!(shown["live"]["queued"], QUEUE, "the others are parked: {shown:#}");
    drop(inside);
    let (mut let_in, mut timed_out) = (0, 0);
    for _ in 0..QUEUE {
        // Each that gets in hangs up at once, which lets in the next.
        match next(&mut answers).await {
            (answer, _) if answer.status == 101 => let_in += 1,
            (answer, _) => {
                assert_eq!(
                    (answer.status, answer.code().as_str()),
                    (504, "admission_queue_timeout")
                );
                timed_out += 1;
            }
        }
    }
    sampler.end().await;
    met_its_bounds(&rig, Stage::Call);
    let ledger = is_as_before(&rig, "call").await;
    assert_eq!((&ledger["offered"], &ledger["refused"]), (&json!(BURST), &json!(REFUSED)));
    assert_eq!(ledger["terminal_by_kind"]["expired"].as_u64().unwrap_or(0), timed_out);
    assert!(let_in > 0, "nobody who was parked got in");
}

/// The same split told to the callers of sixty accepted calls, by the model's gate: what waits
/// opens nothing at the backend, and is answered when a unit comes free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_turns_at_once() {
    let (rig, doors) = held(&["limits.model.max_wait_ms=5000"]).await;
    let sampler = Sampler::begin(&rig, "model");
    let asked = asked_at_once(&rig).await;
    assert_split(&asked);
    assert_eq!(doors.runs(), SLOTS, "B-007: only what runs is at the backend");
    doors.open();
    let ends = asked.into_iter().map(|(mut client, first)| async move {
        let end = client.answered().await;
        let said = client.said_by("model");
        client.hang_up().await;
        (first, said, end)
    });
    let (mut completed, mut expired) = (0, 0);
    for (first, said, end) in join_all(ends).await {
        let code = end["status_details"]["error"]["code"].as_str();
        match (first.as_str(), end["status"].as_str(), code) {
            ("admitted", Some("completed"), _) => completed += 1,
            ("queued", Some("completed"), _) => {
                assert_eq!(said[..2], ["queued", "admitted"], "told when its wait was over");
                completed += 1;
            }
            ("queued", Some("failed"), Some("admission_queue_timeout")) => expired += 1,
            ("overloaded{queue_full}", Some("failed"), Some("admission_capacity")) => {}
            _ => panic!("{first}: {said:?} {end:#}"),
        }
    }
    assert_eq!(completed + expired, SLOTS + QUEUE);
    assert_eq!(doors.runs(), completed, "B-007");
    sampler.end().await;
    met_its_bounds(&rig, Stage::Model);
    let ledger = is_as_before(&rig, "model").await;
    assert_eq!((&ledger["offered"], &ledger["refused"]), (&json!(BURST), &json!(REFUSED)));
}

/// nothing is released, so every waiter expires, each told so while all slots are
/// held; nothing of them is done later, and the next turn is a turn like any other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_turns_whose_waiters_all_expire() {
    let (rig, doors) = held(&["limits.model.max_wait_ms=600"]).await;
    let sampler = Sampler::begin(&rig, "model");
    let asked = asked_at_once(&rig).await;
    // On a machine so busy that sixty do not ask within 600 ms, the last find places free again.
    let waited = those(&asked, "queued");
    assert_eq!(those(&asked, "admitted"), SLOTS);
    assert_eq!(those(&asked, "overloaded{queue_full}"), BURST - SLOTS - waited);
    let (running, others): (Vec<_>, Vec<_>) =
        asked.into_iter().enumerate().partition(|(_, (_, first))| first == "admitted");
    let told = others.into_iter().map(|(nth, (mut client, first))| async move {
        let end = client.answered().await;
        assert_eq!(end["status"], "failed", "{end:#}");
        let code = end["status_details"]["error"]["code"].clone();
        match first.as_str() {
            "queued" => {
                assert_eq!(code, "admission_queue_timeout", "A-097: not empty, expired");
                assert_eq!(client.said_by("model"), ["queued", "expired"]);
            }
            _ => assert_eq!(code, "admission_capacity"),
        }
        assert!(client.audio_ms(&end["id"]) > 0, "A-133: told in words");
        (nth, client)
    });
    let told = join_all(told).await;
    let counts = rig.counts(Stage::Model);
    assert_eq!((counts.active, counts.queued), (SLOTS as u64, 0), "A-110: no slot came free");
    doors.open();
    let finished = running.into_iter().map(|(_, (mut client, _))| async move {
        assert_eq!(client.answered().await["status"], "completed");
        client.hang_up().await;
    });
    join_all(finished).await;
    for (nth, ..) in &told {
        let late = rig.model.asked(&question(*nth));
        assert!(late.is_none(), "A-149: resurrected: {late:?}");
    }
    let mut clients: Vec<Client> = told.into_iter().map(|(_, client)| client).collect();
    clients[0].ask("And the night after?").await;
    assert_eq!(clients[0].answered().await["status"], "completed", "A-150");
    join_all(clients.into_iter().map(Client::hang_up)).await;
    assert_eq!(doors.runs(), SLOTS + 1, "B-007: what expired opened nothing");
    sampler.end().await;
    met_its_bounds(&rig, Stage::Model);
    let ledger = is_as_before(&rig, "model").await;
    assert_eq!(ledger["terminal_by_kind"]["expired"], waited, "{ledger:#}");
}

/// half of those that run hang up, half are talked over. Their units stay taken until
/// the backend proves its end; only then does anybody who waits go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_turns_whose_cleanup_is_late() {
    let patience = ["limits.model.max_wait_ms=60000", "limits.model.evidence_ms=60000"];
    let (rig, doors) = held(&patience).await;
    let sampler = Sampler::begin(&rig, "model");
    let asked = asked_at_once(&rig).await;
    assert_split(&asked);
    let (running, others): (Vec<_>, Vec<_>) =
        asked.into_iter().partition(|(_, first)| first == "admitted");
    let mut running: Vec<Client> = running.into_iter().map(|(client, _)| client).collect();
    let talked_over = running.split_off(SLOTS / 2);
    drop(running);
    let mut talked_over: Vec<Client> = join_all(talked_over.into_iter().map(|mut client| async {
        client.speak(900).await;
        client
    }))
    .await;
    eventually("all sixteen are being cancelled", || match rig.counts(Stage::Model) {
        counts if counts.cleanup_pending == SLOTS as u32 => {
            assert_eq!(counts.active_units, SLOTS as u32, "A-118: a cancel frees nothing");
            assert_eq!(counts.queued, QUEUE as u32, "nobody got in on the strength of a wish");
            Ok(())
        }
        counts => Err(format!("{counts:?}")),
    })
    .await;
    assert_eq!(doors.runs(), SLOTS, "B-007");
    let page = rig.get("/metrics").await.text();
    assert_eq!(gauge(&page, "lease_cleanup_pending", "model"), SLOTS as f64, "A-141");
    doors.open();
    let ends = others.into_iter().map(|(mut client, first)| async move {
        let end = client.answered().await;
        client.hang_up().await;
        (first, end["status"].clone())
    });
    for (first, status) in join_all(ends).await {
        let right = if first == "queued" { "completed" } else { "failed" };
        assert_eq!(status, right, "{first}");
    }
    sampler.end().await;
    met_its_bounds(&rig, Stage::Model);
    join_all(talked_over.drain(..).map(Client::hang_up)).await;
    let ledger = is_as_before(&rig, "model").await;
    let ended = |why: &str| ledger["terminal_by_kind"][why].as_u64().unwrap_or(0);
    assert!(ended("cancelled{hang_up}") >= SLOTS as u64 / 2, "{ledger:#}");
    let proven = ledger["released_on"]["abort_acknowledged"].as_u64().unwrap_or(0);
    assert!(proven >= SLOTS as u64, "every unit came back on proof: {ledger:#}");
}
