//! The ladder: which rungs are tried for a cause, in which order, and what each may say.

use std::fmt;

use super::cause::{Cause, lies_below};
use super::claim::{Claim, Facts};
use super::prompt::{PromptId, Prompts};

/// One alternative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rung {
    /// Say that it waits; only while it truly does.
    Wait,
    /// Say that it is not to be had now, and leave it to the caller to ask again.
    Retry,
    /// Put a callback on record.
    Callback,
    /// Give the caller to a human.
    Handoff,
    /// Say so and end the call.
    Goodbye,
}

impl Rung {
    /// Every rung.
    pub const ALL: [Rung; 5] =
        [Rung::Wait, Rung::Retry, Rung::Callback, Rung::Handoff, Rung::Goodbye];

    /// The stable label of ladder, events, metrics and records.
    pub fn label(self) -> &'static str {
        match self {
            Rung::Wait => "wait",
            Rung::Retry => "retry",
            Rung::Callback => "callback",
            Rung::Handoff => "handoff",
            Rung::Goodbye => "goodbye",
        }
    }

    /// The rung of this name.
    pub fn named(label: &str) -> Option<Rung> {
        Rung::ALL.into_iter().find(|rung| rung.label() == label)
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// A rule as the ladder's file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Stages it is for ([`crate::id::Stage::kind`]); empty is any, or none at all.
    pub stages: Vec<String>,
    /// Causes it is for: labels, or what labels lie below.
    pub causes: Vec<String>,
    /// The rungs to try.
    pub climb: Vec<RungDraft>,
}

/// A rung of a rule as the ladder's file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RungDraft {
    /// The rung.
    pub rung: Rung,
    /// Its prompts: the first of which every claim is true is said.
    pub say: Vec<PromptId>,
}

/// What is wrong with a ladder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LadderProblem {
    /// Which rule, counted from 1; `None` when one is missing.
    pub rule: Option<usize>,
    /// What is wrong with it.
    pub problem: String,
}

/// The ladder, complete: every cause has a rule, and every rule ends in a goodbye that can be said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ladder {
    rules: Vec<(Rule, Vec<Vec<Saying>>)>,
    retry_max: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Saying {
    prompt: PromptId,
    claims: Vec<Claim>,
}

/// Which rungs have been tried for this cause, and which can be tried at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Climb<'t> {
    /// Tried before, and not established.
    pub tried: &'t [Rung],
    /// There is a gate for callbacks.
    pub callback_offered: bool,
    /// There is a gate for handoffs.
    pub handoff_offered: bool,
}

/// The next rung and what it says once it is established.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// The rung.
    pub rung: Rung,
    /// What to say. For a rung that must be established first (`callback`, `handoff`) it is the
    /// offer; what it promises is [`Ladder::say`] with the facts that its receipt proves.
    pub prompt: Option<PromptId>,
    /// Rungs passed over on the way, for the record.
    pub skipped: Vec<Skipped>,
}

/// A rung that was passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Which.
    pub rung: Rung,
    /// Why.
    pub why: Skip,
}

/// Why a rung was passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Skip {
    /// It was tried before.
    Tried,
    /// Nothing waits.
    NotQueued,
    /// The caller was asked often enough.
    RetriesUsed,
    /// No gate stands behind it.
    NotOffered,
    /// None of its prompts is true.
    NothingTrue,
}

impl Skip {
    /// The stable label of events, metrics and records.
    pub fn label(self) -> &'static str {
        match self {
            Skip::Tried => "tried",
            Skip::NotQueued => "not_queued",
            Skip::RetriesUsed => "retries_used",
            Skip::NotOffered => "not_offered",
            Skip::NothingTrue => "nothing_true",
        }
    }
}

impl Ladder {
    /// Makes a ladder of rules in the order in which they are looked at, or says all that is wrong
    /// with them.
    pub fn build(
        rules: Vec<Rule>,
        retry_max: u32,
        prompts: &Prompts,
    ) -> Result<Ladder, Vec<LadderProblem>> {
        let mut problems = Vec::new();
        let sayings: Vec<Vec<Vec<Saying>>> = rules
            .iter()
            .enumerate()
            .map(|(index, rule)| sayings(index + 1, rule, prompts, &mut problems))
            .collect();
        let ladder = Ladder { rules: rules.into_iter().zip(sayings).collect(), retry_max };
        if !problems.is_empty() {
            return Err(problems);
        }
        for cause in &Cause::all() {
            let stage = cause.stage().map_or("no stage", |stage| stage.kind());
            let problem = match ladder.rule(cause) {
                None => "no rule is for it",
                Some(_) if ladder.say(cause, Rung::Goodbye, &Facts::of(cause)).is_none() => {
                    "no goodbye is true"
                }
                Some(_) => continue,
            };
            let problem = format!("{} at {stage}: {problem}", cause.label());
            problems.push(LadderProblem { rule: None, problem });
        }
        if problems.is_empty() { Ok(ladder) } else { Err(problems) }
    }

    /// The next rung for a cause. It always finds one: the goodbye is always there and always true.
    pub fn next(&self, cause: &Cause, climb: &Climb<'_>, facts: &Facts) -> Next {
        let mut skipped = Vec::new();
        let drafts = self.rule(cause).map_or(&[][..], |(rule, _)| &rule.climb);
        for rung in drafts.iter().map(|draft| draft.rung) {
            let why = match rung {
                Rung::Goodbye => None,
                _ if climb.tried.contains(&rung) => Some(Skip::Tried),
                Rung::Wait if !facts.holds(Claim::OriginalQueued) => Some(Skip::NotQueued),
                Rung::Retry if facts.retries() >= self.retry_max => Some(Skip::RetriesUsed),
                Rung::Callback if !climb.callback_offered => Some(Skip::NotOffered),
                Rung::Handoff if !climb.handoff_offered => Some(Skip::NotOffered),
                Rung::Wait | Rung::Retry | Rung::Callback | Rung::Handoff => None,
            };
            let prompt = self.say(cause, rung, &facts.clone().offering(rung));
            match why {
                Some(why) => skipped.push(Skipped { rung, why }),
                None if prompt.is_some() => return Next { rung, prompt, skipped },
                None => skipped.push(Skipped { rung, why: Skip::NothingTrue }),
            }
        }
        // Not reached with a ladder that was built: its goodbye is said above. The call ends all
        // the same.
        Next { rung: Rung::Goodbye, prompt: None, skipped }
    }

    /// What an established rung says: its first prompt of which every claim is true.
    pub fn say(&self, cause: &Cause, rung: Rung, facts: &Facts) -> Option<PromptId> {
        let (rule, sayings) = self.rule(cause)?;
        let place = rule.climb.iter().position(|draft| draft.rung == rung)?;
        let says = sayings[place].iter().find(|saying| facts.hold_on(rung, &saying.claims))?;
        Some(says.prompt.clone())
    }

    /// Every prompt that some rung may say.
    pub fn prompts(&self) -> impl Iterator<Item = &PromptId> {
        self.rules.iter().flat_map(|(_, sayings)| sayings.iter().flatten().map(|s| &s.prompt))
    }

    /// How often in a row a caller is asked to try again.
    pub fn retry_max(&self) -> u32 {
        self.retry_max
    }

    fn rule(&self, cause: &Cause) -> Option<&(Rule, Vec<Vec<Saying>>)> {
        self.rules.iter().find(|(rule, _)| rule.is_for(cause))
    }
}

impl Rule {
    fn is_for(&self, cause: &Cause) -> bool {
        let here = |stage: &String| cause.stage().is_some_and(|at| at.kind() == stage);
        (self.stages.is_empty() || self.stages.iter().any(here))
            && self.causes.iter().any(|pattern| cause.is(pattern))
    }
}

/// Looks up what a rule's prompts claim.
fn sayings(
    number: usize,
    rule: &Rule,
    prompts: &Prompts,
    problems: &mut Vec<LadderProblem>,
) -> Vec<Vec<Saying>> {
    let mut wrong = |problem: String| problems.push(LadderProblem { rule: Some(number), problem });
    let causes = Cause::all();
    let stage_exists = |stage: &String| {
        causes.iter().any(|cause| cause.stage().is_some_and(|at| at.kind() == stage))
    };
    for stage in rule.stages.iter().filter(|stage| !stage_exists(stage)) {
        wrong(format!("there is no stage \"{stage}\""));
    }
    for pattern in &rule.causes {
        if !causes.iter().any(|cause| lies_below(cause.label(), pattern)) {
            wrong(format!("there is no cause \"{pattern}\""));
        }
    }
    if rule.climb.last().map(|draft| draft.rung) != Some(Rung::Goodbye) {
        wrong("its last rung is not goodbye".to_owned());
    }
    let mut all = Vec::new();
    for (place, draft) in rule.climb.iter().enumerate() {
        if rule.climb[..place].iter().any(|earlier| earlier.rung == draft.rung) {
            wrong(format!("the rung {} is there twice", draft.rung));
        }
        let mut says = Vec::new();
        for id in &draft.say {
            match prompts.get(Prompts::DEFAULT_LOCALE, id) {
                Some(prompt) => {
                    says.push(Saying { prompt: id.clone(), claims: prompt.claims.clone() });
                }
                None => wrong(format!("the rung {} says \"{id}\", which is no prompt", draft.rung)),
            }
        }
        all.push(says);
    }
    all
}
