//! Where one cluster's keys are in an etcd that it may share with others, and how its revisions are counted.
//!
//! ```text
//! /railyard/meta/format          what this is, which format, where revisions begin
//! /railyard/meta/writers/UUID-N  the last transaction of a writer (see `slots`)
//! /railyard/data/rail/v1/...     the keys of the store
//! ```
//! Everything is under one prefix, so an etcd user with rights on that prefix alone is enough.

use bytes::Bytes;
use etcd_client::CompareOp as EtcdOp;

use super::ask;
use crate::error::StoreError;
use crate::types::{Compare, CompareOp, KeyValue, LeaseId, Target};

/// Longest prefix in bytes.
const LONGEST_PREFIX: usize = 128;

/// Keys and revisions as the store knows them, and as etcd does.
///
/// A store that was moved to a new etcd must not count its revisions from the start again: agents refuse a controller
/// whose epoch, which is a revision, is lower than one that they have seen. So revisions are etcd's plus `base`.
#[derive(Debug, Clone)]
pub(crate) struct Space {
    /// The prefix of everything, such as `/railyard/`.
    pub root: String,
    /// The prefix of what this store notes of itself, such as `/railyard/meta/`.
    pub meta: String,
    /// What is put before each key of the store, such as `/railyard/data`.
    pub data: String,
    pub base: u64,
}

impl Space {
    /// The space under `prefix`.
    ///
    /// # Errors
    /// What is wrong with the prefix, in words.
    pub fn new(prefix: &str, base: u64) -> Result<Self, String> {
        let fits = prefix.len() <= LONGEST_PREFIX && prefix.len() > 1;
        if !fits
            || !prefix.starts_with('/')
            || prefix.ends_with('/')
            || !prefix.bytes().all(|b| b.is_ascii_graphic())
        {
            return Err(format!(
                "`{prefix}` cannot be a prefix in etcd: it begins with `/`, does not end with it, has no space, and 2 to {LONGEST_PREFIX} bytes"
            ));
        }
        Ok(Self {
            root: format!("{prefix}/"),
            meta: format!("{prefix}/meta/"),
            data: format!("{prefix}/data"),
            base,
        })
    }

    pub fn format_key(&self) -> Bytes {
        format!("{}format", self.meta).into()
    }

    pub fn writers(&self) -> String {
        format!("{}writers/", self.meta)
    }

    /// etcd's key of one of ours; also for prefixes.
    pub fn inside(&self, key: &[u8]) -> Bytes {
        [self.data.as_bytes(), key].concat().into()
    }

    /// Our key of one of etcd's. etcd answers only what was asked for, so every key has the prefix.
    pub fn outside(&self, key: &[u8]) -> Bytes {
        Bytes::copy_from_slice(key.get(self.data.len()..).unwrap_or_default())
    }

    /// Our revision of one of etcd's.
    pub fn revision(&self, etcd: i64) -> u64 {
        u64::try_from(etcd).unwrap_or(0) + self.base
    }

    /// etcd's revision of one of ours; what was before the base is before everything: 0.
    pub fn etcd_revision(&self, revision: u64) -> i64 {
        i64::try_from(revision.saturating_sub(self.base)).unwrap_or(i64::MAX)
    }

    pub fn key_value(&self, kv: etcd_client::KeyValue) -> KeyValue {
        let (create_revision, mod_revision) =
            (self.revision(kv.create_revision()), self.revision(kv.mod_revision()));
        let (version, lease) = (u64::try_from(kv.version()).unwrap_or(0), lease_id(kv.lease()));
        let (key, value) = kv.into_key_value();
        let (key, value) = (self.outside(&key), value.into());
        KeyValue { key, value, create_revision, mod_revision, version, lease }
    }

    pub fn compare(&self, compare: &Compare) -> ask::Compare {
        let op = match compare.op {
            CompareOp::Equal => EtcdOp::Equal,
            CompareOp::NotEqual => EtcdOp::NotEqual,
            CompareOp::Greater => EtcdOp::Greater,
            CompareOp::Less => EtcdOp::Less,
        };
        let target = match &compare.target {
            Target::ModRevision(given) => ask::Target::Mod(self.compared(*given, op)),
            Target::CreateRevision(given) => ask::Target::Create(self.compared(*given, op)),
            Target::Version(given) => ask::Target::Version(i64::try_from(*given).unwrap_or(i64::MAX)),
            Target::Value(given) => ask::Target::Value(given.clone()),
        };
        ask::Compare { key: self.inside(&compare.key), range_end: Bytes::new(), op, target }
    }

    /// What etcd is to compare with. A revision before the base is one that no key of this etcd has: an absent key (0) is
    /// below it, every other key above it.
    fn compared(&self, given: u64, op: EtcdOp) -> i64 {
        if given == 0 || given > self.base {
            return self.etcd_revision(given);
        }
        match op {
            EtcdOp::Equal | EtcdOp::NotEqual => i64::MAX,
            EtcdOp::Greater => 0,
            EtcdOp::Less => 1,
        }
    }
}

/// etcd's leases are signed, ours are not; 0 is none.
pub(crate) fn lease_id(etcd: i64) -> Option<LeaseId> {
    (etcd != 0).then_some(LeaseId(etcd.cast_unsigned()))
}

/// The first key after all keys with the prefix; `\0` (etcd's word for "to the end") when there is none.
pub(crate) fn end_of(prefix: &[u8]) -> Bytes {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end.into();
        }
    }
    Bytes::from_static(b"\0")
}

/// The first key after one key.
pub(crate) fn after(key: &[u8]) -> Bytes {
    [key, b"\0"].concat().into()
}

/// Says that a space is of another release, of nobody, or half written.
pub(crate) fn corrupt(place: &str, key: &[u8], reason: &str) -> StoreError {
    StoreError::Corrupt {
        place: place.to_owned(),
        key: key.escape_ascii().to_string(),
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_that_cannot_be_are_named() {
        for bad in ["", "/", "a", "/a/", "/a b", "/\u{e4}", &format!("/{}", "x".repeat(128))] {
            assert!(Space::new(bad, 0).is_err(), "{bad}");
        }
        let space = Space::new("/site/a", 0).unwrap();
        assert_eq!(space.inside(b"/rail/v1/leader"), "/site/a/data/rail/v1/leader");
        assert_eq!(space.outside(b"/site/a/data/rail/v1/leader"), "/rail/v1/leader");
    }

    #[test]
    fn the_end_of_a_prefix_is_the_first_key_after_it() {
        assert_eq!(end_of(b"a/"), "a0");
        assert_eq!(end_of(b"a\xff\xff"), "b");
        assert_eq!(end_of(b"\xff"), "\0");
        assert_eq!(end_of(b""), "\0");
    }

    #[test]
    fn compares_mean_the_same_whatever_the_base() {
        let base = 1000;
        let (plain, moved) = (Space::new("/a", 0).unwrap(), Space::new("/a", base).unwrap());
        let holds = |compare: &ask::Compare, stored: i64| {
            let ask::Target::Mod(given) = compare.target else { panic!("no revision") };
            match compare.op {
                EtcdOp::Equal => stored == given,
                EtcdOp::NotEqual => stored != given,
                EtcdOp::Greater => stored > given,
                EtcdOp::Less => stored < given,
            }
        };
        for op in [CompareOp::Equal, CompareOp::NotEqual, CompareOp::Greater, CompareOp::Less] {
            // etcd has 0 (absent) or 1 and up; we say 0, or 1001 and up.
            for stored in [0, 1, 2, 7] {
                for given in [0, 1, 999, 1000, 1001, 1002, 1007, 1008] {
                    let compare = Compare { key: "k".into(), op, target: Target::ModRevision(given) };
                    let ours = if stored == 0 { 0 } else { moved.revision(stored) };
                    let kv = KeyValue {
                        key: "k".into(),
                        value: Bytes::new(),
                        create_revision: ours,
                        mod_revision: ours,
                        version: 1,
                        lease: None,
                    };
                    let expected = compare.holds((ours != 0).then_some(&kv));
                    assert_eq!(holds(&moved.compare(&compare), stored), expected, "{op:?} {given} {stored}");
                }
            }
        }
        assert_eq!(plain.etcd_revision(7), 7);
        assert_eq!(moved.etcd_revision(7), 0);
    }
}
