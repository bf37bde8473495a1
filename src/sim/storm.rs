//! Seeded storms: random callers, faults, limits and interruptions over the same world. Same seed,
//! same story.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::ending;
use super::script::Script;
use super::shrink;
use super::tracks::Staging;
use super::world::Outcome;
use crate::config;

const WORDS: [&str; 12] =
    ["I", "want", "a", "table", "for", "two", "people", "tonight", "please", "wait", "stop", "no"];
const FACTS: [&str; 10] = [
    "agent.first_audio",
    "agent.first_audio",
    "agent.first_audio",
    "agent.paused",
    "far_end.clear",
    "tool.start",
    "prompt",
    "speech.stopped",
    "model.start",
    "synthesis.start",
];
const ALONE: [&str; 5] = ["mm-hmm", "okay", "stop", "yeah", "wait"];

/// One storm: the fixture that a seed stands for, and what came of it.
#[derive(Clone, Debug)]
pub struct Storm {
    /// The fixture, as it could stand in a file.
    pub script: String,
    /// What happened.
    pub outcome: Outcome,
}

/// Runs the storm of a seed, twice. The error says why its script cannot be run: a mistake in this
/// file.
pub fn run(seed: u64, fallback: Arc<config::Script>) -> Result<Storm, String> {
    let script = write(seed);
    let outcome = play(&script, fallback)?;
    Ok(Storm { script, outcome })
}

/// The shortest script with the same kind of problem as a storm that failed.
pub fn shortest(storm: &Storm, fallback: &Arc<config::Script>) -> Storm {
    let Some(problem) = storm.outcome.problems.first() else { return storm.clone() };
    let kind = shrink::kind_of(problem);
    let fails = |script: &str| {
        let outcome = play(script, fallback.clone()).ok()?;
        let same = |problem: &String| shrink::kind_of(problem) == kind;
        outcome.problems.iter().any(same).then_some(outcome)
    };
    match shrink::shortest(&storm.script, fails) {
        Some((script, outcome)) => Storm { script, outcome },
        None => storm.clone(),
    }
}

fn play(script: &str, fallback: Arc<config::Script>) -> Result<Outcome, String> {
    let parsed = Script::parse("a storm", script).map_err(|e| e.to_string())?;
    let run = || ending::run_twice(&parsed, fallback, Staging::default());
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(outcome) => outcome.map_err(|e| e.to_string()),
        Err(panic) => {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or(panic.downcast_ref::<&str>().copied()).unwrap_or_default();
            let problems = vec![format!("panicked: {said}")];
            Ok(Outcome { problems, ..Outcome::default() })
        }
    }
}

/// The fixture of a seed.
pub fn write(seed: u64) -> String {
    let mut storm = Draw {
        rng: StdRng::seed_from_u64(seed),
        refusing: seed % 5 < 2,
        guessing: seed % 7 < 3,
        confirming: seed.is_multiple_of(3),
    };
    let mut text = format!("about = \"storm {seed}\"\nends_by = \"150s\"\n");
    storm.session(&mut text);
    storm.gates(&mut text);
    storm.providers(&mut text);
    storm.rungs(&mut text);
    storm.callers(&mut text);
    text
}

struct Draw {
    rng: StdRng,
    /// The model has no room for long, and the caller wants to know what else there is.
    refusing: bool,
    /// The model starts before the end of a turn is certain.
    guessing: bool,
    /// What writes needs the caller's yes.
    confirming: bool,
}

impl Draw {
    fn chance(&mut self, percent: u32) -> bool {
        self.rng.random_range(0..100) < percent
    }

    fn up_to(&mut self, from: u64, to: u64) -> u64 {
        self.rng.random_range(from..=to)
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        // Every list in this file has entries.
        *all.choose(&mut self.rng).unwrap_or(&all[0])
    }

    fn session(&mut self, text: &mut String) {
        let _ = writeln!(text, "[session]");
        if self.chance(50) {
            let _ = writeln!(text, "number = \"+15550100\"");
        }
        if self.chance(15) {
            let _ = writeln!(text, "interrupt_response = false");
        }
        if self.chance(10) {
            let _ = writeln!(text, "create_response = false");
        }
        if self.chance(10) {
            let _ = writeln!(text, "idle_ms = {}", self.up_to(3_000, 9_000));
        }
        if self.chance(20) {
            let _ = writeln!(text, "client_tools = [\"weather\"]");
        }
        let _ = writeln!(text, "[turn]\nspeculative = {}", self.guessing);
        if self.chance(30) {
            let _ = writeln!(text, "budget_ms = {}", self.up_to(1_500, 8_000));
        }
    }

    fn gates(&mut self, text: &mut String) {
        for gate in ["recognition", "model", "synthesis", "tools", "callback", "handoff"] {
            if gate == "model" && self.refusing {
                let _ = writeln!(text, "[limits.model]\nslots = 1");
                let until = self.up_to(5_000, 120_000);
                let hold = format!("hold = 1\nuntil = \"{until}ms\"");
                let _ = writeln!(text, "[[gate]]\ngate = \"model\"\n{hold}");
                continue;
            }
            let hears = gate == "recognition" && self.refusing;
            if !self.chance(if hears { 10 } else { 40 }) {
                continue;
            }
            let (slots, queue) = (self.up_to(0, 2), self.up_to(0, 2));
            let (wait, evidence) = (self.up_to(500, 9_000), self.up_to(200, 3_000));
            let _ = writeln!(
                text,
                "[limits.{gate}]\nslots = {slots}\nqueue = {queue}\nmax_wait_ms = {wait}\n\
                 evidence_ms = {evidence}"
            );
            if gate != "tools" && slots > 0 && self.chance(50) {
                let (from, until) = (self.up_to(0, 9_000), self.up_to(9_000, 20_000));
                let hold = format!("hold = {slots}\nfrom = \"{from}ms\"\nuntil = \"{until}ms\"");
                let _ = writeln!(text, "[[gate]]\ngate = \"{gate}\"\n{hold}");
            }
        }
        self.changes(text);
    }

    /// Limits changed while the call goes on.
    fn changes(&mut self, text: &mut String) {
        let all =
            ["recognition", "model", "synthesis", "tool:book", "tool:look", "callback", "handoff"];
        for gate in all {
            let spared = self.refusing && matches!(gate, "model" | "recognition");
            if !self.chance(15) || spared {
                continue;
            }
            let (slots, queue, from) = (self.up_to(0, 2), self.up_to(0, 2), self.up_to(0, 15_000));
            let _ = writeln!(text, "[[gate]]\ngate = \"{gate}\"\nslots = {slots}");
            let _ = writeln!(text, "queue = {queue}\nfrom = \"{from}ms\"");
            if self.chance(70) {
                let _ = writeln!(text, "until = \"{}ms\"", from + self.up_to(20, 8_000));
            }
        }
    }

    /// A list of one value a run: mostly none.
    fn now_and_then(&mut self, percent: u32, value: impl Fn(&mut Draw) -> String) -> String {
        let values: Vec<String> = (0..6)
            .map(|_| match self.chance(percent) {
                true => value(self),
                false => "\"none\"".to_owned(),
            })
            .collect();
        format!("[{}]", values.join(", "))
    }

    fn faults(&mut self, text: &mut String) {
        let fail = self.now_and_then(12, |draw| {
            format!("{:?}", draw.one_of(&["429", "500", "refused", "reset"]))
        });
        let after = self.up_to(0, 2_500);
        let stall = self.now_and_then(10, |draw| draw.up_to(0, 2_000).to_string());
        let late = self.now_and_then(25, |draw| draw.up_to(1, 1_500).to_string());
        let ack = self.now_and_then(25, |draw| draw.up_to(0, 4_000).to_string());
        let flag = |draw: &mut Draw, percent| draw.now_and_then(percent, |_| "true".to_owned());
        let (empty, garbage) = (flag(self, 6), flag(self, 4));
        let (deaf, endless) = (flag(self, 6), flag(self, 4));
        let _ = writeln!(
            text,
            "fail = {fail}\nfail_after_ms = {after}\nstall_after_ms = {stall}\n\
             late_after_cancel_ms = {late}\ncancel_ack_ms = {ack}\nempty = {empty}\n\
             garbage = {garbage}\nignore_cancel = {deaf}\nnever_end = {endless}"
        );
    }

    fn providers(&mut self, text: &mut String) {
        let replies: Vec<String> = (0..6).map(|_| format!("{:?}", self.reply())).collect();
        let tools = self.now_and_then(30, |draw| {
            let name = draw.one_of(&["book", "look", "weather", "nothing"]);
            format!("{{ name = \"{name}\", arguments = {{ seats = 2 }} }}")
        });
        let (first, rate) = (self.up_to(30, 2_500), self.up_to(2, 60));
        let _ = writeln!(text, "[llm]\nreply = [{}]\ntool = {tools}", replies.join(", "));
        let _ = writeln!(text, "first_token_ms = {first}\ntokens_per_s = {rate}");
        self.faults(text);
        let (first, rate) = (self.up_to(30, 900), self.up_to(1, 20));
        let times = self.chance(50);
        let _ = writeln!(text, "[tts]\nfirst_audio_ms = {first}\nrate_x = {rate}");
        let _ = writeln!(text, "word_times = {times}");
        self.faults(text);
        let (partial, last) = (self.up_to(10, 200), self.up_to(20, 1_500));
        // Words that come behind the end of the turn leave nothing to guess.
        let last = if self.guessing { last / 10 } else { last };
        let _ = writeln!(text, "[asr]\npartial_ms = {partial}\nfinal_ms = {last}");
        if !self.refusing || self.chance(20) {
            self.faults(text);
        }
        for name in ["book", "look"] {
            let effect = self.one_of(&["read", "cancellable", "must_finish"]);
            let takes = self.up_to(20, 7_000);
            let _ = writeln!(text, "[tool.{name}]\nprovider = \"scripted\"");
            let _ = writeln!(text, "effect = \"{effect}\"\ntakes_ms = {takes}");
            if self.confirming && effect != "read" {
                let _ = writeln!(text, "confirm = true");
            }
            self.faults(text);
        }
    }

    /// Alternatives that are offered, and who stands behind them.
    fn rungs(&mut self, text: &mut String) {
        for (rung, offers) in [
            ("callback", ["always", "always", "known_number", "never"]),
            ("handoff", ["always", "always", "always", "never"]),
        ] {
            let drawn = self.one_of(&offers);
            let offer = if self.refusing && self.chance(80) { "always" } else { drawn };
            let _ = writeln!(text, "[{rung}]\noffer = \"{offer}\"");
        }
        let commit = self.now_and_then(40, |draw| draw.up_to(0, 5_000).to_string());
        let fail = self.now_and_then(30, |draw| {
            format!("{:?}", draw.one_of(&["full", "duplicate", "sealed"]))
        });
        let lost = self.now_and_then(8, |_| "true".to_owned());
        let late = self.now_and_then(15, |draw| draw.up_to(0, 9_000).to_string());
        let _ = writeln!(
            text,
            "[callbacks]\ncommit_ms = {commit}\nfail = {fail}\nlost = {lost}\nlate_ms = {late}"
        );
        let takes = self.now_and_then(50, |draw| draw.up_to(0, 50_000).to_string());
        let connects = self.now_and_then(50, |draw| draw.up_to(0, 33_000).to_string());
        let outcome = self.now_and_then(60, |draw| {
            let all = ["connected", "busy", "no_answer", "declined", "voicemail", "never"];
            format!("{:?}", draw.one_of(&all))
        });
        let twice = self.now_and_then(20, |_| "true".to_owned());
        let lost = self.now_and_then(8, |_| "true".to_owned());
        let told = self.now_and_then(40, |draw| draw.up_to(0, 3_000).to_string());
        let _ = writeln!(
            text,
            "[human]\nacknowledges_ms = {takes}\nconnects_ms = {connects}\noutcome = {outcome}\n\
             acknowledges_twice = {twice}\nlost = {lost}\ntold_ms = {told}"
        );
    }

    /// What a caller says to an offer: an answer, half of one, or something else.
    fn answer(&mut self) -> String {
        const ANSWERS: [&str; 9] = [
            "yes please",
            "yes",
            "no thanks",
            "never mind no",
            "call me back",
            "five five five oh one double zero",
            "yes on plus one five five five five five five oh one double zero",
            "yes but only tomorrow",
            "what",
        ];
        match self.up_to(0, 14) {
            10..=14 => "says = \"yes please\"".to_owned(),
            0 => "presses = \"1\"".to_owned(),
            1 => "presses = \"2\"".to_owned(),
            _ => format!("says = {:?}", self.one_of(&ANSWERS)),
        }
    }

    fn reply(&mut self) -> String {
        let mut reply = String::new();
        for _ in 0..self.up_to(0, 4) {
            for _ in 0..self.up_to(1, 12) {
                let _ = write!(reply, "{} ", self.one_of(&WORDS));
            }
            let _ = write!(reply, "king{} ", self.one_of(&[".", "?", ", yes.", " —"]));
        }
        reply.trim_end().to_owned()
    }

    fn callers(&mut self, text: &mut String) {
        let mut at = 0;
        let (least, most, ends, more) = if self.refusing { (0, 2, 8, 1) } else { (1, 14, 50, 5) };
        if self.refusing {
            self.asks_again(text);
            at = self.up_to(2_000, 40_000);
        }
        for _ in 0..self.up_to(least, most) {
            at += self.up_to(20, 5_000);
            // The caller may have hung up by then.
            let _ = writeln!(text, "[[caller]]\nat = \"{at}ms\"\nmaybe = true\n{}", self.deed());
        }
        if self.chance(ends) {
            let end = self.one_of(&["hangs_up = true", "drains = true"]);
            let at = self.up_to(0, at + 5_000);
            let _ = writeln!(text, "[[caller]]\nat = \"{at}ms\"\n{end}");
        }
        self.answers(text);
        for _ in 0..self.up_to(0, more) {
            // In the middle of something, where it happens at all.
            let fact = self.one_of(&FACTS);
            let (delay, nth) = (self.up_to(0, 2_500), self.up_to(1, 4));
            let what = match self.up_to(0, 99) {
                0..=5 => "hangs_up = true".into(),
                6..=9 => "drains = true".into(),
                _ => self.deed(),
            };
            let _ = writeln!(
                text,
                "[[caller]]\nafter = \"{fact} + {delay}ms\"\nnth = {nth}\nmaybe = true\n{what}"
            );
        }
        if self.guessing {
            self.goes_on(text);
        }
        if self.chance(15) {
            self.drops(text, at);
        }
    }

    /// The connection breaks, and is there again, or not.
    fn drops(&mut self, text: &mut String, most: u64) {
        let (at, silent) = (self.up_to(0, most + 5_000), self.up_to(0, 3_000));
        let _ = writeln!(text, "[[caller]]\nat = \"{at}ms\"\nmaybe = true\ndrops = \"{silent}ms\"");
        if self.chance(80) {
            let at = at + self.up_to(0, 15_000);
            let _ = writeln!(text, "[[caller]]\nat = \"{at}ms\"\nmaybe = true\nreturns = true");
        }
    }

    /// A caller who only paused: the model that was started for their words was started too early.
    fn goes_on(&mut self, text: &mut String) {
        for nth in 1..=3 {
            let (delay, words) = (self.up_to(0, 150), self.one_of(&WORDS));
            let _ = writeln!(
                text,
                "[[caller]]\nafter = \"model.start + {delay}ms\"\nnth = {nth}\nmaybe = true\n\
                 says = \"and {words}\""
            );
        }
    }

    /// What the caller says to what they are offered, and while it is being arranged.
    fn answers(&mut self, text: &mut String) {
        let asked = [
            "offer_callback_busy",
            "offer_callback",
            "offer_callback_failed",
            "ask_number",
            "offer_handoff",
        ];
        for prompt in asked {
            for nth in 1..=2 {
                if !self.chance(75) {
                    continue;
                }
                let (delay, answer) = (self.up_to(1_000, 6_000), self.answer());
                let _ = writeln!(
                    text,
                    "[[caller]]\nafter = \"prompt({prompt}) + {delay}ms\"\nnth = {nth}\n\
                     maybe = true\n{answer}"
                );
            }
        }
        for fact in ["callback.start", "handoff.start", "arranged(acknowledged)"] {
            if !self.chance(40) {
                continue;
            }
            let delay = self.up_to(0, 12_000);
            let what = match self.up_to(0, 9) {
                0..=1 => "hangs_up = true".to_owned(),
                2 => "drains = true".to_owned(),
                3..=5 => self.answer(),
                _ => self.deed(),
            };
            let _ =
                writeln!(text, "[[caller]]\nafter = \"{fact} + {delay}ms\"\nmaybe = true\n{what}");
        }
    }

    /// A caller who does not let go.
    fn asks_again(&mut self, text: &mut String) {
        let says = "says = \"I want a table for two\"";
        let _ = writeln!(text, "[[caller]]\nat = \"500ms\"\nmaybe = true\n{says}");
        let told = ["callback_unknown", "callback_refused", "callback_exists", "handoff_busy"];
        let other = (self.one_of(&told), 1);
        for (prompt, nth) in [("retry_busy", 1), ("retry_busy", 2), ("retry_busy", 3), other] {
            if self.chance(80) {
                let delay = self.up_to(2_000, 9_000);
                let _ = writeln!(
                    text,
                    "[[caller]]\nafter = \"prompt({prompt}) + {delay}ms\"\nnth = {nth}\n\
                     maybe = true\n{says}"
                );
            }
        }
    }

    fn deed(&mut self) -> String {
        match self.up_to(0, 99) {
            0..=54 => {
                let count = self.up_to(1, 7);
                let words: Vec<&str> = (0..count).map(|_| self.one_of(&WORDS)).collect();
                let mutes = if self.chance(10) { "\nmutes = true" } else { "" };
                format!("says = \"{}\"{mutes}", words.join(" "))
            }
            55..=64 => format!("says = \"{}\"", self.one_of(&ALONE)),
            65..=76 => format!("noise = \"{}ms\"", self.up_to(20, 1_500)),
            77..=80 => "cancels = true".into(),
            81..=85 => "responds = true".into(),
            86..=88 => "responds = \"beside\"".into(),
            89..=90 => "writes = \"and a song too\"".into(),
            91..=92 => format!("truncates = \"{}ms\"", self.up_to(0, 4_000)),
            93 => "commits = true".into(),
            94 => "clears = true".into(),
            95 => "presses = \"5\"".into(),
            96 => "outputs = \"sunny\"".into(),
            97 => format!("configures = {{ interrupt_response = {} }}", self.chance(50)),
            98 => "configures = { manual = true }".into(),
            _ => format!("configures = {{ text = {} }}", self.chance(30)),
        }
    }
}
