//! The built-in front desk: dialogues as data with the real tools, and properties of all histories.
//!
//! A dialogue is a file of lines in `fixtures/front_desk/`. Given: `#` a comment, `tools:` those
//! on offer (default `find_slot book`), `language:`, `break: TOOL OUTPUT` the tool does not run
//! and the history shows this result, `late: TOOL` its result comes only after the answer to the
//! caller's next words, `slow: TOOL` after these words, `cut: N` the caller hears only N words of
//! the next answer (`*` for none), `other: …` words of an agent that are not the desk's, `system:
//! …`, `caller: …`. Checked: `agent: …` (a
//! `|` marks what was heard) and `tool: …`. `BLESS=1 cargo test --test front_desk` writes the
//! checked lines anew.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use floorkeeper::dialogue::{
    Finish, Message, ModelRequest, Role, ToolCall, ToolChoice, ToolOutcome, ToolRuns, ToolSpec,
};
use floorkeeper::provider::llm::front_desk::{FrontDesk, Persona, Reply, reply};
use floorkeeper::provider::llm::{Llm, ModelSignal};
use floorkeeper::provider::tool::Tool;
use floorkeeper::provider::tool::book::Book;
use floorkeeper::provider::tool::calendar::Calendar;
use floorkeeper::provider::tool::find_slot::FindSlot;
use floorkeeper::provider::{Cancel, Ended};
use proptest::prelude::*;

fn spec(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        parameters: serde_json::json!({"type": "object"}),
        runs: ToolRuns::AtClient,
    }
}

fn said(role: Role, text: &str) -> Message {
    Message::Said { role, text: text.to_owned() }
}

/// A conversation that a dialogue file drives.
struct Stage {
    request: ModelRequest,
    tools: BTreeMap<&'static str, Arc<dyn Tool>>,
    breaks: BTreeMap<String, String>,
    late: Option<String>,
    slow: Option<String>,
    held_back: Option<Message>,
    returned_slowly: Option<Message>,
    cut: Option<usize>,
    runtime: tokio::runtime::Runtime,
    written: Vec<String>,
}

impl Stage {
    fn new() -> Stage {
        let calendar = Arc::new(Mutex::new(Calendar::default()));
        let find: Arc<dyn Tool> = Arc::new(FindSlot::new(calendar.clone(), Duration::ZERO));
        let book: Arc<dyn Tool> = Arc::new(Book::new(calendar, Duration::ZERO));
        Stage {
            request: ModelRequest {
                tools: vec![spec("find_slot"), spec("book")],
                language: "en".into(),
                ..ModelRequest::default()
            },
            tools: BTreeMap::from([("find_slot", find), ("book", book)]),
            breaks: BTreeMap::new(),
            late: None,
            slow: None,
            held_back: None,
            returned_slowly: None,
            cut: None,
            runtime: tokio::runtime::Builder::new_current_thread().build().expect("a runtime"),
            written: Vec::new(),
        }
    }

    fn play(&mut self, line: &str) {
        let (word, rest) = line.split_once(':').unwrap_or((line, ""));
        let rest = rest.trim();
        match word {
            "agent" | "tool" => return,
            "tools" => self.request.tools = rest.split_whitespace().map(spec).collect(),
            "language" => self.request.language = rest.to_owned(),
            "break" => {
                let (tool, output) = rest.split_once(' ').expect("break: TOOL OUTPUT");
                self.breaks.insert(tool.to_owned(), output.to_owned());
            }
            "late" => self.late = Some(rest.to_owned()),
            "slow" => self.slow = Some(rest.to_owned()),
            "cut" if rest == "*" => self.cut = Some(0),
            "cut" => self.cut = Some(rest.parse().expect("cut: a number of words")),
            "other" => self.request.history.push(said(Role::Assistant, rest)),
            "system" => self.request.history.push(said(Role::System, rest)),
            "caller" => {
                self.written.push(line.to_owned());
                self.request.history.push(said(Role::User, rest));
                self.request.history.extend(self.returned_slowly.take());
                return self.answer();
            }
            _ if line.is_empty() || line.starts_with('#') => {}
            _ => panic!("no such line: {line}"),
        }
        self.written.push(line.to_owned());
    }

    /// Lets the desk answer, running its tools, until it has said something.
    fn answer(&mut self) {
        for _ in 0..4 {
            match reply(&Persona::default(), &self.request) {
                Reply::Call(call) => {
                    if !self.call(call) {
                        return;
                    }
                }
                Reply::Say(spoken) => {
                    check_speech(&spoken.text);
                    return self.hear(&spoken.text);
                }
            }
        }
        panic!("the desk goes on calling tools: {:?}", self.request.history);
    }

    fn hear(&mut self, text: &str) {
        let words: Vec<&str> = text.split(' ').collect();
        let heard = self.cut.take().unwrap_or(words.len()).min(words.len());
        let (first, rest) = words.split_at(heard);
        self.written.push(match rest {
            [] => format!("agent: {text}"),
            rest if first.is_empty() => format!("agent: | {}", rest.join(" ")),
            rest => format!("agent: {} | {}", first.join(" "), rest.join(" ")),
        });
        if !first.is_empty() {
            self.request.history.push(said(Role::Assistant, &first.join(" ")));
        }
        if let Some(returned) = self.held_back.take() {
            self.request.history.push(returned);
        }
    }

    /// Runs a tool; false when its result is held back.
    fn call(&mut self, call: ToolCall) -> bool {
        let offered = self.request.tools.iter().any(|tool| tool.name == call.name);
        assert!(offered, "the desk called {}, which is not on offer", call.name);
        let output = match (self.breaks.remove(&call.name), self.tools.get(call.name.as_str())) {
            (Some(output), _) => output,
            (None, None) => r#"{"status":"failed"}"#.to_owned(),
            (None, Some(tool)) => {
                let key = call.call_id.clone();
                let run = tool.clone().run(call.arguments.clone(), key, Cancel::new());
                match self.runtime.block_on(run) {
                    (ToolOutcome::Completed(result), _) => result,
                    (other, _) => panic!("{}: {other:?}", call.name),
                }
            }
        };
        let held_back = self.late.take_if(|late| *late == call.name).is_some();
        let slow = self.slow.take_if(|slow| *slow == call.name).is_some();
        let arrow = if held_back || slow { "~>" } else { "->" };
        self.written.push(format!("tool: {} {} {arrow} {output}", call.name, call.arguments));
        let returned = Message::Returned { call_id: call.call_id.clone(), output };
        self.request.history.push(Message::Called(call));
        if held_back {
            self.held_back = Some(returned);
        } else if slow {
            self.returned_slowly = Some(returned);
        } else {
            self.request.history.push(returned);
        }
        !held_back && !slow
    }
}

fn sentences(text: &str) -> Vec<&str> {
    text.split(['.', '?', '!']).filter(|part| part.chars().any(char::is_alphanumeric)).collect()
}

/// Short, plain, for the ear.
fn check_speech(text: &str) {
    assert!(text.chars().any(char::is_alphabetic), "nothing is said: {text:?}");
    assert!(sentences(text).len() <= 12, "too long: {text}");
    for sentence in sentences(text) {
        assert!(sentence.split_whitespace().count() < 20, "long sentence: {sentence}");
    }
    let odd = |c: char| c.is_ascii_digit() || "*_#<>[]{}|/\\\"".contains(c);
    assert!(!text.contains(odd), "digits or markup: {text}");
    assert!(!text.contains("  ") && text == text.trim(), "odd spaces: {text:?}");
}

#[test]
fn dialogues() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/front_desk");
    let bless = std::env::var_os("BLESS").is_some();
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the folder of dialogues")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|end| end == "txt"))
        .collect();
    files.sort();
    assert!(files.len() >= 25, "only {} dialogues", files.len());
    let mut wrong = Vec::new();
    for file in files {
        let expected = std::fs::read_to_string(&file).expect("a dialogue");
        let mut stage = Stage::new();
        expected.lines().for_each(|line| stage.play(line.trim_end()));
        let played = stage.written.join("\n") + "\n";
        if bless {
            std::fs::write(&file, played).expect("writable");
        } else if played != expected {
            wrong.push(format!("{}:\n{played}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "not as written (BLESS=1 rewrites):\n{}", wrong.join("\n"));
}

/// An explanation has to be long enough to be interrupted, and not a speech.
#[test]
fn explanations_have_more_than_one_sentence() {
    for asked in ["Tell me about the restaurant", "explain how booking works", "tell me a story"] {
        for tools in [vec![], vec![spec("book")]] {
            let history = vec![said(Role::User, asked)];
            let request = ModelRequest { history, tools, ..ModelRequest::default() };
            let Reply::Say(spoken) = reply(&Persona::default(), &request) else { panic!("words") };
            check_speech(&spoken.text);
            assert!(sentences(&spoken.text).len() >= 5, "{asked}: {}", spoken.text);
        }
    }
}

#[tokio::test]
async fn it_streams_word_by_word_and_stops_when_cancelled() {
    let desk = Arc::new(FrontDesk::new(Persona::default()));
    let request = |text: &str| ModelRequest {
        history: vec![said(Role::User, text)],
        tools: vec![spec("find_slot"), spec("book")],
        ..ModelRequest::default()
    };
    let (out, mut signals) = tokio::sync::mpsc::channel(1_000);
    let ended = desk.clone().run(request("where are you"), out, Cancel::new()).await;
    assert_eq!(ended, Ended::completed());
    let mut pieces = Vec::new();
    let mut finish = None;
    while let Some(signal) = signals.recv().await {
        match signal {
            ModelSignal::Text(piece) => pieces.push(piece),
            ModelSignal::Finished { finish: why, usage } => {
                assert_eq!(usage.output_tokens as usize, pieces.len());
                finish = Some(why);
            }
            ModelSignal::ToolCall(call) => panic!("no tool is needed: {call:?}"),
        }
    }
    assert_eq!(finish, Some(Finish::Stop));
    assert_eq!(pieces.concat(), Persona::default().address);
    assert!(pieces.len() > 5);

    let (out, mut signals) = tokio::sync::mpsc::channel(1_000);
    let short = ModelRequest { max_tokens: Some(3), ..request("where are you") };
    desk.clone().run(short, out, Cancel::new()).await;
    let mut last = None;
    while let Some(signal) = signals.recv().await {
        last = Some(signal);
    }
    assert!(matches!(last, Some(ModelSignal::Finished { finish: Finish::Length, .. })));

    // A full channel must not hold a cancelled run.
    let (out, signals) = tokio::sync::mpsc::channel(1);
    let cancel = Cancel::new();
    let run = tokio::spawn(desk.run(request("tell me a story"), out, cancel.clone()));
    cancel.cancel();
    let ended = run.await.expect("no panic");
    assert!(ended.proof.is_ok() && ended != Ended::completed());
    drop(signals);
}

#[tokio::test]
async fn a_tool_call_comes_whole() {
    let request = ModelRequest {
        history: vec![said(Role::User, "a table for four tomorrow at half past seven")],
        tools: vec![spec("find_slot"), spec("book")],
        ..ModelRequest::default()
    };
    let (out, mut signals) = tokio::sync::mpsc::channel(10);
    let desk = Arc::new(FrontDesk::new(Persona::default()));
    desk.run(request, out, Cancel::new()).await;
    let Some(ModelSignal::ToolCall(call)) = signals.recv().await else { panic!("a tool call") };
    assert_eq!(call.name, "find_slot");
    let arguments: serde_json::Value = serde_json::from_str(&call.arguments).expect("JSON");
    let wanted = serde_json::json!({"day": "tomorrow", "time": "19:30", "party": 4});
    assert_eq!(arguments, wanted);
    let last = signals.recv().await;
    assert!(matches!(last, Some(ModelSignal::Finished { finish: Finish::ToolCalls, .. })));
}

/// Words that steer the desk, mixed with anything at all.
fn words() -> impl Strategy<Value = String> {
    const STEERING: &[&str] = &[
        "yes",
        "no",
        "book a table",
        "cancel my booking",
        "move it",
        "tomorrow",
        "friday",
        "the twenty first of june",
        "half past seven",
        "seven thirty",
        "for four",
        "four people",
        "Smith",
        "my name is Booked",
        "what",
        "go on",
        "wait",
        "never mind",
        "a human please",
        "call me back",
        "am I booked",
        "the second one",
        "any time",
        "bye",
        "tell me a story",
        "99999999999999",
        "31st",
        "25:99",
        "0",
        "for for",
        "7.30pm",
        "not friday saturday",
    ];
    let one = prop_oneof![
        4 => prop::sample::select(STEERING).prop_map(str::to_owned),
        1 => "\\PC{0,12}",
        1 => any::<String>(),
    ];
    prop::collection::vec(one, 0..4).prop_map(|parts| parts.join(" "))
}

const OUTPUTS: &[&str] = &[
    r#"{"status":"ok","day":"tomorrow","free":["18:00","19:30"]}"#,
    r#"{"status":"ok","free":["99:99",3]}"#,
    r#"{"status":"booked","confirmation":"417"}"#,
    r#"{"status":"booking_moved","confirmation":417}"#,
    r#"{"status":"booking_cancelled"}"#,
    r#"{"status":"taken","free":["18:00"]}"#,
    r#"{"status":"closed"}"#,
    r#"{"status":"not_found"}"#,
    r#"{"status":"several","times":["18:00","19:00"]}"#,
    r#"{"outcome":"unknown"}"#,
    r#"{"outcome":"failed"}"#,
    "overloaded",
    "",
    "booked",
];
const ARGUMENTS: &[&str] = &[
    r#"{"action":"book","day":"tomorrow","time":"19:30","party":4,"name":"Smith"}"#,
    r#"{"action":"move","day":"friday","new_day":"21 june","time":"20:00","name":"X"}"#,
    r#"{"action":"cancel","day":"x","name":"Smith 7"}"#,
    "no JSON",
];

fn message() -> impl Strategy<Value = Message> {
    const AGENT: &[&str] = &[
        "It is booked.",
        "How many people will you be?",
        "Shall I make the booking?",
        "What name shall I put it under?",
        "All lines are busy. Your table is booked.",
    ];
    let tool = prop::sample::select(&["find_slot", "book", "handoff", "callback", "x"][..]);
    let call = |id: u8| format!("call {}", id % 4);
    prop_oneof![
        6 => words().prop_map(|text| said(Role::User, &text)),
        2 => prop::sample::select(AGENT).prop_map(|text| said(Role::Assistant, text)),
        1 => any::<String>().prop_map(|text| said(Role::Assistant, &text)),
        1 => words().prop_map(|text| said(Role::System, &text)),
        2 => (any::<u8>(), tool, prop::sample::select(ARGUMENTS)).prop_map(
            move |(id, name, arguments)| Message::Called(ToolCall {
                call_id: call(id),
                name: name.to_owned(),
                arguments: arguments.to_owned(),
            })
        ),
        2 => (any::<u8>(), prop::sample::select(OUTPUTS)).prop_map(
            move |(id, output)| Message::Returned { call_id: call(id), output: output.to_owned() }
        ),
    ]
}

/// Endings that tempt to claim a booking.
fn ending() -> impl Strategy<Value = Vec<Message>> {
    let book = |arguments: &str| {
        let (call_id, name) = ("last".to_owned(), "book".to_owned());
        Message::Called(ToolCall { call_id, name, arguments: arguments.to_owned() })
    };
    let returned =
        |output: &str| Message::Returned { call_id: "last".into(), output: output.into() };
    let (arguments, outputs) = (prop::sample::select(ARGUMENTS), prop::sample::select(OUTPUTS));
    const LAST: &[&str] = &["am I booked", "what?", "hello", "yes", "thanks, bye", "never mind"];
    (arguments, outputs, prop::sample::select(LAST), 0..5_u8).prop_map(
        move |(arguments, output, last, shape)| match shape {
            0 => vec![book(arguments), returned(output)],
            1 => vec![book(arguments), returned(output), said(Role::User, last)],
            2 => vec![book(arguments), said(Role::User, last), returned(output)],
            3 => vec![book(arguments), said(Role::User, last)],
            _ => vec![said(Role::Assistant, "Your table is booked."), said(Role::User, last)],
        },
    )
}

/// The last result of `book` in a history says that a booking stands.
fn says_booked(history: &[Message]) -> bool {
    let mut open: Vec<(&str, &str)> = Vec::new();
    let mut booked = false;
    for message in history {
        match message {
            Message::Called(call) => open.push((&call.call_id, &call.name)),
            Message::Returned { call_id, output } => {
                let Some(at) = open.iter().rposition(|(id, _)| id == call_id) else { continue };
                if open.remove(at).1 == "book" {
                    booked = output.contains(r#""booked""#) && output.starts_with('{');
                }
            }
            Message::Said { .. } => {}
        }
    }
    booked
}

/// The caller may have asked for words of somebody else again.
fn repeated(history: &[Message]) -> bool {
    history.iter().any(|message| matches!(message, Message::Said { role: Role::Assistant, .. }))
}

fn offered() -> impl Strategy<Value = Vec<ToolSpec>> {
    prop::sample::subsequence(&["find_slot", "book", "handoff", "callback", "odd"][..], 0..=5)
        .prop_map(|names| names.into_iter().map(spec).collect())
}

/// `PROPTEST_CASES` asks for more of them.
fn cases() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|cases| cases.parse().ok()).unwrap_or(400)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Never a panic, never silence, never a speech, never a booking that no tool has confirmed.
    #[test]
    fn any_history_gets_a_true_answer(
        mut history in prop::collection::vec(message(), 0..14),
        ending in prop_oneof![Just(Vec::new()), ending()],
        tools in offered(),
        choice in prop::sample::select(vec![ToolChoice::Auto, ToolChoice::None]),
    ) {
        history.extend(ending);
        let request =
            ModelRequest { history, tools, tool_choice: choice, ..ModelRequest::default() };
        let first = reply(&Persona::default(), &request);
        prop_assert_eq!(&first, &reply(&Persona::default(), &request), "not deterministic");
        match first {
            Reply::Say(spoken) => {
                let text = &spoken.text;
                prop_assert!(text.chars().any(char::is_alphanumeric), "silent");
                prop_assert!(sentences(text).len() <= 12, "a speech: {}", text);
                let gaps = [" .", " ,", "  ", ". ,"].iter().any(|gap| text.contains(gap));
                prop_assert!(!gaps || repeated(&request.history), "a gap: {:?}", text);
                let claims = text.to_lowercase().contains("booked");
                prop_assert!(!claims || says_booked(&request.history), "a false claim: {}", text);
            }
            Reply::Call(call) => {
                let known = request.tools.iter().any(|tool| tool.name == call.name);
                prop_assert!(known && request.tool_choice != ToolChoice::None, "{:?}", call);
                let arguments: Result<serde_json::Value, _> =
                    serde_json::from_str(&call.arguments);
                prop_assert!(arguments.is_ok_and(|value| value.is_object()));
            }
        }
    }

    /// Whatever a caller says to the desk alone, every sentence is short, plain and for the ear.
    #[test]
    fn what_it_says_can_be_spoken(texts in prop::collection::vec(words(), 1..8)) {
        let mut stage = Stage::new();
        for text in texts {
            let line: String = text.chars().filter(|c| !c.is_control()).collect();
            stage.play(&format!("caller: {line}"));
        }
    }
}
