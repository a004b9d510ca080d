//! Reading all keys under a prefix without asking etcd for more than it is to answer.
//!
//! etcd 3.4 looks at every key of the range that it is asked for, whatever the limit: page by page to the end of the prefix,
//! a million keys are looked at a hundred million times. So each question ends not far behind what it is to answer. Keys that
//! lie together begin alike: a question goes to the last key that begins as its first one does, in so many bytes as served
//! well last time. It is a guess about speed only; every key is asked for once whatever it is.

use bytes::Bytes;

use super::{
    inner::PAGE,
    space::{after, end_of},
};

/// A question that concerns so many times more keys than are answered was too wide, one that concerns so many times fewer too
/// narrow.
const MANY: usize = 4;
const FEW: usize = 16;

/// All keys under a prefix, as of one revision.
#[derive(Debug)]
pub(crate) struct Reading {
    pub walk: Walk,
    /// etcd's; 0 before the first answer: the newest.
    pub revision: i64,
    /// Most keys in an answer.
    pub limit: usize,
    pub keys_only: bool,
}

impl Reading {
    pub fn new(prefix: Bytes, revision: i64, keys_only: bool) -> Self {
        Self { walk: Walk::new(prefix), revision, limit: PAGE, keys_only }
    }
}

/// What was asked for, and what is next.
#[derive(Debug)]
pub(crate) struct Walk {
    /// The next key that may be there.
    from: Bytes,
    /// Behind the last one; `\0`: there is no end.
    end: Bytes,
    /// Every key begins with that many bytes of `from`.
    shared: usize,
    /// Bytes of `from` that the keys of the next question share.
    depth: usize,
    done: bool,
}

/// The answer of etcd to one question.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer<'a> {
    /// First and last key; `None` if there was none.
    pub keys: Option<(&'a [u8], &'a [u8])>,
    /// There are more in the range that was asked for.
    pub more: bool,
    /// Keys in the range that was asked for, as far as it is known.
    pub count: usize,
    /// Most keys in an answer.
    pub limit: usize,
}

impl Walk {
    /// All keys that begin with `prefix`.
    pub fn new(prefix: Bytes) -> Self {
        let shared = prefix.len();
        Self { end: end_of(&prefix), from: prefix, shared, depth: shared, done: false }
    }

    /// The range to ask for next; `None` when all was asked for.
    pub fn next(&self) -> Option<(Bytes, Bytes)> {
        (!self.done).then(|| (self.from.clone(), self.range_end()))
    }

    fn range_end(&self) -> Bytes {
        if self.depth <= self.shared {
            return self.end.clone();
        }
        let end = end_of(self.from.get(..self.depth).unwrap_or(&self.from));
        // Only bytes of 0xff have no end among keys that begin alike.
        if end.as_ref() == b"\0" { self.end.clone() } else { end }
    }

    /// Goes on behind what was answered.
    pub fn answered(&mut self, answer: &Answer<'_>) {
        match answer.keys {
            Some((first, last)) if answer.more => {
                if answer.count > MANY * answer.limit {
                    let alike = first.iter().zip(last).take_while(|(a, b)| a == b).count();
                    self.depth = alike.max(self.depth);
                }
                self.from = after(last);
            }
            _ => {
                let end = self.range_end();
                self.done = end == self.end;
                let whole = self.from.len() <= self.depth;
                self.from = end;
                self.depth = self.depth.min(self.from.len());
                if whole && answer.count * FEW < answer.limit {
                    self.depth = self.depth.saturating_sub(1).max(self.shared);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Reads as from etcd; answers the keys, the questions, and how many keys etcd looked at.
    fn read(keys: &BTreeSet<Vec<u8>>, prefix: &[u8], limit: usize) -> (Vec<Vec<u8>>, usize, usize) {
        let mut walk = Walk::new(Bytes::copy_from_slice(prefix));
        let (mut found, mut asked, mut seen) = (Vec::new(), 0, 0);
        while let Some((from, end)) = walk.next() {
            asked += 1;
            assert!(asked < 100_000, "it does not end: {from:?} {end:?}");
            let inside = |key: &&Vec<u8>| end.as_ref() == b"\0" || key.as_slice() < end.as_ref();
            let all: Vec<_> = keys.range(from.to_vec()..).take_while(inside).collect();
            seen += all.len();
            let page: Vec<_> = all.iter().take(limit).map(|key| (*key).clone()).collect();
            let keys = page.first().zip(page.last()).map(|(a, b)| (a.as_slice(), b.as_slice()));
            let (more, count) = (all.len() > limit, all.len());
            walk.answered(&Answer { keys, more, count, limit });
            found.extend(page);
        }
        (found, asked, seen)
    }

    #[test]
    fn a_million_keys_are_looked_at_a_few_times_each() {
        let mut keys = BTreeSet::new();
        for at in 0..200_000_u32 {
            keys.insert(format!("/rail/jobs/team-{:02}/train-{at:07}", at % 50).into_bytes());
            keys.insert(format!("/rail/nodes/gpu{at:06}").into_bytes());
            let random = u128::from(at).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
            keys.insert(format!("/rail/requests/{random:032x}").into_bytes());
        }
        let (found, asked, seen) = read(&keys, b"/rail/", 4000);
        assert!(found.iter().eq(&keys));
        assert!(asked < 2 * keys.len() / 1000, "{asked} questions");
        assert!(seen < 12 * keys.len(), "{seen} looks at {} keys", keys.len());
    }

    proptest! {
        #[test]
        fn every_key_is_found_once(
            keys in prop::collection::btree_set(prop::collection::vec(prop::sample::select(vec![0_u8, 1, b'a', b'b', 0xfe, 0xff]), 0..6), 0..200),
            prefix in prop::collection::vec(prop::sample::select(vec![b'a', 0xff]), 0..3),
            limit in 1..20_usize,
        ) {
            // etcd has no empty key.
            let keys: BTreeSet<_> = keys.into_iter().filter(|key| !key.is_empty()).collect();
            let wanted: Vec<_> = keys.iter().filter(|key| key.starts_with(&prefix)).cloned().collect();
            prop_assert_eq!(read(&keys, &prefix, limit).0, wanted);
        }
    }
}
