//! The caller's agreement to what a tool is about to change.

use super::Call;
use super::keys;
use super::state::Consent;
use crate::admission::mutant;
use crate::id::ToolId;
use crate::turn::words::{Reply, reply};

impl Call {
    /// The turn's words agree to what the agent has just asked.
    pub(super) fn consent(&mut self) -> Consent {
        let Some((agent, caller)) = self.history.last_exchange() else { return Consent::None };
        let asked = agent.trim_end().ends_with('?');
        match reply(keys::meant(&caller), &self.profile.language) {
            Reply::Yes if asked => Consent::Given,
            Reply::No => {
                self.not_agreed.clear();
                Consent::None
            }
            Reply::Yes | Reply::Other => Consent::None,
        }
    }

    /// The tool may start as far as the caller's agreement goes. A yes is spent by one call, and
    /// only by one that was asked about: that had been refused for want of it.
    pub(super) fn agreed(&mut self, tool: ToolId, arguments: &str) -> bool {
        if !self.profile.confirmed_tools.contains(&tool) || mutant::is("consent_not_asked") {
            return true;
        }
        let asked = |order: &(ToolId, String)| order.0 == tool && order.1 == arguments;
        let at = self.not_agreed.iter().position(asked);
        match (at, self.floor.answer()) {
            (Some(at), Some(answer)) if answer.consent == Consent::Given => {
                answer.consent = Consent::None;
                self.not_agreed.remove(at);
                true
            }
            (Some(_), _) => false,
            (None, _) => {
                if self.not_agreed.len() >= NOT_AGREED_MAX {
                    self.not_agreed.remove(0);
                }
                self.not_agreed.push((tool, arguments.to_owned()));
                false
            }
        }
    }
}

/// Calls not agreed to that are remembered.
const NOT_AGREED_MAX: usize = 16;
/// What a model is told of a tool that the caller has not agreed to.
pub(super) const NOT_AGREED: &str = "not run: the caller has not agreed to this in this turn; ask, and call it \
                          again when they have said yes";
