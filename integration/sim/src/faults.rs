//! What goes wrong. A fault's own randomness is in the plan, so that a run without one of them is still much the same.

mod events;

use std::sync::Arc;

use node_agent_core::{Key, supervisor::EngineEnd};

use crate::{prove::Probe, rng::Rng};

/// What comes later of a fault, and its end.
#[derive(Debug, Clone)]
pub enum Fault {
    /// An engine's process ends.
    EngineEnds {
        /// The server of the engine, by number.
        node: usize,
        /// The attempt that the engine belongs to.
        key: Key,
        /// The number of the engine's process; 0: whichever runs then.
        number: u64,
        /// How the process ends.
        end: EngineEnd,
    },
    /// A server gets its power back.
    PowerOn(usize),
    /// A NIC comes up again.
    NicUp(usize, u32),
    /// A node takes jobs again.
    Schedulable(usize),
    /// What a lost supervisor had left is killed.
    Reap(usize, Key),
    /// An administrator gives up on a server that has no power.
    GiveUp(usize),
    /// Tenants get back their quota.
    QuotaBack,
    /// An agent says what is so again.
    Honest(usize),
    /// A probe ends that a server has begun in this life.
    ProbeEnds(usize, u64, Arc<Probe>),
}

/// A fault of the plan.
#[derive(Debug, Clone)]
pub struct Planned {
    /// When, in milliseconds from the start.
    pub at_ms: u64,
    /// The kind of the fault.
    pub kind: Kind,
    /// What else is drawn for it.
    pub rng: Rng,
}

/// Kinds of faults; the numbers are those of the reference page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// F1: the leader is killed.
    KillLeader,
    /// F1: the leader is killed when it wants to write.
    KillBeforeCommit,
    /// F1, F5: the leader is killed when it has written and answered nobody.
    KillAfterCommit,
    /// F1: a standby is killed.
    KillStandby,
    /// F2: the leader is stopped for a while and goes on.
    PauseLeader,
    /// F2, F3: the same, and the standbys take it for dead at once.
    ReplacePaused,
    /// F3: standbys take a leader for dead that is well.
    FalseEvidence,
    /// F14: the leader hands over and is started again.
    HandOver,
    /// F3: the leader does not reach etcd.
    CutLeader,
    /// F3, F5: the leader gets no answer of etcd.
    MuteLeader,
    /// F3, F13: a standby does not reach etcd.
    CutStandby,
    /// F13: a standby's watch lags, and history is compacted meanwhile.
    LagWatch,
    /// F6: etcd has no leader for a moment.
    EtcdLeader,
    /// F6: etcd has no quorum.
    EtcdQuorum,
    /// F8, F17: etcd's disk is slow.
    EtcdSlow,
    /// F7: history is compacted.
    Compact,
    /// F7: etcd is full.
    NoSpace,
    /// F1: an agent is killed.
    KillAgent,
    /// F2: an agent is stopped for a while.
    PauseAgent,
    /// F3: an agent's stream is cut.
    CutAgent,
    /// F8: an agent's disk is full.
    FillDisk,
    /// F16: an engine or with it a rank dies.
    KillEngine,
    /// F1: a supervisor is killed.
    KillSupervisor,
    /// F1: a server loses its power.
    PowerOff,
    /// F15: a NIC goes down.
    NicDown,
    /// No fault: rails leave service or come back.
    Drain,
    /// No fault: a node takes no jobs for a while.
    Cordon,
    /// F4, F5: messages and answers are lost, late and doubled.
    Storm,
    /// No fault: a tenant's quota is lowered for a while.
    LowerQuota,
}

/// All kinds, with their weights.
const KINDS: [(Kind, u64); 29] = [
    (Kind::KillLeader, 7),
    (Kind::KillBeforeCommit, 4),
    (Kind::KillAfterCommit, 6),
    (Kind::KillStandby, 2),
    (Kind::PauseLeader, 3),
    (Kind::ReplacePaused, 6),
    (Kind::FalseEvidence, 4),
    (Kind::HandOver, 2),
    (Kind::CutLeader, 5),
    (Kind::MuteLeader, 5),
    (Kind::CutStandby, 2),
    (Kind::LagWatch, 4),
    (Kind::EtcdLeader, 4),
    (Kind::EtcdQuorum, 3),
    (Kind::EtcdSlow, 4),
    (Kind::Compact, 2),
    (Kind::NoSpace, 3),
    (Kind::KillAgent, 9),
    (Kind::PauseAgent, 4),
    (Kind::CutAgent, 8),
    (Kind::FillDisk, 4),
    (Kind::KillEngine, 8),
    (Kind::KillSupervisor, 6),
    (Kind::PowerOff, 6),
    (Kind::NicDown, 3),
    (Kind::Drain, 4),
    (Kind::Cordon, 2),
    (Kind::Storm, 8),
    (Kind::LowerQuota, 4),
];

impl Kind {
    /// One of them, by weight.
    #[must_use]
    pub fn draw(rng: &mut Rng) -> Self {
        let all: u64 = KINDS.iter().map(|(_, weight)| weight).sum();
        let mut at = rng.range(0..all);
        for (kind, weight) in KINDS {
            if at < weight {
                return kind;
            }
            at -= weight;
        }
        Self::KillLeader
    }
}
