//! What is known of one call, for the texts and the metadata of its agent.

use std::collections::BTreeMap;

use crate::call::Greeting;
use crate::config::{Agent, Template};

/// One call's own facts. What is not known is empty.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    /// Its name.
    pub call: String,
    /// Over which transport it came.
    pub transport: &'static str,
    /// Who calls, as far as the transport knows.
    pub from: String,
    /// Whom they called.
    pub to: String,
    /// Who pays; empty is nobody.
    pub tenant: String,
    /// What the client sent with its call.
    pub params: BTreeMap<String, String>,
}

impl Variables {
    /// The agent's instructions for this call.
    pub fn instructions(&self, agent: &Agent) -> String {
        agent.instructions.fill(|name| self.value(agent, name))
    }

    /// What is kept with this call.
    pub fn metadata(&self, agent: &Agent) -> BTreeMap<String, String> {
        let fill = |text: &Template| text.fill(|name| self.value(agent, name));
        agent.metadata.iter().map(|(key, text)| (key.clone(), fill(text))).collect()
    }

    /// What the agent says first in this call.
    pub fn greeting(&self, agent: &Agent) -> Option<Greeting> {
        agent.greeting(|name| self.value(agent, name))
    }

    /// Where the caller can be rung.
    pub fn number(&self) -> Option<String> {
        Some(self.from.clone()).filter(|from| !from.is_empty())
    }

    fn value(&self, agent: &Agent, name: &str) -> Option<String> {
        Some(match name {
            "call.id" => self.call.clone(),
            "call.from" => self.from.clone(),
            "call.to" => self.to.clone(),
            "call.agent" => agent.name.clone(),
            "call.tenant" => self.tenant.clone(),
            "call.transport" => self.transport.to_owned(),
            other => match other.split_once("param.") {
                Some(("call.", param)) => self.params.get(param).cloned().unwrap_or_default(),
                // The agent's own metadata, whose texts name no metadata again.
                _ => {
                    let text = agent.metadata.get(other.strip_prefix("metadata.")?)?;
                    text.fill(|inner| match inner.starts_with("metadata.") {
                        true => None,
                        false => self.value(agent, inner),
                    })
                }
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn texts_and_metadata_know_their_call() {
        let text = r#"
            [agent.default]
            instructions = "Call {{call.id}} of {{metadata.who}} about {{call.param.topic}}."
            metadata = { who = "{{call.from}}" }
        "#;
        let config = Config::parse("test", text, &[], std::iter::empty()).unwrap();
        let params = BTreeMap::from([("topic".to_owned(), "pears".to_owned())]);
        let variables = Variables {
            call: "call-7".into(),
            from: "+15550100".into(),
            params,
            ..Variables::default()
        };
        let agent = config.default_agent();
        assert_eq!(variables.instructions(agent), "Call call-7 of +15550100 about pears.");
        assert_eq!(variables.metadata(agent)["who"], "+15550100");
    }
}
