//! The choice.

use proto_model::{Distance, GpuDirect, GpuPath};

use crate::causes::{against, slow};
use crate::facts::{Pair, Server, Vendor};

/// The best way that nothing rules out, from a GPU to a NIC that is at most `farthest` away, with all that rules out better ones
/// and what makes it slow.
#[must_use]
pub fn choose(server: &Server, pair: &Pair, farthest: Distance) -> GpuDirect {
    let mut causes = Vec::new();
    for path in GpuPath::ALL {
        let found = against(path, server, pair, farthest);
        if found.is_empty() {
            causes.extend(slow(path, pair));
            return GpuDirect { path, reason: reason(path, server, pair), causes };
        }
        causes.extend(found);
    }
    let path = GpuPath::HostStaging;
    GpuDirect { path, reason: reason(path, server, pair), causes }
}

fn reason(path: GpuPath, server: &Server, pair: &Pair) -> String {
    let (nic, distance) = (&pair.nic, pair.distance.as_str());
    match path {
        GpuPath::DmaBuf => {
            let kernel =
                server.kernel.map_or_else(String::new, |(major, minor)| format!("Linux {major}.{minor}, "));
            let by = if pair.vendor == Vendor::Amd { "HSA" } else { "CUDA" };
            format!("{kernel}memory exported by {by} and registered by {nic} ({distance})")
        }
        GpuPath::PeerMemory => {
            let by = if pair.vendor == Vendor::Amd { "amdgpu" } else { "nvidia_peermem" };
            format!(
                "{by} is loaded and known to the RDMA core of {nic} ({distance}); this is for programs that hold NICs themselves \
                 (NCCL), Railyard's engine stages in host memory"
            )
        }
        GpuPath::HostStaging => format!("payloads are copied through host memory to {nic} ({distance})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Iommu, Library, Peer};
    use proptest::prelude::*;

    fn server() -> Server {
        Server {
            kernel: Some((5, 15)),
            verbs: Library::Ready,
            cuda: Library::Ready,
            hsa: Library::Ready,
            nvidia_open: Some(true),
            nvidia_peer: Peer::Ready,
            amd_peer: Peer::Ready,
        }
    }

    fn pair() -> Pair {
        Pair {
            vendor: Vendor::Nvidia,
            nic: "mlx5_0".into(),
            rdma: true,
            software: false,
            distance: Distance::Pix,
            iommu: Iommu::Direct,
            redirects: Vec::new(),
            window: Some(128 << 30),
            memory: 80 << 30,
        }
    }

    #[test]
    fn the_engine_never_goes_by_peer_memory() {
        let choice = choose(&Server { kernel: Some((5, 4)), ..server() }, &pair(), Distance::Pxb);
        assert_eq!((choice.path, choice.engine()), (PeerMemory, HostStaging));
        assert!(choice.reason.contains("engine stages in host memory"), "{}", choice.reason);
        assert_eq!(choose(&server(), &pair(), Distance::Pxb).engine(), DmaBuf);
    }

    fn reported(server: &Server, pair: &Pair) -> (GpuPath, Vec<(GpuPath, String)>) {
        let choice = choose(server, pair, Distance::Pxb);
        (choice.path, choice.causes.into_iter().map(|cause| (cause.path, cause.code.to_string())).collect())
    }

    use GpuPath::{DmaBuf, HostStaging, PeerMemory};
    /// What is changed of a server where all is well, the way that is taken then, and what is said of others.
    type Case = (&'static str, fn(&mut Server, &mut Pair), GpuPath, &'static [(GpuPath, &'static str)]);
    const CASES: &[Case] = &[
        ("all is well", |_, _| {}, DmaBuf, &[]),
        ("an old kernel", |s, _| s.kernel = Some((5, 11)), PeerMemory, &[(DmaBuf, "KernelTooOld")]),
        ("a kernel that does not tell", |s, _| s.kernel = None, DmaBuf, &[]),
        ("no libibverbs", |s, _| s.verbs = Library::Absent, PeerMemory, &[(DmaBuf, "LibraryMissing")]),
        ("an old libibverbs", |s, _| s.verbs = Library::TooOld, PeerMemory, &[(DmaBuf, "LibraryTooOld")]),
        ("no libcuda", |s, _| s.cuda = Library::Absent, PeerMemory, &[(DmaBuf, "ExporterMissing")]),
        ("an old libcuda", |s, _| s.cuda = Library::TooOld, PeerMemory, &[(DmaBuf, "ExporterTooOld")]),
        ("no HSA matters to AMD only", |s, _| s.hsa = Library::Absent, DmaBuf, &[]),
        (
            "the proprietary module",
            |s, _| s.nvidia_open = Some(false),
            PeerMemory,
            &[(DmaBuf, "OpenModuleNeeded")],
        ),
        (
            "the proprietary module alone",
            |s, _| (s.nvidia_open, s.nvidia_peer) = (Some(false), Peer::Absent),
            HostStaging,
            &[(DmaBuf, "OpenModuleNeeded"), (PeerMemory, "ModuleMissing")],
        ),
        (
            "a module that was built for another core",
            |s, _| (s.kernel, s.nvidia_peer) = (Some((4, 18)), Peer::Unregistered),
            HostStaging,
            &[(DmaBuf, "KernelTooOld"), (PeerMemory, "ModuleUnregistered")],
        ),
        (
            "peer memory behind an IOMMU",
            |s, p| (s.kernel, p.iommu) = (Some((4, 18)), Iommu::Translates),
            HostStaging,
            &[(DmaBuf, "KernelTooOld"), (PeerMemory, "IommuTranslates")],
        ),
        (
            "dma-buf behind an IOMMU",
            |_, p| p.iommu = Iommu::Translates,
            DmaBuf,
            &[(DmaBuf, "IommuTranslates")],
        ),
        ("ACS", |_, p| p.redirects = vec!["0000:17:00.0".into()], DmaBuf, &[(DmaBuf, "AcsRedirect")]),
        ("a small BAR1", |_, p| p.window = Some(256 << 20), DmaBuf, &[(DmaBuf, "SmallWindow")]),
        ("memory that is not known", |_, p| (p.window, p.memory) = (Some(1), 0), DmaBuf, &[]),
        (
            "through the processor",
            |_, p| p.distance = Distance::Sys,
            HostStaging,
            &[(DmaBuf, "TooFar"), (PeerMemory, "TooFar")],
        ),
        ("no RDMA", |_, p| p.rdma = false, HostStaging, &[(DmaBuf, "NoRdma"), (PeerMemory, "NoRdma")]),
        (
            "Soft-RoCE",
            |_, p| p.software = true,
            HostStaging,
            &[(DmaBuf, "SoftwareRdma"), (PeerMemory, "SoftwareRdma")],
        ),
        (
            "another vendor",
            |_, p| p.vendor = Vendor::Other,
            HostStaging,
            &[(DmaBuf, "UnknownVendor"), (PeerMemory, "UnknownVendor")],
        ),
        (
            "AMD without HSA",
            |s, p| (s.hsa, p.vendor) = (Library::Absent, Vendor::Amd),
            PeerMemory,
            &[(DmaBuf, "ExporterMissing")],
        ),
    ];

    #[test]
    fn each_fact_speaks_against_its_way() {
        for (name, change, path, causes) in CASES {
            let (mut server, mut pair) = (server(), pair());
            change(&mut server, &mut pair);
            let causes: Vec<_> = causes.iter().map(|(path, code)| (*path, (*code).to_owned())).collect();
            assert_eq!(reported(&server, &pair), (*path, causes), "{name}");
        }
    }

    #[test]
    fn how_far_a_nic_may_be_is_the_callers_to_say() {
        let far = Pair { distance: Distance::Phb, ..pair() };
        assert_eq!(choose(&server(), &far, Distance::Pxb).path, GpuPath::HostStaging);
        let choice = choose(&server(), &far, Distance::Phb);
        assert_eq!((choice.path, choice.causes[0].code.as_str()), (GpuPath::DmaBuf, "ThroughProcessor"));
    }

    fn library() -> impl Strategy<Value = Library> {
        prop::sample::select(vec![Library::Unknown, Library::Absent, Library::TooOld, Library::Ready])
    }

    fn peer() -> impl Strategy<Value = Peer> {
        prop::sample::select(vec![Peer::Absent, Peer::Unregistered, Peer::Ready])
    }

    prop_compose! {
        fn servers()(
            kernel in prop::option::of((4u32..7, 0u32..20)), verbs in library(), cuda in library(), hsa in library(),
            nvidia_open in prop::option::of(any::<bool>()), nvidia_peer in peer(), amd_peer in peer(),
        ) -> Server {
            Server { kernel, verbs, cuda, hsa, nvidia_open, nvidia_peer, amd_peer }
        }
    }

    prop_compose! {
        fn pairs()(
            vendor in prop::sample::select(vec![Vendor::Nvidia, Vendor::Amd, Vendor::Other]),
            rdma in any::<bool>(), software in any::<bool>(),
            distance in prop::sample::select(vec![Distance::Pix, Distance::Pxb, Distance::Phb, Distance::Sys]),
            iommu in prop::sample::select(vec![Iommu::Unknown, Iommu::Direct, Iommu::Translates]),
            bridges in 0usize..12, window in prop::option::of(any::<u64>()), memory in any::<u64>(),
        ) -> Pair {
            let redirects = (0..bridges).map(|at| format!("0000:{at:02x}:00.0")).collect();
            Pair { vendor, nic: "mlx5_0".into(), rdma, software, distance, iommu, redirects, window, memory }
        }
    }

    proptest! {
        #[test]
        fn every_better_way_is_refused_with_a_fix(server in servers(), pair in pairs()) {
            let choice = choose(&server, &pair, Distance::Pxb);
            for path in GpuPath::ALL.into_iter().filter(|path| *path < choice.path) {
                prop_assert!(choice.causes.iter().any(|cause| cause.path == path), "{path:?}");
            }
            for cause in &choice.causes {
                prop_assert!(cause.path <= choice.path && !cause.fix.is_empty() && !cause.message.is_empty());
                // As a controller takes it.
                prop_assert!(cause.message.len() <= 256 && cause.fix.len() <= 256, "{cause:?}");
            }
            prop_assert!(choice.reason.len() <= 256);
        }

        /// To mend what is wrong never leads to a worse way.
        #[test]
        fn what_is_mended_is_no_worse(server in servers(), pair in pairs()) {
            let before = choose(&server, &pair, Distance::Pxb).path;
            let remediated = [
                Server { kernel: Some((6, 12)), ..server.clone() },
                Server { verbs: Library::Ready, cuda: Library::Ready, hsa: Library::Ready, ..server.clone() },
                Server { nvidia_open: Some(true), ..server.clone() },
                Server { nvidia_peer: Peer::Ready, amd_peer: Peer::Ready, ..server.clone() },
            ];
            for remediated in remediated {
                prop_assert!(choose(&remediated, &pair, Distance::Pxb).path <= before);
            }
            let near = Pair { distance: Distance::Pix, iommu: Iommu::Direct, rdma: true, software: false, ..pair };
            prop_assert!(choose(&server, &near, Distance::Pxb).path <= before);
        }
    }
}
