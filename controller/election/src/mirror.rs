//! A standby's copy of the stored rows: a list at a revision, then every change after it. No clock, no IO.
//!
//! A watch is a hint. It may break, repeat events, or return when the history that it needs was compacted; then it resumes
//! at the revision after the last one seen, or all rows are listed again. Lists may be late: one that is older than the copy
//! changes nothing. From time to time a list is compared with the copy ([`Mirror::differs`]).

use std::collections::BTreeMap;

/// What the shell does next so that the copy stays current.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Nothing: the watch goes on.
    Nothing,
    /// List all rows anew: the copy is empty, or the history after it is compacted.
    List,
    /// Watch all rows, beginning with this revision.
    Watch(u64),
}

/// A copy: each row with the revision of its last change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror<K, V> {
    rows: BTreeMap<K, (V, u64)>,
    at: Option<u64>,
}

impl<K, V> Default for Mirror<K, V> {
    fn default() -> Self {
        Self { rows: BTreeMap::new(), at: None }
    }
}

impl<K: Ord + Clone, V> Mirror<K, V> {
    /// The revision that the copy is of; `None` before the first list.
    #[must_use]
    pub fn at(&self) -> Option<u64> {
        self.at
    }

    /// All rows, each with the revision of its last change.
    #[must_use]
    pub fn rows(&self) -> &BTreeMap<K, (V, u64)> {
        &self.rows
    }

    /// The same by value.
    #[must_use]
    pub fn into_rows(self) -> BTreeMap<K, (V, u64)> {
        self.rows
    }

    /// Removes and returns the first row, in the order of keys, for which `such` is true.
    pub fn take_first(&mut self, such: impl Fn(&V) -> bool) -> Option<V> {
        let (key, _) = self.rows.iter().find(|(_, (row, _))| such(row))?;
        let key = key.clone();
        self.rows.remove(&key).map(|(row, _)| row)
    }

    /// What is needed when there is no watch, or when it broke.
    #[must_use]
    pub fn broken(&self) -> Need {
        self.at.map_or(Need::List, |at| Need::Watch(at + 1))
    }

    /// The history that the watch needs was compacted.
    #[must_use]
    pub fn compacted(&self) -> Need {
        Need::List
    }

    /// Takes in all rows as of `revision`; ignores a list that is not newer than the copy.
    pub fn listed(&mut self, revision: u64, rows: BTreeMap<K, (V, u64)>) -> Need {
        if self.at.is_none_or(|at| at < revision) {
            (self.rows, self.at) = (rows, Some(revision));
        }
        self.broken()
    }

    /// Takes in all changes of one revision, `None` for a deletion; ignores a revision that the copy already has.
    pub fn changed(&mut self, revision: u64, changes: impl IntoIterator<Item = (K, Option<V>)>) -> Need {
        let Some(at) = self.at else { return Need::List };
        if revision > at {
            for (key, value) in changes {
                match value {
                    Some(value) => drop(self.rows.insert(key, (value, revision))),
                    None => drop(self.rows.remove(&key)),
                }
            }
            self.at = Some(revision);
        }
        Need::Nothing
    }

    /// All changes up to this revision have been reported.
    pub fn progressed(&mut self, revision: u64) {
        self.at = self.at.map(|at| at.max(revision));
    }

    /// Keys in which the copy contradicts a list. The list must be what was stored at `revision`, which may be older or newer
    /// than the copy.
    pub fn differs<W>(&self, revision: u64, list: &BTreeMap<K, (W, u64)>) -> Vec<K> {
        let Some(at) = self.at else { return Vec::new() };
        let mut wrong = Vec::new();
        for (key, (_, changed)) in list.iter().filter(|(_, (_, changed))| *changed <= at) {
            let gone = at > revision;
            if self.rows.get(key).map_or(!gone, |(_, mine)| mine < changed) {
                wrong.push(key.clone());
            }
        }
        for (key, (_, changed)) in self.rows.iter().filter(|(_, (_, changed))| *changed <= revision) {
            let gone = revision > at;
            if list.get(key).map_or(!gone, |(_, theirs)| theirs < changed) {
                wrong.push(key.clone());
            }
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows<const N: usize>(rows: [(u8, char, u64); N]) -> BTreeMap<u8, (char, u64)> {
        rows.into_iter().map(|(key, value, at)| (key, (value, at))).collect()
    }

    #[test]
    fn a_list_then_changes_then_the_same_again() {
        let mut mirror = Mirror::default();
        assert_eq!(mirror.broken(), Need::List);
        assert_eq!(
            mirror.changed(9, [(1, Some('x'))]),
            Need::List,
            "changes of the unknown are worth nothing"
        );
        assert_eq!(mirror.listed(7, rows([(1, 'a', 3), (2, 'b', 7)])), Need::Watch(8));
        mirror.changed(8, [(1, None), (3, Some('c'))]);
        mirror.changed(8, [(1, Some('z'))]);
        mirror.changed(7, [(2, None)]);
        assert_eq!(*mirror.rows(), rows([(2, 'b', 7), (3, 'c', 8)]));
        assert_eq!(mirror.broken(), Need::Watch(9));
        mirror.progressed(12);
        mirror.progressed(11);
        assert_eq!(mirror.broken(), Need::Watch(13));
        assert_eq!(mirror.compacted(), Need::List);
    }

    #[test]
    fn a_late_list_does_not_go_back_in_time() {
        let mut mirror = Mirror::default();
        mirror.listed(7, rows([(1, 'a', 7)]));
        mirror.changed(9, [(1, Some('b'))]);
        assert_eq!(mirror.listed(8, rows([(1, 'a', 7)])), Need::Watch(10));
        assert_eq!(*mirror.rows(), rows([(1, 'b', 9)]));
    }

    #[test]
    fn contradictions_are_named_and_ages_are_none() {
        let mut mirror = Mirror::default();
        mirror.listed(7, rows([(1, 'a', 3), (2, 'b', 7)]));
        mirror.changed(9, [(2, None), (4, Some('d'))]);
        assert_eq!(mirror.differs(9, &rows([(1, 'a', 3), (4, 'd', 9)])), [0_u8; 0]);
        assert_eq!(mirror.differs(8, &rows([(1, 'a', 3), (2, 'b', 7)])), [0_u8; 0], "the list is older");
        assert_eq!(mirror.differs(11, &rows([(1, 'x', 10), (4, 'd', 9)])), [0_u8; 0], "the list is newer");
        assert_eq!(
            mirror.differs(9, &rows([(1, 'a', 3), (2, 'b', 7), (4, 'd', 9)])),
            [2],
            "it missed no deletion"
        );
        assert_eq!(mirror.differs(9, &rows([(1, 'y', 8), (4, 'd', 9)])), [1], "it missed a change");
        assert_eq!(mirror.differs(9, &rows([(4, 'd', 9)])), [1], "it missed a deletion");
    }
}
