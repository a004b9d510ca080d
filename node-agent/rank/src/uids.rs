//! A user and group id of its own for each attempt, from a range that belongs to the agent alone.

use std::{collections::BTreeSet, fmt, fs, os::unix::fs::MetadataExt, path::Path, str::FromStr};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Below are the ids of people and services (login.defs(5)).
const FIRST_MIN: u32 = 1000;
/// `nobody`, as whom the kernel shows ids that it cannot map.
const OVERFLOW: u32 = 65_534;
/// What distributions hand out per user; more is a mistyped range.
const COUNT_MAX: u32 = 1 << 24;

/// Why a range of ids cannot be used.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum UidRangeError {
    /// The text is no range of the form FIRST-LAST.
    #[error("`{0}` is not FIRST-LAST, for example 200000-265535")]
    Form(String),
    /// The range has ids that are reserved for others.
    #[error("{0}: a range begins at {FIRST_MIN} at least, and holds neither {OVERFLOW} nor 4294967295")]
    Reserved(UidRange),
    /// The end is before the beginning, or too far off.
    #[error("{0}: a range has 1 to {COUNT_MAX} ids")]
    Count(UidRange),
    /// An account of this server has one of the ids.
    #[error(
        "{range}: the account `{name}` of this server has {id}; give a range in which nobody has an account"
    )]
    Account {
        /// The range that was given.
        range: UidRange,
        /// Name of the account whose id is in the range.
        name: String,
        /// The id of that account.
        id: u32,
    },
}

/// Ids from the first to the last, both of them included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UidRange {
    first: u32,
    last: u32,
}

impl fmt::Display for UidRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl FromStr for UidRange {
    type Err = UidRangeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (first, last) = text.split_once('-')?;
            Some(Self { first: first.parse().ok()?, last: last.parse().ok()? })
        };
        let range = parse().ok_or_else(|| UidRangeError::Form(text.to_owned()))?;
        if range.last < range.first || range.last - range.first >= COUNT_MAX {
            return Err(UidRangeError::Count(range));
        }
        if range.first < FIRST_MIN || range.holds(OVERFLOW) || range.holds(u32::MAX) {
            return Err(UidRangeError::Reserved(range));
        }
        Ok(range)
    }
}

impl UidRange {
    /// True if an id is one of these.
    #[must_use]
    pub fn holds(self, id: u32) -> bool {
        (self.first..=self.last).contains(&id)
    }

    /// The first id of the range.
    #[must_use]
    pub fn first(self) -> u32 {
        self.first
    }

    /// How many attempts there can be at a time.
    #[must_use]
    pub fn count(self) -> u32 {
        self.last - self.first + 1
    }

    /// An id that is free: the next one after `last_given`, round and round, so that an id rests as long as it can before somebody
    /// else gets it. None if all are in use.
    #[must_use]
    pub fn free(self, in_use: &BTreeSet<u32>, last_given: Option<u32>) -> Option<u32> {
        let begin = last_given.filter(|last| self.first <= *last && *last < self.last);
        let begin = begin.map_or(self.first, |last| last + 1);
        (begin..=self.last).chain(self.first..begin).find(|id| !in_use.contains(id))
    }

    /// Refuses a range in which this server has an account or a group (its own files; other sources of accounts are not listed).
    ///
    /// # Errors
    /// Whose id it is.
    pub fn check_accounts(self, etc: &Path) -> Result<(), UidRangeError> {
        for (file, column) in [("passwd", 2), ("passwd", 3), ("group", 2)] {
            let text = fs::read_to_string(etc.join(file)).unwrap_or_default();
            for line in text.lines() {
                let mut fields = line.split(':');
                let name = fields.next().unwrap_or_default().to_owned();
                let id = fields.nth(column - 1).and_then(|id| id.parse().ok());
                if let Some(id) = id.filter(|id| self.holds(*id)) {
                    return Err(UidRangeError::Account { range: self, name, id });
                }
            }
        }
        Ok(())
    }

    /// Who may make processes of these ids, by `/etc/subuid` or `/etc/subgid`, beside the names in `ours`.
    #[must_use]
    pub fn subordinate_owners(self, etc: &Path, ours: &[&str]) -> Vec<String> {
        let mut found = BTreeSet::new();
        for file in ["subuid", "subgid"] {
            let text = fs::read_to_string(etc.join(file)).unwrap_or_default();
            for line in text.lines() {
                let fields: Vec<&str> = line.split(':').collect();
                let [name, first, count] = fields[..] else { continue };
                let (Ok(first), Ok(count)) = (first.parse::<u64>(), count.trim().parse::<u64>()) else {
                    continue;
                };
                let overlaps = first <= u64::from(self.last) && first + count > u64::from(self.first);
                if overlaps && !ours.contains(&name) {
                    found.insert(name.to_owned());
                }
            }
        }
        found.into_iter().collect()
    }

    /// Those of the ids that processes of this server have now, whoever started them.
    #[must_use]
    pub fn running(self) -> BTreeSet<u32> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries
            .filter(|entry| entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit));
        let owners = pids.filter_map(|entry| Some(entry.metadata().ok()?.uid()));
        owners.filter(|id| self.holds(*id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> UidRange {
        text.parse().unwrap()
    }

    #[test]
    fn ranges_are_read_strictly() {
        assert_eq!(range("200000-265535").to_string(), "200000-265535");
        assert_eq!((range("2000-2000").count(), range("200000-265535").count()), (1, 65_536));
        for bad in ["", "1", "1-", "-1", "a-b", "1-2-3", " 2000-3000"] {
            assert_eq!(bad.parse::<UidRange>(), Err(UidRangeError::Form(bad.to_owned())));
        }
        for bad in ["0-10", "999-2000", "60000-70000", "4294967000-4294967295"] {
            assert!(matches!(bad.parse::<UidRange>(), Err(UidRangeError::Reserved(_))), "{bad}");
        }
        for bad in ["3000-2000", "100000-4000000000"] {
            assert!(matches!(bad.parse::<UidRange>(), Err(UidRangeError::Count(_))), "{bad}");
        }
    }

    #[test]
    fn an_id_is_never_given_twice_and_rests_as_long_as_it_can() {
        let range = range("2000-2003");
        let (mut used, mut last) = (BTreeSet::new(), None);
        for expected in [2000, 2001, 2002, 2003] {
            last = range.free(&used, last);
            assert_eq!(last, Some(expected));
            used.extend(last);
        }
        assert_eq!(range.free(&used, last), None);
        used.remove(&2000);
        used.remove(&2002);
        assert_eq!(range.free(&used, Some(2000)), Some(2002));
        assert_eq!(range.free(&used, Some(2003)), Some(2000));
        // One that was given out of another range says nothing.
        assert_eq!(range.free(&used, Some(9)), Some(2000));
    }

    #[test]
    fn whatever_is_in_use_what_is_given_is_free() {
        let range = range("2000-2015");
        for bits in 0_u32..1 << 16 {
            let used: BTreeSet<u32> =
                (0..16).filter(|bit| bits >> bit & 1 == 1).map(|bit| 2000 + bit).collect();
            let given = range.free(&used, Some(2000 + bits % 16));
            assert_eq!(given.is_none(), used.len() == 16);
            assert!(given.is_none_or(|id| range.holds(id) && !used.contains(&id)));
        }
    }

    #[test]
    fn ids_of_accounts_are_refused_and_subordinate_ids_of_others_told() {
        let etc = tempfile::tempdir().unwrap();
        fs::write(etc.path().join("passwd"), "root:x:0:0::/:/bin/sh\nada:x:2500:100:::\n").unwrap();
        fs::write(etc.path().join("group"), "lab:x:3500:ada\n").unwrap();
        fs::write(etc.path().join("subuid"), "ada:100000:65536\nrail:200000:65536\nbad\n").unwrap();
        let refused = |text: &str| range(text).check_accounts(etc.path());
        assert_eq!(refused("3000-3400"), Ok(()));
        assert!(refused("2000-3000").unwrap_err().to_string().contains("`ada` of this server has 2500"));
        assert!(refused("3000-4000").unwrap_err().to_string().contains("`lab` of this server has 3500"));
        let owners = |text: &str| range(text).subordinate_owners(etc.path(), &["rail"]);
        assert_eq!(owners("165535-165535"), ["ada"]);
        assert_eq!(owners("165536-265535"), Vec::<String>::new());
    }
}
