//! Which sets of rails are worth an attempt where any so many will do.

use controller_topology::RailSet;
use proto_random::{STEP, mix};

/// Sets of rails that are thought of for one gang at most; all choices of 8 from 14 rails.
const SETS_MAX: usize = 4096;

/// Of so many rails all choices of any number are at most [`SETS_MAX`].
const FEW_RAILS: u32 = 14;

/// Of rails below this one all sets are counted at once, in a table.
const TABLE_RAILS: u32 = 9;

/// Sets that are tried for one gang at most.
const TRIED_MAX: usize = 64;

/// Sets of rails with what they stand for; the vectors are used again.
#[derive(Debug, Default)]
pub(crate) struct Masks {
    /// What nodes offer, with how many do.
    masks: Vec<(RailSet, usize)>,
    sets: Vec<(RailSet, usize)>,
    digests: Vec<(u64, RailSet, usize)>,
    /// Per set of rails, as a bitmap, a digest of who offers it and how many do.
    table: Vec<(u64, usize)>,
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
        if all.iter().all(|rail| rail < TABLE_RAILS) {
            self.count_in_table();
        } else {
            self.count_each();
        }
        self.digests.sort_unstable();
        self.digests.dedup_by_key(|(digest, ..)| *digest);
        self.sets.clear();
        self.sets.extend(self.digests.iter().map(|(_, set, offers)| (*set, *offers)));
        // Those that most nodes offer are certain to be among those that are tried.
        self.sets.sort_unstable_by_key(|(set, offers)| (std::cmp::Reverse(*offers), *set));
        self.sets.truncate(TRIED_MAX);
    }

    /// Looks at all that is offered for each set.
    fn count_each(&mut self) {
        for (set, _) in &self.sets {
            let (mut digest, mut offers) = (0_u64, 0);
            for (at, (mask, nodes)) in self.masks.iter().enumerate() {
                if mask.covers(*set) {
                    digest = digest.wrapping_add(salt(at));
                    offers += nodes;
                }
            }
            if offers > 0 {
                self.digests.push((digest, *set, offers));
            }
        }
    }

    /// The same for few rails: what is offered goes down to all of its subsets, one rail after the other.
    fn count_in_table(&mut self) {
        self.table.clear();
        self.table.resize(1 << TABLE_RAILS, (0, 0));
        for (at, (mask, nodes)) in self.masks.iter().enumerate() {
            self.table[place(*mask)] = (salt(at), *nodes);
        }
        for rail in 0..TABLE_RAILS {
            for pair in self.table.chunks_exact_mut(2 << rail) {
                let (without, with) = pair.split_at_mut(1 << rail);
                for (without, with) in without.iter_mut().zip(with) {
                    *without = (without.0.wrapping_add(with.0), without.1 + with.1);
                }
            }
        }
        for (set, _) in &self.sets {
            let (digest, offers) = self.table[place(*set)];
            if offers > 0 {
                self.digests.push((digest, *set, offers));
            }
        }
    }

    /// The sets, the most common first.
    pub(crate) fn sets(&self) -> &[(RailSet, usize)] {
        &self.sets
    }
}

/// Tells apart what is offered: sums of different ones differ, so each is mixed well.
fn salt(at: usize) -> u64 {
    mix((at as u64).wrapping_mul(STEP))
}

fn place(set: RailSet) -> usize {
    set.iter().fold(0, |bits, rail| bits | 1 << rail)
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

#[cfg(test)]
mod tests {
    use super::{Masks, RailSet};

    /// What many kinds of nodes offer: no set is taken for another that different kinds offer.
    #[test]
    fn no_set_is_taken_for_another() {
        let set = |rails: &[u32]| rails.iter().copied().collect::<RailSet>();
        for kinds in 2..40_u32 {
            let offers = (0..kinds).map(|kind| {
                let own = [2 + kind % 4, 6 + kind / 4 % 4, 10 + kind / 16];
                let pair = u32::from(kind % 3 == 1 || kind % 3 == 2 && kind % 2 == 0);
                (set(&[&own[..], &[pair][..]].concat()), 1)
            });
            let mut masks = Masks::default();
            masks.candidates(1, offers.clone());
            let who = |rail: u32| offers.clone().map(|(mask, _)| mask.has(rail)).collect::<Vec<bool>>();
            let different: std::collections::BTreeSet<Vec<bool>> =
                (0..13).map(who).filter(|who| who.contains(&true)).collect();
            assert_eq!(masks.sets().len(), different.len(), "{kinds}");
        }
    }

    #[test]
    fn the_table_counts_as_one_by_one() {
        let set = |bits: u32| (0..9).filter(|rail| bits >> rail & 1 == 1).collect::<RailSet>();
        let mut masks = Masks::default();
        for count in 1..=8 {
            masks.candidates(count, (1..60).map(|at| (set(at * 7919 % 512), at as usize % 5)));
            masks.sets.clear();
            masks.sets.extend((0..512).map(|bits| (set(bits), 0)));
            let mut counted = [Vec::new(), Vec::new()];
            for (each, counted) in [true, false].into_iter().zip(&mut counted) {
                masks.digests.clear();
                if each {
                    masks.count_each()
                } else {
                    masks.count_in_table()
                }
                counted.clone_from(&masks.digests);
            }
            assert!(!counted[0].is_empty());
            assert_eq!(counted[0], counted[1], "{count}");
        }
    }
}
