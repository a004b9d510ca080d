//! Switches: what the fabric document does not say of them. What they are cabled to stands there, under the same name.

use std::{collections::BTreeSet, net::Ipv4Addr};

use thiserror::Error;

use crate::{CredentialName, SwitchName, Timestamp, fields::Fields};

word! {
    /// The operating system of a switch.
    SwitchNos {
        /// SONiC.
        Sonic = "SONIC",
        /// Cumulus Linux.
        Cumulus = "CUMULUS",
        /// Arista EOS.
        Eos = "EOS",
        /// Cisco NX-OS.
        NxOs = "NX_OS",
        /// Any Linux with FRR.
        Linux = "LINUX",
    }
}

word! {
    /// The ASIC of a switch, by the word that documents and command lines have for it.
    SwitchAsic {
        /// NVIDIA Spectrum-2.
        Spectrum2 = "spectrum-2",
        /// NVIDIA Spectrum-3.
        Spectrum3 = "spectrum-3",
        /// NVIDIA Spectrum-4.
        Spectrum4 = "spectrum-4",
        /// NVIDIA Spectrum-5.
        Spectrum5 = "spectrum-5",
        /// Broadcom Tomahawk 4.
        Tomahawk4 = "tomahawk-4",
        /// Broadcom Tomahawk 5.
        Tomahawk5 = "tomahawk-5",
        /// Intel Tofino 2.
        Tofino2 = "tofino-2",
        /// SONiC's virtual switch.
        SonicVs = "sonic-vs",
    }
}

/// An ASIC that is not known.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("there is no ASIC {given:?}; did you mean {nearest}? Known are {}", words())]
pub struct AsicError {
    /// What was given, shortened.
    pub given: String,
    /// What is written most like it.
    pub nearest: SwitchAsic,
}

fn words() -> String {
    SwitchAsic::ALL.iter().map(|asic| asic.as_str()).collect::<Vec<_>>().join(", ")
}

impl SwitchAsic {
    /// The ASIC of a word.
    ///
    /// # Errors
    /// [`AsicError`] with what is written most like it, and all that there are.
    pub fn from_word(text: &str) -> Result<Self, AsicError> {
        if let Some(known) = Self::ALL.iter().find(|asic| asic.as_str() == text) {
            return Ok(*known);
        }
        let given: String = text.chars().take(64).collect();
        let lower = given.to_lowercase();
        let far = |asic: &&Self| strsim::damerau_levenshtein(&lower, asic.as_str());
        let nearest = Self::ALL.iter().min_by_key(far).copied().unwrap_or(Self::Spectrum4);
        Err(AsicError { given, nearest })
    }
}

/// A switch of the fabric, as an administrator has written it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchConfig {
    /// Its name, as the fabric document has it.
    pub name: SwitchName,
    /// Identifier of this very document; a later one of the same name has another.
    pub uid: String,
    /// Counts changes of what was asked for.
    pub generation: u64,
    /// When it was made.
    pub created: Timestamp,
    /// What was asked for.
    pub spec: SwitchSpec,
}

/// What a switch is and how it is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchSpec {
    /// Its operating system.
    pub nos: SwitchNos,
    /// The version of that which is expected; empty: any.
    pub version: String,
    /// Its ASIC; `None` on Linux, and only there.
    pub asic: Option<SwitchAsic>,
    /// Address of its loopback; `None`: planned from the fabric.
    pub loopback: Option<Ipv4Addr>,
    /// Number of its autonomous system; 0: planned from the fabric.
    pub asn: u32,
    /// Length in metres of cables to what is below, where a port does not say another; 0: by its tier.
    pub cable_m: u32,
    /// What is known of single ports; each name once.
    pub ports: Vec<SwitchPort>,
    /// Where its agent, which runs elsewhere, reaches it; then routing of a SONiC switch is the site's own. `None`: its agent runs on it, or it
    /// is configured by files.
    pub management: Option<SwitchManagement>,
    /// What stands on it differently from the plan is put right without being asked.
    pub repair_drift: bool,
}

/// What is known of one port of a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchPort {
    /// As the operating system has it.
    pub name: String,
    /// Length of its cable in metres; 0: as the switch says.
    pub cable_m: u32,
    /// What the cable or module is, for people; may be empty.
    pub optics: String,
}

/// A management endpoint that speaks gNMI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchManagement {
    /// HOST:PORT.
    pub endpoint: String,
    /// The credential's name; `None`: without one.
    pub credential: Option<CredentialName>,
}

impl SwitchSpec {
    /// Metres of a cable at most.
    pub const CABLE_MOST: u32 = 10_000;
    /// Ports at most.
    pub const PORTS_MOST: usize = 1024;
    /// Bytes of a version, and of what a cable or module is, at most.
    pub const TEXT_MOST: usize = 128;
    /// Bytes of a port's name at most.
    pub const PORT_NAME_MOST: usize = 63;
    /// Bytes of an endpoint at most.
    pub const ENDPOINT_MOST: usize = 255;

    /// The switch's agent puts its routing in place. That of a SONiC switch which is reached by gNMI cannot: SONiC's server has no way to
    /// `frr.conf`.
    #[must_use]
    pub fn agent_has_routing(&self) -> bool {
        self.nos != SwitchNos::Sonic || self.management.is_none()
    }

    /// Notes what is wrong with each value by its field below `spec`.
    pub fn check(&self, fields: &mut Fields) {
        text(fields, "spec.version", &self.version);
        match (self.nos, self.asic) {
            (SwitchNos::Linux, Some(_)) => fields.fail("spec.asic", "must be empty on LINUX"),
            (SwitchNos::Linux, None) | (_, Some(_)) => {}
            (nos, None) => fields.fail("spec.asic", format!("is required on {nos}: one of {}", words())),
        }
        if let Some(address) = self.loopback.filter(|address| !is_host(*address)) {
            fields.fail("spec.loopback", format!("{address} is no address that a switch can have"));
        }
        metres(fields, "spec.cableM", self.cable_m);
        if self.ports.len() > Self::PORTS_MOST {
            let message =
                format!("has {} entries; at most {} are allowed", self.ports.len(), Self::PORTS_MOST);
            fields.fail("spec.ports", message);
        } else {
            self.check_ports(fields);
        }
        if let Some(management) = &self.management {
            endpoint(fields, &management.endpoint);
        }
    }

    fn check_ports(&self, fields: &mut Fields) {
        let mut seen = BTreeSet::new();
        for (at, port) in self.ports.iter().enumerate() {
            let field = |name: &str| format!("spec.ports[{at}].{name}");
            if !is_port_name(&port.name) {
                let message = format!(
                    "must be 1 to {} letters, digits, '-', '_', '.', ':' or '/', and begin with a letter or digit",
                    Self::PORT_NAME_MOST
                );
                fields.fail(&field("name"), message);
            } else if !seen.insert(port.name.as_str()) {
                fields.fail(&field("name"), format!("{} is named twice", port.name));
            }
            metres(fields, &field("cableM"), port.cable_m);
            text(fields, &field("optics"), &port.optics);
        }
    }
}

/// Whether an interface can have this address.
fn is_host(address: Ipv4Addr) -> bool {
    !address.is_unspecified() && !address.is_loopback() && !address.is_multicast() && !address.is_broadcast()
}

fn is_port_name(name: &str) -> bool {
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '/');
    begins && name.len() <= SwitchSpec::PORT_NAME_MOST && name.chars().all(fine)
}

fn text(fields: &mut Fields, field: &str, text: &str) {
    if text.len() > SwitchSpec::TEXT_MOST || text.chars().any(char::is_control) {
        let most = SwitchSpec::TEXT_MOST;
        fields.fail(field, format!("must be one printable line of at most {most} bytes"));
    }
}

fn metres(fields: &mut Fields, field: &str, metres: u32) {
    if metres > SwitchSpec::CABLE_MOST {
        fields.fail(field, format!("{metres} is more than {}", SwitchSpec::CABLE_MOST));
    }
}

fn endpoint(fields: &mut Fields, text: &str) {
    let parts = text.rsplit_once(':');
    let port = parts.and_then(|(_, port)| port.parse::<u16>().ok()).is_some_and(|port| port > 0);
    let host = parts.is_some_and(|(host, _)| !host.is_empty());
    let plain = !text.chars().any(|c| c.is_control() || c == ' ');
    if text.len() > SwitchSpec::ENDPOINT_MOST || !port || !host || !plain {
        let most = SwitchSpec::ENDPOINT_MOST;
        fields.fail("spec.management.endpoint", format!("must be HOST:PORT, at most {most} bytes"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> SwitchSpec {
        SwitchSpec {
            nos: SwitchNos::Sonic,
            version: String::new(),
            asic: Some(SwitchAsic::Spectrum4),
            loopback: None,
            asn: 0,
            cable_m: 0,
            ports: vec![SwitchPort { name: "Ethernet8".into(), cable_m: 3, optics: "DR4".into() }],
            management: None,
            repair_drift: false,
        }
    }

    fn wrong(spec: &SwitchSpec) -> Vec<String> {
        let mut fields = Fields::default();
        spec.check(&mut fields);
        fields.0.into_iter().map(|error| error.field).collect()
    }

    #[test]
    fn every_wrong_value_is_named_by_its_field() {
        assert!(wrong(&spec()).is_empty());
        assert!(wrong(&SwitchSpec { nos: SwitchNos::Linux, asic: None, ..spec() }).is_empty());
        let endpoint = |text: &str| {
            let management = Some(SwitchManagement { endpoint: text.into(), credential: None });
            SwitchSpec { management, ..spec() }
        };
        let port = |name: &str| SwitchPort { name: name.into(), cable_m: 0, optics: String::new() };
        let loopback = |text: &str| SwitchSpec { loopback: Some(text.parse().unwrap()), ..spec() };
        for (wrongly, field) in [
            (SwitchSpec { version: "x".repeat(129), ..spec() }, "spec.version"),
            (SwitchSpec { version: "a\nb".into(), ..spec() }, "spec.version"),
            (SwitchSpec { asic: None, ..spec() }, "spec.asic"),
            (SwitchSpec { nos: SwitchNos::Linux, ..spec() }, "spec.asic"),
            (loopback("127.0.0.1"), "spec.loopback"),
            (loopback("224.0.0.1"), "spec.loopback"),
            (SwitchSpec { cable_m: 10_001, ..spec() }, "spec.cableM"),
            (SwitchSpec { ports: vec![port("a"); 1025], ..spec() }, "spec.ports"),
            (SwitchSpec { ports: vec![port("a"), port("a")], ..spec() }, "spec.ports[1].name"),
            (SwitchSpec { ports: vec![port("-a")], ..spec() }, "spec.ports[0].name"),
            (SwitchSpec { ports: vec![port("")], ..spec() }, "spec.ports[0].name"),
            (endpoint("leaf0"), "spec.management.endpoint"),
            (endpoint("leaf0:0"), "spec.management.endpoint"),
            (endpoint(":9339"), "spec.management.endpoint"),
            (endpoint("a b:9339"), "spec.management.endpoint"),
        ] {
            assert_eq!(wrong(&wrongly), [field], "{wrongly:?}");
        }
        assert!(wrong(&endpoint("leaf0.lab:9339")).is_empty());
        assert!(wrong(&endpoint("[fd00::1]:9339")).is_empty());
    }

    #[test]
    fn an_asic_is_known_by_its_word_and_a_wrong_one_has_a_nearest() {
        for asic in SwitchAsic::ALL {
            assert_eq!(SwitchAsic::from_word(asic.as_str()), Ok(*asic));
        }
        let error = SwitchAsic::from_word("Spectrum4").unwrap_err();
        assert_eq!(error.nearest, SwitchAsic::Spectrum4);
        let text = error.to_string();
        assert!(text.contains("did you mean spectrum-4?") && text.contains("tomahawk-5"), "{text}");
    }

    #[test]
    fn a_switch_is_named_as_fabric_documents_name_them() {
        for text in ["leaf0", "pod_1.leaf-0", "a"] {
            assert_eq!(SwitchName::new(text).unwrap().as_str(), text);
        }
        for text in ["", "Leaf0", "-leaf", "leaf.", "leaf 0", "a/b", &"x".repeat(64)] {
            assert!(SwitchName::new(text).is_err(), "{text}");
        }
    }
}
