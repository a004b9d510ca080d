//! The latest changes in their order, of each thing the last one only: whoever follows is a position in them, and no queue of its own. Pure.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    ops::Bound,
    str::FromStr,
    sync::Arc,
};

use bytes::Bytes;
use proto_model::TenantName;

use super::kind::{Concern, Kind};

/// Changes that are kept.
const MOST: usize = 8192;
/// Bytes of keys and values that are kept.
const BYTES: usize = 16 * 1024 * 1024;

/// Between two changes: a revision of the store, and which of its changes was the last. What clients see as an event's id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    /// The store's revision.
    pub revision: u64,
    /// Rows of that revision before this place; 0: none of them.
    pub index: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.revision, self.index)
    }
}

/// A text is no position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is no id of an event")]
pub(crate) struct BadPosition;

impl FromStr for Position {
    type Err = BadPosition;

    fn from_str(text: &str) -> Result<Self, BadPosition> {
        let (revision, index) = text.split_once('.').ok_or(BadPosition)?;
        let revision = revision.parse().map_err(|_| BadPosition)?;
        Ok(Self { revision, index: index.parse().map_err(|_| BadPosition)? })
    }
}

/// One change of a key, as it comes from the store.
pub(crate) struct Arrived<T> {
    /// Of which key.
    pub key: Bytes,
    /// Bytes of key and value.
    pub weight: usize,
    /// What it is for pages.
    pub concern: Concern,
    /// The row, from its place; made only where it is kept.
    pub row: Box<dyn FnOnce(Position, Kind, Option<TenantName>) -> T + Send>,
}

struct Slot<T> {
    key: Bytes,
    weight: usize,
    row: Arc<T>,
}

/// The latest changes.
pub(crate) struct Ring<T> {
    rows: BTreeMap<Position, Slot<T>>,
    latest: HashMap<Bytes, Position>,
    /// When a kind has changed last, by whose thing it was.
    signals: BTreeMap<(Kind, Option<TenantName>), Position>,
    weight: usize,
    floor: Position,
    head: Position,
    revision: u64,
}

impl<T> Ring<T> {
    /// Nothing yet; all changes from revision `first` on will be pushed.
    pub(crate) fn new(first: u64) -> Self {
        let at = Position { revision: first, index: 0 };
        Self {
            rows: BTreeMap::new(),
            latest: HashMap::new(),
            signals: BTreeMap::new(),
            weight: 0,
            floor: at,
            head: at,
            revision: first.saturating_sub(1),
        }
    }

    /// Up to where changes are in it: behind all of a revision.
    pub(crate) fn head(&self) -> Position {
        self.head
    }

    /// The last revision of which all changes are in it, or were before it began.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Nothing more comes of revisions up to this one.
    pub(crate) fn advance(&mut self, revision: u64) {
        self.revision = self.revision.max(revision);
    }

    /// Whether all that came after a position is in it.
    pub(crate) fn has(&self, position: Position) -> bool {
        (self.floor..=self.head).contains(&position)
    }

    /// Takes in all changes of a revision; says whether they concern anybody.
    pub(crate) fn push(&mut self, revision: u64, arrived: impl IntoIterator<Item = Arrived<T>>) -> bool {
        let mut at = Position { revision, index: 0 };
        let mut signalled = Vec::new();
        for one in arrived {
            let Concern { row, signals, tenant } = one.concern;
            signalled.extend(signals.iter().map(|kind| (*kind, tenant.clone())));
            if let Some(kind) = row {
                at.index += 1;
                self.keep(at, one.key, one.weight, Arc::new((one.row)(at, kind, tenant)));
            }
        }
        let concerned = at.index > 0 || !signalled.is_empty();
        // Signals are behind all rows of their revision: who is cut off in between has not had them.
        at.index += 1;
        self.signals.extend(signalled.into_iter().map(|signal| (signal, at)));
        self.head = self.head.max(at);
        self.advance(revision);
        self.shrink();
        concerned
    }

    fn keep(&mut self, at: Position, key: Bytes, weight: usize, row: Arc<T>) {
        if let Some(before) = self.latest.insert(key.clone(), at)
            && let Some(slot) = self.rows.remove(&before)
        {
            self.weight -= slot.weight;
        }
        self.weight += weight;
        self.rows.insert(at, Slot { key, weight, row });
    }

    fn shrink(&mut self) {
        while self.rows.len() > MOST || self.weight > BYTES {
            let Some((at, slot)) = self.rows.pop_first() else { return };
            self.weight -= slot.weight;
            self.latest.remove(&slot.key);
            self.floor = at;
        }
    }

    /// Rows between a position and the head, of each thing the last one.
    pub(crate) fn after(&self, position: Position) -> impl Iterator<Item = &Arc<T>> {
        let range = (Bound::Excluded(position), Bound::Unbounded);
        self.rows.range(range).map(|(_, slot)| &slot.row)
    }

    /// Whether a kind has changed since, as far as somebody of a tenant may know; none: an administrator.
    pub(crate) fn changed(&self, kind: Kind, since: Position, only: Option<&TenantName>) -> bool {
        let of = |tenant: Option<TenantName>| self.signals.get(&(kind, tenant)).is_some_and(|at| *at > since);
        match only {
            Some(tenant) => of(None) || of(Some(tenant.clone())),
            None => self.signals.iter().any(|((of, _), at)| *of == kind && *at > since),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_leader::keys;
    use proptest::prelude::*;

    #[derive(Debug, PartialEq)]
    struct Row {
        at: Position,
        name: usize,
        value: u64,
    }

    fn arrived(name: usize, value: u64, weight: usize) -> Arrived<Row> {
        let key = Bytes::from(format!("{}nlp/j{name}", keys::JOBS));
        let concern = super::super::kind::concern(&key);
        Arrived { key, weight, concern, row: Box::new(move |at, _, _| Row { at, name, value }) }
    }

    #[test]
    fn positions_are_written_as_they_are_read() {
        let at = Position { revision: 12, index: 3 };
        assert_eq!((at.to_string().as_str(), "12.3".parse()), ("12.3", Ok(at)));
        for bad in ["", "12", "12.", "-1.0", "12.3.4", "12.99999999999", "x.1"] {
            assert_eq!(bad.parse::<Position>(), Err(BadPosition), "{bad}");
        }
    }

    #[test]
    fn what_is_too_much_is_left_out_from_its_begin_and_that_is_known() {
        let mut ring = Ring::new(1);
        let first = ring.head();
        for revision in 1..=3 {
            ring.push(revision, [arrived(usize::try_from(revision).unwrap(), revision, BYTES / 2)]);
        }
        assert!(!ring.has(first) && ring.has(Position { revision: 1, index: 1 }));
        assert!(!ring.has(Position { revision: 4, index: 0 }), "it is not there yet");
        assert_eq!(ring.after(Position { revision: 1, index: 1 }).count(), 2);
        // One thing that changes again and again takes no more than one place.
        let mut ring = Ring::new(1);
        let first = ring.head();
        for revision in 1..=100 {
            ring.push(revision, [arrived(0, revision, BYTES / 2)]);
        }
        assert!(ring.has(first));
        assert_eq!(ring.after(first).map(|row| row.value).collect::<Vec<_>>(), [100]);
    }

    #[test]
    fn another_tenant_s_change_is_nobody_else_s_signal() {
        let mut ring = Ring::new(1);
        let since = ring.head();
        ring.push(1, [arrived(0, 0, 1)]);
        let [nlp, vision] = ["nlp", "vision"].map(|name| TenantName::new(name).unwrap());
        assert!(ring.changed(Kind::Tenants, since, Some(&nlp)) && ring.changed(Kind::Tenants, since, None));
        assert!(!ring.changed(Kind::Tenants, since, Some(&vision)));
        assert!(!ring.changed(Kind::Rails, since, None));
        assert!(!ring.changed(Kind::Tenants, ring.head(), None));
    }

    proptest! {
        /// A reader of any pace, who leaves and comes back at any event that it has seen, has all last values, and each change at most once.
        #[test]
        fn nothing_is_lost_and_nothing_comes_twice(
            batches in proptest::collection::vec(proptest::collection::vec(0usize..6, 0..4), 1..40),
            reads in proptest::collection::vec((any::<bool>(), 0usize..4), 1..40),
        ) {
            let mut ring = Ring::new(1);
            let mut truth = BTreeMap::new();
            let (mut seen, mut at) = (BTreeMap::new(), ring.head());
            let mut reads = reads.into_iter().cycle();
            let mut value = 0;
            for (revision, names) in (1..).zip(batches) {
                let mut names = names;
                // A transaction writes no key twice.
                names.sort_unstable();
                names.dedup();
                ring.push(revision, names.iter().map(|name| {
                    value += 1;
                    truth.insert(*name, value);
                    arrived(*name, value, 10)
                }));
                let (does, cut) = reads.next().unwrap();
                if !does { continue }
                let rows: Vec<_> = ring.after(at).cloned().collect();
                let all = cut >= rows.len();
                for row in rows.iter().take(if all { rows.len() } else { cut }) {
                    prop_assert!(row.at > at);
                    at = row.at;
                    prop_assert!(seen.insert(row.name, row.value).is_none_or(|before| before < row.value));
                }
                if all { at = ring.head() }
            }
            for row in ring.after(at) {
                prop_assert!(row.at > at);
                seen.insert(row.name, row.value);
            }
            prop_assert_eq!(seen, truth);
        }
    }
}
