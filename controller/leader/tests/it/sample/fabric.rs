//! Fabric documents, drains and rollouts.

use proto_model::{
    Drain, DrainTarget, Fabric, Leaf, Link, LinkGroup, Names, QosRollout, Rail, Spine, SwitchName,
    SwitchRollout, Uplink,
};

use super::Pick;

impl Pick {
    pub fn fabric(&mut self) -> Fabric {
        let rails = 1 + self.below(8);
        let cable = |pick: &mut Self| pick.one(&[0, 400_000]);
        Fabric {
            name: self.word(),
            generation: self.large(),
            rails: (0..rails).map(|index| Rail { index, name: self.word() }).collect(),
            leaves: self.list(4, |pick| Leaf {
                name: pick.word(),
                rail: pick.below(4),
                more_rails: pick.one(&[vec![], vec![5, 7]]),
                pod: pick.word(),
                plane: pick.below(2),
                down: pick.flag(),
            }),
            links: self.list(3, |pick| Link {
                node: pick.node_name(),
                nic: pick.word(),
                leaf: pick.word(),
                port: pick.line(),
                speed_mbps: cable(pick),
                down: pick.flag(),
                rail: pick.some(|pick| pick.below(8)),
            }),
            link_groups: self.list(3, |pick| LinkGroup {
                nodes: Names::new(pick.one(&["gpu[001-128]", "a,b"])).unwrap(),
                nic: format!("mlx5_{}", pick.below(8)),
                leaf: pick.word(),
                ports: Names::default(),
                speed_mbps: cable(pick),
                rail: pick.some(|pick| pick.below(8)),
            }),
            spines: self.list(3, |pick| Spine {
                name: pick.word(),
                rail: pick.below(4),
                more_rails: pick.one(&[vec![], vec![5, 7]]),
                plane: pick.below(2),
                down: pick.flag(),
            }),
            uplinks: self.list(2, |pick| Uplink {
                lower: Names::new(pick.one(&["leaf-[00-15]", "leaf-a"])).unwrap(),
                upper: Names::new("spine-[0-3]").unwrap(),
                cables: 2,
                speed_mbps: cable(pick),
                down: pick.below(3),
            }),
        }
    }

    pub fn drain(&mut self) -> Drain {
        Drain {
            target: match self.below(3) {
                0 => DrainTarget::Rail(self.below(8)),
                1 => DrainTarget::Leaf(self.word()),
                _ => DrainTarget::Port { node: self.node_name(), rail: self.below(8) },
            },
            reason: self.line(),
            by: self.word(),
            since: self.time(),
        }
    }

    pub fn rollout(&mut self) -> QosRollout {
        QosRollout {
            generation: self.large(),
            document: "{\"name\": \"roce-lossless\"}".into(),
            before: self.some(|_| "{\"mtu\": 1500}".into()),
            reason: self.line(),
            by: self.word(),
            since: self.time(),
            canary: self.node_name(),
            confirm_within: self.span(),
            soak: self.span(),
            at_once: 1 + self.below(64),
            force: self.flag(),
            paused: self.some(Self::reason),
            mixed: self.flag(),
        }
    }

    pub fn switch_rollout(&mut self) -> SwitchRollout {
        SwitchRollout {
            generation: self.large(),
            profile: "{\"name\": \"roce-lossless\"}".into(),
            before: self.some(|_| "{\"mtu\": 1500}".into()),
            reason: self.line(),
            by: self.word(),
            since: self.time(),
            canary: SwitchName::new(format!("leaf{}", self.below(64))).unwrap(),
            confirm_within: self.span(),
            soak: self.span(),
            at_once: 1 + self.below(64),
            force: self.flag(),
            paused: self.some(Self::reason),
            out_of_use: (0..self.below(3)).map(|n| SwitchName::new(format!("spine{n}")).unwrap()).collect(),
        }
    }
}
