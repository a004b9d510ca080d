//! Names for what configurations refer to by name: equal things have one name, different things different ones.

use std::{collections::BTreeMap, fmt::Display};

use compact_str::{ToCompactString, format_compact};

use super::tables::Text;

/// Names given so far.
#[derive(Debug, Clone)]
pub struct Names<T> {
    given: BTreeMap<T, Text>,
    used: BTreeMap<Text, usize>,
}

impl<T> Default for Names<T> {
    fn default() -> Self {
        Self { given: BTreeMap::new(), used: BTreeMap::new() }
    }
}

impl<T: Ord + Clone> Names<T> {
    /// The name of `thing`: `wanted`, with a number behind it where another thing has that.
    pub fn name(&mut self, thing: &T, wanted: impl Display) -> Text {
        if let Some(name) = self.given.get(thing) {
            return name.clone();
        }
        let wanted = wanted.to_compact_string();
        let number = self.used.entry(wanted.clone()).or_insert(0);
        *number += 1;
        let name = if *number == 1 { wanted } else { format_compact!("{wanted}_{number}") };
        self.given.insert(thing.clone(), name.clone());
        name
    }

    /// Things and their names, in the order of the things.
    pub fn iter(&self) -> impl Iterator<Item = (&T, &str)> {
        self.given.iter().map(|(thing, name)| (thing, name.as_str()))
    }
}
