//! A queue in order of coming, in which all jobs of a class can be passed over at once.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use proto_model::Timestamp;

/// When a job counts as come, and how many came before it: its place in the queue.
type QueuePosition = (Timestamp, u64);

/// Waiting jobs by class; a class's jobs ask alike.
#[derive(Debug, Clone)]
pub(super) struct Queue<C: Ord> {
    classes: BTreeMap<C, VecDeque<(QueuePosition, usize)>>,
    next: u64,
    len: usize,
}

impl<C: Ord> Default for Queue<C> {
    fn default() -> Self {
        Self { classes: BTreeMap::new(), next: 0, len: 0 }
    }
}

/// What becomes of a job when it is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// The job starts and leaves the queue.
    Taken,
    /// It stays, the next one of its class is looked at.
    Stays,
    /// It stays, and all of its class behind it.
    ClassStays,
}

impl<C: Ord + Clone> Queue<C> {
    pub(super) fn push(&mut self, class: C, time: Timestamp, job: usize) {
        self.classes.entry(class).or_default().push_back(((time, self.next), job));
        self.next += 1;
        self.len += 1;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Looks at the jobs in order.
    pub(super) fn check(&mut self, mut each: impl FnMut(&C, usize) -> Decision) {
        let keys: Vec<C> = self.classes.keys().cloned().collect();
        let mut at = vec![0_usize; keys.len()];
        let mut heads: BinaryHeap<Reverse<(QueuePosition, usize)>> = keys
            .iter()
            .enumerate()
            .filter_map(|(class, key)| Some(Reverse((self.classes[key].front()?.0, class))))
            .collect();
        while let Some(Reverse((_, class))) = heads.pop() {
            let Some(jobs) = self.classes.get_mut(&keys[class]) else { continue };
            let Some(&(_, job)) = jobs.get(at[class]) else { continue };
            match each(&keys[class], job) {
                Decision::Taken => {
                    jobs.remove(at[class]);
                    self.len -= 1;
                }
                Decision::Stays => at[class] += 1,
                Decision::ClassStays => continue,
            }
            if let Some((next, _)) = jobs.get(at[class]) {
                heads.push(Reverse((*next, class)));
            }
        }
        self.classes.retain(|_, jobs| !jobs.is_empty());
    }
}
