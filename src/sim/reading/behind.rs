//! The tables `[callbacks]` and `[human]`: who stands behind the rungs.

use toml::{Table, Value};

use super::super::counterparts::{CallbackScript, HumanScript};
use super::super::script::ScriptError;
use super::Reading;
use crate::provider::BuildError;

impl Reading<'_> {
    pub(super) fn behind(
        &self,
        table: &Table,
    ) -> Result<(CallbackScript, HumanScript), ScriptError> {
        let of = |name: &str| match table.get(name) {
            None => Ok(Table::new()),
            Some(Value::Table(table)) => Ok(table.clone()),
            Some(_) => Err(self.wrong(name, "it is no table", &format!("[{name}]"))),
        };
        let callbacks = CallbackScript::from_table(&of("callbacks")?);
        let human = HumanScript::from_table(&of("human")?);
        let callbacks = callbacks.map_err(|error| self.in_table("callbacks", error))?;
        Ok((callbacks, human.map_err(|error| self.in_table("human", error))?))
    }

    fn in_table(&self, table: &str, error: BuildError) -> ScriptError {
        match error {
            BuildError::Config { key, problem, right } => {
                self.wrong(&format!("{table}.{key}"), problem, &right)
            }
            other => self.wrong(table, other.to_string(), super::GUIDE),
        }
    }
}
