//! What was read back of a fabric.

use std::{collections::BTreeMap, fmt};

use proto_profile::QosProfile;

use crate::{
    desired::{self, Refusal},
    headroom,
    model::{Name, Peer, Port, Switch},
    state::{BufferModel, Group, Limit, NicState, PortState, SwitchState},
};

/// A NIC of a server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NicId {
    /// The server.
    pub server: Name,
    /// The NIC.
    pub nic: Name,
}

impl fmt::Display for NicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.server, self.nic)
    }
}

/// Switches and NICs as they were read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// Switches by name.
    pub switches: BTreeMap<Name, SwitchState>,
    /// NICs.
    pub nics: BTreeMap<NicId, NicState>,
}

impl Facts {
    /// What would be read if all were set as desired.
    ///
    /// # Errors
    /// Every [`Refusal`] of the planners.
    pub fn desired(
        profile: &QosProfile,
        switches: &[Switch],
        model: BufferModel,
    ) -> Result<Self, Vec<Refusal>> {
        let mut facts = Self { switches: desired::plan(profile, switches, model)?, nics: BTreeMap::new() };
        for port in switches.iter().flat_map(|switch| &switch.ports) {
            if let Peer::Nic { server, nic, .. } = &port.peer {
                let id = NicId { server: server.clone(), nic: nic.clone() };
                facts.nics.extend(port.speed.map(|speed| (id, desired::nic(profile, speed))));
            }
        }
        Ok(facts)
    }

    /// A port of a switch.
    #[must_use]
    pub fn port(&self, switch: &Name, port: &Name) -> Option<(&SwitchState, &PortState)> {
        let state = self.switches.get(switch)?;
        Some((state, state.ports.get(port)?))
    }
}

/// The headroom that a group really has: as it is written, or as the switch works it out of what it was told. None where it is lossy.
pub(super) fn headroom_of(switch: &Switch, state: &SwitchState, port: &PortState, group: u8) -> Option<u64> {
    match port.qos.groups.get(&group)? {
        Group::Fixed(buffer) => buffer.xoff,
        Group::Computed => {
            let pattern = state.pattern.filter(|_| state.model == BufferModel::Dynamic)?;
            let input = headroom::Input {
                asic: switch.asic,
                speed: port.speed?,
                lanes: u8::try_from(port.lanes.len()).unwrap_or(u8::MAX),
                cable_m: port.cable_m?,
                port_mtu: port.mtu,
                lossless_mtu: pattern.mtu,
                small_packet_percent: pattern.small_packet_percent,
                gearbox: 0,
                shared: state.headroom_shared_by.is_some_and(|by| by > 0),
            };
            Some(headroom::plan(&input).ok()?.xoff)
        }
    }
}

/// How much a group may take before it pauses.
pub(super) fn limit_of(state: &SwitchState, port: &PortState, group: u8) -> Option<Limit> {
    match port.qos.groups.get(&group)? {
        Group::Fixed(buffer) => Some(buffer.limit),
        Group::Computed => state.default_alpha.map(Limit::Alpha),
    }
}

/// What headroom a port needs: by its cable as it is, and by its MTU as it is set.
pub(super) fn headroom_needed(
    switch: &Switch,
    port: &Port,
    state: &PortState,
    traffic: super::claim::Traffic,
) -> Option<u64> {
    let input = headroom::Input {
        asic: switch.asic,
        speed: port.speed?,
        lanes: u8::try_from(port.lanes.len()).unwrap_or(u8::MAX),
        cable_m: port.cable_m,
        port_mtu: state.mtu,
        lossless_mtu: traffic.lossless_mtu,
        small_packet_percent: traffic.small_packet_percent,
        gearbox: 0,
        shared: traffic.shared_by > 0,
    };
    Some(headroom::plan(&input).ok()?.xoff)
}
