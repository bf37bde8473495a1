//! What a call is told about its agent and its surroundings when it begins. Immutable.

use std::collections::BTreeSet;
use std::time::Duration;

use super::fallback::Choose;
use super::greeting::Greeting;
use crate::admission::OwnerId;
use crate::id::{CallId, ClassId, Stage, TenantId, ToolId};
use crate::turn::bargein::BargeIn;
use crate::turn::end;

/// Which alternatives callers are offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offers {
    /// A callback.
    pub callback: Offering,
    /// A human.
    pub handoff: Offering,
}

/// When an alternative is offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offering {
    /// Never.
    #[default]
    Never,
    /// When it is known where the caller can be rung.
    KnownNumber,
    /// Always: what is not known is asked for.
    Always,
}

impl Offering {
    /// It is offered to a caller whose number is known, or is not.
    pub fn allows(self, number_is_known: bool) -> bool {
        match self {
            Offering::Never => false,
            Offering::KnownNumber => number_is_known,
            Offering::Always => true,
        }
    }
}

/// The agent that answers, and the times it keeps.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The agent's name in the configuration.
    pub agent: String,
    /// Its language (BCP 47).
    pub language: String,
    /// End of speech to first audible answer.
    pub budget: Duration,
    /// Part of the budget kept back for the fallback's prompt.
    pub fallback_start: Duration,
    /// How far ahead of the far end's playing we send.
    pub lead: Duration,
    /// The far end plays what it gets so much later.
    pub far_end_delay: Duration,
    /// The barge-in policy.
    pub barge_in: BargeIn,
    /// What reads the end of a turn from what was said.
    pub end: &'static dyn end::Policy,
    /// Silence that ends a turn when nothing else is known.
    pub silence: Duration,
    /// A model may be asked before it is certain that the caller has finished.
    pub speculative: bool,
    /// There is an end-of-turn model.
    pub judges_turns: bool,
    /// The recogniser can be asked while the caller still speaks.
    pub partials: bool,
    /// Names of the tools, by [`crate::id::ToolId`].
    pub tool_names: Vec<String>,
    /// Tools that start only in a turn in which the caller agreed.
    pub confirmed_tools: BTreeSet<ToolId>,
    /// What is said when work is refused, late or failed.
    pub fallback: std::sync::Arc<dyn Choose>,
    /// Which alternatives callers are offered.
    pub offers: Offers,
    /// How long a human may take to say that they take the caller.
    pub handoff_max: Duration,
    /// Most tool calls that one turn may make.
    pub tool_calls_max: usize,
    /// The longest a call may last.
    pub call_max: Duration,
    /// The longest that both sides may be silent with nothing in flight.
    pub idle_max: Option<Duration>,
}

impl Profile {
    /// The gate's name as the API, the events and the metrics write it.
    pub fn gate_name(&self, stage: Stage) -> String {
        match stage {
            Stage::Tool(tool) => {
                let name = self.tool_names.get(usize::from(tool.0));
                format!("tool:{}", name.map_or("?", String::as_str))
            }
            other => other.kind().to_owned(),
        }
    }
}

/// Who is calling: fixed when the call begins.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The call.
    pub call: CallId,
    /// Who pays.
    pub tenant: TenantId,
    /// Its workload class.
    pub class: ClassId,
    /// The first part of the names of the items this call makes.
    pub item_prefix: String,
    /// Where the caller can be rung, as far as the transport knows.
    pub number: Option<String>,
    /// What the agent says first; `None` waits for the caller.
    pub greeting: Option<Greeting>,
}

impl Identity {
    /// The owners this call is at the gates: the conversation, and the answers beside it.
    pub fn owners(&self) -> [OwnerId; 2] {
        [OwnerId(self.call.0 * 2), OwnerId(self.call.0 * 2 + 1)]
    }
}
