//! Rings over several pods that take whole groups: as few blocks as can be.

use super::{
    fit::{Fitter, SWAPPED},
    request::{FitRequest, whole},
};
use crate::{capacity_index::CapacityIndex, view::View};

/// Blocks of a ring that are thought of one by one at most.
const RING: usize = 63;

impl Fitter {
    /// A ring over pods that take whole units: as few blocks as can be, found by how many nodes so many blocks take.
    pub(super) fn lay_ring(
        &mut self,
        capacity_index: &CapacityIndex,
        view: &View,
        set: &[u32],
        ask: &FitRequest,
    ) -> bool {
        // Per pod and number of blocks so far the most nodes, and how many of the blocks are the pod's.
        let mut most = [[(0_u32, 0_u8); RING + 1]; SWAPPED + 1];
        for (at, pod) in set.iter().enumerate() {
            self.gather(capacity_index, view, &[*pod]);
            let mut sum = 0;
            let (before, now) = most.split_at_mut(at + 1);
            let (before, now) = (&before[at], &mut now[0]);
            for (used, (count, _)) in (1..).zip(self.parts.iter().take(RING)) {
                sum += whole(*count, ask.leaf_unit);
                let here = whole(sum, ask.pod_unit);
                for total in usize::from(used)..=RING {
                    let first = before[total - usize::from(used)].0;
                    if (first > 0 || at == 0 && total == usize::from(used))
                        && here > 0
                        && first + here > now[total].0
                    {
                        now[total] = (first + here, used);
                    }
                }
            }
        }
        let last = &most[set.len()];
        let Some(mut total) = (1..=RING).find(|total| last[*total].0 >= ask.nodes) else { return false };
        let mut spare = last[total].0 - ask.nodes;
        for at in (1..=set.len()).rev() {
            let (nodes, used) = most[at][total];
            total -= usize::from(used);
            let here = nodes - most[at - 1][total].0;
            // What is too much is left out where it is, but for one unit: the pod is needed.
            let less = whole(spare.min(here - ask.pod_unit), ask.pod_unit);
            spare -= less;
            if !self.pour(capacity_index, view, &set[at - 1..at], here - less, ask) {
                return false;
            }
        }
        spare == 0
    }
}
