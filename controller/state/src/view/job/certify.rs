//! Whether a gang is certified before it starts, what each node is to measure, and what the reports show.

use std::time::Duration;

use controller_certify::{Budget, Certificate, Gang, Limits, NodeReport, Plan, judge, judge_again, plan};
use proto_model::{Certification, Certify, Placement};

use crate::{
    config::Config,
    rows::{
        job::{JobEntry, gang, gang_size},
        records::Attempt,
    },
    tables::state::State,
};

/// For reports to come in after all may be measured; a supervisor tells after two seconds of these that its engine says nothing.
const SLACK: Duration = Duration::from_secs(4);

/// What a job is to pass: what it asks for itself, if that is more than what is asked of all.
pub fn policy(entry: &JobEntry, config: &Config) -> Certification {
    entry.job.spec.certification.max(config.certification)
}

/// Other pairs in each attempt of each job, the same ones for each leader and in each series.
pub fn certification_plan(entry: &JobEntry, attempt: &Attempt, series: u32) -> Option<Plan> {
    let placement = entry.job.status.placement.as_ref()?;
    let gang = Gang::new(gang_size(entry), placement.rails.iter().copied());
    let uid = attempt.uid.to_string();
    let mix = |seed: u64, byte: u8| (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let seed = uid.bytes().fold(u64::from(attempt.attempt), mix);
    Some(plan(&gang, seed, Budget::default()).series(series))
}

/// What the reports of a gang come to.
pub enum Judged {
    /// More are waited for.
    Open,
    /// All is to be measured a second time.
    Again,
    /// All is measured, or no more is waited for: the verdict.
    Over(Box<Certificate>),
}

impl State {
    /// Whether the ranks of a new attempt are to wait for a verdict: there are two nodes and a rail at least.
    pub fn certifies(&self, entry: &JobEntry) -> bool {
        let rails = entry.job.status.placement.as_ref().is_some_and(|place| !place.rails.is_empty());
        policy(entry, &self.config) != Certification::Off && gang_size(entry) > 1 && rails
    }

    /// What the node at this position is to measure; nothing once its ranks may start.
    pub fn measures(&self, entry: &JobEntry, position: u32) -> Option<Certify> {
        let attempt = entry.attempt.as_ref().filter(|attempt| !attempt.released)?;
        let series = u32::from(attempt.again);
        let plan = certification_plan(entry, attempt, series)?;
        Some(Certify { series, turns: plan.turns(position), limit: plan.limit() })
    }

    /// How long reports are waited for.
    pub fn certify_limit(&self, entry: &JobEntry) -> Duration {
        let attempt = entry.attempt.as_ref();
        let plan = attempt.and_then(|attempt| certification_plan(entry, attempt, attempt.again.into()));
        plan.map_or(Duration::ZERO, |plan| plan.limit() + SLACK)
    }

    /// The gang with its names, its leaves, and the addresses that its engines are told of each other.
    fn gang_of(&self, placement: &Placement, attempt: &Attempt) -> Gang {
        let topology = self.index.snapshot.topology();
        let leaves = |place: &proto_model::NodePlace| {
            let server = topology.index(&place.node).and_then(|ix| topology.server(ix));
            let leaf = |rail: &u32| {
                let leaf = server?.ports.get(*rail as usize)?.as_ref()?.leaf?;
                u32::try_from(leaf.index()).ok()
            };
            placement.rails.iter().map(leaf).collect()
        };
        let addresses = |place: &proto_model::NodePlace| {
            let peer = attempt.peers.iter().find(|peer| peer.node == place.node);
            let address = |rail: &u32| {
                let mut endpoints = peer?.endpoints.iter();
                Some(endpoints.find(|endpoint| endpoint.rail == *rail)?.address.ip())
            };
            placement.rails.iter().map(address).collect()
        };
        let nodes = u32::try_from(placement.nodes.len()).unwrap_or(u32::MAX);
        Gang {
            addresses: placement.nodes.iter().map(addresses).collect(),
            leaves: placement.nodes.iter().map(leaves).collect(),
            names: placement.nodes.iter().map(|place| place.node.clone()).collect(),
            ..Gang::new(nodes, placement.rails.iter().copied())
        }
    }

    /// What the reports show, or, if no more can be waited for (`late`), what those that have come show.
    pub fn judged(&self, entry: &JobEntry, late: bool) -> Judged {
        let (Some(placement), Some(attempt)) = (&entry.job.status.placement, &entry.attempt) else {
            return Judged::Open;
        };
        let view = |position: u32| self.base.views.get(&(entry.job.uid, position))?.measured.as_ref();
        let reported: Vec<_> = gang(entry).map(|(position, _)| (position, view(position))).collect();
        let series = u32::from(attempt.again);
        let all =
            reported.iter().all(|(_, measured)| measured.is_some_and(|reported| reported.series >= series));
        if !all && !late {
            return Judged::Open;
        }
        let reports: Vec<NodeReport> = reported
            .iter()
            .filter_map(|(node, measured)| {
                let measured = (*measured)?;
                // Who could not measure a second time has measured once.
                let unable = measured.series == 0 && !measured.unable.is_empty();
                let (pairs, ports) = (measured.pairs.clone(), measured.ports.clone());
                Some(NodeReport { node: *node, pairs, ports, unable })
            })
            .collect();
        let (gang, limits) = (self.gang_of(placement, attempt), Limits::default());
        let plan = certification_plan(entry, attempt, 0).unwrap_or_default();
        let first = judge(&gang, &plan, &reports, &limits);
        if !attempt.again {
            let again = all && first.is_doubtful();
            return if again { Judged::Again } else { Judged::Over(Box::new(first)) };
        }
        let able =
            reported.iter().all(|(_, measured)| measured.is_some_and(|reported| reported.unable.is_empty()));
        // Where the second series lacks somebody, the first one stands.
        Judged::Over(Box::new(match all && able {
            true => judge_again(&gang, &plan, &reports, &limits, &first),
            false => first,
        }))
    }
}
