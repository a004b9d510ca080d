//! What a judgement says.

use std::net::Ipv6Addr;

use proto_model::{Reason, ReasonCode};

/// What the certification of a gang found, and what is to be done with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// What is to be done.
    pub verdict: Verdict,
    /// What is wrong, the worst first.
    pub findings: Vec<Finding>,
    /// What a first series showed and both together do not, and so is taken for nothing.
    pub unconfirmed: Vec<Finding>,
    /// What could not be observed, and so is not certified.
    pub unobserved: Vec<Reason>,
    /// What was measured on each rail of the gang, in the order of the rails.
    pub rails: Vec<RailSummary>,
    /// Pairs on rails that were planned, over all rounds.
    pub planned: u32,
    /// Those that were measured.
    pub measured: u32,
}

impl Certificate {
    /// Whether another measurement may show that nothing is wrong: servers that are short of processors lose packets and are slow
    /// for as long as that lasts. What is silent, dead or set up wrongly is so the next time, too.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        let sure = |kind: Kind| !kind.may_pass() && kind != Kind::Swapped;
        let any = self.findings.iter().any(|finding| finding.kind.may_pass());
        any && !self.findings.iter().any(|finding| sure(finding.kind))
    }
}

impl Finding {
    /// Whether this and another finding are likely to have one cause, which may pass.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let rails = self.rails.iter().any(|rail| other.rails.contains(rail));
        self.kind.may_pass() && other.kind.may_pass() && rails
    }
}

/// What is to be done with the gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The gang may start as it is.
    Certified,
    /// It may start once the rails of these nodes are named as they are.
    Remap(Vec<Remap>),
    /// These nodes are to be replaced, by position in the gang.
    Replace(Vec<u32>),
    /// Something is wrong that replacing a node does not mend, or that no node can be blamed for.
    Warn,
}

/// The rails of one node as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remap {
    /// Its position in the gang.
    pub node: u32,
    /// The rail that a NIC was taken to be on, and the one that it is on; only where they differ.
    pub rails: Vec<(u32, u32)>,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The kind of fault.
    pub kind: Kind,
    /// The node, rail or path that it is found at.
    pub place: Subject,
    /// The rails that it is found on, by number; empty: it is not about a rail.
    pub rails: Vec<u32>,
    /// In words, with the evidence; scoped to the job's own numbers, names are the caller's.
    pub reason: Reason,
}

/// What can be wrong. In order: what stops a job first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The node has reported nothing.
    Silent,
    /// Nothing comes back on a rail.
    Dead,
    /// NICs are on other rails than they are taken to be, and not one on each.
    Miswired,
    /// NICs are on each other's rails.
    Swapped,
    /// A port has no GID of its address for RoCE v2.
    Gid,
    /// A port's GID is not that of the address which the others are given.
    OtherGid,
    /// Packets as large as the ports allow do not arrive, or a port allows less than the others.
    Mtu,
    /// Packets are lost on the path.
    Lossy,
    /// Bandwidth is far below that of the others.
    Slow,
    /// Packets arrive with another DSCP.
    Dscp,
    /// Packets are counted in another priority.
    WrongPriority,
}

impl Kind {
    /// It may be over the next time, and be no fault of anybody.
    pub(crate) fn may_pass(self) -> bool {
        matches!(self, Self::Slow | Self::Lossy)
    }

    /// The code of the reasons that report such a finding.
    #[must_use]
    pub fn code(self) -> ReasonCode {
        match self {
            Self::Silent => ReasonCode::NodeSilent,
            Self::Dead => ReasonCode::RailDead,
            Self::Miswired => ReasonCode::RailsMiswired,
            Self::Swapped => ReasonCode::RailsSwapped,
            Self::Gid => ReasonCode::GidMissing,
            Self::OtherGid => ReasonCode::GidMismatch,
            Self::Mtu => ReasonCode::MtuTooSmall,
            Self::Lossy => ReasonCode::RailLossy,
            Self::Slow => ReasonCode::RailSlow,
            Self::Dscp => ReasonCode::DscpChanged,
            Self::WrongPriority => ReasonCode::WrongPriority,
        }
    }

    /// What is wrong, in a sentence about a rail.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Silent => "told nothing",
            Self::Dead => "get no answer",
            Self::Miswired => "are on other rails than they are taken to be",
            Self::Swapped => "are on each other's rails",
            Self::Gid => "have no GID for RoCE v2",
            Self::OtherGid => "have another GID than the others are told",
            Self::Mtu => "do not pass packets of the ports' MTU",
            Self::Lossy => "lose packets",
            Self::Slow => "are far slower than the others",
            Self::Dscp => "change the DSCP of packets",
            Self::WrongPriority => "count packets in another priority",
        }
    }
}

/// Who or what a finding is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A node, by position in the gang.
    Node(u32),
    /// A leaf, on its rail: all nodes of the gang that it serves, and no others.
    Leaf(u32),
    /// The rail, at most of the gang.
    Rail,
    /// One of these two, and nothing shows which.
    Either(u32, u32),
}

/// One rail over the gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RailSummary {
    /// Number of the rail.
    pub rail: u32,
    /// Pairs that were measured; one that was measured several times counts once.
    pub pairs: u32,
    /// Ways whose bandwidth is known.
    pub ways: u32,
    /// The median bandwidth of these ways, in Mbit/s; `None`: none is known.
    pub median_mbps: Option<u32>,
    /// The least Mbit/s of one way; `None`: none was measured.
    pub least_mbps: Option<u32>,
    /// From which node to which node that was, by position in the gang.
    pub worst: Option<(u32, u32)>,
    /// GIDs for RoCE v2 that nodes use: node, index, GID.
    pub gids: Vec<(u32, u32, Ipv6Addr)>,
    /// The smallest packet size that all of them passed, in bytes.
    pub mtu: Option<u32>,
    /// The median of the shortest round trips, in microseconds.
    pub rtt_us: Option<u32>,
    /// Packets that were sent on the rail.
    pub sent: u64,
    /// Packets of these that did not arrive.
    pub lost: u64,
}
