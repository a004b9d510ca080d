//! Which sets of rails are worth a try where any so many will do.

use controller_topology::RailSet;

/// Sets of rails that are thought of for one gang at most; all choices of 8 from 14 rails.
const SETS_MAX: usize = 4096;

/// Of so many rails all choices of any number are at most [`SETS_MAX`].
const FEW_RAILS: u32 = 14;

/// Sets that are tried for one gang at most.
const TRIED_MAX: usize = 64;

/// Sets of rails with what they stand for; the vectors are used again.
#[derive(Debug, Default)]
pub(crate) struct Masks {
    /// What nodes offer, with how many do.
    masks: Vec<(RailSet, usize)>,
    sets: Vec<(RailSet, usize)>,
    digests: Vec<(u64, RailSet, usize)>,
}

impl Masks {
    /// Finds the sets of `count` rails that differ in which nodes offer them, with how many do: of those that the same
    /// nodes offer only the lowest.
    pub(crate) fn candidates(&mut self, count: u32, offers: impl Iterator<Item = (RailSet, usize)>) {
        self.masks.clear();
        self.masks.extend(offers.filter(|(mask, nodes)| *nodes > 0 && mask.len() >= count));
        self.masks.sort_unstable();
        self.masks.dedup_by(|(mask, more), (kept, nodes)| {
            let same = mask == kept;
            *nodes += if same { *more } else { 0 };
            same
        });
        self.sets.clear();
        let all = self.masks.iter().fold(RailSet::EMPTY, |all, (mask, _)| all.or(*mask));
        if all.len() <= FEW_RAILS {
            // Each set once; those that no node offers are found out below.
            subsets(all, count, RailSet::EMPTY, &mut self.sets);
        } else {
            for at in 0..self.masks.len() {
                let rails = self.masks[at].0;
                subsets(rails, count, RailSet::EMPTY, &mut self.sets);
            }
            self.sets.sort_unstable();
            self.sets.dedup();
        }
        self.digests.clear();
        for (set, _) in &self.sets {
            let (mut digest, mut offers) = (0_u64, 0);
            for (at, (mask, nodes)) in self.masks.iter().enumerate() {
                if mask.covers(*set) {
                    digest = digest
                        .wrapping_add((at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17));
                    offers += nodes;
                }
            }
            if offers > 0 {
                self.digests.push((digest, *set, offers));
            }
        }
        self.digests.sort_unstable();
        self.digests.dedup_by_key(|(digest, ..)| *digest);
        self.sets.clear();
        self.sets.extend(self.digests.iter().map(|(_, set, offers)| (*set, *offers)));
        // Those that most nodes offer are certain to be among those that are tried.
        self.sets.sort_unstable_by_key(|(set, offers)| (std::cmp::Reverse(*offers), *set));
        self.sets.truncate(TRIED_MAX);
    }

    /// The sets, the most common first.
    pub(crate) fn sets(&self) -> &[(RailSet, usize)] {
        &self.sets
    }
}

fn subsets(rails: RailSet, count: u32, so_far: RailSet, sets: &mut Vec<(RailSet, usize)>) {
    if count == 0 {
        sets.push((so_far, 0));
        return;
    }
    let mut rest = rails;
    while rest.len() >= count {
        if sets.len() >= SETS_MAX {
            return;
        }
        let Some(rail) = rest.iter().next() else { return };
        rest = rest.without(RailSet::EMPTY.with(rail));
        subsets(rest, count - 1, so_far.with(rail), sets);
    }
}
