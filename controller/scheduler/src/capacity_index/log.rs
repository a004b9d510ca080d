//! Which words changed lately, so that what was derived from them is brought up to date cheaply.

/// Changes that are remembered; who is further behind looks at everything.
const KEPT: usize = 8192;

/// The last changes, and a running digest of all: who stands at a count with the same digest has seen the same history,
/// whichever copy it was.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    total: u64,
    digest: u64,
    /// A ring, once it is full: where a count stands follows from `first`.
    kept: Vec<(u32, u64)>,
    /// The count of the first change that was kept since the last cut.
    first: u64,
}

/// A place in the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mark {
    total: u64,
    digest: u64,
}

/// Equality does not distinguish two histories: what they led to is compared.
impl PartialEq for Log {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Log {}

impl Log {
    pub(crate) fn new(salt: u64) -> Self {
        Self { total: 1, digest: mix(0x9e37_79b9_7f4a_7c15, salt), kept: Vec::new(), first: 2 }
    }

    /// A word has changed, to what `content` is a digest of.
    pub(crate) fn push(&mut self, word: u32, content: u64) {
        self.total += 1;
        self.digest = mix(self.digest, content ^ u64::from(word) << 40);
        if self.kept.len() < KEPT {
            self.kept.push((word, self.digest));
        } else {
            let place = self.place(self.total);
            self.kept[place] = (word, self.digest);
        }
    }

    /// Nothing derived before is of use.
    pub(crate) fn cut(&mut self, content: u64) {
        self.total += KEPT as u64 + 1;
        self.digest = mix(self.digest, content);
        self.kept.clear();
        self.first = self.total + 1;
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { total: self.total, digest: self.digest }
    }

    /// The words that have changed since `mark`, some perhaps twice; `None` if that is not known.
    pub(crate) fn since(&self, mark: Mark) -> Option<impl ExactSizeIterator<Item = u32> + '_> {
        let known = if mark.total == self.total {
            mark.digest == self.digest
        } else {
            mark.total < self.total
                && self.total - mark.total < self.kept.len() as u64
                && self.kept[self.place(mark.total)].1 == mark.digest
        };
        let more = if known { (self.total - mark.total) as usize } else { 0 };
        known.then(|| (1..more + 1).map(move |ahead| self.kept[self.place(mark.total + ahead as u64)].0))
    }

    /// Where a count stands; it must be one of those that are kept.
    fn place(&self, count: u64) -> usize {
        ((count - self.first) % KEPT as u64) as usize
    }
}

/// One round of a multiplicative hash.
pub(crate) fn mix(state: u64, value: u64) -> u64 {
    let mixed = (state ^ value).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ mixed >> 32
}

#[cfg(test)]
mod tests {
    use super::{KEPT, Log};

    #[test]
    fn what_changed_is_known_to_who_saw_the_same_history() {
        let mut log = Log::new(1);
        let start = log.mark();
        assert_eq!(log.since(start).unwrap().count(), 0);
        log.push(7, 1);
        let seven = log.mark();
        log.push(9, 2);
        assert_eq!(log.since(seven).unwrap().collect::<Vec<_>>(), [9]);
        // Another copy that went another way.
        let mut other = log.clone();
        log.push(3, 4);
        other.push(3, 5);
        let (mine, theirs) = (log.mark(), other.mark());
        assert_eq!(log.since(seven).unwrap().collect::<Vec<_>>(), [9, 3]);
        assert!(log.since(theirs).is_none() && other.since(mine).is_none());
        for at in 0..KEPT as u64 {
            log.push(1, at);
        }
        assert!(log.since(mine).is_none());
        let late = log.mark();
        log.cut(3);
        assert!(log.since(late).is_none());
        log.push(2, 2);
        assert!(log.since(late).is_none());
    }
}
