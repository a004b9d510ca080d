//! What NICs and GPUs say of themselves.

use proto_model::{
    Distance, Gid, GidKind, GpuDirect, GpuFacts, GpuLink, GpuPath, LinkPeer, MigInstance, NicFacts, NicPort,
    PathCause, PathCauseCode, PciDevice, PhysicalState, PortState,
};

use crate::v1;
use proto_model::fields::{FieldErrors, Fields};

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

    fn try_from(row: v1::PciDevice) -> Result<Self, FieldErrors> {
        let v1::PciDevice { id, class, path, speed, width, slot } = row;
        let mut fields = Fields::default();
        let all = [("id", &id), ("class", &class), ("path", &path), ("speed", &speed), ("slot", &slot)];
        texts(&mut fields, &all.map(|(field, text)| (field, text.as_str())));
        fields.finish(Some(Self { id, class, path, speed, width, slot }))
    }
}

impl TryFrom<v1::NicFacts> for NicFacts {
    type Error = FieldErrors;

    fn try_from(row: v1::NicFacts) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let v1::NicFacts { pci, driver, firmware, port, gids, rail_reason } = row;
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

impl TryFrom<v1::Gid> for Gid {
    type Error = FieldErrors;

    fn try_from(row: v1::Gid) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        texts(&mut fields, &[("netdev", &row.netdev)]);
        let gid = row.gid.parse().map_err(|_| format!("'{}' is not a GID", row.gid.escape_debug()));
        let kind = match v1::gid::Type::try_from(row.r#type) {
            Ok(v1::gid::Type::RoceV1) => GidKind::RoceV1,
            Ok(v1::gid::Type::RoceV2) => GidKind::RoceV2,
            _ => GidKind::Other,
        };
        let gid = fields.take("gid", gid);
        fields.finish(gid.map(|gid| Self { index: row.index, gid, kind, netdev: row.netdev }))
    }
}

impl TryFrom<v1::GpuFacts> for GpuFacts {
    type Error = FieldErrors;

    fn try_from(row: v1::GpuFacts) -> Result<Self, FieldErrors> {
        use v1::gpu_facts::Distance as Stored;
        let mut fields = Fields::default();
        let nic_distance = match Stored::try_from(row.nic_distance) {
            Ok(Stored::Pix) => Some(Distance::Pix),
            Ok(Stored::Pxb) => Some(Distance::Pxb),
            Ok(Stored::Phb) => Some(Distance::Phb),
            Ok(Stored::Sys) => Some(Distance::Sys),
            _ => None,
        };
        let v1::GpuFacts { pci, driver, driver_version, nic, links, gpu_direct, mig, .. } = row;
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

fn path(row: i32) -> Result<GpuPath, String> {
    use v1::gpu_direct::Path;
    match Path::try_from(row) {
        Ok(Path::DmaBuf) => Ok(GpuPath::DmaBuf),
        Ok(Path::PeerMemory) => Ok(GpuPath::PeerMemory),
        Ok(Path::HostStaging) => Ok(GpuPath::HostStaging),
        _ => Err("must be DMA_BUF, PEER_MEMORY or HOST_STAGING".to_owned()),
    }
}

impl TryFrom<v1::GpuDirect> for GpuDirect {
    type Error = FieldErrors;

    fn try_from(row: v1::GpuDirect) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        texts(&mut fields, &[("reason", &row.reason)]);
        at_most(&mut fields, "causes", row.causes.len(), CAUSES_MAX);
        let path = fields.take("path", path(row.path));
        let causes = fields.list("causes", row.causes.into_iter().take(CAUSES_MAX).collect());
        fields.finish(path.map(|path| Self { path, reason: row.reason, causes }))
    }
}

impl TryFrom<v1::gpu_direct::Cause> for PathCause {
    type Error = FieldErrors;

    fn try_from(row: v1::gpu_direct::Cause) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let v1::gpu_direct::Cause { path: way, code, message, fix } = row;
        let all = [("code", &code), ("message", &message), ("fix", &fix)];
        texts(&mut fields, &all.map(|(field, text)| (field, text.as_str())));
        let path = fields.take("path", path(way));
        fields.finish(path.map(|path| Self { path, code: PathCauseCode::from_text(&code), message, fix }))
    }
}

impl TryFrom<v1::GpuLink> for GpuLink {
    type Error = FieldErrors;

    fn try_from(row: v1::GpuLink) -> Result<Self, FieldErrors> {
        use v1::gpu_link::Peer;
        let peer = match Peer::try_from(row.peer) {
            Ok(Peer::Gpu) if row.gpu >= GPUS_MAX => {
                let text = format!("{} is too large; GPUs are numbered from 0 to {}", row.gpu, GPUS_MAX - 1);
                return Err(FieldErrors::one("gpu", text));
            }
            Ok(Peer::Gpu) => LinkPeer::Gpu(row.gpu),
            Ok(Peer::Switch) => LinkPeer::Switch,
            _ => LinkPeer::Other,
        };
        Ok(Self { peer, count: row.count, version: row.version })
    }
}
