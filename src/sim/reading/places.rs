//! Where the keys of a fixture stand.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::line_at;

/// Every key by its path, as `caller[2].says`.
#[derive(Debug)]
pub(super) struct Places(BTreeMap<String, Place>);

#[derive(Debug)]
struct Place {
    line: usize,
    /// From the key to the end of its value.
    span: Range<usize>,
}

impl Places {
    pub fn of(text: &str, table: &DeTable<'_>) -> Places {
        let mut places = Places(BTreeMap::new());
        places.table(text, "", table);
        places
    }

    fn table(&mut self, text: &str, path: &str, table: &DeTable<'_>) {
        for (key, value) in table {
            let name: &str = key.get_ref();
            let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            self.value(text, &path, key.span().start, value);
        }
    }

    fn value(&mut self, text: &str, path: &str, from: usize, value: &Spanned<DeValue<'_>>) {
        let span = from..value.span().end.max(from);
        self.0.insert(path.to_owned(), Place { line: line_at(text, from), span });
        match value.get_ref() {
            DeValue::Table(table) => self.table(text, path, table),
            DeValue::Array(entries) => {
                for (at, entry) in entries.iter().enumerate() {
                    let path = format!("{path}[{}]", at + 1);
                    self.value(text, &path, entry.span().start, entry);
                }
            }
            _ => {}
        }
    }

    /// The line of a key, or of the nearest one around it.
    pub fn line(&self, key: &str) -> usize {
        let mut key = key;
        loop {
            if let Some(place) = self.0.get(key) {
                return place.line;
            }
            match key.rfind(['.', '[']) {
                Some(at) => key = &key[..at],
                None => return 1,
            }
        }
    }

    /// The innermost key within this one that holds a position of the text.
    pub fn key_at(&self, within: &str, position: usize) -> Option<&str> {
        let holds = |(key, place): &(&String, &Place)| {
            key.starts_with(within) && place.span.contains(&position)
        };
        let all = self.0.iter().filter(holds);
        all.max_by_key(|(key, _)| key.len()).map(|(key, _)| key.as_str())
    }
}
