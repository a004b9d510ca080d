//! Switches: what an administrator says of them.

use proto_model::{SwitchConfig, SwitchManagement, SwitchNos, SwitchPort, SwitchSpec};

use super::time_to_row;
use crate::v1;

fn nos(nos: SwitchNos) -> v1::switch_spec::Nos {
    use v1::switch_spec::Nos as N;
    match nos {
        SwitchNos::Sonic => N::Sonic,
        SwitchNos::Cumulus => N::Cumulus,
        SwitchNos::Eos => N::Eos,
        SwitchNos::NxOs => N::NxOs,
        SwitchNos::Linux => N::Linux,
    }
}

impl From<&SwitchSpec> for v1::SwitchSpec {
    fn from(spec: &SwitchSpec) -> Self {
        let port = |port: &SwitchPort| v1::SwitchPort {
            name: port.name.clone(),
            cable_m: port.cable_m,
            optics: port.optics.clone(),
        };
        let management = |management: &SwitchManagement| v1::SwitchManagement {
            endpoint: management.endpoint.clone(),
            credential: management.credential.as_ref().map(ToString::to_string).unwrap_or_default(),
        };
        Self {
            nos: nos(spec.nos).into(),
            version: spec.version.clone(),
            asic: spec.asic.map(|asic| asic.to_string()).unwrap_or_default(),
            loopback: spec.loopback.map(|address| address.to_string()).unwrap_or_default(),
            asn: spec.asn,
            cable_m: spec.cable_m,
            ports: spec.ports.iter().map(port).collect(),
            management: spec.management.as_ref().map(management),
            repair_drift: spec.repair_drift,
        }
    }
}

impl From<&SwitchConfig> for v1::Switch {
    /// What the fabric or its agent says of it is not stored.
    fn from(switch: &SwitchConfig) -> Self {
        Self {
            metadata: Some(v1::Metadata {
                name: switch.name.to_string(),
                uid: switch.uid.clone(),
                generation: switch.generation,
                create_time: Some(time_to_row(switch.created)),
                ..v1::Metadata::default()
            }),
            spec: Some(v1::SwitchSpec::from(&switch.spec)),
        }
    }
}
