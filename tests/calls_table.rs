//! The call's state × event table: for every state of floor and ear, and every event, what follows.
//! Golden.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use floorkeeper::admission::{
    Admit, Answer, Cancelled, Claimed, Closed, Gate, Lease, Offer, OfferId, OwnerId, Refusal,
    RefusalReason, Release, Settled, Terminal, Ticket, Wake,
};
use floorkeeper::audio::Window;
use floorkeeper::call::{Action, Call, Event, Identity, trace};
use floorkeeper::config::{Abilities, Config, Script};
use floorkeeper::dialogue::{
    Effect, Finish, Item, ItemBody, ItemStatus, Role, ToolCall, ToolChoice, ToolOutcome, ToolRuns,
    ToolSpec, Transcript, Usage,
};
use floorkeeper::evidence::{Evidence, Unknown};
use floorkeeper::fault::Fault;
use floorkeeper::id::{
    CallId, CallbackId, ClassId, Generation, ItemId, RunId, Stage, TenantId, ToolId,
};
use floorkeeper::leg::{FromCaller, Modality, Place, ResponseRequest, Settings, ToCaller};
use floorkeeper::time::{Timestamp, ms};

struct Gates {
    gates: BTreeMap<Stage, Gate>,
    wakes: Vec<Wake>,
    offers: u64,
}

impl Admit for Gates {
    fn name_offer(&mut self) -> OfferId {
        self.offers += 1;
        OfferId(self.offers)
    }
    fn ask(&mut self, now: Timestamp, stage: Stage, offer: Offer) -> Answer {
        match self.gates.get_mut(&stage) {
            Some(gate) => gate.offer(now, offer, &mut self.wakes),
            None => {
                let reason = RefusalReason::Closed(Closed::NoCapacity);
                Answer::Refused(Refusal { stage, reason, retry_after_s: None })
            }
        }
    }
    fn claim(&mut self, now: Timestamp, stage: Stage, offer: Offer) -> Claimed {
        match self.gates.get_mut(&stage) {
            Some(gate) => gate.claim(now, offer, &mut self.wakes),
            None => {
                let reason = RefusalReason::Closed(Closed::NoCapacity);
                Claimed::Refused(Refusal { stage, reason, retry_after_s: None })
            }
        }
    }
    fn confirm(&mut self, now: Timestamp, lease: &Lease) -> bool {
        let wakes = &mut self.wakes;
        self.gates.get_mut(&lease.stage).is_some_and(|gate| gate.confirm(now, lease, wakes))
    }
    fn withdraw(&mut self, now: Timestamp, ticket: Ticket, why: Cancelled) {
        if let Some(gate) = self.gates.get_mut(&ticket.stage) {
            let _ = gate.withdraw(now, ticket, why, &mut self.wakes);
        }
    }
    fn extend(&mut self, now: Timestamp, ticket: &Ticket) {
        if let Some(gate) = self.gates.get_mut(&ticket.stage) {
            let _ = gate.extend(now, ticket);
        }
    }
    fn cancel(&mut self, now: Timestamp, lease: &Lease, why: Cancelled) {
        if let Some(gate) = self.gates.get_mut(&lease.stage) {
            gate.cancel(now, lease, why);
        }
    }
    fn settle(&mut self, now: Timestamp, lease: Lease, release: Release) -> Settled {
        match self.gates.get_mut(&lease.stage) {
            Some(gate) => gate.settle(now, lease, release, &mut self.wakes),
            None => Settled::AlreadyReleased,
        }
    }
    fn rotate(&mut self, now: Timestamp, owner: OwnerId, to: Generation, why: Cancelled) {
        let first = to == Generation(0);
        for (_, gate) in self.gates.iter_mut().filter(|(stage, _)| first || stage.rotates()) {
            let _ = gate.rotate(now, owner, to, why, &mut self.wakes);
        }
    }
    fn keep(&mut self, now: Timestamp, lease: Lease, _: CallbackId) {
        let _ = self.settle(now, lease, Release::Completed(Evidence::Completed));
    }

    fn max_wait(&self, stage: Stage) -> Duration {
        self.gates.get(&stage).map_or(Duration::ZERO, |gate| gate.limits().max_wait())
    }

    fn spare(&self, stage: Stage) -> u32 {
        self.gates.get(&stage).map_or(0, Gate::spare)
    }

    fn has_queue(&self, stage: Stage) -> bool {
        self.gates.get(&stage).is_some_and(|gate| gate.limits().queue > 0)
    }
}

/// A call, its gates, and a clock that the test moves.
struct Bench {
    now: Timestamp,
    call: Call,
    gates: Gates,
    runs: BTreeMap<&'static str, RunId>,
    seq: u32,
    /// Somebody else's unit.
    held: Option<Answer>,
}

const CONFIG: &str = "
[limits.model]
slots = 1
queue = 1
max_wait_ms = 9000
[tool.book]
provider = \"scripted\"
";

fn bench() -> Bench {
    let config = Config::parse("table", CONFIG, &[], std::iter::empty()).unwrap();
    let abilities = Abilities {
        detects: true,
        judges_turns: false,
        partials: true,
        tool_names: vec!["book".into()],
    };
    let agent = config.default_agent();
    let settings = Settings {
        instructions: String::new(),
        tools: vec![ToolSpec {
            name: "book".into(),
            description: String::new(),
            parameters: serde_json::json!({}),
            runs: ToolRuns::Here { tool: ToolId(0), effect: Effect::MustFinish },
        }],
        tool_choice: ToolChoice::Auto,
        max_tokens: None,
        modality: Modality::Audio,
        voice: None,
        speed: 1.0,
        out_rate_hz: 24_000,
        stops_at_pause: false,
        turn_detection: config.turn_detection(&abilities),
        transcribe: true,
        transcription_only: false,
        extra_events: true,
    };
    let identity = Identity {
        greeting: None,
        number: None,
        call: CallId(1),
        tenant: TenantId(0),
        class: ClassId(0),
        item_prefix: "item_".into(),
    };
    let profile =
        Arc::new(config.profile(agent, &abilities, Arc::new(Script::read(None).unwrap())));
    let gates = config.gates().into_iter().map(|(stage, limits)| (stage, Gate::new(stage, limits)));
    Bench {
        now: Timestamp::ZERO,
        call: Call::new(Timestamp::ZERO, identity, profile, settings),
        gates: Gates { gates: gates.collect(), wakes: Vec::new(), offers: 0 },
        runs: BTreeMap::new(),
        seq: 0,
        held: None,
    }
}

impl Bench {
    fn step(&mut self, event: Event) -> Vec<String> {
        self.call.handle(self.now, &mut self.gates, event);
        let mut lines = Vec::new();
        while let Some(action) = self.call.poll_action() {
            match &action {
                Action::Recognise { run, .. } => drop(self.runs.insert("ears", *run)),
                Action::Think { run, .. } => drop(self.runs.insert("model", *run)),
                Action::Voice { run, .. } => drop(self.runs.insert("voice", *run)),
                Action::UseTool { run, .. } => drop(self.runs.insert("tool", *run)),
                Action::Prompt { run, .. } => drop(self.runs.insert("prompt", *run)),
                Action::Decode { seq, .. } => self.seq = *seq,
                _ => {}
            }
            match &action {
                Action::Tell(ToCaller::Audio { .. }) => match lines.last() {
                    Some(last) if last == "-> sound" => {}
                    _ => lines.push("-> sound".to_owned()),
                },
                _ => lines.extend(trace::action(&action)),
            }
        }
        lines
    }

    fn run(&self, name: &str) -> RunId {
        self.runs.get(name).copied().unwrap_or(RunId(99))
    }

    fn after(&mut self, millis: u64) -> &mut Self {
        self.now += ms(millis);
        self
    }

    fn speech(&mut self, loud: bool, millis: u64) {
        for _ in 0..millis / 20 {
            self.now += ms(20);
            let at = Duration::from_micros(self.now.as_micros());
            let probability = if loud { 0.95 } else { 0.05 };
            self.step(Event::Speech { window: Window::plain(probability, ms(20)), at });
        }
    }

    fn words(&mut self, text: &str) -> Vec<String> {
        let (run, seq) = (self.run("ears"), self.seq);
        let transcript = Transcript { text: text.into(), mean_log_prob: None };
        self.step(Event::Recognised { run, seq, is_final: true, transcript })
    }

    /// The caller has said something, and it was understood.
    fn turn(&mut self) {
        self.step(Event::Connected);
        self.speech(true, 400);
        self.speech(false, 300);
        self.words("Tell me a story");
        self.speech(false, 220);
        let (run, proof) = (self.run("ears"), Ok(Evidence::Completed));
        self.step(Event::Ended { run, proof, fault: None });
    }

    fn sound(&mut self, name: &str, millis: usize) -> Vec<String> {
        let run = self.run(name);
        self.step(Event::Sounded { run, phrase: 0, samples: vec![0; millis * 24] })
    }

    fn speaking(&mut self) {
        self.turn();
        let run = self.run("model");
        self.after(100).step(Event::Wrote { run, text: "There was a king. ".into() });
        self.sound("voice", 2_000);
    }

    fn all_came(&mut self, name: &'static str) {
        let run = self.run(name);
        self.step(Event::PhraseSounded { run, phrase: 0, words: Vec::new() });
        self.step(Event::Ended { run, proof: Ok(Evidence::Completed), fault: None });
    }

    fn timeouts(&mut self, millis: u64) {
        for _ in 0..millis / 20 {
            self.now += ms(20);
            self.step(Event::Timeout);
        }
    }

    fn waiting(&mut self) {
        let now = self.now;
        self.gates.rotate(now, OwnerId(77), Generation(0), Cancelled::Client);
        let offer = Offer {
            id: self.gates.name_offer(),
            owner: OwnerId(77),
            generation: Generation(0),
            born: now,
            deadline: now + ms(10),
            tenant: TenantId(0),
            class: ClassId(0),
            cost: 1,
            bytes: 0,
            retry_of: None,
            supersedes: None,
        };
        self.held = Some(self.gates.ask(now, Stage::Model, offer));
        self.turn();
    }
}

type Setup = (&'static str, fn(&mut Bench));

const STATES: [Setup; 14] = [
    ("ringing", |_| {}),
    ("listening", |b| drop(b.step(Event::Connected))),
    ("listening, the caller speaks", |b| {
        b.step(Event::Connected);
        b.speech(true, 400);
    }),
    ("listening, words awaited", |b| {
        b.step(Event::Connected);
        b.speech(true, 400);
        b.speech(false, 520);
    }),
    ("thinking", Bench::turn),
    ("thinking, waiting for the model", Bench::waiting),
    ("thinking, the caller goes on", |b| {
        b.turn();
        b.speech(true, 200);
    }),
    ("thinking, a tool runs", |b| {
        b.turn();
        let run = b.run("model");
        b.step(Event::Wanted { run, call: call() });
        b.step(Event::Finished { run, finish: Finish::ToolCalls, usage: Usage::default() });
    }),
    ("speaking", Bench::speaking),
    ("speaking, a barge-in suspected", |b| {
        b.speaking();
        b.speech(true, 100);
    }),
    ("playing out", |b| {
        b.speaking();
        let run = b.run("model");
        b.step(Event::Finished { run, finish: Finish::Stop, usage: Usage::default() });
        b.step(Event::Ended { run, proof: Ok(Evidence::Completed), fault: None });
        b.all_came("voice");
        b.timeouts(1_820);
    }),
    ("falling back", |b| {
        b.turn();
        let run = b.run("model");
        let fault = Some(Fault::Empty);
        b.step(Event::Ended { run, proof: Ok(Evidence::Completed), fault });
        b.sound("prompt", 2_000);
    }),
    ("falling back, still waiting", |b| {
        b.waiting();
        b.after(3_200).step(Event::Timeout);
        b.sound("prompt", 2_000);
    }),
    ("leaving", |b| {
        b.step(Event::Connected);
        b.step(Event::Drain);
        b.sound("prompt", 2_000);
    }),
];

fn call() -> ToolCall {
    ToolCall { call_id: "call_1".into(), name: "book".into(), arguments: "{}".into() }
}

fn caller(said: FromCaller) -> Event {
    Event::Caller(said)
}

fn speech(b: &Bench, probability: f32) -> Event {
    let at = Duration::from_micros(b.now.as_micros());
    Event::Speech { window: Window::plain(probability, ms(100)), at }
}

type Happens = (&'static str, fn(&Bench) -> Event);

/// Every event, fitted to what runs in the state.
const EVENTS: [Happens; 34] = [
    ("connected", |_| Event::Connected),
    ("speech", |b| speech(b, 0.9)),
    ("silence", |b| speech(b, 0.0)),
    ("commit", |b| {
        let at = Duration::from_micros(b.now.as_micros()) + ms(500);
        Event::Commit { buffered: ms(500), at, tag: None }
    }),
    ("final words", |b| recognised(b, true, "Stop it now")),
    ("no words", |b| recognised(b, true, "")),
    ("partial words", |b| recognised(b, false, "Stop")),
    ("turn judged", |b| Event::TurnJudged {
        utterance: floorkeeper::id::UtteranceId(1),
        seq: b.seq,
        probability: 0.9,
    }),
    ("model writes", |b| Event::Wrote { run: b.run("model"), text: "And more of it. ".into() }),
    ("model wants a tool", |b| Event::Wanted { run: b.run("model"), call: call() }),
    ("model finished", |b| {
        let (run, usage) = (b.run("model"), Usage::default());
        Event::Finished { run, finish: Finish::Stop, usage }
    }),
    ("sound", |b| Event::Sounded { run: b.run("voice"), phrase: 0, samples: vec![0; 2_400] }),
    ("sound of a prompt", |b| Event::Sounded {
        run: b.run("prompt"),
        phrase: 0,
        samples: vec![0; 2_400],
    }),
    ("phrase sounded", |b| Event::PhraseSounded {
        run: b.run("voice"),
        phrase: 0,
        words: Vec::new(),
    }),
    ("tool returned", |b| Event::ToolReturned {
        run: b.run("tool"),
        outcome: ToolOutcome::Completed("booked".into()),
    }),
    ("recogniser failed", |b| ended(b, "ears", Some(Fault::Empty))),
    ("model failed", |b| ended(b, "model", Some(Fault::Empty))),
    ("voice failed", |b| ended(b, "voice", Some(Fault::Empty))),
    ("tool lost", |b| Event::Ended {
        run: b.run("tool"),
        proof: Err(Unknown::CancelTimeout),
        fault: None,
    }),
    ("prompt came", |b| ended(b, "prompt", None)),
    ("foreign wait ended", |_| Event::WaitEnded {
        offer: OfferId(999),
        stage: Stage::Model,
        terminal: Terminal::Expired,
    }),
    ("timeout", |_| Event::Timeout),
    ("drain", |_| Event::Drain),
    ("respond", |_| caller(FromCaller::Respond { request: Box::default(), tag: None })),
    ("respond beside", |_| {
        let request = ResponseRequest { out_of_band: true, ..ResponseRequest::default() };
        caller(FromCaller::Respond { request: Box::new(request), tag: None })
    }),
    ("cancel", |_| caller(FromCaller::Cancel { response: None, tag: None })),
    ("clear audio", |_| caller(FromCaller::ClearAudio)),
    ("add item", |_| {
        let body = ItemBody::Text { role: Role::User, text: "Hi".into() };
        let item = Item { id: ItemId::new("mine"), body, status: ItemStatus::Completed };
        caller(FromCaller::AddItem { item, after: Place::End, tag: None })
    }),
    ("delete, retrieve, truncate nothing", |_| {
        caller(FromCaller::DeleteItem { item: ItemId::new("none"), tag: None })
    }),
    ("heard nothing of it", |_| {
        caller(FromCaller::Heard { item: ItemId::new("none"), played: ms(10) })
    }),
    ("key", |_| caller(FromCaller::Dtmf('1'))),
    ("lost", |_| caller(FromCaller::Lost { how: "reset", silent_for: ms(10) })),
    ("back", |_| caller(FromCaller::Back)),
    ("gone", |_| caller(FromCaller::Gone { how: "closed" })),
];

fn recognised(b: &Bench, is_final: bool, text: &str) -> Event {
    let transcript = Transcript { text: text.into(), mean_log_prob: None };
    Event::Recognised { run: b.run("ears"), seq: b.seq, is_final, transcript }
}

fn ended(b: &Bench, name: &str, fault: Option<Fault>) -> Event {
    Event::Ended { run: b.run(name), proof: Ok(Evidence::Completed), fault }
}

fn named((floor, ear): (&str, &str)) -> String {
    format!("{floor}/{ear}")
}

#[test]
fn every_state_knows_every_event() {
    let mut table = String::new();
    for (state, set_up) in STATES {
        let mut sample = bench();
        set_up(&mut sample);
        let from = named(sample.call.state_names());
        let _ = writeln!(table, "=== {state} ({from})");
        for (name, event) in EVENTS {
            let mut b = bench();
            set_up(&mut b);
            let event = event(&b);
            let lines = b.step(event);
            let to = named(b.call.state_names());
            let to = if to == from { "=".to_owned() } else { to };
            let what = if lines.is_empty() { String::new() } else { lines.join("; ") };
            let _ = writeln!(table, "{name}: {to}  {what}");
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn nothing_brings_a_call_back_that_has_ended() {
    for (state, set_up) in STATES {
        for (name, event) in EVENTS {
            let mut b = bench();
            set_up(&mut b);
            b.step(caller(FromCaller::Gone { how: "closed" }));
            let why = b.call.has_ended();
            let event = event(&b);
            let lines = b.step(event);
            assert_eq!(b.call.has_ended(), why, "{state}, then {name}");
            let heard = lines.iter().any(|line| line.contains("sound") || line.contains("hang up"));
            assert!(!heard, "{state}, then {name}: {lines:?}");
        }
    }
}
