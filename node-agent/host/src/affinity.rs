//! Which NIC is nearest to a GPU: by PCIe path, then by NUMA node, then by their order on the server.

pub use proto_model::Distance;
use proto_model::{Gpu, Nic};

use crate::discovery::Discovery;

/// How far a NIC is from a GPU. Without PCIe paths the NUMA nodes decide between `Phb` and `Sys`.
#[must_use]
pub fn distance(discovery: &Discovery, gpu: &Gpu, nic: &Nic) -> Distance {
    let paths = &discovery.pci_paths;
    if let (Some(a), Some(b)) = (paths.get(&gpu.pci_address), paths.get(&nic.pci_address)) {
        let shared = a.iter().zip(b).take_while(|(x, y)| x == y).count();
        // The first component is the host bridge (`pci0000:17`), the second its root port. Functions of one device
        // and devices behind one switch share all but their own last components (port and device).
        let own = (a.len().max(b.len())).saturating_sub(shared);
        match shared {
            0 => {}
            1 => return Distance::Phb,
            _ if own <= 2 => return Distance::Pix,
            _ => return Distance::Pxb,
        }
    }
    match (gpu.numa_node, nic.numa_node) {
        (Some(a), Some(b)) if a == b => Distance::Phb,
        _ => Distance::Sys,
    }
}

/// The NIC of `nics` that is nearest to `gpu`. Among equals each GPU gets the one of its own rank among the equals,
/// so that eight GPUs spread over eight NICs.
#[must_use]
pub fn nearest<'a>(discovery: &Discovery, gpu: &Gpu, nics: &[&'a Nic]) -> Option<&'a Nic> {
    let best = nics.iter().map(|nic| distance(discovery, gpu, nic)).min()?;
    let equals: Vec<&&Nic> = nics.iter().filter(|nic| distance(discovery, gpu, nic) == best).collect();
    // The GPUs that compete for the same NICs, in order.
    let rank = discovery
        .inventory
        .gpus
        .iter()
        .filter(|other| equals.iter().all(|nic| distance(discovery, other, nic) == best))
        .position(|other| other.index == gpu.index)
        .unwrap_or(0);
    equals.get(rank % equals.len()).map(|nic| **nic)
}

impl Discovery {
    /// Says of each GPU which NIC is nearest to it, and how far.
    #[must_use]
    pub fn with_affinity(mut self) -> Self {
        let nics: Vec<&Nic> = self.inventory.nics.iter().collect();
        let near = |gpu: &Gpu| {
            let nic = nearest(&self, gpu, &nics)?;
            Some((nic.device.clone(), distance(&self, gpu, nic)))
        };
        let found: Vec<_> = self.inventory.gpus.iter().map(near).collect();
        for (gpu, near) in self.inventory.gpus.iter_mut().zip(found) {
            if let (Some(facts), Some((nic, distance))) = (&mut gpu.facts, near) {
                (facts.nic, facts.nic_distance) = (nic, Some(distance));
            }
        }
        self
    }
}
