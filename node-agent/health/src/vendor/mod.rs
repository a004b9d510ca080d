//! What each vendor calls what: data, no branches. A new name is a new row.
//!
//! Sources: the kernel's `Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst` and
//! `drivers/infiniband/hw/{mlx5/counters.c, bnxt_re/hw_counters.c, irdma/verbs.c, ionic}`, `drivers/infiniband/sw/rxe/
//! rxe_hw_counters.c`, `drivers/infiniband/core/sysfs.c` for the standard port counters.

mod bnxt_re;
mod common;
mod ionic;
mod irdma;
mod mlx5;
mod row;
mod rxe;
#[cfg(test)]
mod tests;

pub use row::{Row, Source};
use row::{ethtool, hardware, row};

/// Whose driver a device has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Vendor {
    /// NVIDIA ConnectX and BlueField.
    Mlx5,
    /// Broadcom NetXtreme-E (`bnxt_re`).
    BnxtRe,
    /// Intel Ethernet (`irdma`).
    Irdma,
    /// The kernel's RoCE in software.
    Rxe,
    /// AMD Pollara (`ionic`).
    Ionic,
    /// Any other: the standard counters only.
    Other,
}

impl Vendor {
    /// All vendors, in the order of their definition.
    pub const ALL: [Self; 6] = [Self::Mlx5, Self::BnxtRe, Self::Irdma, Self::Rxe, Self::Ionic, Self::Other];

    /// By the name of the kernel's driver (RDMA or network).
    #[must_use]
    pub fn of_driver(driver: &str) -> Self {
        match driver {
            "mlx5_core" | "mlx5_ib" | "mlx5" => Self::Mlx5,
            "bnxt_en" | "bnxt_re" => Self::BnxtRe,
            "ice" | "irdma" | "i40e" => Self::Irdma,
            "rxe" | "rdma_rxe" => Self::Rxe,
            "ionic" | "ionic_rdma" => Self::Ionic,
            _ => Self::Other,
        }
    }

    /// Its own rows; the standard ones come after them.
    fn own(self) -> &'static [Row] {
        match self {
            Self::Mlx5 => mlx5::ROWS,
            Self::BnxtRe => bnxt_re::ROWS,
            Self::Irdma => irdma::ROWS,
            Self::Rxe => rxe::ROWS,
            Self::Ionic => ionic::ROWS,
            Self::Other => &[],
        }
    }

    /// All rows that hold for its devices.
    pub fn rows(self) -> impl Iterator<Item = &'static Row> {
        self.own().iter().chain(common::ROWS)
    }
}
