//! What tools were asked to change in the world, so that it is changed once.
//!
//! The same tool with the same arguments is the same order until its outcome has been told in an
//! answer that was heard: a turn that was merged into the next one, or interrupted before it could
//! say what it had done, must not do it again (B35, B38, B42).

use super::Call;
use crate::dialogue::ToolOutcome;
use crate::id::{RunId, ToolId};

/// Orders that are remembered.
const ORDERS_MAX: usize = 32;

/// One order.
#[derive(Debug)]
pub(super) struct Order {
    tool: ToolId,
    arguments: String,
    /// The same for every attempt at it.
    key: String,
    deed: Deed,
}

/// Where an order is.
#[derive(Debug)]
enum Deed {
    /// In this run.
    Running(RunId),
    /// Done, and nobody has heard of it: this is its result.
    Done(String),
    /// It may have been done.
    Unknown,
}

/// What becomes of an order that is given (again).
pub(super) enum Given {
    /// It is under way.
    Running(RunId),
    /// It was done: the result.
    Done(String),
    /// It is to be done, under this key.
    Fresh(String),
}

impl Call {
    /// An order comes. `name` is the name of this call of the tool.
    pub(super) fn order(&mut self, tool: ToolId, arguments: &str, name: &str) -> Given {
        let same = |order: &&Order| order.tool == tool && order.arguments == arguments;
        match self.orders.iter().find(same).map(|order| (&order.deed, &order.key)) {
            Some((Deed::Running(run), _)) => Given::Running(*run),
            Some((Deed::Done(result), _)) => Given::Done(result.clone()),
            // Whoever does it recognises the key if it was done.
            Some((Deed::Unknown, key)) => Given::Fresh(key.clone()),
            None => {
                let generation = self.generation;
                Given::Fresh(format!("{}{generation}/{name}", self.identity.item_prefix))
            }
        }
    }

    /// An order is being carried out.
    pub(super) fn order_started(&mut self, tool: ToolId, arguments: &str, key: &str, run: RunId) {
        self.orders.retain(|order| order.tool != tool || order.arguments != arguments);
        if self.orders.len() >= ORDERS_MAX {
            self.orders.remove(0);
        }
        let (arguments, key) = (arguments.to_owned(), key.to_owned());
        self.orders.push(Order { tool, arguments, key, deed: Deed::Running(run) });
    }

    /// What came of it. `result` is what the model is shown.
    pub(super) fn order_ended(&mut self, run: RunId, outcome: &ToolOutcome, result: &str) {
        let is_run = |order: &Order| matches!(order.deed, Deed::Running(own) if own == run);
        let Some(at) = self.orders.iter().position(is_run) else { return };
        match outcome {
            ToolOutcome::Completed(_) => self.orders[at].deed = Deed::Done(result.to_owned()),
            ToolOutcome::Unknown => self.orders[at].deed = Deed::Unknown,
            // Nothing was done: it may be ordered anew.
            ToolOutcome::Cancelled | ToolOutcome::Failed(_) => drop(self.orders.remove(at)),
        }
    }

    /// An answer was heard to its end: what was done has been told.
    pub(super) fn orders_told(&mut self) {
        self.orders.retain(|order| !matches!(order.deed, Deed::Done(_)));
    }
}
