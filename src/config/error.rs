//! What is wrong with a configuration: where, what, and what would be right.

use std::fmt;

use super::raw::Origin;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file, the environment variable or `--set`.
    pub file: String,
    /// The line in the file, counted from 1; `None` outside a file.
    pub line: Option<usize>,
    /// The key, from the top; empty when the whole file is meant.
    pub key: String,
    /// What is wrong with it.
    pub problem: String,
    /// What would be right.
    pub right: String,
}

impl ConfigError {
    /// An error at the place a value came from.
    pub(super) fn at(
        origin: &Origin,
        key: &str,
        problem: impl Into<String>,
        right: impl Into<String>,
    ) -> ConfigError {
        ConfigError {
            file: origin.file.to_string(),
            line: origin.line,
            key: key.to_owned(),
            problem: problem.into(),
            right: right.into(),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}; {}", self.problem, self.right)
    }
}

/// All that is wrong, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}
