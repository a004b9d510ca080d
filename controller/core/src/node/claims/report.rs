//! What a node reports of its part of an attempt: its own is taken, the rest is left out.

use std::{collections::BTreeSet, net::IpAddr};

use controller_state::{JobEntry, gang};
use proto_model::{
    Measured, NicPlace, NodeCause, NodeName, NodePlace, Observation, Placement, RailEndpoint, Reason,
    ReasonCode, Speaker,
};

use crate::node::claims::untruth::Untruth;

/// What of a report counts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Admitted {
    /// What concerns the node itself.
    pub(crate) seen: Observation,
    /// What cannot be true.
    pub(crate) untruths: Vec<Untruth>,
    /// What was left out because it is beside the point.
    pub(crate) ignored: Vec<&'static str>,
}

/// A node's part of a gang.
struct Part<'a> {
    entry: &'a JobEntry,
    node: &'a NodeName,
    position: u32,
    /// Its ranks.
    first: u32,
    ranks: u32,
}

/// Takes a report of the node at this position of the job's gang apart. A function of its arguments.
pub(crate) fn admit(entry: &JobEntry, position: u32, node: &NodeName, seen: Observation) -> Admitted {
    let (first, ranks) = entry.job.spec.ranks_at(position);
    let part = Part { entry, node, position, first, ranks };
    let mut admitted = Admitted { seen, untruths: Vec::new(), ignored: Vec::new() };
    part.cause(&mut admitted);
    part.exits(&mut admitted);
    part.endpoints(&mut admitted);
    part.measured(&mut admitted);
    part.rails(&mut admitted);
    if position != 0 {
        // Rank 0 is not there.
        if admitted.seen.result.take().is_some() {
            admitted.ignored.push("result");
        }
        if !std::mem::take(&mut admitted.seen.choices).is_empty() {
            admitted.ignored.push("choices");
        }
    }
    admitted
}

impl Part<'_> {
    fn placement(&self) -> Option<&Placement> {
        self.entry.job.status.placement.as_deref()
    }

    fn place(&self) -> Option<&NodePlace> {
        self.placement()?.nodes.get(self.position as usize)
    }

    fn scope(&self) -> String {
        format!("node/{}", self.node)
    }

    fn owns(&self, rank: u32) -> bool {
        rank >= self.first && rank - self.first < self.ranks
    }

    fn is_peer(&self, scope: &str) -> bool {
        gang(self.entry).any(|(_, peer)| peer != self.node && scope == format!("node/{peer}"))
    }

    /// The cause, about the node itself; of a peer that it misses, about that one.
    fn cause(&self, admitted: &mut Admitted) {
        let Some(mut cause) = admitted.seen.cause.take() else { return };
        let said = std::mem::take(&mut cause.scope);
        cause.since = None;
        match Speaker::of(&cause.code) {
            Speaker::Node(NodeCause::PeerLost) => {
                // Said once by each that misses it; whom nobody knows here nobody misses.
                cause.count = 1;
                cause.scope = if self.is_peer(&said) { said } else { self.scope() };
            }
            Speaker::Node(known) => {
                cause.scope = self.scope();
                cause.count = cause.count.min(self.ranks);
                match self.about(known, &said) {
                    About::Itself => {}
                    About::OwnRank => cause.scope = said,
                    About::Rank(rank) => {
                        admitted.untruths.push(Untruth::Rank { rank, first: self.first, ranks: self.ranks })
                    }
                    About::Other => {
                        admitted.untruths.push(Untruth::Scope { code: cause.code.to_string(), scope: said })
                    }
                }
            }
            Speaker::Controller => {
                admitted.untruths.push(Untruth::Cause { code: cause.code.to_string(), scope: said });
                let message = format!(
                    "node '{}' reported a cause that only the controller may say; its part of the attempt has failed",
                    self.node
                );
                cause = Reason::new(ReasonCode::NodeClaimRefused, message).scope(self.scope());
            }
            Speaker::Unknown => {
                admitted.ignored.push("cause");
                cause.message = format!("{}: {}", cause.code, cause.message);
                (cause.code, cause.count) = (ReasonCode::UnknownCause, 0);
                cause.scope = self.scope();
            }
        }
        admitted.seen.cause = Some(cause);
    }

    /// Whom a cause is about by its scope. Devices and files are the node's own.
    fn about(&self, cause: NodeCause, scope: &str) -> About {
        let Some((kind, name)) = scope.split_once('/') else { return About::Itself };
        match (kind, name.parse::<u32>()) {
            ("rank", Ok(rank)) if !self.owns(rank) => About::Rank(rank),
            ("rank", Ok(_)) if cause.is_own_doing() => About::OwnRank,
            ("node", _) if name != self.node.as_str() => About::Other,
            ("tenant" | "job" | "queue" | "leaf", _) => About::Other,
            _ => About::Itself,
        }
    }

    fn exits(&self, admitted: &mut Admitted) {
        let foreign = admitted.seen.exits.iter().find(|exit| !self.owns(exit.rank));
        if let Some(exit) = foreign {
            let (first, ranks) = (self.first, self.ranks);
            admitted.untruths.push(Untruth::Rank { rank: exit.rank, first, ranks });
        }
        admitted.seen.exits.retain(|exit| self.owns(exit.rank));
    }

    /// Where its engine listens: on the address that the node has on that rail, which peers are sent to.
    fn endpoints(&self, admitted: &mut Admitted) {
        let said = std::mem::take(&mut admitted.seen.endpoints);
        let rails = self.placement().map_or(&[][..], |placement| &placement.rails);
        let mut taken = BTreeSet::new();
        for endpoint in said {
            if !rails.contains(&endpoint.rail) || endpoint.address.port() == 0 || !taken.insert(endpoint.rail)
            {
                admitted.ignored.push("endpoint");
            } else if self.is_own(&endpoint) {
                admitted.seen.endpoints.push(endpoint);
            } else {
                let RailEndpoint { rail, address } = endpoint;
                admitted.untruths.push(Untruth::Endpoint { rail, address });
            }
        }
    }

    /// Where the node has no address on the rail, or one that only itself can reach (a cluster on one machine), any is its own. So is that
    /// of its NIC on another rail: a report from before its NICs were named as they are cabled is late, and harms nobody else.
    fn is_own(&self, endpoint: &RailEndpoint) -> bool {
        let nics = self.place().map_or(&[][..], |place| &place.nics);
        let nic = nics.iter().find(|nic| nic.rail == endpoint.rail);
        let known: Option<IpAddr> = nic.and_then(|nic| nic.address).map(|address| address.to_canonical());
        let said = endpoint.address.ip().to_canonical();
        let own = |nic: &NicPlace| nic.address.is_some_and(|address| address.to_canonical() == said);
        known.is_none_or(|known| known.is_loopback()) || nics.iter().any(own)
    }

    fn measured(&self, admitted: &mut Admitted) {
        let Some(measured) = admitted.seen.measured.take() else { return };
        let again = self.entry.attempt.as_ref().is_some_and(|attempt| attempt.again);
        let size = u32::try_from(gang(self.entry).count()).unwrap_or(u32::MAX);
        let foreign = |peer: u32| peer >= size || peer == self.position;
        if let Some(pair) = measured.pairs.iter().find(|pair| foreign(pair.peer)) {
            admitted.untruths.push(Untruth::Peer { peer: pair.peer, size });
        }
        if measured.series > u32::from(again) {
            // Nobody has asked for that series.
            admitted.ignored.push("series");
            return;
        }
        let rails = self.placement().map_or(&[][..], |placement| &placement.rails);
        let Measured { series, mut pairs, mut ports, unable } = measured;
        pairs.retain(|pair| !foreign(pair.peer) && rails.contains(&pair.rail));
        ports.retain(|port| rails.contains(&port.rail));
        admitted.seen.measured = Some(Measured { series, pairs, ports, unable });
    }

    /// Reports and counts of rails that the job has, each once.
    fn rails(&self, admitted: &mut Admitted) {
        let rails = self.placement().map_or(&[][..], |placement| &placement.rails);
        let seen = &mut admitted.seen;
        let before = seen.reports.len() + seen.rails.len();
        let (mut reported, mut counted) = (BTreeSet::new(), BTreeSet::new());
        seen.reports.retain(|report| rails.contains(&report.rail) && reported.insert(report.rail));
        seen.rails.retain(|bytes| rails.contains(&bytes.rail) && counted.insert(bytes.rail));
        if seen.reports.len() + seen.rails.len() != before {
            admitted.ignored.push("rail");
        }
        let peers = u32::try_from(gang(self.entry).count().saturating_sub(1)).unwrap_or(u32::MAX);
        for report in &mut seen.reports {
            report.peers = report.peers.min(peers);
            report.peers_up = report.peers_up.min(report.peers);
        }
    }
}

/// Whom a scope names.
enum About {
    Itself,
    OwnRank,
    Rank(u32),
    Other,
}
