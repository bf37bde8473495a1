//! The wire's names for what the call numbers: `resp_…`, `conv_…`, `item_…`.

use crate::id::{ItemId, ResponseId};

/// Makes and reads the names of one session.
#[derive(Debug)]
pub(super) struct Names {
    seed: String,
    conversation: String,
    items: u64,
}

impl Names {
    pub fn new(seed: &str) -> Self {
        let conversation = format!("conv_{seed}");
        Names { seed: seed.to_owned(), conversation, items: 0 }
    }

    /// The conversation's name.
    pub fn conversation(&self) -> &str {
        &self.conversation
    }

    /// An answer's name.
    pub fn response(&self, id: ResponseId) -> String {
        format!("resp_{}_{}", self.seed, id.0)
    }

    /// The name of something spoken outside any answer.
    pub fn announcement(&self, number: u32) -> String {
        format!("resp_{}_a{number}", self.seed)
    }

    /// The answer of this name, if it could be one of this session's.
    pub fn parse_response(&self, name: &str) -> Option<ResponseId> {
        let number = name.strip_prefix("resp_")?.strip_prefix(&self.seed)?.strip_prefix('_')?;
        number.parse().ok().map(ResponseId)
    }

    /// A name for an item that its client gave none. The `x` keeps it apart from the call's own.
    pub fn item(&mut self) -> ItemId {
        self.items += 1;
        ItemId::new(&format!("item_{}_x{}", self.seed, self.items))
    }
}
