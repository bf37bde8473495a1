//! What holds for any input: no panic, one error, nothing changed by it, order kept.

use std::path::Path;

use floorkeeper::audio::Pcm;
use floorkeeper::dialogue::{ToolCall, Usage};
use floorkeeper::id::{Generation, ItemId, ResponseId};
use floorkeeper::leg::{FromCaller, Modality, ResponseEnd, ResponseHead, ToCaller};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::order::OrderChecker;
use crate::script::{Run, defaults};

/// Every message that a client of the golden scripts sends.
fn corpus() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/realtime");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let scripts = paths.iter().map(|path| std::fs::read_to_string(path).unwrap());
    let messages: Vec<String> = scripts
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|line| line.strip_prefix("> ").map(str::to_owned))
        .collect();
    assert!(messages.len() > 80, "{} messages", messages.len());
    messages
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-2i32..700).prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        prop::sample::select(vec!["realtime", "function", "none", "auto", "message", "AAAA", ""])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let key = prop::sample::select(vec!["type", "id", "audio", "input", "format", "name", "x"]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..4).prop_map(|pairs| {
                Value::Object(pairs.into_iter().map(|(key, v)| (key.to_owned(), v)).collect())
            }),
        ]
    })
}

/// Puts `new` in the place of the `at`-th value of a message, counted in depth.
fn replace(value: &mut Value, at: &mut usize, new: &Value) {
    if *at == 0 {
        *value = new.clone();
    }
    *at = at.wrapping_sub(1);
    match value {
        Value::Array(list) => list.iter_mut().for_each(|entry| replace(entry, at, new)),
        Value::Object(map) => map.values_mut().for_each(|entry| replace(entry, at, new)),
        _ => {}
    }
}

/// A message: a good one, a good one with something else in one place, one cut short, or nonsense.
fn any_message() -> impl Strategy<Value = String> {
    let good = || prop::sample::select(corpus());
    prop_oneof![
        2 => good(),
        6 => (good(), 0usize..24, any_json()).prop_map(|(text, mut at, new)| {
            match serde_json::from_str::<Value>(&text) {
                Ok(mut value) => {
                    replace(&mut value, &mut at, &new);
                    value.to_string()
                }
                Err(_) => text,
            }
        }),
        1 => (good(), any::<prop::sample::Index>()).prop_map(|(text, cut)| {
            let cut = cut.index(text.len());
            text.get(..cut).unwrap_or("{").to_owned()
        }),
        1 => any_json().prop_map(|value| value.to_string()),
        1 => ".{0,40}",
    ]
}

pub fn config() -> ProptestConfig {
    // Found by what it shrinks to, not by a file beside the source.
    ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() }
}

/// What came of one message: the call's part, and the events.
fn hear(run: &mut Run, text: &str) -> (Vec<FromCaller>, Vec<Value>) {
    run.protocol.hear(text, &mut run.heard, &mut run.out);
    let events = std::iter::from_fn(|| run.out.pop_text());
    let events = events.map(|text| serde_json::from_str(&text).expect("an event is JSON"));
    (std::mem::take(&mut run.heard), events.collect())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn whatever_is_wrong_gets_one_error_and_changes_nothing(
        messages in prop::collection::vec(any_message(), 1..8),
        strict in any::<bool>(),
    ) {
        // One session hears everything, the other only what was right: they stay the same.
        let settings = || {
            let mut all = defaults();
            all.strict = strict;
            Run::begin(all)
        };
        let (mut all, mut right) = (settings(), settings());
        while right.out.pop().is_some() {}
        hear(&mut all, "");
        hear(&mut right, "");
        for text in messages {
            let before = (all.protocol.settings(), all.protocol.session_json());
            let (told, events) = hear(&mut all, &text);
            let errors: Vec<_> = events.iter().filter(|event| event["type"] == "error").collect();
            if errors.is_empty() {
                let (same, _) = hear(&mut right, &text);
                prop_assert_eq!(named(&told), named(&same), "{}", text);
            } else {
                prop_assert_eq!(events.len(), 1, "one error and nothing else: {:?}", events);
                prop_assert!(told.is_empty(), "{:?} of a wrong {}", told, text);
                prop_assert!(!errors[0]["error"]["message"].as_str().unwrap().is_empty());
                let after = (all.protocol.settings(), all.protocol.session_json());
                prop_assert_eq!(before, after, "{}", text);
            }
        }
    }

    #[test]
    fn bytes_that_are_no_message_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut run = Run::begin(defaults());
        hear(&mut run, "");
        let (told, events) = hear(&mut run, &String::from_utf8_lossy(&bytes));
        prop_assert!(told.is_empty());
        prop_assert_eq!(&events[0]["type"], "error");
    }

    #[test]
    fn any_order_of_answers_obeys_the_grammar(steps in prop::collection::vec(any_step(), 1..60)) {
        let mut run = Run::begin(defaults());
        let mut call = Call::default();
        let mut checker = OrderChecker::default();
        for step in steps.into_iter().map(Some).chain(std::iter::repeat_n(None, 8)) {
            let said = match step {
                Some(step) => call.step(step),
                None => call.end_one(),
            };
            for what in said {
                run.protocol.say(what, &mut run.out);
            }
            while let Some(event) = run.out.pop_text() {
                let event = serde_json::from_str(&event).unwrap();
                checker.see(&event).map_err(TestCaseError::fail)?;
            }
        }
        checker.finish().map_err(TestCaseError::fail)?;
        prop_assert_eq!(run.protocol.late_output(), call.late);
    }
}

/// The same without the names that the transport makes, which a refused item may have used up.
fn named(told: &[FromCaller]) -> Vec<String> {
    let made = |item: &ItemId| item.as_str().starts_with("item_t_x");
    told.iter()
        .map(|what| match what {
            FromCaller::AddItem { item, .. } if made(&item.id) => format!("{:?}", item.body),
            other => format!("{other:?}"),
        })
        .collect()
}

/// One thing that a call may do next; numbers choose among what is there.
#[derive(Clone, Debug)]
pub enum Step {
    Begin { aside: bool, text: bool },
    Message { of: usize },
    Text { of: usize, words: String },
    Sound { of: usize, samples: usize },
    EndMessage { of: usize, whole: bool },
    Function { of: usize },
    End { of: usize, how: usize },
    CallerSpeaks { transcribed: bool },
    Prompt { which: u8 },
    Late,
}

pub fn any_step() -> impl Strategy<Value = Step> {
    let of = 0usize..3;
    prop_oneof![
        3 => any::<(bool, bool)>().prop_map(|(aside, text)| Step::Begin { aside, text }),
        3 => of.clone().prop_map(|of| Step::Message { of }),
        4 => (of.clone(), ".{0,8}").prop_map(|(of, words)| Step::Text { of, words }),
        4 => (of.clone(), 0usize..6).prop_map(|(of, samples)| Step::Sound { of, samples }),
        3 => (of.clone(), any::<bool>()).prop_map(|(of, whole)| Step::EndMessage { of, whole }),
        1 => of.clone().prop_map(|of| Step::Function { of }),
        2 => (of, 0usize..6).prop_map(|(of, how)| Step::End { of, how }),
        1 => any::<bool>().prop_map(|transcribed| Step::CallerSpeaks { transcribed }),
        1 => (0u8..3).prop_map(|which| Step::Prompt { which }),
        1 => Just(Step::Late),
    ]
}

/// A call that keeps the promises of `ToCaller`, and says late things on purpose.
#[derive(Default)]
pub struct Call {
    next: u32,
    open: Vec<Open>,
    position_ms: u64,
    late: u64,
}

struct Open {
    response: ResponseId,
    aside: bool,
    modality: Modality,
    message: Option<(ItemId, String)>,
}

impl Call {
    fn item(&mut self) -> ItemId {
        self.next += 1;
        ItemId::new(&format!("item_{}", self.next))
    }

    pub fn step(&mut self, step: Step) -> Vec<ToCaller> {
        match step {
            Step::Begin { aside, text } => self.begin(aside, text),
            Step::Message { of } => self.message(of),
            Step::Text { of, words } => self.of(of, |open| {
                let (item, text) = open.message.as_mut()?;
                text.push_str(&words);
                Some(ToCaller::Text {
                    response: open.response,
                    item: item.clone(),
                    delta: words.clone(),
                })
            }),
            Step::Sound { of, samples } => self.of(of, |open| {
                let (item, _) = open.message.as_ref()?;
                (open.modality == Modality::Audio)
                    .then(|| sound(Some(open.response), item, samples))
            }),
            Step::EndMessage { of, whole } => self.of(of, |open| {
                let (item, text) = open.message.take()?;
                let response = open.response;
                Some(ToCaller::MessageEnded { response, item, completed: whole, text })
            }),
            Step::Function { of } => {
                let item = self.item();
                self.of(of, |open| {
                    let call = ToolCall {
                        call_id: format!("call_{item}"),
                        name: "look".into(),
                        arguments: json!({"a": "\"quoted\""}).to_string(),
                    };
                    let (response, item) = (open.response, item.clone());
                    let none_open = open.message.is_none();
                    none_open.then_some(ToCaller::FunctionCalled {
                        response,
                        item,
                        after: None,
                        call,
                    })
                })
            }
            Step::End { of, how } => self.end(of, how),
            Step::CallerSpeaks { transcribed } => self.caller_speaks(transcribed),
            Step::Prompt { which } => {
                let item = ItemId::new(&format!("prompt_{which}"));
                vec![sound(None, &item, 1)]
            }
            Step::Late => {
                self.late += 3;
                let response = ResponseId(9_999);
                let item = ItemId::new("item_old");
                let end = ResponseEnd::Completed;
                vec![
                    ToCaller::Text { response, item: item.clone(), delta: "late".into() },
                    sound(Some(response), &item, 4),
                    ToCaller::ResponseEnded { response, end, usage: Usage::default() },
                ]
            }
        }
    }

    fn of(&mut self, of: usize, act: impl FnOnce(&mut Open) -> Option<ToCaller>) -> Vec<ToCaller> {
        self.open.get_mut(of).and_then(act).into_iter().collect()
    }

    fn begin(&mut self, aside: bool, text: bool) -> Vec<ToCaller> {
        if self.open.len() >= 3 {
            return Vec::new();
        }
        let aside = aside || self.open.iter().any(|open| !open.aside);
        self.next += 1;
        let response = ResponseId(self.next);
        let modality = if text { Modality::Text } else { Modality::Audio };
        self.open.push(Open { response, aside, modality, message: None });
        vec![ToCaller::ResponseStarted(ResponseHead {
            response,
            out_of_band: aside,
            modality,
            voice: None,
            max_tokens: None,
            metadata: None,
        })]
    }

    fn message(&mut self, of: usize) -> Vec<ToCaller> {
        let item = self.item();
        self.of(of, |open| {
            if open.message.is_some() {
                return None;
            }
            open.message = Some((item.clone(), String::new()));
            let (response, modality) = (open.response, open.modality);
            Some(ToCaller::MessageStarted { response, item, after: None, modality })
        })
    }

    fn end(&mut self, of: usize, how: usize) -> Vec<ToCaller> {
        if of >= self.open.len() {
            return Vec::new();
        }
        let response = self.open.remove(of).response;
        let end = match how {
            0 => ResponseEnd::Completed,
            1 => ResponseEnd::TurnDetected,
            2 => ResponseEnd::ClientCancelled,
            3 => ResponseEnd::MaxTokens,
            4 => ResponseEnd::ContentFilter,
            _ => ResponseEnd::Failed { code: "provider_slow", message: "It was slow.".into() },
        };
        // A message that is still open is closed by the protocol.
        vec![ToCaller::ResponseEnded { response, end, usage: Usage::default() }]
    }

    /// Ends an answer, or what was announced outside any.
    pub fn end_one(&mut self) -> Vec<ToCaller> {
        if self.open.is_empty() {
            return (0..3)
                .map(|which| ToCaller::ClearFarEnd {
                    item: ItemId::new(&format!("prompt_{which}")),
                    played: std::time::Duration::ZERO,
                })
                .collect();
        }
        self.end(0, 0)
    }

    fn caller_speaks(&mut self, transcribed: bool) -> Vec<ToCaller> {
        use floorkeeper::dialogue::{Item, ItemBody, ItemStatus};
        let item = self.item();
        let mut at = || {
            self.position_ms += 500;
            std::time::Duration::from_millis(self.position_ms)
        };
        let body = ItemBody::Speech { transcript: transcribed.then(|| "Yes.".into()) };
        let whole = Item { id: item.clone(), body, status: ItemStatus::Completed };
        vec![
            ToCaller::SpeechStarted { item: item.clone(), at: at() },
            ToCaller::SpeechStopped { item: item.clone(), at: at() },
            ToCaller::Committed { item, after: None },
            ToCaller::ItemAdded { item: whole, after: None },
        ]
    }
}

fn sound(response: Option<ResponseId>, item: &ItemId, samples: usize) -> ToCaller {
    ToCaller::Audio {
        response,
        item: item.clone(),
        generation: Generation(1),
        pcm: Pcm { rate_hz: 24_000, samples: vec![7; samples] },
    }
}

/// A checker that lets everything pass proves nothing: each event of a good session is left out,
/// doubled and changed with its neighbour, and it must be missed.
#[test]
fn the_checker_misses_what_is_missing_and_what_is_out_of_place() {
    let script = |name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/realtime");
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        let events: Vec<Value> = text
            .lines()
            .filter_map(|line| line.strip_prefix("< "))
            .map(|event| serde_json::from_str(event).unwrap())
            .collect();
        events
    };
    // Sound may go missing or come twice, and the others stand for themselves.
    let alone = [
        "session.updated",
        "response.output_audio.delta",
        "conversation.item.retrieved",
        "conversation.item.truncated",
        "conversation.item.input_audio_transcription.completed",
    ];
    let free = |event: &Value| alone.contains(&event["type"].as_str().unwrap());
    for name in ["spoken_turn.script", "function_call.script", "barge_in.script"] {
        let good = script(name);
        assert!(passes(&good), "{name}");
        for at in 0..good.len() {
            let kind = &good[at]["type"];
            let mut doubled = [&good[..=at], &good[at..]].concat();
            doubled[at]["event_id"] = "event_again".into();
            assert!(free(&good[at]) || !passes(&doubled), "{name}: {kind} twice");
            let mut missing = good.clone();
            missing.remove(at);
            // A client that commits in mid-speech gets no speech_stopped.
            let may_miss = free(&good[at]) || kind == "input_audio_buffer.speech_stopped";
            assert!(may_miss || !passes(&missing), "{name}: without {kind} at {at}");
            if at + 1 < good.len() && related(&good[at], &good[at + 1]) && !free(&good[at]) {
                let mut swapped = good.clone();
                swapped.swap(at, at + 1);
                let other = &good[at + 1]["type"];
                assert!(free(&good[at + 1]) || !passes(&swapped), "{name}: {other} before {kind}");
            }
        }
    }
}

/// Both are about one answer, or about the caller's speech.
fn related(one: &Value, other: &Value) -> bool {
    let group = |event: &Value| {
        let kind = event["type"].as_str().unwrap().to_owned();
        kind.split('.').next().unwrap().to_owned()
    };
    group(one) == group(other) && one["type"] != other["type"] && !is_transcription(other)
}

fn is_transcription(event: &Value) -> bool {
    event["type"].as_str().unwrap().contains("transcription")
        || event["type"] == "conversation.item.retrieved"
        || event["type"] == "conversation.item.truncated"
}

fn passes(events: &[Value]) -> bool {
    let mut checker = OrderChecker::default();
    events.iter().all(|event| checker.see(event).is_ok()) && checker.finish().is_ok()
}
