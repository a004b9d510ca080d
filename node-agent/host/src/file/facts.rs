//! What an inventory file says of hardware beyond what placement needs.

use std::net::Ipv6Addr;

use proto_model::{
    Distance, Gid, GidKind, GpuDirect, GpuFacts, GpuLink, GpuPath, LinkPeer, MigInstance, NicFacts, NicPort,
    PathCause, PathCauseCode, PciDevice, PhysicalState, PortState,
};
use serde::{Deserialize, Serialize};

use super::bounds::INDEX_MAX;

/// Entries of a list; no device has more.
const LIST_MOST: usize = 64;
/// Bytes of a text, as a controller takes them.
const TEXT_MAX: usize = 256;

#[derive(Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct FilePci {
    id: String,
    class: String,
    path: String,
    speed: String,
    width: u32,
    slot: String,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct FileNicFacts {
    pci: FilePci,
    driver: String,
    firmware: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<FilePort>,
    gids: Vec<FileGid>,
    rail_reason: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct FilePort {
    number: u32,
    #[serde(default)]
    state: FileState,
    #[serde(default)]
    physical: FilePhysical,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct FileGid {
    #[serde(default)]
    index: u32,
    gid: Ipv6Addr,
    #[serde(rename = "type", default)]
    kind: FileGidKind,
    #[serde(default)]
    netdev: String,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct FileGpuFacts {
    pci: FilePci,
    driver: String,
    driver_version: String,
    nic: String,
    nic_distance: FileDistance,
    links: Vec<FileLink>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_direct: Option<FileGpuDirect>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mig: Option<FileMig>,
}

/// A partition of a GPU: the driver's numbers.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct FileMig {
    gpu_instance: u32,
    compute_instance: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct FileGpuDirect {
    path: FilePath,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    causes: Vec<FileCause>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct FileCause {
    path: FilePath,
    code: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    fix: String,
}

/// A way must be said: there is none that is not known.
#[derive(Serialize, Deserialize, Clone, Copy)]
enum FilePath {
    #[serde(rename = "DMA_BUF")]
    DmaBuf,
    #[serde(rename = "PEER_MEMORY")]
    PeerMemory,
    #[serde(rename = "HOST_STAGING")]
    HostStaging,
}

impl From<FilePath> for GpuPath {
    fn from(path: FilePath) -> Self {
        match path {
            FilePath::DmaBuf => Self::DmaBuf,
            FilePath::PeerMemory => Self::PeerMemory,
            FilePath::HostStaging => Self::HostStaging,
        }
    }
}

impl From<GpuPath> for FilePath {
    fn from(path: GpuPath) -> Self {
        match path {
            GpuPath::DmaBuf => Self::DmaBuf,
            GpuPath::PeerMemory => Self::PeerMemory,
            GpuPath::HostStaging => Self::HostStaging,
        }
    }
}

#[derive(Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct FileLink {
    peer: FilePeer,
    gpu: u32,
    count: u32,
    version: u32,
}

/// An enum of the schema with its words; the first says that it is not known.
macro_rules! words {
    ($name:ident = $none:literal $unknown:ident, $($word:literal $variant:ident,)*) => {
        #[derive(Serialize, Deserialize, Default, Clone, Copy)]
        enum $name {
            #[default]
            #[serde(rename = $none)]
            $unknown,
            $(#[serde(rename = $word)] $variant,)*
        }
    };
}

/// The same for enums that are an option in the domain.
macro_rules! option {
    ($name:ident: $model:ident = $none:literal, $($word:literal $variant:ident,)*) => {
        words! { $name = $none Unspecified, $($word $variant,)* }

        impl From<$name> for Option<$model> {
            fn from(file: $name) -> Self {
                match file {
                    $name::Unspecified => None,
                    $($name::$variant => Some($model::$variant),)*
                }
            }
        }

        impl From<Option<$model>> for $name {
            fn from(model: Option<$model>) -> Self {
                match model {
                    None => Self::Unspecified,
                    $(Some($model::$variant) => Self::$variant,)*
                }
            }
        }
    };
}

option! { FileState: PortState = "STATE_UNSPECIFIED",
    "DOWN" Down, "INIT" Init, "ARMED" Armed, "ACTIVE" Active, "ACTIVE_DEFER" ActiveDefer,
}
option! { FilePhysical: PhysicalState = "PHYSICAL_UNSPECIFIED",
    "SLEEP" Sleep, "POLLING" Polling, "DISABLED" Disabled, "TRAINING" Training, "LINK_UP" LinkUp,
    "ERROR_RECOVERY" ErrorRecovery, "PHY_TEST" PhyTest,
}
option! { FileDistance: Distance = "DISTANCE_UNSPECIFIED", "PIX" Pix, "PXB" Pxb, "PHB" Phb, "SYS" Sys, }
words! { FileGidKind = "TYPE_UNSPECIFIED" Other, "ROCE_V1" RoceV1, "ROCE_V2" RoceV2, }
words! { FilePeer = "PEER_UNSPECIFIED" Other, "GPU" Gpu, "SWITCH" Switch, }

/// What is wrong with the texts and lists of `field`.
fn check(field: &str, texts: &[(&str, &str)], lists: &[(&str, usize)], wrong: &mut Vec<String>) {
    for (name, text) in texts {
        if text.len() > TEXT_MAX || text.chars().any(char::is_control) {
            wrong.push(format!(
                "{field}.facts.{name}: must be one printable line of at most {TEXT_MAX} bytes"
            ));
        }
    }
    for (name, length) in lists {
        if *length > LIST_MOST {
            wrong.push(format!("{field}.facts.{name}: {length} are more than {LIST_MOST}"));
        }
    }
}

fn check_pci(field: &str, pci: &FilePci, wrong: &mut Vec<String>) {
    let FilePci { id, class, path, speed, slot, .. } = pci;
    let texts =
        [("pci.id", id), ("pci.class", class), ("pci.path", path), ("pci.speed", speed), ("pci.slot", slot)];
    check(field, &texts.map(|(name, text)| (name, text.as_str())), &[], wrong);
}

impl FileNicFacts {
    pub(super) fn checked(self, field: &str, wrong: &mut Vec<String>) -> NicFacts {
        let Self { pci, driver, firmware, port, gids, rail_reason } = self;
        let texts = [("driver", &driver), ("firmware", &firmware), ("railReason", &rail_reason)];
        check(field, &texts.map(|(name, text)| (name, text.as_str())), &[("gids", gids.len())], wrong);
        check_pci(field, &pci, wrong);
        for (at, gid) in gids.iter().enumerate() {
            check(field, &[(&format!("gids[{at}].netdev"), &gid.netdev)], &[], wrong);
        }
        let port = port.map(|port| NicPort {
            number: port.number,
            state: port.state.into(),
            physical: port.physical.into(),
        });
        let gid = |gid: FileGid| {
            let kind = match gid.kind {
                FileGidKind::Other => GidKind::Other,
                FileGidKind::RoceV1 => GidKind::RoceV1,
                FileGidKind::RoceV2 => GidKind::RoceV2,
            };
            Gid { index: gid.index, gid: gid.gid, kind, netdev: gid.netdev }
        };
        let gids = gids.into_iter().map(gid).collect();
        NicFacts { pci: pci.into(), driver, firmware, port, gids, rail_reason }
    }
}

impl FileGpuFacts {
    pub(super) fn checked(self, field: &str, wrong: &mut Vec<String>) -> GpuFacts {
        let Self { pci, driver, driver_version, nic, nic_distance, links, gpu_direct, mig } = self;
        let texts = [("driver", &driver), ("driverVersion", &driver_version), ("nic", &nic)];
        check(field, &texts.map(|(name, text)| (name, text.as_str())), &[("links", links.len())], wrong);
        check_pci(field, &pci, wrong);
        for (at, link) in links.iter().enumerate().filter(|(_, link)| link.gpu >= INDEX_MAX) {
            wrong.push(format!("{field}.facts.links[{at}].gpu: {} is not below {}", link.gpu, INDEX_MAX));
        }
        let link = |link: FileLink| {
            let peer = match link.peer {
                FilePeer::Other => LinkPeer::Other,
                FilePeer::Gpu => LinkPeer::Gpu(link.gpu),
                FilePeer::Switch => LinkPeer::Switch,
            };
            GpuLink { peer, count: link.count, version: link.version }
        };
        let links = links.into_iter().map(link).collect();
        let gpu_direct = gpu_direct.map(|direct| direct.checked(field, wrong));
        let nic_distance = nic_distance.into();
        let mig = mig
            .map(|FileMig { gpu_instance, compute_instance }| MigInstance { gpu_instance, compute_instance });
        GpuFacts { pci: pci.into(), driver, driver_version, nic, nic_distance, links, gpu_direct, mig }
    }
}

impl FileGpuDirect {
    fn checked(self, field: &str, wrong: &mut Vec<String>) -> GpuDirect {
        let lists = [("gpuDirect.causes", self.causes.len())];
        check(field, &[("gpuDirect.reason", &self.reason)], &lists, wrong);
        for (at, cause) in self.causes.iter().enumerate() {
            let name = |of: &str| format!("gpuDirect.causes[{at}].{of}");
            let texts =
                [(name("code"), &cause.code), (name("message"), &cause.message), (name("fix"), &cause.fix)];
            let texts: Vec<(&str, &str)> =
                texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
            check(field, &texts, &[], wrong);
        }
        let cause = |cause: FileCause| PathCause {
            path: cause.path.into(),
            code: PathCauseCode::from_text(&cause.code),
            message: cause.message,
            fix: cause.fix,
        };
        let causes = self.causes.into_iter().map(cause).collect();
        GpuDirect { path: self.path.into(), reason: self.reason, causes }
    }
}

impl From<&GpuDirect> for FileGpuDirect {
    fn from(direct: &GpuDirect) -> Self {
        let cause = |cause: &PathCause| FileCause {
            path: cause.path.into(),
            code: cause.code.to_string(),
            message: cause.message.clone(),
            fix: cause.fix.clone(),
        };
        let causes = direct.causes.iter().map(cause).collect();
        Self { path: direct.path.into(), reason: direct.reason.clone(), causes }
    }
}

impl From<FilePci> for PciDevice {
    fn from(FilePci { id, class, path, speed, width, slot }: FilePci) -> Self {
        Self { id, class, path, speed, width, slot }
    }
}

impl From<&PciDevice> for FilePci {
    fn from(pci: &PciDevice) -> Self {
        let PciDevice { id, class, path, speed, width, slot } = pci.clone();
        Self { id, class, path, speed, width, slot }
    }
}

impl From<&NicFacts> for FileNicFacts {
    fn from(facts: &NicFacts) -> Self {
        let gid = |gid: &Gid| FileGid {
            index: gid.index,
            gid: gid.gid,
            kind: match gid.kind {
                GidKind::Other => FileGidKind::Other,
                GidKind::RoceV1 => FileGidKind::RoceV1,
                GidKind::RoceV2 => FileGidKind::RoceV2,
            },
            netdev: gid.netdev.clone(),
        };
        let port = |port: NicPort| FilePort {
            number: port.number,
            state: port.state.into(),
            physical: port.physical.into(),
        };
        Self {
            pci: (&facts.pci).into(),
            driver: facts.driver.clone(),
            firmware: facts.firmware.clone(),
            port: facts.port.map(port),
            gids: facts.gids.iter().map(gid).collect(),
            rail_reason: facts.rail_reason.clone(),
        }
    }
}

impl From<&GpuFacts> for FileGpuFacts {
    fn from(facts: &GpuFacts) -> Self {
        let link = |link: &GpuLink| {
            let (peer, gpu) = match link.peer {
                LinkPeer::Other => (FilePeer::Other, 0),
                LinkPeer::Gpu(gpu) => (FilePeer::Gpu, gpu),
                LinkPeer::Switch => (FilePeer::Switch, 0),
            };
            FileLink { peer, gpu, count: link.count, version: link.version }
        };
        Self {
            pci: (&facts.pci).into(),
            driver: facts.driver.clone(),
            driver_version: facts.driver_version.clone(),
            nic: facts.nic.clone(),
            nic_distance: facts.nic_distance.into(),
            links: facts.links.iter().map(link).collect(),
            gpu_direct: facts.gpu_direct.as_ref().map(Into::into),
            mig: facts.mig.map(|MigInstance { gpu_instance, compute_instance }| FileMig {
                gpu_instance,
                compute_instance,
            }),
        }
    }
}
