//! What NICs and GPUs say of themselves.

use proto_model::{
    Distance, Gid, GidKind, GpuDirect, GpuFacts, GpuLink, GpuPath, LinkPeer, NicFacts, NicPort, PathCause,
    PciDevice, PhysicalState, PortState,
};

use crate::v1;

impl From<&PciDevice> for v1::PciDevice {
    fn from(pci: &PciDevice) -> Self {
        let PciDevice { id, class, path, speed, width, slot } = pci.clone();
        Self { id, class, path, speed, width, slot }
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

impl From<&GpuFacts> for v1::GpuFacts {
    fn from(facts: &GpuFacts) -> Self {
        use v1::gpu_facts::Distance as Stored;
        let distance = match facts.nic_distance {
            None => Stored::Unspecified,
            Some(Distance::Pix) => Stored::Pix,
            Some(Distance::Pxb) => Stored::Pxb,
            Some(Distance::Phb) => Stored::Phb,
            Some(Distance::Sys) => Stored::Sys,
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

fn path_to_row(path: GpuPath) -> i32 {
    use v1::gpu_direct::Path;
    let path = match path {
        GpuPath::DmaBuf => Path::DmaBuf,
        GpuPath::PeerMemory => Path::PeerMemory,
        GpuPath::HostStaging => Path::HostStaging,
    };
    path.into()
}

impl From<&GpuDirect> for v1::GpuDirect {
    fn from(direct: &GpuDirect) -> Self {
        let cause = |cause: &PathCause| v1::gpu_direct::Cause {
            path: path_to_row(cause.path),
            code: cause.code.as_str().to_owned(),
            message: cause.message.clone(),
            fix: cause.fix.clone(),
        };
        Self {
            path: path_to_row(direct.path),
            reason: direct.reason.clone(),
            causes: direct.causes.iter().map(cause).collect(),
        }
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
