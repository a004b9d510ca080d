//! What decides which jobs take nodes whole, as the plan counts: those that leave nobody room beside them, and those that ask
//! for more of a node's CPUs or memory than come with their GPUs. Of the others counting GPUs says enough: where GPUs are free,
//! so are the CPUs and the memory that come with them, as far as jobs hold no more than that.

use controller_scheduler::{Host, Need};
use proto_model::Within;

/// What the nodes are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Measure {
    /// GPUs of the largest node; at least 1.
    pub(crate) gpus: u32,
    /// Rails of the fabric.
    pub(crate) rails: u32,
    /// CPUs and memory that come with each GPU where they are fewest, of nodes that report theirs.
    pub(crate) share: Host,
    /// Somebody is on a node of which all GPUs are free.
    pub(crate) unbroken: bool,
}

impl Measure {
    /// Whether nobody fits beside a job on its nodes.
    pub(crate) fn is_alone(&self, need: &Need) -> bool {
        need.exclusive
            || need.least_gpus() >= self.gpus
            || (self.rails > 0 && need.rail_count() >= self.rails)
            || need.gpus == 0 && need.nodes > 1
    }

    /// Whether the plan counts whole nodes for a job. It does for all that are not alike.
    pub(crate) fn is_whole(&self, need: &Need) -> bool {
        self.is_alone(need) || !need.components.is_empty() || self.gpus_of(need) > need.gpus
    }

    /// GPUs that a job takes with so many nodes, or that nobody can use beside it.
    pub(crate) fn gpus_in_all(&self, need: &Need, nodes: u32) -> u32 {
        if need.components.is_empty() {
            return nodes.saturating_mul(if self.is_alone(need) { self.gpus } else { self.gpus_of(need) });
        }
        let parts = (0..need.components.len()).map(|at| need.of_components(|other| other == at));
        parts.map(|part| self.gpus_in_all(&part, part.nodes)).fold(0, u32::saturating_add)
    }

    /// GPUs that a job takes of each node, or that nobody can use beside it; as many as the largest node has at most.
    pub(crate) fn gpus_of(&self, need: &Need) -> u32 {
        let part = |asked: u64, share: u64| match (asked, share) {
            (0, _) => 0,
            (_, 0) => u64::from(self.gpus),
            (asked, share) => asked.div_ceil(share),
        };
        let cpus = part(need.host.cpus.into(), self.share.cpus.into());
        let memory = part(need.host.memory, self.share.memory);
        let host = u32::try_from(cpus.max(memory)).unwrap_or(u32::MAX);
        need.gpus.max(host.min(self.gpus))
    }

    /// Whether a job may fit on nodes that others are on although the plan counts idle ones for it: where it takes nodes whole
    /// for their rails, CPUs or memory alone (those who are there may have few), must be in one place (of places the plan knows
    /// whole nodes), or has no rails (where all rails are taken the plan counts nothing as free). A job that takes all GPUs does
    /// only where somebody is on a node without any.
    pub(crate) fn may_share_nodes(&self, need: &Need) -> bool {
        let idle_only = need.exclusive || need.least_gpus() >= self.gpus && !self.unbroken;
        !idle_only && (self.is_whole(need) || need.within != Within::Fabric || need.rail_count() == 0)
    }
}

#[cfg(test)]
mod tests {
    use controller_scheduler::RailNeed;

    use super::*;

    #[test]
    fn who_asks_for_more_than_comes_with_its_gpus_takes_nodes_whole() {
        let share = Host { cpus: 8, memory: 100 };
        let measure = Measure { gpus: 4, rails: 4, share, unbroken: false };
        let asks = |gpus, cpus, memory| {
            let need = Need::plain(1, gpus, RailNeed::Any(1));
            Need { host: Host { cpus, memory }, ..need }
        };
        for (gpus, cpus, memory, of, whole) in [
            (1, 0, 0, 1, false),
            (1, 8, 100, 1, false),
            (1, 9, 0, 2, true),
            (1, 0, 101, 2, true),
            (2, 16, 0, 2, false),
            (0, 1, 0, 1, true),
            (0, 0, 0, 0, false),
            (1, 1000, 0, 4, true),
            (4, 0, 0, 4, true),
        ] {
            let need = asks(gpus, cpus, memory);
            assert_eq!((measure.gpus_of(&need), measure.is_whole(&need)), (of, whole), "{need:?}");
        }
        // Where nobody tells, whoever asks for some takes its nodes whole.
        let silent = Measure { share: Host::NONE, ..measure };
        assert!(silent.is_whole(&asks(1, 1, 0)) && !silent.is_whole(&asks(1, 0, 0)));
        // It may find room on others' nodes all the same; whoever takes all GPUs only where somebody has none.
        assert!(measure.may_share_nodes(&asks(1, 9, 0)) && !measure.may_share_nodes(&asks(4, 0, 0)));
        assert!(Measure { unbroken: true, ..measure }.may_share_nodes(&asks(4, 0, 0)));
    }
}
