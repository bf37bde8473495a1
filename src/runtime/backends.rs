//! The providers of a process, built once at start, with what is said when one cannot be had.

use std::sync::Arc;

use crate::dialogue::{ToolRuns, ToolSpec};
use crate::id::ToolId;
use crate::provider::asr::Asr;
use crate::provider::ear::{Detector, EndOfTurn};
use crate::provider::llm::Llm;
use crate::provider::tool::Tool;
use crate::provider::tts::Tts;

/// Everything calls are made with.
#[derive(Clone)]
pub struct Backends {
    /// The speech detector; `None` is no detection at all (clients commit by themselves).
    pub detector: Option<Arc<dyn Detector>>,
    /// The end-of-turn model.
    pub end_of_turn: Option<Arc<dyn EndOfTurn>>,
    /// The recogniser; `None` when none can be had.
    pub asr: Option<Arc<dyn Asr>>,
    /// The language model.
    pub llm: Arc<dyn Llm>,
    /// The synthesiser; `None` when none can be had.
    pub tts: Option<Arc<dyn Tts>>,
    /// The tools, by [`ToolId`].
    pub tools: Vec<(String, Arc<dyn Tool>)>,
}

impl Backends {
    /// The tools of these names, as a model is told of them.
    pub fn specs(&self, names: &[String]) -> Vec<ToolSpec> {
        let named = |(_, (name, _)): &(usize, &(String, Arc<dyn Tool>))| names.contains(name);
        self.tools
            .iter()
            .enumerate()
            .filter(named)
            .map(|(at, (name, tool))| ToolSpec {
                name: name.clone(),
                description: tool.description(),
                parameters: tool.parameters(),
                runs: ToolRuns::Here { tool: ToolId(at as u16), effect: tool.effect() },
            })
            .collect()
    }

    /// The names of the tools, by [`ToolId`].
    pub fn tool_names(&self) -> Vec<String> {
        self.tools.iter().map(|(name, _)| name.clone()).collect()
    }
}
