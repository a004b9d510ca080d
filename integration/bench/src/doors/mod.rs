//! Doors: Railyard used by other schedulers and libraries as they are. S1, jobs of a real Slurm run where Railyard would place them; S2, both are
//! killed meanwhile; S3, batch scripts that were written for Slurm; K1, gangs of a real Kueue; K2, claims of rails at Kubernetes' kubelet; K3, custom resources of a real Kubernetes
//! while its API server and the controller are killed; N1, NCCL's messages over the rails of its plugin; P1, PyTorch's own distributed tests.

mod claims;
mod gangs;
mod kills;
mod nccl;
mod objects;
mod scripts;
mod settings;
mod slurm;
mod torch;

pub use settings::Bench;

use crate::report::Row;

/// A function that measures one row.
pub type Measure = fn(&Row<'_>, &Bench) -> Result<(), String>;

/// The rows of this bench.
pub const ROWS: [(&str, Measure); 8] = [
    ("S1", slurm::placed),
    ("S2", kills::survived),
    ("S3", scripts::read),
    ("K1", gangs::admitted),
    ("K2", claims::prepared),
    ("K3", objects::converged),
    ("N1", nccl::carried),
    ("P1", torch::tests),
];
