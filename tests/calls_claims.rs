//! A unit of synthesis is claimed before a model begins: whatever becomes of the answer,
//! the claim is used, given back unused, or lapses.

use std::sync::Arc;
use std::time::Duration;

use floorkeeper::admission::adaptive::Law;
use floorkeeper::admission::{
    Admit, Cancelled, Claimed, Lease, Limits, Offer, OwnerId, Release, Settled, Terminal, Wake,
};
use floorkeeper::config::Script as Prompts;
use floorkeeper::evidence::Evidence;
use floorkeeper::id::{Generation, Stage};
use floorkeeper::runtime::clock::Clock;
use floorkeeper::runtime::gates::{Gates, OwnerGates};
use floorkeeper::sim::facts::Fact;
use floorkeeper::sim::script::Script;
use floorkeeper::sim::world;
use floorkeeper::time::{Timestamp, ms};
use tokio::sync::mpsc;

/// One unit, so that a claim that stays would be in the way of the next turn.
const START: &str = "
about = \"a claim\"
[limits.synthesis]
slots = 1
";

const ASKS: &str = "
[[caller]]
at = \"0.5s\"
says = \"Tell me a story please\"
";

/// Runs the script; gives what happened once every invariant of the simulation has held.
fn facts(name: &str, script: &str) -> Vec<Fact> {
    let script = Script::parse(name, &format!("{START}{script}")).expect(name);
    let prompts = Arc::new(Prompts::read(None).expect("the built-in prompts"));
    let outcome = world::run(&script, prompts).expect(name);
    assert!(outcome.problems.is_empty(), "{name}: {:#?}\n{}", outcome.problems, outcome.trace);
    outcome.facts
}

fn count(facts: &[Fact], pattern: &str) -> usize {
    facts.iter().filter(|fact| fact.fits(pattern)).count()
}

const CLAIMED: &str = "admission.admitted(synthesis, reason=claim)";
const UNUSED: &str = "admission.completed(synthesis, reason=never_started)";

/// How an answer can end without a word, or begin to sound.
const ENDINGS: [(&str, &str, usize, usize); 11] = [
    // name, script, claims, claims given back unused
    ("spoken", "[llm]\nreply = \"There was a king.\"", 1, 0),
    ("in text", "[session]\ntext = true\n[llm]\nreply = \"There was a king.\"", 0, 0),
    ("empty", "[llm]\nempty = true", 1, 1),
    ("the model fails", "[llm]\nfail = \"500\"", 1, 1),
    ("the model breaks off", "[llm]\nfail = \"reset\"\nfail_after_ms = 50", 1, 1),
    ("the model stalls", "[llm]\nstall_after_ms = 0\nreply = \"There was a king.\"", 1, 1),
    (
        "only a call, then words",
        "[tool.book]\nprovider = \"scripted\"\n[llm]\nreply = [\"It is done.\", \"All right.\"]\n\
         tool = [{ name = \"book\", arguments = {} }, \"none\"]",
        2,
        1,
    ),
    (
        "only a call of the client's",
        "[session]\nclient_tools = [\"weather\"]\n[llm]\nreply = \"\"\n\
         tool = { name = \"weather\", arguments = {} }",
        1,
        1,
    ),
    (
        "cancelled while the model thinks",
        "[llm]\nreply = \"There was a king.\"\nfirst_token_ms = 2000\n[[caller]]\n\
         after = \"model.start + 300ms\"\ncancels = true",
        1,
        1,
    ),
    (
        "the caller hangs up while the model thinks",
        "[llm]\nreply = \"There was a king.\"\nfirst_token_ms = 2000\n[[caller]]\n\
         after = \"model.start + 300ms\"\nhangs_up = true",
        1,
        1,
    ),
    (
        "the server drains while the model thinks",
        "[llm]\nreply = \"There was a king.\"\nfirst_token_ms = 2000\n[[caller]]\n\
         after = \"model.start + 300ms\"\ndrains = true",
        1,
        1,
    ),
];

#[test]
fn a_024_every_claim_is_used_or_given_back() {
    for (name, script, claims, unused) in ENDINGS {
        let facts = facts(name, &format!("{script}\n{ASKS}"));
        assert_eq!(count(&facts, CLAIMED), claims, "{name}: claims");
        assert_eq!(count(&facts, UNUSED), unused, "{name}: claims given back unused");
        let spoken = count(&facts, "synthesis.start");
        assert_eq!(spoken + unused, claims, "{name}: runs of the synthesiser");
    }
}

/// The caller goes on before anything was heard: the claim of the answer that is superseded makes
/// room for that of the next one.
#[test]
fn a_024_a_superseded_answer_leaves_its_claim() {
    let script = "[llm]\nreply = \"There was a king.\"\nfirst_token_ms = 2000\n[[caller]]\n\
                  after = \"model.start + 200ms\"\nsays = \"A short one\"";
    let facts = facts("superseded", &format!("{script}\n{ASKS}"));
    assert_eq!(count(&facts, CLAIMED), 2);
    assert_eq!(count(&facts, UNUSED), 1);
    assert_eq!(count(&facts, "turn.answered(2)"), 1);
}

/// A unit granted to a model later on is no different from one that was free at once.
#[test]
fn a_024_a_granted_model_claims_and_is_refused_before_it_starts() {
    let waits = "[limits.model]\nslots = 1\nqueue = 1\nmax_wait_ms = 9000\n[llm]\n\
                 reply = \"There was a king.\"\n[[gate]]\ngate = \"model\"\nhold = 1\n\
                 until = \"4s\"";
    let free = facts("a voice is free", &format!("{waits}\n{ASKS}"));
    assert_eq!(count(&free, CLAIMED), 1);
    assert_eq!(count(&free, "turn.answered(1)"), 1);
    let taken = "[[gate]]\ngate = \"synthesis\"\nhold = 1\nuntil = \"8s\"";
    let taken = facts("no voice is free", &format!("{waits}\n{taken}\n{ASKS}"));
    assert_eq!(count(&taken, "admission.queued(model)"), 1);
    assert_eq!(count(&taken, "admission.overloaded(synthesis, reason=no_queue)"), 1);
    assert_eq!(count(&taken, "admission.completed(model, reason=never_started)"), 1);
    assert_eq!(count(&taken, "model.start"), 0);
    assert_eq!(count(&taken, "turn.failed(1)"), 1);
}

/// Closed is closed, queue or none.
#[test]
fn a_024_a_queue_helps_only_against_a_lack_of_room() {
    let script = "queue = 4\n[llm]\nreply = \"There was a king.\"\n[[gate]]\n\
                  gate = \"synthesis\"\nhold = 1";
    let full = facts("full", &format!("{script}\nuntil = \"4s\"\n{ASKS}"));
    assert_eq!(count(&full, "model.start"), 1);
    assert_eq!(count(&full, "turn.answered(1)"), 1);
    let none = "about = \"none\"\n[limits.synthesis]\nslots = 0\nqueue = 4\n[llm]\n\
                reply = \"There was a king.\"";
    let script = Script::parse("none", &format!("{none}\n{ASKS}")).expect("a script");
    let prompts = Arc::new(Prompts::read(None).expect("the built-in prompts"));
    let outcome = world::run(&script, prompts).expect("a world");
    assert!(outcome.problems.is_empty(), "{:#?}", outcome.problems);
    assert_eq!(count(&outcome.facts, "model.start"), 0);
    assert_eq!(count(&outcome.facts, "admission.closed(synthesis, reason=no_capacity)"), 1);
}

/// An earlier round still sounds when the next one begins: the unit it has is claimed again as soon
/// as it is free.
#[test]
fn a_024_a_round_behind_one_that_sounds_claims_when_that_has_ended() {
    let script = "[tool.look]\nprovider = \"scripted\"\neffect = \"read\"\ntakes_ms = 20\n[tts]\n\
                  rate_x = 2\n[llm]\nreply = [\"It is done.\", \"All right.\"]\n\
                  first_token_ms = [100, 2500]\n\
                  tool = [{ name = \"look\", arguments = {}, says = \"Let me have a look at it.\" \
                  }, \"none\"]";
    let facts = facts("rounds", &format!("{script}\n{ASKS}"));
    let names: Vec<String> = facts
        .iter()
        .filter(|fact| fact.fits(CLAIMED) || fact.name.ends_with(".start"))
        .map(|fact| fact.name.to_string())
        .filter(|name| name != "recognition.start")
        .collect();
    let expected = [
        "admission.admitted",
        "model.start",
        "synthesis.start",
        "tool.start",
        "model.start",
        "admission.admitted",
        "synthesis.start",
    ];
    assert_eq!(names, expected);
    assert_eq!(count(&facts, "turn.answered(1)"), 1);
}

/// One unit, as the calls of a running server see it, and what it tells one of them.
fn real_gates() -> (Gates, OwnerGates, mpsc::Sender<Wake>, mpsc::Receiver<Wake>) {
    let gates = Gates::new(Clock::start(), [(Stage::Synthesis, Limits::default())]);
    let (control, told) = mpsc::channel(4);
    let mut owner = gates.for_owner(control.clone());
    owner.rotate(gates.now(), OWNER, Generation(0), Cancelled::Superseded);
    (gates, owner, control, told)
}

const OWNER: OwnerId = OwnerId(1);

fn offer(owner: &mut OwnerGates, now: Timestamp, wait: Duration) -> Offer {
    Offer::plain(owner.name_offer(), OWNER, now, now + wait)
}

fn claim(gates: &Gates, owner: &mut OwnerGates, wait: Duration) -> Lease {
    let now = gates.now();
    let offer = offer(owner, now, wait);
    match owner.claim(now, Stage::Synthesis, offer) {
        Claimed::Held(lease) => lease,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_024_a_lapse_is_told_and_frees_the_unit() {
    let (gates, mut owner, control, mut told) = real_gates();
    let lease = claim(&gates, &mut owner, ms(1));
    while gates.now() <= gates.expire(Stage::Synthesis).unwrap_or_default() {
        tokio::task::yield_now().await;
    }
    gates.expire(Stage::Synthesis);
    let Some(Wake::Ended { offer, terminal, .. }) = told.recv().await else { panic!("no end") };
    assert_eq!((offer, terminal), (lease.offer, Terminal::Expired));
    assert!(!owner.confirm(gates.now(), &lease));
    let next = claim(&gates, &mut owner, ms(60_000));
    assert!(owner.confirm(gates.now(), &next));
    let release = Release::Completed(Evidence::NeverStarted);
    let settled = owner.settle(gates.now(), next, release);
    assert_eq!(settled, Settled::Released(Terminal::Completed));
    assert_eq!(control.capacity(), control.max_capacity(), "no place to be told stays taken");
}

/// Where the first phrase may wait, no turn is refused and none is counted as refused.
#[tokio::test]
async fn a_024_a_claim_that_may_wait_instead_is_no_refusal() {
    let (gates, mut owner, _control, _told) = real_gates();
    let limits = Limits { queue: 1, ..Limits::default() };
    gates.set_limits(Stage::Synthesis, limits, Law::default(), None);
    let held = claim(&gates, &mut owner, ms(60_000));
    let now = gates.now();
    let offer = offer(&mut owner, now, ms(60_000));
    let second = owner.claim(now, Stage::Synthesis, offer);
    assert!(matches!(second, Claimed::MayWait), "{second:?}");
    let refused = gates.look(Stage::Synthesis, |gate| gate.ledger().total().refused_total());
    assert_eq!(refused, Some(0));
    assert!(owner.confirm(gates.now(), &held));
    let _ = owner.settle(gates.now(), held, Release::Completed(Evidence::NeverStarted));
}

#[tokio::test]
async fn a_024_a_claim_of_a_call_that_is_gone_stays_in_the_books() {
    let (gates, mut owner, control, _told) = real_gates();
    let _claim = claim(&gates, &mut owner, ms(60_000));
    gates.forget(OWNER);
    assert_eq!(control.capacity(), control.max_capacity(), "no place to be told stays taken");
    let balances =
        gates.look(Stage::Synthesis, |gate| gate.ledger().balances() && gate.audit().is_ok());
    assert_eq!(balances, Some(true));
}
