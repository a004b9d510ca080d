//! What the drivers can do, by which interface, and what it does to traffic: tables, not branches.
//!
//! Each table names its sources. What a table says of the order of steps inside a driver was read in the driver.

mod bnxt;
mod ice;
mod mlx5;
mod other;
pub mod path;
mod row;

use crate::observed::Observed;

pub use row::{
    AppStyle, Aspect, DcbxStyle, DelayMeaning, How, Interface, RateStep, Row, Tool, TrustStyle, Vendor,
    Version, Weight, aspect,
};

impl Vendor {
    /// What is read back where `rate` (kbit/s) was set: the multiple of the step below it, and one step where that is none.
    #[must_use]
    pub fn rate_kept(&self, rate: u64) -> u64 {
        let Some(RateStep { step, .. }) = self.rates.iter().find(|row| rate <= row.up_to) else {
            return rate;
        };
        if rate == 0 { 0 } else { (rate / step).max(1) * step }
    }
}

/// All tables; the first that matches counts.
pub static VENDORS: [&Vendor; 7] = [
    &other::RXE,
    &mlx5::PACKAGE,
    &mlx5::KERNEL,
    &bnxt::PACKAGE,
    &bnxt::KERNEL,
    &ice::KERNEL,
    &other::UNKNOWN,
];

/// The table of a NIC.
#[must_use]
pub fn of(observed: &Observed) -> &'static Vendor {
    VENDORS.into_iter().find(|vendor| vendor.matches(observed)).unwrap_or(&other::UNKNOWN)
}

/// The table of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Vendor> {
    VENDORS.into_iter().find(|vendor| vendor.name == name)
}

impl Vendor {
    /// The row of `aspect`; every table has one for each.
    #[must_use]
    pub fn row(&self, aspect: Aspect) -> Row {
        let none = How::Never { why: "nothing is known of it", weight: Weight::Matters };
        let found = self.rows.iter().find(|row| row.aspect == aspect).copied();
        found.unwrap_or(Row { aspect, how: none, factory: "" })
    }

    fn matches(&self, observed: &Observed) -> bool {
        let device = &observed.device;
        let soft = device.pci.is_none() && device.rdma.is_some();
        if self.software {
            return soft;
        }
        let driver = self.drivers.is_empty() || self.drivers.contains(&device.driver.as_str());
        driver && self.version.matches(&device.driver_version)
    }
}
