//! Nodes.

use std::sync::Arc;

use proto_model::{
    Claim, Distance, Gid, GidKind, Gpu, GpuDirect, GpuFacts, GpuLink, GpuPath, Health, Inventory, Isolation,
    IsolationFeature, IsolationState, LinkPeer, MigInstance, Neighbor, Nic, NicCondition, NicConditionCode,
    NicFacts, NicHealth, NicPort, NicProbe, Node, PathCause, PathCauseCode, PciDevice, PhysicalState,
    PortState, ProbeOutcome, QosPort, QosState, ReasonCode, Severity, Strike, Taint,
};

use super::Pick;

impl Pick {
    pub fn node(&mut self) -> Node {
        Node {
            name: self.node_name(),
            uid: self.uid(),
            generation: self.large(),
            created: self.time(),
            unschedulable: self.flag(),
            unschedulable_reason: self.line(),
            labels: self.list(3, |pick| (pick.word(), pick.word())).into_iter().collect(),
            taints: self.set(2, |pick| Taint { key: pick.word(), value: pick.word() }),
            quarantined: self.some(Self::reason),
            strikes: self.list(2, |pick| Strike {
                time: pick.time(),
                uid: pick.job_uid(),
                attempt: pick.below(9),
                code: Some(ReasonCode::from_text(&pick.word())),
            }),
            quarantine: self.reasons(),
            provisional: self.set(3, |pick| match pick.below(3) {
                0 => Claim::Address { rail: pick.below(8), address: pick.address() },
                1 => Claim::Gid { rail: pick.below(8), gid: "fe80::17".parse().unwrap() },
                _ => Claim::Gpu(pick.word()),
            }),
            inventory: Arc::new(self.inventory()),
            health: self.one(&[Health::Ready, Health::NotReady]),
            health_since: self.time(),
            reasons: self.reasons(),
            agent_version: self.line(),
        }
    }

    fn inventory(&mut self) -> Inventory {
        let (gpus, nics) = (self.below(9), self.below(9));
        Inventory {
            gpus: (0..gpus).map(|index| self.gpu(index)).collect(),
            nics: (0..nics).map(|rail| self.nic(rail)).collect(),
            numa_nodes: self.below(9),
            cpus: self.below(257),
            memory_bytes: self.large(),
            neighbors: {
                let mut all = self.list(2, |pick| Neighbor {
                    netdev: pick.word(),
                    switch: pick.word(),
                    port: pick.word(),
                });
                all.sort();
                all
            },
            health: self.some(Self::nic_health).into_iter().collect(),
            findings: self.reasons(),
            changes: self.reasons(),
            qos: self.some(Self::qos_port).into_iter().collect(),
            isolation: self.isolation(),
        }
    }

    fn qos_port(&mut self) -> QosPort {
        let states = [QosState::Held, QosState::Trial, QosState::Kept, QosState::Differs, QosState::Failed];
        QosPort {
            device: "mlx5_0".to_owned(),
            generation: self.large(),
            state: self.one(&states),
            message: self.line(),
            observed_generation: self.large(),
        }
    }

    fn isolation(&mut self) -> Isolation {
        let known = IsolationFeature::ALL.iter().map(|feature| match self.below(3) {
            0 => None,
            1 => Some(IsolationState::active(*feature, self.line())),
            _ => Some(IsolationState::absent(*feature, self.line(), self.line())),
        });
        Isolation::new(known.collect::<Vec<_>>().into_iter().flatten())
    }

    fn pci(&mut self) -> PciDevice {
        PciDevice {
            id: self.word(),
            class: self.line(),
            path: self.word(),
            speed: self.line(),
            width: self.below(17),
            slot: self.line(),
        }
    }

    fn gpu(&mut self, index: u32) -> Gpu {
        Gpu {
            index,
            uuid: format!("GPU-{}", self.below(1000)),
            model: self.one(&["NVIDIA H100 80GB HBM3", ""]).to_owned(),
            pci_address: self.word(),
            numa_node: self.some(|pick| pick.below(2)),
            memory_bytes: self.large(),
            facts: self.some(|pick| Box::new(pick.gpu_facts())),
        }
    }

    fn gpu_facts(&mut self) -> GpuFacts {
        GpuFacts {
            pci: self.pci(),
            driver: self.word(),
            driver_version: self.line(),
            nic: self.line(),
            nic_distance: self
                .some(|pick| pick.one(&[Distance::Pix, Distance::Pxb, Distance::Phb, Distance::Sys])),
            links: self.list(2, |pick| GpuLink {
                peer: match pick.below(3) {
                    0 => LinkPeer::Gpu(pick.below(8)),
                    1 => LinkPeer::Switch,
                    _ => LinkPeer::Other,
                },
                count: pick.below(19),
                version: pick.below(5),
            }),
            gpu_direct: self.some(|pick| GpuDirect {
                path: pick.path(),
                reason: pick.line(),
                causes: pick.list(2, |pick| PathCause {
                    path: pick.path(),
                    code: PathCauseCode::from_text(&pick.word()),
                    message: pick.line(),
                    fix: pick.line(),
                }),
            }),
            mig: self
                .some(|pick| MigInstance { gpu_instance: pick.below(9), compute_instance: pick.below(9) }),
        }
    }

    fn path(&mut self) -> GpuPath {
        self.one(&[GpuPath::DmaBuf, GpuPath::PeerMemory, GpuPath::HostStaging])
    }

    fn nic(&mut self, rail: u32) -> Nic {
        Nic {
            device: format!("mlx5_{rail}"),
            netdev: self.word(),
            pci_address: self.word(),
            numa_node: self.some(|pick| pick.below(2)),
            rail,
            address: self.some(Self::address),
            mtu: self.one(&[0, 1500, 9000]),
            speed_mbps: self.large(),
            up: self.flag(),
            gid_index: self.some(|pick| pick.below(9)),
            facts: self.some(|pick| Box::new(pick.nic_facts())),
        }
    }

    fn nic_facts(&mut self) -> NicFacts {
        let states =
            [PortState::Down, PortState::Init, PortState::Armed, PortState::Active, PortState::ActiveDefer];
        let physical = [
            PhysicalState::Sleep,
            PhysicalState::Polling,
            PhysicalState::Disabled,
            PhysicalState::Training,
            PhysicalState::LinkUp,
            PhysicalState::ErrorRecovery,
            PhysicalState::PhyTest,
        ];
        NicFacts {
            pci: self.pci(),
            driver: self.word(),
            firmware: self.line(),
            port: self.some(|pick| NicPort {
                number: pick.below(3),
                state: pick.some(|pick| pick.one(&states)),
                physical: pick.some(|pick| pick.one(&physical)),
            }),
            gids: self.list(2, |pick| Gid {
                index: pick.below(9),
                gid: pick.one(&["fe80::1", "::ffff:10.0.0.5"]).parse().unwrap(),
                kind: pick.one(&[GidKind::RoceV1, GidKind::RoceV2, GidKind::Other]),
                netdev: pick.line(),
            }),
            rail_reason: self.line(),
        }
    }

    fn nic_health(&mut self) -> NicHealth {
        NicHealth {
            device: "mlx5_0".to_owned(),
            score: self.below(101),
            conditions: self.list(2, |pick| NicCondition {
                code: NicConditionCode::from_text(pick.one(&["Storm", "Flap"])),
                severity: pick.one(&[Severity::Note, Severity::Degraded, Severity::Drain]),
                message: pick.line(),
                since: pick.time(),
                probe: pick.flag(),
            }),
            probe: self.some(|pick| NicProbe {
                id: pick.large(),
                peer: pick.node_name(),
                outcome: pick.one(&[ProbeOutcome::Passed, ProbeOutcome::Failed, ProbeOutcome::Unable]),
                message: pick.line(),
                time: pick.time(),
            }),
        }
    }
}
