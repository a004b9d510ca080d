//! What NICs and GPUs say of themselves.

use proto_model::{
    Distance, Gid, GidKind, GpuDirect, GpuFacts, GpuLink, GpuPath, LinkPeer, MigInstance, NicFacts, NicPort,
    PathCause, PathCauseCode, PciDevice, PhysicalState, PortState,
};

use super::{FieldErrors, Fields};
use crate::v1;

/// Bytes of one text; a PCIe path of sixteen bridges is shorter.
const TEXT_MAX: usize = 256;
/// Entries of one NIC's GID table that are reported.
const GIDS_MAX: usize = 64;
/// Other ends of one GPU's links.
const LINKS_MAX: usize = 64;
/// Things that are wrong with the ways of one GPU.
const CAUSES_MAX: usize = 64;
/// GPUs of a server are numbered below this.
const GPUS_MAX: u32 = 64;

/// Every text must be one printable line of a bounded length.
fn texts(fields: &mut Fields, all: &[(&str, &str)]) {
    for (field, text) in all {
        if text.len() > TEXT_MAX || text.chars().any(char::is_control) {
            fields.fail(field, format!("must be one printable line of at most {TEXT_MAX} bytes"));
        }
    }
}

fn at_most(fields: &mut Fields, field: &str, count: usize, most: usize) {
    if count > most {
        fields.fail(field, format!("{count} are more than the {most} allowed"));
    }
}

impl TryFrom<v1::PciDevice> for PciDevice {
    type Error = FieldErrors;

    fn try_from(wire: v1::PciDevice) -> Result<Self, FieldErrors> {
        let v1::PciDevice { id, class, path, speed, width, slot } = wire;
        let mut fields = Fields::default();
        let all = [("id", &id), ("class", &class), ("path", &path), ("speed", &speed), ("slot", &slot)];
        texts(&mut fields, &all.map(|(field, text)| (field, text.as_str())));
        fields.finish(Some(Self { id, class, path, speed, width, slot }))
    }
}

impl From<&PciDevice> for v1::PciDevice {
    fn from(pci: &PciDevice) -> Self {
        let PciDevice { id, class, path, speed, width, slot } = pci.clone();
        Self { id, class, path, speed, width, slot }
    }
}

impl TryFrom<v1::NicFacts> for NicFacts {
    type Error = FieldErrors;

    fn try_from(wire: v1::NicFacts) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let v1::NicFacts { pci, driver, firmware, port, gids, rail_reason } = wire;
        let all = [("driver", &driver), ("firmware", &firmware), ("railReason", &rail_reason)];
        texts(&mut fields, &all.map(|(field, text)| (field, text.as_str())));
        at_most(&mut fields, "gids", gids.len(), GIDS_MAX);
        let pci = fields.nest("pci", pci.unwrap_or_default().try_into()).unwrap_or_default();
        let gids = fields.list("gids", gids.into_iter().take(GIDS_MAX).collect());
        let port = port.map(|port| NicPort {
            number: port.number,
            state: u8::try_from(port.state).ok().and_then(PortState::from_kernel),
            physical: u8::try_from(port.physical).ok().and_then(PhysicalState::from_kernel),
        });
        fields.finish(Some(Self { pci, driver, firmware, port, gids, rail_reason }))
    }
}

impl From<&NicFacts> for v1::NicFacts {
    fn from(facts: &NicFacts) -> Self {
        Self {
            pci: Some((&facts.pci).into()),
            driver: facts.driver.clone(),
            firmware: facts.firmware.clone(),
            port: facts.port.map(Into::into),
            gids: facts.gids.iter().map(Into::into).collect(),
            rail_reason: facts.rail_reason.clone(),
        }
    }
}

impl From<NicPort> for v1::NicPort {
    fn from(port: NicPort) -> Self {
        use v1::nic_port::{Physical, State};
        let state = match port.state {
            None => State::Unspecified,
            Some(PortState::Down) => State::Down,
            Some(PortState::Init) => State::Init,
            Some(PortState::Armed) => State::Armed,
            Some(PortState::Active) => State::Active,
            Some(PortState::ActiveDefer) => State::ActiveDefer,
        };
        let physical = match port.physical {
            None => Physical::Unspecified,
            Some(PhysicalState::Sleep) => Physical::Sleep,
            Some(PhysicalState::Polling) => Physical::Polling,
            Some(PhysicalState::Disabled) => Physical::Disabled,
            Some(PhysicalState::Training) => Physical::Training,
            Some(PhysicalState::LinkUp) => Physical::LinkUp,
            Some(PhysicalState::ErrorRecovery) => Physical::ErrorRecovery,
            Some(PhysicalState::PhyTest) => Physical::PhyTest,
        };
        Self { number: port.number, state: state.into(), physical: physical.into() }
    }
}

impl TryFrom<v1::Gid> for Gid {
    type Error = FieldErrors;

    fn try_from(wire: v1::Gid) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        texts(&mut fields, &[("netdev", &wire.netdev)]);
        let gid = wire.gid.parse().map_err(|_| format!("'{}' is not a GID", wire.gid.escape_debug()));
        let kind = match v1::gid::Type::try_from(wire.r#type) {
            Ok(v1::gid::Type::RoceV1) => GidKind::RoceV1,
            Ok(v1::gid::Type::RoceV2) => GidKind::RoceV2,
            _ => GidKind::Other,
        };
        let gid = fields.take("gid", gid);
        fields.finish(gid.map(|gid| Self { index: wire.index, gid, kind, netdev: wire.netdev }))
    }
}

impl From<&Gid> for v1::Gid {
    fn from(gid: &Gid) -> Self {
        let kind = match gid.kind {
            GidKind::RoceV1 => v1::gid::Type::RoceV1,
            GidKind::RoceV2 => v1::gid::Type::RoceV2,
            GidKind::Other => v1::gid::Type::Unspecified,
        };
        let netdev = gid.netdev.clone();
        Self { index: gid.index, gid: gid.gid.to_string(), r#type: kind.into(), netdev }
    }
}

impl TryFrom<v1::GpuFacts> for GpuFacts {
    type Error = FieldErrors;

    fn try_from(wire: v1::GpuFacts) -> Result<Self, FieldErrors> {
        use v1::gpu_facts::Distance as Wire;
        let mut fields = Fields::default();
        let nic_distance = match Wire::try_from(wire.nic_distance) {
            Ok(Wire::Pix) => Some(Distance::Pix),
            Ok(Wire::Pxb) => Some(Distance::Pxb),
            Ok(Wire::Phb) => Some(Distance::Phb),
            Ok(Wire::Sys) => Some(Distance::Sys),
            _ => None,
        };
        let v1::GpuFacts { pci, driver, driver_version, nic, links, gpu_direct, mig, .. } = wire;
        let all = [("driver", &driver), ("driverVersion", &driver_version), ("nic", &nic)];
        texts(&mut fields, &all.map(|(field, text)| (field, text.as_str())));
        at_most(&mut fields, "links", links.len(), LINKS_MAX);
        let pci = fields.nest("pci", pci.unwrap_or_default().try_into()).unwrap_or_default();
        let links = fields.list("links", links.into_iter().take(LINKS_MAX).collect());
        let gpu_direct = gpu_direct.and_then(|direct| fields.nest("gpuDirect", direct.try_into()));
        let mig = mig.map(|mig| MigInstance {
            gpu_instance: mig.gpu_instance,
            compute_instance: mig.compute_instance,
        });
        fields.finish(Some(Self { pci, driver, driver_version, nic, nic_distance, links, gpu_direct, mig }))
    }
}

impl From<&GpuFacts> for v1::GpuFacts {
    fn from(facts: &GpuFacts) -> Self {
        use v1::gpu_facts::Distance as Wire;
        let distance = match facts.nic_distance {
            None => Wire::Unspecified,
            Some(Distance::Pix) => Wire::Pix,
            Some(Distance::Pxb) => Wire::Pxb,
            Some(Distance::Phb) => Wire::Phb,
            Some(Distance::Sys) => Wire::Sys,
        };
        Self {
            pci: Some((&facts.pci).into()),
            driver: facts.driver.clone(),
            driver_version: facts.driver_version.clone(),
            nic: facts.nic.clone(),
            nic_distance: distance.into(),
            links: facts.links.iter().map(Into::into).collect(),
            gpu_direct: facts.gpu_direct.as_ref().map(Into::into),
            mig: facts.mig.map(|mig| v1::MigInstance {
                gpu_instance: mig.gpu_instance,
                compute_instance: mig.compute_instance,
            }),
        }
    }
}

fn path(wire: i32) -> Result<GpuPath, String> {
    use v1::gpu_direct::Path;
    match Path::try_from(wire) {
        Ok(Path::DmaBuf) => Ok(GpuPath::DmaBuf),
        Ok(Path::PeerMemory) => Ok(GpuPath::PeerMemory),
        Ok(Path::HostStaging) => Ok(GpuPath::HostStaging),
        _ => Err("must be DMA_BUF, PEER_MEMORY or HOST_STAGING".to_owned()),
    }
}

fn path_to_wire(path: GpuPath) -> i32 {
    use v1::gpu_direct::Path;
    let path = match path {
        GpuPath::DmaBuf => Path::DmaBuf,
        GpuPath::PeerMemory => Path::PeerMemory,
        GpuPath::HostStaging => Path::HostStaging,
    };
    path.into()
}

impl TryFrom<v1::GpuDirect> for GpuDirect {
    type Error = FieldErrors;

    fn try_from(wire: v1::GpuDirect) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        texts(&mut fields, &[("reason", &wire.reason)]);
        at_most(&mut fields, "causes", wire.causes.len(), CAUSES_MAX);
        let path = fields.take("path", path(wire.path));
        let causes = fields.list("causes", wire.causes.into_iter().take(CAUSES_MAX).collect());
        fields.finish(path.map(|path| Self { path, reason: wire.reason, causes }))
    }
}

impl TryFrom<v1::gpu_direct::Cause> for PathCause {
    type Error = FieldErrors;

    fn try_from(wire: v1::gpu_direct::Cause) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let v1::gpu_direct::Cause { path: way, code, message, fix } = wire;
        let all = [("code", &code), ("message", &message), ("fix", &fix)];
        texts(&mut fields, &all.map(|(field, text)| (field, text.as_str())));
        let path = fields.take("path", path(way));
        fields.finish(path.map(|path| Self { path, code: PathCauseCode::from_text(&code), message, fix }))
    }
}

impl From<&GpuDirect> for v1::GpuDirect {
    fn from(direct: &GpuDirect) -> Self {
        let cause = |cause: &PathCause| v1::gpu_direct::Cause {
            path: path_to_wire(cause.path),
            code: cause.code.to_string(),
            message: cause.message.clone(),
            fix: cause.fix.clone(),
        };
        Self {
            path: path_to_wire(direct.path),
            reason: direct.reason.clone(),
            causes: direct.causes.iter().map(cause).collect(),
        }
    }
}

impl TryFrom<v1::GpuLink> for GpuLink {
    type Error = FieldErrors;

    fn try_from(wire: v1::GpuLink) -> Result<Self, FieldErrors> {
        use v1::gpu_link::Peer;
        let peer = match Peer::try_from(wire.peer) {
            Ok(Peer::Gpu) if wire.gpu >= GPUS_MAX => {
                let text = format!("{} is too large; GPUs are numbered from 0 to {}", wire.gpu, GPUS_MAX - 1);
                return Err(FieldErrors::one("gpu", text));
            }
            Ok(Peer::Gpu) => LinkPeer::Gpu(wire.gpu),
            Ok(Peer::Switch) => LinkPeer::Switch,
            _ => LinkPeer::Other,
        };
        Ok(Self { peer, count: wire.count, version: wire.version })
    }
}

impl From<&GpuLink> for v1::GpuLink {
    fn from(link: &GpuLink) -> Self {
        use v1::gpu_link::Peer;
        let (peer, gpu) = match link.peer {
            LinkPeer::Gpu(gpu) => (Peer::Gpu, gpu),
            LinkPeer::Switch => (Peer::Switch, 0),
            LinkPeer::Other => (Peer::Unspecified, 0),
        };
        Self { peer: peer.into(), gpu, count: link.count, version: link.version }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nic() -> v1::Nic {
        let gid = |index, gid: &str, kind: v1::gid::Type| v1::Gid {
            index,
            gid: gid.into(),
            r#type: kind.into(),
            netdev: "ens1np0".into(),
        };
        let facts = v1::NicFacts {
            pci: Some(v1::PciDevice {
                id: "15b3:1021".into(),
                path: "pci0000:17/0000:18:00.0".into(),
                width: 16,
                ..Default::default()
            }),
            driver: "mlx5_core".into(),
            firmware: "28.39.1002".into(),
            port: Some(v1::NicPort { number: 1, state: 4, physical: 5 }),
            gids: vec![
                gid(0, "fe80::1", v1::gid::Type::RoceV1),
                gid(3, "::ffff:10.0.0.5", v1::gid::Type::RoceV2),
            ],
            rail_reason: "PCI order".into(),
        };
        v1::Nic { device: "mlx5_0".into(), facts: Some(facts), ..Default::default() }
    }

    fn gpu() -> v1::Gpu {
        let link =
            |peer: v1::gpu_link::Peer, gpu| v1::GpuLink { peer: peer.into(), gpu, count: 18, version: 4 };
        let facts = v1::GpuFacts {
            driver: "nvidia".into(),
            nic: "mlx5_0".into(),
            nic_distance: v1::gpu_facts::Distance::Pix.into(),
            links: vec![link(v1::gpu_link::Peer::Switch, 0), link(v1::gpu_link::Peer::Gpu, 3)],
            gpu_direct: Some(v1::GpuDirect {
                path: v1::gpu_direct::Path::PeerMemory.into(),
                reason: "nvidia_peermem is loaded".into(),
                causes: vec![v1::gpu_direct::Cause {
                    path: v1::gpu_direct::Path::DmaBuf.into(),
                    code: "KernelTooOld".into(),
                    message: "Linux 5.4".into(),
                    fix: "run 5.12".into(),
                }],
            }),
            ..Default::default()
        };
        v1::Gpu { facts: Some(facts), ..Default::default() }
    }

    #[test]
    fn facts_survive_the_wire() {
        let wire = v1::Inventory { nics: vec![nic()], gpus: vec![gpu()], ..Default::default() };
        let inventory = proto_model::Inventory::try_from(wire).unwrap();
        let facts = inventory.nics[0].facts.as_deref().unwrap();
        assert_eq!(facts.gids[1].address().to_string(), "10.0.0.5");
        let port = facts.port.unwrap();
        assert_eq!((port.state, port.physical), (Some(PortState::Active), Some(PhysicalState::LinkUp)));
        let links = &inventory.gpus[0].facts.as_deref().unwrap().links;
        assert_eq!(
            links.iter().map(|link| link.peer).collect::<Vec<_>>(),
            [LinkPeer::Switch, LinkPeer::Gpu(3)]
        );
        assert_eq!(proto_model::Inventory::try_from(v1::Inventory::from(&inventory)), Ok(inventory));
    }

    #[test]
    fn states_are_the_kernels_numbers_on_the_wire() {
        for number in 0..=9 {
            let port = NicPort {
                number: 1,
                state: PortState::from_kernel(number),
                physical: PhysicalState::from_kernel(number),
            };
            let wire = v1::NicPort::from(port);
            let reported = |known: bool| if known { i32::from(number) } else { 0 };
            assert_eq!(
                (wire.state, wire.physical),
                (reported(port.state.is_some()), reported(port.physical.is_some()))
            );
        }
    }

    #[test]
    fn every_wrong_fact_is_named() {
        let (mut nic, mut gpu) = (nic(), gpu());
        let facts = nic.facts.get_or_insert_default();
        facts.firmware = "x".repeat(TEXT_MAX + 1);
        facts.pci.get_or_insert_default().slot = "a\nb".into();
        facts.gids[1].gid = "10.0.0.5".into();
        let facts = gpu.facts.get_or_insert_default();
        facts.links[1].gpu = 64;
        facts.driver = "\u{1b}".into();
        let direct = facts.gpu_direct.get_or_insert_default();
        (direct.path, direct.causes[0].path, direct.causes[0].fix) = (9, 0, "a\nb".into());
        let wire = v1::Inventory { nics: vec![nic], gpus: vec![gpu], ..Default::default() };
        let errors = proto_model::Inventory::try_from(wire).unwrap_err();
        let fields: Vec<&str> = errors.0.iter().map(|error| error.field.as_str()).collect();
        let right = [
            "gpus[0].facts.driver",
            "gpus[0].facts.links[1].gpu",
            "gpus[0].facts.gpuDirect.path",
            "gpus[0].facts.gpuDirect.causes[0].fix",
            "gpus[0].facts.gpuDirect.causes[0].path",
            "nics[0].facts.firmware",
            "nics[0].facts.pci.slot",
            "nics[0].facts.gids[1].gid",
        ];
        assert_eq!(fields, right, "{errors}");
    }

    #[test]
    fn what_an_agent_tells_in_words_survives_and_is_bounded() {
        let line = |message: &str| v1::Reason {
            code: "NicDown".into(),
            message: message.into(),
            scope: "nic/mlx5_0".into(),
            since: Some(crate::convert::time_to_wire(proto_model::Timestamp(1_700_000_000_123))),
            ..Default::default()
        };
        let wire = v1::Inventory {
            changes: vec![line("a"), line("b")],
            findings: vec![line("c")],
            ..Default::default()
        };
        let inventory = proto_model::Inventory::try_from(wire).unwrap();
        assert_eq!(inventory.changes[1].message, "b");
        assert_eq!(proto_model::Inventory::try_from(v1::Inventory::from(&inventory)), Ok(inventory));
        let wire = v1::Inventory {
            changes: vec![line("two\nlines"); 65],
            findings: vec![line(&"x".repeat(513))],
            ..Default::default()
        };
        let errors = proto_model::Inventory::try_from(wire).unwrap_err();
        let fields: Vec<&str> = errors.0.iter().map(|error| error.field.as_str()).take(3).collect();
        assert_eq!(fields, ["findings[0].message", "changes", "changes[0].message"]);
    }
}
