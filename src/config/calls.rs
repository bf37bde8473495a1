//! What the configuration means for calls: their profile, their turns, and the gates they meet.

use std::sync::Arc;
use std::time::Duration;

use super::{Agent, Config, Fairness, GateLimits, Mode, Origins, Overflow, Slots, Source};
use crate::admission::adaptive::Law;
use crate::admission::limits as admission;
use crate::call::{Choose, Profile};
use crate::id::{Stage, ToolId};
use crate::leg::{EndOfTurn, ServerTurns, TurnDetection};
use crate::time::ms;
use crate::turn::end::Policy as _;
use crate::turn::words::locale;
use crate::turn::{bargein, end};

/// Sound kept from before the first speech.
const PREFIX: Duration = ms(300);
/// Silence that ends a turn whatever the end-of-turn model thinks.
const TURN_SILENCE_MAX: Duration = ms(1_200);

/// What the providers can do, as far as a call has to know.
#[derive(Clone, Debug, Default)]
pub struct Abilities {
    /// Speech is detected by us.
    pub detects: bool,
    /// There is an end-of-turn model.
    pub judges_turns: bool,
    /// The recogniser can be asked while the caller speaks.
    pub partials: bool,
    /// Names of the tools, by [`ToolId`].
    pub tool_names: Vec<String>,
}

impl Config {
    /// How calls take turns, unless the client says otherwise.
    pub fn turn_detection(&self, abilities: &Abilities) -> TurnDetection {
        if !abilities.detects {
            return TurnDetection::Manual;
        }
        let policy = self.end_policy();
        let plain =
            policy.name() == end::Silence.name() || policy.asks_model() && !abilities.judges_turns;
        let end = match plain {
            true => EndOfTurn::Silence(self.turn.silence),
            false => EndOfTurn::Content { at_most: TURN_SILENCE_MAX.max(self.turn.silence) },
        };
        TurnDetection::Server(ServerTurns {
            threshold: 0.5,
            prefix: PREFIX,
            end,
            create_response: true,
            interrupt_response: true,
            idle: None,
        })
    }

    /// What reads the end of a turn from what was said.
    pub fn end_policy(&self) -> &'static dyn end::Policy {
        // The name was one of the table's when it was read.
        end::policy(self.turn.end).unwrap_or(end::POLICIES[0])
    }

    /// What calls of this agent are told about it.
    pub fn profile(
        &self,
        agent: &Agent,
        abilities: &Abilities,
        fallback: Arc<dyn Choose>,
    ) -> Profile {
        let barge_in = &self.turn.barge_in;
        Profile {
            agent: agent.name.clone(),
            language: agent.language.clone(),
            budget: agent.limits.turn_budget,
            fallback_start: self.fallback.start,
            lead: self.playout.lead,
            far_end_delay: Duration::ZERO,
            end: self.end_policy(),
            silence: self.turn.silence,
            speculative: self.turn.speculative,
            barge_in: bargein::BargeIn {
                policy: bargein::policy(barge_in.policy).unwrap_or(bargein::POLICIES[0]),
                duck: barge_in.duck,
                confirm: barge_in.confirm,
                backchannel: barge_in.backchannel,
                resume: barge_in.resume,
                backchannels: self.backchannels(&agent.language),
                words_min: barge_in.words_min as usize,
                keys: barge_in.keys,
                ..bargein::BargeIn::default()
            },
            judges_turns: abilities.judges_turns,
            partials: abilities.partials,
            tool_names: abilities.tool_names.clone(),
            confirmed_tools: self
                .tools
                .keys()
                .enumerate()
                .filter(|(_, name)| self.confirmed_tools.contains(*name))
                .map(|(at, _)| ToolId(at as u16))
                .collect(),
            fallback,
            offers: self.offers,
            handoff_max: self.outbound.handoff_max(),
            tool_calls_max: self.turn.tool_calls_max as usize,
            call_max: agent.limits.call,
            idle_max: agent.limits.idle,
        }
    }

    /// Words that only say "go on": those of the file, or the language's own.
    fn backchannels(&self, language: &str) -> Vec<String> {
        let own = &self.turn.barge_in.backchannels;
        match own.is_empty() {
            true => locale(language).backchannels.iter().map(|&word| word.to_owned()).collect(),
            false => own.clone(),
        }
    }

    /// The limits of every gate there is; tools by their place.
    pub fn gates(&self) -> Vec<(Stage, admission::Limits)> {
        let mut stages = vec![
            Stage::Call,
            Stage::Recognition,
            Stage::Model,
            Stage::Synthesis,
            Stage::Callback,
            Stage::Handoff,
        ];
        stages.extend((0..self.tools.len()).map(|at| Stage::Tool(ToolId(at as u16))));
        stages.into_iter().map(|stage| (stage, self.gate_limits(stage).meant())).collect()
    }

    /// A gate's limits as configured.
    pub fn gate_limits(&self, stage: Stage) -> &GateLimits {
        self.of_stage(&self.limits, stage)
    }

    /// A gate's limits where neither the file nor `--set` says anything (B-021, B-027).
    pub fn inherited_limits(&self, stage: Stage) -> &GateLimits {
        self.of_stage(&self.inherited.limits, stage)
    }

    fn of_stage<'a>(&'a self, limits: &'a super::Limits, stage: Stage) -> &'a GateLimits {
        match stage {
            Stage::Call => &limits.call,
            Stage::Recognition => &limits.recognition,
            Stage::Model => &limits.model,
            Stage::Synthesis => &limits.synthesis,
            Stage::Tool(tool) => match self.tools.keys().nth(usize::from(tool.0)) {
                Some(name) => limits.of_tool(name),
                None => &limits.tools,
            },
            Stage::Callback => &limits.callback,
            Stage::Handoff => &limits.handoff,
        }
    }

    /// Where a gate's limit comes from, in this configuration or in what it inherits.
    pub fn limit_source(&self, stage: Stage, key: &str, origins: &Origins) -> Source {
        let source = |table: &str| origins.source(&format!("limits.{table}.{key}"));
        let found = match stage {
            Stage::Tool(_) => source(&format!("tools.{}", &self.gate_name(stage)["tool:".len()..]))
                .or_else(|| source("tools")),
            other => source(other.kind()),
        };
        found.unwrap_or(Source::Default)
    }

    /// A gate's name as the API, the events and the metrics write it.
    pub fn gate_name(&self, stage: Stage) -> String {
        match stage {
            Stage::Tool(tool) => {
                let name = self.tools.keys().nth(usize::from(tool.0));
                format!("tool:{}", name.map_or("?", String::as_str))
            }
            other => other.kind().to_owned(),
        }
    }
}

impl GateLimits {
    /// What moves the ceiling, while it adapts.
    pub fn law(&self) -> Law {
        let ttft_target_ms = self.ttft_target.as_millis() as u64;
        Law {
            ttft_target_ms: (ttft_target_ms > 0).then_some(ttft_target_ms),
            stale_ms: self.telemetry_stale.as_millis() as u64,
            ..Law::default()
        }
    }

    /// The same in the words of admission.
    pub fn meant(&self) -> admission::Limits {
        admission::Limits {
            mode: match self.mode {
                Mode::Off => admission::Mode::Off,
                Mode::Observe => admission::Mode::Observe,
                Mode::Enforce => admission::Mode::Enforce,
            },
            slots: match self.slots {
                Slots::Limited(units) => admission::Slots::Units(units),
                Slots::Unlimited => admission::Slots::Unlimited,
            },
            queue: self.queue,
            queue_bytes: self.queue_bytes,
            max_wait_ms: self.max_wait.as_millis() as u64,
            overflow: match self.overflow {
                Overflow::Reject => admission::Overflow::Reject,
                Overflow::Replace => admission::Overflow::Replace,
                Overflow::Shed => admission::Overflow::Shed,
            },
            fairness: match self.fairness {
                Fairness::Fifo => admission::Fairness::Fifo,
                Fairness::HardCap => {
                    admission::Fairness::HardCap { tenant_share_pct: self.tenant_share_pct }
                }
                Fairness::Fair => admission::Fairness::Fair,
            },
            adaptive: self.adaptive,
            classes: self.classes.clone(),
            aging_ms: (!self.aging.is_zero()).then_some(self.aging.as_millis() as u64),
            ..admission::Limits::default()
        }
    }
}
