//! Switches: what an administrator says of them.

use std::net::Ipv4Addr;

use proto_model::{
    CredentialName, SwitchAsic, SwitchConfig, SwitchManagement, SwitchName, SwitchNos, SwitchPort, SwitchSpec,
};

use super::{API_VERSION, FieldErrors, Fields, known, metadata, time_from_wire, time_to_wire};
use crate::v1;

fn nos(wire: i32) -> Option<SwitchNos> {
    use v1::switch_spec::Nos as N;
    Some(match known::<N>(wire)? {
        N::Sonic => SwitchNos::Sonic,
        N::Cumulus => SwitchNos::Cumulus,
        N::Eos => SwitchNos::Eos,
        N::NxOs => SwitchNos::NxOs,
        N::Linux => SwitchNos::Linux,
        N::Unspecified => return None,
    })
}

fn nos_to_wire(nos: SwitchNos) -> v1::switch_spec::Nos {
    use v1::switch_spec::Nos as N;
    match nos {
        SwitchNos::Sonic => N::Sonic,
        SwitchNos::Cumulus => N::Cumulus,
        SwitchNos::Eos => N::Eos,
        SwitchNos::NxOs => N::NxOs,
        SwitchNos::Linux => N::Linux,
    }
}

fn management(fields: &mut Fields, wire: v1::SwitchManagement) -> SwitchManagement {
    let named = Some(wire.credential).filter(|name| !name.is_empty());
    let credential =
        named.and_then(|name| fields.take("spec.management.credential", CredentialName::new(&name)));
    SwitchManagement { endpoint: wire.endpoint, credential }
}

fn spec(fields: &mut Fields, wire: v1::SwitchSpec) -> Option<SwitchSpec> {
    let known_nos = nos(wire.nos);
    if known_nos.is_none() {
        let words: Vec<&str> = SwitchNos::ALL.iter().map(|nos| nos.as_str()).collect();
        fields.fail("spec.nos", format!("is required: one of {}", words.join(", ")));
    }
    let said = Some(wire.asic.as_str()).filter(|word| !word.is_empty());
    let asic = said.map(|word| fields.take("spec.asic", SwitchAsic::from_word(word)));
    let said = Some(wire.loopback.as_str()).filter(|text| !text.is_empty());
    let loopback = said.and_then(|text| match text.parse::<Ipv4Addr>() {
        Ok(address) => Some(address),
        Err(_) => {
            fields.fail("spec.loopback", format!("{text:?} is no IPv4 address"));
            None
        }
    });
    let port =
        |port: v1::SwitchPort| SwitchPort { name: port.name, cable_m: port.cable_m, optics: port.optics };
    let spec = SwitchSpec {
        // What else is wrong is named all the same.
        nos: known_nos.unwrap_or(SwitchNos::Sonic),
        version: wire.version,
        asic: asic.flatten(),
        loopback,
        asn: wire.asn,
        cable_m: wire.cable_m,
        ports: wire.ports.into_iter().map(port).collect(),
        management: wire.management.map(|wire| management(fields, wire)),
        repair_drift: wire.repair_drift,
    };
    let mut found = Fields::default();
    spec.check(&mut found);
    // Whether an ASIC belongs there is only known with both; one that is no ASIC is named already.
    let unclear = known_nos.is_none() || matches!(asic, Some(None));
    fields.0.extend(found.0.into_iter().filter(|error| !(unclear && error.field == "spec.asic")));
    known_nos.map(|_| spec)
}

impl TryFrom<v1::Switch> for SwitchConfig {
    type Error = FieldErrors;

    fn try_from(wire: v1::Switch) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        super::fields::header(&mut fields, &wire.api_version, &wire.kind, "Switch");
        let metadata = metadata::metadata(&mut fields, wire.metadata);
        metadata::unowned(&mut fields, &metadata);
        let name = fields.take("metadata.name", SwitchName::new(&metadata.name));
        let said = fields.present("spec", wire.spec);
        let spec = said.and_then(|said| spec(&mut fields, said));
        let created =
            fields.nest("metadata.createTime", time_from_wire(metadata.create_time.unwrap_or_default()));
        let switch = name.zip(spec).zip(created).map(|((name, spec), created)| Self {
            name,
            uid: metadata.uid,
            generation: metadata.generation,
            created,
            spec,
        });
        fields.finish(switch)
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
            nos: nos_to_wire(spec.nos).into(),
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
    /// The status is added by whoever knows the fabric.
    fn from(switch: &SwitchConfig) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: "Switch".to_owned(),
            metadata: Some(v1::Metadata {
                name: switch.name.to_string(),
                uid: switch.uid.clone(),
                generation: switch.generation,
                create_time: Some(time_to_wire(switch.created)),
                ..v1::Metadata::default()
            }),
            spec: Some(v1::SwitchSpec::from(&switch.spec)),
            status: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use proto_model::Timestamp;

    use super::*;

    fn switch() -> SwitchConfig {
        let port = |name: &str, cable_m| SwitchPort { name: name.into(), cable_m, optics: "DR4".into() };
        SwitchConfig {
            name: SwitchName::new("pod_1.leaf-0").unwrap(),
            uid: "s1".into(),
            generation: 3,
            created: Timestamp(7000),
            spec: SwitchSpec {
                nos: SwitchNos::Sonic,
                version: "202505".into(),
                asic: Some(SwitchAsic::Spectrum4),
                loopback: Some(Ipv4Addr::new(10, 1, 2, 3)),
                asn: 65_001,
                cable_m: 7,
                ports: vec![port("Ethernet0", 3), port("Ethernet8", 0)],
                management: Some(SwitchManagement {
                    endpoint: "leaf0.mgmt:9339".into(),
                    credential: Some(CredentialName::new("gnmi").unwrap()),
                }),
                repair_drift: true,
            },
        }
    }

    fn fields(wire: v1::Switch) -> Vec<String> {
        SwitchConfig::try_from(wire).unwrap_err().0.into_iter().map(|error| error.field).collect()
    }

    #[test]
    fn switches_survive_the_wire() {
        let full = switch();
        let mut plain = switch();
        plain.spec = SwitchSpec {
            nos: SwitchNos::Linux,
            version: String::new(),
            asic: None,
            loopback: None,
            asn: 0,
            cable_m: 0,
            ports: Vec::new(),
            management: None,
            repair_drift: false,
        };
        for one in [full, plain] {
            let bytes = v1::Switch::from(&one).encode_to_vec();
            assert_eq!(SwitchConfig::try_from(v1::Switch::decode(bytes.as_slice()).unwrap()), Ok(one));
        }
        for nos in SwitchNos::ALL {
            assert_eq!(super::nos(nos_to_wire(*nos).into()), Some(*nos));
            // As documents write it.
            assert_eq!(nos_to_wire(*nos).as_str_name(), nos.as_str());
        }
    }

    #[test]
    fn every_wrong_field_of_a_switch_is_named() {
        let mut wire = v1::Switch::from(&switch());
        (wire.api_version, wire.kind) = ("rail/v9".into(), "Leaf".into());
        wire.metadata.as_mut().unwrap().name = "Leaf0".into();
        let spec = wire.spec.as_mut().unwrap();
        (spec.nos, spec.asic, spec.loopback) = (99, "spectrum".into(), "10.0.0.300".into());
        (spec.version, spec.cable_m) = ("a\nb".into(), 10_001);
        spec.ports[0].name = "-".into();
        spec.ports[1].cable_m = 10_001;
        spec.ports[1].optics = "x".repeat(129);
        spec.management = Some(v1::SwitchManagement { endpoint: "leaf".into(), credential: "../x".into() });
        let expected = [
            "apiVersion",
            "kind",
            "metadata.name",
            "spec.nos",
            "spec.asic",
            "spec.loopback",
            "spec.management.credential",
            "spec.version",
            "spec.cableM",
            "spec.ports[0].name",
            "spec.ports[1].cableM",
            "spec.ports[1].optics",
            "spec.management.endpoint",
        ];
        assert_eq!(fields(wire), expected);
        assert_eq!(fields(v1::Switch::default())[..2], ["metadata", "metadata.name"]);
        let without = v1::Switch { spec: None, ..v1::Switch::from(&switch()) };
        assert_eq!(fields(without), ["spec"]);
    }

    #[test]
    fn an_asic_that_is_not_known_is_answered_with_the_nearest() {
        let mut wire = v1::Switch::from(&switch());
        wire.spec.as_mut().unwrap().asic = "tomahawk5".into();
        let error = SwitchConfig::try_from(wire).unwrap_err().to_string();
        assert!(error.contains("did you mean tomahawk-5?") && error.contains("sonic-vs"), "{error}");
    }
}
