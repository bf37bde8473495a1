//! Every cause at every stage in every locale: what is said, and that it is true (A-124…A-136).

use std::fmt::Write as _;

use floorkeeper::admission::Terminal;
use floorkeeper::admission::disposition::QUEUED;
use floorkeeper::config::{Fallback, Script};
use floorkeeper::fallback::{Cause, Claim, Climb, Facts, Next, PromptId, Prompts, Rung, Skip};

fn script() -> Script {
    Script::read(None).expect("the built-in script is right")
}

/// Claims that something was promised: nothing proves them before there are receipts.
const PROMISES: [Claim; 2] = [Claim::CallbackCommitted, Claim::HandoffAcknowledged];

/// Follows the ladder to its end, each rung failing.
fn climb(script: &Script, cause: &Cause, facts: &Facts) -> Vec<Next> {
    let mut tried = Vec::new();
    let mut steps = Vec::new();
    loop {
        let climb = Climb { tried: &tried, ..Climb::default() };
        let next = script.ladder.next(cause, &climb, facts);
        tried.push(next.rung);
        let over = next.rung == Rung::Goodbye;
        steps.push(next);
        if over {
            return steps;
        }
    }
}

#[test]
fn what_is_said_is_true_for_every_cause_stage_and_locale() {
    let script = script();
    let locales: Vec<&String> = script.prompts.0.keys().collect();
    assert_eq!(locales, ["de", "en", "es"]);
    for cause in Cause::all() {
        let facts = Facts::of(&cause);
        for next in climb(&script, &cause, &facts) {
            let id = next.prompt.expect("no rung without a prompt is reached");
            for locale in &locales {
                let prompt = script.prompts.get(locale, &id).expect("every locale has it");
                assert!(!prompt.text.is_empty());
                assert!(
                    facts.hold_on(next.rung, &prompt.claims),
                    "{} at {:?}: {id} in {locale} claims {:?} and true is {facts:?}",
                    cause.label(),
                    cause.stage(),
                    prompt.claims,
                );
                let promise = prompt.claims.iter().find(|claim| PROMISES.contains(claim));
                assert_eq!(promise, None, "{id} in {locale} promises something");
            }
        }
    }
}

/// Every position that a call can have on the ladder: rungs tried before, retries used, gates with
/// room and without.
#[test]
fn what_is_said_is_true_at_every_position_of_the_ladder() {
    let script = script();
    let mut offers = 0;
    for cause in Cause::all() {
        for position in 0..64_u32 {
            let is = |bit: u32| position & (1 << bit) != 0;
            let rungs = [Rung::Wait, Rung::Retry, Rung::Callback, Rung::Handoff];
            let tried: Vec<Rung> =
                (0..4).filter(|at| is(*at)).map(|at| rungs[at as usize]).collect();
            let (callback, handoff) = (is(4), is(5));
            let climb =
                Climb { tried: &tried, callback_offered: callback, handoff_offered: handoff };
            for retries in 0..=script.ladder.retry_max() {
                let facts = Facts::of(&cause).retried(retries);
                let next = script.ladder.next(&cause, &climb, &facts);
                let id = next.prompt.expect("no rung without a prompt is reached");
                let facts = match next.rung {
                    Rung::Callback if callback => facts.offering(Rung::Callback),
                    Rung::Handoff if handoff => facts.offering(Rung::Handoff),
                    Rung::Callback | Rung::Handoff => panic!("{} without room", next.rung),
                    Rung::Wait | Rung::Retry | Rung::Goodbye => facts,
                };
                assert!(next.rung == Rung::Goodbye || !tried.contains(&next.rung));
                offers += u32::from(matches!(next.rung, Rung::Callback | Rung::Handoff));
                for (locale, book) in &script.prompts.0 {
                    let claims = &book.prompts[&id].claims;
                    let label = cause.label();
                    assert!(
                        facts.hold_on(next.rung, claims),
                        "{label}: {id} in {locale} claims {claims:?}: {facts:?}"
                    );
                    let promise = claims.iter().find(|claim| PROMISES.contains(claim));
                    assert_eq!(promise, None, "{id} in {locale} promises something");
                }
            }
        }
    }
    assert!(offers > 1_000, "{offers} positions offer something");
}

/// What is said of a rung on the way to its proof: where to, that somebody is asked, that it is
/// there already, that nobody knows.
#[test]
fn what_is_said_of_a_rung_on_its_way_is_true() {
    let script = script();
    let mut said = std::collections::BTreeSet::new();
    for cause in Cause::all() {
        let facts = Facts::of(&cause);
        let ways = [
            (Rung::Callback, facts.clone().offering(Rung::Callback).needs_number()),
            (Rung::Handoff, facts.clone().asked()),
            (Rung::Retry, facts.clone().outcome_unknown()),
            (Rung::Retry, facts.clone().exists()),
        ];
        for (rung, facts) in ways {
            let Some(id) = script.ladder.say(&cause, rung, &facts) else { continue };
            for book in script.prompts.0.values() {
                let claims = &book.prompts[&id].claims;
                assert!(facts.hold_on(rung, claims), "{}: {id} claims {claims:?}", cause.label());
                assert!(!claims.iter().any(|claim| PROMISES.contains(claim)), "{id}");
            }
            said.insert(id.to_string());
        }
    }
    for id in ["ask_number", "handoff_trying", "callback_unknown", "callback_exists"] {
        assert!(said.contains(id), "{id} is never said");
    }
}

/// The whole table as people read it.
#[test]
fn the_table_is_as_it_was_agreed() {
    let script = script();
    let mut table = String::new();
    for cause in Cause::all() {
        let stage = cause.stage().map_or("-", |stage| stage.kind());
        write!(table, "{stage:<12} {:<28}", cause.label()).expect("a string");
        for next in climb(&script, &cause, &Facts::of(&cause)) {
            let prompt = next.prompt.as_ref().map_or("-", |id| id.as_str());
            write!(table, " {}: {prompt};", next.rung).expect("a string");
        }
        table.push('\n');
    }
    insta::assert_snapshot!(table);
}

/// the message matches the disposition.
#[test]
fn each_disposition_is_told_in_its_own_words() {
    let script = script();
    let said = |cause: &Cause| {
        let next = script.ladder.next(cause, &Climb::default(), &Facts::of(cause));
        let id = next.prompt.expect("a prompt");
        script.prompts.get("en", &id).expect("in English").text.clone()
    };
    for cause in Cause::all() {
        let Some(stage) = cause.stage() else { continue };
        if !matches!(stage.kind(), "recognition" | "model" | "synthesis") {
            continue;
        }
        let heard = stage.kind() != "recognition";
        let words = match cause.label().split('.').next().expect("a label") {
            "overloaded" => "too busy",
            "closed" => "temporarily unavailable",
            "queued" => "you are waiting",
            _ if !heard => "I did not get that",
            "expired" | "turn_expired" => "Do you still want it?",
            "fault" => "something went wrong",
            "stale" | "out_of_order" | "duplicate" => "Please say it again",
            other => panic!("a new cause: {other}"),
        };
        assert!(said(&cause).contains(words), "{}: {}", cause.label(), said(&cause));
    }
}

/// The table of dispositions names the prompts that the ladder says of a refused answer.
#[test]
fn the_table_of_dispositions_names_these_prompts() {
    let script = script();
    let mut named = 0;
    for cause in Cause::all() {
        let Cause::Refusal { stage, reason } = cause else { continue };
        let prompt = reason.disposition().prompt;
        if stage.kind() == "model" && !prompt.is_empty() {
            let next = script.ladder.next(&cause, &Climb::default(), &Facts::of(&cause));
            assert_eq!(next.prompt.expect("a prompt").as_str(), prompt, "{}", cause.label());
            named += 1;
        }
    }
    assert_eq!(named, 10, "five kinds of overload, four of closed, and expiry");
    let book = script.prompts.default_book().expect("a book");
    for prompt in [QUEUED.prompt, Terminal::Failed.disposition().prompt] {
        assert!(book.prompts.contains_key(&PromptId::new(prompt)), "{prompt}");
    }
}

/// only what truly waits is told that it waits.
#[test]
fn wait_is_said_only_while_it_waits() {
    let script = script();
    for cause in Cause::all() {
        let next = script.ladder.next(&cause, &Climb::default(), &Facts::of(&cause));
        let waits = matches!(cause, Cause::StillQueued { .. });
        assert_eq!(next.rung == Rung::Wait, waits, "{}", cause.label());
    }
}

/// rungs without a gate are recorded and never spoken, also when nothing else is
/// left.
#[test]
fn a_rung_without_a_gate_is_not_offered() {
    let script = script();
    for cause in Cause::all() {
        let facts = Facts::of(&cause).retried(script.ladder.retry_max());
        let tried = [Rung::Wait];
        let climb = Climb { tried: &tried, ..Climb::default() };
        let next = script.ladder.next(&cause, &climb, &facts);
        assert_eq!(next.rung, Rung::Goodbye, "{}", cause.label());
        for skipped in &next.skipped {
            let why = match skipped.rung {
                Rung::Wait => Skip::Tried,
                Rung::Retry => Skip::RetriesUsed,
                Rung::Callback | Rung::Handoff => Skip::NotOffered,
                Rung::Goodbye => panic!("goodbye is never passed over"),
            };
            assert_eq!(skipped.why, why, "{}: {}", cause.label(), skipped.rung);
        }
    }
}

/// An alternative is offered first, in words that promise nothing; what it promises is said only
/// with its receipt.
#[test]
fn an_offered_rung_is_asked_before_it_is_said() {
    let script = script();
    let cause = Cause::all().into_iter().find(|cause| cause.is("overloaded")).expect("one");
    let facts = Facts::of(&cause).retried(script.ladder.retry_max());
    let climb = Climb { callback_offered: true, ..Climb::default() };
    let next = script.ladder.next(&cause, &climb, &facts);
    let offer = Some(PromptId::new("offer_callback_busy"));
    assert_eq!((next.rung, &next.prompt), (Rung::Callback, &offer));
    let book = script.prompts.default_book().expect("a book");
    let claims = &book.prompts[&PromptId::new("offer_callback_busy")].claims;
    assert!(claims.contains(&Claim::CallbackOffered) && claims.contains(&Claim::CallContinues));
    assert!(!claims.iter().any(|claim| PROMISES.contains(claim)));
    assert_eq!(script.ladder.say(&cause, Rung::Callback, &facts), None);
    assert_eq!(script.ladder.say(&cause, Rung::Handoff, &facts), None);
}

/// What is not known is not said: a tool that may have taken effect.
#[test]
fn an_unknown_outcome_is_told_as_unknown() {
    let script = script();
    let cause = Cause::all().into_iter().find(|cause| {
        cause.is("fault") && cause.stage().is_some_and(|stage| stage.kind() == "tool")
    });
    let cause = cause.expect("one");
    let said = |facts: Facts| {
        let next = script.ladder.next(&cause, &Climb::default(), &facts);
        next.prompt.expect("a prompt").to_string()
    };
    assert_eq!(said(Facts::of(&cause)), "tool_failed");
    assert_eq!(said(Facts::of(&cause).outcome_unknown()), "tool_unknown");
}

#[test]
fn every_prompt_can_be_heard_in_the_default_locale() {
    let fallback = Fallback::load(None).expect("texts and sounds are right");
    assert_eq!(fallback.silent(Prompts::DEFAULT_LOCALE), []);
    let mut bytes = 0;
    for (id, prompt) in &fallback.script.prompts.default_book().expect("a book").prompts {
        let sound = fallback.sound("en-GB", id).expect("sound");
        let seconds = sound.duration().as_secs_f32();
        assert!((0.8..5.0).contains(&seconds), "{id} takes {seconds} s: {}", prompt.text);
        bytes += sound.samples.len() * 2;
        // Where a locale has no sound the default locale's is heard: it is true as well.
        assert_eq!(fallback.sound("de", id), Some(sound));
    }
    assert!(bytes < 4_000_000, "{bytes} bytes of sound");
    assert_eq!(fallback.silent("de").len(), 46);
}

#[test]
fn a_language_finds_its_locale() {
    let prompts = script().prompts;
    for (language, locale) in
        [("en", "en"), ("de-AT", "de"), ("es", "es"), ("fr", "en"), ("", "en"), ("den", "en")]
    {
        assert_eq!(prompts.locale_for(language), locale, "{language}");
    }
}
