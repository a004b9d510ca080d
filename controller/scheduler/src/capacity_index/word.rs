//! Sixty-four nodes side by side: one bit each in every plane, so that one comparison answers for all of them.

use controller_topology::RailSet;

use crate::host::Host;

/// Binary digits of a count of free GPUs: enough for 64.
const DIGITS: usize = 7;

/// What 64 nodes can give at the moment; a node is the same bit in every plane. Rails are kept beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct NodeBlock {
    /// Takes new jobs and is not held as a whole.
    pub(crate) open: u64,
    /// Nodes on which no job holds anything.
    pub(crate) idle: u64,
    /// The count of free GPUs, digit by digit.
    free: [u64; DIGITS],
}

/// What one node can give at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Value {
    pub(crate) open: bool,
    pub(crate) idle: bool,
    pub(crate) free: u32,
    pub(crate) rails: RailSet,
    /// CPUs and memory that jobs hold: in no plane, but a change all the same.
    pub(crate) host: Host,
}

fn spread(yes: bool) -> u64 {
    if yes { u64::MAX } else { 0 }
}

fn put(plane: &mut u64, mask: u64, yes: bool) {
    *plane = *plane & !mask | spread(yes) & mask;
}

/// The nodes whose number, one digit per plane, is at least `count`.
pub(crate) fn at_least(digits: &[u64; DIGITS], count: u32) -> u64 {
    if count == 0 {
        return u64::MAX;
    }
    if count >> DIGITS != 0 {
        return 0;
    }
    // Those that were more at a higher digit may stay among the equal ones: they are in both at the end.
    let (mut more, mut equal) = (0, u64::MAX);
    for digit in (0..DIGITS).rev() {
        if count >> digit & 1 == 1 {
            equal &= digits[digit];
        } else {
            more |= equal & digits[digit];
        }
    }
    more | equal
}

impl NodeBlock {
    /// Nodes with at least so many free GPUs.
    pub(crate) fn at_least(&self, count: u32) -> u64 {
        at_least(&self.free, count)
    }

    /// Nodes with exactly so many free GPUs.
    pub(crate) fn exactly(&self, count: u32) -> u64 {
        if count >> DIGITS != 0 {
            return 0;
        }
        (0..DIGITS)
            .fold(u64::MAX, |equal, digit| equal & !(self.free[digit] ^ spread(count >> digit & 1 == 1)))
    }

    /// Whether a node takes jobs and has a free GPU.
    pub(crate) fn offers_any(&self) -> bool {
        self.free.iter().fold(0, |any, digit| any | digit) & self.open != 0
    }

    /// Gives the nodes of `mask` a new value; their rails are set by [`set_rails`].
    pub(crate) fn set(&mut self, mask: u64, value: Value) {
        put(&mut self.open, mask, value.open);
        put(&mut self.idle, mask, value.idle);
        for digit in 0..DIGITS {
            put(&mut self.free[digit], mask, value.free >> digit & 1 == 1);
        }
    }
}

/// Gives the nodes of `mask` their free rails: `planes` has one word per rail.
pub(crate) fn set_rails(planes: &mut [u64], mask: u64, rails: RailSet) {
    for (rail, plane) in (0..).zip(planes) {
        put(plane, mask, rails.has(rail));
    }
}

#[cfg(test)]
mod tests {
    use super::{NodeBlock, Value};

    #[test]
    fn counts_compare_for_all_nodes_at_once() {
        let mut word = NodeBlock::default();
        for node in 0..64 {
            word.set(1 << node, Value { free: node + 1, ..Value::default() });
        }
        for count in 0..130 {
            let right = (0..64).filter(|node| node + 1 >= count).fold(0_u64, |set, node| set | 1 << node);
            assert_eq!(word.at_least(count), right, "{count}");
            let right = (0..64).filter(|node| node + 1 == count).fold(0_u64, |set, node| set | 1 << node);
            assert_eq!(word.exactly(count), right, "{count}");
        }
    }
}
