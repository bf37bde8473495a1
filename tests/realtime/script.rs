//! Runs a golden script of fixtures/realtime: what client and call say, and what comes of it.
//!
//! Lines that drive: `> {…}` is a message of the client, `>> …` a binary one, `! verb key=value…` a
//! word of the call. Lines that are checked (`BLESS=1 cargo test` writes them): `< {…}` is a server
//! event, `= …` what the call is told. `#` begins a comment, `@ key=value…` sets the defaults.

use std::collections::BTreeMap;
use std::time::Duration;

use floorkeeper::audio::Pcm;
use floorkeeper::dialogue::{
    Effect, Item, ItemBody, ItemStatus, Role, ToolCall, ToolRuns, ToolSpec, Transcript, Usage,
};
use floorkeeper::id::{Generation, ItemId, ResponseId, ToolId, TurnId, UtteranceId};
use floorkeeper::leg::{
    AdmissionNote, EndOfTurn, FromCaller, HangUp, Modality, PlayoutState, ResponseEnd,
    ResponseHead, ServerTurns, Settings, ToCaller, TurnDetection,
};
use floorkeeper::transport::realtime::{Defaults, Medium, Outbox, Protocol};

/// What the agent's profile of all scripts gives.
pub fn defaults() -> Defaults {
    Defaults {
        model: "front-desk".into(),
        instructions: "You answer the telephone of a restaurant.".into(),
        voice: "amy".into(),
        tools: vec![ToolSpec {
            name: "find_slot".into(),
            description: "Finds a free table.".into(),
            parameters: serde_json::json!({"type": "object", "properties": {}}),
            runs: ToolRuns::Here { tool: ToolId(1), effect: Effect::Read },
        }],
        turn_detection: TurnDetection::Server(ServerTurns {
            threshold: 0.5,
            prefix: Duration::from_millis(300),
            end: EndOfTurn::Silence(Duration::from_millis(500)),
            create_response: true,
            interrupt_response: true,
            idle: None,
        }),
        modality: Modality::Audio,
        max_tokens: None,
        transcription_model: "moonshine-tiny-en".into(),
        now_s: 1_767_229_435,
        id_seed: "t".into(),
        strict: false,
        session: None,
    }
}

/// Runs a script and gives it back as it should read.
pub fn run(script: &str) -> String {
    let mut defaults = defaults();
    let mut lines = script.lines().peekable();
    let mut page = String::new();
    while let Some(line) = lines.next_if(|line| line.starts_with(['#', '@'])) {
        page += &format!("{line}\n");
        if let Some(settings) = line.strip_prefix("@ ") {
            defaults.strict = Words::of(settings).get("strict") == "true";
        }
    }
    let mut session = Run::begin(defaults);
    session.write(&mut page);
    for line in lines {
        match line.split_once(' ') {
            Some(("<" | "=", _)) => continue,
            Some((">", text)) => session.protocol.hear(text, &mut session.heard, &mut session.out),
            Some((">>", _)) => session.protocol.hear_binary(&mut session.out),
            Some(("!", words)) => {
                let what = session.word(words);
                session.protocol.say(what, &mut session.out);
            }
            Some(("#", _)) => {}
            None if line.is_empty() => {}
            _ => panic!("a script line begins with '> ', '>> ', '! ', '# ', '< ' or '= ': {line}"),
        }
        page += &format!("{line}\n");
        session.write(&mut page);
    }
    page
}

/// One session being driven.
pub struct Run {
    pub protocol: Protocol,
    pub out: Outbox,
    pub heard: Vec<FromCaller>,
    /// The newest item that the client wanted added, for `add_it`.
    last_item: Option<Item>,
    settings: Option<Settings>,
}

impl Run {
    pub fn begin(defaults: Defaults) -> Self {
        Run::over(Medium::Socket, defaults)
    }

    pub fn over(medium: Medium, defaults: Defaults) -> Self {
        let mut out = Outbox::new(&defaults.id_seed);
        let mut protocol = Protocol::over(medium, defaults);
        let mut heard = Vec::new();
        protocol.begin(&mut heard, &mut out);
        Run { protocol, out, heard, last_item: None, settings: None }
    }

    fn write(&mut self, page: &mut String) {
        while let Some(event) = self.out.pop_text() {
            *page += &format!("< {event}\n");
        }
        for what in self.heard.drain(..) {
            if let FromCaller::AddItem { item, .. } = &what {
                self.last_item = Some(item.clone());
            }
            *page += &match what {
                FromCaller::Audio(samples) => format!("= Audio({} samples)\n", samples.len()),
                FromCaller::Configure(settings) => {
                    let changed = changes(self.settings.as_ref(), &settings);
                    self.settings = Some(*settings);
                    format!("= Configure {changed}\n")
                }
                other => format!("= {other:?}\n"),
            };
        }
    }

    /// What the call says in this line.
    pub fn word(&self, line: &str) -> ToCaller {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let w = Words::of(rest);
        let item = w.item("item");
        match verb {
            "speech_started" => ToCaller::SpeechStarted { item, at: w.ms("at") },
            "speech_stopped" => ToCaller::SpeechStopped { item, at: w.ms("at") },
            "idle_timeout" => ToCaller::IdleTimeout { item, from: w.ms("from"), to: w.ms("to") },
            "committed" => ToCaller::Committed { item, after: w.after() },
            "audio_cleared" => ToCaller::AudioCleared,
            "add_it" => {
                let item = self.last_item.clone().expect("a client's item to add");
                ToCaller::ItemAdded { item, after: w.after() }
            }
            "item_added" => ToCaller::ItemAdded { item: w.whole_item(), after: w.after() },
            "transcribed" => ToCaller::Transcribed {
                item,
                utterance: UtteranceId(1),
                transcript: Transcript { text: w.get("text").into(), mean_log_prob: None },
                spoken: w.ms("spoken"),
            },
            "transcription_failed" => ToCaller::TranscriptionFailed {
                item,
                code: "provider_slow",
                message: w.get("message").into(),
            },
            "truncated" => ToCaller::Truncated { item, played: w.ms("played") },
            "retrieved" => ToCaller::Retrieved(w.whole_item()),
            "deleted" => ToCaller::Deleted { item },
            "rejected" => ToCaller::Rejected {
                code: stable(w.get("code")),
                message: w.get("message").into(),
                param: w.maybe("param").map(stable),
                tag: w.maybe("tag").map(Into::into),
            },
            "clear_far_end" => ToCaller::ClearFarEnd { item, played: w.ms("played") },
            "playout" | "admission" | "turn" | "late_output" | "fallback" => extra(verb, &w),
            "hang_up" => ToCaller::HangUp { why: w.why() },
            _ => self.answer_word(verb, &w),
        }
    }

    /// What the call says of an answer.
    fn answer_word(&self, verb: &str, w: &Words) -> ToCaller {
        let (item, response) = (w.item("item"), w.response());
        match verb {
            "response_started" => ToCaller::ResponseStarted(ResponseHead {
                response,
                out_of_band: w.get("out_of_band") == "true",
                modality: w.modality(),
                voice: w.maybe("voice").map(str::to_owned),
                max_tokens: w.maybe("max_tokens").map(|n| n.parse().unwrap()),
                metadata: w.maybe("metadata").map(|json| serde_json::from_str(json).unwrap()),
            }),
            "message_started" => ToCaller::MessageStarted {
                response,
                item,
                after: w.after(),
                modality: w.modality(),
            },
            "text" => ToCaller::Text { response, item, delta: w.get("delta").into() },
            "audio" => ToCaller::Audio {
                response: w.maybe("response").map(|_| response),
                item,
                generation: Generation(1),
                pcm: Pcm {
                    rate_hz: self.protocol.settings().out_rate_hz,
                    samples: w.get("samples").split(',').map(|s| s.parse().unwrap()).collect(),
                },
            },
            "message_ended" => ToCaller::MessageEnded {
                response,
                item,
                completed: w.get("completed") != "false",
                text: w.get("text").into(),
            },
            "function_called" => {
                ToCaller::FunctionCalled { response, item, after: w.after(), call: w.call() }
            }
            "response_ended" => {
                let usage = Usage { input_tokens: 12, output_tokens: 7 };
                ToCaller::ResponseEnded { response, end: w.end(), usage }
            }
            other => panic!("no such word of the call: {other}"),
        }
    }
}

/// What the call says beside the protocol.
fn extra(verb: &str, w: &Words) -> ToCaller {
    let item = w.item("item");
    match verb {
        "playout" => {
            let state = match w.get("state") {
                "paused" => PlayoutState::Paused,
                "resumed" => PlayoutState::Resumed,
                _ => PlayoutState::Cleared,
            };
            ToCaller::Playout { state, item, played: w.ms("played") }
        }
        "admission" => ToCaller::Admission(AdmissionNote {
            gate: w.get("gate").into(),
            disposition: stable(w.get("disposition")),
            reason: stable(w.get("reason")),
            turn: w.maybe("turn").map(|n| TurnId(n.parse().unwrap())),
            generation: Generation(1),
        }),
        "turn" => {
            let (turn, state) = (TurnId(1), stable(w.get("state")));
            ToCaller::Turn { turn, state, generation: Generation(1) }
        }
        "late_output" => ToCaller::LateOutput { stage: "synthesis", generation: Generation(1) },
        "fallback" => ToCaller::Fallback {
            rung: "goodbye",
            outcome: "established",
            prompt: w.get("prompt").into(),
        },
        other => panic!("no such word of the call: {other}"),
    }
}

/// The settings that are not what they were, one a word; all of them at first.
fn changes(was: Option<&Settings>, is: &Settings) -> String {
    let lines = |settings: &Settings| {
        let Settings {
            instructions,
            tools,
            tool_choice,
            max_tokens,
            modality,
            voice,
            speed,
            out_rate_hz,
            stops_at_pause: _,
            turn_detection,
            transcribe,
            transcription_only,
            extra_events,
        } = settings;
        let tools: Vec<_> = tools.iter().map(|tool| (&tool.name, tool.runs)).collect();
        vec![
            format!("instructions={instructions:?}"),
            format!("tools={tools:?}"),
            format!("tool_choice={tool_choice:?}"),
            format!("max_tokens={max_tokens:?}"),
            format!("modality={modality:?}"),
            format!("voice={voice:?}"),
            format!("speed={speed:?}"),
            format!("out_rate_hz={out_rate_hz}"),
            format!("turn_detection={turn_detection:?}"),
            format!("transcribe={transcribe}"),
            format!("transcription_only={transcription_only}"),
            format!("extra_events={extra_events}"),
        ]
    };
    let old = was.map(lines).unwrap_or_default();
    let new = lines(is);
    let changed: Vec<_> = new.into_iter().filter(|line| !old.contains(line)).collect();
    if changed.is_empty() { "nothing".into() } else { changed.join(" ") }
}

/// A text that lives as long as the test.
fn stable(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

/// `key=value` pairs; a value with spaces is in single quotes.
struct Words(BTreeMap<String, String>);

impl Words {
    fn of(line: &str) -> Self {
        let mut words = BTreeMap::new();
        let mut rest = line.trim();
        while let Some((key, after)) = rest.split_once('=') {
            let (value, next) = match after.strip_prefix('\'') {
                Some(quoted) => quoted.split_once('\'').expect("a closing quote"),
                None => after.split_once(' ').unwrap_or((after, "")),
            };
            words.insert(key.trim().to_owned(), value.to_owned());
            rest = next.trim_start();
        }
        Words(words)
    }

    fn maybe(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    fn get(&self, key: &str) -> &str {
        self.maybe(key).unwrap_or_default()
    }

    fn ms(&self, key: &str) -> Duration {
        Duration::from_millis(self.get(key).parse().unwrap_or(0))
    }

    fn item(&self, key: &str) -> ItemId {
        ItemId::new(self.get(key))
    }

    fn why(&self) -> HangUp {
        match self.get("why") {
            "drained" => HangUp::Drained,
            "too_long" => HangUp::TooLong,
            "broken" => HangUp::Broken,
            "misbehaved" => HangUp::Misbehaved,
            _ => HangUp::Goodbye,
        }
    }

    fn after(&self) -> Option<ItemId> {
        self.maybe("after").map(ItemId::new)
    }

    fn response(&self) -> ResponseId {
        ResponseId(self.get("response").parse().unwrap_or(0))
    }

    fn modality(&self) -> Modality {
        if self.get("modality") == "text" { Modality::Text } else { Modality::Audio }
    }

    fn call(&self) -> ToolCall {
        ToolCall {
            call_id: self.get("call_id").into(),
            name: self.get("name").into(),
            arguments: self.get("arguments").into(),
        }
    }

    fn end(&self) -> ResponseEnd {
        match self.get("end") {
            "turn_detected" => ResponseEnd::TurnDetected,
            "client_cancelled" => ResponseEnd::ClientCancelled,
            "max_tokens" => ResponseEnd::MaxTokens,
            "content_filter" => ResponseEnd::ContentFilter,
            "failed" => ResponseEnd::Failed {
                code: stable(self.get("code")),
                message: self.get("message").into(),
            },
            _ => ResponseEnd::Completed,
        }
    }

    fn whole_item(&self) -> Item {
        let text = self.get("text").to_owned();
        let body = match self.get("kind") {
            "speech" => ItemBody::Speech { transcript: self.maybe("text").map(Into::into) },
            "spoken" => ItemBody::Spoken { transcript: text },
            "system" => ItemBody::Text { role: Role::System, text },
            "assistant" => ItemBody::Text { role: Role::Assistant, text },
            _ => ItemBody::Text { role: Role::User, text },
        };
        let status = match self.get("status") {
            "in_progress" => ItemStatus::InProgress,
            "incomplete" => ItemStatus::Incomplete,
            _ => ItemStatus::Completed,
        };
        Item { id: self.item("item"), body, status }
    }
}
