//! A table of shared rows: read as a map, and changed by one function that says what was there.

use std::{collections::BTreeMap, ops::Deref, sync::Arc};

/// Rows by key. Whoever has it reads it as a map; only this crate's setters change it.
#[derive(Debug, Clone, PartialEq)]
pub struct Table<K, V> {
    rows: BTreeMap<K, Arc<V>>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { rows: BTreeMap::new() }
    }
}

impl<K, V> Deref for Table<K, V> {
    type Target = BTreeMap<K, Arc<V>>;

    fn deref(&self) -> &BTreeMap<K, Arc<V>> {
        &self.rows
    }
}

impl<K: Ord + Clone, V> Table<K, V> {
    /// Replaces a row, or takes it out, and says what it was.
    pub(crate) fn swap(&mut self, key: &K, new: Option<Arc<V>>) -> Option<Arc<V>> {
        swap(&mut self.rows, key, new)
    }
}

/// The same for any map.
pub(crate) fn swap<K: Ord + Clone, V>(table: &mut BTreeMap<K, V>, key: &K, new: Option<V>) -> Option<V> {
    match new {
        Some(new) => match table.get_mut(key) {
            Some(row) => Some(std::mem::replace(row, new)),
            None => table.insert(key.clone(), new),
        },
        None => table.remove(key),
    }
}
