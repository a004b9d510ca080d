//! Which jobs would have a place if no job ran: kept between passes, and a function of the nodes alone.

use std::collections::BTreeMap;

use controller_scheduler::{Choice, Need, RailNeed};
use controller_topology::NodeIx;
use proto_model::JobUid;

use crate::ground::Ground;

/// Gangs that are remembered at most.
const NEEDS: usize = 1024;

/// A node with its place.
type Spot = (NodeIx, u32, u32);

/// What is known of an empty cluster.
#[derive(Debug, Clone, Default)]
pub(crate) struct Empty {
    /// The version of the nodes ([`Ground::version`]) for which this is known; when that changes, it is found
    /// anew.
    version: (u64, u64),
    of: BTreeMap<JobUid, bool>,
    /// By what is asked, nodes that would do; empty: there are none.
    places: BTreeMap<Need, Vec<Spot>>,
}

impl Empty {
    /// Forgets what may be otherwise now. A gang whose nodes are as they were is still one.
    pub(crate) fn update(&mut self, ground: &Ground) {
        if self.version == ground.version && self.places.len() <= NEEDS {
            return;
        }
        self.of.clear();
        if self.version.0 != ground.version.0 || self.places.len() > NEEDS {
            self.places.clear();
        }
        self.version = ground.version;
        self.places.retain(|need, spots| {
            let RailNeed::Exactly(rails) = need.rails else { return false };
            let same = |(position, (node, pod, block)): (usize, &Spot)| {
                ground.plots.get(node.index()).is_some_and(|plot| {
                    (plot.pod, plot.block) == (*pod, *block) && plot.serves(need, position, rails)
                })
            };
            !spots.is_empty() && spots.iter().enumerate().all(same)
        });
    }

    /// What is known of a job.
    pub(crate) fn known(&self, uid: JobUid) -> Option<bool> {
        self.of.get(&uid).copied()
    }

    /// Looks for a gang, unless one was found for a job that asks alike.
    pub(crate) fn find(
        &mut self,
        uid: JobUid,
        need: Need,
        ground: &Ground,
        choose: impl FnOnce(&Need) -> Option<Choice>,
    ) -> bool {
        let spots = self.places.entry(need).or_insert_with_key(|need| {
            let choice = choose(need).unwrap_or_default();
            let nodes = choice.nodes.iter().chain(&choice.spares).map(|pick| pick.node);
            let spot = |node: NodeIx| ground.plots.get(node.index()).map(|plot| (node, plot.pod, plot.block));
            nodes.filter_map(spot).collect()
        });
        let fits = !spots.is_empty();
        self.of.insert(uid, fits);
        fits
    }

    /// A job has gone.
    pub(crate) fn forget(&mut self, uid: JobUid) {
        self.of.remove(&uid);
    }
}
