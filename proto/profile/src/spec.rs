//! The fields of a profile, before they are checked.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    settings::{Buffer, CcParam},
    switch::{Class, SwitchEnd},
    words::{DSCPS, Dscp, Ownership, Priority, PrioritySet, RoceMode, Trust, Tsa},
};

/// Congestion control (DCQCN) of the priorities that carry RDMA; of others nothing is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Dcqcn {
    /// Priorities on which marked packets are answered with CNPs.
    pub notification: PrioritySet,
    /// Priorities on which CNPs slow a sender down.
    pub reaction: PrioritySet,
    /// Parameters; one that is not named is left as it is.
    pub params: BTreeMap<CcParam, u32>,
}

impl Default for Dcqcn {
    fn default() -> Self {
        let lossless = PrioritySet::only(Priority::of(3));
        Self { notification: lossless, reaction: lossless, params: BTreeMap::new() }
    }
}

/// The fields of a profile, not yet checked. What is left out of a document is as [`ProfileSpec::default`] has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct ProfileSpec {
    /// The profile's name: 1 to 63 letters, digits, `-`, `_` or `.`.
    pub name: String,
    /// What the priority of a packet is read from.
    pub trust: Trust,
    /// The priority of RDMA data.
    pub lossless_priority: Priority,
    /// The DSCP of RDMA data.
    pub data_dscp: Dscp,
    /// The priority of congestion notification packets.
    pub cnp_priority: Priority,
    /// The DSCP of congestion notification packets.
    pub cnp_dscp: Dscp,
    /// Priorities of DSCPs other than those two and those of `classes`. A DSCP that is not named has the priority of its upper three bits.
    pub dscp_map: BTreeMap<Dscp, Priority>,
    /// Priorities with priority-based flow control.
    pub pfc: PrioritySet,
    /// The traffic class of each priority.
    pub prio_tc: [u8; 8],
    /// How each traffic class is served.
    pub tsa: [Tsa; 8],
    /// The share of each class that is served by share, in percent; 100 in all.
    pub bandwidth: [u8; 8],
    /// The greatest rate of each class in kbit/s, 0 for no limit; none to leave it as it is.
    pub max_rate: Option<[u64; 8]>,
    /// Buffers; none to leave them to driver and firmware.
    pub buffer: Option<Buffer>,
    /// Congestion control (DCQCN): on which priorities, and with which parameters.
    pub dcqcn: Dcqcn,
    /// MTU of the network device in bytes.
    pub mtu: u32,
    /// Global pause frames, which exclude PFC.
    pub global_pause: bool,
    /// ToS byte of RDMA connections that do not choose one: the DSCP's six bits and ECT(0).
    pub default_tos: u8,
    /// RoCE version of connections that do not choose one.
    pub default_mode: RoceMode,
    /// Length of the cable in metres: what is under way when a pause is sent has to fit into the buffer.
    pub cable_length: u16,
    /// After how many ms a port that is paused all the time drops, 65535 when the driver thinks fit, 0 never; none
    /// to leave it as it is.
    pub pfc_prevention: Option<u16>,
    /// Who decides over DCB settings: the host or the firmware.
    pub dcbx: Ownership,
    /// Classes apart from RDMA data and CNPs, such as storage and management.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<Class>,
    /// What only switches are told.
    #[serde(skip_serializing_if = "SwitchEnd::is_default")]
    pub switch: SwitchEnd,
}

impl Default for ProfileSpec {
    /// The profile that vendors and operators of large RoCE fabrics agree on: data DSCP 26 on priority 3 and
    /// lossless, CNP DSCP 48 on priority 6 and strict, ECT set, MTU 9000.
    fn default() -> Self {
        let mut tsa = [Tsa::Ets; 8];
        tsa[6] = Tsa::Strict;
        Self {
            name: "roce-lossless".into(),
            trust: Trust::Dscp,
            lossless_priority: Priority::of(3),
            data_dscp: Dscp::of(26),
            cnp_priority: Priority::of(6),
            cnp_dscp: Dscp::of(48),
            dscp_map: BTreeMap::new(),
            pfc: PrioritySet::only(Priority::of(3)),
            prio_tc: [0, 0, 0, 3, 0, 0, 6, 0],
            tsa,
            bandwidth: [50, 0, 0, 50, 0, 0, 0, 0],
            max_rate: None,
            buffer: None,
            dcqcn: Dcqcn::default(),
            mtu: 9000,
            global_pause: false,
            default_tos: 106,
            default_mode: RoceMode::V2,
            cable_length: 40,
            pfc_prevention: None,
            dcbx: Ownership::Host,
            classes: Vec::new(),
            switch: SwitchEnd::default(),
        }
    }
}

impl ProfileSpec {
    /// The priority of `dscp`: what is named, else that of its upper three bits.
    #[must_use]
    pub fn priority_of(&self, dscp: Dscp) -> Priority {
        if dscp == self.data_dscp {
            return self.lossless_priority;
        }
        if dscp == self.cnp_dscp {
            return self.cnp_priority;
        }
        if let Some(class) = self.classes.iter().find(|class| class.dscps.contains(&dscp)) {
            return class.priority;
        }
        self.dscp_map.get(&dscp).copied().unwrap_or(Priority::of(dscp.get() >> 3))
    }

    /// The priorities of all DSCPs.
    #[must_use]
    pub fn priorities(&self) -> [Priority; DSCPS] {
        std::array::from_fn(|dscp| self.priority_of(Dscp::of(u8::try_from(dscp).unwrap_or(0))))
    }

    /// Whether packets of `priority` must not be lost.
    #[must_use]
    pub fn is_lossless(&self, priority: Priority) -> bool {
        priority == self.lossless_priority
            || self.classes.iter().any(|class| class.lossless && class.priority == priority)
    }

    /// The traffic class of switches for packets of `priority`: its own where it is a class by itself, else the least priority that
    /// shares its traffic class at the NIC.
    #[must_use]
    pub fn switch_class(&self, priority: Priority) -> Priority {
        let alone = |one: Priority| {
            one == self.cnp_priority
                || self.pfc.contains(one)
                || self.classes.iter().any(|class| class.priority == one)
        };
        if alone(priority) {
            return priority;
        }
        let tc = self.prio_tc[priority.index()];
        Priority::all().find(|one| !alone(*one) && self.prio_tc[one.index()] == tc).unwrap_or(priority)
    }

    /// The traffic classes that switches have, in order.
    #[must_use]
    pub fn switch_classes(&self) -> Vec<Priority> {
        Priority::all().filter(|priority| self.switch_class(*priority) == *priority).collect()
    }
}
