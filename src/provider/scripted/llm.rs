//! A language model that says what its table says, when its table says so.

use std::time::Duration;

use super::course::{Course, FAULT_KEYS, FaultScript, Output, at_rate};
use crate::dialogue::{Finish, Message, ModelRequest, Role, ToolCall, ToolChoice, Usage};
use crate::provider::keys::{self, Keys, PerRun, Wrong};
use crate::provider::llm::ModelSignal;
use crate::provider::{BuildError, Ended};
use crate::time::{Timestamp, ms};

const KEYS: &[&str] = &["reply", "first_token_ms", "tokens_per_s", "tool"];

/// What a scripted model says and how fast.
///
/// `reply` and `tool` go by the caller's turn (user messages in the request), so that a retry says
/// the same; delays and faults go by run.
#[derive(Clone, Debug)]
pub struct LlmScript {
    reply: PerRun<Option<String>>,
    tool: PerRun<Option<ToolUse>>,
    first_token: PerRun<Option<Duration>>,
    tokens_per_s: PerRun<Option<f64>>,
    faults: FaultScript,
}

#[derive(Clone, Debug)]
struct ToolUse {
    name: String,
    arguments: String,
    /// Words in front of the call, in the same reply.
    says: String,
    /// So many calls at once.
    times: u32,
    /// In so many rounds of a turn: a model that tries again.
    rounds: u32,
}

impl LlmScript {
    /// Reads the table of a `provider = "scripted"` model.
    pub fn from_table(table: &toml::Table) -> Result<LlmScript, BuildError> {
        let keys = Keys::new(table, &[KEYS, FAULT_KEYS])?;
        Ok(LlmScript {
            reply: keys.per_run("reply", keys::text)?,
            tool: keys.per_run("tool", tool_use)?,
            first_token: keys.per_run("first_token_ms", keys::millis)?,
            tokens_per_s: keys.per_run("tokens_per_s", keys::rate)?,
            faults: FaultScript::from_keys(&keys)?,
        })
    }

    /// Begins run number `nth_run` (from 0) on this request.
    pub fn start(&self, now: Timestamp, nth_run: u32, request: &ModelRequest) -> LlmRun {
        let turn = turn_of(request);
        let first = self.first_token.at(nth_run).unwrap_or(ms(120));
        let faults = self.faults.of_run(nth_run);
        let per_s = faults.drip_per_s.or(*self.tokens_per_s.at(nth_run)).unwrap_or(40.0);
        let mut course = Course::new(now, faults);
        course.begin(now, first);
        let asked = self.tool.at(turn).as_ref().filter(|tool| may_call(tool, request));
        let reply = self.reply.at(turn).as_deref().unwrap_or("Hello. I am a scripted model.");
        let mut run = LlmRun { course, pace: at_rate(1, per_s), words: words(reply), said: 0 };
        match asked {
            Some(tool) => run.plan_tool(now + first, per_s, tool, request),
            None => run.plan_reply(now + first, per_s, request),
        }
        run
    }
}

/// One run of a scripted model.
#[derive(Clone, Debug)]
pub struct LlmRun {
    course: Course<ModelSignal>,
    pace: Duration,
    words: Vec<String>,
    said: usize,
}

impl LlmRun {
    fn plan_tool(&mut self, first: Timestamp, per_s: f64, tool: &ToolUse, request: &ModelRequest) {
        let earlier = request.history.iter().filter(|m| matches!(m, Message::Called(_))).count();
        let announced = words(&tool.says);
        for (at, word) in announced.iter().enumerate() {
            self.course.push(first + at_rate(at, per_s), ModelSignal::Text(word.clone()));
        }
        let at = first + at_rate(announced.len(), per_s);
        for nth in 1..=tool.times as usize {
            self.course.push(
                at,
                ModelSignal::ToolCall(ToolCall {
                    call_id: format!("call_{}", earlier + nth),
                    name: tool.name.clone(),
                    arguments: tool.arguments.clone(),
                }),
            );
        }
        let written = tool.arguments.split_whitespace().count().max(1);
        self.plan_finish(at, Finish::ToolCalls, written, request);
    }

    fn plan_reply(&mut self, first: Timestamp, per_s: f64, request: &ModelRequest) {
        let limit = request.max_tokens.map_or(usize::MAX, |limit| limit as usize);
        let count = self.words.len().min(limit);
        for at in 0..count {
            let word = ModelSignal::Text(self.words[at].clone());
            self.course.push(first + at_rate(at, per_s), word);
        }
        let finish = if count < self.words.len() { Finish::Length } else { Finish::Stop };
        let last = first + at_rate(count.saturating_sub(1), per_s);
        self.plan_finish(last, finish, count, request);
    }

    fn plan_finish(
        &mut self,
        at: Timestamp,
        finish: Finish,
        written: usize,
        request: &ModelRequest,
    ) {
        let usage = Usage { input_tokens: words_shown(request), output_tokens: written as u32 };
        self.course.push(at, ModelSignal::Finished { finish, usage });
        self.course.finish(at, Ended::completed());
    }

    /// Asks it to stop.
    pub fn cancel(&mut self, now: Timestamp) {
        let (words, said) = (&self.words, &mut self.said);
        let another = || {
            let word = words.get(*said % words.len().max(1))?;
            *said += 1;
            Some(ModelSignal::Text(word.clone()))
        };
        let keep = |signal: &ModelSignal| !matches!(signal, ModelSignal::Finished { .. });
        self.course.cancel(now, self.pace, keep, another);
    }

    /// When to poll next; `None` when nothing comes by itself.
    pub fn next_at(&self) -> Option<Timestamp> {
        self.course.next_at()
    }

    /// What is due by `now`, one at a time, in time order.
    pub fn poll(&mut self, now: Timestamp) -> Option<Output<ModelSignal>> {
        self.course.poll(now)
    }
}

/// Which turn of the caller this answers, from 0.
fn turn_of(request: &ModelRequest) -> u32 {
    let is_user = |m: &&Message| matches!(m, Message::Said { role: Role::User, .. });
    (request.history.iter().filter(is_user).count() as u32).saturating_sub(1)
}

/// The tool is on offer and was not yet called in as many rounds of this turn as the script says.
fn may_call(tool: &ToolUse, request: &ModelRequest) -> bool {
    let offered = request.tools.iter().any(|spec| spec.name == tool.name);
    let wanted = match &request.tool_choice {
        ToolChoice::Auto | ToolChoice::Required => true,
        ToolChoice::None => false,
        ToolChoice::Named(name) => *name == tool.name,
    };
    let this_turn = request
        .history
        .iter()
        .rev()
        .take_while(|m| !matches!(m, Message::Said { role: Role::User, .. }));
    let is_call = |m: &&Message| matches!(m, Message::Called(c) if c.name == tool.name);
    let called = this_turn.filter(is_call).count() as u64;
    offered && wanted && called < u64::from(tool.times) * u64::from(tool.rounds)
}

fn words_shown(request: &ModelRequest) -> u32 {
    let said: usize = request
        .history
        .iter()
        .map(|message| match message {
            Message::Said { text, .. } => text.split_ascii_whitespace().count(),
            Message::Called(call) => call.arguments.split_ascii_whitespace().count(),
            Message::Returned { output, .. } => output.split_ascii_whitespace().count(),
        })
        .sum();
    (said + request.instructions.split_ascii_whitespace().count()) as u32
}

/// The text cut before the space in front of each word, as models' tokens are; together they are
/// the text.
fn words(text: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut from = 0;
    let mut in_word = false;
    for (at, letter) in text.char_indices() {
        if letter.is_whitespace() && in_word {
            pieces.push(text[from..at].to_owned());
            from = at;
        }
        in_word = !letter.is_whitespace();
    }
    if from < text.len() {
        pieces.push(text[from..].to_owned());
    }
    pieces
}

fn tool_use(value: &toml::Value) -> Result<ToolUse, Wrong> {
    let right = "{ name = \"…\", arguments = { … }, says = \"…\", times = 1, rounds = 1 }";
    let known = ["name", "arguments", "says", "times", "rounds"];
    let table = value.as_table().ok_or_else(|| ("not a table".to_owned(), right.to_owned()))?;
    if let Some(key) = table.keys().find(|key| !known.contains(&key.as_str())) {
        return Err((format!("it has an unknown key \"{key}\""), right.into()));
    }
    let name = table
        .get("name")
        .and_then(toml::Value::as_str)
        .ok_or_else(|| ("it has no name".to_owned(), right.to_owned()))?;
    let arguments = table.get("arguments").map_or(Ok("{}".to_owned()), keys::json_text)?;
    let says = table.get("says").map_or(Ok(String::new()), keys::text)?;
    let count = |key: &str| {
        let given = table.get(key).map_or(Some(1), toml::Value::as_integer);
        let given = given.and_then(|count| u32::try_from(count).ok());
        let wrong = || (format!("{key} is no count"), "1 to 1000".to_owned());
        given.filter(|count| (1..=1_000).contains(count)).ok_or_else(wrong)
    };
    let (times, rounds) = (count("times")?, count("rounds")?);
    Ok(ToolUse { name: name.into(), arguments, says, times, rounds })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialogue::{ToolRuns, ToolSpec};
    use crate::evidence::Evidence;
    use crate::fault::Fault;

    fn asked(text: &str) -> ModelRequest {
        let said = Message::Said { role: Role::User, text: text.into() };
        ModelRequest { history: vec![said], ..ModelRequest::default() }
    }

    /// Runs to the end or until nothing comes by itself; cancels at `cancel_ms`.
    fn trace(
        table: toml::Table,
        nth: u32,
        request: &ModelRequest,
        cancel_ms: Option<u64>,
    ) -> String {
        let script = LlmScript::from_table(&table).unwrap();
        let mut run = script.start(Timestamp::ZERO, nth, request);
        let mut lines = Vec::new();
        let mut cancel_at = cancel_ms.map(Timestamp::from_millis);
        for _ in 0..200 {
            let next = run.next_at();
            let now = match (next, cancel_at) {
                (next, Some(at)) if next.is_none_or(|next| at <= next) => {
                    cancel_at = None;
                    run.cancel(at);
                    continue;
                }
                (Some(next), _) => next,
                (None, _) => break,
            };
            while let Some(output) = run.poll(now) {
                lines.push(match output {
                    Output::Signal(ModelSignal::Text(text)) => format!("{}{text}", now.as_millis()),
                    Output::Signal(ModelSignal::ToolCall(call)) => {
                        format!("{} {}({})", now.as_millis(), call.name, call.arguments)
                    }
                    Output::Signal(ModelSignal::Finished { finish, .. }) => {
                        format!("{} {finish:?}", now.as_millis())
                    }
                    Output::Ended(ended) => format!("{} {:?}", now.as_millis(), ended.proof),
                });
            }
        }
        lines.join("|")
    }

    #[test]
    fn words_put_together_are_the_text() {
        for text in ["", "one", " a  b ", "There was a king,\nwho had.", "é ü"] {
            assert_eq!(words(text).concat(), text);
        }
        assert_eq!(words("There was a king."), ["There", " was", " a", " king."]);
    }

    #[test]
    fn it_says_its_reply_word_by_word_and_ends() {
        let table = toml::toml! { reply = "One two three" first_token_ms = 100 tokens_per_s = 10 };
        assert_eq!(
            trace(table, 0, &asked("hi"), None),
            "100One|200 two|300 three|300 Stop|300 Ok(Completed)"
        );
    }

    #[test]
    fn a_cancel_silences_it_and_is_acknowledged() {
        let table = toml::toml! { reply = "One two three" first_token_ms = 100 tokens_per_s = 10 };
        assert_eq!(trace(table, 0, &asked("hi"), Some(150)), "100One|155 Ok(AbortAcknowledged)");
    }

    #[test]
    fn late_after_cancel_keeps_sending_for_that_long() {
        let table = toml::toml! {
            reply = "a b c" first_token_ms = 100 tokens_per_s = 10 late_after_cancel_ms = 300
        };
        let seen = trace(table, 0, &asked("hi"), Some(150));
        assert_eq!(seen, "100a|200 b|300 c|400a|450 Ok(StreamClosedByBackend)");
    }

    #[test]
    fn ignore_cancel_goes_on_to_its_end() {
        let table = toml::toml! {
            reply = "One two" first_token_ms = 100 tokens_per_s = 10 ignore_cancel = true
        };
        let seen = trace(table, 0, &asked("hi"), Some(150));
        assert_eq!(seen, "100One|200 two|200 Stop|200 Ok(Completed)");
    }

    #[test]
    fn never_end_gives_no_evidence() {
        let table = toml::toml! { reply = "One" first_token_ms = 100 never_end = true };
        assert_eq!(trace(table.clone(), 0, &asked("hi"), None), "100One|100 Stop");
        assert_eq!(trace(table, 0, &asked("hi"), Some(50)), "");
    }

    #[test]
    fn a_stall_and_keep_alives_say_nothing_until_cancelled() {
        let table = toml::toml! {
            reply = "One two" first_token_ms = 100 tokens_per_s = 10 stall_after_ms = 150
        };
        assert_eq!(trace(table.clone(), 0, &asked("hi"), None), "100One");
        let seen = trace(table, 0, &asked("hi"), Some(900));
        assert_eq!(seen, "100One|905 Ok(AbortAcknowledged)");
        let table = toml::toml! { reply = "One two" keep_alives = true };
        assert_eq!(trace(table, 0, &asked("hi"), None), "");
    }

    #[test]
    fn failures_end_the_run_with_what_they_prove() {
        let end = |table: toml::Table| {
            let script = LlmScript::from_table(&table).unwrap();
            let mut run = script.start(Timestamp::ZERO, 0, &asked("hi"));
            match run.poll(Timestamp::from_millis(5_000)) {
                Some(Output::Ended(ended)) => ended,
                other => panic!("expected an end, got {other:?}"),
            }
        };
        let busy = end(toml::toml! { fail = "429" retry_after_ms = 2000 });
        let rejected = Fault::Rejected { status: 429, retry_after_ms: Some(2_000) };
        assert_eq!(busy, Ended::failed(rejected, Ok(Evidence::StreamClosedByBackend)));
        let refused = end(toml::toml! { fail = "refused" });
        assert_eq!(refused.proof, Ok(Evidence::NeverStarted));
        assert_eq!(end(toml::toml! { empty = true }).fault, Some(Fault::Empty));
        assert_eq!(end(toml::toml! { garbage = true }).fault.unwrap().label(), "garbled");
    }

    #[test]
    fn a_list_of_faults_goes_by_run_and_a_list_of_replies_by_turn() {
        let table = toml::toml! {
            reply = ["First.", "Second."] fail = ["429", "none"] first_token_ms = 50
        };
        assert_eq!(trace(table.clone(), 0, &asked("hi"), None), "10 Ok(StreamClosedByBackend)");
        assert!(trace(table.clone(), 1, &asked("hi"), None).starts_with("50First."));
        let mut later = asked("hi");
        later.history.extend(asked("more").history);
        assert!(trace(table, 2, &later, None).starts_with("50Second."));
    }

    #[test]
    fn the_tool_is_called_once_a_turn_when_offered() {
        let table = toml::toml! {
            reply = "Sunny." first_token_ms = 50
            tool = { name = "get_weather", arguments = { city = "Paris" } }
        };
        let mut request = asked("weather?");
        assert!(trace(table.clone(), 0, &request, None).starts_with("50Sunny."));
        request.tools.push(ToolSpec {
            name: "get_weather".into(),
            description: String::new(),
            parameters: serde_json::json!({}),
            runs: ToolRuns::AtClient,
        });
        assert_eq!(
            trace(table.clone(), 0, &request, None),
            "50 get_weather({\"city\":\"Paris\"})|50 ToolCalls|50 Ok(Completed)"
        );
        request.history.push(Message::Called(ToolCall {
            call_id: "call_1".into(),
            name: "get_weather".into(),
            arguments: "{}".into(),
        }));
        request.history.push(Message::Returned { call_id: "call_1".into(), output: "sun".into() });
        assert!(trace(table, 1, &request, None).starts_with("50Sunny."));
    }

    #[test]
    fn the_token_limit_is_kept() {
        let table = toml::toml! { reply = "a b c d" first_token_ms = 0 tokens_per_s = 1000 };
        let request = ModelRequest { max_tokens: Some(2), ..asked("hi") };
        assert_eq!(trace(table, 0, &request, None), "0a|1 b|1 Length|1 Ok(Completed)");
    }
}
