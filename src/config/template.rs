//! Texts with variables: `{{call.from}}`, `{{call.param.order}}`, `{{metadata.from}}`.

use std::collections::BTreeMap;

/// A text with places for variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Variable(String),
}

/// What is known of every call, by the names that texts use.
pub const CALL_VARIABLES: [&str; 6] =
    ["call.id", "call.from", "call.to", "call.agent", "call.tenant", "call.transport"];

/// What the client says about its call by itself: `call.param.` and a name of its own.
const PARAM: &str = "call.param.";
const METADATA: &str = "metadata.";

impl Template {
    /// What would be right where a variable is unknown.
    pub(super) const RIGHT: &'static str = "write {{call.id}}, {{call.from}}, {{call.to}}, \
         {{call.agent}}, {{call.tenant}}, {{call.transport}}, {{call.param.NAME}}, or outside \
         metadata {{metadata.NAME}} of the same agent";

    /// Reads a text. Braces that do not close are text.
    pub fn parse(text: &str) -> Template {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, inside, after)) = next_variable(rest) {
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            pieces.push(Piece::Variable(inside.trim().to_owned()));
            rest = after;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Template(pieces)
    }

    /// The text with each variable's value; what `value_of` does not know becomes empty.
    pub fn fill(&self, value_of: impl Fn(&str) -> Option<String>) -> String {
        self.0
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => text.clone(),
                Piece::Variable(name) => value_of(name).unwrap_or_default(),
            })
            .collect()
    }

    /// The names of its variables.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Variable(name) => Some(name.as_str()),
            Piece::Text(_) => None,
        })
    }

    /// Its variables that mean nothing; `metadata` is what `{{metadata.NAME}}` may name.
    pub(super) fn unknown(&self, metadata: Option<&BTreeMap<String, Template>>) -> Vec<String> {
        let known = |name: &str| {
            CALL_VARIABLES.contains(&name)
                || name.strip_prefix(PARAM).is_some_and(|param| !param.is_empty())
                || name
                    .strip_prefix(METADATA)
                    .is_some_and(|key| metadata.is_some_and(|metadata| metadata.contains_key(key)))
        };
        self.variables().filter(|name| !known(name)).map(str::to_owned).collect()
    }
}

fn next_variable(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("{{")?;
    let (inside, after) = rest.split_once("}}")?;
    Some((before, inside, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_filled_and_what_is_not_known_is_empty() {
        let template = Template::parse("Hello {{ call.from }}, {{call.to}}! {{open");
        let text = template.fill(|name| (name == "call.from").then(|| "Ada".to_owned()));
        assert_eq!(text, "Hello Ada, ! {{open");
        assert_eq!(template.variables().collect::<Vec<_>>(), ["call.from", "call.to"]);
    }

    #[test]
    fn a_variable_that_means_nothing_is_found() {
        let metadata = BTreeMap::from([("order".to_owned(), Template::parse("7"))]);
        let template =
            Template::parse("{{call.form}} {{call.param.x}} {{metadata.order}} {{metadata.no}}");
        assert_eq!(template.unknown(Some(&metadata)), ["call.form", "metadata.no"]);
        assert_eq!(template.unknown(None), ["call.form", "metadata.order", "metadata.no"]);
    }
}
