//! Workload classes: `[class.<name>]`, what each is promised at the gates. Agents say whose class
//! their calls are of.

use std::collections::BTreeMap;

use super::agent::is_name;
use super::limits::{GateLimits, Slots};
use super::reader::Reader;
use crate::admission::limits::{CLASSES_MAX, ClassRule};
use crate::id::ClassId;

/// The class of calls whose agent says nothing.
pub const NO_CLASS: &str = "default";
/// Rank of a class that says nothing.
const RANK: u64 = 100;
/// Gates at which units can be kept for a class; those of `tools` count for each tool.
const GATES: [&str; 7] =
    ["call", "recognition", "model", "synthesis", "tools", "callback", "handoff"];

/// One workload class.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Lower goes first among the waiting; 100 is what calls of no class have.
    pub rank: u8,
    /// Units that no other class may take, by gate.
    pub reserved: BTreeMap<&'static str, u32>,
}

/// The classes there are, in the order of their numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Classes(Vec<Class>);

impl Classes {
    pub(super) fn read(reader: &mut Reader<'_>) -> Classes {
        let names = reader.names("class");
        if names.len() > CLASSES_MAX {
            let problem = format!("there are {} classes", names.len());
            reader.refuse("class", problem, format!("{CLASSES_MAX} at most"));
        }
        let read = |name: String| {
            let path = format!("class.{name}");
            if !is_name(&name) || name == NO_CLASS {
                let right = "letters a-z, A-Z, 0-9, '_' and '-'; \"default\" is taken";
                reader.refuse(&path, "this can be no class's name", right);
            }
            let rank = reader.number(&*format!("{path}.rank"), RANK, 0..=255, "a rank") as u8;
            let mut reserved = BTreeMap::new();
            for gate in GATES {
                let key = format!("{path}.reserved.{gate}");
                let units = reader.number(&*key, 0, 0..=100_000, "a number of units") as u32;
                if units > 0 {
                    reserved.insert(gate, units);
                }
            }
            Class { name, rank, reserved }
        };
        Classes(names.into_iter().take(CLASSES_MAX).map(read).collect())
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|class| class.name.as_str())
    }

    /// The number of the class of this name; calls of no class have 0.
    pub fn find(&self, name: Option<&str>) -> ClassId {
        let place = name.and_then(|name| self.names().position(|known| known == name));
        place.map_or(ClassId(0), number)
    }

    /// The name of this number.
    pub fn name(&self, class: ClassId) -> String {
        let Some(place) = usize::from(class.0).checked_sub(1) else { return NO_CLASS.to_owned() };
        self.0.get(place).map_or_else(|| class.to_string(), |class| class.name.clone())
    }

    /// What the classes are promised at a gate.
    pub(super) fn rules(&self, gate: &str) -> Vec<ClassRule> {
        let rule = |(at, class): (usize, &Class)| ClassRule {
            class: number(at),
            reserved: class.reserved.get(gate).copied().unwrap_or(0),
            rank: class.rank,
        };
        self.0.iter().enumerate().map(rule).collect()
    }

    /// No gate can keep more units for its classes than it has.
    pub(super) fn check(&self, reader: &mut Reader<'_>, gate: &str, limits: &GateLimits) {
        let reserved: u64 = limits.classes.iter().map(|rule| u64::from(rule.reserved)).sum();
        let Slots::Limited(slots) = limits.slots else { return };
        let Some(class) = self.0.iter().find(|class| class.reserved.contains_key(gate)) else {
            return;
        };
        if reserved > u64::from(slots) {
            let key = format!("class.{}.reserved.{gate}", class.name);
            let problem = format!("{reserved} units are kept for classes and the gate has {slots}");
            let right = format!("keep less, or raise limits.{gate}.slots");
            reader.refuse(&key, problem, right);
        }
    }
}

fn number(place: usize) -> ClassId {
    ClassId(place as u16 + 1)
}
